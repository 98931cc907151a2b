//! Logs: any bytes are read without a panic, and a log that was written and then damaged gives a prefix of its
//! records, all synced ones, or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_storage::store::{Cause, FileId, Hint, MemoryStore};
use sinterdb::internal::checksum::DbId;
use sinterdb::internal::wal::{LogWriter, parse_log};
use sinterdb::{Error, Result};
use sinterdb_fuzz::{Input, put_piece, seed};

const DB: DbId = DbId([7; 16]);
const ID: FileId = FileId { kind: sinter_storage::store::FileKind::Log, number: 1 };

/// Payloads, and whether a sync follows each.
type Plan<'a> = Vec<(&'a [u8], bool)>;

fn write(plan: &Plan) -> Result<Vec<u8>> {
    let store = MemoryStore::new();
    let mut log = LogWriter::create(&store, DB, ID, &Hint::new(Cause::Wal), b"extra")?;
    for (payload, sync) in plan {
        log.append(payload)?;
        if *sync {
            log.sync()?;
        }
    }
    Ok(store.bytes(ID)?)
}

fn damaged(mut input: Input) {
    let plan: Plan = (0..input.byte() % 12).map(|_| (input.byte(), input.piece())).map(|(flags, piece)| (piece, flags & 1 == 1)).collect();
    // An empty payload is a marker, which only the writer itself makes.
    let plan: Plan = plan.into_iter().filter(|(payload, _)| !payload.is_empty()).collect();
    let Ok(mut bytes) = write(&plan) else { return };
    let whole = parse_log(bytes.clone(), Some(DB), ID).expect("an undamaged log");
    assert!(whole.records().map(|r| r.1).eq(plan.iter().map(|p| p.0)), "an undamaged log loses records");
    let synced = plan.iter().rposition(|p| p.1).map_or(0, |last| last + 1);
    if input.byte() & 1 == 1 {
        bytes.truncate(input.below(bytes.len() + 1));
    }
    let mut below_the_end = whole.end.good as usize != bytes.len();
    for _ in 0..input.byte() % 4 {
        let at = input.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            let change = input.byte();
            below_the_end |= change != 0;
            *byte ^= change;
        }
    }
    match parse_log(bytes, Some(DB), ID) {
        Ok(log) => {
            let found: Vec<&[u8]> = log.records().map(|r| r.1).collect();
            assert!(found.len() <= plan.len() && found.iter().zip(&plan).all(|(f, p)| *f == p.0), "records that were never written");
            assert!(below_the_end || found.len() >= synced, "synced records are gone");
        }
        Err(Error::Corrupt { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut written = vec![0];
    written.extend(write(&vec![(b"first", false), (b"second", true), (b"third", false)]).expect("a log"));
    let mut plan = vec![1, 3];
    for payload in [&b"first"[..], &[9; 300], b"third"] {
        plan.push(payload.len() as u8 & 1);
        put_piece(&mut plan, payload);
    }
    plan.extend_from_slice(&[1, 0, 90, 1, 0, 50, 3]);
    vec![written, plan]
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    if input.byte() & 1 == 1 {
        return damaged(input);
    }
    for db in [None, Some(DB)] {
        match parse_log(input.0.to_vec(), db, ID) {
            Ok(log) => assert!(log.records().count() as u64 <= log.end.good),
            Err(Error::Corrupt { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
});
