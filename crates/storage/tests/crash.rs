//! Bytes and names that the crashable store keeps and loses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_storage::store::{Appender, Cause, CrashMode, Fate, FileId, Hint, MemoryStore, Store, Tail, Unsynced};
use std::collections::BTreeSet;

const LOG: FileId = FileId { kind: sinter_storage::store::FileKind::Log, number: 1 };

fn create(store: &MemoryStore, id: FileId) -> Box<dyn Appender> {
    store.create(id, &Hint::new(Cause::Wal)).unwrap()
}

/// A file with a durable name, `synced` durable and `loose` appended after.
fn half_synced(store: &MemoryStore, synced: &[u8], loose: &[&[u8]]) -> Box<dyn Appender> {
    let mut file = create(store, LOG);
    file.append(synced).unwrap();
    file.sync().unwrap();
    store.sync_names().unwrap();
    for bytes in loose {
        file.append(bytes).unwrap();
    }
    file
}

fn there(store: &MemoryStore, id: FileId) -> bool {
    store.bytes(id).is_ok()
}

/// A fate with one answer for each kind of question.
struct Fixed {
    state: usize,
    tail: Tail,
}

impl Fate for Fixed {
    fn name(&mut self, _file: FileId, _states: usize) -> usize {
        self.state
    }

    fn tail(&mut self, _unsynced: &Unsynced<'_>) -> Tail {
        self.tail.clone()
    }
}

#[test]
fn unsynced_bytes_go_and_synced_ones_stay() {
    let store = MemoryStore::new();
    let mut file = half_synced(&store, b"synced", &[b" and", b" not"]);
    assert_eq!(store.bytes(LOG).unwrap(), b"synced and not");
    assert_eq!(store.crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap(), b"synced");
    assert_eq!(store.crash_with(CrashMode::KeepAll).bytes(LOG).unwrap(), b"synced and not");
    assert_eq!(store.bytes(LOG).unwrap(), b"synced and not", "the crash happens to the image only");
    file.append(b", later").unwrap();
    file.seal().unwrap();
    for seed in 0..100 {
        assert_eq!(store.crash_with(seed).bytes(LOG).unwrap(), b"synced and not, later", "sealed is synced; seed {seed}");
    }
}

#[test]
fn names_that_were_not_synced_may_be_lost_or_come_back() {
    let store = MemoryStore::new();
    let (old, new, brief) = (FileId::table(1), FileId::table(2), FileId::table(3));
    create(&store, old).seal().unwrap();
    store.sync_names().unwrap();
    for id in [new, brief] {
        let mut file = create(&store, id);
        file.append(b"all of it synced").unwrap();
        file.seal().unwrap();
    }
    store.delete(old).unwrap();
    store.delete(brief).unwrap();

    let dropped = store.crash_with(CrashMode::DropUnsynced);
    assert_eq!((there(&dropped, old), there(&dropped, new), there(&dropped, brief)), (true, false, false));
    let kept = store.crash_with(CrashMode::KeepAll);
    assert_eq!((there(&kept, old), there(&kept, new), there(&kept, brief)), (false, true, false));
    let between = store.crash(&mut Fixed { state: 1, tail: Tail::default() });
    assert_eq!(between.bytes(brief).unwrap(), b"all of it synced", "made, and its removal lost");

    let seen: BTreeSet<_> = (0..300)
        .map(|seed| {
            let image = store.crash_with(seed);
            (there(&image, old), there(&image, new), there(&image, brief))
        })
        .collect();
    assert_eq!(seen.len(), 8, "each name survives independently of the others");

    store.sync_names().unwrap();
    for seed in 0..100 {
        let image = store.crash_with(seed);
        assert_eq!((there(&image, old), there(&image, new), there(&image, brief)), (false, true, false), "seed {seed}");
    }
}

#[test]
fn a_deleted_file_comes_back_with_its_synced_bytes() {
    let store = MemoryStore::new();
    let file = half_synced(&store, b"synced", &[b"loose"]);
    drop(file);
    store.delete(LOG).unwrap();
    assert!(!there(&store, LOG));
    let image = store.crash_with(CrashMode::DropUnsynced);
    assert_eq!(image.bytes(LOG).unwrap(), b"synced");
    for seed in 0..200 {
        let image = store.crash_with(seed);
        if let Ok(bytes) = image.bytes(LOG) {
            assert!(bytes.starts_with(b"synced"), "seed {seed}");
        }
    }
}

