//! Gives the same commands to any zoned drive: states, errors, pointers and bytes have to be those of the emulator.
//!
//! The first test compares the emulator with the plain model. The others need a drive whose data may be lost, named by `ZONED_DEVICE`, and
//! run when asked for; `scripts/zoned-conformance` runs them in a guest.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod zoned;

use sinter_storage::zoned::{
    Emulator, Geometry, LinuxDevice, NvmeDevice, ReportCall, Zone, ZoneErrorKind as Kind, ZoneState as State, ZonedDevice,
};
use zoned::{Command, Model, Outcome, Random, draw, run};

/// A block, in bytes that tell where they are from.
fn blocks(geometry: &Geometry, count: u64, fill: u8) -> Vec<u8> {
    let block = u64::from(geometry.block);
    (0..count * block).map(|i| fill ^ (i / block) as u8 ^ (i % 251) as u8).collect()
}

/// Something that can be given commands, and its zones.
trait Subject {
    fn run(&mut self, command: &Command) -> Outcome;
    fn report(&self) -> Vec<Zone>;
}

impl Subject for Model {
    fn run(&mut self, command: &Command) -> Outcome {
        Model::run(self, command)
    }

    fn report(&self) -> Vec<Zone> {
        Model::report(self)
    }
}

struct Device<'a>(&'a dyn ZonedDevice);

impl Subject for Device<'_> {
    fn run(&mut self, command: &Command) -> Outcome {
        run(self.0, command)
    }

    fn report(&self) -> Vec<Zone> {
        self.0.report(0, self.0.geometry().zones).unwrap()
    }
}

/// Both drives, given the same commands.
struct Pair<'a> {
    geometry: Geometry,
    capacity: u64,
    subject: &'a mut dyn Subject,
    reference: &'a mut dyn Subject,
    /// The commands so far, for the message of a failure.
    past: Vec<String>,
    commands: u32,
    refusals: Vec<Kind>,
}

