//! Integration tests of stores and drives. One program, because building and linking is the dearest part of such a test. Tests that need a
//! program of their own have one: `allocator` looks at the memory of its process; guests run `block_device` and `zoned_conformance`.

mod contract;
mod crash;
mod directory;
mod emulator;
mod tiers;
mod wrappers;
mod zoned;
mod zoned_store;
