//! Libraries of functions, as data.

use crate::shebang::Flags;
use std::ffi::c_int;

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name for `FCALL`, unique among all libraries.
    pub name: Vec<u8>,
    /// Description, if the library gives one.
    pub description: Option<Vec<u8>>,
    /// Flags that the library states for the function.
    pub flags: Flags,
}

/// A library of functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Name, from the first line of the code.
    pub name: Vec<u8>,
    /// Whole code, with its first line.
    pub code: Vec<u8>,
    /// Functions in the order of their registration.
    pub functions: Vec<Function>,
}

/// A function that the loading library has registered.
pub(crate) struct Registered {
    pub(crate) function: Function,
    /// Number of the Lua function in the registry.
    pub(crate) kept: c_int,
}