impl Pair<'_> {
    fn give(&mut self, command: &Command) -> Outcome {
        let text = match command {
            Command::Write { zone, at, bytes } => format!("write {} bytes to zone {zone} at {at}", bytes.len()),
            Command::Append { zone, bytes } => format!("append {} bytes to zone {zone}", bytes.len()),
            other => format!("{other:?}"),
        };
        self.past.push(text);
        self.commands += 1;
        let (outcome, expected) = (self.subject.run(command), self.reference.run(command));
        let (zones, wanted) = (self.subject.report(), self.reference.report());
        if outcome != expected || zones != wanted {
            let differ = (0..zones.len()).find(|z| zones[*z] != wanted[*z]);
            let zones = differ.map(|z| format!("zone {z} is {:?} and not {:?}", zones[z], wanted[z]));
            let short = |outcome: Outcome| match outcome {
                Outcome::Bytes(bytes) => format!("{} bytes, the first {:?}", bytes.len(), bytes.first()),
                other => format!("{other:?}"),
            };
            let past = &self.past[self.past.len().saturating_sub(12)..];
            panic!("{} and not {}; {zones:?}; after\n{}", short(outcome), short(expected), past.join("\n"));
        }
        if let Outcome::Refused(kind) = outcome {
            self.refusals.push(kind);
            // Some kernels never let a zone be written again of which the drive refused a write. Ours never sends any but these.
            let zone = match command {
                Command::Write { zone, .. } | Command::Append { zone, .. } => *zone,
                _ => return Outcome::Refused(kind),
            };
            if matches!(kind, Kind::TooManyOpen | Kind::TooManyActive) {
                self.give(&Command::Reset(zone));
            }
        }
        outcome
    }

    fn done(&mut self, command: Command) {
        let outcome = self.give(&command);
        assert!(matches!(outcome, Outcome::Done | Outcome::At(_)), "{outcome:?} for {:?}", self.past.last());
    }

    fn refused(&mut self, command: Command, kind: Kind) {
        let outcome = self.give(&command);
        assert!(outcome == Outcome::Refused(kind), "{outcome:?} and not {kind:?} for {:?}", self.past.last());
    }

    fn append(&self, zone: u32, count: u64) -> Command {
        Command::Append { zone, bytes: blocks(&self.geometry, count, zone as u8) }
    }

    fn write(&self, zone: u32, at: u64, count: u64) -> Command {
        let at = at * u64::from(self.geometry.block);
        Command::Write { zone, at, bytes: blocks(&self.geometry, count, zone as u8) }
    }

    fn reset_all(&mut self) {
        for zone in 0..self.geometry.zones {
            self.done(Command::Reset(zone));
        }
    }

    /// Blocks of a zone.
    fn blocks(&self) -> u64 {
        self.capacity / u64::from(self.geometry.block)
    }

    fn fill(&mut self, zone: u32, from: u64, to: u64) {
        for at in (from..to).step_by(16) {
            self.done(self.write(zone, at, 16.min(to - at)));
        }
    }

    /// Brings a zone into a state, from any, with `written` blocks in it where the state allows it.
    fn bring(&mut self, zone: u32, state: State, written: u64) {
        self.done(Command::Reset(zone));
        if state == State::Empty {
            return;
        }
        if state == State::ExplicitlyOpen {
            self.done(Command::Open(zone));
        }
        self.fill(zone, 0, written);
        match state {
            State::Closed => self.done(Command::Close(zone)),
            State::Full => self.done(Command::Finish(zone)),
            _ => {}
        }
    }

    /// Every event in every state that a drive shows without being broken.
    fn table(&mut self) {
        let (end, size) = (self.blocks(), self.geometry.zone_size / u64::from(self.geometry.block));
        let zone = 3;
        for state in [State::Empty, State::ImplicitlyOpen, State::ExplicitlyOpen, State::Closed, State::Full] {
            for written in [2, end - 2] {
                let at = if state == State::Empty { 0 } else { written };
                let block = u64::from(self.geometry.block);
                let read = |at: u64, count: u64| Command::Read { zone, at: at * block, length: (count * block) as usize };
                let events = [
                    self.write(zone, at, 1),
                    self.append(zone, 2),
                    self.append(zone, 3),
                    self.write(zone, at + 1, 1),
                    self.write(zone, at.saturating_sub(1), 1),
                    self.write(zone, end, 1),
                    self.write(zone, at, 3),
                    Command::Open(zone),
                    Command::Close(zone),
                    Command::Finish(zone),
                    Command::Reset(zone),
                    Command::Flush,
                    read(0, 4),
                    read(end - 1, 1),
                    read(size - 1, 1),
                    read(size - 1, 2),
                ];
                for event in events {
                    self.bring(zone, state, written);
                    self.give(&event);
                    self.give(&event);
                }
            }
        }
        self.done(Command::Reset(zone));
        // An opened and never written zone, closed: still active.
        self.done(Command::Open(zone));
        self.done(Command::Close(zone));
        self.done(self.append(zone, 1));
        self.done(Command::Reset(zone));
        // Filled to the last block, from open and from closed.
        for close in [false, true] {
            self.fill(zone, 0, end - 1);
            if close {
                self.done(Command::Close(zone));
            }
            self.done(self.append(zone, 1));
            self.refused(self.append(zone, 1), Kind::Full);
            self.done(Command::Reset(zone));
        }
    }

    /// Reaches both limits in every way.
    fn limits(&mut self) {
        let (Some(open), Some(active)) = (self.geometry.max_open, self.geometry.max_active) else { return };
        assert!(
            open + 2 <= active && active + 2 < self.geometry.zones,
            "a drive with limits that tell open from active: {:?}",
            self.geometry
        );
        self.reset_all();
        // Writes go on past the limit of open zones, by eviction, up to that of active ones.
        for zone in 0..active {
            self.done(self.append(zone, 1));
        }
        self.refused(self.append(active, 1), Kind::TooManyActive);
        self.refused(Command::Open(active), Kind::TooManyActive);
        self.done(Command::Finish(0));
        self.done(self.append(active, 1));
        self.refused(self.append(active + 1, 1), Kind::TooManyActive);
        self.done(Command::Reset(1));
        self.done(Command::Open(active + 1));
        self.reset_all();
        // Explicitly opened zones are never evicted.
        for zone in 0..open {
            self.done(Command::Open(zone));
        }
        self.refused(Command::Open(open), Kind::TooManyOpen);
        self.refused(self.append(open, 1), Kind::TooManyOpen);
        self.done(Command::Close(0));
        self.done(self.append(open, 1));
        self.done(self.append(open + 1, 1));
        self.done(self.append(0, 1));
        self.reset_all();
    }
}

