//! Keyspace notifications (`notify-keyspace-events`): the keyspace records which keys have changed, and the tables of this file give each
//! change its name, by command.

use super::arguments::is;
use super::comparison::is_comparison;
use super::conditional::msetex_options;
use super::hub::{Hub, Topic};
use super::keyspecs::KeyArgument;
use super::spec::READ;
use super::{Command, Context, Server, keyspecs};
use crate::keyspace::{Change, Keyspace, Noted};
use crate::number::parse_integer;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Classes of events, one bit each, in the order in which the configuration shows them. The last four, which `A` does not include: new
/// keys, messages by key, messages by event, and lookups of missing keys.
const CLASSES: &str = "g$lshzxetdnKEm";
/// The classes that `A` stands for.
const ALL: &str = "g$lshzxetd";
/// Bits of the classes that publish messages by key and by event. Without one of them, no event has a message.
const PUBLISHED: u32 = bit('K') | bit('E');

/// The bit of a class; 0: there is no such class.
const fn bit(class: char) -> u32 {
    let classes = CLASSES.as_bytes();
    let mut at = 0;
    while at < classes.len() {
        if classes[at] as char == class {
            return 1 << at;
        }
        at += 1;
    }
    0
}

/// The classes of events that are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events(u32);

impl Events {
    /// Parses a set of classes; `None`: a letter is no class.
    pub fn parse(text: &str) -> Option<Events> {
        let letters = text.chars().flat_map(|letter| if letter == 'A' { ALL.chars().collect() } else { vec![letter] });
        letters.map(bit).try_fold(0, |all, bit| (bit != 0).then_some(all | bit)).map(Events)
    }

    /// The set as the configuration shows it.
    pub fn text(self) -> String {
        let has_all = ALL.chars().all(|class| self.has(class));
        let rest = CLASSES.chars().filter(|class| self.has(*class) && !(has_all && (ALL.contains(*class) || *class == 'n')));
        has_all.then_some('A').into_iter().chain(rest).collect()
    }

    fn has(self, class: char) -> bool {
        self.0 & bit(class) != 0
    }

    /// Whether any messages are published.
    pub fn is_on(self) -> bool {
        self.0 & PUBLISHED != 0
    }

    /// Whether lookups of missing keys are published.
    pub fn tell_misses(self) -> bool {
        self.is_on() && self.has('m')
    }
}

/// A class and the name of an event.
type Event = (char, &'static str);

/// Commands whose event has the command's name, by class.
const NAMED_AS_THEY_ARE: &[(char, &[&str])] = &[
    ('$', &["append", "incrbyfloat", "setbit", "setrange", "pfadd"]),
    ('g', &["expire", "persist", "restore"]),
    ('l', &["linsert", "lpop", "lpush", "lrem", "lset", "ltrim", "rpop", "rpush"]),
    ('s', &["sadd", "sdiffstore", "sinterstore", "spop", "srem", "sunionstore"]),
    ('h', &["hdel", "hexpire", "hincrby", "hincrbyfloat", "hpersist", "hset"]),
    (
        'z',
        &[
            "geosearchstore",
            "zadd",
            "zdiffstore",
            "zinterstore",
            "zpopmax",
            "zpopmin",
            "zrangestore",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
            "zunionstore",
        ],
    ),
    ('t', &["xadd", "xdel", "xsetid", "xtrim"]),
];

/// Commands whose event has another name.
const NAMED_OTHERWISE: &[(char, &str, &[&str])] = &[
    ('$', "set", &["bitop", "getset", "mset", "msetex", "msetnx", "psetex", "set", "setex", "setnx"]),
    ('$', "incrby", &["decr", "decrby", "incr", "incrby"]),
    ('$', "setbit", &["bitfield"]),
    ('$', "pfadd", &["pfmerge"]),
    ('g', "expire", &["expireat", "pexpire", "pexpireat"]),
    ('g', "copy_to", &["copy"]),
    ('g', "restore", &["restore-asking"]),
    ('l', "lpush", &["lpushx"]),
    ('l', "rpush", &["rpushx"]),
    ('l', "lpop", &["blpop"]),
    ('l', "rpop", &["brpop"]),
    ('l', "sortstore", &["sort"]),
    ('h', "hset", &["hmset", "hsetex", "hsetnx"]),
    ('h', "hdel", &["hgetdel"]),
    ('h', "hexpire", &["hexpireat", "hpexpire", "hpexpireat"]),
    ('t', "xdel", &["xackdel", "xdelex"]),
    ('z', "zadd", &["geoadd"]),
    ('z', "zincr", &["zincrby"]),
    ('z', "zpopmax", &["bzpopmax"]),
    ('z', "zpopmin", &["bzpopmin"]),
    ('z', "georadiusstore", &["georadius", "georadiusbymember"]),
];

/// Events of `XGROUP`. Creating a consumer is not among them: the keyspace reports it, as other commands create consumers, too.
const GROUP_EVENTS: &[(&str, Event)] = &[
    ("create", ('t', "xgroup-create")),
    ("delconsumer", ('t', "xgroup-delconsumer")),
    ("destroy", ('t', "xgroup-destroy")),
    ("setid", ('t', "xgroup-setid")),
];

/// Commands that may only remove a key, and then publish `del` instead of their own event.
const ONLY_REMOVED: &[&str] = &[
    "bitop",
    "expire",
    "expireat",
    "georadius",
    "georadiusbymember",
    "geosearchstore",
    "getex",
    "pexpire",
    "pexpireat",
    "restore",
    "restore-asking",
    "sdiffstore",
    "sinterstore",
    "sort",
    "sunionstore",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];

/// Commands whose target counts as a new key even if it replaces another.
const MADE_ANEW: &[&str] = &["copy", "restore", "restore-asking"];

static BY_COMMAND: LazyLock<HashMap<&'static str, Event>> = LazyLock::new(|| {
    let same = NAMED_AS_THEY_ARE.iter().flat_map(|(class, names)| names.iter().map(move |name| (*name, (*class, *name))));
    let other = NAMED_OTHERWISE.iter().flat_map(|(class, event, names)| names.iter().map(move |name| (*name, (*class, *event))));
    same.chain(other).collect()
});

