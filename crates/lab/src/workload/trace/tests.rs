use super::*;

/// Time, family, action and key of a line.
type Line = (Option<u64>, usize, Action, Vec<u8>);

fn all(text: &str) -> Result<Vec<Line>, String> {
    let mut trace = Trace::new(text.as_bytes());
    let mut list = Vec::new();
    while trace.advance().map_err(|error| error.to_string())? {
        list.push((trace.micros, trace.family, trace.action, trace.key.clone()));
    }
    Ok(list)
}

#[test]
fn the_plain_form() {
    let text = "# made by hand\n\nput user:1 100\n get  0x00fF \r\n@1500 delete k\nscan a 10";
    let expected = [
        (None, 0, Action::Put(100), b"user:1".to_vec()),
        (None, 0, Action::Get, vec![0, 255]),
        (Some(1500), 0, Action::Delete, b"k".to_vec()),
        (None, 0, Action::Scan(10), b"a".to_vec()),
    ];
    assert_eq!(all(text).unwrap(), expected);
}

#[test]
fn the_form_of_the_trace_analyzer() {
    let text = "0x6B31 1 0 100 1546300800000000\n0x6B31 0 2 0 1546300800000100\n0x6b 3 0 0 5\n0x00 6 1 0 6\n0x6b 8 0 0 7\n";
    let expected = [
        (Some(1_546_300_800_000_000), 0, Action::Put(100), b"k1".to_vec()),
        (Some(1_546_300_800_000_100), 2, Action::Get, b"k1".to_vec()),
        (Some(5), 0, Action::Delete, b"k".to_vec()),
        (Some(6), 1, Action::Scan(1), vec![0]),
        (Some(7), 0, Action::Get, b"k".to_vec()),
    ];
    assert_eq!(all(text).unwrap(), expected);
}

#[test]
fn what_is_wrong_has_a_line() {
    for (text, complaint) in [
        ("get a\nfrobnicate a", "line 2: \"frobnicate\" is none of put, get, delete, scan"),
        ("\n\nput a", "line 3: the size is missing"),
        ("put a -1", "line 1: the size is not a whole number: \"-1\""),
        ("put a 99999999999", "line 1: the size must be at most 1073741824, not 99999999999"),
        ("get", "line 1: the key is missing"),
        ("@", "line 1: the time in microseconds is not a whole number: \"\""),
        ("@5", "line 1: \"\" is none of put, get, delete, scan"),
        ("get a b", "line 1: \"b\" is too much"),
        ("get 0x", "line 1: the key is empty, which not all engines take"),
        ("0x 6 0 0 1", "line 1: the key is empty, which not all engines take"),
        ("get 0xabc", "line 1: the key 0xabc is not hexadecimal"),
        ("get 0xzz", "line 1: the key 0xzz is not hexadecimal"),
        ("0x6b 5 0 4 1", "line 1: merges (type 5) cannot be replayed"),
        ("0x6b 9 0 4 1", "line 1: there is no type 9"),
        ("0x6b 1 0 4", "line 1: the time is missing"),
        ("0x6b 1 0 4 1 1", "line 1: \"1\" is too much"),
    ] {
        assert_eq!(all(text).unwrap_err(), complaint, "{text}");
    }
    assert!(all(&format!("get {}", "a".repeat(65_535))).is_ok());
    assert_eq!(all(&format!("get {}", "a".repeat(65_536))).unwrap_err(), "line 1: the key is longer than 65535 bytes");
    assert!(all(&"x".repeat(MAX_LINE + 1)).unwrap_err().contains("longer than"));
    assert!(Trace::new(&b"get \xff\xfe"[..]).advance().is_err(), "not text");
}

#[test]
fn the_contents_are_known_before() {
    let contents = Contents::of(&b"@1 put a 7\n#\nget b\n0x6b 1 3 9 4\nget c\n"[..]).unwrap();
    assert_eq!(contents, Contents { operations: 4, largest_value: 9, largest_family: 3, first_without_time: Some(3) });
}
