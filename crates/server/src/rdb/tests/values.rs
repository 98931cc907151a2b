//! Every form of every type.

use super::*;

#[test]
fn strings() {
    let cases: [(&[u8], &str); 9] = [
        (b"\x03abc", "abc"),
        (b"\x40\x03abc", "abc"),
        (b"\x80\0\0\0\x03abc", "abc"),
        (b"\x81\0\0\0\0\0\0\0\x03abc", "abc"),
        (b"\xc0\x80", "-128"),
        (b"\xc1\x00\x80", "-32768"),
        (b"\xc2\xff\xff\xff\x7f", "2147483647"),
        (b"\xc3\x05\x0f\x00x\xe0\x05\x00", "xxxxxxxxxxxxxxx"),
        (b"\0", ""),
    ];
    for (bytes, expected) in cases {
        assert_eq!(read(kind::STRING, bytes).unwrap(), [format!("text {expected}")]);
    }
}

#[test]
fn plain_collections() {
    let two = b"\x02\x01a\xc0\x07";
    assert_eq!(read(kind::LIST, two).unwrap(), ["item a", "item 7"]);
    assert_eq!(read(kind::SET, two).unwrap(), ["member a", "member 7"]);
    assert_eq!(read(kind::HASH, b"\x02\x01a\x01b\x01c\0").unwrap(), ["field a b", "field c "]);
    let scores = [&b"\x02\x01a"[..], &1.5f64.to_le_bytes(), b"\x01b", &f64::INFINITY.to_le_bytes()].concat();
    assert_eq!(read(kind::SORTED_SET, &scores).unwrap(), ["scored a 1.5", "scored b inf"]);
    let texts = b"\x04\x01a\x031.5\x01b\xfe\x01c\xff\x01d\x06-2.5e1";
    assert_eq!(read(kind::SORTED_SET_TEXT, texts).unwrap(), ["scored a 1.5", "scored b inf", "scored c -inf", "scored d -25"]);
    for of in [kind::LIST, kind::SET, kind::HASH, kind::SORTED_SET, kind::SORTED_SET_TEXT, kind::LIST_QUICKLIST, kind::LIST_QUICKLIST_2] {
        assert_eq!(read(of, b"\0").unwrap(), [""; 0], "type {of}");
    }
    for nan in [&b"\x01\x01a\xfd"[..], b"\x01\x01a\x03nan", b"\x01\x01a\x00"] {
        assert!(matches!(read(kind::SORTED_SET_TEXT, nan), Err(Error::Damaged { .. })));
    }
    let nan = [&b"\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat();
    assert!(matches!(read(kind::SORTED_SET, &nan), Err(Error::Damaged { .. })));
}

/// Numbers and texts around every border between two forms.
fn borders() -> Vec<Part> {
    let mut parts = Vec::new();
    for bits in [0, 3, 4, 6, 7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 62] {
        for number in [(1i64 << bits) - 1, 1 << bits, -(1i64 << bits), -(1i64 << bits) - 1] {
            parts.push(Part::Number(number));
        }
    }
    parts.extend([i64::MIN, i64::MAX].map(Part::Number));
    for length in [0, 1, 63, 64, 120, 124, 125, 126, 127, 250, 251, 252, 253, 4095, 4096, 16_380, 16_381, 16_383, 16_384, 70_000] {
        parts.push(Part::Text((0..length).map(|n| b'a' + (n % 26) as u8).collect()));
        parts.push(Part::Number(1));
    }
    parts
}

fn items(parts: &[Part], of: &str) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text(text) => text.escape_ascii().to_string(),
        Part::Number(number) => number.to_string(),
    };
    parts.iter().map(|part| format!("{of} {}", text(part))).collect()
}

