//! Fits the database into the limits of the process: number of compactions at once, their pauses, and the size of the cache. Limits are
//! read at the start and looked at again once a second, since they may change.

use super::family::FamilyCore;
use super::{Inner, Shared};
use crate::cache::Cache;
use crate::cpu::CpuRoom;
use crate::limits::{MemoryLimit, ProcessLimits};
use crate::pacing::{self, PaceInput};
use crate::settings::{Confined, DbSettings, FamilySettings, confine, format_bytes};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory of the process: its limit, and the part of the cache that is given up while the limit is near.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    limits: ProcessLimits,
    /// Cache size asked for, bytes: by the settings, or as memory is divided now.
    cache_size: AtomicU64,
    /// Bytes that all memtables may hold beside the cache.
    memtables: AtomicU64,
    /// Bytes that memtables and cache may take together by the settings; 0: the settings do not say.
    budget: AtomicU64,
    /// Bytes by which the cache stays below its size while memory is scarce.
    withheld: AtomicU64,
    now: Mutex<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// Innermost first.
    found: Vec<MemoryLimit>,
    /// Bytes of files that the kernel can keep, where that is known.
    for_files: Option<u64>,
    confined: Confined,
    /// Sizes of memtables and cache for which `confined` was computed.
    asked: (u64, u64),
    /// Valve of each group with a limit.
    valves: BTreeMap<PathBuf, Valve>,
}

impl MemoryWatch {
    /// Reads the limit below `root` (`/`) and fits the settings into it: `settings` are cut down to what holds, except for the cache's
    /// size.
    pub fn new<'a>(root: &Path, settings: &mut DbSettings, families: impl Iterator<Item = &'a FamilySettings>) -> Self {
        let limits = ProcessLimits::find(root);
        let found = limits.memory();
        let confined = confine(settings, families, MemoryLimit::tightest(&found));
        settings.db_write_buffer_size = confined.db_write_buffer_size;
        let budget = settings.memory_budget;
        settings.memory_budget = budget.min(confined.together);
        let (memtables, cache_size) = (settings.db_write_buffer_size, settings.cache_size);
        // Nothing of the cache is in use yet.
        let for_files = limits.for_files(&found).map(|bytes| bytes.saturating_sub(confined.cache_size));
        let now = Mutex::new(Watched { found, for_files, confined, asked: (memtables, cache_size), valves: BTreeMap::new() });
        let [memtables, cache_size, budget, withheld] = [memtables, cache_size, budget, 0].map(AtomicU64::new);
        MemoryWatch { limits, cache_size, memtables, budget, withheld, now }
    }

    /// Budget that memtables and cache share, bytes: that of the settings, as far as it fits into the limit by now.
    pub fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed).min(self.now.lock().confined.together)
    }

    /// Memtables and cache share one budget.
    pub fn has_budget(&self) -> bool {
        self.budget.load(Ordering::Relaxed) > 0
    }

    /// Bytes of the limit that memtables and cache may take; `None`: no limit is known.
    pub fn room(&self) -> Option<u64> {
        Some(self.now.lock().confined.together).filter(|bytes| *bytes < u64::MAX)
    }

    /// Asks for other sizes and another budget, and cuts `settings` down to what holds, except for the cache's size.
    pub fn change(&self, settings: &mut DbSettings, families: &[Arc<FamilySettings>]) {
        self.budget.store(settings.memory_budget, Ordering::Relaxed);
        self.ask(settings.db_write_buffer_size, settings.cache_size);
        let mut now = self.now.lock();
        now.asked = (settings.db_write_buffer_size, settings.cache_size);
        now.confined = confine(settings, families.iter().map(|family| &**family), MemoryLimit::tightest(&now.found));
        settings.db_write_buffer_size = now.confined.db_write_buffer_size;
        settings.memory_budget = settings.memory_budget.min(now.confined.together);
    }

    /// Asks for another size of the cache beside memtables of that size, bytes; it is granted at the next look, as far as the limit allows.
    pub fn ask(&self, memtables: u64, cache_size: u64) {
        self.memtables.store(memtables, Ordering::Relaxed);
        self.cache_size.store(cache_size, Ordering::Relaxed);
    }

    /// Bytes that the cache may hold now.
    pub fn cache_bytes(&self) -> u64 {
        self.now.lock().confined.cache_size - self.withheld.load(Ordering::Relaxed)
    }

    /// Bytes of files that the kernel can keep while the cache is full, where that is known.
    pub fn for_files(&self) -> Option<u64> {
        self.now.lock().for_files
    }

    /// Names the settings that do not fit into the limit.
    pub fn note(&self) -> Option<String> {
        self.now.lock().confined.note.clone()
    }

    /// Looks at the limit and at what is used of it. `families` are asked for if the limit has changed.
    fn watch(&self, settings: &DbSettings, families: impl FnOnce() -> Vec<Arc<FamilySettings>>, cache: &Cache) {
        let found = self.limits.memory();
        let for_files = self.limits.for_files(&found);
        let mut now = self.now.lock();
        let limit = MemoryLimit::tightest(&found);
        let asked @ (db_write_buffer_size, cache_size) = (self.memtables.load(Ordering::Relaxed), self.cache_size.load(Ordering::Relaxed));
        if asked != now.asked || limit != MemoryLimit::tightest(&now.found) {
            let memory_budget = self.budget.load(Ordering::Relaxed);
            let db = DbSettings { cache_size, db_write_buffer_size, memory_budget, ..settings.clone() };
            now.asked = asked;
            now.confined = confine(&db, families().iter().map(|family| &**family), limit);
        }
        let size = now.confined.cache_size;
        let withheld = now.withhold(&found, self.withheld.load(Ordering::Relaxed), size, cache.used());
        (now.found, now.for_files) = (found, for_files.map(|bytes| bytes.saturating_sub((size - withheld).saturating_sub(cache.used()))));
        self.withheld.store(withheld, Ordering::Relaxed);
        if cache.capacity() != size - withheld {
            cache.set_capacity(size - withheld);
        }
    }
}

