//! The table `redis` of scripts: `redis.call`, `redis.pcall`, replies made by hand, the log.

use crate::host::Protocol;
use crate::lua::{Kind, Native, Stack, native, push_error};
use crate::number::general;
use crate::reply;
use crate::sha1::{DIGEST, sha1};
use crate::state::Mode;
use std::ffi::c_int;

/// Levels of the log, by the names of their constants.
const LEVELS: [(&[u8], f64); 4] = [(b"LOG_DEBUG", 0.0), (b"LOG_VERBOSE", 1.0), (b"LOG_NOTICE", 2.0), (b"LOG_WARNING", 3.0)];
/// Targets of `redis.set_repl`, by the names of their constants.
const TARGETS: [(&[u8], f64); 5] =
    [(b"REPL_NONE", 0.0), (b"REPL_AOF", 1.0), (b"REPL_SLAVE", 2.0), (b"REPL_REPLICA", 2.0), (b"REPL_ALL", 3.0)];

fn raise_error(lua: Stack, text: &[u8]) -> ! {
    push_error(lua, text);
    lua.raise()
}

/// Reads the arguments of a command from the stack. If they are not strings or numbers, pushes an error.
fn take_arguments(lua: Stack) -> bool {
    let count = lua.top();
    let arguments = lua.state().arguments.get();
    arguments.clear();
    if count == 0 {
        push_error(lua, b"Please specify at least one argument for this redis lib call");
        return false;
    }
    for at in 1..=count {
        match lua.kind(at) {
            Kind::String => {}
            // Lua's own conversion to text would lose digits.
            Kind::Number => {
                lua.push_bytes(general(lua.number(at), 17).bytes());
                lua.replace(at);
            }
            _ => {
                push_error(lua, b"Lua redis lib command arguments must be strings or integers");
                return false;
            }
        }
        arguments.extend(lua.bytes(at));
    }
    true
}

/// `redis.call`, which raises errors, and `redis.pcall`, which returns them.
fn call(lua: Stack, raise: bool) -> c_int {
    let state = lua.state();
    let Some(host) = state.host().filter(|_| state.mode.get() != Mode::Loading) else {
        raise_error(lua, b"redis.call/pcall can only be called inside a script invocation")
    };
    if !take_arguments(lua) {
        if raise {
            lua.raise();
        }
        return 1;
    }
    let bytes = state.reply.get();
    bytes.clear();
    host.call(state.arguments.get(), state.protocol.get(), bytes);
    lua.set_top(0);
    if reply::push(lua, &mut &bytes[..], 0).is_none() {
        raise_error(lua, b"the reply of the command cannot be represented")
    }
    if raise && bytes.first() == Some(&b'-') {
        lua.raise();
    }
    1
}

fn redis_call(lua: Stack) -> c_int {
    call(lua, true)
}

fn redis_pcall(lua: Stack) -> c_int {
    call(lua, false)
}

fn error_reply(lua: Stack) -> c_int {
    // `bytes` turns a number into text, so the kind is read first.
    let is_text = lua.top() == 1 && lua.kind(1) == Kind::String;
    match lua.bytes(1).filter(|_| is_text) {
        Some(text) => reply::push_error(lua, text.strip_prefix(b"-").unwrap_or(text)),
        None => push_error(lua, b"wrong number or type of arguments"),
    }
    1
}

fn status_reply(lua: Stack) -> c_int {
    if lua.top() == 1 && lua.kind(1) == Kind::String {
        lua.new_table(0, 1);
        lua.copy(1);
        lua.set_field(-2, b"ok");
    } else {
        push_error(lua, b"wrong number or type of arguments");
    }
    1
}

fn log(lua: Stack) -> c_int {
    if lua.top() < 2 {
        raise_error(lua, b"redis.log() requires two arguments or more.")
    }
    if !lua.is_number(1) {
        raise_error(lua, b"First argument must be a number (log level).")
    }
    let level = lua.number(1) as i64;
    let Ok(level @ 0..=3) = u8::try_from(level) else { raise_error(lua, b"Invalid debug level.") };
    let line = lua.state().text.get();
    let start = line.len();
    for at in 2..=lua.top() {
        if let Some(text) = lua.bytes(at) {
            if at > 2 {
                line.push(b' ');
            }
            line.extend_from_slice(text);
        }
    }
    if let Some(host) = lua.state().host() {
        host.log(level, &line[start..]);
    }
    line.truncate(start);
    0
}

