//! Time and memory of scripts, and panics of the host.

use crate::common::{Map, Server};
use sinter_script::Digest;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a script that would not end, and expects that it is killed.
fn killed(code: &str) {
    let mut server = Server::new();
    server.map = Map { patience: Some(2), ..Map::default() };
    let text = server.text(code);
    assert!(text.starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{code}: {text}");
    server.map.patience = None;
    assert_eq!(server.eval("return 1"), ":1\r\n", "the machine goes on after {code}");
}

#[test]
fn scripts_without_end_are_killed() {
    killed("while true do end");
    killed("while true do pcall(function() while true do end end) end");
    killed("local function f() while true do end end while true do xpcall(f, f) end");
    killed("while true do coroutine.resume(coroutine.create(function() while true do end end)) end");
    killed("while true do coroutine.wrap(function() while true do end end)() end");
    killed("local function f() pcall(f) end while true do f() end");
}

#[test]
fn native_loops_without_end_are_killed() {
    killed("return string.find(string.rep('a', 40), string.rep('a?', 40) .. string.rep('a', 40) .. 'b')");
    killed("return string.match(string.rep('a', 1000), '.-.-.-.-b')");
    killed("return string.gsub(string.rep('a', 1000), '.-.-.-.-b', '')");
    killed("for x in string.gmatch(string.rep('a', 1000), '.-.-.-.-b') do end");
    killed("return string.find(string.rep('a', 2000000), string.rep('a', 1000000) .. 'b', 1, true)");
    killed("local t = {} for i = 1, 15 do local u = {} for j = 1, 8 do u[j] = t end t = u end return cmsgpack.pack(t)");
    killed("return cmsgpack.unpack('\\221\\255\\255\\255\\255' .. string.rep('\\192', 1e6))");
    killed("for i = 1, 1000 do string.rep('x', 1e7) end return 1");
    killed("local s = string.rep('x', 1e7) for i = 1, 1000 do s:find('y', 1, true) end return 1");
    killed("local s = string.rep('x', 1e7) for i = 1, 1000 do redis.sha1hex(s) end return 1");
    killed("for i = 1, 1000 do collectgarbage() end return 1");
    // The script has ended, and its reply has none.
    killed("local t = {} for i = 1, 40 do t = {t, t} end return t");
    // The worst case of a quicksort that takes the median of three.
    killed("local n, t = 40000, {} for i = 1, n do t[i] = i % 2 == 0 and i or n - i end for i = 1, 1e9 do table.sort(t) end");
}

#[test]
fn memory_has_a_bound() {
    let mut server = Server::with(8 << 20);
    for code in [
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local t = {} while true do pcall(function() t[#t + 1] = string.rep('x', 1000) .. #t end) if #t > 1e6 then break end end",
        "local s = string.rep('/', 6e6) return #cjson.encode(s)",
        "local s = string.rep('x', 3e6) local t = {} for i = 1, 100 do t[i] = s end return #cmsgpack.pack(t)",
        "return #string.gsub(string.rep('x', 2e6), '.', string.rep('y', 100))",
    ] {
        server.map = Map { patience: Some(3000), ..Map::default() };
        let text = server.text(code);
        assert!(text.contains("not enough memory") || text.contains("killed"), "{code}: {text}");
        assert_eq!(server.eval("return redis.call('echo', 'on')"), "$2\r\non\r\n", "after {code}");
        assert!(server.machine.memory() < 4 << 20, "{} bytes after {code}", server.machine.memory());
    }
}

/// Garbage makes no script fail, though Lua's own collector does little at a time and waits until memory has doubled.
#[test]
fn garbage_takes_no_memory_from_scripts() {
    let mut server = Server::with(8 << 20);
    server.map.keys.insert(b"big".to_vec(), vec![b'x'; 3_200_000]);
    for code in [
        "for i = 1, 40 do local s = string.rep('x', 1.5e6) end return 1",
        "local s = string.rep('x', 2.4e5) for i = 1, 400 do s = s .. 'x' end return 1",
        "for i = 1, 40 do local s = redis.call('get', 'big') end return 1",
        "for i = 1, 40 do local t = {} for j = 1, 30000 do t[j] = j end end return 1",
        "local s = string.rep('x', 5e5) for i = 1, 80 do s = s:sub(1, -2):upper():lower() end return 1",
        "return coroutine.wrap(function() local s = string.rep('x', 2.4e5) for i = 1, 400 do s = s .. 'x' end return 1 end)()",
        "collectgarbage('stop') collectgarbage('setpause', 10000) collectgarbage('setstepmul', 1) return 1",
        "local s = string.rep('x', 2.4e5) for i = 1, 401 do s = s .. 'x' end return 1",
        "for i = 1, 200000 do local t = {i, {i}} end return 1",
    ] {
        assert_eq!(server.eval(code), ":1\r\n", "{code}");
        assert!(server.machine.memory() < 3 << 20, "{} bytes after {code}", server.machine.memory());
    }
    for _ in 0..20 {
        assert_eq!(server.eval("return #redis.call('get', 'big')"), ":3200000\r\n");
    }
}

#[test]
fn settings_of_the_collector_end_with_the_script() {
    let mut server = Server::with(64 << 20);
    server.eval("collectgarbage('stop')");
    server.eval("collectgarbage('setpause', 1000)");
    // All of it together is below the quarter of the memory from which on the collector runs in any case.
    server.eval("for i = 1, 100000 do local t = {i} end");
    assert!(server.machine.memory() < 4 << 20, "{} bytes", server.machine.memory());
}

#[test]
fn libraries_and_scripts_outlive_a_renewed_machine() {
    let mut server = Server::with(8 << 20);
    let code = b"#!lua name=lib\nredis.register_function('f', function() return 5 end)";
    server.machine.load_library(code, false, &mut server.map).unwrap();
    let digest = server.machine.load_script(b"return 6").unwrap();
    server.eval("return string.rep('x', 1e9)");
    let mut out = Vec::new();
    let client = server.client;
    server.machine.call(b"f", &[], &[], &mut server.map, client, &mut out).unwrap().unwrap();
    server.machine.eval(&digest, &[], &[], &mut server.map, client, &mut out).unwrap().unwrap();
    assert_eq!(out, b":5\r\n:6\r\n");
}

#[test]
fn any_number_of_scripts_leaves_memory_for_the_next() {
    let mut server = Server::with(8 << 20);
    for n in 0..10_000 {
        let code = format!("local t = {{'a{n}', 'b{n}', 'c{n}', 'd{n}', 'e{n}', 'f{n}'}} return #t");
        assert_eq!(server.eval(&code), ":6\r\n", "script {n}");
        assert!(server.machine.memory() < 4 << 20, "{} bytes after script {n}", server.machine.memory());
    }
    assert_eq!(server.machine.scripts().0, 10_000);
    let first = Digest::of(b"local t = {'a0', 'b0', 'c0', 'd0', 'e0', 'f0'} return #t");
    let (mut out, client) = (Vec::new(), server.client);
    server.machine.eval(&first, &[], &[], &mut server.map, client, &mut out).unwrap().unwrap();
    assert_eq!(out, b":6\r\n");
}

#[test]
fn recursion_has_a_bound() {
    let mut server = Server::new();
    for code in [
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() return (string.gsub('x', 'x', f)) end f()",
        "local t = {} t[1] = t return cjson.encode(t)",
        "local t = {} t[1] = t return t",
        "local t = {} t[1] = t t[2] = t return cmsgpack.pack(t) and 1",
        "return string.find(string.rep('x', 10000), string.rep('x?', 10000))",
        "return cjson.decode(string.rep('[', 100000))",
        "cjson.decode_max_depth(1000000) return cjson.decode(string.rep('[', 100000))",
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "local s = setmetatable({}, {}) getmetatable(s).__index = function(t, k) return t[k] end return s.x",
        "return loadstring(string.rep('(', 10000))",
        "local t = setmetatable({}, {__tostring=function(t) return tostring(t) end}) return tostring(t)",
    ] {
        let reply = server.eval(code);
        assert!(!reply.is_empty(), "{code}");
    }
    assert_eq!(server.eval("return 1"), ":1\r\n");
}

#[test]
fn a_panic_of_the_host_leaves_a_machine_that_works() {
    let mut server = Server::new();
    let code = b"#!lua name=lib\nredis.register_function('f', function() return 5 end)";
    server.machine.load_library(code, false, &mut server.map).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| server.eval("return pcall(redis.call, 'panic')")));
    assert!(panic.is_err());
    assert_eq!(server.eval("return 1"), ":1\r\n");
    let (mut out, client) = (Vec::new(), server.client);
    server.machine.call(b"f", &[], &[], &mut server.map, client, &mut out).unwrap().unwrap();
    assert_eq!(out, b":5\r\n");
}
