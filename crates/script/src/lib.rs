//! Redis's Lua scripts and functions: a Lua 5.1 machine with the semantics of Redis 7, over a narrow interface to the server.
//!
//! * A [`Machine`] belongs to one thread. It keeps scripts by their digest and libraries by their name, and runs them.
//! * A [`Host`] is the server behind a script. Commands go out as borrowed arguments and come back as encoded replies.
//! * A script changes nothing that outlives it, except through its host and the settings of `cjson`: globals and libraries are read-only,
//!   and scripts reach no files, no processes and no bytecode. Scripts and functions have settings of their own.
//! * Memory of scripts is bounded. A script ends when its host says so: between instructions, and within long native loops.
//!
//! Lua itself is C (crate mlua-sys, vendored). Code with `unsafe` is in `lua.rs`, `state.rs` and `machine.rs`; the rule that all other code
//! here follows stands at the head of `lua.rs`.

mod bit;
mod coding;
mod functions;
mod host;
mod json;
mod library;
mod lua;
mod machine;
mod msgpack;
mod number;
mod pack;
mod pattern;
mod program;
mod protected;
mod redis;
mod reply;
mod sandbox;
pub mod sha1;
mod shebang;
mod sort;
mod state;
mod strings;

pub use host::{Failure, Host, Protocol, Verdict};
pub use library::{Function, Library};
pub use machine::{Machine, Settings};
pub use program::{Digest, Known, Program};
pub use shebang::Flags;
