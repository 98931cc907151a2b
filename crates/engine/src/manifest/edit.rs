//! One atomic change of what the manifest says, and its bytes: a list of items, each `tag u8 | length varint | body`. A reader that
//! meets a tag it does not know skips it if the tag says so (high bit) and refuses the edit if not.

use super::apply::{Change, RunLocation};
use super::version::{KeyRange, OwnTimes, TableInfo};
use crate::coding::{Decoder, put_bytes, put_varint};
use crate::key::Seq;
use crate::tiering::age::Sample;
use sinter_storage::store::Temperature;
use std::sync::Arc;

/// Tags with this bit may be skipped by readers that do not know them.
const IGNORABLE: u8 = 0x80;
const DROP_FAMILY: u8 = 0x01;
const NEW_FAMILY: u8 = 0x02;
const FAMILY_SETTINGS: u8 = 0x03;
const DB_SETTINGS: u8 = 0x04;
const ADD_TABLE: u8 = 0x05;
const REMOVE_TABLE: u8 = 0x06;
const MOVE_TABLE: u8 = 0x07;
const FLUSHED_LOG: u8 = 0x08;
const NEW_LOG: u8 = 0x09;
const NEXT_NUMBER: u8 = 0x0a;
const LAST_SEQ: u8 = 0x0b;
const NEXT_FAMILY: u8 = 0x0c;
const LOG_LENGTH: u8 = 0x0e;
const TIER: u8 = 0x10;
/// Ages are estimates: losing a sample makes them coarser, never wrong.
const TIME_SAMPLE: u8 = IGNORABLE | 0x0d;
/// Settled bytes of the table that the item before adds. A reader that takes them for 0 merges sooner than it has to.
const SETTLED: u8 = IGNORABLE | 0x14;
/// Times of the table that the item before adds. A reader that does not know them takes entries to be as old as their numbers, and merges
/// in vain once.
const TIMED: u8 = IGNORABLE | 0x15;
/// For people: nothing follows from it.
const TIER_HEAT: u8 = IGNORABLE | 0x16;

/// A family that begins to exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewFamily {
    /// Id, never used before (dropped families included).
    pub id: u32,
    /// Name, unique among the families that exist.
    pub name: String,
    /// Settings as TOML.
    pub settings: String,
    /// Name of its merge operator; empty for none.
    pub operator: String,
    /// Levels of its tree, 1 to 255; fixed for life.
    pub num_levels: u8,
}

/// A change of one family's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChange {
    /// Id of the family.
    pub family: u32,
    /// The change.
    pub change: Change,
}

/// A store beside the primary one. A reader that does not know of it takes its tables for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTier {
    /// Temperature of the tables that the store holds.
    pub temperature: Temperature,
    /// Number of its identity file.
    pub number: u64,
    /// Checksum of the identity file.
    pub identity: u64,
}

/// Reads of a store's data as counted when the edit was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierHeat {
    /// Temperature of the store's tables; [`Temperature::Unknown`] is the primary store.
    pub temperature: Temperature,
    /// Gets that its tables answered, from one in [`crate::tiering::auto_cutoff::heat::SAMPLED`] that is counted.
    pub answered: u64,
    /// Start of counting, unix seconds.
    pub since: u64,
    /// End of counting, unix seconds.
    pub until: u64,
}

/// One atomic change. All its parts happen, in the order of the fields, or none does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// Ids of families that cease to exist, with all their tables.
    pub dropped_families: Vec<u32>,
    /// Families that begin to exist.
    pub new_families: Vec<NewFamily>,
    /// New settings (TOML) of families.
    pub family_settings: Vec<(u32, String)>,
    /// New settings (TOML) of the database.
    pub db_settings: Option<String>,
    /// Stores beside the primary one.
    pub tiers: Vec<KnownTier>,
    /// Tables added, removed and moved.
    pub tables: Vec<TableChange>,
    /// Per family: all log segments with a smaller number hold nothing that the family needs.
    pub flushed_logs: Vec<(u32, u64)>,
    /// Log segments that exist from now on and must be found at recovery, until every family's flushed log is above them.
    pub new_logs: Vec<u64>,
    /// Log segments and the length, bytes, up to which their records are known to be durable: a segment that is shorter was damaged, not
    /// cut by a crash.
    pub log_lengths: Vec<(u64, u64)>,
    /// File numbers below this have been used.
    pub next_number: Option<u64>,
    /// Sequence numbers up to this have been used.
    pub last_seq: Option<Seq>,
    /// Family ids below this have been used.
    pub next_family: Option<u32>,
    /// Samples of the time at which sequence numbers were written; ascending.
    pub time_samples: Vec<Sample>,
    /// Reads of each store's data.
    pub tier_heat: Vec<TierHeat>,
}

/// Appends one item; `scratch` is reused.
fn item(out: &mut Vec<u8>, scratch: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    scratch.clear();
    body(scratch);
    out.push(tag);
    put_bytes(out, scratch);
}