#[test]
fn the_chosen_tail_is_what_is_found() {
    let store = MemoryStore::new();
    let _file = half_synced(&store, b"SSS", &[b"abcde", b"fghij"]);
    let found = |tail: Tail| store.crash(&mut Fixed { state: 0, tail }).bytes(LOG).unwrap();
    assert_eq!(found(Tail::prefix(0)), b"SSS");
    assert_eq!(found(Tail::prefix(7)), b"SSSabcdefg");
    assert_eq!(found(Tail::prefix(10)), b"SSSabcdefghij");
    assert_eq!(found(Tail::prefix(12)), b"SSSabcdefghij\0\0", "longer than was written");
    let holes = |length, lost: &[std::ops::Range<u64>]| Tail { length, lost: lost.to_vec(), junk: None };
    assert_eq!(found(holes(10, &[0..5, 9..99])), b"SSS\0\0\0\0\0fghi\0");
    assert_eq!(found(holes(12, &[2..3, 4..10])), b"SSSab\0d\0\0\0\0\0\0\0\0");
    assert_eq!(found(holes(4, &[6..9, 1..2])), b"SSSa\0cd");
    let junk = found(Tail { length: 64, lost: vec![2..9, 9..10], junk: Some(1) });
    assert_eq!((&junk[..5], junk.len()), (&b"SSSab"[..], 67));
    assert!(junk[13..].iter().any(|b| *b != 0) && junk[5..13] != *b"cdefghij");
    assert_eq!(junk, found(Tail { length: 64, lost: vec![2..9, 9..10], junk: Some(1) }), "junk has a seed");
}

/// After a crash, pages of a log with zeros ahead of it hold the written bytes or the durable ones before: synced bytes and zeros.
#[test]
fn pages_of_a_mapped_log_are_lost_in_any_order() {
    const PAGE: usize = 4096;
    let store = MemoryStore::new();
    store.set_ahead(16384);
    let _file = half_synced(&store, &[7; 5000], &[&[8; 3000], &[9; 4000], &[10; 8000]]);
    let whole = store.bytes(LOG).unwrap();
    assert_eq!((whole.len(), whole[20_000..].iter().all(|byte| *byte == 0)), (2 * 16384, true), "readers see the zeros");
    assert_eq!(store.clone_image().bytes(LOG).unwrap(), whole);
    assert_eq!(store.crash_with(CrashMode::KeepAll).bytes(LOG).unwrap(), whole);
    let dropped = store.crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap();
    assert_eq!(dropped, [&[7u8; 5000][..], &[0; 11384]].concat(), "the zeros were synced as well");
    let (mut islands, mut lengths) = (0, BTreeSet::new());
    for seed in 0..2000u64 {
        let bytes = store.crash_with(seed).bytes(LOG).unwrap();
        assert!(bytes.starts_with(&[7; 5000]) && bytes.len() >= 16384, "seed {seed}");
        assert!(bytes[..16384].iter().zip(&whole).all(|(found, written)| found == written || *found == 0), "seed {seed}: junk in zeros");
        let lost = |page: usize| bytes[page * PAGE..][..PAGE].iter().skip(5000usize.saturating_sub(page * PAGE)).all(|byte| *byte == 0);
        islands += usize::from(lost(2) && bytes[3 * PAGE..][..PAGE] == whole[3 * PAGE..][..PAGE]);
        lengths.insert(bytes.len());
    }
    assert!(islands > 20, "a page without the one before came up {islands} times");
    assert!(lengths.contains(&16384) && lengths.contains(&whole.len()) && lengths.len() > 20, "{lengths:?}");

    let store = MemoryStore::new();
    store.set_ahead(4096);
    store.set_capacity(Some(5000));
    let mut file = create(&store, LOG);
    file.append(&[1; 4000]).unwrap();
    assert_eq!(store.free_bytes().unwrap(), Some(904));
    file.append(&[2; 900]).unwrap();
    assert_eq!(store.free_bytes().unwrap(), Some(100), "where zeros find no space, none are kept");
    assert!(file.append(&[3; 200]).unwrap_err().is_no_space());
    let mut table = store.create(FileId::table(2), &Hint::new(Cause::Flush)).unwrap();
    store.set_capacity(None);
    table.append(b"abc").unwrap();
    assert_eq!(store.bytes(FileId::table(2)).unwrap(), b"abc");
    let mut sealed = create(&store, FileId::log(3));
    sealed.append(b"abc").unwrap();
    sealed.seal().unwrap();
    assert_eq!(store.crash_with(CrashMode::DropUnsynced).list().unwrap().len(), 0);
    assert_eq!(store.bytes(FileId::log(3)).unwrap(), b"abc");
}

