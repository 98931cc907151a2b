//! The emulated drive: against a plain model, over restarts and power cuts, with faults, and as slow as asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::zoned::{Command, Model, Outcome, Random, draw, run};
use sinter_storage::store::CrashMode;
use sinter_storage::zoned::{
    Activity, Call, Emulator, Geometry, Latency, Unflushed, Zone, ZoneErrorKind as Kind, ZoneFate, ZoneFault, ZoneState as State,
    ZonedDevice,
};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCK: u64 = 512;
const CAPACITY: u64 = 24 * BLOCK;

fn geometry() -> Geometry {
    Geometry { block: 512, zones: 8, zone_size: 32 * BLOCK, max_open: Some(3), max_active: Some(5), conventional: 0 }
}

fn memory() -> Emulator {
    Emulator::memory(geometry(), CAPACITY).unwrap()
}

fn blocks(count: u64, fill: u8) -> Vec<u8> {
    (0..count * BLOCK).map(|i| fill ^ (i / BLOCK) as u8).collect()
}

fn contents(device: &Emulator, zone: u32) -> Vec<u8> {
    let mut buffer = vec![0xee; (32 * BLOCK) as usize];
    device.read(zone, 0, &mut buffer).unwrap();
    buffer
}

fn zone(device: &Emulator, zone: u32) -> (u64, State) {
    let Zone { written, state, .. } = device.report(zone, 1).unwrap()[0];
    (written / BLOCK, state)
}

fn kind<T: std::fmt::Debug>(result: sinter_storage::zoned::Result<T>) -> Kind {
    result.unwrap_err().kind
}

/// Walks a drive and the model alike; the drive must have the model's outcomes, states and bytes at every step.
fn walk(device: &Emulator, model: &mut Model, seed: u64, steps: usize) {
    let mut random = Random(seed);
    for step in 0..steps {
        let report = device.report(0, 8).unwrap();
        assert_eq!(report, model.report(), "seed {seed}, before step {step}");
        let command = draw(&mut random, &geometry(), 8, &report);
        if random.below(400) == 0 {
            let (zone, state) = (random.below(8) as u32, [State::ReadOnly, State::Offline][random.below(2) as usize]);
            device.break_zone(zone, state).unwrap();
            model.set(zone, state);
        }
        let (outcome, expected) = (run(device, &command), model.run(&command));
        assert_eq!(outcome, expected, "seed {seed}, step {step}: {command:?}");
    }
}

#[test]
fn the_emulator_does_what_the_plain_model_does() {
    for seed in 0..60 {
        walk(&memory(), &mut Model::new(&geometry(), CAPACITY), seed, 300);
    }
}

#[test]
fn a_drive_in_a_file_does_the_same() {
    for seed in 100..110 {
        let folder = tempfile::tempdir().unwrap();
        let device = Emulator::create(folder.path().join("drive"), geometry(), CAPACITY).unwrap();
        walk(&device, &mut Model::new(&geometry(), CAPACITY), seed, 300);
    }
}

