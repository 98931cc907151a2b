//! Requests of the clients of a phase, one after another: a pure function of workload, phase, seed and thread, so that the requests can be
//! drawn again after the measurement to count the keys that are alive.

use crate::run::{Calls, Distribution, EngineSpec, Mix, Order, Pace, PhaseKind, Template, ValueSize, Workload, Writer};
use crate::workload::{
    Distribution as Draw, KeyStream, Latest, Permutation, Recent, ValueSizes, Xoshiro256PlusPlus, Zipf, mix as scramble,
};
use std::ops::Range;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    /// Asks for a key that is one character longer than any stored one.
    GetMissing,
    Put,
    Insert,
    Delete,
    ReadModifyWrite,
    Scan,
    /// Seeks a key and reads a fixed number of entries; found if the key exists.
    Seek,
    /// A step of an iterator that the thread keeps open, from the first entry on or from the last one.
    Walk,
    WalkBack,
    /// Sends a server the command of a template.
    Command,
}

impl Operation {
    /// The operation with this name in a mix; `None` if there is none.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "get" => Operation::Get,
            "get_missing" => Operation::GetMissing,
            "put" => Operation::Put,
            "insert" => Operation::Insert,
            "delete" => Operation::Delete,
            "read_modify_write" => Operation::ReadModifyWrite,
            "scan" => Operation::Scan,
            "seek" => Operation::Seek,
            "walk" => Operation::Walk,
            "walk_back" => Operation::WalkBack,
            template => return Template::parse(template).ok().map(|_| Operation::Command),
        })
    }

    pub fn writes_value(self) -> bool {
        matches!(self, Operation::Put | Operation::Insert | Operation::ReadModifyWrite)
    }
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A loaded key.
    Loaded(u64),
    /// An inserted key, next to a loaded one.
    Inserted { neighbour: u64, number: u64 },
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Index into [`Plan::kinds`].
    pub kind: usize,
    pub operation: Operation,
    /// Index into the spec's families.
    pub family: usize,
    pub key: Key,
    /// Bytes of the value, or of each value of a command; or entries of the scan or seek.
    pub size: usize,
}

/// An operation of a mix.
#[derive(Debug)]
struct Row {
    /// Cumulative weight, this row included.
    upto: f64,
    mix: usize,
    operation: Operation,
    /// Name of the operation in the mix.
    asks: String,
    name: String,
}

/// The keys of a mix.
#[derive(Debug)]
struct MixKeys {
    family: usize,
    first: u64,
    count: u64,
    source: Source,
    scan_length: usize,
}

#[derive(Debug)]
enum Source {
    Drawn(Draw),
    Latest(f64),
}

/// Length of a phase, and starts of its operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// Operations of all threads, or of each ([`Calls::per_thread`]); the greatest number if seconds decide.
    pub count: u64,
    /// Seconds, infinite if the count decides, and the part of them that is warm-up.
    pub seconds: f64,
    pub warm_up: f64,
    pub pace: Pace,
}

/// Plan of a phase, shared by all its threads.
#[derive(Debug)]
pub(crate) struct Plan {
    pub length: Length,
    /// Additional thread that only writes; the last row and the last place belong to it, and its number follows those of the clients.
    pub writer: Option<Writer>,
    /// How operations are called.
    pub calls: Calls,
    rows: Vec<Row>,
    places: Vec<MixKeys>,
    sizes: ValueSizes,
    seed: u64,
    phase: u64,
    /// Threads that make the requests of the mixes.
    clients: u64,
    /// First number for inserts of this phase; smaller ones belong to earlier phases.
    first_insert: u64,
}

impl Plan {
    /// The plan of a phase; `None` if the phase makes no requests.
    pub fn of(kind: &PhaseKind, workload: &Workload, engine: &EngineSpec, seed: u64, phase: usize, first_insert: u64) -> Option<Plan> {
        let (count, seconds, warm_up, pace) = match *kind {
            PhaseKind::Run { operations, seconds, warm_up_seconds, pace, .. } => (operations, seconds, warm_up_seconds, pace),
            _ => (Some(workload.keys), None, 0.0, Pace::Closed),
        };
        let length = Length { count: count.unwrap_or(u64::MAX), seconds: seconds.unwrap_or(f64::INFINITY), warm_up, pace };
        let (mut mixes, clients, writer, calls) = match kind {
            PhaseKind::Load { order, threads } => (vec![load_mix(*order)], *threads, None, Calls::default()),
            PhaseKind::Run { mixes, threads, writer, calls, .. } => (mixes.clone(), *threads, *writer, *calls),
            _ => return None,
        };
        mixes.extend(writer.map(|writer| Mix { name: "writer".into(), ..Mix::puts(writer.distribution) }));
        let (mut rows, mut upto) = (Vec::new(), 0.0);
        for (index, mix) in mixes.iter().enumerate() {
            let sum: f64 = mix.operations.values().sum();
            for (name, weight) in &mix.operations {
                let Some(operation) = Operation::named(name) else { continue };
                upto += mix.weight * weight / sum;
                rows.push(Row { upto, mix: index, operation, asks: name.clone(), name: format!("{} {name}", mix.name) });
            }
        }
        let family = |mix: &Mix| engine.families.iter().position(|family| Some(&family.name) == mix.family.as_ref()).unwrap_or(0);
        let place = |(index, mix): (usize, &Mix)| {
            let keys = mix.keys(workload.keys);
            let count = keys.end - keys.start;
            let source = source(mix.distribution, count, [seed, phase as u64, index as u64]);
            MixKeys { family: family(mix), first: keys.start, count, source, scan_length: mix.scan_length }
        };
        let sizes = sizes(workload.value_size);
        Some(Plan {
            length,
            rows,
            places: mixes.iter().enumerate().map(place).collect(),
            sizes,
            seed,
            phase: phase as u64,
            clients: clients as u64,
            writer,
            calls,
            first_insert,
        })
    }

