//! Globals that scripts and functions see. A script cannot change any table that outlives it.
//!
//! Functions of Lua's library that ignore metatables when they write to a table, or walk it, are replaced by ones that know protected
//! tables.

use crate::lua::{ALL, GLOBALS, Kind, Stack, native};
use crate::protected::{READ_ONLY, behind_argument, protect};
use crate::redis::{self, add};
use crate::state::Mode;
use crate::{bit, coding, json, msgpack, pack, sort, strings};
use mlua_sys as ffi;
use std::ffi::{CStr, c_int};

/// Numbers in the registry of the tables that a machine needs to start a script, a function or a library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    /// Globals of scripts as they see them, and the table behind, which gets `KEYS` and `ARGV`.
    pub(crate) script: c_int,
    pub(crate) script_behind: c_int,
    /// Globals of functions.
    pub(crate) function: c_int,
    /// Metatable of the globals of functions, and the tables that its `__index` leads to.
    pub(crate) switch: c_int,
    pub(crate) function_behind: c_int,
    pub(crate) loading_behind: c_int,
    /// Settings of the library `cjson` of scripts.
    pub(crate) script_json: c_int,
}

/// Globals of Lua's library that scripts do not have.
const REMOVED: [&[u8]; 8] = [b"dofile", b"loadfile", b"print", b"getfenv", b"setfenv", b"newproxy", b"require", b"module"];
/// Libraries whose tables scripts and functions share, since they have no settings.
const LIBRARIES: [&[u8]; 8] = [b"string", b"table", b"math", b"coroutine", b"os", b"bit", b"struct", b"cmsgpack"];

/// Stands in front of functions that write to their first argument and ignore its metatable: refuses protected tables.
fn guarded(lua: Stack) -> c_int {
    if behind_argument(lua).is_some() {
        // An error of Lua's own functions has no line of the caller in front; nor has this one.
        lua.push_bytes(READ_ONLY.as_bytes());
        lua.raise()
    }
    match lua.native_at(Stack::kept(1)) {
        Some(function) => lua.become_native(function),
        None => 0,
    }
}

/// Stands in front of functions that read their first argument and ignore its metatable: passes the table behind a protected one.
fn seen_through(lua: Stack) -> c_int {
    if let Some(number) = behind_argument(lua) {
        lua.raw_get_at(crate::lua::REGISTRY, number);
        lua.replace(1);
    }
    match lua.native_at(Stack::kept(1)) {
        Some(function) => lua.become_native(function),
        None => 0,
    }
}

fn getmetatable(lua: Stack) -> c_int {
    let results = match lua.native_at(Stack::kept(1)) {
        Some(function) => lua.become_native(function),
        None => 0,
    };
    if lua.kind(-1) == Kind::Boolean {
        lua.push_nil();
    }
    results
}

/// `collectgarbage`, which takes time linear in memory. What it sets ends with the script.
fn collectgarbage(lua: Stack) -> c_int {
    let state = lua.state();
    state.tune();
    state.touch(lua, state.used());
    match lua.native_at(Stack::kept(1)) {
        Some(function) => lua.become_native(function),
        None => 0,
    }
}

fn next(lua: Stack) -> c_int {
    lua.table_argument(1);
    lua.set_top(2);
    if let Some(number) = behind_argument(lua) {
        lua.raw_get_at(crate::lua::REGISTRY, number);
        lua.replace(1);
    }
    if lua.next(1) {
        return 2;
    }
    lua.push_nil();
    1
}

fn pairs(lua: Stack) -> c_int {
    lua.table_argument(1);
    let kept = if behind_argument(lua).is_some() { 1 } else { 2 };
    lua.copy(Stack::kept(kept));
    lua.copy(1);
    lua.push_nil();
    3
}

/// `pcall`. An error of a command is returned as its text, as scripts written for Redis before 7 expect.
fn pcall(lua: Stack) -> c_int {
    lua.any_argument(1);
    lua.push_boolean(true);
    lua.insert(1);
    let length = lua.state().text.get().len();
    if lua.protected(lua.top() - 2, ALL, 0).is_err() {
        caught(lua, length);
        lua.remove(1);
        if lua.kind(-1) == Kind::Table {
            lua.field(-1, b"err");
            if matches!(lua.kind(-1), Kind::String | Kind::Number) { lua.replace(-2) } else { lua.pop(1) }
        }
        lua.push_boolean(false);
        lua.insert(1);
    }
    lua.top()
}

