//! Outcomes of a power cut for a zone: of its changes since the last flush, in order, a prefix is left, cut at any block. A reset that is
//! lost brings back the content that it took.

use super::content::ZoneBytes;
use super::rules::ZoneRecord;
use crate::random::Xorshift;
use crate::store::CrashMode;
use crate::zoned::ZoneState;

/// Changes of a zone that were not flushed. Each block written is a step, each finish and each reset.
#[derive(Debug, Clone, Copy)]
pub struct Unflushed<'a> {
    /// The zone.
    pub zone: u32,
    /// After how many steps each call ended, ascending; never empty.
    pub ends: &'a [u64],
}

impl Unflushed<'_> {
    /// Number of steps that are not flushed.
    pub fn steps(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// Decides the outcome of one power cut. Called once for each zone that has a choice.
pub trait ZoneFate {
    /// Number of the steps that survive.
    fn survivors(&mut self, unflushed: &Unflushed<'_>) -> u64;
}

/// A ready-made fate.
pub(super) fn fate(mode: CrashMode) -> Box<dyn ZoneFate> {
    match mode {
        CrashMode::DropUnsynced => Box::new(Drawn { random: Xorshift::new(0), temper: 0 }),
        CrashMode::KeepAll => Box::new(Drawn { random: Xorshift::new(0), temper: 1 }),
        CrashMode::Random(seed) => {
            let mut random = Xorshift::new(seed);
            let temper = random.below(6);
            Box::new(Drawn { random, temper })
        }
    }
}

/// Temper 0 drops everything, 1 keeps everything, others draw for each zone: many faults show only when one side is whole.
struct Drawn {
    random: Xorshift,
    temper: u64,
}

impl ZoneFate for Drawn {
    fn survivors(&mut self, unflushed: &Unflushed<'_>) -> u64 {
        let all = unflushed.steps();
        let kind = if self.temper > 1 { self.random.below(6) } else { self.temper };
        match kind {
            0 => 0,
            1 => all,
            2 => unflushed.ends[self.random.below(unflushed.ends.len() as u64) as usize],
            _ => self.random.below(all + 1),
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    /// Blocks.
    Written(u64),
    Finished,
    Reset,
}

/// A zone since the last flush.
#[derive(Clone, Default)]
pub(super) struct History {
    /// The zone before the first event.
    start: Option<ZoneRecord>,
    events: Vec<Event>,
    /// Steps at the end of each event.
    ends: Vec<u64>,
    /// Content that each reset took, in order.
    taken: Vec<ZoneBytes>,
}

impl History {
    pub(super) fn written(&mut self, before: ZoneRecord, blocks: u64) {
        self.push(before, Event::Written(blocks), blocks);
    }

    pub(super) fn finished(&mut self, before: ZoneRecord) {
        self.push(before, Event::Finished, 1);
    }

    pub(super) fn reset(&mut self, before: ZoneRecord, content: ZoneBytes) {
        self.push(before, Event::Reset, 1);
        self.taken.push(content);
    }

    fn push(&mut self, before: ZoneRecord, event: Event, steps: u64) {
        self.start.get_or_insert(before);
        self.events.push(event);
        self.ends.push(self.ends.last().copied().unwrap_or(0) + steps);
    }

    pub(super) fn flush(&mut self) {
        *self = History::default();
    }

    /// The choice that a power cut has, if there is one.
    pub(super) fn unflushed(&self, zone: u32) -> Option<Unflushed<'_>> {
        (!self.ends.is_empty()).then_some(Unflushed { zone, ends: &self.ends })
    }

    /// The zone, before it is powered on again, of whose history only so many steps are left. `now` and `content` are its present.
    pub(super) fn after(&self, now: ZoneRecord, content: &ZoneBytes, steps: u64, block: u64) -> (ZoneRecord, ZoneBytes) {
        let Some(start) = self.start else { return (now, content.clone()) };
        if matches!(now.state, ZoneState::ReadOnly | ZoneState::Offline) {
            return (now, content.clone());
        }
        let (mut record, mut left, mut resets) = (start, steps, 0);
        for event in &self.events {
            if left == 0 {
                break;
            }
            match *event {
                Event::Written(blocks) => {
                    let arrived = blocks.min(left);
                    record.data += arrived * block;
                    record.state = if record.data == record.capacity { ZoneState::Full } else { ZoneState::Closed };
                    left -= arrived;
                }
                Event::Finished => {
                    record.state = ZoneState::Full;
                    left -= 1;
                }
                Event::Reset => {
                    record = ZoneRecord { data: 0, state: ZoneState::Empty, resets: record.resets.saturating_add(1), ..record };
                    resets += 1;
                    left -= 1;
                }
            }
        }
        // Between two resets a zone only grows, so what it held at the end of that time begins with what it held at any point of it.
        (record, self.taken.get(resets).unwrap_or(content).clone())
    }
}
