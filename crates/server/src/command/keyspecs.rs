//! Key specifications: which arguments of a command are keys, and what is done to them; one table for all commands.
//!
//! A specification says where the search begins, how far the keys reach from there, and what is done to them. Access rules,
//! `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS` read one entry. [`keys`] decides cases that depend on the arguments (`SET .. GET`).

use super::Command;
use super::arguments::is;
use super::comparison::is_comparison;
use crate::number::parse_integer;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The value is read and not changed.
const RO: u16 = 1;
/// The value is read and changed.
const RW: u16 = 1 << 1;
/// The value is replaced, whatever it was.
const OW: u16 = 1 << 2;
/// The key is removed.
const RM: u16 = 1 << 3;
/// Content of the value reaches the client, or another key.
const ACCESS: u16 = 1 << 4;
/// Content of the value is changed.
const UPDATE: u16 = 1 << 5;
/// Content is added, and existing content stays.
const INSERT: u16 = 1 << 6;
/// Content is removed.
const DELETE: u16 = 1 << 7;
/// The argument is no key, though it is found like one.
const NOT_KEY: u16 = 1 << 8;
/// The specification may miss some keys.
const INCOMPLETE: u16 = 1 << 9;
/// The flags depend on other arguments.
const VARIABLE: u16 = 1 << 10;

/// Names of the flags, as `COMMAND` shows them.
const FLAG_NAMES: &[(u16, &str)] = &[
    (RO, "RO"),
    (RW, "RW"),
    (OW, "OW"),
    (RM, "RM"),
    (ACCESS, "access"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (DELETE, "delete"),
    (NOT_KEY, "not_key"),
    (INCOMPLETE, "incomplete"),
    (VARIABLE, "variable_flags"),
];

/// Start of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// Index of the argument.
    Index(i32),
    /// The argument behind this word, which is looked for from this index on (negative: backwards from the end).
    Keyword(&'static str, i32),
    /// Not expressible as a rule.
    Unknown,
}

/// Extent of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Find {
    /// Up to this argument, relative to the start (negative: counted from the last argument), with this step. A limit of n: only the first
    /// nth part of the arguments.
    Range(i32, i32, i32),
    /// Index of the number of keys, index of the first key, and step, all relative to the start.
    Count(i32, i32, i32),
    /// Not expressible as a rule.
    Unknown,
}

/// A rule that finds some keys of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeySpec {
    flags: u16,
    pub begin: Begin,
    pub find: Find,
}

/// A key among the arguments, and what is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyArgument {
    pub position: usize,
    flags: u16,
}

/// Names of flags.
fn names(flags: u16) -> impl Iterator<Item = &'static str> {
    FLAG_NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, name)| *name)
}

impl KeyArgument {
    /// Whether the client learns content of the value.
    pub fn is_read(self) -> bool {
        self.flags & ACCESS != 0
    }

    /// Whether the value changes.
    pub fn is_written(self) -> bool {
        self.flags & (UPDATE | INSERT | DELETE) != 0
    }

    /// Names of the flags, as `COMMAND GETKEYSANDFLAGS` shows them.
    pub fn flag_names(self) -> impl Iterator<Item = &'static str> {
        names(self.flags)
    }
}

impl KeySpec {
    const fn new(flags: u16, begin: Begin, find: Find) -> Self {
        KeySpec { flags, begin, find }
    }

    /// Names of the flags, as `COMMAND INFO` shows them.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        names(self.flags)
    }

    /// Whether the arguments found are keys.
    pub fn is_of_keys(&self) -> bool {
        self.flags & NOT_KEY == 0
    }

    /// Whether the specification may miss keys.
    fn is_partial(&self) -> bool {
        self.flags & INCOMPLETE != 0 || self.begin == Begin::Unknown || self.find == Find::Unknown
    }
}

/// One key.
const fn key(flags: u16, index: i32) -> KeySpec {
    KeySpec::new(flags, Begin::Index(index), Find::Range(0, 1, 0))
}

/// All arguments from one on are keys.
const fn rest(flags: u16, index: i32) -> KeySpec {
    KeySpec::new(flags, Begin::Index(index), Find::Range(-1, 1, 0))
}