/// Calls the handler of an `xpcall`, unless the script is killed: the handler would run within the hook that kills, where no other hook can
/// end it.
fn handled(lua: Stack) -> c_int {
    if !lua.state().killed.get() {
        lua.copy(Stack::kept(1));
        lua.insert(1);
        lua.call(1, 1);
    }
    1
}

fn xpcall(lua: Stack) -> c_int {
    lua.any_argument(2);
    lua.set_top(2);
    lua.push_native(native(handled), 1);
    lua.insert(1);
    let length = lua.state().text.get().len();
    let result = lua.protected(0, ALL, 1);
    caught(lua, length);
    lua.push_boolean(result.is_ok());
    lua.replace(1);
    lua.top()
}

/// Cleans up after a caught error: drops text that the failed function was building, and raises the error of a killed script again.
fn caught(lua: Stack, length: usize) {
    lua.state().text.get().truncate(length);
    if lua.state().killed.get() {
        lua.state().look(lua);
    }
}

fn resume(lua: Stack) -> c_int {
    let length = lua.state().text.get().len();
    let results = match lua.native_at(Stack::kept(1)) {
        Some(function) => lua.become_native(function),
        None => 0,
    };
    caught(lua, length);
    results
}

/// Copies the name of a chunk, up to its first zero byte, to the buffer for text. The caller truncates the buffer.
fn chunk_name<'a>(lua: Stack, name: &[u8]) -> &'a CStr {
    let buffer = lua.state().text.get();
    let start = buffer.len();
    buffer.extend(name.iter().take_while(|byte| **byte != 0));
    buffer.push(0);
    CStr::from_bytes_with_nul(&buffer[start..]).unwrap_or(c"=?")
}

/// Compiles a text; returns a function, or nil and the error.
fn loaded(lua: Stack, code: &[u8], name: &CStr) -> c_int {
    if lua.load(code, name) {
        return 1;
    }
    lua.push_nil();
    lua.insert(-2);
    2
}

fn loadstring(lua: Stack) -> c_int {
    let code = lua.bytes_argument(1);
    let name = if matches!(lua.kind(2), Kind::None | Kind::Nil) { code } else { lua.bytes_argument(2) };
    let start = lua.state().text.get().len();
    let name = chunk_name(lua, name);
    let results = loaded(lua, code, name);
    lua.state().text.get().truncate(start);
    results
}

/// `load`: compiles the pieces that a function returns. The pieces are joined first, so that no code of a script runs inside the parser.
fn load(lua: Stack) -> c_int {
    lua.function_argument(1);
    let name = if matches!(lua.kind(2), Kind::None | Kind::Nil) { &b"=(load)"[..] } else { lua.bytes_argument(2) };
    lua.set_top(2);
    // The pieces are joined in the buffer for text, whose length counts against Lua's memory bound.
    let start = lua.state().text.get().len();
    let mut length = start;
    loop {
        lua.copy(1);
        let result = lua.protected(0, 1, 0);
        caught(lua, length);
        if result.is_err() {
            break;
        }
        match lua.kind(-1) {
            Kind::Nil => break lua.push_nil(),
            Kind::String | Kind::Number => {}
            _ => {
                lua.push_text(format_args!("reader function must return a string"));
                break;
            }
        }
        let piece = lua.bytes(-1).unwrap_or(b"");
        if piece.is_empty() {
            break lua.push_nil();
        }
        coding::grow(lua, piece.len());
        lua.state().text.get().extend_from_slice(piece);
        length += piece.len();
        lua.pop(1);
    }
    let results = if lua.kind(-1) == Kind::Nil {
        lua.push_bytes(&lua.state().text.get()[start..]);
        let code = lua.bytes(-1).unwrap_or(b"");
        let name = chunk_name(lua, name);
        loaded(lua, code, name)
    } else {
        lua.push_nil();
        lua.insert(-2);
        2
    };
    lua.state().text.get().truncate(start);
    results
}