/// Gives both drives the whole script, and says what came up.
fn compare(geometry: &Geometry, capacity: u64, subject: &mut dyn Subject, reference: &mut dyn Subject, walks: u64, steps: u32) {
    for zone in 0..geometry.zones {
        assert_eq!(subject.run(&Command::Reset(zone)), Outcome::Done, "zone {zone}");
    }
    let (past, refusals) = (Vec::new(), Vec::new());
    let mut pair = Pair { geometry: geometry.clone(), capacity, subject, reference, past, commands: 0, refusals };
    pair.table();
    pair.limits();
    for seed in 0..walks {
        let mut random = Random(seed);
        for _ in 0..steps {
            let report = pair.reference.report();
            let command = draw(&mut random, geometry, 9, &report);
            pair.give(&command);
        }
        pair.reset_all();
    }
    let shown: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| pair.refusals.contains(kind)).collect();
    println!("{} commands, {} of them refused: {shown:?}", pair.commands, pair.refusals.len());
    let expected = [Kind::Boundary, Kind::Full, Kind::InvalidWrite, Kind::TooManyActive, Kind::TooManyOpen, Kind::InvalidTransition];
    assert_eq!(shown, expected, "the errors that a sound drive shows");
}

#[test]
fn the_emulator_is_the_plain_model() {
    let geometry = Geometry { block: 4096, zones: 16, zone_size: 64 << 12, max_open: Some(4), max_active: Some(6), conventional: 0 };
    let capacity = 48 << 12;
    let emulator = Emulator::memory(geometry.clone(), capacity).unwrap();
    compare(&geometry, capacity, &mut Device(&emulator), &mut Model::new(&geometry, capacity), 2, 1000);
}

fn path() -> String {
    std::env::var("ZONED_DEVICE").expect("ZONED_DEVICE names a zoned drive whose data may be lost")
}

/// An emulated drive of the same shape.
fn emulated(device: &dyn ZonedDevice) -> (Emulator, u64) {
    let capacity = device.report(0, 1).unwrap()[0].capacity;
    (Emulator::memory(device.geometry().clone(), capacity).unwrap(), capacity)
}

#[test]
#[ignore = "needs a zoned drive"]
fn the_block_device_is_the_emulator() {
    let device = LinuxDevice::open(path()).unwrap();
    println!("{device:?}");
    let _lock = device.lock().unwrap();
    let (emulator, capacity) = emulated(&device);
    compare(&device.geometry().clone(), capacity, &mut Device(&device), &mut Device(&emulator), 1, 800);
}

/// By the drive's own statuses, and with real appends. Leaves all zones empty: the kernel knows nothing of what happened.
#[test]
#[ignore = "needs a zoned drive"]
fn the_nvme_drive_is_the_emulator() {
    let device = NvmeDevice::open(path()).unwrap();
    println!("{device:?}");
    let _lock = device.lock().unwrap();
    let (emulator, capacity) = emulated(&device);
    compare(&device.geometry().clone(), capacity, &mut Device(&device), &mut Device(&emulator), 1, 800);
    // Past the last zone, which is the end of the drive.
    let geometry = device.geometry();
    let last = geometry.zones - 1;
    let mut two = vec![0; 2 * geometry.block as usize];
    let error = device.read(last, geometry.zone_size - u64::from(geometry.block), &mut two).unwrap_err();
    assert_eq!(error.kind, Kind::OutOfRange);
    assert_eq!(device.append(geometry.zones, &two).unwrap_err().kind, Kind::OutOfRange);
}

