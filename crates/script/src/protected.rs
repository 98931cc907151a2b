//! Protected tables: a script reads them and cannot change them.
//!
//! Lua 5.1 has no read-only tables. A protected table is an empty table whose metatable leads to the table behind it.

use crate::lua::{Kind, Stack, native};
use std::ffi::{c_int, c_void};

/// Error of a script that writes to a protected table.
pub(crate) const READ_ONLY: &str = "Attempt to modify a readonly table";

fn read_only(lua: Stack) -> c_int {
    lua.fail(format_args!("{READ_ONLY}"))
}

/// Number in the registry of the table behind a protected one.
fn behind(lua: Stack, address: *const c_void) -> Option<c_int> {
    lua.state().protected.get().iter().find(|(table, _)| *table == address).map(|(_, number)| *number)
}

/// Number in the registry of the table behind the first argument, if that is a protected table.
pub(crate) fn behind_argument(lua: Stack) -> Option<c_int> {
    if lua.kind(1) == Kind::Table { behind(lua, lua.pointer(1)) } else { None }
}

/// Replaces the table on top by a protected one. `metatable`: slot of the table that `getmetatable` returns for it; 0: nil.
pub(crate) fn protect(lua: Stack, metatable: c_int) {
    lua.new_table(0, 0);
    lua.new_table(0, 3);
    lua.copy(-3);
    lua.set_field(-2, b"__index");
    lua.push_native(native(read_only), 0);
    lua.set_field(-2, b"__newindex");
    if metatable == 0 {
        lua.push_boolean(false)
    } else {
        lua.copy(metatable)
    }
    lua.set_field(-2, b"__metatable");
    lua.set_metatable(-2);
    // The table behind stays in the registry as long as the machine lives.
    lua.insert(-2);
    let number = lua.keep();
    lua.state().protected.get().push((lua.pointer(-1), number));
}