#[test]
fn packed_lists_and_sets() {
    let parts = borders();
    assert_eq!(read(kind::LIST_ZIPLIST, &string(&ziplist(&parts))).unwrap(), items(&parts, "item"));
    assert_eq!(read(kind::SET_LISTPACK, &string(&listpack(&parts))).unwrap(), items(&parts, "member"));
    let (one, other) = parts.split_at(parts.len() / 2);
    let lists = [&b"\x03"[..], &string(&ziplist(one)), &string(&ziplist(&[])), &string(&ziplist(other))].concat();
    assert_eq!(read(kind::LIST_QUICKLIST, &lists).unwrap(), items(&parts, "item"));
    // Plain items are containers of their own.
    let lists = [&b"\x03\x02"[..], &string(&listpack(one)), b"\x01", &string(b"plain"), b"\x02", &string(&listpack(other))].concat();
    let expected = [items(one, "item"), vec!["item plain".into()], items(other, "item")].concat();
    assert_eq!(read(kind::LIST_QUICKLIST_2, &lists).unwrap(), expected);
    assert!(matches!(read(kind::LIST_QUICKLIST_2, b"\x01\x03\x01x"), Err(Error::Damaged { .. })));
    // More than the header can count.
    let many = vec![Part::Number(5); 70_000];
    assert_eq!(read(kind::LIST_ZIPLIST, &string(&ziplist(&many))).unwrap().len(), 70_000);
    assert_eq!(read(kind::SET_LISTPACK, &string(&listpack(&many))).unwrap().len(), 70_000);
}

#[test]
fn packed_pairs() {
    let pairs = [text("a"), Part::Number(-5), Part::Number(7), text("1.5"), text("c"), text("inf")];
    for of in [kind::HASH_ZIPLIST, kind::HASH_LISTPACK] {
        let pack = if of == kind::HASH_ZIPLIST { ziplist(&pairs) } else { listpack(&pairs) };
        assert_eq!(read(of, &string(&pack)).unwrap(), ["field a -5", "field 7 1.5", "field c inf"]);
    }
    for of in [kind::SORTED_SET_ZIPLIST, kind::SORTED_SET_LISTPACK] {
        let pack = |parts: &[Part]| string(&if of == kind::SORTED_SET_ZIPLIST { ziplist(parts) } else { listpack(parts) });
        assert_eq!(read(of, &pack(&pairs)).unwrap(), ["scored a -5", "scored 7 1.5", "scored c inf"]);
        for wrong in [&pairs[..3], &[text("a"), text("x")], &[text("a"), text("nan")], &[text("a"), text("")]] {
            assert!(matches!(read(of, &pack(wrong)), Err(Error::Damaged { .. })), "{wrong:?}");
        }
    }
}

#[test]
fn sets_of_integers() {
    for (width, numbers) in [(2, vec![-32768, 0, 32767]), (4, vec![i64::from(i32::MIN), 1]), (8, vec![i64::MIN, -1, i64::MAX])] {
        let expected: Vec<String> = numbers.iter().map(|number| format!("member {number}")).collect();
        assert_eq!(read(kind::SET_INTSET, &string(&intset(width, &numbers))).unwrap(), expected);
    }
    let good = intset(4, &[1, 2]);
    let wrong = [
        intset(4, &[2, 1]),
        intset(4, &[1, 1]),
        intset(3, &[1]),
        intset(1, &[1]),
        good[..good.len() - 1].to_vec(),
        [&good[..], b"\0\0\0\0"].concat(),
        Vec::new(),
    ];
    for bytes in wrong {
        assert!(matches!(read(kind::SET_INTSET, &string(&bytes)), Err(Error::Damaged { .. })), "{bytes:?}");
    }
}

#[test]
fn zipmaps() {
    let long = vec![b'v'; 300];
    let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"", b""), (b"long", &long)];
    for unused in [0, 1, 4] {
        let expected = ["field a 1".to_owned(), "field  ".to_owned(), format!("field long {}", long.escape_ascii())];
        assert_eq!(read(kind::HASH_ZIPMAP, &string(&zipmap(&pairs, unused))).unwrap(), expected);
    }
    let many: Vec<Vec<u8>> = (0..300u32).map(|n| n.to_string().into_bytes()).collect();
    let pairs: Vec<(&[u8], &[u8])> = many.iter().map(|name| (name.as_slice(), &b"v"[..])).collect();
    assert_eq!(read(kind::HASH_ZIPMAP, &string(&zipmap(&pairs, 0))).unwrap().len(), 300);
    for claimed in [0, 2, 253, 255] {
        let wrong = [&[claimed][..], b"\x01a\x01\x00b\xff"].concat();
        assert!(read(kind::HASH_ZIPMAP, &string(&wrong)).is_err(), "{claimed} pairs, and there is one");
    }
    assert_eq!(read(kind::HASH_ZIPMAP, &string(b"\xfe\x01a\x01\x00b\xff")).unwrap().len(), 1);
    for (at, claimed) in [(1, 8), (3, 2), (3, 0xfd), (4, 2)] {
        let mut wrong = b"\x01\x01a\x01\x00b\xff".to_vec();
        wrong[at] = claimed;
        assert!(read(kind::HASH_ZIPMAP, &string(&wrong)).is_err(), "a length of {claimed} in byte {at}");
    }
    assert!(read(kind::HASH_ZIPMAP, &string(b"\x01\x01a\x01\x00b")).is_err(), "no end");
}