/// The other way to ask tells all but how a zone is active, once there is something in it.
fn the_second_report_agrees(device: &LinuxDevice, bytes: &[u8]) {
    let second = match LinuxDevice::open(path()).unwrap().with_report(ReportCall::Second) {
        Ok(second) => second,
        Err(e) => return println!("this kernel has no second report: {e}"),
    };
    let alike = |state: State| if state.is_active() { State::Closed } else { state };
    let report = |device: &LinuxDevice| device.report(0, device.geometry().zones).unwrap();
    device.open(2).unwrap();
    device.append(2, bytes).unwrap();
    for (zone, (first, second)) in report(device).iter().zip(report(&second)).enumerate() {
        assert_eq!(Zone { state: alike(first.state), ..*first }, Zone { state: alike(second.state), ..second }, "zone {zone}");
    }
    second.reset(2).unwrap();
    assert_eq!(second.append(2, bytes).unwrap(), 0);
    second.reset(2).unwrap();
    device.reset(2).unwrap();
    println!("the second report agrees with the first");
}

/// Two handles of a device whose zone 1 has two blocks. Where a write failed, whoever claims the device anew asks the drive again.
fn a_claim_asks_again(device: &LinuxDevice, other: &LinuxDevice, block: &[u8]) {
    // The drive takes the next write, or the kernel refuses it, and not we by what we remember.
    device.append(1, block).unwrap();
    other.append(1, block).unwrap_err();
    assert!(other.append(1, block).unwrap_err().to_string().contains("an earlier write"));
    drop(other.lock().unwrap());
    match other.append(1, block) {
        Ok(at) => assert_eq!(at, 3 * block.len() as u64),
        Err(error) => assert!(!error.to_string().contains("an earlier write"), "{error}"),
    }
}

/// Peculiarities of a block device: pieces, memory of any alignment, a claim, and the end of a zone whose write failed.
#[test]
#[ignore = "needs a zoned drive"]
fn a_block_device_in_use() {
    let device = LinuxDevice::open(path()).unwrap();
    let geometry = device.geometry().clone();
    let block = geometry.block as usize;
    for zone in 0..geometry.zones {
        device.reset(zone).unwrap();
    }
    let whole = device.report(0, 1).unwrap()[0].capacity as usize;
    // Everything at once, from memory that is not aligned, and back.
    let memory: Vec<u8> = (0..=whole).map(|i| (i / 512) as u8 ^ i as u8).collect();
    let bytes = &memory[1..];
    device.write(0, 0, bytes).unwrap();
    assert_eq!(device.report(0, 1).unwrap()[0].state, State::Full);
    device.flush().unwrap();
    let mut back = vec![0; whole + 1];
    device.read(0, 0, &mut back[1..]).unwrap();
    assert!(back[1..] == *bytes);
    assert_eq!(device.append(1, &bytes[..3 * block]).unwrap(), 0);
    assert_eq!(device.append(1, &bytes[3 * block..4 * block]).unwrap(), 3 * block as u64);
    let mut back = vec![0xee; 8 * block];
    device.read(1, 0, &mut back).unwrap();
    assert!(back[..4 * block] == bytes[..4 * block] && back[4 * block..].iter().all(|byte| *byte == 0));

    // A second handle's pointers grow old: the drive refuses its write, and the zone is at its end for it.
    let other = LinuxDevice::open(path()).unwrap();
    device.append(1, &bytes[..block]).unwrap();
    let error = other.write(1, 4 * block as u64, &bytes[..block]).unwrap_err();
    assert_eq!((error.kind, error.source.and_then(|e| e.raw_os_error())), (Kind::Io, Some(5)));
    assert_eq!(other.report(1, 1).unwrap()[0].written, 5 * block as u64);
    let error = other.append(1, &bytes[..block]).unwrap_err();
    assert!(error.kind == Kind::Io && error.to_string().contains("an earlier write"), "{error}");
    other.read(1, 0, &mut back).unwrap();
    assert!(back[..4 * block] == bytes[..4 * block]);
    other.finish(1).unwrap();
    assert_eq!(other.append(1, &bytes[..block]).unwrap_err().kind, Kind::Full);
    other.reset(1).unwrap();
    assert_eq!(other.append(1, &bytes[..block]).unwrap(), 0, "a reset makes it writable again");

    the_second_report_agrees(&device, &bytes[..block]);

    // The claim is exclusive, and whoever takes it sees what others did before.
    let lock = device.lock().unwrap();
    assert!(other.lock().unwrap_err().is_locked());
    assert_eq!(device.append(1, &bytes[..block]).unwrap(), block as u64);
    drop(lock);
    other.lock().unwrap();

    a_claim_asks_again(&device, &other, &bytes[..block]);

    // Several threads, a zone each.
    std::thread::scope(|scope| {
        for zone in 2..6 {
            let (device, bytes) = (&device, &bytes);
            scope.spawn(move || {
                for i in 0..40 {
                    assert_eq!(device.append(zone, &bytes[i * block..(i + 2) * block]).unwrap(), (2 * i * block) as u64);
                }
            });
        }
    });
    let mut back = vec![0; 2 * block];
    device.read(5, (2 * 39 * block) as u64, &mut back).unwrap();
    assert!(back == bytes[39 * block..41 * block]);
}

