//! The stack of a Lua machine: the calls into Lua's C code, with Rust types around them.
//!
//! Lua reports an error by `longjmp` to the protected call that encloses it. Methods that can allocate, and those that return `!`, may
//! leave their callers' frames in this way. Hence a rule for all code of this crate that runs inside a protected call, i.e. all functions
//! that [`native`] makes callable: no value with a destructor is alive in a frame while it calls a method of [`Stack`]. Buffers belong to
//! the [`State`], and frames hold references to them. The "C-unwind" ABI permits to leave such frames without unwinding.
//!
//! Indices count from 1 at the bottom of the frame, or from -1 at its top. Callers name slots that exist and reserve those beyond 20.

use crate::host::Verdict;
use crate::state::{INSTRUCTIONS, KILLED, Mode, State};
use mlua_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{Arguments, Write};

/// Pseudo-index of the registry.
pub(crate) const REGISTRY: c_int = ffi::LUA_REGISTRYINDEX;
/// Pseudo-index of the running thread's table of globals.
pub(crate) const GLOBALS: c_int = ffi::LUA_GLOBALSINDEX;
/// Number of results that asks for all.
pub(crate) const ALL: c_int = ffi::LUA_MULTRET;
/// Smallest block, bytes, for which [`State::provide`] is called before Lua allocates it.
const LARGE: usize = 64 << 10;
/// Approximate bytes of an item and of a field of a table.
const ITEM: usize = 16;
const FIELD: usize = 40;
/// Bytes of text for which a native function counts one step.
const BYTES_OF_STEP: usize = 64;
/// Longest text of an error, bytes; the rest is cut.
const TEXT_MAX: usize = 512;

/// Type of a Lua value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Nil,
    Boolean,
    Light,
    Number,
    String,
    Table,
    Function,
    Other,
}

/// A thread of a Lua machine, as a stack of values.
#[derive(Clone, Copy)]
pub(crate) struct Stack(*mut ffi::lua_State);

/// Function that Lua calls with its arguments on the stack; it returns how many results are on top.
pub(crate) type Native = ffi::lua_CFunction;

/// Makes a function callable from Lua. The function has no state of its own.
pub(crate) fn native<F: Fn(Stack) -> c_int + Copy>(_: F) -> Native {
    unsafe extern "C-unwind" fn enter<F: Fn(Stack) -> c_int + Copy>(lua: *mut ffi::lua_State) -> c_int {
        const { assert!(size_of::<F>() == 0, "a native function has no state") };
        // SAFETY: a type without bytes has one value, which exists: `native` was given it, and it may be copied.
        let function: F = unsafe { std::mem::zeroed() };
        function(Stack(lua))
    }
    enter::<F>
}

/// Index of a slot once one more value is on top.
fn below(at: c_int) -> c_int {
    if at < 0 && at > REGISTRY { at - 1 } else { at }
}