#[test]
fn every_error_has_its_status() {
    let device = memory();
    let one = blocks(1, 1);
    assert_eq!(kind(device.write(8, 0, &one)), Kind::OutOfRange);
    assert_eq!(kind(device.read(u32::MAX, 0, &mut [0; 512])), Kind::OutOfRange);
    assert_eq!(kind(device.reset(8)), Kind::OutOfRange);
    assert_eq!(kind(device.report(4, 5)), Kind::OutOfRange);
    assert_eq!(kind(device.report(1, u32::MAX)), Kind::OutOfRange);
    for length in [0, 1, 511, 513] {
        assert_eq!(kind(device.write(0, 0, &vec![0; length])), Kind::InvalidField, "{length} bytes");
        assert_eq!(kind(device.append(0, &vec![0; length])), Kind::InvalidField, "{length} bytes");
        assert_eq!(kind(device.read(0, 0, &mut vec![0; length])), Kind::InvalidField, "{length} bytes");
    }
    assert_eq!(kind(device.write(0, 1, &one)), Kind::InvalidField);
    assert_eq!(kind(device.write(0, BLOCK, &one)), Kind::InvalidWrite);
    assert_eq!(kind(device.write(0, 0, &blocks(25, 0))), Kind::Boundary);
    assert_eq!(kind(device.read(0, 31 * BLOCK, &mut [0; 1024])), Kind::Boundary);
    device.finish(0).unwrap();
    assert_eq!(kind(device.append(0, &one)), Kind::Full);
    assert_eq!(kind(device.open(0)), Kind::InvalidTransition);
    device.break_zone(1, State::ReadOnly).unwrap();
    device.break_zone(2, State::Offline).unwrap();
    assert_eq!(kind(device.break_zone(3, State::Full)), Kind::InvalidTransition);
    assert_eq!(kind(device.write(1, 0, &one)), Kind::ReadOnly);
    assert_eq!(kind(device.write(2, 0, &one)), Kind::Offline);
    assert_eq!(kind(device.read(2, 0, &mut [0; 512])), Kind::Offline);
    for zone in 3..6 {
        device.open(zone).unwrap();
    }
    assert_eq!(kind(device.write(6, 0, &one)), Kind::TooManyOpen);
    for zone in 3..6 {
        device.append(zone, &one).unwrap();
        device.close(zone).unwrap();
    }
    device.append(6, &one).unwrap();
    device.append(7, &one).unwrap();
    device.reset(0).unwrap();
    assert_eq!(kind(device.append(0, &one)), Kind::TooManyActive);
    for kind in Kind::ALL {
        assert_eq!(kind.status().and_then(Kind::from_status), (kind != Kind::Io).then_some(kind));
    }
    let error = device.append(0, &one).unwrap_err();
    assert_eq!(error.to_string(), "append zone 0: too many active zones");
    assert_eq!((error.kind.status(), error.zone), (Some(0x1bd), Some(0)));
}

#[test]
fn impossible_drives_are_refused() {
    let good = geometry();
    for (what, geometry, capacity) in [
        ("block", Geometry { block: 768, ..good.clone() }, CAPACITY),
        ("zones", Geometry { zones: 0, ..good.clone() }, CAPACITY),
        ("size", Geometry { zone_size: 1000, ..good.clone() }, 512),
        ("capacity", good.clone(), 33 * BLOCK),
        ("capacity 0", good.clone(), 0),
        ("limits", Geometry { max_open: Some(6), ..good.clone() }, CAPACITY),
        ("no zone open", Geometry { max_open: Some(0), ..good.clone() }, CAPACITY),
        ("too large", Geometry { zone_size: 1 << 62, ..good.clone() }, CAPACITY),
    ] {
        assert!(Emulator::memory(geometry, capacity).is_err(), "{what}");
    }
    // Conventional zones are there and are not written.
    let device = Emulator::memory(Geometry { conventional: 1, ..good }, CAPACITY).unwrap();
    assert_eq!(zone(&device, 0), (0, State::ReadOnly));
    assert_eq!(kind(device.append(0, &blocks(1, 0))), Kind::ReadOnly);
}

#[test]
fn a_drive_in_a_file_outlives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let device = Emulator::create(&path, geometry(), CAPACITY).unwrap();
    assert!(Emulator::create(&path, geometry(), CAPACITY).is_err(), "it is there already");
    assert!(Emulator::open(&path).unwrap_err().is_locked());
    device.append(0, &blocks(3, 7)).unwrap();
    device.append(1, &blocks(24, 8)).unwrap();
    device.append(2, &blocks(2, 9)).unwrap();
    device.finish(2).unwrap();
    device.open(3).unwrap();
    device.break_zone(4, State::Offline).unwrap();
    device.append(5, &blocks(9, 1)).unwrap();
    device.reset(5).unwrap();
    // No flush: the process ends and the machine does not.
    drop(device);
    let device = Emulator::open(&path).unwrap();
    assert_eq!(device.geometry(), &geometry());
    let expected = [
        (3, State::Closed),
        (24, State::Full),
        (24, State::Full),
        (0, State::Empty),
        (0, State::Offline),
        (0, State::Empty),
        (0, State::Empty),
        (0, State::Empty),
    ];
    assert_eq!((0..8).map(|z| zone(&device, z)).collect::<Vec<_>>(), expected);
    assert_eq!(contents(&device, 0)[..1536], blocks(3, 7));
    assert!(contents(&device, 0)[1536..].iter().all(|byte| *byte == 0));
    assert_eq!(contents(&device, 2)[..1024], blocks(2, 9));
    assert!(contents(&device, 2)[1024..].iter().chain(&contents(&device, 5)).all(|byte| *byte == 0));
    assert_eq!((device.wear(5), device.wear(0), device.wear(99)), (1, 0, 0));
    device.write(0, 3 * BLOCK, &blocks(1, 5)).unwrap();
    device.lock().unwrap();
    let lock = device.lock().unwrap();
    assert!(device.lock().unwrap_err().is_locked());
    drop(lock);
    assert_eq!(format!("{device:?}").matches("Full: 2").count(), 1, "{device:?}");
}

