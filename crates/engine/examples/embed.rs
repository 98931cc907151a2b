//! A database in a directory: open, write, read, walk, close, and open again: `cargo run -p sinterdb --example embed`.

use sinterdb::{Db, Durability, WriteOptions};

fn main() -> sinterdb::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("fruit");

    let db = Db::open(&path)?;
    db.put(b"apple", b"red")?;
    db.put(b"banana", b"yellow")?;
    db.put(b"cherry", b"red")?;
    db.delete(b"banana")?;
    // Acknowledged once it would survive a power cut.
    db.put_with(&db.default_family(), b"plum", b"blue", &WriteOptions::new(Durability::Sync))?;

    assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
    assert_eq!(db.get(b"banana")?, None);
    for entry in db.iter() {
        let (key, value) = entry?;
        println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    }
    // Errors of background work are reported here.
    db.close()?;

    let again = Db::open(&path)?;
    assert_eq!(again.iter().count(), 3);
    again.close()
}