#[test]
fn random_crashes_are_legal_repeatable_and_of_all_kinds() {
    let store = MemoryStore::new();
    let synced = vec![7u8; 5000];
    let loose: Vec<Vec<u8>> = (1..=9u8).map(|i| vec![i; 700 * usize::from(i)]).collect();
    let _file = half_synced(&store, &synced, &loose.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let whole = store.bytes(LOG).unwrap();
    let (mut none, mut all, mut torn, mut zeros, mut junk, mut padded) = (0, 0, 0, 0, 0, 0);
    for seed in 0..2000u64 {
        let image = store.crash_with(seed);
        let bytes = image.bytes(LOG).unwrap();
        assert_eq!(bytes, store.crash_with(seed).bytes(LOG).unwrap(), "seed {seed} repeats");
        assert!(bytes.starts_with(&synced), "seed {seed}: synced bytes stay");
        assert!(bytes.len() <= whole.len().next_multiple_of(4096), "seed {seed}");
        let differing = bytes.iter().zip(&whole).filter(|(a, b)| a != b);
        let (wrong, zeroed) = differing.fold((0, 0), |(n, z), (a, _)| (n + 1, z + usize::from(*a == 0)));
        none += usize::from(bytes.len() == synced.len());
        all += usize::from(bytes == whole);
        torn += usize::from(wrong == 0 && bytes.len() < whole.len() && bytes.len() > synced.len());
        zeros += usize::from(wrong > 0 && wrong == zeroed);
        junk += usize::from(wrong > zeroed);
        padded += usize::from(bytes.len() > whole.len());
        assert_eq!(image.crash_with(seed + 1).bytes(LOG).unwrap(), bytes, "what a crash left is durable");
    }
    for (kind, count) in [("none", none), ("all", all), ("torn", torn), ("zeros", zeros), ("junk", junk), ("padded", padded)] {
        assert!(count > 40, "{kind} came up {count} times in 2000 seeds");
    }
}

#[test]
fn an_image_keeps_what_is_pending_and_goes_its_own_way() {
    let store = MemoryStore::new();
    let mut file = half_synced(&store, b"synced", &[b" loose"]);
    let lock = store.lock().unwrap();
    create(&store, FileId::table(2)).seal().unwrap();
    let image = store.clone_image();
    image.lock().unwrap();
    drop(lock);
    file.append(b" later").unwrap();
    file.sync().unwrap();
    store.sync_names().unwrap();
    assert_eq!(image.bytes(LOG).unwrap(), b"synced loose");
    let crashed = image.crash_with(CrashMode::DropUnsynced);
    assert_eq!(crashed.bytes(LOG).unwrap(), b"synced");
    assert!(there(&image, FileId::table(2)) && !there(&crashed, FileId::table(2)));
    assert_eq!(store.crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap(), b"synced loose later");

    image.delete(LOG).unwrap();
    assert_eq!(image.clone_image().crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap(), b"synced");
}

#[test]
fn images_of_large_files_share_their_bytes() {
    let store = MemoryStore::new();
    let big = vec![1u8; 10 << 20];
    let _file = half_synced(&store, &big, &[b"x"]);
    // 2,000 copies of 10 MiB would be 20 GB.
    let images: Vec<_> = (0..2000).map(|seed| store.crash_with(seed)).collect();
    images[0].corrupt(LOG, 5, |byte| *byte = 9).unwrap();
    assert_eq!(images[0].bytes(LOG).unwrap()[5], 9);
    assert_eq!(images[1].bytes(LOG).unwrap()[5], 1, "a change stays in its image");
    assert_eq!(store.bytes(LOG).unwrap()[5], 1);
}

#[test]
fn damage_can_be_done() {
    let store = MemoryStore::new();
    drop(half_synced(&store, b"abc", &[b"def"]));
    let reader = store.open(LOG).unwrap();
    store.corrupt(LOG, 1, |byte| *byte ^= 1).unwrap();
    let mut buffer = [0; 6];
    reader.read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"accdef", "below an open reader");
    assert!(store.corrupt(LOG, 6, |_| ()).is_err());
    assert!(store.corrupt(FileId::log(9), 0, |_| ()).unwrap_err().is_not_found());

    store.replace(LOG, b"other".to_vec());
    store.replace(FileId::table(5), Vec::new());
    reader.read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"accdef", "an open reader keeps the file it has");
    let image = store.crash_with(CrashMode::DropUnsynced);
    assert_eq!(image.bytes(LOG).unwrap(), b"other");
    assert_eq!(image.bytes(FileId::table(5)).unwrap(), b"");
    store.remove(LOG).unwrap();
    assert!(!there(&store.crash_with(CrashMode::DropUnsynced), LOG));
    assert!(store.remove(LOG).unwrap_err().is_not_found());
}

#[test]
fn a_full_store_tears_the_append_and_ends_the_appender() {
    let store = MemoryStore::new();
    assert_eq!(store.free_bytes().unwrap(), None);
    store.set_capacity(Some(10));
    let mut file = create(&store, LOG);
    file.append(b"1234567").unwrap();
    file.sync().unwrap();
    store.sync_names().unwrap();
    assert_eq!(store.free_bytes().unwrap(), Some(3));
    let error = file.append(b"89abcdef").unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert_eq!(store.bytes(LOG).unwrap(), b"123456789a", "what fitted is there, as on a disk");
    store.set_capacity(None);
    assert!(file.append(b"x").is_err(), "nothing comes behind a torn append, although there is room again");
    assert_eq!(store.crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap(), b"1234567");
    file.sync().unwrap();
    assert_eq!(store.crash_with(CrashMode::DropUnsynced).bytes(LOG).unwrap(), b"123456789a");
    assert!(file.seal().is_err());

    store.set_capacity(Some(12));
    let mut next = create(&store, FileId::log(2));
    assert!(next.append(b"abc").unwrap_err().is_no_space());
    store.delete(LOG).unwrap();
    assert_eq!(store.free_bytes().unwrap(), Some(10), "removing a file makes room");
    let mut last = create(&store, FileId::log(3));
    last.append(b"0123456789").unwrap();
    last.seal().unwrap();
}
