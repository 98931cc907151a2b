//! Several codecs in one database.

use super::*;
use sinterdb::internal::cache::Cache;
use sinterdb::internal::checksum::DbId;
use sinterdb::internal::manifest::TableInfo;
use sinterdb::internal::table::Table;
use sinterdb::settings::{Codec, Compression};

fn with(settings: &FamilySettings, compression: &[Compression]) -> FamilySettings {
    FamilySettings { compression: compression.to_vec().into(), ..settings.clone() }
}

fn plain(codec: Codec) -> Compression {
    Compression { codec, ..Compression::default() }
}

/// Two in three values shrink.
fn value(n: usize) -> Vec<u8> {
    if n.is_multiple_of(3) { noise(n, 150) } else { format!("value {n} of some text that is not new. ").repeat(4).into_bytes() }
}

/// Number, level and codec of all tables.
fn tables(db: &Db, store: &Arc<TestStore>) -> Vec<(u64, usize, Codec)> {
    let version = db.version(&db.default_family()).unwrap();
    let open = |info: &Arc<TableInfo>| Table::open(&**store, DbId([7; 16]), Arc::clone(info), &Cache::new(0)).unwrap();
    version.tables().map(|(level, _, info)| (info.number, level, open(info).properties().unwrap().codec)).collect()
}

fn check(db: &Db, newest: &dyn Fn(usize) -> usize, count: usize) {
    for n in 0..count {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(newest(n)), "key {n}");
    }
    assert_eq!(all(db, &db.default_family()).len(), count);
    assert!(db.verify().unwrap().is_empty());
}

#[test]
fn a_change_of_codec_rewrites_nothing_and_all_of_it_is_readable() {
    const ROUNDS: usize = 9;
    let dictionary = Compression { codec: Codec::Zstd, level: None, dictionary_bytes: 1000 };
    let codecs: Vec<Compression> = Codec::ALL.into_iter().map(plain).chain([dictionary, plain(Codec::Lz4), plain(Codec::None)]).collect();
    // Nothing is compacted by itself, so that each flush's table stays.
    let settings = FamilySettings { level0_file_num_compaction_trigger: 15, ..FamilySettings::default() };
    let store = new_store();
    let mut db = try_open(&store, builder().settings(inline()).family("default", settings.clone())).unwrap();
    let mut written = Vec::new();
    // Round `r` writes every key with `n % 9 >= r`: each round's table is the newest for some keys.
    let newest = |n: usize| n + 10_000 * (n % ROUNDS);
    for (round, compression) in codecs.iter().enumerate() {
        db.change_family_settings(&db.default_family(), with(&settings, &[*compression])).unwrap();
        assert_eq!(tables(&db, &store), written, "a change by itself writes nothing");
        for n in (0..2000).filter(|n| n % ROUNDS >= round) {
            db.put(&key(n), &value(n + 10_000 * round)).unwrap();
        }
        db.flush().unwrap();
        let added = tables(&db, &store).into_iter().filter(|table| !written.contains(table)).collect::<Vec<_>>();
        assert_eq!(added.iter().map(|table| table.2).collect::<Vec<_>>(), [compression.codec], "round {round}");
        written = tables(&db, &store);
        if round % 3 == 2 {
            drop(db);
            db = open(&store);
            assert_eq!(tables(&db, &store), written, "opening writes nothing");
        }
    }
    assert_eq!(written.len(), codecs.len());
    check(&db, &newest, 2000);
    // Compactions apply what is set now, per level.
    let per_level = [plain(Codec::None), plain(Codec::Snappy), plain(Codec::Zlib)];
    db.change_family_settings(&db.default_family(), with(&settings, &per_level)).unwrap();
    assert_eq!(tables(&db, &store), written);
    db.compact_range(&db.default_family(), None, None).unwrap();
    let after = tables(&db, &store);
    assert!(after.iter().all(|(_, level, codec)| *level > 1 && *codec == Codec::Zlib), "{after:?}");
    check(&db, &newest, 2000);
    drop(db);
    check(&open(&store), &newest, 2000);
}

#[test]
fn every_codec_is_readable_at_every_level() {
    for first in Codec::ALL {
        let list: Vec<Compression> = Codec::ALL.iter().cycle().skip(first as usize).take(7).copied().map(plain).collect();
        let settings = FamilySettings { max_bytes_for_level_multiplier: 2.0, ..with(&small(), &list) };
        let store = new_store();
        let db = try_open(&store, builder().settings(inline()).family("default", settings)).unwrap();
        // A level may just have gone down as a whole, all with one codec; after some more puts it is there again.
        let mixed = (12_000..30_000).step_by(1000).scan(0, |from, to| Some(std::mem::replace(from, to)..to)).any(|round| {
            round.map(|n| n * 7919 % 4000).for_each(|n| db.put(&key(n), &value(n)).unwrap());
            db.flush().unwrap();
            let made = tables(&db, &store);
            // A table that was moved down has the codec of the level that it was written for.
            assert!(made.iter().all(|(_, level, codec)| list[..=*level].contains(&plain(*codec))), "{made:?}");
            let deepest = made.iter().map(|(_, level, _)| *level).max().unwrap();
            deepest > 1 && made.iter().any(|(_, _, codec)| *codec != list[deepest].codec)
        });
        assert!(mixed, "{:?}", tables(&db, &store));
        check(&db, &|n| n, 4000);
        drop(db);
        check(&open(&store), &|n| n, 4000);
    }
}