/// The word behind the keys of a command whose number of keys is at index `number_at`.
fn word_behind<'a>(arguments: &[&'a [u8]], number_at: usize) -> &'a [u8] {
    let number = arguments.get(number_at).and_then(|text| usize::try_from(parse_integer(text)?).ok());
    number.and_then(|number| arguments.get(number_at.checked_add(number)?.checked_add(1)?)).copied().unwrap_or_default()
}

fn is_end(word: &[u8], end: &str, at_end: Event, at_other: Event) -> Event {
    if is(word, end) { at_end } else { at_other }
}

/// The event of a command for one of its keys.
fn event(command: &Command, arguments: &[&[u8]], key: &[u8]) -> Option<Event> {
    let third = arguments.get(2).copied().unwrap_or_default();
    Some(match command.name {
        "lmpop" => is_end(word_behind(arguments, 1), "left", ('l', "lpop"), ('l', "rpop")),
        "blmpop" => is_end(word_behind(arguments, 2), "left", ('l', "lpop"), ('l', "rpop")),
        "zmpop" => is_end(word_behind(arguments, 1), "min", ('z', "zpopmin"), ('z', "zpopmax")),
        "bzmpop" => is_end(word_behind(arguments, 2), "min", ('z', "zpopmin"), ('z', "zpopmax")),
        "getex" => is_end(third, "persist", ('g', "persist"), ('g', "expire")),
        "hgetex" => is_end(third, "persist", ('h', "hpersist"), ('h', "hexpire")),
        "smove" if arguments.get(1) == Some(&key) => ('s', "srem"),
        "smove" => ('s', "sadd"),
        "zadd" => {
            let options = ["nx", "xx", "gt", "lt", "ch", "incr"];
            let mut given = arguments.iter().skip(2).take_while(|word| options.iter().any(|option| is(word, option)));
            if given.any(|word| is(word, "incr")) { ('z', "zincr") } else { ('z', "zadd") }
        }
        "xgroup" => {
            return GROUP_EVENTS.iter().find(|(word, _)| is(arguments.get(1).copied().unwrap_or_default(), word)).map(|(_, event)| *event);
        }
        name => return BY_COMMAND.get(name).copied(),
    })
}

/// The second event of a command that sets a string or fields of a hash with a deadline.
fn deadline_event(command: &Command, arguments: &[&[u8]]) -> Option<Event> {
    let is_option = |word: &&[u8]| ["ex", "px", "exat", "pxat"].iter().any(|option| is(word, option));
    match command.name {
        "setex" | "psetex" => Some(('g', "expire")),
        "set" => {
            // The operand of a condition may be a word of an option.
            let mut words = arguments.iter().skip(3);
            while let Some(word) = words.next() {
                if is_option(word) {
                    return Some(('g', "expire"));
                }
                if is_comparison(word) {
                    words.next();
                }
            }
            None
        }
        "msetex" => msetex_options(arguments).iter().any(is_option).then_some(('g', "expire")),
        "hsetex" => arguments.iter().skip(2).take_while(|word| !is(word, "fields")).any(is_option).then_some(('h', "hexpire")),
        _ => None,
    }
}