/// All arguments but the last, which is a timeout.
const fn before_timeout(flags: u16) -> KeySpec {
    KeySpec::new(flags, Begin::Index(1), Find::Range(-2, 1, 0))
}

/// Keys behind a number that says how many they are.
const fn counted(flags: u16, index: i32) -> KeySpec {
    KeySpec::new(flags, Begin::Index(index), Find::Count(0, 1, 1))
}

/// A key behind a word.
const fn behind(flags: u16, word: &'static str, from: i32) -> KeySpec {
    KeySpec::new(flags, Begin::Keyword(word, from), Find::Range(0, 1, 0))
}

/// Keys that only a parser of the command can find.
const fn unknown(flags: u16) -> KeySpec {
    KeySpec::new(flags, Begin::Unknown, Find::Unknown)
}

/// The first half of the arguments behind `STREAMS`.
const fn streams(from: i32) -> KeySpec {
    KeySpec::new(RO | ACCESS, Begin::Keyword("STREAMS", from), Find::Range(-1, 1, 2))
}

/// Keys alternating with values.
const fn pairs(flags: u16) -> KeySpec {
    KeySpec::new(flags, Begin::Index(1), Find::Range(-1, 2, 0))
}

const READ: u16 = RO | ACCESS;
const REPLACE: u16 = OW | UPDATE;
const TAKE: u16 = RW | ACCESS | DELETE;

