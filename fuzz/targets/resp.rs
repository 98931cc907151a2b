//! Requests: any bytes, however cut into reads, give the same requests and the same error, and only arguments that are in them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_server::resp::{Limits, Parser, ProtocolError};
use sinterdb_fuzz::{Input, seed};

type Found = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds the bytes in pieces of at most `piece`.
fn parse(bytes: &[u8], piece: usize, limits: Limits) -> Found {
    let mut parser = Parser::new(limits);
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + piece.max(1));
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

fn seeds() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 7] = [
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n\0\xff\r\n",
        b"PING\r\nset a \"b\\x41 c\" 'd\\''\r\n",
        b"*0\r\n*-1\r\n\r\n",
        b"*1\r\n$536870912\r\n",
        b"*2147483647\r\n$1\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n",
    ];
    requests.iter().map(|request| [&[0, 3][..], request].concat()).collect()
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    let limits = Limits { strict: input.byte() & 1 == 1, bulk_max: 1 << 20, ..Limits::default() };
    let piece = usize::from(input.byte());
    let whole = parse(input.0, input.0.len(), limits);
    assert_eq!(parse(input.0, piece, limits), whole, "pieces of {piece}");
    let bytes: usize = whole.0.iter().flatten().map(Vec::len).sum();
    assert!(bytes <= input.0.len(), "more than there was");
});
