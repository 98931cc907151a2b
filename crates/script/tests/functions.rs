//! Libraries of functions.

use crate::common::{Map, Server};
use sinter_script::{Failure, Flags, Program, Protocol};

fn load(server: &mut Server, code: &str, replace: bool) -> Result<String, String> {
    let loaded = server.machine.load_library(code.as_bytes(), replace, &mut server.map);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    loaded.map(text).map_err(|failure| text(failure.message))
}

fn call(server: &mut Server, name: &str) -> Option<Result<String, Failure>> {
    let mut out = Vec::new();
    let result = server.machine.call(name.as_bytes(), &[b"k"], &[b"v"], &mut server.map, Protocol::Resp2, &mut out)?;
    Some(result.map(|()| String::from_utf8(out).expect("text")))
}

const LIBRARY: &str = "#!lua name=lib
local calls = 0
local function count(keys, args) calls = calls + 1 return {calls, keys[1], args[1], redis.call('echo', 'x')} end
redis.register_function('count', count)
redis.register_function{function_name='other', callback=function() return 2 end, flags={'no-writes'}, description='d'}";

#[test]
fn libraries_register_functions_and_keep_what_is_local() {
    let mut server = Server::new();
    assert_eq!(load(&mut server, LIBRARY, false), Ok("lib".to_owned()));
    assert_eq!(call(&mut server, "count").unwrap().unwrap(), "*4\r\n:1\r\n$1\r\nk\r\n$1\r\nv\r\n$1\r\nx\r\n");
    assert!(call(&mut server, "COUNT").unwrap().unwrap().starts_with("*4\r\n:2\r\n"), "capitals make no difference");
    let (library, function) = server.machine.function(b"other").unwrap();
    assert_eq!((&library.name[..], function.flags, function.description.as_deref()), (&b"lib"[..], Flags::NO_WRITES, Some(&b"d"[..])));
    assert_eq!(load(&mut server, LIBRARY, false), Err("ERR Library 'lib' already exists".to_owned()));
    assert_eq!(load(&mut server, &LIBRARY.replace("=lib", "=second"), false), Err("ERR Function count already exists".to_owned()));
    assert_eq!(load(&mut server, LIBRARY, true), Ok("lib".to_owned()));
    assert!(call(&mut server, "count").unwrap().unwrap().starts_with("*4\r\n:1\r\n"), "a new library begins anew");
    assert!(server.machine.delete_library(b"lib") && !server.machine.delete_library(b"lib"));
    assert!(call(&mut server, "count").is_none());
}

const NAMES: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

#[test]
fn failures_of_loading_have_the_texts_of_redis() {
    let mut server = Server::new();
    for (code, expected) in [
        ("return 1", "Missing library metadata"),
        ("#!lua name=a", "Invalid library metadata"),
        ("#!lua\n", "Library name was not given"),
        ("#!lua name=a name=b\n", "Invalid metadata value, name argument was given multiple times"),
        ("#!lua name=a x=b\n", "Invalid metadata value given: x=b"),
        ("#!js name=a\n", "Engine 'js' not found"),
        ("#!lua name=a\n", "No functions registered"),
        ("#!lua name=a\nreturn )", "Error compiling function: user_function:2: unexpected symbol near ')'"),
        (
            "#!lua name=a\nredis.call('get')",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "#!lua name=a\nmath.random()",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'math'",
        ),
        (
            "#!lua name=a\nredis.register_function('a', 1)",
            "Error registering functions: ERR second argument to redis.register_function must be a function",
        ),
        (
            "#!lua name=a\nredis.register_function{callback=redis.log}",
            "Error registering functions: ERR redis.register_function must get a function name argument",
        ),
        ("#!lua name=a-b\n", NAMES),
        ("#!lua name=a\nx = 1", "Error registering functions: ERR user_function:2: Attempt to modify a readonly table"),
        ("#!lua name=a\nredis.register_function('a-b', redis.log)", &format!("Error registering functions: ERR {NAMES}")),
        (
            "#!lua name=a\nlocal r = redis.register_function r('z', redis.log) r('z', redis.log)",
            "Error registering functions: ERR Function already exists in the library",
        ),
        (
            "#!lua name=a\nredis.register_function{function_name='q', callback=redis.log, flags={'x'}}",
            "Error registering functions: ERR unknown flag given",
        ),
        ("#!lua name=a\nredis.register_function{1}", "Error registering functions: ERR unknown argument given to redis.register_function"),
        (
            "#!lua name=a\nredis.register_function()",
            "Error registering functions: ERR wrong number of arguments to redis.register_function",
        ),
        (
            "#!lua name=a\nredis.register_function({}, 1)",
            "Error registering functions: ERR first argument to redis.register_function must be a string",
        ),
    ] {
        assert_eq!(load(&mut server, code, false), Err(format!("ERR {expected}")), "{code}");
    }
    assert_eq!(server.machine.libraries().count(), 0);
}

#[test]
fn functions_see_their_own_globals() {
    let mut server = Server::new();
    let code = "#!lua name=lib
local register = redis.register_function
redis.register_function('a', function() return register('b', function() end) end)
redis.register_function('k', function() return KEYS end)
redis.register_function('r', function() return {redis.breakpoint == nil, redis.register_function == nil, math.floor(1.5)} end)
redis.register_function('w', function() x = 1 end)";
    load(&mut server, code, false).unwrap();
    let error = |server: &mut Server, name| String::from_utf8(call(server, name).unwrap().unwrap_err().message).unwrap();
    let late = "ERR redis.register_function can only be called on FUNCTION LOAD command script: a, on @user_function:3.";
    assert_eq!(error(&mut server, "a"), late);
    let keys = "ERR user_function:4: Script attempted to access nonexistent global variable 'KEYS' script: k, on @user_function:4.";
    assert_eq!((error(&mut server, "k").as_str(), error(&mut server, "K").as_str()), (keys, keys), "the name is that of the registration");
    assert_eq!(call(&mut server, "r").unwrap().unwrap(), "*3\r\n:1\r\n:1\r\n:1\r\n");
    assert_eq!(error(&mut server, "w"), "ERR user_function:6: Attempt to modify a readonly table script: w, on @user_function:6.");
    assert_eq!(server.eval("return redis.register_function == nil"), ":1\r\n");
}

#[test]
fn a_library_that_takes_too_long_is_ended() {
    let mut server = Server::new();
    server.map = Map { patience: Some(3), ..Map::default() };
    let error = load(&mut server, "#!lua name=a\nwhile true do end", false).unwrap_err();
    assert_eq!(error, "ERR Error registering functions: ERR FUNCTION LOAD timeout");
}

#[test]
fn programs_are_short_after_some_short_runs() {
    let mut server = Server::new();
    load(&mut server, LIBRARY, false).unwrap();
    let digest = server.machine.load_script(b"return 1").unwrap();
    let is_short = |server: &Server, program: &Program| server.machine.known(program).unwrap().is_short;
    let (script, function) = (Program::Script(digest), Program::Function(b"Other"));
    for program in [&script, &function] {
        for _ in 0..2 {
            for _ in 0..16 {
                assert!(!is_short(&server, program));
                if let Program::Script(_) = program {
                    server.eval("return 1");
                } else {
                    call(&mut server, "other").unwrap().unwrap();
                }
            }
            assert!(is_short(&server, program));
            server.machine.took_long(program);
        }
    }
    assert!(!is_short(&server, &Program::Function(b"count")));
    assert_eq!(server.machine.known(&function).unwrap().flags, Some(Flags::NO_WRITES));
    assert!(server.machine.known(&Program::Function(b"none")).is_none());
}
