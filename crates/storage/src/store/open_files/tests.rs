use super::*;
use crate::store::{Calls, Cause, DirStore, Fault, FaultStore, MemoryStore, Operation};
use std::thread;

fn put(store: &dyn Store, number: u64) -> FileId {
    let id = FileId::table(number);
    let mut file = store.create(id, &Hint::new(Cause::Flush)).unwrap();
    file.append(&number.to_le_bytes()).unwrap();
    file.seal().unwrap();
    id
}

fn read(file: &dyn ReadAt) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_at(0, &mut bytes).map(|()| u64::from_le_bytes(bytes))
}

/// Files 0, 1 and so on of a store, open, of which `most` stay open.
fn open(below: &Arc<dyn Store>, count: u64, most: u64) -> (BoundedStore, Vec<Arc<dyn ReadAt>>) {
    let files = OpenFiles::new();
    files.set_most(most);
    let store = BoundedStore::new(below.clone(), files, false);
    let readers = (0..count).map(|number| store.open(put(&store, number)).unwrap()).collect();
    (store, readers)
}

/// Descriptors of this process that lead to tables of a directory.
fn descriptors(directory: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to.starts_with(directory) && to != directory))
        .count()
}

#[test]
fn few_descriptors_serve_many_files() {
    let directory = tempfile::tempdir().unwrap();
    let below: Arc<dyn Store> = Arc::new(DirStore::open(directory.path(), false).unwrap());
    let (store, readers) = open(&below, 100, 10);
    for round in 0..3 {
        for (number, reader) in (0..).zip(&readers) {
            assert_eq!((read(&**reader).unwrap(), reader.len()), (number, 8), "{round}");
            assert!(store.files.open() <= 10 && descriptors(directory.path()) <= 10);
        }
    }
    thread::scope(|scope| {
        for start in 0..4 {
            let readers = &readers;
            scope.spawn(move || (0..2000).map(|n| (start + n * 7) % 100).for_each(|n| assert_eq!(read(&*readers[n]).unwrap(), n as u64)));
        }
    });
    assert!(store.files.open() <= 10 && descriptors(directory.path()) <= 10);
    drop(readers);
    assert_eq!((store.files.open(), descriptors(directory.path())), (0, 0));
    assert!(store.files.listed.lock().readers.is_empty());
}

#[test]
fn what_is_read_often_stays_open() {
    let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (store, readers) = open(&below, 50, 8);
    let is_open = |n: usize| store.files.listed.lock().open.values().any(|slot| slot.id.number == n as u64);
    read(&*readers[0]).unwrap();
    for round in 0..20 {
        for n in 1..50 {
            read(&*readers[n]).unwrap();
            assert!(is_open(n));
            read(&*readers[0]).unwrap();
            assert!(is_open(0), "{round}, {n}");
        }
    }
}

#[test]
fn a_deleted_file_stays_readable() {
    let directory = tempfile::tempdir().unwrap();
    for below in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, Arc::new(DirStore::open(directory.path(), false).unwrap())] {
        let (store, mut readers) = open(&below, 40, 8);
        // The last of them are open, the first are closed. As many as half of the list are kept; the others keep their names.
        let gone: Vec<u64> = (0..40).rev().filter(|n| store.delete(FileId::table(*n)).is_ok()).collect();
        assert_eq!(gone.len(), 4);
        assert!(store.delete(FileId::table(0)).unwrap_err().is_no_descriptors());
        let names = || below.list().unwrap().len();
        assert_eq!(names(), 36);
        for _ in 0..2 {
            (0..).zip(&readers).for_each(|(number, reader)| assert_eq!(read(&**reader).unwrap(), number));
        }
        assert!(store.files.open() <= 8);
        // Once the readers are gone, so may the names be.
        readers.truncate(5);
        (5..36).for_each(|n| store.delete(FileId::table(n)).unwrap());
        (0..4).for_each(|n| store.delete(FileId::table(n)).unwrap());
        assert!(store.delete(FileId::table(4)).unwrap_err().is_no_descriptors());
        (0..).zip(&readers).for_each(|(number, reader)| assert_eq!(read(&**reader).unwrap(), number));
        readers.clear();
        store.delete(FileId::table(4)).unwrap();
        assert_eq!((names(), store.files.open()), (0, 0));
    }
}

