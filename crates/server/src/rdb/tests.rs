//! The format, from bytes that are built here by hand as its description has them. What a real Redis writes and reads is compared in
//! `tests/rdb.rs`.

mod build;
mod hostile;
mod values;

use super::skip::skip_value;
use super::*;
use build::*;

fn described(element: Element) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match element {
        Element::Text(value) => format!("text {}", text(value)),
        Element::Item(value) => format!("item {}", text(value)),
        Element::Member(value) => format!("member {}", text(value)),
        Element::Scored(member, score) => format!("scored {} {score}", text(member)),
        Element::Field(field, value, None) => format!("field {} {}", text(field), text(value)),
        Element::Field(field, value, Some(deadline)) => format!("field {} {} until {deadline}", text(field), text(value)),
        Element::Stream(element) => match element {
            StreamElement::Entry { id, fields } => {
                let fields: Vec<String> = fields.iter().map(|(field, value)| format!("{}={}", text(field), text(value))).collect();
                format!("entry {}-{} {}", id.ms, id.seq, fields.join(" "))
            }
            StreamElement::Group { name, last, read } => format!("group {} {}-{} {read:?}", text(name), last.ms, last.seq),
            StreamElement::Consumer { name, seen, active } => format!("consumer {} {seen} {active:?}", text(name)),
            other => format!("{other:?}"),
        },
    }
}

/// All elements of a value; all of the bytes have to be read.
fn read(of: u8, bytes: &[u8]) -> Result<Vec<String>> {
    let mut input = Input::new(bytes);
    let mut found = Vec::new();
    read_value::<_, Error>(&mut input, of, &mut |element| {
        found.push(described(element));
        Ok(())
    })?;
    assert_eq!(input.position(), bytes.len() as u64, "{} was not read to its end", bytes.escape_ascii());
    // Whoever skips it comes to the same place.
    let mut input = Input::new(bytes);
    skip_value(&mut input, of).unwrap();
    assert_eq!(input.position(), bytes.len() as u64, "{} was not skipped to its end", bytes.escape_ascii());
    Ok(found)
}

/// All records of a file, and the elements of its keys.
fn read_file(bytes: &[u8]) -> Result<Vec<String>> {
    let mut reader = Reader::new(bytes)?;
    let mut found = Vec::new();
    loop {
        match reader.record()? {
            Record::End => return Ok(found),
            Record::Key(key) => {
                found.push(format!("{key:?}"));
                reader.value::<Error>(&mut |element| {
                    found.push(described(element));
                    Ok(())
                })?;
            }
            other => found.push(format!("{other:?}")),
        }
    }
}

#[test]
fn records_of_a_file() {
    let mut body = Vec::new();
    body.extend([&b"\xfa"[..], &string(b"redis-ver"), &string(b"7.0.15")].concat());
    // A function, one of a pre-release with a description, and data of a module.
    body.extend([&b"\xf5"[..], &string(b"#!lua name=x\n")].concat());
    body.extend([&b"\xf6"[..], &string(b"x"), &string(b"LUA"), b"\x01", &string(b"says"), &string(b"code")].concat());
    body.extend(b"\xf7\x81");
    body.extend((1u64 << 10).to_be_bytes());
    body.extend(b"\x02\x02\x01\x05\x02\x06\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x01x\0");
    // Database 3 with two keys, one of which has a deadline; and slots.
    body.extend(b"\xfe\x03\xfb\x02\x01\xf4\x01\x02\x03");
    body.extend([&b"\xfc\xe8\x03\0\0\0\0\0\0\xf8\x05\xf9\x07\0"[..], &string(b"a"), &string(b"1")].concat());
    body.extend([&b"\xfd\x02\0\0\0\x02"[..], &string(b"b"), b"\x02", &string(b"x"), &string(b"y")].concat());
    let expected = [
        format!("{:?}", Record::Aux { name: b"redis-ver".to_vec(), value: b"7.0.15".to_vec() }),
        format!("{:?}", Record::Function(b"#!lua name=x\n".to_vec())),
        "EarlyFunction".into(),
        "Module(\"AAAAAAAAB\")".into(),
        "Database(3)".into(),
        "Sizes(2, 1)".into(),
        format!("{:?}", Key { name: b"a".to_vec(), deadline: Some(1000), idle: Some(5), frequency: Some(7), kind: kind::STRING }),
        "text 1".into(),
        format!("{:?}", Key { name: b"b".to_vec(), deadline: Some(2000), kind: kind::SET, ..Key::default() }),
        "member x".into(),
        "member y".into(),
    ];
    assert_eq!(read_file(&file(12, &body)).unwrap(), expected);
    // A value that nobody asks for is skipped.
    let whole = file(12, &body);
    let mut reader = Reader::new(&whole[..]).unwrap();
    let mut records = 0;
    while reader.record().unwrap() != Record::End {
        records += 1;
    }
    assert_eq!((records, reader.version(), reader.position()), (8, 12, whole.len() as u64));
}

