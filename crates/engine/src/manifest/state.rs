//! The manifest's content in memory: edits lead from one state to the next, and a state can be written as one edit.

use super::apply::Change;
use super::edit::{Edit, KnownTier, NewFamily, TableChange, TierHeat};
use super::{RunLocation, Version};
use crate::checksum::DbId;
use crate::key::{MAX_SEQ, Seq};
use crate::tiering::age::TimeMap;
use sinter_storage::store::Temperature;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One column family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyState {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Settings as TOML.
    pub settings: String,
    /// Name of its merge operator; empty for none.
    pub operator: String,
    /// Tree of tables.
    pub version: Arc<Version>,
    /// Number of the oldest log segment that may hold data not yet flushed.
    pub flushed_log: u64,
}

/// Content of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestState {
    /// The database.
    pub db: DbId,
    /// Families by id, without dropped ones.
    pub families: BTreeMap<u32, FamilyState>,
    /// Settings of the database as TOML.
    pub settings: String,
    /// Stores beside the primary one.
    pub tiers: BTreeMap<Temperature, KnownTier>,
    /// Log segments that some family still needs; each must exist.
    pub logs: BTreeSet<u64>,
    /// Synced lengths of log segments, bytes, as far as recorded: each segment is at least so long.
    pub log_lengths: BTreeMap<u64, u64>,
    /// File numbers below this have been used.
    pub next_number: u64,
    /// Sequence numbers up to this have been used.
    pub last_seq: Seq,
    /// Family ids below this have been used, those of dropped families included, because records in the log still name them.
    pub next_family: u32,
    /// Samples of the time at which sequence numbers were written.
    pub times: Arc<TimeMap>,
    /// Counts of reads from each store, as last recorded.
    pub heat: BTreeMap<Temperature, TierHeat>,
    /// Ids of the families by name.
    pub(super) names: BTreeMap<String, u32>,
    /// The families by the oldest log segment that each needs.
    pub(super) by_log: BTreeSet<(u64, u32)>,
}

/// The checked result of an edit that is not in effect yet ([`ManifestState::prepare`]).
#[derive(Debug)]
pub struct Prepared {
    /// The state after the edit; without families that the edit does not concern.
    next: ManifestState,
    /// Ids of the families that the edit concerns, dropped ones included.
    touched: BTreeSet<u32>,
}

impl ManifestState {
    /// A database that holds nothing, not even a family.
    pub fn new(db: DbId) -> Self {
        ManifestState {
            db,
            families: BTreeMap::new(),
            settings: String::new(),
            tiers: BTreeMap::new(),
            logs: BTreeSet::new(),
            log_lengths: BTreeMap::new(),
            next_number: 1,
            last_seq: 0,
            next_family: 0,
            times: Arc::default(),
            heat: BTreeMap::new(),
            names: BTreeMap::new(),
            by_log: BTreeSet::new(),
        }
    }

    /// The family of that name.
    pub fn family(&self, name: &str) -> Option<&FamilyState> {
        self.families.get(self.names.get(name)?)
    }

    /// The oldest log segment that a family needs.
    pub fn needed_log(&self) -> u64 {
        self.by_log.first().map_or(0, |(log, _)| *log)
    }

    /// The oldest log segment that each family needs, and the family; in ascending order.
    pub fn families_by_log(&self) -> impl Iterator<Item = (u64, u32)> {
        self.by_log.iter().copied()
    }

    /// Makes no family need any log segment.
    pub fn forget_logs(&mut self) {
        self.logs.clear();
        self.log_lengths.clear();
        self.families.values_mut().for_each(|f| f.flushed_log = self.next_number);
        self.by_log = self.families.keys().map(|id| (self.next_number, *id)).collect();
    }

    /// The newest log segment.
    pub fn newest_log(&self) -> Option<u64> {
        self.logs.last().copied()
    }

