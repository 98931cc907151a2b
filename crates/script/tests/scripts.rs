//! Scripts: what they see, what they return, how they end.

use crate::common::Server;
use sinter_script::{Digest, Machine, Protocol};

#[test]
fn commands_and_replies_pass() {
    let mut server = Server::new();
    let code = b"local v = redis.call('get', KEYS[1]) redis.call('set', KEYS[1], ARGV[1]) return {v, redis.call('get', KEYS[1])}";
    assert_eq!(server.eval_with(code, &[b"k"], &[b"1"]).unwrap(), b"*2\r\n$-1\r\n$1\r\n1\r\n");
    assert_eq!(server.eval_with(code, &[b"k"], &[b"2"]).unwrap(), b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(server.eval("return redis.call('set', 'x', 3.5)"), "+OK\r\n");
    assert_eq!(server.map.keys[&b"x"[..]], b"3.5");
    assert_eq!(server.eval("return {1, 3.9, -3.9, {ok='fine'}, {err='MY err'}, nil, 7}"), "*5\r\n:1\r\n:3\r\n:-3\r\n+fine\r\n-MY err\r\n");
    assert_eq!(server.eval("return {double=0.1}"), "$19\r\n0.10000000000000001\r\n");
    assert_eq!(server.eval("return {map={a=1}}"), "*2\r\n$1\r\na\r\n:1\r\n");
    server.client = Protocol::Resp3;
    assert_eq!(server.eval("return {map={a={double=3}}}"), "%1\r\n$1\r\na\r\n,3\r\n");
    assert_eq!(server.eval("redis.setresp(3) return {true, false}"), "*2\r\n#t\r\n#f\r\n");
    assert_eq!(server.eval("return {verbatim_string={format='txt', string='abc'}}"), "=7\r\ntxt:abc\r\n");
    assert_eq!(
        server.eval("redis.setresp(3) return redis.call('raw', '%1\\r\\n$1\\r\\na\\r\\n~2\\r\\n:1\\r\\n_\\r\\n').map.a == nil"),
        "#f\r\n"
    );
}

/// The values are those of Redis 7.0.15.
#[test]
fn arrays_with_nil_end_where_they_do_in_redis() {
    let mut server = Server::new();
    for (items, expected) in [("_ 1 2", ":0"), ("1 _ 2", ":1"), ("1 2 _ 4", ":4"), ("_ _", ":0"), ("1 _ 2 _ 3", ":1")] {
        let encoded: String = items.split(' ').map(|item| if item == "_" { "_\\r\\n".into() } else { format!(":{item}\\r\\n") }).collect();
        let count = items.split(' ').count();
        let code = format!("redis.setresp(3) local r = redis.call('raw', '*{count}\\r\\n{encoded}') return select('#', unpack(r))");
        assert_eq!(server.eval(&code), format!("{expected}\r\n"), "{items}");
        let packed: String = items.split(' ').map(|item| if item == "_" { "\\192".into() } else { format!("\\{item}") }).collect();
        let code = format!("return #cmsgpack.unpack('\\{}{packed}')", 0x90 + count);
        assert_eq!(server.eval(&code), format!("{expected}\r\n"), "{items}");
    }
    assert_eq!(server.eval("return redis.error_reply(1)"), "-ERR wrong number or type of arguments\r\n");
}

#[test]
fn errors_have_the_texts_of_redis() {
    let mut server = Server::new();
    let line = " script: SHA, on @user_script:1.";
    for (code, expected) in [
        ("return nope", "ERR user_script:1: Script attempted to access nonexistent global variable 'nope'"),
        ("nope = 1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("redis.call = 1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("rawset(_G, 'x', 1)", "ERR Attempt to modify a readonly table"),
        ("setmetatable(_G, {})", "ERR Attempt to modify a readonly table"),
        ("getmetatable(_G).__index = 1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("getmetatable('').__index = 1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("table.insert(string, 1)", "ERR Attempt to modify a readonly table"),
        ("table.sort(_G)", "ERR Attempt to modify a readonly table"),
        ("error('x')", "ERR user_script:1: x"),
        ("error({err='MY x'})", "MY x"),
        ("redis.call('nope')", "ERR Unknown Redis command called from script"),
        ("redis.call()", "ERR Please specify at least one argument for this redis lib call"),
        ("redis.call({})", "ERR Lua redis lib command arguments must be strings or integers"),
        ("return dofile()", "ERR user_script:1: Script attempted to access nonexistent global variable 'dofile'"),
        ("redis.setresp(4)", "ERR RESP version must be 2 or 3."),
    ] {
        assert_eq!(server.text(code), format!("-{expected}{line}"), "{code}");
    }
    assert_eq!(server.text("return ) x"), "-ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'");
    assert_eq!(server.text("local ok, e = pcall(redis.call, 'nope') return e"), "ERR Unknown Redis command called from script");
    assert_eq!(server.text("return redis.pcall('nope').err"), "ERR Unknown Redis command called from script");
    assert_eq!(server.text("local f, e = loadstring(')') return e"), "[string \")\"]:1: unexpected symbol near ')'");
    assert_eq!(server.text("return loadstring('\\27Lua') == nil and 'refused'"), "refused");
    assert_eq!(server.text("local p = {'return ', '4'} local n = 0 return tostring(load(function() n = n + 1 return p[n] end)())"), "4");
}

#[test]
fn the_first_line_states_flags() {
    let mut server = Server::new();
    let digest = server.machine.load_script(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
    let flags = server.machine.script_flags(&digest).unwrap().unwrap();
    assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
    let error = |code: &[u8]| String::from_utf8(Machine::flags_of(code).unwrap_err().message).unwrap();
    assert_eq!(error(b"#!lua"), "ERR Invalid script shebang");
    assert_eq!(error(b"#!js\n"), "ERR Unexpected engine in script shebang: #!js");
    assert_eq!(error(b"#!lua flags=x\n"), "ERR Unexpected flag in script shebang: x");
    assert_eq!(error(b"#!lua name=x\n"), "ERR Unknown lua shebang option: name=x");
    assert_eq!(Digest::parse(&digest.bytes().to_ascii_uppercase()), Some(digest));
    assert_eq!(server.eval("return 1"), ":1\r\n");
    server.machine.load_script(b"return 1").unwrap();
    assert_eq!(server.machine.scripts(), (2, 40 + 8));
    server.machine.flush_scripts();
    assert!(!server.machine.has_script(&digest));
    assert_eq!(server.machine.scripts(), (0, 0));
}

#[test]
fn errors_that_no_command_has_counted_are_told() {
    let mut server = Server::new();
    server.eval("return {redis.error_reply('MY one'), redis.pcall('nope'), {err='MY two'}}");
    assert_eq!(server.map.errors, [&b"MY one"[..], b"MY two"]);
    let failure = |server: &mut Server, code: &[u8]| server.eval_with(code, &[], &[]).unwrap_err();
    assert!(failure(&mut server, b"redis.call('nope')").counted);
    assert!(!failure(&mut server, b"error('x')").counted);
}

#[test]
fn the_host_hears_what_is_not_a_command() {
    let mut server = Server::new();
    let code = "redis.log(redis.LOG_WARNING, 'a', 1, true, 'b') redis.set_repl(redis.REPL_AOF)
        return {redis.acl_check_cmd('get', 'x'), redis.acl_check_cmd('set', 'x'), tostring(os.clock())}";
    assert_eq!(server.eval(code), "*3\r\n:1\r\n$-1\r\n$3\r\n1.5\r\n");
    assert_eq!(server.map.log, [(3, b"a 1 b".to_vec())]);
    assert_eq!(server.map.replication, Some(1));
}
