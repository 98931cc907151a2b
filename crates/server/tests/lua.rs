//! Scripts and functions: beside a real `redis-server`, late ones, and what is left of them in files.

use crate::common::beside::compare;
use crate::common::{Client, Served, encode};
use sinter_server::command::Server;
use sinter_server::command::configuration::Configuration;
use sinter_storage::store::{MemoryStore, Store};
use std::sync::Arc;

const SCRIPTS: &[&str] = &[
    "a: EVAL return␣1 0",
    "a: EVAL return␣{KEYS[1],ARGV[1],ARGV[2]} 1 k x y",
    "a: EVAL return␣redis.call('set',KEYS[1],ARGV[1]) 1 k v",
    "a: EVAL return␣redis.call('get',KEYS[1]) 1 k",
    "a: EVAL return␣redis.call('nosuch') 0",
    "a: EVAL return␣redis.call('get') 0",
    "a: EVAL return␣redis.pcall('incr','k') 0",
    "a: EVAL return␣redis.call('incr','k') 0",
    "a: EVAL redis.call('set','x','1')␣return␣redis.call('incr','k') 0",
    "a: GET x",
    "a: EVAL return␣redis.call('watch','k') 0",
    "a: EVAL return␣redis.call('client','id') 0",
    "a: EVAL return␣redis.call('blpop','nolist',0) 0",
    "a: EVAL return␣redis.call('select',3) 0",
    "a: EVAL redis.call('select',3)␣return␣redis.call('set','only','3') 0",
    "a: EXISTS only",
    "a: EVAL return 0",
    "a: EVAL return␣1 2 a",
    "a: EVAL return␣1 -1 a",
    "a: EVAL return␣1 x a",
    "a: EVAL_RO return␣redis.call('get','k') 0",
    "a: EVAL_RO return␣redis.call('set','k','w') 0",
    "a: EVAL_RO return␣redis.call('publish','k','w') 0",
    "a: EVAL_RO return␣redis.call('pfcount','k') 0",
    "a: EVALSHA abc 0",
    "a: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "a: SCRIPT LOAD return␣1",
    "a: SCRIPT LOAD return␣'whole'",
    "a: SCRIPT LOAD return␣(",
    "a: SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x",
    "a: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "a: EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0",
    "a: EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "a: SCRIPT FLUSH now",
    "a: SCRIPT FLUSH sync again",
    "a: SCRIPT FLUSH async",
    "a: SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    "a: SCRIPT LOAD",
    "a: SCRIPT NOSUCH",
    "a: SCRIPT DEBUG maybe",
    "a: SCRIPT DEBUG no",
    "a: SCRIPT KILL",
    "a: MULTI",
    "a: EVAL return␣redis.call('incr','n') 0",
    "a: EVALSHA abc 0",
    "a: EVAL redis.call('incr','n')␣error('boom') 0",
    "a: INCR n",
    "a: EXEC",
    "a: EXEC",
    "a: EXEC x",
    "a: EVAL return␣redis.acl_check_cmd('get','k') 0",
    "a: ACL SETUSER bob on nopass +@all -get ~k* &c*",
    "b: AUTH bob x",
    "b: EVAL return␣redis.call('get','k') 0",
    "b: EVAL return␣redis.call('set','a','b') 0",
    "b: EVAL return␣redis.call('set','k2','b') 0",
    "b: EVAL return␣redis.call('publish','a','b') 0",
    "b: EVAL return␣{redis.acl_check_cmd('get','k'),redis.acl_check_cmd('set','k','v')} 0",
    "b: EVAL return␣redis.acl_check_cmd('nosuch') 0",
    "a: ACL SETUSER carl on nopass +@all -@scripting ~*",
    "c: AUTH carl x",
    "c: EVAL return␣1 0",
    "c: FCALL f 0",
    "c: FUNCTION LIST",
    "a: COMMAND GETKEYS EVAL return␣1 2 a b c",
    "a: COMMAND GETKEYS EVAL return␣1 0",
    "a: CONFIG GET lua-time-limit",
    "a: CONFIG SET busy-reply-threshold 77",
    "a: CONFIG GET *time-limit",
    "a: HELLO 3",
    "a: EVAL redis.setresp(3)␣return␣redis.call('hgetall','nohash') 0",
    "a: EVAL return␣{double=3.5} 0",
    "a: EVAL return␣redis.call('xread','BLOCK',0,'STREAMS','s','$') 0",
    "a: EVAL return␣redis.call('xread','BLOCK','x','STREAMS','s','$') 0",
    "a: EVAL return␣redis.call('xread','BLOCK',0,'STREAMS','s') 0",
    "a: EVAL return␣redis.call('XREADGROUP','GROUP','g','c','BLOCK',-1,'STREAMS','s','>') 0",
    "a: EVAL return␣redis.call('XREADGROUP','COUNT',1,'BLOCK',0,'STREAMS','s','>') 0",
    "a: HELLO 2",
    "a: EVAL return␣{big_number='1\r\n2'} 0",
];

