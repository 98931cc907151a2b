//! Column families with settings of their own, and a batch across them: `cargo run -p sinterdb --example families_and_batches`.

use sinterdb::settings::{Codecs, FamilySettings, Style};
use sinterdb::{Db, Durability, Family, WriteBatch, WriteOptions};

/// Adds a user and counts it: both or neither.
fn add(db: &Db, users: &Family, name: &str, city: &str) -> sinterdb::Result<()> {
    let count = db.get(b"users")?.map_or(0, |text| String::from_utf8_lossy(&text).parse::<u64>().unwrap_or(0));
    let mut batch = WriteBatch::new();
    batch.put_in(users, name.as_bytes(), city.as_bytes());
    batch.put(b"users", (count + 1).to_string().as_bytes());
    db.write(&mut batch, &WriteOptions::new(Durability::Sync))
}

fn main() -> sinterdb::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // A literal of settings ends with the defaults: a later version may have more fields.
    let settings = FamilySettings { style: Style::Universal, compression: Codecs::Auto, ..FamilySettings::default() };
    let db = Db::builder().family("users", settings).open(directory.path())?;
    let users = db.family("users").expect("the builder creates it");

    add(&db, &users, "ada", "London")?;
    add(&db, &users, "grace", "New York")?;
    assert_eq!(db.get(b"users")?.as_deref(), Some(&b"2"[..]));
    assert_eq!(db.get(b"ada")?, None, "a family is a key space of its own");
    println!("{} families, {} users", db.families().len(), db.iter_with(&users, Default::default())?.count());
    db.close()
}