fn numbers(numbers: &[i64]) -> Vec<Part> {
    numbers.iter().map(|number| Part::Number(*number)).collect()
}

/// A node of two entries with the fields of the node, one of them deleted, and one with its own.
fn stream_node() -> Vec<u8> {
    let mut parts = numbers(&[2, 1, 2]);
    parts.extend([text("f"), text("g")]);
    parts.extend(numbers(&[0, 2, 0, 0]));
    parts.extend([text("1"), text("2"), Part::Number(5)]);
    parts.extend(numbers(&[3, 1, 0]));
    parts.extend([text("3"), text("4"), Part::Number(5)]);
    parts.extend(numbers(&[0, 1000, -1, 1]));
    parts.extend([text("h"), text("x"), Part::Number(6)]);
    listpack(&parts)
}

fn stream(version: u8) -> Vec<u8> {
    let id = |ms: u64, seq: u64| [ms.to_be_bytes(), seq.to_be_bytes()].concat();
    let node = [&string(&id(5, 1))[..], &string(&stream_node())].concat();
    // Length and last id; then the first id, the largest deleted one, and how many were added.
    let state = if version == kind::STREAM { &b"\x02\x43\xed\x00"[..] } else { b"\x02\x43\xed\x00\x05\x01\x06\x01\x03" };
    let mut out = [&b"\x01"[..], &node, state, b"\x01", &string(b"group"), b"\x05\x01"].concat();
    if version != kind::STREAM {
        out.push(1);
    }
    out.push(1);
    out.extend(id(5, 1));
    out.extend(7u64.to_le_bytes());
    out.push(3);
    out.extend([&b"\x01"[..], &string(b"consumer"), &8u64.to_le_bytes()].concat());
    if version >= kind::STREAM_3 {
        out.extend((-1i64).to_le_bytes());
    }
    out.push(1);
    out.extend(id(5, 1));
    if version == kind::STREAM_4 {
        // Ids of producers are kept for 100 s, 100 of each; one producer has added an entry under an id of its own, and again.
        out.extend([&b"\x40\x64\x40\x64\x01"[..], &string(b"producer"), b"\x01", &string(b"iid"), b"\x05\x01\x01\x01"].concat());
    }
    out
}

