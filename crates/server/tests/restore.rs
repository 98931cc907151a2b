//! Payloads of `RESTORE` with random damage: payloads refused by a real `redis-server` 7.0 that checks whole payloads
//! (`sanitize-dump-payload`) are refused here, and payloads accepted by both give equal values. Redis accepts more: it reads on into the
//! checksum where a value ends too early, and does not check scores and the order of entries.

use crate::common::commands::Random;
use crate::common::contents::{OF_REDIS, content, ok};
use crate::common::{Client, Real, Reply, Served, encode};
use sinter_server::rdb::crc64;

/// Number of values with one or several edits that both servers get.
const EDITS: usize = 4000;

fn payload(value: &[u8]) -> Vec<u8> {
    let mut out = [value, &10u16.to_le_bytes()].concat();
    out.extend(crc64(0, &out).to_le_bytes());
    out
}

/// Values from the real server, and older forms.
fn values(theirs: &mut Client) -> Vec<Vec<u8>> {
    let long = "x".repeat(70);
    let lines = [
        "SET text hello".to_owned(),
        "SET number 12345".to_owned(),
        format!("SET compressed {}", "abc".repeat(60)),
        "RPUSH list a 1 bc 300 -70000 99999999999".to_owned(),
        format!("RPUSH many {} {long} {} b", "a ".repeat(20).trim(), "1 ".repeat(20).trim()),
        "RPUSH one ".to_owned(),
        "SADD integers 1 2 300".to_owned(),
        "SADD large 1 70000 -9999999999".to_owned(),
        "SADD set a b 3".to_owned(),
        "HSET hash a 1 bb 2 3 cc".to_owned(),
        format!("HSET wide a 1 {long} 2 3 cc"),
        "ZADD zset 1 a 2.5 bb 3 cc".to_owned(),
        format!("ZADD zwide 1 a inf {long} 3 cc"),
        format!("ZADD zeros -0 {long} 0 b"),
        "XADD stream 1-1 a 1 b 2".to_owned(),
        "XADD stream 1-2 a 3 b 4".to_owned(),
        "XADD stream 5-1 c 5".to_owned(),
        "XDEL stream 1-2".to_owned(),
        "XGROUP CREATE stream g 0".to_owned(),
        "XREADGROUP GROUP g alice COUNT 1 STREAMS stream >".to_owned(),
        "XREADGROUP GROUP g bob COUNT 1 STREAMS stream >".to_owned(),
    ];
    ok(theirs, &[b"CONFIG", b"SET", b"list-max-listpack-size", b"16"]);
    let mut values = Vec::new();
    for line in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = theirs.ask(&words);
        assert!(!reply.to_string().starts_with('-'), "{line}: {reply}");
    }
    let Reply::Many(_, keys) = theirs.ask(&[b"KEYS", b"*"]).sorted(false) else { panic!("no keys") };
    for key in keys {
        let Reply::One(key) = key else { panic!("{key}") };
        let Reply::One(dump) = theirs.ask(&[b"DUMP", &key[1..]]) else { panic!("no payload") };
        values.push(dump[1..dump.len() - 10].to_vec());
    }
    // A zipmap of two pairs.
    values.push(b"\x09\x0e\x02\x01a\x01\x001\x01b\x02\x0122\0\xff".to_vec());
    // A ziplist of a, 2, b, 300 as a list, a sorted set, a hash and a part of a list.
    let zip = b"\x17\x17\0\0\0\x12\0\0\0\x04\0\0\x01a\x03\xf3\x02\x01b\x03\xc0\x2c\x01\xff";
    values.extend([&b"\x0a"[..], b"\x0c", b"\x0d", b"\x0e\x01"].map(|kind| [kind, zip].concat()));
    values.push(b"\x03\x02\x01a\x031.5\x01b\xfe".to_vec());
    values.push(b"\x01\x02\x01a\x01b".to_vec());
    values.push(b"\x02\x02\x01a\x01b".to_vec());
    values.push(b"\x04\x01\x01a\x01b".to_vec());
    values
}

