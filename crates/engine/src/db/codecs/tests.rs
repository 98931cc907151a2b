//! What a family's choice of codecs is told where there are several families.

use super::super::Db;
use super::*;
use crate::db::read::ReadOptions;
use crate::settings::FamilySettings;
use sinter_storage::store::MemoryStore;

#[test]
fn each_family_counts_its_own_operations() {
    let db = Db::builder().open_store(Arc::new(MemoryStore::new())).unwrap();
    let (busy, quiet) = (db.default_family(), db.create_family("quiet", FamilySettings::default()).unwrap());
    let options = ReadOptions::default();
    for n in 0..10u8 {
        db.put(&[n], b"v").unwrap();
        assert!(db.get(&[n]).unwrap().is_some());
    }
    assert_eq!(db.multi_get(&busy, &[&[1], &[2], &[77]], &options).unwrap().len(), 3);
    let mut iterator = db.iter();
    iterator.seek(&[5]).unwrap();
    iterator.seek_last().unwrap();
    assert_eq!(db.get_with(&quiet, b"k", &options).unwrap(), None);
    assert_eq!([&busy, &quiet].map(|family| family.core.counters.operations()), [10 + 10 + 3 + 2, 1]);
}