/// The events of a command that moves a list item: at the end to which it is added, and at the end from which it is taken.
fn ends(command: &Command, arguments: &[&[u8]]) -> Option<(Event, Event)> {
    let left = |at: usize| arguments.get(at).is_some_and(|word| is(word, "left"));
    let (from_left, to_left) = match command.name {
        "lmove" | "blmove" => (left(3), left(4)),
        "rpoplpush" | "brpoplpush" => (false, true),
        _ => return None,
    };
    Some((('l', if to_left { "lpush" } else { "rpush" }), ('l', if from_left { "lpop" } else { "rpop" })))
}

struct Teller<'a> {
    hub: &'a mut Hub,
    events: Events,
}

impl Teller<'_> {
    fn tell(&mut self, (class, name): Event, db: usize, key: &[u8]) {
        if !self.events.has(class) || !self.hub.has_listeners() {
            return;
        }
        if self.events.has('K') {
            self.hub.publish(Topic::Channel, &[format!("__keyspace@{db}__:").as_bytes(), key].concat(), name.as_bytes());
        }
        if self.events.has('E') {
            self.hub.publish(Topic::Channel, format!("__keyevent@{db}__:{name}").as_bytes(), key);
        }
    }

    /// Publishes events that do not depend on the command.
    fn tell_other(&mut self, (db, key, change): &Noted) {
        match change {
            Change::Made => self.tell(('n', "new"), *db, key),
            Change::Removed => self.tell(('g', "del"), *db, key),
            Change::Expired => self.tell(('x', "expired"), *db, key),
            Change::Evicted => self.tell(('e', "evicted"), *db, key),
            Change::FieldsExpired => self.tell(('h', "hexpired"), *db, key),
            Change::FieldsRemoved => self.tell(('h', "hdel"), *db, key),
            Change::Emptied => {
                self.tell(('h', "hexpired"), *db, key);
                self.tell(('g', "del"), *db, key);
            }
            Change::Missed => self.tell(('m', "keymiss"), *db, key),
            Change::Trimmed => self.tell(('t', "xtrim"), *db, key),
            Change::ConsumerMade => self.tell(('t', "xgroup-createconsumer"), *db, key),
            Change::Changed => {}
        }
    }

    /// Publishes the events of a key that is renamed or moved: of its new place and of its old one.
    fn tell_moved(&mut self, changes: &[Noted], from: Event, to: Event) {
        let Some(source) = changes.iter().find(|(_, _, change)| *change == Change::Removed) else { return };
        let Some(target) = changes.iter().find(|(_, _, change)| matches!(change, Change::Made | Change::Changed)) else { return };
        self.tell(('n', "new"), target.0, &target.1);
        self.tell(from, source.0, &source.1);
        self.tell(to, target.0, &target.1);
    }

    /// Publishes the events of an item that has moved to another list, or to the other end of its own.
    fn tell_item(&mut self, changes: &[Noted], arguments: &[&[u8]], (push, pop): (Event, Event)) {
        let (Some(source), Some(target)) = (arguments.get(1), arguments.get(2)) else { return };
        let find = |key: &[u8]| changes.iter().find(|(_, changed, _)| changed == key);
        let Some(changed) = find(target) else { return };
        if changed.2 == Change::Made {
            self.tell_other(changed);
        }
        self.tell(push, changed.0, target);
        self.tell(pop, changed.0, source);
        if let Some(emptied) = find(source).filter(|(_, _, change)| source != target && *change == Change::Removed) {
            self.tell_other(emptied);
        }
    }
}

/// Commands that write, and publish `keymiss` for a missing key that they read.
const READ_BEFORE_WRITING: &[&str] = &[
    "bitfield",
    "bitop",
    "copy",
    "delex",
    "delifeq",
    "georadius",
    "georadiusbymember",
    "geosearchstore",
    "getdel",
    "getex",
    "getset",
    "migrate",
    "pfmerge",
    "sdiffstore",
    "set",
    "sinterstore",
    "sort",
    "sunionstore",
    "xack",
    "xautoclaim",
    "xclaim",
    "xreadgroup",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];
/// Commands that read without publishing `keymiss`.
const READ_SILENTLY: &[&str] = &["object", "randomkey"];

