//! `redis.register_function`, by which a library that loads registers its functions.

use crate::library::{Function, Registered};
use crate::lua::{Kind, Stack, push_error};
use crate::shebang::{Flags, NAME_RULE, is_name};
use crate::state::Mode;
use std::ffi::c_int;

fn refuse(lua: Stack, text: &str) -> ! {
    push_error(lua, text.as_bytes());
    lua.raise()
}

/// `redis.register_function(name, function)`, or `redis.register_function{...}` with named arguments.
pub(crate) fn register(lua: Stack) -> c_int {
    if lua.state().mode.get() != Mode::Loading {
        refuse(lua, "redis.register_function can only be called on FUNCTION LOAD command")
    }
    let mut flags = Flags::default();
    // The name, the function and the description, nil if not given, go to slots 2 to 4.
    match lua.top() {
        1 => named(lua, &mut flags),
        2 => {
            if !matches!(lua.kind(1), Kind::String | Kind::Number) {
                refuse(lua, "first argument to redis.register_function must be a string")
            }
            if lua.kind(2) != Kind::Function {
                refuse(lua, "second argument to redis.register_function must be a function")
            }
            lua.copy(1);
            lua.insert(2);
            lua.push_nil();
        }
        _ => refuse(lua, "wrong number of arguments to redis.register_function"),
    }
    let name = lua.bytes(2).unwrap_or(b"");
    let description = lua.bytes(4);
    if !is_name(name) {
        refuse(lua, NAME_RULE)
    }
    let registered = lua.state().registered.get();
    if registered.iter().any(|other| other.function.name == name) {
        refuse(lua, "Function already exists in the library")
    }
    lua.copy(3);
    let kept = lua.keep();
    let function = Function { name: name.to_vec(), description: description.map(<[u8]>::to_vec), flags };
    registered.push(Registered { function, kept });
    0
}

/// Reads the table of named arguments into slots 2 to 4 and `flags`.
fn named(lua: Stack, flags: &mut Flags) {
    if lua.kind(1) != Kind::Table {
        refuse(
            lua,
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        )
    }
    lua.set_top(4);
    lua.push_nil();
    while lua.next(1) {
        if !matches!(lua.kind(-2), Kind::String | Kind::Number) {
            refuse(lua, "named argument key given to redis.register_function is not a string")
        }
        // A copy of the key is read: reading turns a number into a string in its slot, and `next` needs the number.
        lua.copy(-2);
        let key = lua.bytes(-1).unwrap_or(b"");
        let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
        lua.copy(-2);
        let text = matches!(lua.kind(-1), Kind::String | Kind::Number);
        if is("function_name") {
            if !text {
                refuse(lua, "function_name argument given to redis.register_function must be a string")
            }
            lua.replace(2);
        } else if is("description") {
            if !text {
                refuse(lua, "description argument given to redis.register_function must be a string")
            }
            lua.replace(4);
        } else if is("callback") {
            if lua.kind(-1) != Kind::Function {
                refuse(lua, "callback argument given to redis.register_function must be a function")
            }
            lua.replace(3);
        } else if is("flags") {
            if lua.kind(-1) != Kind::Table {
                refuse(lua, "flags argument to redis.register_function must be a table representing function flags")
            }
            if !read_flags(lua, flags) {
                refuse(lua, "unknown flag given")
            }
            lua.pop(1);
        } else {
            refuse(lua, "unknown argument given to redis.register_function")
        }
        // The copy of the key, and the value.
        lua.pop(2);
    }
    if lua.kind(2) == Kind::Nil {
        refuse(lua, "redis.register_function must get a function name argument")
    }
    if lua.kind(3) == Kind::Nil {
        refuse(lua, "redis.register_function must get a callback argument")
    }
}

/// Reads the flags in the table on top; false if one is unknown.
fn read_flags(lua: Stack, flags: &mut Flags) -> bool {
    for n in 1.. {
        lua.raw_get_at(-1, n);
        if lua.kind(-1) == Kind::Nil {
            break;
        }
        if !lua.bytes(-1).is_some_and(|name| flags.set(name, true)) {
            return false;
        }
        lua.pop(1);
    }
    lua.pop(1);
    true
}