const FUNCTIONS: &[&str] = &[
    "a: FUNCTION LOAD x",
    "a: FUNCTION LOAD #!lua␣name=one\nredis.register_function('f',function(k,a)␣return␣{k[1],a[1],redis.call('incr',k[1])}␣end)",
    "a: FUNCTION LOAD #!lua␣name=one\nredis.register_function('f',function(k,a)␣return␣1␣end)",
    "a: FUNCTION LOAD #!lua␣name=two\nredis.register_function('F',function(k,a)␣return␣1␣end)",
    "a: FUNCTION LOAD twice x",
    "a: FCALL f 1 n x",
    "a: FCALL F 1 n x",
    "a: FCALL f x",
    "a: FCALL f 5",
    "a: FCALL f -1",
    "a: FCALL nosuch 0",
    "a: FCALL_RO f 1 n",
    "a: FUNCTION LOAD #!lua␣name=ro\nredis.register_function{function_name='r',\
     callback=function(k)␣return␣redis.call('get',k[1])␣end,flags={'no-writes'}}",
    "a: FUNCTION LOAD #!lua␣name=bad\nredis.register_function{function_name='w',callback=function(k)␣return␣redis.call('set','a','b')␣end,\
     flags={'no-writes'}}",
    "a: FCALL_RO r 1 n",
    "a: FCALL w 0",
    "a: FUNCTION LIST LIBRARYNAME R*",
    "a: FUNCTION LIST LIBRARYNAME one WITHCODE",
    "a: FUNCTION LIST WITHCODE WITHCODE",
    "a: FUNCTION STATS",
    "a: FUNCTION DELETE nosuch",
    "a: FUNCTION DELETE one",
    "a: FCALL f 1 n x",
    "a: FUNCTION RESTORE x",
    "a: FUNCTION RESTORE x never",
    "a: FUNCTION RESTORE x append more",
    "a: FLUSHALL",
    "a: FUNCTION STATS",
    "a: FUNCTION FLUSH now",
    "a: FUNCTION FLUSH sync now",
    "a: FUNCTION FLUSH",
    "a: FUNCTION STATS",
    "a: FUNCTION KILL",
];

/// `s` reads all settings of `cjson`, and `f` those of functions; `c` changes all of them, and `g` those of functions.
const SETTINGS: &[&str] = &[
    "s: EVAL SETTINGS 0",
    "c: EVAL CHANGE 0",
    "s: EVAL SETTINGS 0",
    "f: FUNCTION LOAD #!lua␣name=l\nredis.register_function('f',function()␣SETTINGS␣end)\n\
     redis.register_function('g',function()␣CHANGE␣end)",
    "f: FCALL f 0",
    "a: SCRIPT FLUSH",
    "s: EVAL SETTINGS 0",
    "f: FCALL f 0",
    "g: FCALL g 0",
    "s: EVAL SETTINGS 0",
    "f: FCALL f 0",
    "a: SCRIPT FLUSH ASYNC",
    "f: FCALL f 0",
    "a: FUNCTION FLUSH",
    "f: FUNCTION LOAD #!lua␣name=l\nredis.register_function('f',function()␣SETTINGS␣end)",
    "f: FCALL f 0",
    "s: EVAL SETTINGS 0",
];