    /// Number of threads that share the operations of the phase; they are numbered from 0.
    pub fn clients(&self) -> usize {
        self.clients as usize
    }

    /// Operations of a client.
    pub fn share(&self, client: usize) -> u64 {
        let (client, count) = (client as u64, self.length.count);
        if self.calls.per_thread { count } else { count / self.clients + u64::from(client < count % self.clients) }
    }

    /// Number of threads that make requests.
    pub fn threads(&self) -> usize {
        self.clients() + usize::from(self.writer.is_some())
    }

    /// Names of the kinds of requests, such as `hot get`.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.name.as_str())
    }

    /// Operation of each kind, by its name in the mix.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.asks.as_str())
    }

    /// Generator of the members and scores in a thread's commands.
    pub fn holes(&self, thread: usize) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::stream(self.seed, stream(self.phase, HOLES, thread as u64))
    }

    /// Families touched by the operations for which `wanted` is true.
    pub fn families(&self, wanted: impl Fn(Operation) -> bool) -> impl Iterator<Item = usize> {
        self.rows.iter().filter(move |row| wanted(row.operation)).map(|row| self.places[row.mix].family)
    }

    /// First number for inserts of the next phase, if no thread of this one made more than `operations` requests.
    pub fn next_insert(&self, operations: u64) -> u64 {
        self.first_insert.saturating_add(operations.saturating_mul(self.clients * self.places.len() as u64))
    }

    /// The requests of one thread, from the first.
    pub fn requests(&self, thread: usize) -> Requests<'_> {
        let thread = thread as u64;
        let writes_meanwhile = thread >= self.clients;
        let (share, shares) = if writes_meanwhile || self.calls.per_thread { (0, 1) } else { (thread, self.clients) };
        let seed = self.seed ^ scramble(self.calls.salt);
        let last = self.rows.len() - usize::from(self.writer.is_some());
        let stream = |number: usize| stream(self.phase, number as u64, thread);
        let streams = self.places.iter().enumerate().map(|(i, place)| match &place.source {
            Source::Drawn(draw) => Stream::Drawn(KeyStream::new(place.count, draw.clone(), seed, stream(i + 1)).share(share, shares)),
            Source::Latest(alpha) => Stream::Latest(Latest::new(place.count, *alpha), Xoshiro256PlusPlus::stream(seed, stream(i + 1))),
        });
        Requests {
            plan: self,
            kinds: if writes_meanwhile { last..self.rows.len() } else { 0..last },
            thread,
            random: Xoshiro256PlusPlus::stream(seed, stream(0)),
            inserts: vec![0; self.places.len()],
            streams: streams.collect(),
        }
    }
}

/// Number of the random stream of [`Plan::holes`].
const HOLES: u64 = (1 << 20) - 1;

/// Number of a random stream of a thread in a phase, for up to 2^20 mixes and threads each: stream 0 chooses operations and sizes, stream
/// `i + 1` the keys of mix `i`.
fn stream(phase: u64, number: u64, thread: u64) -> u64 {
    phase << 40 | number << 20 | thread
}

/// A load as a mix.
fn load_mix(order: Order) -> Mix {
    let distribution = match order {
        Order::Sequential => Distribution::Sequential,
        Order::Random => Distribution::Unique,
    };
    Mix { name: "load".into(), ..Mix::puts(distribution) }
}

/// Draws from `count` keys, for the mix of a seed, phase and index.
fn source(distribution: Distribution, count: u64, of: [u64; 3]) -> Source {
    Source::Drawn(match distribution {
        Distribution::Sequential => Draw::Sequential,
        Distribution::Uniform => Draw::Uniform,
        // Seed, phase and index are hashed one after the other. Repeats have consecutive seeds: with a sum, phase 1 of one repeat would
        // have the order of phase 0 of the next.
        Distribution::Unique => Draw::Unique(Permutation::new(count, of.into_iter().fold(1, |key, part| scramble(key ^ scramble(part))))),
        // One permutation in all phases: popular keys stay popular.
        Distribution::Zipf(alpha) => Draw::Zipf(Zipf::new(count, alpha), Permutation::new(count, scramble(!of[0]))),
        Distribution::Exponential(0.0) => Draw::Uniform,
        Distribution::Exponential(range) => Draw::Exponential(range),
        Distribution::Latest(alpha) => return Source::Latest(alpha),
    })
}

