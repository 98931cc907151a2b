//! One program for all tests of the crate.

mod common;
mod functions;
mod limits;
mod programs;
mod redis;
mod scripts;