/// A script with the names of the settings of `cjson`, each called with the argument that belongs to it or with none.
fn settings(change: bool) -> String {
    let all = [
        ("encode_sparse_array", "true"),
        ("encode_max_depth", "7"),
        ("decode_max_depth", "8"),
        ("encode_number_precision", "9"),
        ("encode_keep_buffer", "false"),
        ("encode_invalid_numbers", "true"),
        ("decode_invalid_numbers", "false"),
    ];
    let calls = all.map(|(name, value)| format!("tostring(cjson.{name}({}))", if change { value } else { "" }));
    format!("return␣{{{}}}", calls.join(","))
}

#[test]
fn settings_of_cjson_end_with_the_scripts_as_in_redis() {
    let lines = SETTINGS.iter().map(|line| line.replace("SETTINGS", &settings(false)).replace("CHANGE", &settings(true)));
    let lines: Vec<String> = lines.collect();
    compare(&lines.iter().map(String::as_str).collect::<Vec<_>>(), |_, reply| reply);
}

#[test]
fn scripts_answer_as_in_redis() {
    // Numbers of clients differ.
    compare(SCRIPTS, |command, reply| reply.filter(|_| !command.starts_with("HELLO")));
}

#[test]
fn functions_answer_as_in_redis() {
    compare(FUNCTIONS, |_, reply| reply);
}

/// A server whose scripts are late after a millisecond.
fn impatient(store: Arc<dyn Store>) -> Served {
    let configuration = Configuration { late_ms: 1, ..Configuration::default() };
    Served::with(Server { configuration, ..Server::default() }, store)
}

fn ask(client: &mut Client, line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(|word| word.replace('␣', " ")).collect();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.ask(&words).to_string()
}

fn send(client: &mut Client, line: &str) {
    client.send(&encode(&line.split(' ').map(|word| word.replace('␣', " ")).collect::<Vec<_>>()));
}

/// Asks until the server is busy.
fn wait_until_busy(client: &mut Client) -> String {
    loop {
        let reply = ask(client, "PING");
        if reply != "+PONG" {
            return reply;
        }
    }
}

const BUSY_SCRIPT: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

#[test]
fn a_late_script_can_be_ended_until_it_writes() {
    let served = impatient(Arc::new(MemoryStore::new()));
    let (mut a, mut b) = (served.client(), served.client());
    assert_eq!(ask(&mut b, "SET k 1"), "+OK");
    send(&mut a, "EVAL while␣true␣do␣pcall(redis.call,'get','k')␣end 0");
    assert_eq!(wait_until_busy(&mut b), BUSY_SCRIPT);
    for (line, reply) in [
        ("GET k", BUSY_SCRIPT),
        ("MULTI", "+OK"),
        ("GET k", BUSY_SCRIPT),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of: BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
             NOSAVE.",
        ),
        ("DISCARD", "-ERR DISCARD without MULTI"),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of: BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
             NOSAVE.",
        ),
        ("MULTI", "+OK"),
        ("DISCARD", "+OK"),
        ("WATCH k", "+OK"),
        ("UNWATCH", "+OK"),
        ("FUNCTION STATS", BUSY_SCRIPT),
        ("FUNCTION KILL", BUSY_SCRIPT),
        ("SHUTDOWN", BUSY_SCRIPT),
        ("SCRIPT EXISTS x", BUSY_SCRIPT),
        ("EVAL return␣1 0", BUSY_SCRIPT),
    ] {
        assert_eq!(ask(&mut b, line), reply, "{line}");
    }
    // A client that connects meanwhile gets replies, too.
    let mut late = served.client();
    assert_eq!(ask(&mut late, "PING"), BUSY_SCRIPT);
    assert!(ask(&mut late, "HELLO 3").contains("proto"));
    assert_eq!(ask(&mut b, "SCRIPT KILL"), "+OK");
    let killed = a.reply().unwrap().to_string();
    assert!(killed.starts_with("-ERR Error running script") || killed.contains("Script killed by user with SCRIPT KILL"), "{killed}");
    assert_eq!((ask(&mut a, "GET k"), ask(&mut b, "SCRIPT KILL")), ("$1".into(), "-NOTBUSY No scripts in execution right now.".into()));
    // The client of a late script may go away before the script ends.
    send(&mut a, "EVAL local␣n=0␣while␣n<20000000␣do␣n=n+1␣end␣return␣redis.call('set','done','1') 0");
    assert_eq!(wait_until_busy(&mut b), BUSY_SCRIPT);
    drop(a);
    while ask(&mut b, "GET done") != "$1" {}
}