/// Whatever name it is called by: a link leads to the states beside the bytes, and a second name of the bytes with other states beside it
/// is still the same drive.
#[test]
fn a_drive_by_another_name_is_the_same_drive() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let device = Emulator::create(at("drive"), geometry(), CAPACITY).unwrap();
    std::os::unix::fs::symlink("drive", at("link")).unwrap();
    std::fs::hard_link(at("drive"), at("twin")).unwrap();
    std::fs::hard_link(at("drive.zones"), at("twin.zones")).unwrap();
    std::fs::hard_link(at("drive"), at("copy")).unwrap();
    std::fs::copy(at("drive.zones"), at("copy.zones")).unwrap();
    for name in ["drive", "link", "twin", "copy"] {
        assert!(Emulator::open(at(name)).unwrap_err().is_locked(), "{name}");
        assert!(Emulator::remove(at(name)).unwrap_err().is_locked(), "{name}");
    }
    device.append(0, &blocks(3, 7)).unwrap();
    drop(device);
    for name in ["link", "twin"] {
        let device = Emulator::open(at(name)).unwrap();
        assert_eq!(zone(&device, 0).0, 3, "{name}");
        assert!(Emulator::open(at("drive")).unwrap_err().is_locked(), "{name}");
    }
    Emulator::remove(at("link")).unwrap();
    assert!(!at("drive").exists() && !at("drive.zones").exists() && at("twin").exists());
}

#[test]
fn what_was_not_flushed_is_lost_with_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let device = Emulator::create(&path, geometry(), CAPACITY).unwrap();
    device.append(0, &blocks(3, 7)).unwrap();
    device.append(1, &blocks(4, 1)).unwrap();
    device.append(2, &blocks(5, 2)).unwrap();
    device.finish(2).unwrap();
    device.append(3, &blocks(24, 3)).unwrap();
    device.flush().unwrap();
    device.append(0, &blocks(2, 8)).unwrap();
    device.finish(1).unwrap();
    device.reset(3).unwrap();
    device.append(3, &blocks(6, 4)).unwrap();
    device.append(4, &blocks(1, 5)).unwrap();
    drop(device);
    let device = Emulator::open_after_power_cut(&path).unwrap();
    let states: Vec<_> = (0..5).map(|z| zone(&device, z)).collect();
    let expected = [(3, State::Closed), (4, State::Closed), (24, State::Full), (0, State::Empty), (0, State::Empty)];
    assert_eq!(states, expected, "a reset is durable at once, the rest is not");
    assert_eq!(contents(&device, 0)[..1536], blocks(3, 7));
    assert!(contents(&device, 0)[1536..].iter().all(|byte| *byte == 0), "what was lost does not shine through");
    assert_eq!(contents(&device, 2)[..2560], blocks(5, 2));
    device.append(0, &blocks(2, 9)).unwrap();
    device.flush().unwrap();
    drop(device);
    let device = Emulator::open_after_power_cut(&path).unwrap();
    assert_eq!(contents(&device, 0)[1536..2560], blocks(2, 9));
}

/// A flush while others write vouches for nothing that came after it began.
#[test]
fn flushes_and_power_cuts_on_random_walks() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        let mut device = Emulator::create(&path, geometry(), CAPACITY).unwrap();
        let mut random = Random(seed);
        let mut flushed = device.report(0, 8).unwrap();
        for _ in 0..6 {
            for _ in 0..60 {
                let report = device.report(0, 8).unwrap();
                let command = draw(&mut random, &geometry(), 8, &report);
                let outcome = run(&device, &command);
                match command {
                    Command::Flush => flushed = device.report(0, 8).unwrap(),
                    Command::Reset(zone) if outcome == Outcome::Done => flushed[zone as usize] = device.report(zone, 1).unwrap()[0],
                    _ => {}
                }
            }
            drop(device);
            device = Emulator::open_after_power_cut(&path).unwrap();
            let now = device.report(0, 8).unwrap();
            for (zone, (now, flushed)) in now.iter().zip(&flushed).enumerate() {
                assert_eq!(now.written, flushed.written, "seed {seed}, zone {zone}: {flushed:?} became {now:?}");
                let closed = if flushed.written == 0 { State::Empty } else { State::Closed };
                assert_eq!(now.state, if flushed.state == State::Full { State::Full } else { closed }, "seed {seed}, zone {zone}");
            }
            flushed = now;
        }
    }
}

