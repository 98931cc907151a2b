//! The store on zones, over an emulated drive in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod damage;
mod files;
mod metadata;
mod space;
mod support;
mod tree;