    /// Applies an edit. An edit that does not apply is refused with the reason, and nothing changes. The counters also rise above every
    /// number that the edit mentions, so that none is ever used twice.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        let next = self.prepare(edit)?;
        self.accept(next);
        Ok(())
    }

    /// The part of [`ManifestState::apply`] that can fail; [`ManifestState::accept`] is the rest. The cost depends on the families
    /// that the edit names, not on the number of all families.
    pub fn prepare(&self, edit: &Edit) -> Result<Prepared, String> {
        let touched: BTreeSet<u32> = edit.families().collect();
        let families = touched.iter().filter_map(|id| Some((*id, self.families.get(id)?.clone()))).collect();
        let mut next = ManifestState {
            families,
            settings: self.settings.clone(),
            tiers: self.tiers.clone(),
            logs: self.logs.clone(),
            log_lengths: self.log_lengths.clone(),
            times: self.times.clone(),
            heat: self.heat.clone(),
            next_number: self.next_number,
            last_seq: self.last_seq,
            next_family: self.next_family,
            ..ManifestState::new(self.db)
        };
        next.apply_families(edit, self)?;
        next.apply_tables(edit)?;
        next.apply_logs(edit)?;
        next.next_number = next.next_number.max(edit.next_number.unwrap_or(0));
        next.last_seq = next.last_seq.max(edit.last_seq.unwrap_or(0));
        next.next_family = next.next_family.max(edit.next_family.unwrap_or(0));
        edit.time_samples.iter().for_each(|(seq, time)| next.note_time(*seq, *time));
        next.heat.extend(edit.tier_heat.iter().map(|heat| (heat.temperature, *heat)));
        if next.last_seq > MAX_SEQ {
            return Err(format!("sequence number {} is larger than any", next.last_seq));
        }
        Ok(Prepared { next, touched })
    }

    /// Puts a prepared edit into effect. It must have been prepared from this state, unchanged since.
    pub fn accept(&mut self, prepared: Prepared) {
        let Prepared { mut next, touched } = prepared;
        for id in touched {
            if let Some(old) = self.families.remove(&id) {
                self.names.remove(&old.name);
                self.by_log.remove(&(old.flushed_log, id));
            }
        }
        for (id, family) in std::mem::take(&mut next.families) {
            self.names.insert(family.name.clone(), id);
            self.by_log.insert((family.flushed_log, id));
            self.families.insert(id, family);
        }
        next.families = std::mem::take(&mut self.families);
        next.names = std::mem::take(&mut self.names);
        next.by_log = std::mem::take(&mut self.by_log);
        *self = next;
        if let Some((needed, _)) = self.by_log.first() {
            self.logs = self.logs.split_off(needed);
            self.log_lengths = self.log_lengths.split_off(needed);
        }
    }

    fn apply_families(&mut self, edit: &Edit, before: &ManifestState) -> Result<(), String> {
        for id in &edit.dropped_families {
            self.families.remove(id).ok_or_else(|| no_family(*id))?;
        }
        for new in &edit.new_families {
            if new.id < self.next_family {
                return Err(format!("family id {} has been used before", new.id));
            }
            let lives_on = |id: &u32| !edit.dropped_families.contains(id);
            if before.names.get(&new.name).is_some_and(lives_on) || self.names.insert(new.name.clone(), new.id).is_some() {
                return Err(format!("a family named {:?} exists", new.name));
            }
            if new.num_levels == 0 {
                return Err(format!("family {:?} has no levels", new.name));
            }
            self.next_family = new.id.checked_add(1).ok_or("family ids are used up")?;
            let family = FamilyState {
                id: new.id,
                name: new.name.clone(),
                settings: new.settings.clone(),
                operator: new.operator.clone(),
                version: Arc::new(Version::empty(usize::from(new.num_levels))),
                flushed_log: 0,
            };
            self.families.insert(new.id, family);
        }
        for (id, settings) in &edit.family_settings {
            self.family_mut(*id)?.settings.clone_from(settings);
        }
        if let Some(settings) = &edit.db_settings {
            self.settings.clone_from(settings);
        }
        for tier in &edit.tiers {
            if tier.temperature == Temperature::Unknown {
                return Err("a tier has no temperature".into());
            }
            self.number_used(tier.number)?;
            self.tiers.insert(tier.temperature, *tier);
        }
        Ok(())
    }

    fn apply_tables(&mut self, edit: &Edit) -> Result<(), String> {
        let mut by_family: BTreeMap<u32, Vec<&Change>> = BTreeMap::new();
        edit.tables.iter().for_each(|t| by_family.entry(t.family).or_default().push(&t.change));
        for (id, changes) in by_family {
            let family = self.family_mut(id)?;
            let version = family.version.apply(changes).map_err(|why| format!("family {:?}: {why}", family.name))?;
            family.version = Arc::new(version);
        }
        for change in &edit.tables {
            if let Change::Add { table, .. } = &change.change {
                self.number_used(table.number)?;
                self.last_seq = self.last_seq.max(table.max_seq);
            }
        }
        Ok(())
    }

    fn apply_logs(&mut self, edit: &Edit) -> Result<(), String> {
        for (id, log) in &edit.flushed_logs {
            let family = self.family_mut(*id)?;
            family.flushed_log = family.flushed_log.max(*log);
        }
        for log in &edit.new_logs {
            self.number_used(*log)?;
            if !self.logs.insert(*log) {
                return Err(format!("log {log} exists"));
            }
        }
        for (log, length) in &edit.log_lengths {
            if !self.logs.contains(log) {
                return Err(format!("log {log} has a length and does not exist"));
            }
            self.log_lengths.insert(*log, *length);
        }
        Ok(())
    }

    fn family_mut(&mut self, id: u32) -> Result<&mut FamilyState, String> {
        self.families.get_mut(&id).ok_or_else(|| no_family(id))
    }

    fn number_used(&mut self, number: u64) -> Result<(), String> {
        let above = number.checked_add(1).ok_or("file numbers are used up")?;
        self.next_number = self.next_number.max(above);
        Ok(())
    }

    /// Adds a sample: numbers up to `seq` were written at or before `time` ([`TimeMap::add`]). They count as used, because a sample may be
    /// durable although the writes are not, and a number given out again would look as old as the lost write.
    pub fn note_time(&mut self, seq: Seq, time: u64) {
        self.last_seq = self.last_seq.max(seq);
        if self.times.newest().is_none_or(|newest| newest.0 < seq) {
            Arc::make_mut(&mut self.times).add(seq, time);
        }
    }

    /// The whole state as one edit, which leads from [`ManifestState::new`] to this.
    pub fn snapshot_edit(&self) -> Edit {
        let mut edit = Edit {
            db_settings: Some(self.settings.clone()),
            tiers: self.tiers.values().copied().collect(),
            new_logs: self.logs.iter().copied().collect(),
            log_lengths: self.log_lengths.iter().map(|(log, length)| (*log, *length)).collect(),
            next_number: Some(self.next_number),
            last_seq: Some(self.last_seq),
            next_family: Some(self.next_family),
            time_samples: self.times.samples().to_vec(),
            tier_heat: self.heat.values().copied().collect(),
            ..Edit::default()
        };
        for family in self.families.values() {
            edit.new_families.push(NewFamily {
                id: family.id,
                name: family.name.clone(),
                settings: family.settings.clone(),
                operator: family.operator.clone(),
                num_levels: u8::try_from(family.version.levels.len()).unwrap_or(u8::MAX),
            });
            edit.flushed_logs.push((family.id, family.flushed_log));
            edit.tables.extend(family.version.tables().map(|(level, run, table)| TableChange {
                family: family.id,
                change: Change::Add { to: RunLocation { level, run }, table: Arc::clone(table) },
            }));
        }
        edit
    }
}

fn no_family(id: u32) -> String {
    format!("there is no family {id}")
}
