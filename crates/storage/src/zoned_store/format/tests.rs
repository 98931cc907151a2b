//! The layout that `docs/engine/format.md` describes, and that no byte of it can change unnoticed.

use super::*;

const VOLUME: VolumeId = VolumeId(*b"0123456789abcdef");

fn metadata() -> (MetadataHead, Vec<u8>) {
    let head = MetadataHead { volume: VOLUME, region: 1, kind: Kind::Edits, generation: 7, sequence: 9, durable: 1024, length: 5 };
    (head, head.frame(2048, b"edits", 512))
}

#[test]
fn a_frame_of_metadata_is_as_described() {
    let (head, frame) = metadata();
    assert_eq!(frame.len(), 512);
    assert_eq!(&frame[..8], b"SINTRZMD");
    assert_eq!(frame[16..24], [5, 0, 0, 0, 2, 1, 1, 0]);
    assert_eq!((frame[24..32].to_vec(), frame[32..40].to_vec()), (9u64.to_le_bytes().to_vec(), 1024u64.to_le_bytes().to_vec()));
    assert_eq!((&frame[40..56], &frame[56..64]), (&VOLUME.0[..], &7u64.to_le_bytes()[..]));
    assert_eq!(&frame[64..69], b"edits");
    assert!(frame[69..].iter().all(|byte| *byte == 0));
    assert_eq!(MetadataHead::peek(&frame), Some(head));
    assert!(head.verify(2048, &frame[..69]) && !head.verify(2560, &frame[..69]), "it is bound to its place");
    assert_eq!(MetadataHead::peek(&frame[..63]), None);
}

#[test]
fn every_flipped_bit_of_a_frame_is_seen() {
    let (_, frame) = metadata();
    for bit in 0..69 * 8 {
        let mut bytes = frame.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let good = MetadataHead::peek(&bytes).is_some_and(|head| head.length == 5 && head.verify(2048, &bytes[..69]));
        assert!(!good, "bit {bit} of a frame of metadata");
    }
    let salt = Salt::new(VOLUME, 3, 4);
    let head = DataHead { file: FileId::log(11), offset: 100, synced: 50, length: 4 };
    let mut frame = Vec::new();
    head.frame(salt, 1024, b"data", 512, &mut frame);
    let whole = |bytes: &[u8], salt: Salt, at: u64| {
        DataHead::decode(salt, at, bytes).is_some_and(|(head, check)| head.length == 4 && check == salt.checksum(at + 64, &bytes[64..68]))
    };
    assert!(whole(&frame, salt, 1024));
    for bit in 0..68 * 8 {
        let mut bytes = frame.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!whole(&bytes, salt, 1024), "bit {bit} of a frame of a log");
    }
    let others = [Salt::new(VOLUME, 4, 4), Salt::new(VOLUME, 3, 5), Salt::new(VolumeId([0; 16]), 3, 4)];
    for (other, at) in others.map(|other| (other, 1024)).into_iter().chain([(salt, 1536)]) {
        assert!(!whole(&frame, other, at), "a frame in the wrong place");
    }
}

/// With its length alone damaged, a frame looks like one of which the end is missing.
#[test]
fn a_wrong_length_is_told_from_a_cut() {
    for length in [5, 447, 448, 449, 1000] {
        let head = MetadataHead { length, ..metadata().0 };
        let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let frame = head.frame(2048, &payload, 512);
        for bit in 0..32 {
            let wrong = MetadataHead { length: length ^ 1 << bit, ..head };
            let mut bytes = frame.clone();
            bytes[16..20].copy_from_slice(&wrong.length.to_le_bytes());
            assert!(wrong.verify_shorter(2048, bytes, 512), "bit {bit} of {length}");
        }
        for blocks in 1..frame.len() / 512 {
            assert!(!head.verify_shorter(2048, frame[..blocks * 512].to_vec(), 512), "{blocks} blocks of {length} bytes");
        }
    }
}

#[test]
fn a_frame_of_a_log_is_as_described() {
    let salt = Salt::new(VOLUME, 3, 4);
    let head = DataHead { file: FileId::log(11), offset: 100, synced: 50, length: 4 };
    let mut frame = Vec::new();
    head.frame(salt, 1024, b"data", 512, &mut frame);
    assert_eq!((frame.len(), &frame[..8], &frame[24..32]), (512, &b"SINTRZFR"[..], &[4, 0, 0, 0, 0, 0, 0, 1][..]));
    let numbers: Vec<u64> = frame[32..64].chunks(8).map(|bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap())).collect();
    assert_eq!(numbers, [11, 100, 50, 0]);
    assert_eq!(&frame[64..68], b"data");
    assert_eq!(DataHead::decode(salt, 1024, &frame).map(|(head, _)| head), Some(head));
}

#[test]
fn edits_are_as_described_and_nothing_else_is_one() {
    let about = About { lifetime: 3, level: 2, family: 5, born: 6, death: 7, keys: Some((b"a".to_vec(), vec![b'z'; 20])) };
    let place = FileLocation { sealed: true, length: 8, ranges: vec![Range { zone: 9, at: 512, len: 10 }] };
    let edits = [
        Edit::Create { id: FileId::table(4), about },
        Edit::Delete { id: FileId::log(4) },
        Edit::Lies { id: FileId::manifest(4), place },
        Edit::Zone { zone: 1, note: ZoneNote { resets: 2, lifetime: 5, level: 6, framed: false } },
        Edit::Zone { zone: 1, note: ZoneNote { resets: 2, lifetime: 5, level: 6, framed: true } },
    ];
    let encoded = edits.each_ref().map(|edit| {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        bytes
    });
    assert_eq!(encoded.each_ref().map(Vec::len), [52, 10, 43, 15, 15]);
    assert_eq!(encoded[0][..12], [1, 2, 4, 0, 0, 0, 0, 0, 0, 0, 3, 2]);
    assert_eq!(encoded[0][32..36], [1, 1, b'a', 16], "keys are cut to 16 bytes");
    assert_eq!(encoded[2][..11], [3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(encoded[4], [5, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 6]);
    assert_eq!(encoded[3], [4, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 6]);
    for (edit, bytes) in edits.iter().zip(&encoded).skip(1) {
        assert_eq!(Edit::decode(&mut Input(bytes)).as_ref(), Some(edit));
    }
    for bytes in &encoded {
        for cut in 0..bytes.len() {
            assert_eq!(Edit::decode(&mut Input(&bytes[..cut])), None, "cut at {cut}");
        }
    }
    for wrong in [&[0][..], &[6], &[2, 9, 0, 0, 0, 0, 0, 0, 0, 0], &[]] {
        assert_eq!(Edit::decode(&mut Input(wrong)), None);
    }
}