/// Specifications, and the commands that they belong to. Where a command finds its keys itself (`finds_keys`), the flags of the first
/// specification count for its first key, and those of the last one for all others; rules of users look at these flags.
const SPECS: &[(&[KeySpec], &str)] = &[
    (
        &[key(READ, 1)],
        "bitcount bitfield_ro bitpos digest dump expiretime geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get getbit \
         getrange hexpiretime hget hgetall hkeys hmget hpexpiretime hpttl hrandfield hscan httl hvals lindex lpos lrange pexpiretime pttl \
         smembers smismember srandmember sscan substr ttl xpending xrange xrevrange zcount zlexcount zmscore zrandmember zrange \
         zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore",
    ),
    (&[key(RO, 1)], "hexists hlen hstrlen llen scard sismember strlen type xlen zcard"),
    (&[key(RO, 2)], "memory|usage object|encoding object|freq object|idletime object|refcount"),
    (&[key(READ, 2)], "xinfo|consumers xinfo|groups xinfo|stream"),
    (&[rest(RO, 1)], "exists touch watch"),
    (&[rest(READ, 1)], "mget sdiff sinter sunion"),
    (&[KeySpec::new(READ, Begin::Index(1), Find::Range(1, 1, 0))], "lcs"),
    (&[counted(READ, 1)], "sintercard zdiff zinter zintercard zunion"),
    (&[streams(1)], "xread"),
    (&[streams(4)], "xreadgroup"),
    (&[rest(RM | DELETE, 1)], "del unlink"),
    (&[key(REPLACE, 1)], "psetex restore restore-asking setex"),
    (&[key(OW | INSERT, 1)], "setnx"),
    (&[pairs(REPLACE)], "mset"),
    (&[pairs(OW | INSERT)], "msetnx"),
    (&[KeySpec::new(REPLACE, Begin::Index(1), Find::Count(0, 1, 2))], "msetex"),
    (&[key(RW | ACCESS | UPDATE | VARIABLE, 1)], "bitfield set"),
    (&[key(RW | DELETE | VARIABLE, 1)], "delex"),
    (&[key(RM | ACCESS | DELETE, 1)], "delifeq"),
    (&[key(RW | ACCESS | UPDATE, 1)], "decr decrby getex getset hgetex hincrby hincrbyfloat incr incrby incrbyfloat move setbit zincrby"),
    (
        &[key(RW | UPDATE, 1)],
        "expire expireat geoadd hexpire hexpireat hmset hpersist hpexpire hpexpireat hset hsetex lset persist pexpire pexpireat setrange \
         xack xadd xclaim xsetid zadd",
    ),
    (&[key(RW | INSERT, 1)], "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd"),
    (&[key(RW | DELETE, 1)], "hdel lrem ltrim srem xautoclaim xdel xdelex xtrim zrem zremrangebylex zremrangebyrank zremrangebyscore"),
    (&[key(RW | UPDATE | DELETE, 1)], "xackdel"),
    (&[key(TAKE, 1)], "getdel hgetdel lpop rpop spop zpopmax zpopmin"),
    (&[before_timeout(TAKE)], "blpop brpop bzpopmax bzpopmin"),
    (&[counted(TAKE, 1)], "lmpop zmpop"),
    (&[counted(TAKE, 2)], "blmpop bzmpop"),
    (&[key(TAKE, 1), key(RW | INSERT, 2)], "blmove brpoplpush lmove rpoplpush smove"),
    (&[key(TAKE, 1), key(REPLACE, 2)], "rename"),
    (&[key(TAKE, 1), key(OW | INSERT, 2)], "renamenx"),
    (&[key(READ, 1), key(REPLACE, 2)], "copy"),
    (&[key(REPLACE, 1), key(READ, 2)], "geosearchstore zrangestore"),
    (&[key(REPLACE, 1), rest(READ, 2)], "sdiffstore sunionstore"),
    (&[key(RW | UPDATE, 1), rest(READ, 2)], "sinterstore"),
    (&[key(REPLACE, 1), counted(READ, 2)], "zdiffstore zinterstore zunionstore"),
    (&[key(REPLACE, 2), rest(READ, 3)], "bitop"),
    (&[rest(RW | ACCESS, 1)], "pfcount"),
    (&[key(RW | ACCESS | INSERT, 1), rest(READ, 2)], "pfmerge"),
    (&[key(RW | ACCESS, 2)], "pfdebug"),
    (&[key(RW | INSERT, 2)], "xgroup|create xgroup|createconsumer"),
    (&[key(RW | DELETE, 2)], "xgroup|delconsumer xgroup|destroy"),
    (&[key(RW | UPDATE, 2)], "xgroup|setid"),
    (&[key(TAKE, 3), KeySpec::new(TAKE | INCOMPLETE, Begin::Keyword("KEYS", -2), Find::Range(-1, 1, 0))], "migrate"),
    (&[key(READ, 1), unknown(READ)], "sort_ro"),
    (&[key(READ, 1), unknown(READ), unknown(REPLACE)], "sort"),
    (&[key(READ, 1), behind(REPLACE, "STORE", 6), behind(REPLACE, "STOREDIST", 6)], "georadius"),
    (&[key(READ, 1), behind(REPLACE, "STORE", 5), behind(REPLACE, "STOREDIST", 5)], "georadiusbymember"),
    (&[counted(RW | ACCESS | UPDATE, 2)], "eval evalsha fcall"),
    (&[counted(READ, 2)], "eval_ro evalsha_ro fcall_ro"),
    (&[KeySpec::new(NOT_KEY, Begin::Index(1), Find::Range(0, 1, 0))], "spublish"),
    (&[KeySpec::new(NOT_KEY, Begin::Index(1), Find::Range(-1, 1, 0))], "ssubscribe sunsubscribe"),
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static [KeySpec]>> =
    LazyLock::new(|| SPECS.iter().flat_map(|(specs, names)| names.split_ascii_whitespace().map(|name| (name, *specs))).collect());

/// The specifications of a command or a subcommand (`object|encoding`).
pub(super) fn of(name: &str) -> &'static [KeySpec] {
    BY_NAME.get(name).copied().unwrap_or_default()
}

/// Position of the key of a command that has a single key at a fixed position.
pub(super) fn only(specs: &[KeySpec]) -> Option<usize> {
    match specs {
        [KeySpec { flags, begin: Begin::Index(index), find: Find::Range(0, ..) }] if flags & NOT_KEY == 0 => usize::try_from(*index).ok(),
        _ => None,
    }
}

