//! Obsolete memtables and tables that readers may still hold. Dropping the last reference frees the memory or the file, which takes long
//! for megabytes. A list keeps one reference to each, so that a background thread drops the last one, and not a reader for whom clients
//! wait.

use crate::memtable::Memtable;
use crate::table::Table;
use parking_lot::Mutex;
use std::sync::Arc;

/// Memtables and tables that are no longer part of a view.
#[derive(Debug, Default)]
pub(super) struct Obsolete {
    memtables: Mutex<Vec<Arc<Memtable>>>,
    tables: Mutex<Vec<Arc<Table>>>,
}

impl Obsolete {
    /// Adds memtables and tables that the current view no longer names: only readers with an older view hold them.
    pub fn add(&self, memtables: impl IntoIterator<Item = Arc<Memtable>>, tables: Vec<Arc<Table>>) {
        self.memtables.lock().extend(memtables);
        self.tables.lock().extend(tables);
    }

    /// Frees memtables and tables that no reader holds. Takes long, so threads that clients wait for call this only when they wait for
    /// free space.
    pub fn clear(&self) {
        drop(unheld(&self.memtables));
        drop(unheld(&self.tables));
    }

    /// Numbers of memtables and tables.
    #[cfg(test)]
    pub fn len(&self) -> (usize, usize) {
        (self.memtables.lock().len(), self.tables.lock().len())
    }
}

/// Removes and returns the entries that only this list holds; no thread can get a new reference to one.
fn unheld<T>(all: &Mutex<Vec<Arc<T>>>) -> Vec<Arc<T>> {
    all.lock().extract_if(.., |one| Arc::strong_count(one) == 1).collect()
}

#[cfg(test)]
mod tests {
    use crate::db::Db;
    use crate::settings::DbSettings;
    use sinter_storage::store::MemoryStore;
    use std::sync::Arc;

    #[test]
    fn no_reader_gives_back_memtables_or_tables() {
        let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
        let db = Db::builder().settings(settings).open_store(Arc::new(MemoryStore::new())).unwrap();
        let family = db.default_family();
        let gone = || db.inner.obsolete.len();
        db.put(b"key", b"1").unwrap();
        let before = db.iter();
        let view = family.core.view.load();
        db.flush().unwrap();
        assert_eq!(gone(), (1, 0));
        let between = db.iter();
        db.put(b"key", b"2").unwrap();
        db.compact_range(&family, None, None).unwrap();
        // The second memtable and its table had no readers.
        assert_eq!(gone(), (1, 1));
        drop((before, between));
        assert_eq!(gone(), (1, 1));
        db.inner.obsolete.clear();
        assert_eq!(gone(), (1, 0), "one has the first view loaded");
        drop(view);
        assert_eq!(gone(), (1, 0));
        db.inner.obsolete.clear();
        assert_eq!(gone(), (0, 0));
    }
}