fn missing_global(lua: Stack) -> c_int {
    if !matches!(lua.kind(2), Kind::String | Kind::Number) {
        lua.fail(format_args!("Second argument to luaProtectedTableError must be a string or number"))
    }
    // The name ends at the first byte that is not UTF-8.
    let name = lua.bytes(2).unwrap_or(b"").utf8_chunks().next().map_or("", |chunk| chunk.valid());
    lua.fail(format_args!("Script attempted to access nonexistent global variable '{name}'"))
}

const RANDOM_MAX: f64 = 2_147_483_647.0;

/// The generator of `lrand48`, so that the same seed gives the same numbers as in Redis.
fn random(lua: Stack) -> c_int {
    let state = lua.state();
    state.random.set((state.random.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb)) & 0xffff_ffff_ffff);
    let r = ((state.random.get() >> 17) % 0x7fff_ffff) as f64 / RANDOM_MAX;
    match lua.top() {
        0 => lua.push_number(r),
        1 => {
            let upper = lua.integer_argument(1) as i32;
            if upper < 1 {
                lua.bad_argument(1, c"interval is empty");
            }
            lua.push_number((r * f64::from(upper)).floor() + 1.0);
        }
        2 => {
            let (lower, upper) = (lua.integer_argument(1) as i32, lua.integer_argument(2) as i32);
            if lower > upper {
                lua.bad_argument(2, c"interval is empty");
            }
            let width = upper.wrapping_sub(lower).wrapping_add(1);
            lua.push_number((r * f64::from(width)).floor() + f64::from(lower));
        }
        _ => lua.fail(format_args!("wrong number of arguments")),
    }
    1
}

fn randomseed(lua: Stack) -> c_int {
    let seed = lua.integer_argument(1) as i32 as u32;
    lua.state().random.set(u64::from(seed) << 16 | 0x330e);
    0
}

fn clock(lua: Stack) -> c_int {
    let seconds = lua.state().host().map_or(0.0, |host| host.clock());
    lua.push_number(seconds);
    1
}

fn dump(lua: Stack) -> c_int {
    lua.function_argument(1);
    lua.fail(format_args!("unable to dump given function"))
}

/// Replaces a function in the table on top by one that stands in front of it and can call it.
fn front(lua: Stack, name: &[u8], function: crate::lua::Native) {
    lua.field(-1, name);
    lua.push_native(function, 1);
    lua.set_field(-2, name);
}

/// Replaces functions of the globals on top.
fn globals(lua: Stack) {
    for name in REMOVED {
        lua.push_nil();
        lua.set_field(-2, name);
    }
    for name in [&b"rawset"[..], b"setmetatable"] {
        front(lua, name, native(guarded));
    }
    front(lua, b"rawget", native(seen_through));
    front(lua, b"getmetatable", native(getmetatable));
    front(lua, b"collectgarbage", native(collectgarbage));
    lua.push_native(native(next), 0);
    lua.field(-2, b"next");
    lua.push_native(native(pairs), 2);
    lua.set_field(-2, b"pairs");
    add(
        lua,
        &[
            (b"next", native(next)),
            (b"pcall", native(pcall)),
            (b"xpcall", native(xpcall)),
            (b"load", native(load)),
            (b"loadstring", native(loadstring)),
        ],
    );
}