/// The keys among the arguments; `None`: the arguments are malformed. `specs` are those of the command or subcommand.
pub(super) fn keys(command: &Command, specs: &'static [KeySpec], arguments: &[&[u8]]) -> Option<Vec<KeyArgument>> {
    if let Some(find) = command.finds_keys {
        // The first key has the flags of the first specification, the others those of the last one.
        let flags = |spec: Option<&KeySpec>| spec.map_or(0, |spec| spec.flags & !INCOMPLETE);
        let (first, others) = (flags(specs.first()), flags(specs.last()));
        let found = find(arguments)?.into_iter().enumerate();
        return Some(found.map(|(at, position)| KeyArgument { position, flags: if at == 0 { first } else { others } }).collect());
    }
    let mut found = Vec::new();
    for spec in specs.iter().filter(|spec| spec.is_of_keys() && !spec.is_partial()) {
        let flags = if spec.flags & VARIABLE == 0 { spec.flags } else { variable(command, arguments) };
        let Some(begin) = begin(spec.begin, arguments) else { continue };
        positions(spec.find, begin, arguments, &mut |position| found.push(KeyArgument { position, flags }))?;
    }
    Some(found)
}

fn begin(begin: Begin, arguments: &[&[u8]]) -> Option<usize> {
    match begin {
        Begin::Index(index) => usize::try_from(index).ok(),
        Begin::Keyword(word, from) => {
            let from = usize::try_from(from).ok()?;
            let at = arguments.iter().skip(from).position(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))?;
            Some(from + at + 1)
        }
        Begin::Unknown => None,
    }
}

fn positions(find: Find, begin: usize, arguments: &[&[u8]], take: &mut dyn FnMut(usize)) -> Option<()> {
    let step_of = |step: i32| usize::try_from(step).ok().filter(|step| *step > 0);
    match find {
        Find::Range(last, step, limit) => {
            let count = arguments.len();
            let last = if last >= 0 {
                begin.checked_add(usize::try_from(last).ok()?)?
            } else {
                let last = count.checked_sub(usize::try_from(last.unsigned_abs()).ok()?)?;
                match usize::try_from(limit).ok()? {
                    0 | 1 => last,
                    part => begin.checked_add(count.checked_sub(begin)? / part)?.checked_sub(1)?,
                }
            };
            if last >= count {
                return None;
            }
            (begin..=last).step_by(step_of(step)?).for_each(take);
        }
        Find::Count(number, first, step) => {
            let number = arguments.get(begin.checked_add(usize::try_from(number).ok()?)?)?;
            let number = usize::try_from(parse_integer(number)?).ok().filter(|number| *number > 0)?;
            let (first, step) = (begin.checked_add(usize::try_from(first).ok()?)?, step_of(step)?);
            let end = first.checked_add(number.checked_mul(step)?)?;
            if end > arguments.len() {
                return None;
            }
            (first..end).step_by(step).for_each(take);
        }
        Find::Unknown => {}
    }
    Some(())
}

/// Flags of the key of `SET`, `DELEX` or `BITFIELD`, which depend on the options. With a condition on the value, the reply tells about the
/// value.
fn variable(command: &Command, arguments: &[&[u8]]) -> u16 {
    let rest = arguments.get(2..).unwrap_or_default();
    let has = |words: &[&str]| rest.iter().any(|word| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())));
    match command.name {
        "set" if rest.get(1..).unwrap_or_default().iter().any(|word| is(word, "get") || is_comparison(word)) => RW | ACCESS | UPDATE,
        "set" => REPLACE,
        "delex" if rest.is_empty() => RM | DELETE,
        "delex" => TAKE,
        _ if has(&["set", "incrby"]) => RW | ACCESS | UPDATE,
        _ => READ,
    }
}

