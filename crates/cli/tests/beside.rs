//! Commands that read a database without its lock, while another process creates and deletes its files as fast as it can.

use sinterdb::Db;
use sinterdb::settings::{DbSettings, FamilySettings};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const VIEWS: [&[&str]; 6] =
    [&["check"], &["inspect"], &["inspect", "manifest"], &["inspect", "compression"], &["inspect", "tiers"], &["inspect", "settings"]];

/// Ends the writer, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn commands_beside_a_writer_find_a_healthy_database_healthy() {
    // In memory if possible: syncs cost nothing there, and files change faster.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let sizes = FamilySettings { write_buffer_size: 16 << 10, target_file_size_base: 16 << 10, ..FamilySettings::default() };
    let family = FamilySettings { max_bytes_for_level_base: 64 << 10, ..sizes };
    let db = Db::builder().settings(settings).family("default", family).open(home.path()).unwrap();
    let (stops, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (1u64..).take_while(|_| !stops.load(Ordering::Acquire)) {
                let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
                db.put(&key.to_be_bytes(), &n.to_be_bytes().repeat(200)).unwrap();
                puts.store(n, Ordering::Release);
            }
        });
        let stop = Stop(&stops);
        for round in 0..6 {
            for view in VIEWS {
                let from = puts.load(Ordering::Acquire);
                while puts.load(Ordering::Acquire) < from + 30 {
                    std::thread::yield_now();
                }
                let (command, rest) = view.split_first().unwrap();
                let output = Command::new(env!("CARGO_BIN_EXE_sinter")).arg(command).arg(home.path()).args(rest).output().unwrap();
                let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                let is_busy = err.contains("a writer changes the database faster");
                assert!(output.status.success() || is_busy, "round {round}, {view:?}: {out}{err}");
                for wrong in ["damaged:", "missing", "No such file", "cannot be read", "are in none of these"] {
                    assert!(!out.contains(wrong) && !err.contains(wrong), "round {round}, {view:?}: {out}{err}");
                }
            }
        }
        drop(stop);
    });
}