#[test]
fn damaged_states_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    drop(Emulator::create(&path, geometry(), CAPACITY).unwrap());
    let states = std::fs::OpenOptions::new().read(true).write(true).open(folder.path().join("drive.zones")).unwrap();
    let length = states.metadata().unwrap().len();
    let mut found = 0;
    for at in (0..48).chain(512..536).chain(4096..length) {
        let mut byte = [0];
        states.read_exact_at(&mut byte, at).unwrap();
        states.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        let reason = Emulator::open(&path).unwrap_err().to_string();
        assert!(reason.contains("drive"), "byte {at}: {reason}");
        states.write_all_at(&byte, at).unwrap();
        found += 1;
    }
    assert_eq!(found, 48 + 24 + 8 * 64);
    // Two records in each other's place.
    let mut record = [0; 64];
    states.read_exact_at(&mut record, 4096).unwrap();
    states.write_all_at(&record, 4096 + 64).unwrap();
    assert!(Emulator::open(&path).unwrap_err().to_string().contains("zone 1"));
    // A making that did not come to its end.
    let half = folder.path().join("half");
    std::fs::write(&half, []).unwrap();
    std::fs::write(folder.path().join("half.zones"), [0; 4096]).unwrap();
    assert!(Emulator::open(&half).unwrap_err().to_string().contains("not an emulated drive"));
    assert!(Emulator::open(folder.path().join("none")).unwrap_err().is_not_found());
}

#[test]
fn a_large_drive_costs_what_is_written_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let shape = Geometry { block: 4096, zones: 256, zone_size: 128 << 20, max_open: None, max_active: None, conventional: 0 };
    let device = Emulator::create(&path, shape, 128 << 20).unwrap();
    device.append(255, &vec![7; 4 << 20]).unwrap();
    device.flush().unwrap();
    let about = || std::fs::metadata(&path).unwrap();
    assert_eq!(about().len(), 32 << 30);
    assert!((4 << 20..5 << 20).contains(&(about().blocks() * 512)), "{} bytes", about().blocks() * 512);
    device.reset(255).unwrap();
    assert!(about().blocks() * 512 < 1 << 20, "a reset gives the room back: {} bytes", about().blocks() * 512);
}

/// A fate in which so many steps of each zone survive.
struct Survive(u64);

impl ZoneFate for Survive {
    fn survivors(&mut self, unflushed: &Unflushed<'_>) -> u64 {
        assert!(unflushed.ends.is_sorted() && unflushed.steps() > 0);
        self.0
    }
}

#[test]
fn a_power_cut_leaves_a_prefix_of_each_zones_past() {
    let device = memory();
    device.append(0, &blocks(2, 1)).unwrap();
    device.flush().unwrap();
    device.append(0, &blocks(3, 2)).unwrap();
    device.reset(0).unwrap();
    device.append(0, &blocks(2, 3)).unwrap();
    device.finish(0).unwrap();
    let crash = |steps| device.crash(&mut Survive(steps)).unwrap();
    let old = [blocks(2, 1), blocks(3, 2)].concat();
    for (steps, expected) in [
        (0, (2, State::Closed)),
        (1, (3, State::Closed)),
        (3, (5, State::Closed)),
        (4, (0, State::Empty)),
        (5, (1, State::Closed)),
        (6, (2, State::Closed)),
        (7, (24, State::Full)),
        (99, (24, State::Full)),
    ] {
        let left = crash(steps);
        assert_eq!(zone(&left, 0), expected, "{steps} steps");
        let bytes = contents(&left, 0);
        let data = if steps < 4 { &old[..] } else { &blocks(2, 3)[..] };
        let known = if steps >= 7 { 2 } else { expected.0 } * BLOCK;
        assert_eq!(bytes[..known as usize], data[..known as usize], "{steps} steps");
        assert!(bytes[known as usize..].iter().all(|byte| *byte == 0), "{steps} steps");
        // What is left is durable, and can be written on.
        let again = left.crash(&mut Survive(0)).unwrap();
        assert_eq!(zone(&again, 0), expected);
        if expected.1 == State::Closed {
            again.write(0, expected.0 * BLOCK, &blocks(1, 0xaa)).unwrap();
            assert_eq!(contents(&again, 0)[known as usize..][..512], blocks(1, 0xaa));
            assert_eq!(contents(&left, 0), bytes, "copies do not share what comes after");
        }
    }
    assert_eq!(zone(&device, 0), (24, State::Full), "the drive itself goes on");
    let image = device.clone_image().unwrap();
    assert_eq!(zone(&image, 0), (24, State::Full));
    assert_eq!(zone(&image.crash_with(CrashMode::DropUnsynced).unwrap(), 0), (2, State::Closed), "an image knows what is not flushed");
    image.flush().unwrap();
    assert_eq!(zone(&image.crash_with(CrashMode::DropUnsynced).unwrap(), 0), (24, State::Full));
    assert_eq!(zone(&device.crash_with(CrashMode::KeepAll).unwrap(), 0), (24, State::Full));
}

