//! Reading at a moment, and walking a prefix backwards: `cargo run -p sinterdb --example snapshot_and_iterator`.

use sinterdb::{Db, ReadOptions};

fn main() -> sinterdb::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(directory.path())?;
    for day in 1..=31 {
        db.put(format!("2026-01-{day:02}").as_bytes(), b"snow")?;
        db.put(format!("2026-07-{day:02}").as_bytes(), b"sun")?;
    }

    let snapshot = db.snapshot();
    db.delete_range(b"2026-01", b"2026-02")?;
    db.put(b"2026-07-31", b"rain")?;

    // The snapshot still sees January, and the last of July as it was.
    let family = db.default_family();
    let before = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get(b"2026-01-15")?, None);
    assert_eq!(db.get_with(&family, b"2026-01-15", &before)?.as_deref(), Some(&b"snow"[..]));

    // The last three days of July, the newest first.
    let july = ReadOptions { prefix: Some(b"2026-07".to_vec()), ..before };
    let mut days = db.iter_with(&family, july)?;
    days.seek_last()?;
    let mut last = Vec::new();
    while days.valid() && last.len() < 3 {
        last.push(format!("{} {}", days.key().escape_ascii(), days.value().escape_ascii()));
        days.retreat()?;
    }
    assert_eq!(last, ["2026-07-31 sun", "2026-07-30 sun", "2026-07-29 sun"]);
    println!("{last:?}");
    Ok(())
}