/// Changes one or several bytes of a value; its type stays.
fn edit(value: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = value.to_vec();
    for _ in 0..=random.below(8) / 6 {
        let at = 1 + random.below(out.len().max(2) - 1);
        let byte = random.below(256) as u8;
        match random.below(8) {
            _ if at >= out.len() => out.push(byte),
            0 => out[at] = byte,
            1 => out[at] ^= 1 << random.below(8),
            2 => out[at] = out[at].wrapping_add(1),
            3 => out[at] = out[at].wrapping_sub(1),
            4 => drop(out.remove(at)),
            5 => out.insert(at, byte),
            6 => out.insert(at, out[at]),
            _ => out[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6)],
        }
    }
    match random.below(24) {
        0 => out.truncate(1 + random.below(out.len())),
        1 => out.push(random.below(256) as u8),
        _ => {}
    }
    out
}

/// Values with wrong counts and wrong orders.
const CONTRADICTIONS: &[&[u8]] = &[
    b"\x01\x02\0",
    b"\x12\x02\x02\x09\x09\0\0\0\x01\0\x80\x01\xff",
    b"\x12\x01\x02\x09\x09\0\0\0\0\0\x80\x01\xff",
    b"\x12\x01\x02\x09\x09\0\0\0\x02\0\x80\x01\xff",
    b"\x0e\x01\x0d\x0d\0\0\0\x0a\0\0\0\x02\0\0\0\xff",
    b"\x0e\x01\x0d\x0d\0\0\0\x0b\0\0\0\x01\0\0\0\xff",
    b"\x05\x02\x01a\0\0\0\0\0\0\0\0",
    b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0",
    b"\x11\x0c\x0c\0\0\0\x04\0\x81a\x02\x01\x01\xff",
    b"\x10\x0c\x0c\0\0\0\x03\0\x81a\x02\x01\x01\xff",
    b"\x10\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
    b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x02\0\x01\0",
    b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x01\0",
    b"\x0b\x0c\x02\0\0\0\x03\0\0\0\x01\0\x02\0",
    b"\x09\x07\xff\x01a\x01\x00b\xff",
    b"\x09\x07\x02\x01a\x01\x00b\xff",
    b"\x09\x07\x01\x01a\xfd\x00b\xff",
];

/// A Redis server that checks whole payloads.
fn thorough() -> Option<(Real, Client)> {
    let real = Real::start()?;
    let mut client = real.client();
    ok(&mut client, &[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    Some((real, client))
}

/// The value of the key, in an order that does not depend on the order in the payload.
fn held(client: &mut Client) -> String {
    match client.ask(&[b"TYPE", b"k"]).to_string().as_str() {
        "+stream" => client.ask(&[b"XRANGE", b"k", b"-", b"+"]).to_string(),
        "+zset" => client.ask(&[b"ZRANGE", b"k", b"0", b"-1", b"WITHSCORES"]).sorted(true).to_string(),
        _ => content(client, b"k", OF_REDIS).iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn payloads_that_redis_refuses_are_refused() {
    let Some((mut real, mut theirs)) = thorough() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let mut ours = served.client();
    let values = values(&mut theirs);
    let mut random = Random::new(35);
    let (mut taken, mut complaints) = (0, Vec::new());
    for n in 0..EDITS {
        let (whole, wrong) = (values.get(n), n.checked_sub(values.len()).and_then(|n| CONTRADICTIONS.get(n)));
        let value = match (whole, wrong) {
            (Some(value), _) => value.clone(),
            (_, Some(value)) => value.to_vec(),
            _ => edit(&values[random.below(values.len())], &mut random),
        };
        let payload = payload(&value);
        let words: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &payload, b"REPLACE"];
        let found = ours.ask(&words);
        theirs.send(&encode(&words));
        let Some(expected) = theirs.reply() else {
            // The real server has crashed.
            (real, theirs) = thorough().unwrap();
            continue;
        };
        let [is_taken, is_theirs] = [&found, &expected].map(|reply| *reply == Reply::One(b"+OK".to_vec()));
        assert!(whole.is_none() || is_taken && is_theirs, "{}", value.escape_ascii());
        assert!(wrong.is_none() || !is_taken && !is_theirs, "{}: {found}, {expected}", value.escape_ascii());
        let (found, expected) = match (is_taken, is_theirs) {
            (true, true) => (held(&mut ours), held(&mut theirs)),
            (false, true) => continue,
            _ => (found.to_string(), expected.to_string()),
        };
        taken += usize::from(is_taken);
        if found != expected {
            complaints.push(format!("{}\n  ours:   {found}\n  theirs: {expected}", value.escape_ascii()));
        }
    }
    drop(real);
    assert!(complaints.is_empty(), "{} differences, {taken} taken:\n{}", complaints.len(), complaints.join("\n"));
    assert!(taken > EDITS / 8, "{taken} taken");
}