/// Whatever a power cut leaves: flushed bytes are there, the rest is a prefix of what was written, and the limits hold.
#[test]
fn power_cuts_on_random_walks_lose_nothing_that_was_flushed() {
    let (mut torn, mut back) = (0, 0);
    for seed in 0..40 {
        let device = memory();
        let mut random = Random(seed);
        // What each zone held at the last flush, and every whole content since, one after each command.
        let mut possible: Vec<Vec<Vec<u8>>> = vec![vec![Vec::new()]; 8];
        let held = |device: &Emulator, z: u32| contents(device, z)[..(zone(device, z).0 * BLOCK) as usize].to_vec();
        for step in 0..120 {
            let command = draw(&mut random, &geometry(), 8, &device.report(0, 8).unwrap());
            run(&device, &command);
            for z in 0..8 {
                let now = held(&device, z);
                if matches!(command, Command::Flush) {
                    possible[z as usize].clear();
                }
                if possible[z as usize].last() != Some(&now) {
                    possible[z as usize].push(now);
                }
            }
            if step % 10 != 9 {
                continue;
            }
            let left = device.crash_with(seed * 1000 + step).unwrap();
            let report = left.report(0, 8).unwrap();
            assert!(report.iter().filter(|zone| zone.state.is_active()).count() <= 5, "seed {seed}, step {step}");
            assert!(!report.iter().any(|zone| zone.state.is_open()));
            for z in 0..8 {
                let (bytes, states) = (held(&left, z), &possible[z as usize]);
                let whole = states.contains(&bytes);
                let part = states.windows(2).any(|pair| pair[1].starts_with(&bytes) && bytes.starts_with(&pair[0]));
                assert!(whole || part, "seed {seed}, step {step}, zone {z}: {} blocks", bytes.len() as u64 / BLOCK);
                torn += u32::from(!whole);
                back += u32::from(bytes.len() > states[states.len() - 1].len());
            }
        }
    }
    assert!(torn > 20 && back > 20, "{torn} torn writes and {back} lost resets were among them");
}

#[test]
fn faults_come_when_asked_for() {
    let device = memory();
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (count, log) = (Arc::clone(&calls), Arc::clone(&seen));
    device.set_hook(Some(Arc::new(move |call: &Call| {
        log.lock().unwrap().push((call.operation, call.zone, call.mutates()));
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => Some(ZoneFault::Cut(2 * BLOCK + 100)),
            1 => Some(ZoneFault::Refuse(Kind::TooManyActive)),
            3 => Some(ZoneFault::Refuse(Kind::Io)),
            4 => Some(ZoneFault::Cut(0)),
            _ => None,
        }
    })));
    let error = device.write(0, 0, &blocks(4, 1)).unwrap_err();
    assert_eq!((error.kind, error.source.and_then(|e| e.raw_os_error())), (Kind::Io, Some(5)));
    assert_eq!(zone(&device, 0), (2, State::ImplicitlyOpen), "whole blocks of it arrived");
    assert_eq!(kind(device.append(1, &blocks(1, 1))), Kind::TooManyActive);
    assert_eq!(zone(&device, 1), (0, State::Empty));
    assert_eq!(device.append(0, &blocks(1, 2)).unwrap(), 2 * BLOCK);
    assert_eq!(kind(device.read(0, 0, &mut [0; 512])), Kind::Io);
    assert_eq!(kind(device.finish(0)), Kind::Io);
    assert_eq!(zone(&device, 0), (24, State::Full), "done and not acknowledged");
    device.flush().unwrap();
    let expected = [
        ("write", Some(0), true),
        ("append", Some(1), true),
        ("append", Some(0), true),
        ("read", Some(0), false),
        ("finish", Some(0), true),
        ("flush", None, true),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    device.set_hook(None);
    device.reset(0).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 6);
    // A hook may look at the drive and copy it: nothing is locked.
    let device = Arc::new(memory());
    let inner = Arc::clone(&device);
    device.set_hook(Some(Arc::new(move |_| {
        inner.crash_with(7).unwrap();
        None
    })));
    device.append(0, &blocks(1, 1)).unwrap();
    device.set_hook(None);
}

