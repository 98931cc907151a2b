//! Return of freed memory to the system, in a process of its own.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use sinter_storage::store::{give_back_free, give_back_when_freed};

const MIB: usize = 1 << 20;

#[test]
fn what_is_freed_is_given_back_from_then_on() {
    // Bytes of memory that are no file's.
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    };
    // What stays of 32 MiB in pieces, after one of 24 MiB was freed.
    let kept = || {
        let before = resident();
        drop(std::hint::black_box(vec![1u8; 24 * MIB]));
        drop(std::hint::black_box((0..32).map(|_| vec![1u8; MIB]).collect::<Vec<_>>()));
        resident().saturating_sub(before)
    };
    let is_told = |name: &str| name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES";
    if !std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_told)) {
        assert!(kept() > 16 * MIB, "glibc keeps nothing by itself: there is nothing to test");
    }
    // Of 64 MiB in small pieces all but a few are freed, as when a large value goes.
    let mut few: Vec<_> = (0..8192u16).map(|number| (number, vec![1u8; 8 << 10])).collect();
    few.retain(|(number, _)| number % 512 == 511);
    let before = resident();
    give_back_free();
    let after = resident();
    assert!(after + 48 * MIB < before, "{before} bytes, then {after}");
    drop(std::hint::black_box(few));
    give_back_when_freed(128 << 10);
    // Another thread frees into the one heap.
    let kept = std::thread::scope(|scope| scope.spawn(kept).join().unwrap());
    assert!(kept < 4 * MIB, "{kept}");
}