#[test]
fn a_late_script_that_has_written_cannot_be_ended() {
    let served = impatient(Arc::new(MemoryStore::new()));
    let (mut a, mut b) = (served.client(), served.client());
    let code = "#!lua␣name=l\nredis.register_function('f',function(k,a)␣redis.call('set','x','1')␣while␣redis.call('get','x')␣do␣end␣end)";
    assert_eq!(ask(&mut a, &format!("FUNCTION LOAD {code}")), "$l");
    send(&mut a, "EVAL redis.call('set','x','1')␣local␣n=0␣while␣n<20000000␣do␣n=n+1␣end␣return␣n 0");
    assert_eq!(wait_until_busy(&mut b), BUSY_SCRIPT);
    let reply = ask(&mut b, "SCRIPT KILL");
    assert!(reply.starts_with("-UNKILLABLE Sorry the script already executed write commands against the dataset."), "{reply}");
    assert_eq!((a.reply().unwrap().to_string().as_str(), ask(&mut b, "GET x").as_str()), (":20000000", "$1"));
    ask(&mut b, "DEL x");
    send(&mut a, "FCALL f 0");
    assert_eq!(wait_until_busy(&mut b), BUSY_FUNCTION);
    let stats = ask(&mut b, "FUNCTION STATS");
    assert!(stats.starts_with("*4($running_script *6($name $f $command *3($FCALL $f $0 ) $duration_ms :"), "{stats}");
    assert!(ask(&mut b, "FUNCTION KILL").starts_with("-UNKILLABLE"));
    // The end of the process drops the script's writes.
    send(&mut b, "SHUTDOWN NOSAVE");
    while b.reply().is_some() {}
}

#[test]
fn an_end_of_the_process_drops_the_writes_of_a_late_script() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let served = impatient(store.clone());
    let (mut a, mut b) = (served.client(), served.client());
    assert_eq!(ask(&mut b, "SET before 1"), "+OK");
    send(&mut a, "EVAL redis.call('set','before','2')␣redis.call('set','x','1')␣while␣true␣do␣end 0");
    assert_eq!(wait_until_busy(&mut b), BUSY_SCRIPT);
    send(&mut b, "SHUTDOWN NOSAVE");
    while b.reply().is_some() {}
    drop(served);
    let served = Served::with(Server::default(), store);
    let mut client = served.client();
    assert_eq!((ask(&mut client, "GET before"), ask(&mut client, "EXISTS x")), ("$1".into(), ":0".into()));
}

#[test]
fn functions_outlive_the_process_and_the_keys() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let served = Served::with(Server::default(), store.clone());
    let mut client = served.client();
    for name in ["a", "b"] {
        let code = format!("#!lua␣name={name}\nredis.register_function('{name}',function()␣return␣'{name}'␣end)");
        assert_eq!(ask(&mut client, &format!("FUNCTION LOAD {code}")), format!("${name}"));
    }
    assert_eq!((ask(&mut client, "FUNCTION DELETE b"), ask(&mut client, "FLUSHALL")), ("+OK".into(), "+OK".into()));
    drop((client, served));
    let served = Served::with(Server::default(), store);
    let mut client = served.client();
    assert_eq!((ask(&mut client, "FCALL a 0"), ask(&mut client, "FCALL b 0")), ("$a".into(), "-ERR Function not found".into()));
    assert!(ask(&mut client, "INFO memory").contains("number_of_functions:1"));
}