/// Writes a digest in hexadecimal digits.
pub(crate) fn hexadecimal(digest: [u8; DIGEST]) -> [u8; 2 * DIGEST] {
    let mut text = [0; 2 * DIGEST];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [b"0123456789abcdef"[usize::from(byte >> 4)], b"0123456789abcdef"[usize::from(byte & 15)]];
    }
    text
}

fn sha1hex(lua: Stack) -> c_int {
    if lua.top() != 1 {
        raise_error(lua, b"wrong number of arguments")
    }
    let text = lua.bytes(1).unwrap_or(b"");
    lua.state().touch(lua, text.len());
    let digest = hexadecimal(sha1(text));
    lua.push_bytes(&digest);
    1
}

/// Raises the error of a function that only a running script may call.
fn in_script(lua: Stack, message: &[u8]) {
    if !matches!(lua.state().mode.get(), Mode::Script | Mode::Function) {
        raise_error(lua, message)
    }
}

fn setresp(lua: Stack) -> c_int {
    in_script(lua, b"redis.setresp can only be called inside a script invocation");
    if lua.top() != 1 {
        raise_error(lua, b"redis.setresp() requires one argument.")
    }
    let protocol = match lua.number(1) as i64 {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => raise_error(lua, b"RESP version must be 2 or 3."),
    };
    lua.state().protocol.set(protocol);
    0
}

fn set_repl(lua: Stack) -> c_int {
    in_script(lua, b"redis.set_repl can only be called inside a script invocation");
    if lua.top() != 1 {
        raise_error(lua, b"redis.set_repl() requires two arguments.")
    }
    let Ok(targets @ 0..=3) = u8::try_from(lua.number(1) as i64) else {
        raise_error(lua, b"Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
    };
    if let Some(host) = lua.state().host() {
        host.set_replication(targets);
    }
    0
}

fn acl_check_cmd(lua: Stack) -> c_int {
    in_script(lua, b"redis.acl_check_cmd can only be called inside a script invocation");
    if !take_arguments(lua) {
        lua.raise();
    }
    match lua.state().host().and_then(|host| host.may_call(lua.state().arguments.get())) {
        Some(may) => lua.push_boolean(may),
        None => raise_error(lua, b"Invalid command passed to redis.acl_check_cmd()"),
    }
    1
}

fn replicate_commands(lua: Stack) -> c_int {
    lua.push_boolean(true);
    1
}

/// `redis.breakpoint`: false, as there is no debugger.
fn breakpoint(lua: Stack) -> c_int {
    lua.push_boolean(false);
    1
}

fn debug(_: Stack) -> c_int {
    0
}

/// Adds native functions to the table on top.
pub(crate) fn add(lua: Stack, functions: &[(&[u8], Native)]) {
    for (name, function) in functions {
        lua.push_native(*function, 0);
        lua.set_field(-2, name);
    }
}

fn add_numbers(lua: Stack, numbers: &[(&[u8], f64)]) {
    for (name, number) in numbers {
        lua.push_number(*number);
        lua.set_field(-2, name);
    }
}

/// Pushes a new table `redis` as a script, a function or a loading library sees it, with the version that the server claims.
pub(crate) fn push(lua: Stack, mode: Mode, version: &str) {
    lua.new_table(0, 24);
    add(lua, &[(b"log", native(log))]);
    add_numbers(lua, &LEVELS);
    lua.push_bytes(version.as_bytes());
    lua.set_field(-2, b"REDIS_VERSION");
    let number = version.split('.').take(3).fold(0, |number, part| (number << 8) | part.parse::<u32>().unwrap_or(0));
    lua.push_number(f64::from(number));
    lua.set_field(-2, b"REDIS_VERSION_NUM");
    if mode == Mode::Loading {
        return add(lua, &[(b"register_function", native(crate::functions::register))]);
    }
    add_numbers(lua, &TARGETS);
    add(
        lua,
        &[
            (b"call", native(redis_call)),
            (b"pcall", native(redis_pcall)),
            (b"error_reply", native(error_reply)),
            (b"status_reply", native(status_reply)),
            (b"sha1hex", native(sha1hex)),
            (b"setresp", native(setresp)),
            (b"set_repl", native(set_repl)),
            (b"acl_check_cmd", native(acl_check_cmd)),
        ],
    );
    if mode == Mode::Script {
        let others =
            [(&b"breakpoint"[..], native(breakpoint)), (b"debug", native(debug)), (b"replicate_commands", native(replicate_commands))];
        add(lua, &others);
    }
}