/// Text of bounded length without a heap allocation.
struct Text {
    bytes: [u8; TEXT_MAX],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let free = &mut self.bytes[self.length..];
        let taken = text.len().min(free.len());
        free[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

// SAFETY of every block below: `self.0` is a live thread of a machine that this thread of execution owns, the only way to make a `Stack`
// being `Stack::of` and `native`; slots are those that the caller names under the rules of the module.
impl Stack {
    /// Stack of a thread that is alive as long as the value is used.
    pub(crate) fn of(lua: *mut ffi::lua_State) -> Stack {
        Stack(lua)
    }

    /// Raw thread.
    pub(crate) fn raw(self) -> *mut ffi::lua_State {
        self.0
    }

    /// State of the machine.
    pub(crate) fn state<'a>(self) -> &'a State {
        let mut state = std::ptr::null_mut();
        // SAFETY: as above; the allocator's pointer is that of the `State`, which outlives its machine.
        unsafe {
            ffi::lua_getallocf(self.0, &mut state);
            &*state.cast::<State>()
        }
    }

    /// Number of values in the frame.
    pub(crate) fn top(self) -> c_int {
        unsafe { ffi::lua_gettop(self.0) }
    }

    /// Cuts the frame, or fills it with nil.
    pub(crate) fn set_top(self, top: c_int) {
        unsafe { ffi::lua_settop(self.0, top) }
    }

    /// Removes values from the top.
    pub(crate) fn pop(self, values: c_int) {
        unsafe { ffi::lua_settop(self.0, -values - 1) }
    }

    /// Pushes a copy.
    pub(crate) fn copy(self, at: c_int) {
        unsafe { ffi::lua_pushvalue(self.0, at) }
    }

    /// Moves the top value below the slot.
    pub(crate) fn insert(self, at: c_int) {
        unsafe { ffi::lua_insert(self.0, at) }
    }

    /// Removes a slot.
    pub(crate) fn remove(self, at: c_int) {
        unsafe { ffi::lua_remove(self.0, at) }
    }

    /// Moves the top value into a slot.
    pub(crate) fn replace(self, at: c_int) {
        unsafe { ffi::lua_replace(self.0, at) }
    }

    /// Reserves more slots; false if Lua's limit is reached.
    pub(crate) fn reserve(self, slots: c_int) -> bool {
        unsafe { ffi::lua_checkstack(self.0, slots) != 0 }
    }

    /// Type of a value.
    pub(crate) fn kind(self, at: c_int) -> Kind {
        match unsafe { ffi::lua_type(self.0, at) } {
            ffi::LUA_TNONE => Kind::None,
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::Light,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            _ => Kind::Other,
        }
    }

    /// Name of a value's type.
    pub(crate) fn type_name(self, at: c_int) -> &'static str {
        // SAFETY: as above; the names are constants of Lua in ASCII.
        unsafe { CStr::from_ptr(ffi::lua_typename(self.0, ffi::lua_type(self.0, at))).to_str().unwrap_or("value") }
    }

    /// Address of a table, function, thread or userdata.
    pub(crate) fn pointer(self, at: c_int) -> *const c_void {
        unsafe { ffi::lua_topointer(self.0, at) }
    }

    /// Value as a number, 0 if it is none.
    pub(crate) fn number(self, at: c_int) -> f64 {
        unsafe { ffi::lua_tonumber(self.0, at) }
    }

    /// Whether the value is a number or text of one.
    pub(crate) fn is_number(self, at: c_int) -> bool {
        unsafe { ffi::lua_isnumber(self.0, at) != 0 }
    }

    /// Value as a condition: false for nil and false, true for all others.
    pub(crate) fn boolean(self, at: c_int) -> bool {
        unsafe { ffi::lua_toboolean(self.0, at) != 0 }
    }

    /// Bytes of a string; a number becomes one in its slot. Valid while the value is in the machine.
    pub(crate) fn bytes<'a>(self, at: c_int) -> Option<&'a [u8]> {
        let mut length = 0;
        // SAFETY: as above; Lua's strings do not move.
        unsafe {
            let start = ffi::lua_tolstring(self.0, at, &mut length);
            (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// Length of a string or of a table's array.
    pub(crate) fn length(self, at: c_int) -> usize {
        unsafe { ffi::lua_objlen(self.0, at) }
    }

    /// Whether two values are equal, without metamethods.
    pub(crate) fn same(self, a: c_int, b: c_int) -> bool {
        unsafe { ffi::lua_rawequal(self.0, a, b) != 0 }
    }

    /// The operator `<`, which may call metamethods.
    pub(crate) fn less(self, a: c_int, b: c_int) -> bool {
        unsafe { ffi::lua_lessthan(self.0, a, b) != 0 }
    }

    pub(crate) fn push_nil(self) {
        unsafe { ffi::lua_pushnil(self.0) }
    }

    pub(crate) fn push_number(self, number: f64) {
        unsafe { ffi::lua_pushnumber(self.0, number) }
    }

    pub(crate) fn push_boolean(self, truth: bool) {
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(truth)) }
    }

    /// Pushes a string. Bytes that are borrowed from a Lua value come from one that the collector can reach.
    pub(crate) fn push_bytes(self, bytes: &[u8]) {
        if bytes.len() >= LARGE {
            self.state().provide(self, bytes.len());
        }
        unsafe { ffi::lua_pushlstring_(self.0, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Pushes a pointer as a light userdata, which Lua does not dereference.
    pub(crate) fn push_light(self, pointer: *mut c_void) {
        unsafe { ffi::lua_pushlightuserdata(self.0, pointer) }
    }

    /// Pointer of a light userdata.
    pub(crate) fn light(self, at: c_int) -> *mut c_void {
        unsafe { ffi::lua_touserdata(self.0, at) }
    }

    /// Pushes plain data that Lua owns.
    pub(crate) fn push_block<T: Copy>(self, value: T) {
        const { assert!(align_of::<T>() <= 8, "Lua aligns blocks to 8 bytes") };
        // SAFETY: as above; the block has the size that is written.
        unsafe { ffi::lua_newuserdata(self.0, size_of::<T>()).cast::<T>().write(value) };
    }

    /// Plain data in a slot that [`Stack::push_block`] filled with the same type.
    pub(crate) fn block<'a, T: Copy>(self, at: c_int) -> &'a std::cell::Cell<T> {
        // SAFETY: as above; blocks do not move, and no other kind of reference to them is made.
        unsafe { &*ffi::lua_touserdata(self.0, at).cast::<std::cell::Cell<T>>() }
    }

    /// Pushes a native function that keeps the top `values` values ([`Stack::kept`]).
    pub(crate) fn push_native(self, function: Native, values: c_int) {
        unsafe { ffi::lua_pushcclosure(self.0, function, values) }
    }

    /// Index of the n-th value that the running native function keeps, from 1.
    pub(crate) fn kept(n: c_int) -> c_int {
        ffi::lua_upvalueindex(n)
    }

    /// The native function in a slot.
    pub(crate) fn native_at(self, at: c_int) -> Option<Native> {
        unsafe { ffi::lua_tocfunction(self.0, at) }
    }

    /// Calls another native function with the arguments of the running one; its results are those of the running one.
    pub(crate) fn become_native(self, function: Native) -> c_int {
        unsafe { function(self.0) }
    }

    pub(crate) fn new_table(self, items: usize, fields: usize) {
        let small = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
        let bytes = items.saturating_mul(ITEM).saturating_add(fields.saturating_mul(FIELD));
        if bytes >= LARGE {
            self.state().provide(self, bytes);
        }
        unsafe { ffi::lua_createtable(self.0, small(items), small(fields)) }
    }

    /// Replaces the key on top by its value, without metamethods.
    pub(crate) fn raw_get(self, table: c_int) {
        unsafe { ffi::lua_rawget_(self.0, table) }
    }

    /// Pushes an item, without metamethods.
    pub(crate) fn raw_get_at(self, table: c_int, n: c_int) {
        unsafe { ffi::lua_rawgeti_(self.0, table, n) }
    }

    /// Pushes the value under a name, without metamethods.
    pub(crate) fn field(self, table: c_int, name: &[u8]) {
        self.push_bytes(name);
        self.raw_get(below(table));
    }

    /// Pushes the value for the key on top with metamethods, instead of the key.
    pub(crate) fn get(self, table: c_int) {
        unsafe { ffi::lua_gettable_(self.0, table) }
    }

    /// Sets `table[key] = value` with the value on top and the key below, without metamethods. The key is not nil.
    pub(crate) fn raw_set(self, table: c_int) {
        unsafe { ffi::lua_rawset(self.0, table) }
    }

    /// Sets an item to the value on top, without metamethods.
    pub(crate) fn raw_set_at(self, table: c_int, n: c_int) {
        unsafe { ffi::lua_rawseti_(self.0, table, n) }
    }

    /// Sets the value under a name to the one on top, without metamethods.
    pub(crate) fn set_field(self, table: c_int, name: &[u8]) {
        self.push_bytes(name);
        self.insert(-2);
        self.raw_set(below(table));
    }

    /// Replaces the key on top by the next key and its value; at the end, removes it. The key is nil at first, then that of the last call.
    pub(crate) fn next(self, table: c_int) -> bool {
        unsafe { ffi::lua_next(self.0, table) != 0 }
    }

    /// Pushes the metatable, if there is one.
    pub(crate) fn metatable(self, at: c_int) -> bool {
        unsafe { ffi::lua_getmetatable(self.0, at) != 0 }
    }

    /// Makes the table or nil on top the metatable of the value.
    pub(crate) fn set_metatable(self, at: c_int) {
        unsafe { ffi::lua_setmetatable(self.0, at) };
    }

    /// Makes the table on top the environment of the function.
    pub(crate) fn set_environment(self, function: c_int) {
        unsafe { ffi::lua_setfenv(self.0, function) };
    }

    /// Calls the function below its arguments.
    pub(crate) fn call(self, arguments: c_int, results: c_int) {
        unsafe { ffi::lua_call(self.0, arguments, results) }
    }

    /// Calls the function below its arguments; if it fails, the error is on top instead of results. `handler` is a slot, or 0.
    pub(crate) fn protected(self, arguments: c_int, results: c_int, handler: c_int) -> Result<(), c_int> {
        match unsafe { ffi::lua_pcall(self.0, arguments, results, handler) } {
            ffi::LUA_OK => Ok(()),
            status => Err(status),
        }
    }

    /// Compiles text, never bytecode. Pushes the function, or the error.
    pub(crate) fn load(self, code: &[u8], name: &CStr) -> bool {
        // Lua would load text that begins like bytecode as bytecode. With a blank in front it is text, and the parser reports an error.
        let code = if code.first() == Some(&ffi::LUA_SIGNATURE[0]) { b" \x1b" } else { code };
        // SAFETY: as above. The parser holds the name in a string that the collector may free (CVE-2025-49844). An equal string is on the
        // stack meanwhile and keeps it alive, since equal strings are one object. The text comes in one piece, so no script runs meanwhile.
        unsafe {
            ffi::lua_pushstring_(self.0, name.as_ptr());
            let loaded = ffi::luaL_loadbuffer(self.0, code.as_ptr().cast(), code.len(), name.as_ptr()) == ffi::LUA_OK;
            ffi::lua_remove(self.0, -2);
            loaded
        }
    }

    /// Moves the value on top into the registry; returns its number there.
    pub(crate) fn keep(self) -> c_int {
        unsafe { ffi::luaL_ref(self.0, REGISTRY) }
    }

    /// Removes a value from the registry.
    pub(crate) fn drop_kept(self, number: c_int) {
        unsafe { ffi::luaL_unref(self.0, REGISTRY, number) }
    }

    /// Raises the value on top as an error.
    pub(crate) fn raise(self) -> ! {
        unsafe { ffi::lua_error(self.0) }
    }

    /// Raises an error with the caller's line in front.
    pub(crate) fn fail(self, message: Arguments) -> ! {
        unsafe { ffi::luaL_where(self.0, 1) };
        self.push_text(message);
        unsafe { ffi::lua_concat(self.0, 2) };
        self.raise()
    }

    /// Pushes text of at most 512 bytes.
    pub(crate) fn push_text(self, message: Arguments) {
        let mut text = Text { bytes: [0; TEXT_MAX], length: 0 };
        // Writing to `Text` never fails: it keeps the part that fits.
        let _ = text.write_fmt(message);
        self.push_bytes(&text.bytes[..text.length]);
    }

    /// Raises an error about an argument.
    pub(crate) fn bad_argument(self, argument: c_int, message: &CStr) -> ! {
        unsafe { ffi::luaL_argerror(self.0, argument, message.as_ptr()) };
        self.raise()
    }

    /// Argument as a number.
    pub(crate) fn number_argument(self, argument: c_int) -> f64 {
        unsafe { ffi::luaL_checknumber(self.0, argument) }
    }

    /// Argument as an integer of 64 bits, without its fraction, as C converts it.
    pub(crate) fn integer_argument(self, argument: c_int) -> i64 {
        unsafe { ffi::luaL_checkinteger(self.0, argument) as i64 }
    }

    /// Optional argument as an integer.
    pub(crate) fn integer_or(self, argument: c_int, default: i64) -> i64 {
        if matches!(self.kind(argument), Kind::None | Kind::Nil) { default } else { self.integer_argument(argument) }
    }

    /// Argument as a string.
    pub(crate) fn bytes_argument<'a>(self, argument: c_int) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: as above; Lua's strings do not move.
        unsafe {
            let start = ffi::luaL_checklstring(self.0, argument, &mut length);
            std::slice::from_raw_parts(start.cast(), length)
        }
    }

    /// Raises an error unless the argument is a table.
    pub(crate) fn table_argument(self, argument: c_int) {
        unsafe { ffi::luaL_checktype(self.0, argument, ffi::LUA_TTABLE) }
    }

    /// Raises an error unless the argument is a function.
    pub(crate) fn function_argument(self, argument: c_int) {
        unsafe { ffi::luaL_checktype(self.0, argument, ffi::LUA_TFUNCTION) }
    }

    /// Raises an error unless there is such an argument.
    pub(crate) fn any_argument(self, argument: c_int) {
        unsafe { ffi::luaL_checkany(self.0, argument) }
    }

    /// Runs one of Lua's own library loaders, which leaves no values.
    pub(crate) fn open(self, library: Native, name: &CStr) {
        unsafe {
            ffi::lua_pushcclosure(self.0, library, 0);
            ffi::lua_pushstring_(self.0, name.as_ptr() as *const c_char);
        }
        self.call(1, 0);
    }

    /// Runs a full collection.
    pub(crate) fn collect(self) {
        unsafe { ffi::lua_gc(self.0, ffi::LUA_GCCOLLECT, 0) };
    }

    /// Source and current line of the function that raised an error, for an error handler. For a native function, those of its caller.
    pub(crate) fn culprit(self) -> Option<(&'static CStr, c_int)> {
        // SAFETY: as above; `record` is plain data that `lua_getstack` and `lua_getinfo` fill, and the source belongs to a function that is
        // still called while the handler runs.
        unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            let mut found = false;
            for level in [1, 2] {
                if ffi::lua_getstack(self.0, level, &mut record) == 0 {
                    break;
                }
                ffi::lua_getinfo(self.0, c"nSl".as_ptr(), &mut record);
                found = true;
                if CStr::from_ptr(record.what) != c"C" {
                    break;
                }
            }
            found.then(|| (CStr::from_ptr(record.source), record.currentline))
        }
    }
}

/// Pushes a table of one field.
pub(crate) fn table_of(lua: Stack, name: &[u8], text: &[u8]) {
    lua.new_table(0, 1);
    lua.push_bytes(name);
    lua.push_bytes(text);
    lua.raw_set(-3);
}

/// Pushes the table of an error with the code `ERR`.
pub(crate) fn push_error(lua: Stack, text: &[u8]) {
    let buffer = lua.state().text.get();
    let start = buffer.len();
    buffer.extend_from_slice(b"ERR ");
    buffer.extend_from_slice(text);
    table_of(lua, b"err", &buffer[start..]);
    lua.state().text.get().truncate(start);
}

impl State {
    /// Collects garbage if so many more bytes would exceed the bound, and are not more than the bound by themselves.
    pub(crate) fn provide(&self, lua: Stack, bytes: usize) {
        if self.used().saturating_add(bytes) > self.memory_max() && bytes <= self.memory_max() {
            lua.collect();
            self.look(lua);
        }
    }

    /// Asks the host whether the script may go on; raises the error of a killed script if not.
    pub(crate) fn look(&self, lua: Stack) {
        if !self.killed.get() && self.host().is_none_or(|host| host.interrupt() == Verdict::Continue) {
            return;
        }
        self.killed.set(true);
        watch(lua, 1);
        let text = if self.mode.get() == Mode::Loading { "FUNCTION LOAD timeout" } else { KILLED };
        push_error(lua, text.as_bytes());
        lua.raise()
    }

    /// Counts steps of a native loop, in which no instruction of Lua runs, and asks the host after each [`INSTRUCTIONS`] of them.
    pub(crate) fn step(&self, lua: Stack) {
        self.steps(lua, 1);
    }

    /// Counts the steps of a native function for the text that it reads or builds, in bytes.
    pub(crate) fn touch(&self, lua: Stack, bytes: usize) {
        self.steps(lua, u32::try_from(bytes.div_ceil(BYTES_OF_STEP)).unwrap_or(u32::MAX));
    }

    fn steps(&self, lua: Stack, more: u32) {
        let steps = self.steps.get().saturating_add(more);
        self.steps.set(steps);
        if steps >= INSTRUCTIONS as u32 {
            self.steps.set(0);
            self.look(lua);
        }
    }
}

/// Sets the hook by which a thread asks the host whether the script goes on. Threads that the thread creates inherit the hook.
pub(crate) fn watch(lua: Stack, instructions: c_int) {
    unsafe extern "C-unwind" fn hook(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
        let lua = Stack::of(lua);
        lua.state().look(lua);
    }
    // SAFETY: the thread is alive; a hook is a plain setting.
    unsafe { ffi::lua_sethook(lua.raw(), Some(hook), ffi::LUA_MASKCOUNT, instructions) };
}