#[test]
fn streams_of_all_versions() {
    for version in [kind::STREAM, kind::STREAM_2, kind::STREAM_3, kind::STREAM_4] {
        let is_old = version == kind::STREAM;
        let state = StreamElement::State {
            length: 2,
            last: StreamEntryId { ms: 1005, seq: 0 },
            max_deleted: if is_old { StreamEntryId::default() } else { StreamEntryId { ms: 6, seq: 1 } },
            added: (!is_old).then_some(3),
        };
        let read_by_group = if is_old { "None" } else { "Some(1)" };
        let expected = [
            "entry 5-1 f=1 g=2".to_owned(),
            "entry 1005-0 h=x".to_owned(),
            format!("{state:?}"),
            format!("group group 5-1 {read_by_group}"),
            format!("{:?}", StreamElement::Pending { id: StreamEntryId { ms: 5, seq: 1 }, delivered: 7, deliveries: 3 }),
            "consumer consumer 8 None".to_owned(),
            format!("{:?}", StreamElement::Owned { id: StreamEntryId { ms: 5, seq: 1 } }),
        ];
        assert_eq!(read(version, &stream(version)).unwrap(), expected, "version {version}");
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries whose fields change now and then, and some that fill a node alone.
fn entries() -> Vec<(StreamEntryId, Fields)> {
    let pair = |field: &str, value: String| (field.as_bytes().to_vec(), value.into_bytes());
    let mut all = Vec::new();
    for n in 0..700u64 {
        let mut fields = vec![pair("f", n.to_string()), pair("g", "x".repeat(n as usize % 70))];
        match n % 90 {
            17 => fields.push(pair("h", "y".repeat(200))),
            40 => fields.clear(),
            60 => fields.push(pair("long", "z".repeat(20_000))),
            _ => {}
        }
        all.push((StreamEntryId { ms: 5 + n / 3 * 1_000_000, seq: if n % 3 == 0 { n } else { 1 << 40 | n } }, fields));
    }
    all
}

#[test]
fn streams_that_are_written_read_back() {
    for version in [Version::Nine, Version::Ten, Version::Eleven] {
        let all = entries();
        let divide = || {
            let (mut nodes, mut done) = (Nodes::default(), Vec::new());
            all.iter().for_each(|(id, fields)| done.extend(nodes.add(*id, fields)));
            done.extend(nodes.end());
            done
        };
        let nodes = divide();
        assert!(nodes == divide() && nodes.len() > 7, "{} nodes", nodes.len());
        let id = |ms| StreamEntryId { ms, seq: 1 };
        let mut out = Output::new(Vec::new());
        out.length(nodes.len() as u64).unwrap();
        nodes.iter().for_each(|node| out.stream_node(node).unwrap());
        let state = StreamState { length: 700, first: all[0].0, last: id(u64::MAX), max_deleted: id(2), added: 800 };
        out.stream_state(version, &state).unwrap();
        out.length(2).unwrap();
        for (name, read) in [(b"one", Some(9)), (b"two", None)] {
            out.stream_group(version, name, id(77), read).unwrap();
            out.length(1).unwrap();
            out.stream_pending(id(7), 8, 9).unwrap();
            out.length(1).unwrap();
            out.stream_consumer(version, b"c", 10, read).unwrap();
            out.length(1).unwrap();
            out.stream_owned(id(7)).unwrap();
        }
        // Less what the end of a value adds.
        let mut bytes = out.end_of_value(version).unwrap();
        bytes.truncate(bytes.len() - 10);
        let found = read(stream_kind(version), &bytes).unwrap();
        let mut expected: Vec<String> = all
            .iter()
            .map(|(id, fields)| {
                let fields: Vec<String> = fields.iter().map(|(f, v)| format!("{}={}", f.escape_ascii(), v.escape_ascii())).collect();
                format!("entry {}-{} {}", id.ms, id.seq, fields.join(" "))
            })
            .collect();
        let is_old = version == Version::Nine;
        let (max_deleted, added) = if is_old { (StreamEntryId::default(), None) } else { (id(2), Some(800)) };
        expected.push(format!("{:?}", StreamElement::State { length: 700, last: id(u64::MAX), max_deleted, added }));
        for (name, read) in [("one", Some(9)), ("two", None)] {
            let read = read.filter(|_| !is_old);
            expected.push(format!("group {name} 77-1 {read:?}"));
            expected.push(format!("{:?}", StreamElement::Pending { id: id(7), delivered: 8, deliveries: 9 }));
            expected.push(format!("consumer c 10 {:?}", read.filter(|_| version == Version::Eleven)));
            expected.push(format!("{:?}", StreamElement::Owned { id: id(7) }));
        }
        assert_eq!(found, expected);
    }
}

/// A stream with an entry for each id, and a group; `state` is its length and last id, `owned` what each consumer has of what is pending.
fn small_stream(ids: &[u64], state: (u64, u64), pending: &[u64], owned: &[&[u64]]) -> Result<Vec<String>> {
    let id = |ms: u64| StreamEntryId { ms, seq: 0 };
    let state = StreamState { length: state.0, last: id(state.1), ..StreamState::default() };
    read(kind::STREAM, &small_stream_of(Version::Nine, ids, &state, pending, owned))
}

fn small_stream_of(version: Version, ids: &[u64], state: &StreamState, pending: &[u64], owned: &[&[u64]]) -> Vec<u8> {
    let id = |ms: u64| StreamEntryId { ms, seq: 0 };
    let mut nodes = Nodes::default();
    ids.iter().for_each(|ms| assert!(nodes.add(id(*ms), &[("f", "v")]).is_none()));
    let node = nodes.end();
    let mut out = Output::new(Vec::new());
    out.length(node.iter().len() as u64).unwrap();
    node.iter().for_each(|node| out.stream_node(node).unwrap());
    out.stream_state(version, state).unwrap();
    out.length(1).unwrap();
    out.stream_group(version, b"g", id(0), None).unwrap();
    out.length(pending.len() as u64).unwrap();
    pending.iter().for_each(|ms| out.stream_pending(id(*ms), 1, 1).unwrap());
    out.length(owned.len() as u64).unwrap();
    for owned in owned {
        out.stream_consumer(version, b"c", 1, None).unwrap();
        out.length(owned.len() as u64).unwrap();
        owned.iter().for_each(|ms| out.stream_owned(id(*ms)).unwrap());
    }
    let mut bytes = out.end_of_value(version).unwrap();
    bytes.truncate(bytes.len() - 10);
    bytes
}

/// The properties of a stream are corrected by its entries, and each correction is told.
#[test]
fn streams_that_contradict_their_entries_are_corrected() {
    let id = |ms: u64| StreamEntryId { ms, seq: 0 };
    let told = |of: u8, bytes: &[u8]| read(of, bytes).unwrap().into_iter().filter(|part| !part.starts_with("entry")).collect::<Vec<_>>();
    let right = StreamState { length: 2, last: id(5), first: id(1), max_deleted: id(3), added: 3 };
    let read_as = |state: &StreamState| {
        let told = told(kind::STREAM_2, &small_stream_of(Version::Ten, &[1, 5], state, &[], &[]));
        let (group, rest) = told.split_last().unwrap();
        let (state, corrected) = rest.split_last().unwrap();
        assert!(group.starts_with("group g"));
        (corrected.join("; "), state.clone())
    };
    let is = |last: u64, max_deleted: u64, added: u64| {
        format!("{:?}", StreamElement::State { length: 2, last: id(last), max_deleted: id(max_deleted), added: Some(added) })
    };
    let corrected = |what: &str| format!("Corrected(\"{what}\")");
    for (state, says, expected) in [
        (right, String::new(), is(5, 3, 3)),
        // The first id follows from the entries.
        (StreamState { first: id(4), ..right }, String::new(), is(5, 3, 3)),
        (StreamState { length: 9, ..right }, corrected("the number of entries from 9 to 2"), is(5, 3, 3)),
        (StreamState { length: 0, ..right }, corrected("the number of entries from 0 to 2"), is(5, 3, 3)),
        (StreamState { last: id(4), ..right }, corrected("the last id from 4-0 to 5-0"), is(5, 3, 3)),
        (StreamState { max_deleted: id(8), ..right }, corrected("the last id from 5-0 to 8-0"), is(8, 8, 3)),
        (StreamState { added: 1, ..right }, corrected("the number of entries that were ever added from 1 to 2"), is(5, 3, 2)),
    ] {
        assert_eq!(read_as(&state), (says, expected));
    }
    // Redis 5 knows no more than length and last id.
    let old = told(kind::STREAM, &small_stream_of(Version::Nine, &[1, 5], &StreamState { length: 130, ..right }, &[], &[]));
    let state = StreamElement::State { length: 2, last: id(5), max_deleted: id(0), added: None };
    assert_eq!(old[..2], [corrected("the number of entries from 130 to 2"), format!("{state:?}")]);
    // A node: its id, its length, six bytes, its number of entries.
    let mut bytes = small_stream_of(Version::Ten, &[1, 5], &right, &[], &[]);
    assert_eq!(std::mem::replace(&mut bytes[25], 7), 2);
    assert!(read(kind::STREAM_2, &bytes).is_err(), "Redis, too, refuses it where it looks");
}

/// Deadlines as Redis 7.4, its pre-releases and Valkey 9 have them: relative to the first one, alone, in a listpack, behind the value.
#[test]
fn hashes_whose_fields_have_deadlines() {
    const FIRST: u64 = 1_700_000_000_123;
    let first = &FIRST.to_le_bytes()[..];
    let far = [&b"\x81"[..], &FIRST.to_be_bytes()].concat();
    let pairs = [[string(b"a"), string(b"1")], [string(b"b"), string(b"2")], [string(b"c"), string(b"3")]].map(|pair| pair.concat());
    let [a, b, c] = pairs.each_ref().map(Vec::as_slice);
    let parts = [text("b"), text("2"), Part::Number(FIRST as i64), text("c"), Part::Number(3), Part::Number(FIRST as i64 + 999)];
    let pack = string(&listpack(&[&parts[..], &[text("a"), text("1"), Part::Number(0)]].concat()));
    let (until, later) = (format!("field b 2 until {FIRST}"), format!("field c 3 until {}", FIRST + 999));
    let sorted = [until.as_str(), later.as_str(), "field a 1"];
    let as_written = ["field a 1", until.as_str(), later.as_str()];
    for (of, bytes, expected) in [
        (kind::HASH_DEADLINES, [first, b"\x03\0", a, b"\x01", b, b"\x43\xe8", c].concat(), as_written),
        (kind::HASH_DEADLINES_EARLY, [b"\x03\0", a, &far, b, b"\x81", &(FIRST + 999).to_be_bytes(), c].concat(), as_written),
        (kind::HASH_VALKEY, [b"\x03", a, &[0xff; 8], b, first, c, &(FIRST + 999).to_le_bytes()].concat(), as_written),
        (kind::HASH_LISTPACK_DEADLINES, [first, &pack].concat(), sorted),
        (kind::HASH_LISTPACK_DEADLINES_EARLY, pack.clone(), sorted),
    ] {
        assert_eq!(read(of, &bytes).unwrap(), expected, "type {of}");
        let mut input = Input::new(&bytes[..]);
        skip_value(&mut input, of).unwrap();
        assert_eq!(input.position(), bytes.len() as u64, "type {of}");
    }
    let too_far = [&u64::MAX.to_le_bytes()[..], b"\x01\x02", a].concat();
    let before = [b"\x01", a, &(-5i64).to_le_bytes()].concat();
    let (short, odd) = (string(&listpack(&parts[..5])), string(&listpack(&[text("a"), text("1"), text("x")])));
    for (of, wrong) in [
        (kind::HASH_DEADLINES, too_far),
        (kind::HASH_VALKEY, before),
        (kind::HASH_LISTPACK_DEADLINES_EARLY, short),
        (kind::HASH_LISTPACK_DEADLINES_EARLY, odd),
    ] {
        assert!(matches!(read(of, &wrong), Err(Error::Damaged { .. })), "type {of}");
    }
}

/// Byte 22 is another type in files of Valkey than in those of a pre-release of Redis.
#[test]
fn files_of_valkey_have_a_type_of_their_own() {
    let hash = [&b"\x16"[..], &string(b"h"), b"\x01", &string(b"a"), &string(b"1"), &7u64.to_le_bytes()].concat();
    let mut bytes = [&b"VALKEY080"[..], &hash, b"\xff"].concat();
    bytes.extend(crc64(0, &bytes).to_le_bytes());
    let found = read_file(&bytes).unwrap();
    assert!(found[0].contains(&format!("kind: {}", kind::HASH_VALKEY)) && found[1] == "field a 1 until 7", "{found:?}");
    let early = [&b"\x16"[..], &string(b"h"), b"\x01\x07", &string(b"a"), &string(b"1")].concat();
    assert_eq!(read_file(&file(12, &early)).unwrap()[1], "field a 1 until 7");
    assert!(matches!(read_file(&file(12, &[b"\xf0", &hash[1..]].concat())), Err(Error::Unsupported { .. })));
    for wrong in [&b"VALKEY079"[..], b"VALKEY012", b"REDIS0080", b"VALKEYxyz"] {
        assert!(read_file(wrong).is_err(), "{wrong:?}");
    }
}

/// Values that are not known here, but for their end.
#[test]
fn what_is_not_supported_is_skipped() {
    let pair = [string(b"field"), string(b"value")].concat();
    for (of, value) in [
        (kind::HASH_DEADLINES_EARLY, [&b"\x02\x00"[..], &pair, b"\x81\0\0\0\0\0\0\0\x07", &pair].concat()),
        (kind::HASH_DEADLINES, [&b"\x09\0\0\0\0\0\0\0\x01\x05"[..], &pair].concat()),
        (kind::HASH_LISTPACK_DEADLINES_EARLY, string(&listpack(&[text("a"), text("b"), Part::Number(0)]))),
        (kind::HASH_LISTPACK_DEADLINES, [&[9; 8][..], &string(&listpack(&[text("a"), text("b"), Part::Number(0)]))].concat()),
        (kind::MODULE_2, b"\x81\0\0\0\0\0\0\x04\0\x02\x05\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x01x\x01\x07\0".to_vec()),
    ] {
        let mut input = Input::new(&value[..]);
        skip_value(&mut input, of).unwrap();
        assert_eq!(input.position(), value.len() as u64, "type {of}");
        for end in 0..value.len() {
            let cut = skip_value(&mut Input::new(&value[..end]), of);
            assert!(matches!(cut, Err(Error::Ends { .. })), "type {of} cut at {end}: {cut:?}");
        }
    }
    assert!(matches!(skip_value(&mut Input::new(&b"\0\0\0"[..]), kind::MODULE), Err(Error::Unsupported { .. })));
}

#[test]
fn streams_that_contradict_themselves() {
    assert!(small_stream(&[1, 2], (2, 2), &[1, 2, 7], &[&[2], &[1, 7]]).is_ok());
    assert!(small_stream(&[], (0, 0), &[], &[]).is_ok() && small_stream(&[], (0, 9), &[5], &[&[], &[5]]).is_ok());
    for (wrong, says) in [
        (small_stream(&[0], (1, 1), &[], &[]), "ids of a stream that do not ascend"),
        (small_stream(&[1, 1], (2, 1), &[], &[]), "ids of a stream that do not ascend"),
        (small_stream(&[], (1, 2), &[], &[]), "not as many entries"),
        (small_stream(&[1], (1, 1), &[2, 1], &[&[1, 2]]), "pending entries that do not ascend"),
        (small_stream(&[1], (1, 1), &[1, 2], &[&[2, 2]]), "pending entries that do not ascend"),
        (small_stream(&[1], (1, 1), &[1, 2], &[&[1], &[]]), "not those of its consumers"),
        (small_stream(&[1], (1, 1), &[1], &[&[1], &[1]]), "not those of its consumers"),
    ] {
        let error = wrong.unwrap_err();
        assert!(matches!(&error, Error::Damaged { what, .. } if what.contains(says)), "{says}: {error}");
    }
}

/// For `hostile`: a value of each type, with each form inside.
pub(super) fn one_of_each() -> Vec<(u8, Vec<u8>)> {
    let parts = [text("a"), Part::Number(1), text("b"), Part::Number(300), text(&"c".repeat(80)), Part::Number(-70_000)];
    let (zip, pack) = (string(&ziplist(&parts)), string(&listpack(&parts)));
    let until = [text("a"), text("1"), Part::Number(1), text("b"), text("2"), Part::Number(0)];
    vec![
        (kind::STRING, b"\xc3\x06\x0f\x01xx\xe0\x04\x00".to_vec()),
        (kind::STRING, b"\xc2\xff\xff\xff\x7f".to_vec()),
        (kind::LIST, b"\x02\x01a\xc0\x07".to_vec()),
        (kind::SET, b"\x02\x01a\xc0\x07".to_vec()),
        (kind::SORTED_SET_TEXT, b"\x02\x01a\x031.5\x01b\xfe".to_vec()),
        (kind::SORTED_SET, [&b"\x01\x01a"[..], &1.5f64.to_le_bytes()].concat()),
        (kind::HASH, b"\x02\x01a\x01b\x01c\0".to_vec()),
        (kind::HASH_ZIPMAP, string(&zipmap(&[(b"a", b"1"), (b"b", b"2")], 1))),
        (kind::LIST_ZIPLIST, zip.clone()),
        (kind::SET_INTSET, string(&intset(4, &[1, 70_000]))),
        (kind::SORTED_SET_ZIPLIST, zip.clone()),
        (kind::HASH_ZIPLIST, zip.clone()),
        (kind::LIST_QUICKLIST, [&b"\x01"[..], &zip].concat()),
        (kind::HASH_LISTPACK, pack.clone()),
        (kind::SORTED_SET_LISTPACK, pack.clone()),
        (kind::SET_LISTPACK, pack.clone()),
        (kind::LIST_QUICKLIST_2, [&b"\x02\x02"[..], &pack, b"\x01\x01x"].concat()),
        (kind::STREAM, stream(kind::STREAM)),
        (kind::STREAM_2, stream(kind::STREAM_2)),
        (kind::STREAM_3, stream(kind::STREAM_3)),
        (kind::HASH_DEADLINES, b"\x09\0\0\0\0\0\0\0\x02\x05\x01a\x01b\0\x01c\x01d".to_vec()),
        (kind::HASH_DEADLINES_EARLY, b"\x01\x05\x01a\x01b".to_vec()),
        (kind::HASH_LISTPACK_DEADLINES, [&b"\x01\0\0\0\0\0\0\0"[..], &string(&listpack(&until))].concat()),
        (kind::HASH_LISTPACK_DEADLINES_EARLY, string(&listpack(&until))),
        (kind::HASH_VALKEY, b"\x01\x01a\x01b\x05\0\0\0\0\0\0\0".to_vec()),
        (kind::STREAM_4, stream(kind::STREAM_4)),
    ]
}