/// Written before the guest is reset, and looked for after it.
fn written(geometry: &Geometry) -> Vec<(u32, Vec<u8>)> {
    (0..5).map(|zone| (zone, blocks(geometry, 1 + 7 * u64::from(zone), zone as u8))).collect()
}

#[test]
#[ignore = "needs a zoned drive, and a reset of the machine after it"]
fn before_a_reset_of_the_machine() {
    let device = LinuxDevice::open(path()).unwrap();
    for (zone, bytes) in written(device.geometry()) {
        device.reset(zone).unwrap();
        device.append(zone, &bytes).unwrap();
    }
    device.finish(4).unwrap();
    device.flush().unwrap();
}

#[test]
#[ignore = "needs a zoned drive as the test before left it"]
fn later_after_the_reset_of_the_machine() {
    let device = LinuxDevice::open(path()).unwrap();
    for (zone, bytes) in written(device.geometry()) {
        let report = device.report(zone, 1).unwrap()[0];
        if zone == 4 {
            assert_eq!(report.state, State::Full);
        } else {
            assert!(report.state.is_active(), "{report:?}");
            assert_eq!(report.written, bytes.len() as u64);
        }
        let mut back = vec![0; bytes.len()];
        device.read(zone, 0, &mut back).unwrap();
        assert!(back == bytes, "zone {zone}");
        if zone < 4 {
            assert_eq!(device.append(zone, &bytes).unwrap(), bytes.len() as u64);
        }
    }
}

/// A drive (the kernel's null_blk) of which `ZONED_DEVICE_BROKEN` says that zone 1 is read-only and zone 2 offline.
#[test]
#[ignore = "needs a drive with broken zones"]
fn broken_zones_of_a_block_device() {
    let device = LinuxDevice::open(std::env::var("ZONED_DEVICE_BROKEN").expect("names a drive with broken zones")).unwrap();
    println!("{device:?}");
    let (emulator, _) = emulated(&device);
    emulator.break_zone(1, State::ReadOnly).unwrap();
    emulator.break_zone(2, State::Offline).unwrap();
    let states = |device: &dyn ZonedDevice| device.report(0, 4).unwrap().iter().map(|zone| zone.state).collect::<Vec<_>>();
    assert_eq!(states(&device), states(&emulator));
    for zone in 0..3 {
        for command in [
            Command::Append { zone, bytes: blocks(device.geometry(), 1, 1) },
            Command::Open(zone),
            Command::Close(zone),
            Command::Finish(zone),
            Command::Reset(zone),
            Command::Read { zone, at: 0, length: 4096 },
        ] {
            let (outcome, expected) = (run(&device, &command), run(&emulator, &command));
            // What an unwritten block of a read-only zone reads as is the drive's business.
            let bytes = matches!((&outcome, &expected), (Outcome::Bytes(_), Outcome::Bytes(_))) && zone == 1;
            assert!(outcome == expected || bytes, "{command:?}: {outcome:?} and not {expected:?}");
            assert_eq!(states(&device), states(&emulator), "after {command:?}");
        }
    }
}