impl Watched {
    /// Bytes withheld of a cache of `size` bytes, of which `held` are in use: the need of the group that is in the greatest need.
    fn withhold(&mut self, limits: &[MemoryLimit], withheld: u64, size: u64, held: u64) -> u64 {
        self.valves.retain(|group, _| limits.iter().any(|limit| limit.group == *group));
        let unlimited = Valve::default().withhold(withheld, size, held, 0, u64::MAX);
        let needed = limits.iter().map(|limit| {
            let valve = self.valves.entry(limit.group.clone()).or_default();
            valve.withhold(withheld, size, held, limit.used, limit.bytes)
        });
        needed.fold(unlimited, u64::max)
    }
}

/// Decides which part of the cache is given up for one group, from one look to the next.
#[derive(Debug, Default)]
struct Valve {
    /// Use and limit at the last look, if the use was near the limit.
    near: Option<(u64, u64)>,
}

impl Valve {
    /// From nine tenths of the limit on, the cache gives up the use above 85 %, and then any growth: freed memory is used again, but not
    /// given back to the kernel at once, so the use itself may stay where it is. Below eight tenths the cache gets a sixteenth of its size
    /// back at each look. Returns the bytes withheld of `size`, of which `held` is in use.
    fn withhold(&mut self, withheld: u64, size: u64, held: u64, used: u64, limit: u64) -> u64 {
        let withheld = withheld.min(size);
        if used >= limit / 10 * 9 {
            // Near a limit that has become smaller, it begins anew.
            let before = self.near.filter(|(_, then)| *then <= limit).map_or(limit / 20 * 17, |(used, _)| used);
            let excess = used.saturating_sub(before);
            self.near = Some((used, limit));
            let capacity = if excess > 0 { held.min(size - withheld).saturating_sub(excess).max(size / 16) } else { size - withheld };
            return size - capacity.min(size - withheld);
        }
        self.near = None;
        let room = (limit / 10 * 8).saturating_sub(used);
        withheld.saturating_sub(room.min((size / 16).max(1)))
    }
}

/// Compactions that may run at once: as many as there are processors, part of one counting as one, since more of them only take turns. All
/// that the settings allow while writers are held back, because some may wait for the medium.
fn compactions_at_once(cpus: f64, is_pressed: bool) -> usize {
    if is_pressed { usize::MAX } else { whole_cpus(cpus) }
}

fn whole_cpus(cpus: f64) -> usize {
    cpus.ceil().max(1.0) as usize
}

impl Inner {
    /// Looks at CPU and memory limits; called once a second.
    pub(super) fn watch_limits(&self, now_ns: u64) {
        self.cpu.sample(now_ns);
        self.watch_memory();
    }

    pub(super) fn watch_memory(&self) {
        self.memory.watch(&self.settings, || self.family_settings(), &self.cache);
    }

    /// Settings of all families.
    pub(super) fn family_settings(&self) -> Vec<Arc<FamilySettings>> {
        self.shared.lock().families.values().map(|core| core.settings.load_full()).collect()
    }

    /// Returns whether another compaction may start now. One may always, and without threads nothing runs beside it.
    pub(super) fn may_compact(&self, shared: &Shared) -> bool {
        // Not bounded by the threads: compactions by hand count, too, but run on the threads of callers.
        // A move between tiers takes no CPU to speak of.
        shared.jobs.compactions() < compactions_at_once(self.cpu.cpus(), self.inline() || !self.pressure.is_free())
    }

    fn compactions_at_once(&self) -> usize {
        let jobs = self.settings.max_background_jobs.saturating_sub(1).max(1);
        compactions_at_once(self.cpu.cpus(), self.inline() || !self.pressure.is_free()).min(jobs)
    }