#[test]
fn deadlines_before_the_epoch_are_over_and_minus_one_is_none() {
    let key = |ms: i64| [&b"\xfc"[..], &ms.to_le_bytes(), b"\0", &string(b"a"), &string(b"1")].concat();
    for (ms, expected) in [(-1, "None"), (-2, "Some(0)"), (i64::MIN, "Some(0)"), (5, "Some(5)")] {
        let found = read_file(&file(9, &key(ms))).unwrap();
        assert!(found[0].contains(&format!("deadline: {expected}")), "{ms}: {found:?}");
    }
    let seconds = [&b"\xfd\xff\xff\xff\xff\0"[..], &string(b"a"), &string(b"1")].concat();
    assert!(read_file(&file(9, &seconds)).unwrap()[0].contains("deadline: Some(0)"));
}

#[test]
fn versions_and_checksums() {
    let body = [&b"\0"[..], &string(b"a"), &string(b"1")].concat();
    for version in 1..=NEWEST {
        assert_eq!(read_file(&file(version, &body)).unwrap().len(), 2, "version {version}");
    }
    for version in [0, 14, 80, 9999] {
        let error = read_file(&file(version, &body)).unwrap_err();
        assert!(matches!(error, Error::Unsupported { at: 9, .. }), "{error}");
    }
    assert!(matches!(read_file(b"RIDES0009\xff"), Err(Error::Damaged { .. })));
    assert!(matches!(read_file(b"REDIS"), Err(Error::Ends { at: 0, .. })));
    // A checksum of zero: the writer made none.
    let mut unchecked = file(9, &body);
    let end = unchecked.len() - 8;
    unchecked[end..].fill(0);
    assert!(read_file(&unchecked).is_ok());
    unchecked[end] = 1;
    assert!(matches!(read_file(&unchecked), Err(Error::Checksum { .. })));
}

#[test]
fn what_is_not_supported_is_said_by_name() {
    let value = |of: u8, rest: &[u8]| file(11, &[&[of][..], &string(b"a"), rest].concat());
    let says = |bytes: &[u8], what: &str| {
        let error = read_file(bytes).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(what), "{error}");
    };
    says(&value(kind::MODULE_2, b"\x81\0\0\0\0\0\0\x04\0\0"), "a value of the module type AAAAAAAAB");
    says(&value(8, b"\x01"), "a value of type 8");
    says(&file(11, b"\x64"), "a record of type 100");
}