/// The first and last key and the step between keys: the older form that `COMMAND` shows beside the specifications.
pub(super) fn range(specs: &[KeySpec]) -> (i32, i32, i32) {
    let mut all: Option<(i32, i32, i32)> = None;
    for spec in specs {
        let (Begin::Index(first), Find::Range(last, step, _)) = (spec.begin, spec.find) else { continue };
        let last = if last >= 0 { first + last } else { last };
        all = match all {
            None => Some((first, last, step)),
            // Ranges that are not adjacent cannot be joined.
            Some((from, to, 1)) if step == 1 && (to >= 0 && to + 1 == first) => Some((from, last, 1)),
            other => other,
        };
    }
    all.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::units::Units;
    use super::super::{TABLE, find};
    use super::*;

    fn flags(line: &str) -> Option<String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let units = <&Units>::default();
        let unit = units.get(units.resolve(units.find(words[0])?, &words)?);
        let keys = keys(unit.command, unit.specs, &words)?;
        let each = |key: &KeyArgument| format!("{}:{}", key.position, key.flag_names().collect::<Vec<_>>().join("+"));
        Some(keys.iter().map(each).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_done_to_keys_depends_on_arguments() {
        for (line, expected) in [
            ("get a", "1:RO+access"),
            ("set a b", "1:OW+update"),
            ("set a get", "1:OW+update"),
            ("set a b GET", "1:RW+access+update"),
            ("mset a 1 b 2", "1:OW+update 3:OW+update"),
            ("rename a b", "1:RW+access+delete 2:OW+update"),
            ("object encoding a", "2:RO"),
            ("object help", ""),
            ("exists a b", "1:RO 2:RO"),
            ("lmpop 2 a b left", "2:RW+access+delete 3:RW+access+delete"),
            ("zunionstore d 2 a b weights 1 2", "1:OW+update 3:RO+access 4:RO+access"),
            ("ping", ""),
        ] {
            assert_eq!(flags(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["zunionstore d 3 a b", "zunionstore d x a b", "lmpop 0 a left", "lmpop -1 a left", "sintercard 9223372036854775807 a"]
        {
            assert_eq!(flags(line), None, "{line}");
        }
    }

    #[test]
    fn a_single_key_is_found_at_once() {
        for (name, specs) in BY_NAME.iter() {
            let Some(position) = only(specs) else { continue };
            let (command, _) = name.split_once('|').unwrap_or((name, ""));
            let words: Vec<&[u8]> = [command.as_bytes(), b"1", b"2", b"3", b"4", b"5"].to_vec();
            let found = find(command.as_bytes()).and_then(|command| keys(command, specs, &words));
            assert_eq!(found.map(|keys| keys.iter().map(|key| key.position).collect()), Some(vec![position]), "{name}");
        }
        let names = ["get", "object|encoding", "mget", "sort_ro", "spublish", "ping"];
        assert_eq!(names.map(|name| only(of(name))), [Some(1), Some(2), None, None, None, None]);
    }

    #[test]
    fn ranges_and_words_are_found() {
        let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<&[u8]>>();
        let at = |spec: KeySpec, line| {
            let words = words(line);
            let mut all = Vec::new();
            let begin = begin(spec.begin, &words)?;
            positions(spec.find, begin, &words, &mut |position| all.push(position)).map(|()| all)
        };
        assert_eq!(at(streams(1), "xread count 1 streams a b 0 0"), Some(vec![4, 5]));
        assert_eq!(at(streams(1), "xread count 1"), None);
        assert_eq!(at(before_timeout(TAKE), "blpop a b 0"), Some(vec![1, 2]));
        assert_eq!(at(behind(REPLACE, "STORE", 6), "georadius k 1 2 3 km store d"), Some(vec![7]));
        assert_eq!(at(behind(REPLACE, "STORE", 6), "georadius k 1 2 3 km store"), None);
    }

    /// Both declarations of where keys are have to agree.
    #[test]
    fn specifications_agree_with_ranges() {
        for command in TABLE.iter().flat_map(|family| family.iter()) {
            if command.subcommands.is_empty() && !of(command.name).iter().any(|spec| spec.flags & NOT_KEY != 0) {
                assert_eq!(range(of(command.name)), command.keys, "{}", command.name);
            }
        }
        for name in SPECS.iter().flat_map(|(_, names)| names.split_ascii_whitespace()) {
            let twice = SPECS.iter().flat_map(|(_, names)| names.split_ascii_whitespace()).filter(|other| *other == name).count();
            assert_eq!(twice, 1, "{name}");
        }
    }
}