    /// Key ranges into which a compaction may be split.
    pub(super) fn subcompactions(&self) -> usize {
        let most = self.settings.max_subcompactions;
        if self.inline() { most } else { most.min(whole_cpus(self.cpu.cpus())) }
    }

    /// Returns whether somebody waits for background work.
    fn is_awaited(&self, shared: &Shared) -> bool {
        shared.jobs.has_waiters() || shared.blocked.is_some() || shared.closing || !self.pressure.is_free()
    }

    /// Urgency of a family's flush, up to 1: it may not pause. A flush may pause while there is memory for the writes of all families
    /// meanwhile, because their flushes wait for it: not once any memtable or all together are half full, and less the more log there is.
    pub(super) fn urgency_of_flush(&self, core: &FamilyCore) -> f64 {
        let shared = self.shared.lock();
        let views = || shared.families.values().map(|core| (core, core.view.load()));
        let full: usize = views().map(|(_, view)| view.full.len()).sum();
        if full > 1 || core.dropped.load(Ordering::Relaxed) || self.is_awaited(&shared) {
            return 1.0;
        }
        let part = |used: u64, most: u64| 2.0 * used as f64 / most.max(1) as f64;
        let all = part(views().map(|(_, view)| view.mem.memory() as u64).sum(), self.division.memtables());
        let log = part(self.logs.bytes(), self.division.log(&self.settings)) - 1.0;
        let each = views().map(|(core, view)| part(view.mem.memory() as u64, self.memtable_limit(core) as u64));
        each.fold(all.max(log).max(0.0), f64::max).min(1.0)
    }

    /// Urgency of a family's compactions, up to 1: they may not pause.
    pub(super) fn urgency(&self, core: &FamilyCore) -> f64 {
        let shared = self.shared.lock();
        // A flush that has no thread of its own waits for the end of the compaction, and writers soon for it.
        let is_in_the_way = || self.settings.max_background_jobs == 1 && shared.families.values().any(|c| !c.view.load().full.is_empty());
        if self.is_awaited(&shared) || is_in_the_way() {
            return 1.0;
        }
        drop(shared);
        let view = core.view.load();
        pacing::urgency(&PaceInput::of(&view.tree.version, &core.settings.load(), view.full.len()))
    }

    /// Limits found and their consequences, a line each.
    pub(super) fn limits_text(&self) -> String {
        let mut out = String::new();
        let (cpus, idle) = (self.cpu.cpus(), self.cpu.idle());
        let _ = writeln!(out, "processors: {cpus:.2}, of which {idle:.2} idle");
        for quota in self.cpu.limits().map(|limits| limits.quotas()).unwrap_or_default() {
            let _ =
                writeln!(out, "cpu quota: {:.2} processors ({}), cut short {} times", quota.cpus, quota.group.display(), quota.throttled);
        }
        let jobs = if self.inline() { 0 } else { self.compactions_at_once() };
        let _ = writeln!(out, "compactions at once: {jobs} beside flushes, each in up to {} parts", self.subcompactions());
        let (pauses, paused_ns) = self.throttle.pauses();
        let share = self.throttle.share() * 100.0;
        let _ = writeln!(
            out,
            "pauses of flushes and compactions: {pauses}, {:.3} seconds; they work {share:.0} % of the time",
            paused_ns as f64 / 1e9
        );
        let watched = self.memory.now.lock();
        for found in &watched.found {
            let (limit, used) = (format_bytes(found.bytes), found.used >> 20);
            let _ = writeln!(out, "memory limit: {limit} ({}), {used} MiB used without files", found.group.display());
        }
        if watched.found.is_empty() {
            out.push_str("memory limit: none found\n");
        }
        drop(watched);
        for file in self.limits().flat_map(ProcessLimits::unknown) {
            let _ = writeln!(out, "not known: {} cannot be read, or not understood; what it said last counts", file.display());
        }
        let (capacity, stated) = (self.cache.capacity() >> 20, self.memory.cache_size.load(Ordering::Relaxed) >> 20);
        let _ = writeln!(out, "cache: {capacity} MiB of {stated} MiB asked for");
        self.memory.note().iter().for_each(|note| out += &format!("{note}\n"));
        out
    }

    /// Number of times that a file with a limit could not be read, or not be understood.
    pub(super) fn limit_tickers(&self) -> [(&'static str, u64); 1] {
        [("sinterdb.limits.unknown.count", self.limits().map(ProcessLimits::failures).sum())]
    }

    fn limits(&self) -> impl Iterator<Item = &ProcessLimits> {
        self.cpu.limits().into_iter().chain([&self.memory.limits])
    }
}

/// The CPU watch of a database: one without threads must not depend on what else the machine does.
pub(super) fn cpu_room(settings: &DbSettings, root: &Path) -> CpuRoom {
    if settings.max_background_jobs == 0 { CpuRoom::fixed(1.0, 0.0) } else { CpuRoom::new(root) }
}

#[cfg(test)]
mod tests;