pub(super) fn sizes(size: ValueSize) -> ValueSizes {
    match size {
        ValueSize::Fixed(size) => ValueSizes::Fixed(size),
        ValueSize::Uniform(least, most) => ValueSizes::Uniform(least, most),
        ValueSize::Pareto { scale, shape, most } => ValueSizes::Pareto { scale, shape, most },
    }
}

/// Key stream of a thread for a mix.
enum Stream {
    Drawn(KeyStream),
    Latest(Latest, Xoshiro256PlusPlus),
}

/// The requests of a thread.
pub(crate) struct Requests<'a> {
    plan: &'a Plan,
    /// Range of the plan's kinds from which this thread draws.
    kinds: Range<usize>,
    thread: u64,
    random: Xoshiro256PlusPlus,
    streams: Vec<Stream>,
    /// Inserts so far, by mix.
    inserts: Vec<u64>,
}

/// Requests of one kind.
pub(crate) struct Only<'r> {
    pub kind: usize,
    pub operation: Operation,
    pub family: usize,
    scan_length: usize,
    first: u64,
    keys: &'r mut KeyStream,
    sizes: ValueSizes,
    random: &'r mut Xoshiro256PlusPlus,
}

impl Only<'_> {
    /// The next loaded key.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.first + self.keys.next_key()
    }

    /// Bytes of the value of a request that writes one.
    #[inline]
    pub fn value_size(&mut self) -> usize {
        self.sizes.draw(self.random)
    }

    /// Entries to read by a scan or seek.
    #[inline]
    pub fn length(&mut self) -> usize {
        if self.operation == Operation::Seek { self.scan_length } else { 1 + self.random.below(self.scan_length as u64) as usize }
    }

    /// The next request; its size is 0 if it writes no value.
    #[inline]
    pub fn next_request(&mut self) -> Request {
        let size = if self.operation.writes_value() { self.value_size() } else { 0 };
        Request { kind: self.kind, operation: self.operation, family: self.family, key: Key::Loaded(self.number()), size }
    }
}

impl Requests<'_> {
    /// The next request.
    #[inline]
    pub fn next_request(&mut self) -> Request {
        let plan = self.plan;
        let rows = &plan.rows[self.kinds.clone()];
        let nth = match rows {
            [_] => 0,
            _ => {
                let draw = self.random.unit() * rows.last().map_or(0.0, |row| row.upto);
                rows.iter().position(|row| draw < row.upto).unwrap_or(rows.len() - 1)
            }
        };
        let (kind, mix, operation) = (self.kinds.start + nth, rows[nth].mix, rows[nth].operation);
        let place = &plan.places[mix];
        let key = if operation == Operation::Insert { self.insert(mix) } else { self.draw(mix) };
        let size = match operation {
            Operation::Scan => 1 + self.random.below(place.scan_length as u64) as usize,
            Operation::Seek => place.scan_length,
            Operation::Command => plan.sizes.draw(&mut self.random),
            operation if operation.writes_value() => plan.sizes.draw(&mut self.random),
            _ => 0,
        };
        Request { kind, operation, family: place.family, key, size }
    }

    /// The requests of a thread that has only one kind of them, at loaded keys: a shorter way to the draws of [`Requests::next_request`].
    pub fn only(&mut self) -> Option<Only<'_>> {
        let [row] = &self.plan.rows[self.kinds.clone()] else { return None };
        let MixKeys { family, first, scan_length, .. } = self.plan.places[row.mix];
        let Stream::Drawn(keys) = &mut self.streams[row.mix] else { return None };
        let (kind, operation, sizes, random) = (self.kinds.start, row.operation, self.plan.sizes, &mut self.random);
        (operation != Operation::Insert).then_some(Only { kind, operation, family, scan_length, first, keys, sizes, random })
    }

    #[inline]
    fn draw(&mut self, mix: usize) -> Key {
        let first = self.plan.places[mix].first;
        match &mut self.streams[mix] {
            Stream::Drawn(keys) => Key::Loaded(first + keys.next_key()),
            Stream::Latest(latest, random) => match latest.draw(random) {
                Recent::Loaded(number) => Key::Loaded(first + number),
                Recent::Inserted(nth) => self.inserted(mix, nth),
            },
        }
    }

    fn insert(&mut self, mix: usize) -> Key {
        let nth = self.inserts[mix];
        self.inserts[mix] += 1;
        if let Stream::Latest(latest, _) = &mut self.streams[mix] {
            latest.insert();
        }
        self.inserted(mix, nth)
    }

    /// The nth key that this thread inserts for a mix. Its number is unique among threads, mixes and phases.
    fn inserted(&self, mix: usize, nth: u64) -> Key {
        let Plan { places, clients, first_insert, seed, .. } = self.plan;
        let number = first_insert + (nth * clients + self.thread) * places.len() as u64 + mix as u64;
        let MixKeys { first, count, .. } = places[mix];
        let hash = scramble(number.wrapping_add(scramble(*seed)));
        Key::Inserted { neighbour: first + ((u128::from(hash) * u128::from(count)) >> 64) as u64, number }
    }
}

#[cfg(test)]
mod tests;