/// Names of the keys among the arguments of a writing command, each with whether the command reads its value instead of only replacing it.
fn named<'a>(command: &Command, arguments: &[&'a [u8]]) -> HashMap<&'a [u8], bool> {
    let is_read = |key: KeyArgument| match command.name {
        // An operation that changes bits in place does not count as reading.
        "bitfield" => !key.is_written(),
        // The group is looked up, though the client learns nothing of the stream's entries.
        "xack" | "xautoclaim" | "xclaim" => true,
        _ => key.is_read(),
    };
    let mut all = HashMap::new();
    for key in keyspecs::keys(command, keyspecs::of(command.name), arguments).unwrap_or_default() {
        if let Some(name) = arguments.get(key.position) {
            *all.entry(*name).or_default() |= is_read(key);
        }
    }
    all
}

/// Drops misses of keys that a command did not read. A writing command misses a key once: a key that it missed or removed before is missed
/// again when the key is written. `SORT` also reads keys that are not among its arguments.
fn without_misses(changes: Vec<Noted>, command: &Command, arguments: &[&[u8]]) -> Vec<Noted> {
    let is_miss = |noted: &Noted| noted.2 == Change::Missed;
    if !changes.iter().any(is_miss) {
        return changes;
    }
    if command.has(READ) {
        let reads = !READ_SILENTLY.contains(&command.name);
        return changes.into_iter().filter(|noted| reads || !is_miss(noted)).collect();
    }
    if !READ_BEFORE_WRITING.contains(&command.name) {
        return changes.into_iter().filter(|noted| !is_miss(noted)).collect();
    }
    let (named, mut known) = (named(command, arguments), HashSet::new());
    let is_told = |(db, key, change): &Noted| match change {
        Change::Missed => named.get(&key[..]).copied().unwrap_or(true) && known.insert((*db, key.clone())),
        Change::Removed => {
            known.insert((*db, key.clone()));
            true
        }
        _ => true,
    };
    changes.into_iter().filter(is_told).collect()
}

/// Merges the removal and creation of a key by one command into a change, and misses of a key in succession into one, except those of
/// commands that count each.
fn merged(changes: Vec<Noted>, command: &Command, arguments: &[&[u8]]) -> Vec<Noted> {
    let counts_each = ["exists", "mget", "touch"].contains(&command.name);
    let mut all: Vec<Noted> = Vec::new();
    for noted in without_misses(changes, command, arguments) {
        match all.last_mut().filter(|last| last.0 == noted.0 && last.1 == noted.1) {
            Some(last) if last.2 == Change::Removed && noted.2 == Change::Made => last.2 = Change::Changed,
            Some(last) if last.2 == Change::Missed && noted.2 == Change::Missed && !counts_each => {}
            _ => all.push(noted),
        }
    }
    all
}

/// Publishes the events of a command that has just run.
pub(super) fn tell(context: &mut Context, command: &Command, arguments: &[&[u8]]) {
    let changes = merged(context.keyspace.take_changes(), command, arguments);
    if changes.is_empty() {
        return;
    }
    let mut teller = Teller { events: context.server.configuration.events, hub: &mut context.server.hub };
    let ends = ends(command, arguments);
    let is_whole = ends.is_some() || ["move", "rename", "renamenx"].contains(&command.name);
    let has_removed = changes.iter().any(|(_, _, change)| *change == Change::FieldsRemoved);
    for noted in &changes {
        let (db, key, change) = noted;
        match change {
            Change::Expired | Change::Evicted | Change::FieldsExpired | Change::Emptied => teller.tell_other(noted),
            Change::Missed | Change::Trimmed | Change::ConsumerMade => teller.tell_other(noted),
            _ if is_whole => {}
            Change::FieldsRemoved => {
                let before = Some(('h', "hset")).filter(|_| command.name == "hsetex");
                before.into_iter().for_each(|event| teller.tell(event, *db, key));
                teller.tell_other(noted);
            }
            Change::Changed if has_removed => {}
            Change::Removed if has_removed => teller.tell_other(noted),
            Change::Made | Change::Changed => {
                if *change == Change::Made || MADE_ANEW.contains(&command.name) {
                    teller.tell(('n', "new"), *db, key);
                }
                event(command, arguments, key).into_iter().for_each(|event| teller.tell(event, *db, key));
                deadline_event(command, arguments).into_iter().for_each(|event| teller.tell(event, *db, key));
            }
            Change::Removed => {
                let event = event(command, arguments, key).filter(|_| !ONLY_REMOVED.contains(&command.name));
                event.into_iter().for_each(|event| teller.tell(event, *db, key));
                teller.tell_other(noted);
            }
        }
    }
    match (ends, command.name) {
        (Some(ends), _) => teller.tell_item(&changes, arguments, ends),
        (_, "move") => teller.tell_moved(&changes, ('g', "move_from"), ('g', "move_to")),
        (_, "rename" | "renamenx") => teller.tell_moved(&changes, ('g', "rename_from"), ('g', "rename_to")),
        _ => {}
    }
}

