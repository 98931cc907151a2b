//! Text that native functions build, in a buffer of the [`State`](crate::state::State). Its bytes are checked against the bound of Lua's
//! memory before they are allocated.

use crate::lua::Stack;

/// Raises Lua's error for memory if the text under construction would grow beyond the bound even after a collection of garbage, and counts
/// the steps of the growth.
pub(crate) fn grow(lua: Stack, bytes: usize) {
    let state = lua.state();
    let text = state.text.get().len().saturating_add(bytes);
    state.provide(lua, text);
    if text.saturating_add(state.used()) > state.memory_max() {
        state.refuse();
        lua.fail(format_args!("not enough memory"))
    }
    state.touch(lua, bytes);
}

/// Appends bytes to the text under construction.
pub(crate) fn put(lua: Stack, bytes: &[u8]) {
    grow(lua, bytes.len());
    lua.state().text.get().extend_from_slice(bytes);
}

/// Ends the text that began at `start`: pushes it and removes it from the buffer.
pub(crate) fn finish(lua: Stack, start: usize) {
    let text = lua.state().text.get();
    lua.push_bytes(&text[start..]);
    text.truncate(start);
}