#[test]
fn restored_libraries_are_all_or_none() {
    let served = Served::start();
    let mut client = served.client();
    let load = |client: &mut Client, name: &str, function: &str| {
        ask(
            client,
            &format!("FUNCTION LOAD REPLACE #!lua␣name={name}\nredis.register_function('{function}',function()␣return␣'{name}'␣end)"),
        )
    };
    load(&mut client, "a", "fa");
    load(&mut client, "b", "fb");
    let crate::common::Reply::One(dump) = client.ask(&[b"FUNCTION", b"DUMP"]) else { panic!("a text") };
    let restore = |client: &mut Client, policy: &str| client.ask(&[b"FUNCTION", b"RESTORE", &dump[1..], policy.as_bytes()]).to_string();
    assert_eq!(restore(&mut client, "APPEND"), "-ERR Library a already exists");
    assert_eq!((restore(&mut client, "REPLACE"), restore(&mut client, "FLUSH")), ("+OK".into(), "+OK".into()));
    ask(&mut client, "FUNCTION FLUSH");
    load(&mut client, "c", "FB");
    assert_eq!(restore(&mut client, "APPEND"), "-ERR Function fb already exists");
    assert_eq!((ask(&mut client, "FCALL fa 0").as_str(), ask(&mut client, "FCALL fb 0").as_str()), ("-ERR Function not found", "$c"));
    assert_eq!(restore(&mut client, "FLUSH"), "+OK");
    assert_eq!((ask(&mut client, "FCALL fa 0").as_str(), ask(&mut client, "FCALL fb 0").as_str()), ("$a", "$b"));
}

#[test]
fn libraries_that_do_not_fit_beside_others_leave_them_as_they_are() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let served = Served::with(Server::default(), store.clone());
    let mut client = served.client();
    // Of the 512 MiB of scripts, one of the two large libraries fits.
    let large = "local␣s='0123456789abcdef'␣for␣i=1,20␣do␣s=s..s␣end␣local␣t={}␣for␣i=1,20␣do␣t[i]=s..i␣end";
    for (name, body) in [("a", ""), ("large", large)] {
        let code = format!("#!lua␣name={name}\n{body}␣redis.register_function('f{name}',function()␣return␣1␣end)");
        assert_eq!(ask(&mut client, &format!("FUNCTION LOAD {code}")), format!("${name}"));
    }
    let crate::common::Reply::One(dump) = client.ask(&[b"FUNCTION", b"DUMP"]) else { panic!("a text") };
    ask(&mut client, "FUNCTION FLUSH");
    // Lua holds equal strings once.
    let large = large.replace("0123456789abcdef", "fedcba9876543210");
    let code = format!("#!lua␣name=old\n{large}␣redis.register_function('fold',function()␣return␣#t␣end)");
    assert_eq!(ask(&mut client, &format!("FUNCTION LOAD {code}")), "$old");
    let refused = client.ask(&[b"FUNCTION", b"RESTORE", &dump[1..]]).to_string();
    assert!(refused.contains("not enough memory"), "{refused}");
    let found = |client: &mut Client| ["FCALL fa 0", "FCALL flarge 0", "FCALL fold 0"].map(|line| ask(client, line));
    let expected = ["-ERR Function not found", "-ERR Function not found", ":20"];
    assert_eq!(found(&mut client), expected);
    drop((client, served));
    let served = Served::with(Server::default(), store);
    assert_eq!(found(&mut served.client()), expected);
}

#[test]
fn monitors_see_a_script_before_its_commands() {
    let served = Served::start();
    let (mut monitor, mut client) = (served.client(), served.client());
    assert_eq!(ask(&mut monitor, "MONITOR"), "+OK");
    ask(&mut client, "EVAL redis.call('set','k','v')␣return␣redis.call('get','k') 0");
    let lines: Vec<String> = (0..3).map(|_| monitor.reply().unwrap().to_string()).collect();
    assert!(lines[0].contains("EVAL") && lines[1].contains("[0 lua] ") && lines[2].contains("[0 lua] "), "{lines:?}");
}

#[test]
fn long_strings_are_read_by_scripts() {
    let served = Served::start();
    let mut client = served.client();
    let long = "x".repeat(3 << 20);
    client.ask(&[b"SET", b"long", long.as_bytes()]);
    let code = "local␣s=redis.call('get','long')␣return␣{#s,redis.sha1hex(s)==redis.sha1hex(ARGV[1]),redis.call('strlen','long')}";
    let code = code.replace('␣', " ");
    let reply = client.ask(&[b"EVAL", code.as_bytes(), b"0", long.as_bytes()]).to_string();
    assert_eq!(reply, "*3(:3145728 :1 :3145728 )");
}