/// Opens the libraries into the globals on top; removes and replaces the functions that scripts must not have.
fn libraries(lua: Stack) {
    lua.open(ffi::luaopen_base, c"");
    lua.open(ffi::luaopen_table, c"table");
    lua.open(ffi::luaopen_string, c"string");
    lua.open(ffi::luaopen_math, c"math");
    globals(lua);
    let within = |name: &[u8], change: fn(Stack)| {
        lua.field(-1, name);
        if lua.kind(-1) == Kind::Nil {
            lua.pop(1);
            lua.new_table(0, 16);
            lua.copy(-1);
            lua.set_field(-3, name);
        }
        change(lua);
        lua.pop(1);
    };
    within(b"table", |lua| {
        for name in [&b"insert"[..], b"remove"] {
            front(lua, name, native(guarded));
        }
        lua.push_native(native(sort::sort), 0);
        lua.push_native(native(guarded), 1);
        lua.set_field(-2, b"sort");
        for name in [&b"foreach"[..], b"foreachi"] {
            front(lua, name, native(seen_through));
        }
    });
    within(b"string", |lua| {
        add(lua, &[(b"dump", native(dump))]);
        strings::add_to(lua);
    });
    within(b"math", |lua| add(lua, &[(b"random", native(random)), (b"randomseed", native(randomseed))]));
    within(b"coroutine", |lua| front(lua, b"resume", native(resume)));
    within(b"os", |lua| add(lua, &[(b"clock", native(clock))]));
    within(b"bit", bit::add_to);
    within(b"struct", pack::add_to);
    within(b"cmsgpack", msgpack::add_to);
}

/// Makes `getmetatable("")` return a protected table instead of the metatable of strings, which stays in use.
fn protect_strings(lua: Stack) {
    lua.push_bytes(b"");
    if lua.metatable(-1) {
        lua.new_table(0, 1);
        lua.field(-4, b"string");
        lua.set_field(-2, b"__index");
        protect(lua, 0);
        lua.set_field(-2, b"__metatable");
        lua.pop(1);
    }
    lua.pop(1);
}

/// Pushes the metatable of a table of globals: reading a missing global is an error.
fn push_strict(lua: Stack) {
    lua.new_table(0, 1);
    lua.push_native(native(missing_global), 0);
    lua.set_field(-2, b"__index");
}

/// Replaces the globals on top by protected ones that contain themselves as `_G`; returns the number of the table behind in the registry.
fn protect_globals(lua: Stack) -> c_int {
    push_strict(lua);
    lua.set_metatable(-2);
    lua.copy(-1);
    let behind = lua.keep();
    push_strict(lua);
    protect(lua, 0);
    lua.insert(-2);
    let shown = lua.top() - 1;
    protect(lua, shown);
    lua.remove(shown);
    lua.raw_get_at(crate::lua::REGISTRY, behind);
    lua.copy(-2);
    lua.set_field(-2, b"_G");
    lua.pop(1);
    behind
}

/// Puts a protected table `redis` into the globals on top.
fn add_redis(lua: Stack, mode: Mode, version: &str) {
    redis::push(lua, mode, version);
    if mode == Mode::Loading {
        push_strict(lua);
        lua.set_metatable(-2);
    }
    protect(lua, 0);
    lua.set_field(-2, b"redis");
}

/// Puts a protected table `cjson` into the globals on top; returns the number of its settings in the registry.
fn add_json(lua: Stack) -> c_int {
    let settings = json::push(lua);
    protect(lua, 0);
    lua.set_field(-2, b"cjson");
    settings
}

/// Builds the globals of scripts, functions and loading libraries in a new Lua state.
pub(crate) fn build(lua: Stack, version: &str) -> Tables {
    lua.copy(GLOBALS);
    libraries(lua);
    for name in LIBRARIES {
        lua.field(-1, name);
        protect(lua, 0);
        lua.set_field(-2, name);
    }
    protect_strings(lua);

    // Functions get a copy of the globals with a `redis` and a `cjson` of their own.
    lua.new_table(0, 48);
    lua.push_nil();
    while lua.next(-3) {
        lua.copy(-2);
        lua.insert(-2);
        lua.raw_set(-4);
    }
    add_redis(lua, Mode::Function, version);
    add_json(lua);
    let function_behind = protect_globals(lua);
    lua.metatable(-1);
    let switch = lua.keep();
    let function = lua.keep();

    lua.new_table(0, 1);
    add_redis(lua, Mode::Loading, version);
    push_strict(lua);
    lua.set_metatable(-2);
    let loading_behind = lua.keep();

    add_redis(lua, Mode::Script, version);
    let script_json = add_json(lua);
    let script_behind = protect_globals(lua);
    let script = lua.keep();
    Tables { script, script_behind, function, switch, function_behind, loading_behind, script_json }
}
