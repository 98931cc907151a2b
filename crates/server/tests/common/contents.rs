//! Contents of servers, key by key.

use super::{Client, Reply};
use sinter_server::keyspace::DATABASES;

/// Sends a request, to which the reply must be `OK`.
pub fn ok(client: &mut Client, words: &[&[u8]]) {
    let reply = client.ask(words);
    assert_eq!(reply, Reply::One(b"+OK".to_vec()), "{:?}", String::from_utf8_lossy(words[0]));
}

/// A line of `INFO persistence`.
pub fn field(client: &mut Client, name: &str) -> String {
    let text = client.ask(&[b"INFO", b"persistence"]);
    let Reply::One(text) = text else { panic!("no text") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_else(|| panic!("{name}")).to_owned()
}

/// Fields of a stream that only Redis has.
pub const OF_REDIS: &[&str] = &["radix-tree-keys", "radix-tree-nodes"];
/// [`OF_REDIS`] and the field that differs between two servers that have read version 9: to Redis, the first entry of a stream without
/// entries has the largest id then.
pub const FROM_NINE: &[&str] = &["radix-tree-keys", "radix-tree-nodes", "recorded-first-entry-id"];
/// [`FROM_NINE`] and the fields that version 9 has no place for.
pub const NOT_IN_NINE: &[&str] =
    &["radix-tree-keys", "radix-tree-nodes", "recorded-first-entry-id", "max-deleted-entry-id", "entries-added", "entries-read", "lag"];
/// [`OF_REDIS`] and the field that a log does not tell: a consumer counts as seen when the log is run.
pub const NOT_IN_LOGS: &[&str] = &["radix-tree-keys", "radix-tree-nodes", "seen-time"];

/// [`NOT_IN_LOGS`] and what a primary of Redis 7.0 does not tell its replicas of a group that is read: its counts, consumers to which
/// nothing is delivered, and that pending entries were read again. The numbers of pending entries are compared.
pub const NOT_IN_STREAMS: &[&str] = &["radix-tree-keys", "radix-tree-nodes", "seen-time", "entries-read", "lag", "consumers", "pending"];

/// A reply without the values behind these labels.
fn without(labels: &[&str], reply: Reply) -> Reply {
    let Reply::Many(mark, mut members) = reply else { return reply };
    for n in 1..members.len() {
        if matches!(&members[n - 1], Reply::One(label) if labels.iter().any(|known| label[1..] == *known.as_bytes())) {
            members[n] = Reply::One(b"any".to_vec());
        }
    }
    Reply::Many(mark, members.into_iter().map(|member| without(labels, member)).collect())
}

/// Contents of a key, in an order that does not depend on the server, and its deadline.
pub fn content(client: &mut Client, key: &[u8], ignored: &[&str]) -> Vec<Reply> {
    let kind = client.ask(&[b"TYPE", key]);
    let value = match kind.to_string().as_str() {
        "+string" => client.ask(&[b"GET", key]),
        "+list" => client.ask(&[b"LRANGE", key, b"0", b"-1"]),
        "+set" => client.ask(&[b"SMEMBERS", key]).sorted(false),
        "+zset" => client.ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        "+hash" => client.ask(&[b"HGETALL", key]).sorted(true),
        "+stream" => without(ignored, client.ask(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])),
        other => panic!("{other} at {}", key.escape_ascii()),
    };
    vec![kind, value, client.ask(&[b"PEXPIRETIME", key])]
}

/// The keys of the database.
pub fn names(client: &mut Client) -> Vec<Vec<u8>> {
    let Reply::Many(_, names) = client.ask(&[b"KEYS", b"*"]).sorted(false) else { panic!("no names") };
    names.into_iter().map(|name| if let Reply::One(name) = name { name[1..].to_vec() } else { panic!("no name") }).collect()
}

/// Checks that both servers hold equal data, except for these labels of streams.
pub fn same(ours: &mut Client, theirs: &mut Client, ignored: &[&str], what: &str) {
    for db in 0..DATABASES {
        for client in [&mut *ours, &mut *theirs] {
            ok(client, &[b"SELECT", db.to_string().as_bytes()]);
        }
        let all = names(theirs);
        assert_eq!(names(ours).len(), all.len(), "{what}: keys of database {db}");
        for key in all {
            assert_eq!(content(ours, &key, ignored), content(theirs, &key, ignored), "{what}: {} of database {db}", key.escape_ascii());
        }
    }
}