/// Publishes the events of keys and fields that expired or were evicted while no command ran.
pub fn tell_ended(keyspace: &mut Keyspace, server: &mut Server) {
    let mut teller = Teller { events: server.configuration.events, hub: &mut server.hub };
    let is_end = |noted: &&Noted| matches!(noted.2, Change::Expired | Change::Evicted | Change::FieldsExpired | Change::Emptied);
    keyspace.take_changes().iter().filter(is_end).for_each(|noted| teller.tell_other(noted));
}

#[cfg(test)]
mod tests {
    use super::super::units::Units;
    use super::*;

    #[test]
    fn classes_are_read_and_shown_as_redis_does() {
        for (given, shown) in
            [("", ""), ("gKE", "gKE"), ("$lshzxeKE", "$lshzxeKE"), ("KA", "AK"), ("EA", "AE"), ("AnKm", "AKm"), ("nKmE", "nKEm")]
        {
            assert_eq!(Events::parse(given).map(Events::text).as_deref(), Some(shown), "{given}");
        }
        assert_eq!(Events::parse("KEy"), None);
        assert!(Events::parse("KA").is_some_and(Events::is_on) && !Events::parse("A").is_some_and(Events::is_on));
    }

    fn merged_of(line: &str, changes: Vec<Noted>) -> Vec<Noted> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (_, command) = <&Units>::default().command(words[0]).unwrap();
        merged(changes, command, &words)
    }

    #[test]
    fn a_command_misses_what_it_reads() {
        let one = |key: &str, change| (0, key.as_bytes().to_vec(), change);
        let missed = |key: &str| one(key, Change::Missed);
        for (line, changes, told) in [
            ("mget a a b", vec![missed("a"), missed("a"), missed("b")], vec![missed("a"), missed("a"), missed("b")]),
            ("sunion a a b a", vec![missed("a"), missed("a"), missed("b"), missed("a")], vec![missed("a"), missed("b"), missed("a")]),
            ("object encoding a", vec![missed("a")], vec![]),
            ("del a b a", vec![missed("a"), one("b", Change::Removed), missed("a")], vec![one("b", Change::Removed)]),
            ("set a 1", vec![missed("a"), one("a", Change::Made)], vec![one("a", Change::Made)]),
            ("set a 1 get", vec![missed("a"), missed("a"), one("a", Change::Made)], vec![missed("a"), one("a", Change::Made)]),
            (
                "sunionstore a a b",
                vec![missed("b"), one("a", Change::Removed), missed("a"), one("a", Change::Made)],
                vec![missed("b"), one("a", Change::Changed)],
            ),
            // A key that is read under one name and written under another one; a key that is not among the arguments.
            ("bitop not a b", vec![missed("b"), missed("a")], vec![missed("b")]),
            ("sort a get w_* store b", vec![missed("w_1"), missed("w_1"), missed("b")], vec![missed("w_1")]),
        ] {
            assert_eq!(merged_of(line, changes), told, "{line}");
        }
    }

    /// Takes hours if each miss is compared with all keys of the request, or with all misses before it.
    #[test]
    fn misses_of_many_keys_are_told_apart_at_once() {
        let names: Vec<String> = (0..300_000).map(|n| format!("{n}")).collect();
        let misses: Vec<Noted> = names.iter().map(|name| (0, name.as_bytes().to_vec(), Change::Missed)).collect();
        let changes = [&misses[..], &misses[..]].concat();
        assert_eq!(merged_of(&format!("sunionstore 0 {}", names.join(" ")), changes.clone()), misses);
        assert_eq!(merged_of(&format!("del {}", names.join(" ")), changes), []);
    }

    #[test]
    fn a_command_has_one_event() {
        let names = NAMED_AS_THEY_ARE.iter().flat_map(|(_, names)| names.iter());
        let all = names.chain(NAMED_OTHERWISE.iter().flat_map(|(_, _, names)| names.iter())).count();
        assert_eq!(BY_COMMAND.len(), all);
    }
}
