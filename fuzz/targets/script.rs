//! Scripts: programs made of the input, and any bytes into the decoders of the helper libraries. No script harms the machine, whatever it
//! is: the next one runs, its memory is bounded, and its reply is one reply.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_script::{Host, Machine, Protocol, Settings, Verdict};
use sinterdb_fuzz::{Input, seed};
use std::cell::RefCell;

/// Bytes of Lua's memory.
const MEMORY_MAX: usize = 16 << 20;
/// Looks at the verdict after which a script is killed: some ten million instructions.
const PATIENCE: u32 = 100;

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new(Settings { memory_max: MEMORY_MAX, ..Settings::default() }));
}

/// Echoes its last argument in a type that the first names.
struct Echo(u32);

impl Host for Echo {
    fn call(&mut self, arguments: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        match arguments {
            [b"raw", reply_of_server] => reply.extend_from_slice(reply_of_server),
            [.., last] => reply.extend([format!("${}\r\n", last.len()).as_bytes(), last, b"\r\n"].concat()),
            [] => {}
        }
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        arguments.first().map(|name| name.len() > 3)
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { Verdict::Kill } else { Verdict::Continue }
    }

    fn clock(&mut self) -> f64 {
        0.0
    }

    fn count_error(&mut self, _: &[u8]) {}
}

/// Length of the reply at the front.
fn reply_length(bytes: &[u8]) -> usize {
    let line = bytes.windows(2).position(|end| end == b"\r\n").expect("a line ends") + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).expect("a number").parse::<i64>().expect("a number");
    let items = match bytes[0] {
        b'$' | b'=' if number() >= 0 => return line + usize::try_from(number()).expect("a length") + 2,
        b'*' | b'~' => number(),
        b'%' => 2 * number(),
        _ => 0,
    };
    (0..items).fold(line, |at, _| at + reply_length(&bytes[at..]))
}

/// Runs a script with the rest of the input as its argument.
fn run(machine: &mut Machine, code: &[u8], argument: &[u8], client: Protocol) {
    let Ok(digest) = machine.load_script(code) else { return };
    let mut out = b"+before\r\n".to_vec();
    let result = machine.eval(&digest, &[], &[argument], &mut Echo(PATIENCE), client, &mut out);
    match result.expect("the script was loaded") {
        // Replies deeper than this are for another test.
        Ok(()) if out.len() < 64 << 10 => assert_eq!(9 + reply_length(&out[9..]), out.len(), "a reply and something else"),
        Ok(()) => {}
        Err(_) => assert_eq!(out, b"+before\r\n", "a failure has no reply"),
    }
    assert!(machine.memory() <= MEMORY_MAX, "{} bytes", machine.memory());
}

/// Pieces of programs.
const PIECES: &[&str] = &[
    "return ",
    "local a = ",
    "a",
    "b",
    "(",
    ")",
    "{",
    "}",
    ",",
    " = ",
    "=",
    "..",
    "+",
    "#",
    "nil",
    "true",
    "1",
    "-1",
    "2^53",
    "'x'",
    "ARGV[1]",
    "KEYS",
    "_G",
    "redis",
    "redis.call",
    "redis.pcall",
    "redis.setresp(3)",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "struct.pack",
    "struct.unpack",
    "bit.band",
    "string.rep",
    "string.gsub",
    "string.find",
    "string.format",
    "table.sort",
    "table.insert",
    "table.concat",
    "unpack",
    "pcall",
    "xpcall",
    "error",
    "load",
    "loadstring",
    "setmetatable",
    "getmetatable",
    "rawset",
    "rawget",
    "next",
    "pairs",
    "tostring",
    "coroutine.wrap",
    "coroutine.resume",
    "coroutine.create",
    "coroutine.yield",
    "function(...) ",
    " end ",
    "for i = 1, 9 do ",
    "for k, v in pairs(",
    ") do ",
    "while true do ",
    "if a then ",
    "...",
    ".x",
    "[1]",
    ":rep(9)",
    "__index",
    "__gc",
    "__newindex",
    "\n",
    " ",
    ";",
    "'raw', ",
    "err=",
    "map=",
    "set=",
    "double=",
    "local b = ",
    "select('#', ",
    "string",
    "math.random",
    "collectgarbage()",
    "%",
    "'%b()'",
];

fn program(input: &mut Input) -> Vec<u8> {
    let pieces = input.below(60);
    (0..pieces).flat_map(|_| PIECES[input.below(PIECES.len())].bytes()).collect()
}

const DECODERS: &[&[u8]] = &[
    b"return {pcall(cmsgpack.unpack, ARGV[1])}",
    b"return {pcall(cmsgpack.unpack_limit, ARGV[1], 2)}",
    b"local ok, v = pcall(cjson.decode, ARGV[1]) if ok then assert(cjson.encode(cjson.decode(cjson.encode({v})))) end return v",
    b"return {pcall(struct.unpack, ARGV[1]:sub(1, 8), ARGV[1])}",
    b"return {pcall(struct.pack, ARGV[1], 1, 2, 3, 'x', 5)}",
    b"return {pcall(string.find, ARGV[1]:sub(9), ARGV[1]:sub(1, 8))}",
    b"return {pcall(string.gsub, ARGV[1]:sub(9), ARGV[1]:sub(1, 8), '%0%1')}",
    b"return redis.pcall('raw', ARGV[1])",
    b"redis.setresp(3) return redis.pcall('raw', ARGV[1])",
    b"return loadstring(ARGV[1])",
];

fn seeds() -> Vec<Vec<u8>> {
    let bytes: [&[u8]; 7] =
        [b"\x93\x01\xa1x\xc0", b"{\"a\":[1,null]}", b"<i4bs", b"%1\r\n+a\r\n:1\r\n", b"*2\r\n$1\r\na\r\n_\r\n", b"(a*)b", b"return 1"];
    let decoders = (0u8..10).flat_map(|n| bytes.map(|bytes| [&[1, n][..], bytes].concat()));
    decoders
        .chain(
            (0u8..20).map(|n| [&[0, 0, 40][..], &(0..80).map(|at| u8::wrapping_mul(at, 7).wrapping_add(n)).collect::<Vec<u8>>()].concat()),
        )
        .collect()
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    let mode = input.byte();
    let client = if mode & 2 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
    MACHINE.with_borrow_mut(|machine| {
        if mode & 1 == 1 {
            let decoder = DECODERS[usize::from(input.byte()) % DECODERS.len()];
            run(machine, decoder, input.0, client);
        } else {
            let code = program(&mut input);
            run(machine, &code, input.0, client);
            run(machine, &[b"pcall(function() ", &code[..], b" end) return 1"].concat(), input.0, client);
        }
        run(machine, b"return redis.call('echo', ARGV[1])", b"works", client);
        if machine.scripts().0 > 1000 {
            machine.flush_scripts();
        }
    });
});