/// Other files of the process have taken the rest of the descriptors.
#[test]
fn a_call_that_finds_no_descriptor_takes_one_of_the_list() {
    for operation in [Operation::Create, Operation::Open, Operation::List, Operation::Share] {
        for code in [libc::EMFILE, libc::ENFILE] {
            let below = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
            let (store, readers) = open(&(below.clone() as Arc<dyn Store>), 8, 8);
            let call = |number| match operation {
                Operation::Create => store.create(FileId::table(number), &Hint::new(Cause::Flush)).map(drop),
                Operation::Open => store.open(FileId::table(0)).map(drop),
                Operation::List => store.list().map(drop),
                _ => store.share(FileId::table(0), &MemoryStore::new(), &Hint::new(Cause::Checkpoint)).map(drop),
            };
            below.inject(Fault::once(Calls::Only(operation), below.count(operation), code));
            call(100).unwrap();
            // A file that is to be read takes the place of another one first.
            assert_eq!(store.files.open(), 7 - usize::from(operation == Operation::Open), "{operation:?}");
            below.clear();
            below.inject(Fault::from(Calls::Only(operation), 0, code));
            let error = call(101).unwrap_err();
            assert!(error.is_no_descriptors() && error.named("somewhere").is_no_descriptors());
            assert_eq!(store.files.open(), 0, "{operation:?}");
            below.clear();
            call(102).unwrap();
            (0..).zip(&readers).for_each(|(number, reader)| assert_eq!(read(&**reader).unwrap(), number));
        }
    }
}

#[test]
fn what_another_process_deletes_is_no_damage_beside_a_writer() {
    for beside_writer in [false, true] {
        let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (store, _) = open(&below, 2, 1);
        let store = BoundedStore { beside_writer, ..store };
        let readers: Vec<_> = (0..2).map(|n| store.open(FileId::table(n)).unwrap()).collect();
        (0..2).for_each(|n| below.delete(FileId::table(n)).unwrap());
        assert_eq!(read(&*readers[1]).unwrap(), 1, "it is open");
        let error = read(&*readers[0]).unwrap_err();
        assert_eq!((error.is_superseded(), error.is_damage()), (beside_writer, !beside_writer), "{error}");
    }
}

#[test]
fn the_limit_of_the_process_leaves_room_for_others() {
    assert_eq!([0, 10, 40, 64, 160, 1024, 1 << 20].map(room), [8, 8, 8, 32, 120, 768, 3 << 18]);
    let files = OpenFiles::new();
    let usual = files.most();
    files.set_most(3);
    assert_eq!(files.most(), 3);
    files.set_most(0);
    assert_eq!(files.most(), usual);
}

/// The reader goes between the look of `delete` at the list and `keep_open`.
#[test]
fn a_reader_that_goes_while_its_file_is_deleted_is_not_counted_for_ever() {
    let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (store, mut readers) = open(&below, 1, 8);
    let slot = store.files.listed.lock().readers.values().next().unwrap().clone();
    readers.clear();
    store.keep_open(&slot).unwrap();
    drop(slot);
    assert_eq!(store.files.open(), 0);
}

/// Drops a reader in `open`, and finds no descriptor.
#[derive(Debug)]
struct Dropping(MemoryStore, Mutex<Option<Arc<dyn ReadAt>>>);

impl Store for Dropping {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        self.0.create(id, hint)
    }
    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        match self.1.lock().take() {
            Some(reader) => {
                drop(reader);
                Err(StoreError::file("open", id, sys::no_descriptors()))
            }
            None => self.0.open(id),
        }
    }
    fn delete(&self, id: FileId) -> Result<()> {
        self.0.delete(id)
    }
    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.0.list()
    }
    fn sync_names(&self) -> Result<()> {
        self.0.sync_names()
    }
    fn free_bytes(&self) -> Result<Option<u64>> {
        self.0.free_bytes()
    }
    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        self.0.lock()
    }
}

/// The reader goes while its closed file is opened for the deletion, which finds no descriptor.
#[test]
fn the_count_of_kept_files_does_not_go_below_zero() {
    let below = Arc::new(Dropping(MemoryStore::new(), Mutex::new(None)));
    let files = OpenFiles::new();
    files.set_most(1);
    let store = BoundedStore::new(below.clone(), files, false);
    let reader = store.open(put(&store, 0)).unwrap();
    // Closed, as no other is there to be closed when the descriptor is missing.
    drop(store.files.listed.lock().close_one());
    *below.1.lock() = Some(reader);
    assert!(store.delete(FileId::table(0)).unwrap_err().is_no_descriptors());
    assert_eq!(store.files.open(), 0);
}
