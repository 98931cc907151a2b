//! Shared parts of the tests of zoned drives: a random walk over all commands, and a plain model of a drive to compare with.

use sinter_storage::zoned::{Geometry, Zone, ZoneErrorKind as Kind, ZoneState as State, ZonedDevice};

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A command with all that it needs.
#[derive(Debug, Clone)]
pub enum Command {
    Write { zone: u32, at: u64, bytes: Vec<u8> },
    Append { zone: u32, bytes: Vec<u8> },
    Read { zone: u32, at: u64, length: usize },
    Reset(u32),
    Finish(u32),
    Open(u32),
    Close(u32),
    Flush,
}

/// Result of a command, without the reasons of a system.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    At(u64),
    Bytes(Vec<u8>),
    Refused(Kind),
}

pub fn run(device: &dyn ZonedDevice, command: &Command) -> Outcome {
    let done = |result: Result<(), _>| result.map(|()| Outcome::Done);
    let result = match command {
        Command::Write { zone, at, bytes } => done(device.write(*zone, *at, bytes)),
        Command::Append { zone, bytes } => device.append(*zone, bytes).map(Outcome::At),
        Command::Read { zone, at, length } => {
            let mut buffer = vec![0xee; *length];
            device.read(*zone, *at, &mut buffer).map(|()| Outcome::Bytes(buffer))
        }
        Command::Reset(zone) => done(device.reset(*zone)),
        Command::Finish(zone) => done(device.finish(*zone)),
        Command::Open(zone) => done(device.open(*zone)),
        Command::Close(zone) => done(device.close(*zone)),
        Command::Flush => done(device.flush()),
    };
    result.unwrap_or_else(|e| Outcome::Refused(e.kind))
}

/// A command among the first `zones` zones, of which `report` is what the drive says; most are legal. The last zone of a drive is left
/// out by whoever compares with a real one: where a range passes its end, it passes the drive's.
pub fn draw(random: &mut Random, geometry: &Geometry, zones: u32, report: &[Zone]) -> Command {
    let block = u64::from(geometry.block);
    let zone = random.below(u64::from(zones)) as u32;
    let Zone { capacity, written, .. } = report[zone as usize];
    let blocks = match random.below(8) {
        0 => (capacity - written.min(capacity)) / block,
        1 => (capacity - written.min(capacity)) / block + 1,
        _ => 1 + random.below(6),
    };
    let blocks = blocks.clamp(1, 24);
    let fill = random.below(256) as u8;
    let bytes: Vec<u8> = (0..blocks * block).map(|i| fill ^ (i / block) as u8 ^ i as u8).collect();
    match random.below(32) {
        0..12 => Command::Write { zone, at: written.min(capacity), bytes },
        12..16 => Command::Append { zone, bytes },
        16 => Command::Write { zone, at: random.below(capacity / block + 1) * block, bytes },
        17..22 => {
            let at = random.below(geometry.zone_size / block) * block;
            Command::Read { zone, at, length: bytes.len() }
        }
        22..24 => Command::Open(zone),
        24..26 => Command::Close(zone),
        26..28 => Command::Finish(zone),
        28..31 => Command::Reset(zone),
        _ => Command::Flush,
    }
}

/// A drive as plainly as it can be written down.
pub struct Model {
    geometry: Geometry,
    capacity: u64,
    zones: Vec<(State, Vec<u8>)>,
    /// Implicitly opened zones, the one opened first in front.
    opened: Vec<u32>,
}

impl Model {
    pub fn new(geometry: &Geometry, capacity: u64) -> Self {
        let zones = (0..geometry.zones).map(|_| (State::Empty, Vec::new())).collect();
        Model { geometry: geometry.clone(), capacity, zones, opened: Vec::new() }
    }

    pub fn report(&self) -> Vec<Zone> {
        let zone = |(state, data): &(State, Vec<u8>)| {
            let written = if *state == State::Full { self.capacity } else { data.len() as u64 };
            Zone { capacity: self.capacity, written, state: *state }
        };
        self.zones.iter().map(zone).collect()
    }