impl Edit {
    /// Ids of the families that it is about; some may come twice.
    pub(super) fn families(&self) -> impl Iterator<Item = u32> {
        let new = self.new_families.iter().map(|new| new.id);
        let settings = self.family_settings.iter().map(|(id, _)| *id);
        let logs = self.flushed_logs.iter().map(|(id, _)| *id);
        self.dropped_families.iter().copied().chain(new).chain(settings).chain(logs).chain(self.tables.iter().map(|t| t.family))
    }

    /// Appends the edit's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let scratch = &mut Vec::new();
        for id in &self.dropped_families {
            item(out, scratch, DROP_FAMILY, |b| put_varint(b, u64::from(*id)));
        }
        for family in &self.new_families {
            item(out, scratch, NEW_FAMILY, |b| put_family(b, family));
        }
        for (id, settings) in &self.family_settings {
            item(out, scratch, FAMILY_SETTINGS, |b| {
                put_varint(b, u64::from(*id));
                put_bytes(b, settings.as_bytes());
            });
        }
        if let Some(settings) = &self.db_settings {
            item(out, scratch, DB_SETTINGS, |b| put_bytes(b, settings.as_bytes()));
        }
        for tier in &self.tiers {
            item(out, scratch, TIER, |b| put_tier(b, tier));
        }
        for TableChange { family, change } in &self.tables {
            let tag = match change {
                Change::Add { .. } => ADD_TABLE,
                Change::Remove { .. } => REMOVE_TABLE,
                Change::Move { .. } => MOVE_TABLE,
            };
            item(out, scratch, tag, |b| {
                put_varint(b, u64::from(*family));
                put_change(b, change);
            });
            if let Change::Add { table, .. } = change {
                put_extras(out, scratch, table);
            }
        }
        for (family, log) in &self.flushed_logs {
            item(out, scratch, FLUSHED_LOG, |b| [u64::from(*family), *log].into_iter().for_each(|n| put_varint(b, n)));
        }
        for log in &self.new_logs {
            item(out, scratch, NEW_LOG, |b| put_varint(b, *log));
        }
        for (log, length) in &self.log_lengths {
            item(out, scratch, LOG_LENGTH, |b| [*log, *length].into_iter().for_each(|n| put_varint(b, n)));
        }
        let counters = [(NEXT_NUMBER, self.next_number), (LAST_SEQ, self.last_seq), (NEXT_FAMILY, self.next_family.map(u64::from))];
        for (tag, value) in counters {
            if let Some(value) = value {
                item(out, scratch, tag, |b| put_varint(b, value));
            }
        }
        for (seq, seconds) in &self.time_samples {
            item(out, scratch, TIME_SAMPLE, |b| [*seq, *seconds].into_iter().for_each(|n| put_varint(b, n)));
        }
        for TierHeat { temperature, answered, since, until } in &self.tier_heat {
            item(out, scratch, TIER_HEAT, |b| {
                b.push(*temperature as u8);
                [*answered, *since, *until].into_iter().for_each(|n| put_varint(b, n));
            });
        }
    }

    /// Reads an edit; `None` if the bytes are not one, or one that this program does not fully understand.
    pub fn decode(bytes: &[u8]) -> Option<Edit> {
        let mut edit = Edit::default();
        let mut from = Decoder::new(bytes);
        while !from.is_empty() {
            let tag = from.u8()?;
            let mut body = Decoder::new(from.prefixed()?);
            let known = edit.decode_item(tag, &mut body)?;
            if known && !body.is_empty() || !known && tag & IGNORABLE == 0 {
                return None;
            }
        }
        Some(edit)
    }

    /// Reads one item; false if the tag is unknown.
    fn decode_item(&mut self, tag: u8, body: &mut Decoder<'_>) -> Option<bool> {
        match tag {
            DROP_FAMILY => self.dropped_families.push(id(body)?),
            NEW_FAMILY => self.new_families.push(family(body)?),
            FAMILY_SETTINGS => self.family_settings.push((id(body)?, text(body)?)),
            DB_SETTINGS => once(&mut self.db_settings, text(body)?)?,
            TIER => self.tiers.push(tier(body)?),
            ADD_TABLE | REMOVE_TABLE | MOVE_TABLE => {
                self.tables.push(TableChange { family: id(body)?, change: change(tag, body)? });
            }
            FLUSHED_LOG => self.flushed_logs.push((id(body)?, body.varint()?)),
            NEW_LOG => self.new_logs.push(body.varint()?),
            LOG_LENGTH => self.log_lengths.push((body.varint()?, body.varint()?)),
            NEXT_NUMBER => once(&mut self.next_number, body.varint()?)?,
            LAST_SEQ => once(&mut self.last_seq, body.varint()?)?,
            NEXT_FAMILY => once(&mut self.next_family, id(body)?)?,
            TIME_SAMPLE => self.time_samples.push((body.varint()?, body.varint()?)),
            TIER_HEAT => {
                let temperature = Temperature::from_byte(body.u8()?)?;
                let (answered, since, until) = (body.varint()?, body.varint()?, body.varint()?);
                self.tier_heat.push(TierHeat { temperature, answered, since, until });
            }
            SETTLED => {
                let table = self.added(body.varint()?)?;
                table.settled = body.varint()?;
            }
            TIMED => {
                let table = self.added(body.varint()?)?;
                let mut pair = || Some((body.varint()?, body.varint()?));
                let (times, others) = (pair()?, pair()?);
                table.timed = Some(OwnTimes { entries: body.varint()?, times, others });
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// The table that the last item added, which has this number.
    fn added(&mut self, number: u64) -> Option<&mut TableInfo> {
        let Change::Add { table, .. } = &mut self.tables.last_mut()?.change else { return None };
        Some(Arc::make_mut(table)).filter(|table| table.number == number)
    }
}

/// A field that an edit has at most once.
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

fn id(from: &mut Decoder<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

fn text(from: &mut Decoder<'_>) -> Option<String> {
    String::from_utf8(from.prefixed()?.to_vec()).ok()
}

fn put_family(out: &mut Vec<u8>, family: &NewFamily) {
    put_varint(out, u64::from(family.id));
    [&family.name, &family.settings, &family.operator].into_iter().for_each(|s| put_bytes(out, s.as_bytes()));
    out.push(family.num_levels);
}

fn family(from: &mut Decoder<'_>) -> Option<NewFamily> {
    let (id, name, settings, operator) = (id(from)?, text(from)?, text(from)?, text(from)?);
    Some(NewFamily { id, name, settings, operator, num_levels: from.u8()? })
}

fn put_place(out: &mut Vec<u8>, place: &RunLocation) {
    put_varint(out, place.level as u64);
    put_varint(out, place.run);
}

fn place(from: &mut Decoder<'_>) -> Option<RunLocation> {
    Some(RunLocation { level: usize::try_from(from.varint()?).ok()?, run: from.varint()? })
}

fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Add { to, table } => {
            put_place(out, to);
            put_table(out, table);
        }
        Change::Remove { from, number } => {
            put_place(out, from);
            put_varint(out, *number);
        }
        Change::Move { from, to, number } => {
            put_place(out, from);
            put_place(out, to);
            put_varint(out, *number);
        }
    }
}

fn change(tag: u8, body: &mut Decoder<'_>) -> Option<Change> {
    Some(match tag {
        ADD_TABLE => Change::Add { to: place(body)?, table: Arc::new(table(body)?) },
        REMOVE_TABLE => Change::Remove { from: place(body)?, number: body.varint()? },
        _ => Change::Move { from: place(body)?, to: place(body)?, number: body.varint()? },
    })
}

fn put_table(out: &mut Vec<u8>, table: &TableInfo) {
    put_varint(out, table.number);
    put_varint(out, table.bytes);
    out.extend_from_slice(&table.identity.to_le_bytes());
    put_bytes(out, &table.range.smallest);
    put_bytes(out, &table.range.largest);
    out.push(u8::from(table.range.end_exclusive));
    let counts = [
        table.min_seq,
        table.max_seq,
        table.entries,
        table.tombstones,
        table.range_tombstones,
        table.merges,
        table.raw_bytes,
        table.oldest_time,
        table.newest_time,
    ];
    counts.into_iter().for_each(|n| put_varint(out, n));
    out.push(table.temperature as u8);
}

/// Numbers of a table that readers need not know: items of their own behind the one that adds the table.
fn put_extras(out: &mut Vec<u8>, scratch: &mut Vec<u8>, table: &TableInfo) {
    let mut put = |tag, numbers: &[u64]| {
        item(out, scratch, tag, |b| numbers.iter().for_each(|n| put_varint(b, *n)));
    };
    if table.settled > 0 {
        put(SETTLED, &[table.number, table.settled]);
    }
    if let Some(OwnTimes { entries, times, others }) = table.timed {
        put(TIMED, &[table.number, times.0, times.1, others.0, others.1, entries]);
    }
}

fn table(from: &mut Decoder<'_>) -> Option<TableInfo> {
    let (number, bytes, identity) = (from.varint()?, from.varint()?, from.u64()?);
    let (smallest, largest) = (from.prefixed()?.to_vec(), from.prefixed()?.to_vec());
    let end_exclusive = match from.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(TableInfo {
        number,
        bytes,
        identity,
        range: KeyRange { smallest, largest, end_exclusive },
        min_seq: from.varint()?,
        max_seq: from.varint()?,
        entries: from.varint()?,
        tombstones: from.varint()?,
        range_tombstones: from.varint()?,
        merges: from.varint()?,
        raw_bytes: from.varint()?,
        oldest_time: from.varint()?,
        newest_time: from.varint()?,
        temperature: Temperature::from_byte(from.u8()?)?,
        settled: 0,
        timed: None,
    })
}

fn put_tier(out: &mut Vec<u8>, tier: &KnownTier) {
    out.push(tier.temperature as u8);
    put_varint(out, tier.number);
    out.extend_from_slice(&tier.identity.to_le_bytes());
}

fn tier(from: &mut Decoder<'_>) -> Option<KnownTier> {
    Some(KnownTier { temperature: Temperature::from_byte(from.u8()?)?, number: from.varint()?, identity: from.u64()? })
}