#[test]
fn the_drive_counts_what_it_does() {
    let device = memory();
    device.append(0, &blocks(10, 1)).unwrap();
    device.finish(0).unwrap();
    device.reset(0).unwrap();
    device.append(1, &blocks(4, 1)).unwrap();
    device.reset(1).unwrap();
    device.reset(1).unwrap();
    contents(&device, 1);
    device.flush().unwrap();
    let expected = Activity {
        written: 14 * BLOCK,
        read: 32 * BLOCK,
        padded: 14 * BLOCK,
        finishes: 1,
        resets: 2,
        unwritten_at_reset: 20 * BLOCK,
        flushes: 1,
    };
    assert_eq!(device.activity(), expected);
}

#[test]
fn time_passes_as_on_the_drive_it_stands_for() {
    let slept = Arc::new(Mutex::new(Duration::ZERO));
    let log = Arc::clone(&slept);
    let capacity = 1077 << 20;
    let shape = Geometry { block: 4096, zones: 4, zone_size: 2048 << 20, max_open: Some(14), max_active: Some(14), conventional: 0 };
    let sleep = move |time| *log.lock().unwrap() += time;
    let device = Emulator::memory(shape, capacity).unwrap().with_latency(Latency::zn540(), Arc::new(sleep));
    let took = |f: &dyn Fn()| {
        let before = *slept.lock().unwrap();
        f();
        (*slept.lock().unwrap() - before).as_secs_f64() * 1e3
    };
    let megabytes = took(&|| (0..64).for_each(|_| device.append(0, &vec![1; 1 << 20]).map(|_| ()).unwrap()));
    assert!((53.0..58.0).contains(&megabytes), "64 MiB at 1,146 MiB/s: {megabytes} ms");
    let finish = took(&|| device.finish(0).unwrap());
    assert!((845.0..860.0).contains(&finish), "finish at 6 %: {finish} ms");
    let reset = took(&|| device.reset(0).unwrap());
    assert!((1.5..3.5).contains(&reset), "reset of it: {reset} ms");
    let reads = took(&|| (0..1000).for_each(|_| device.read(1, 0, &mut [0; 4096]).unwrap()));
    assert!((71.0..74.0).contains(&reads), "1,000 reads: {reads} ms");
}

/// Writers, readers and resets of different zones at once; the drive serves each zone in order.
#[test]
fn zones_are_written_by_many_threads() {
    let device = Emulator::memory(Geometry { max_open: Some(4), max_active: Some(8), ..geometry() }, CAPACITY).unwrap();
    std::thread::scope(|scope| {
        for z in 0..8u32 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..50u8 {
                    for i in 0..24u64 {
                        assert_eq!(device.append(z, &blocks(1, round ^ i as u8)).unwrap(), i * BLOCK);
                    }
                    assert_eq!(contents(device, z)[512..1024], blocks(1, round ^ 1));
                    device.flush().unwrap();
                    device.reset(z).unwrap();
                }
            });
        }
    });
    assert_eq!(device.activity().written, 8 * 50 * 24 * BLOCK);
    // Appends of several threads to one zone: each has a place of its own.
    let mut places: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..6).map(|_| device.append(0, &blocks(1, 1)).unwrap()).collect())).collect();
        threads.into_iter().flat_map(|thread| -> Vec<u64> { thread.join().unwrap() }).collect()
    });
    places.sort_unstable();
    assert_eq!(places, (0..24).map(|i| i * BLOCK).collect::<Vec<_>>());
}