    pub fn set(&mut self, zone: u32, state: State) {
        self.opened.retain(|other| *other != zone);
        if state == State::ImplicitlyOpen {
            self.opened.push(zone);
        }
        self.zones[zone as usize].0 = state;
    }

    fn count(&self, is: fn(State) -> bool) -> u32 {
        self.zones.iter().filter(|(state, _)| is(*state)).count() as u32
    }

    fn make_room(&mut self, zone: u32) -> Result<(), Kind> {
        if Some(self.count(State::is_open)) == self.geometry.max_open && !self.opened.is_empty() {
            let oldest = self.opened[0];
            self.set(oldest, State::Closed);
        }
        if !self.zones[zone as usize].0.is_active() && Some(self.count(State::is_active)) == self.geometry.max_active {
            return Err(Kind::TooManyActive);
        }
        if Some(self.count(State::is_open)) == self.geometry.max_open {
            return Err(Kind::TooManyOpen);
        }
        Ok(())
    }

    fn write(&mut self, zone: u32, at: Option<u64>, bytes: &[u8]) -> Result<u64, Kind> {
        let (state, data) = &self.zones[zone as usize];
        let (state, pointer) = (*state, data.len() as u64);
        match state {
            State::Full => return Err(Kind::Full),
            State::ReadOnly => return Err(Kind::ReadOnly),
            State::Offline => return Err(Kind::Offline),
            _ => {}
        }
        if at.is_some_and(|at| at != pointer) {
            return Err(Kind::InvalidWrite);
        }
        if pointer + bytes.len() as u64 > self.capacity {
            return Err(Kind::Boundary);
        }
        if !state.is_open() {
            self.make_room(zone)?;
            self.set(zone, State::ImplicitlyOpen);
        }
        self.zones[zone as usize].1.extend_from_slice(bytes);
        if self.zones[zone as usize].1.len() as u64 == self.capacity {
            self.set(zone, State::Full);
        }
        Ok(pointer)
    }

    fn manage(&mut self, command: &Command, zone: u32) -> Result<(), Kind> {
        let state = self.zones[zone as usize].0;
        let broken = matches!(state, State::ReadOnly | State::Offline);
        let becomes = match command {
            _ if broken => return Err(Kind::InvalidTransition),
            Command::Reset(_) => {
                self.zones[zone as usize].1.clear();
                State::Empty
            }
            Command::Finish(_) => State::Full,
            Command::Open(_) if state == State::Full => return Err(Kind::InvalidTransition),
            Command::Open(_) => {
                if !state.is_open() {
                    self.make_room(zone)?;
                }
                State::ExplicitlyOpen
            }
            _ if state.is_active() => State::Closed,
            _ => return Err(Kind::InvalidTransition),
        };
        self.set(zone, becomes);
        Ok(())
    }

    fn read(&self, zone: u32, at: u64, length: usize) -> Result<Vec<u8>, Kind> {
        let (state, data) = &self.zones[zone as usize];
        if *state == State::Offline {
            return Err(Kind::Offline);
        }
        if at + length as u64 > self.geometry.zone_size {
            return Err(Kind::Boundary);
        }
        Ok((at as usize..at as usize + length).map(|i| data.get(i).copied().unwrap_or(0)).collect())
    }

    pub fn run(&mut self, command: &Command) -> Outcome {
        let result = match command {
            Command::Write { zone, at, bytes } => self.write(*zone, Some(*at), bytes).map(|_| Outcome::Done),
            Command::Append { zone, bytes } => self.write(*zone, None, bytes).map(Outcome::At),
            Command::Read { zone, at, length } => self.read(*zone, *at, *length).map(Outcome::Bytes),
            Command::Reset(zone) | Command::Finish(zone) | Command::Open(zone) | Command::Close(zone) => {
                self.manage(command, *zone).map(|()| Outcome::Done)
            }
            Command::Flush => Ok(Outcome::Done),
        };
        result.unwrap_or_else(Outcome::Refused)
    }
}
