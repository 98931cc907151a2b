//! The parser against every split point, against a plain model of the protocol, and against hostile input.

use super::{Coming, Limits, Parser, ProtocolError, request};
use crate::testing::Random;

/// Bytes and the requests in them.
type Understood<'a> = (&'a [u8], &'a [&'a [&'a [u8]]]);
type Requests = Vec<Vec<Vec<u8>>>;

/// Feeds `bytes` in pieces that end at `cuts`, as a connection would, and gives what was understood before the error, if there was one.
fn parse(bytes: &[u8], cuts: &[usize], limits: Limits) -> (Requests, Option<ProtocolError>) {
    let mut parser = Parser::new(limits);
    let mut requests = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        loop {
            match parser.feed(&bytes[start..end]) {
                Ok(Some(taken)) => {
                    assert!(taken <= end - start, "a request of bytes that are not there");
                    requests.push(parser.arguments(&bytes[start..end]).map(<[u8]>::to_vec).collect());
                    parser.next_request();
                    start += taken;
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn whole(bytes: &[u8]) -> (Requests, Option<ProtocolError>) {
    parse(bytes, &[], Limits::default())
}

#[test]
fn requests_and_their_errors() {
    let none: Requests = Vec::new();
    let good: [Understood; 6] = [
        (b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]]),
        (b"*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n", &[&[b"", b"\r\n"]]),
        (b"*0\r\n*-1\r\n\r\n\nPING\n", &[&[], &[], &[], &[], &[b"PING"]]),
        (b"PING\r\nset a \"b c\"\r\n", &[&[b"PING"], &[b"set", b"a", b"b c"]]),
        (b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$1\r\nx\r\n", &[&[b"PING"], &[b"PING"], &[b"x"]]),
        (b"*1\r\n$4\r\nPIN", &[]),
    ];
    for (bytes, expected) in good {
        let expected: Requests = expected.iter().map(|words| words.iter().map(|word| word.to_vec()).collect()).collect();
        assert_eq!(whole(bytes), (expected, None), "{:?}", String::from_utf8_lossy(bytes));
    }
    let long = [b'x'; (64 << 10) + 1];
    let bad: [(&[u8], ProtocolError); 21] = [
        (b"*x\r\n", ProtocolError::InvalidCount),
        (b"*1\n", ProtocolError::InvalidCount),
        (b"*\r\n", ProtocolError::InvalidCount),
        (b"*+1\r\n", ProtocolError::InvalidCount),
        (b"*3000000000\r\n", ProtocolError::InvalidCount),
        (b"*1048577\r\n", ProtocolError::InvalidCount),
        (b"*99999999999999999999\r\n", ProtocolError::InvalidCount),
        (b"*1\r\n*1\r\n", ProtocolError::ExpectedBulk(b'*')),
        (b"*1\r\n:1\r\n", ProtocolError::ExpectedBulk(b':')),
        (b"*1\r\n\r\n", ProtocolError::ExpectedBulk(b'\r')),
        (b"*1\r\n$-1\r\n", ProtocolError::InvalidLength),
        (b"*1\r\n$x\r\n", ProtocolError::InvalidLength),
        (b"*1\r\n$536870913\r\n", ProtocolError::InvalidLength),
        (b"*1\r\n$9223372036854775807\r\n", ProtocolError::InvalidLength),
        (b"*1\r\n$1\r\nabc\r\n", ProtocolError::InvalidLength),
        (b"set a \"b\r\n", ProtocolError::UnbalancedQuotes),
        (&long, ProtocolError::InlineTooLong),
        (b"\x16\x03\x01\x02\x00", ProtocolError::Foreign),
        (b"POST / HTTP/1.1\r\n", ProtocolError::Foreign),
        (b"Host: example.org\r\n", ProtocolError::Foreign),
        (b"GET /index HTTP/1.0\r\nset a b\r\n", ProtocolError::Foreign),
    ];
    for (bytes, error) in bad {
        assert_eq!(whole(bytes), (none.clone(), Some(error)), "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
    }
    for (mark, error) in [(&b"*"[..], ProtocolError::CountLineTooLong), (b"*1\r\n$", ProtocolError::LengthLineTooLong)] {
        assert_eq!(whole(&[mark, &[b'1'; (64 << 10) + 1]].concat()), (none.clone(), Some(error)));
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    let text = |error: ProtocolError| error.message().map(|text| String::from_utf8_lossy(&text).into_owned());
    assert_eq!(text(ProtocolError::ExpectedBulk(b'*')).as_deref(), Some("Protocol error: expected '$', got '*'"));
    assert_eq!(text(ProtocolError::InvalidCount).as_deref(), Some("Protocol error: invalid multibulk length"));
    assert_eq!(text(ProtocolError::UnbalancedQuotes).as_deref(), Some("Protocol error: unbalanced quotes in request"));
    assert_eq!(text(ProtocolError::Foreign), None);
}

#[test]
fn other_protocols_are_closed() {
    for line in [
        "GET / HTTP/1.1",
        "HEAD / HTTP/1.0",
        "PUT /x HTTP/1.1",
        "DELETE /x HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT a:80 HTTP/1.1",
        "TRACE / HTTP/1.1",
        "PATCH / HTTP/1.1",
        "PRI * HTTP/2.0",
        "post x",
        "POST",
        "host: x",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2",
        "PROXY UNKNOWN",
    ] {
        assert_eq!(whole(format!("{line}\r\n").as_bytes()).1, Some(ProtocolError::Foreign), "{line}");
    }
    for line in ["get HTTP", "set a HTTP/", "set PROXY TCP", "hostile x"] {
        let is_fine = whole(format!("{line}\r\n").as_bytes()).1.is_none();
        assert_eq!(is_fine, !line.ends_with("HTTP/"), "{line}");
    }
}

#[test]
fn before_authentication_limits_are_strict() {
    let strict = Limits { strict: true, ..Limits::default() };
    let alone = |bytes: &[u8]| parse(bytes, &[], strict).1;
    assert_eq!(alone(b"*10\r\n"), None);
    assert_eq!(alone(b"*11\r\n"), Some(ProtocolError::UnauthenticatedCount));
    assert_eq!(alone(b"*1\r\n$16384\r\n"), None);
    assert_eq!(alone(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedLength));
    assert_eq!(alone(b"1 2 3 4 5 6 7 8 9 10\r\n"), None);
    assert_eq!(alone(b"1 2 3 4 5 6 7 8 9 10 11\r\n"), Some(ProtocolError::UnauthenticatedCount));
}

#[test]
fn no_memory_is_taken_for_bytes_that_are_not_there() {
    let mut parser = Parser::default();
    assert_eq!(parser.feed(b"*1048576\r\n$536870912\r\n"), Ok(None));
    assert_eq!((parser.spans_capacity(), parser.words_capacity()), (0, 0));
}

/// Valid requests of both kinds, and sometimes bytes that are none.
fn stream(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + random.below(4) {
        match random.below(6) {
            0 => out.extend_from_slice(b"PING\r\n"),
            1 => {
                out.extend(random.bytes(12, b"ab \"'\\x4\tn"));
                out.push(b'\n');
            }
            2 => out.extend(random.bytes(9, b"*$12-\r\n\0x")),
            _ => {
                let words: Vec<Vec<u8>> = (0..random.below(4)).map(|_| random.bytes(9, b"ab\r\n$*\0\xff")).collect();
                out.extend(request(&words));
            }
        }
    }
    out
}

/// However the bytes are cut, the same requests and the same error come out.
#[test]
fn every_split_gives_the_same() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let bytes = stream(&mut random);
        let limits = Limits { strict: seed % 4 == 0, bulk_max: 8, ..Limits::default() };
        let expected = parse(&bytes, &[], limits);
        for cut in 0..=bytes.len() {
            assert_eq!(parse(&bytes, &[cut], limits), expected, "seed {seed}, cut at {cut}: {bytes:?}");
        }
        let single: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(parse(&bytes, &single, limits), expected, "seed {seed}, byte by byte: {bytes:?}");
    }
}

/// Looking ahead finds the requests that the parser finds, and never more than there are.
#[test]
fn requests_are_seen_ahead_as_they_are() {
    let mut seen = 0;
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let bytes = stream(&mut random);
        let (requests, _) = whole(&bytes);
        let mut parsed = requests.iter();
        for (key, end) in Coming::of(&bytes) {
            let words = parsed.next().expect("a request");
            assert_eq!(words.get(1).map(Vec::as_slice), Some(key), "seed {seed}");
            assert_eq!(whole(&bytes[..end]).0.len(), requests.len() - parsed.len(), "seed {seed}");
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen}");
    let three = request(&["set", "key", "value"]);
    let (key, end) = Coming::of(&three).next().unwrap();
    assert_eq!((key, end), (&b"key"[..], three.len()));
    assert!((0..three.len()).all(|end| Coming::of(&three[..end]).next().is_none()));
    // A request that runs a script has its keys elsewhere.
    let requests: [(&[&[u8]], &[u8]); 5] = [
        (&[b"EVALSHA", b"digest", b"2", b"first", b"second", b"argument"], b"first"),
        (&[b"eval", &[b' '; 2000], b"1", b"first"], b"first"),
        (&[b"FCALL_RO", b"function", b"0", b"argument"], b""),
        (&[b"fcall", b"function", b"0"], b""),
        (&[b"exists", b"key", b"1", b"x"], b"key"),
    ];
    for (words, expected) in requests {
        let bytes = request(words);
        assert_eq!(Coming::of(&bytes).next(), Some((expected, bytes.len())));
    }
    let long = request::<&[u8]>(&[b"get", &[b'k'; 1025]]);
    assert!(Coming::of(&long).next().is_none() && whole(&long).0.len() == 1);
    // Requests that take long to go through are left to the parser.
    assert!(Coming::of(&request(&["x"; 17])).next().is_none() && Coming::of(&request(&["x"])).next().is_none());
    for hostile in ["*2\r\n$9999999999\r\n", "*2\r\n$-1\r\n", "*-2\r\n", "*99999999999999999999\r\n", "*2\r", "*2\r\n$1\rab$1\r\nk\r\n"] {
        assert!(Coming::of(hostile.as_bytes()).next().is_none(), "{hostile}");
    }
}

/// Requests that were written are read back unchanged.
#[test]
fn requests_read_back_as_they_were_written() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let expected: Requests =
            (0..random.below(5)).map(|_| (0..random.below(5)).map(|_| random.bytes(40, b"\0\r\n *$x\xff")).collect()).collect();
        let bytes: Vec<u8> = expected.iter().flat_map(|words| request(words)).collect();
        let cut = random.below(bytes.len());
        assert_eq!(parse(&bytes, &[cut], Limits::default()), (expected, None), "seed {seed}");
    }
}

/// A large request that comes in small pieces costs no more than its bytes: the parser goes on where it stopped.
#[test]
fn bytes_are_looked_at_once() {
    let word = vec![b'x'; 1000];
    let bytes = request(&vec![word; 1000]);
    let mut parser = Parser::default();
    for end in 0..bytes.len() {
        // A quadratic parser would take 500 gigabytes of looks for these calls.
        assert_eq!(parser.feed(&bytes[..end]), Ok(None));
    }
    assert_eq!(parser.feed(&bytes), Ok(Some(bytes.len())));
    assert_eq!(parser.len(), 1000);
}

/// Bytes of a long argument that are taken out as they come, at every split point: the request around it and those behind it are what
/// they were, and the bytes are all there.
#[test]
fn a_diverted_argument_may_be_cut_anywhere() {
    let long = b"0123456789\r\n$3\r\n";
    let bytes = [request::<&[u8]>(&[b"SET", b"k", long, b"NX"]), request(&["PING"])].concat();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let (mut parser, mut input, mut value, mut requests) = (Parser::default(), Vec::new(), Vec::new(), Vec::new());
            for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                input.extend_from_slice(part);
                loop {
                    match parser.feed(&input).unwrap() {
                        Some(taken) => {
                            requests.push(parser.arguments(&input).map(<[u8]>::to_vec).collect::<Vec<_>>());
                            parser.next_request();
                            input.drain(..taken);
                        }
                        None => {
                            if parser.incoming().is_some_and(|(number, length)| number == 2 && length == long.len()) {
                                assert_eq!(parser.arguments(&input).last(), Some(&b"k"[..]));
                                parser.divert();
                            }
                            let Some(come) = parser.diverted(input.len()).filter(|come| !come.is_empty()) else { break };
                            value.extend(input.drain(come));
                        }
                    }
                }
            }
            let is_diverted = !value.is_empty();
            let cuts_it = [first, second].iter().any(|cut| (25..43).contains(cut));
            assert_eq!(is_diverted, cuts_it, "{first} {second}");
            let expected = if is_diverted { &b""[..] } else { long };
            assert_eq!(requests[0], [&b"SET"[..], b"k", expected, b"NX"]);
            assert_eq!(requests[1..], [[b"PING".to_vec()]]);
            assert!(!is_diverted || value == long);
        }
    }
    let mut parser = Parser::default();
    let wrong = b"*2\r\n$3\r\nGET\r\n$2\r\nabXY";
    assert_eq!(parser.feed(&wrong[..15]), Ok(None));
    parser.divert();
    assert_eq!(parser.diverted(15), None, "the length is not known yet");
    assert_eq!(parser.feed(&wrong[..17]), Ok(None));
    parser.divert();
    assert_eq!(parser.diverted(19), Some(17..19));
    assert_eq!(parser.feed(b"*2\r\n$3\r\nGET\r\n$2\r\nXY"), Err(ProtocolError::InvalidLength));
}