#[test]
fn what_is_written_reads_back() {
    let mut out = Output::new(Vec::new());
    out.head(Version::Nine).unwrap();
    out.aux("ctime", "12").unwrap();
    out.database(15, 1 << 20, 70_000).unwrap();
    let long = vec![b'x'; 70_000];
    let texts: [&[u8]; 12] =
        [b"", b"a", b"127", b"-128", b"128", b"-32768", b"32768", b"-2147483648", b"2147483648", b"007", b"\0\xff", &long];
    for text in texts {
        out.key(kind::STRING, text, None).unwrap();
        out.string(text).unwrap();
    }
    out.key(kind::SORTED_SET, b"z", Some(u64::MAX)).unwrap();
    out.length(2).unwrap();
    for score in [f64::NEG_INFINITY, 0.1] {
        out.string(b"member").unwrap();
        out.score(score).unwrap();
    }
    let bytes = out.end().unwrap();
    let found = read_file(&bytes).unwrap();
    assert_eq!(found[1..3], ["Database(15)".to_owned(), "Sizes(1048576, 70000)".to_owned()]);
    for (n, text) in texts.iter().enumerate() {
        let key = Key { name: text.to_vec(), ..Key::default() };
        assert_eq!(found[3 + 2 * n..5 + 2 * n], [format!("{key:?}"), format!("text {}", text.escape_ascii())]);
    }
    assert_eq!(found[found.len() - 2..], ["scored member -inf".to_owned(), "scored member 0.1".to_owned()]);
    assert!(found[found.len() - 3].contains(&format!("deadline: Some({})", i64::MAX)));
}

#[test]
fn values_are_closed_and_opened() {
    let mut out = Output::new(Vec::new());
    out.kind(kind::STRING).unwrap();
    out.string(b"bar").unwrap();
    let payload = out.end_of_value(Version::Nine).unwrap();
    assert_eq!(payload[..payload.len() - 8], *b"\0\x03bar\x09\0");
    assert_eq!(open_value(&payload), Some((&b"\0\x03bar"[..], 9)));
    for at in 0..payload.len() {
        let mut wrong = payload.clone();
        wrong[at] ^= 1;
        assert_eq!(open_value(&wrong), None, "byte {at}");
        assert_eq!(open_value(&payload[..at]), None, "cut at {at}");
    }
    // Versions that are known, and others, whatever their checksum.
    for (version, is_known) in [(12, true), (13, true), (14, false), (79, false), (80, true), (81, false)] {
        let body = [&b"\0\x03bar"[..], &[version, 0]].concat();
        let payload = [&body[..], &crc64(0, &body).to_le_bytes()].concat();
        let expected = is_known.then_some((&b"\0\x03bar"[..], u32::from(version)));
        assert_eq!(open_value(&payload), expected, "version {version}");
        let long = long_value(payload.len() as u64, &payload[..10], &payload[payload.len() - 10..]).unwrap();
        assert_eq!(long.is_whole(crc64(0, b"\0\x03bar")), is_known, "version {version}");
    }
}

/// A file of Valkey 9: it has a head and a version of its own, and slots that were on their way to the server.
#[test]
fn files_of_valkey_are_read() {
    let valkey = |version: u32, body: &[u8]| {
        let mut out = [format!("VALKEY{version:03}").as_bytes(), body, b"\xff"].concat();
        out.extend(crc64(0, &out).to_le_bytes());
        out
    };
    let body =
        [&b"\xf3"[..], &string(&[b'a'; 40]), b"\x02\x01\x05\x06\x40\xff\xfe\0\xf4\x01\x02\x03\0", &string(b"k"), &string(b"v")].concat();
    let key = Key { name: b"k".to_vec(), ..Key::default() };
    assert_eq!(read_file(&valkey(80, &body)).unwrap(), ["Database(0)".to_owned(), format!("{key:?}"), "text v".into()]);
    assert!(matches!(read_file(&file(13, &body)), Err(Error::Unsupported { .. })), "Redis has nothing of that number");
    for version in [11, 79, 81] {
        let error = read_file(&valkey(version, &body)).unwrap_err();
        assert!(error.to_string().contains("of Valkey (80 is known)"), "{error}");
    }
    // Hashes with deadlines have a type that stands for something else in files of Redis; their end is known.
    let hash = [&b"\x16"[..], &string(b"h"), b"\x01", &string(b"f"), &string(b"v"), &5u64.to_le_bytes()].concat();
    let whole = valkey(80, &hash);
    let mut reader = Reader::new(std::io::Cursor::new(&whole)).unwrap();
    assert_eq!(reader.record().unwrap(), Record::Key(Key { name: b"h".to_vec(), kind: kind::HASH_VALKEY, ..Key::default() }));
    reader.skip_value().unwrap();
    assert_eq!(reader.record().unwrap(), Record::End);
}
