//! `sinter inspect PATH tiers`: each directory of a database, the primary one first. Contents and ages are in the manifest; the cost of a
//! read is measured by reading a few blocks past the page cache. The heat of a tier is known to the process that has the database open (the
//! property `sinterdb.tiers`); the manifest has its last record of it. Why data is above the last level or on it follows from each family's
//! settings or, if the engine chose the age, from the newest table that it was chosen for.

use super::{Shown, Stores, plain};
use crate::store::escape_whole;
use serde_json::{Value, json};
use sinter_storage::store::{FileId, FileKind, Store, Temperature, Tiers};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::internal::cache::Cache;
use sinterdb::internal::manifest::{FamilyState, ManifestState, TableInfo, TierHeat};
use sinterdb::internal::settings::format_seconds;
use sinterdb::internal::table::Table;
use sinterdb::internal::tiering::auto_cutoff::heat::SAMPLED;
use sinterdb::settings::{DbSettings, FamilySettings, Preclude};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MIB: f64 = 1_048_576.0;
/// Limits between classes of age, seconds: a minute, an hour, a day, a week, thirty days.
const AGES: [u64; 5] = [60, 3_600, 86_400, 604_800, 2_592_000];
/// Number of reads that measure the cost of one, and their size in bytes.
const READS: u64 = 32;
const BLOCK: u64 = 4096;

/// A table with its tier, and the temperature that it should have by now.
struct Placed<'a> {
    table: &'a TableInfo,
    /// The tier that has the table; `None`: no store has it.
    place: Option<Temperature>,
    wanted: Temperature,
    /// A colder temperature that is accepted as well: young data may have been compacted into the last level.
    sunk: Temperature,
}

impl Placed<'_> {
    fn id(&self) -> FileId {
        FileId::table(self.table.number)
    }
}

/// Contents of a store.
#[derive(Default)]
struct Contents {
    tables: u64,
    bytes: u64,
    other_files: u64,
    other_bytes: u64,
    /// Time of the oldest write, unix seconds; 0: unknown.
    oldest: u64,
    newest: u64,
    /// Bytes by the newest write of each table: up to each of [`AGES`], older, unknown.
    by_age: [u64; AGES.len() + 2],
    /// Tables and bytes by the temperature at which they were written.
    by_temperature: BTreeMap<Temperature, (u64, u64)>,
}

impl Contents {
    fn add(&mut self, table: &TableInfo, now: u64) {
        self.tables += 1;
        self.bytes = self.bytes.saturating_add(table.bytes);
        let warmth = self.by_temperature.entry(table.temperature).or_default();
        *warmth = (warmth.0 + 1, warmth.1.saturating_add(table.bytes));
        if table.oldest_time > 0 {
            self.oldest = if self.oldest == 0 { table.oldest_time } else { self.oldest.min(table.oldest_time) };
        }
        self.newest = self.newest.max(table.newest_time);
        let age = now.saturating_sub(table.newest_time);
        let slot = if table.newest_time == 0 { AGES.len() + 1 } else { AGES.iter().take_while(|up_to| age >= **up_to).count() };
        self.by_age[slot] = self.by_age[slot].saturating_add(table.bytes);
    }

    fn ages(&self) -> Vec<(String, u64)> {
        let name = |slot: usize| match AGES.get(slot) {
            Some(up_to) => format!("up to {}", format_seconds(*up_to)),
            None if slot == AGES.len() => format!("above {}", format_seconds(AGES[AGES.len() - 1])),
            None => "of unknown age".into(),
        };
        self.by_age.iter().enumerate().filter(|(_, bytes)| **bytes > 0).map(|(slot, bytes)| (name(slot), *bytes)).collect()
    }
}

/// Durations of reads of one block, microseconds.
struct Cost {
    reads: usize,
    /// Whether all reads bypassed the page cache.
    past_cache: bool,
    mean: f64,
    most: f64,
}

/// Reads blocks spread over the tables of a store, past the page cache where the medium allows it.
fn measure(store: &dyn Store, tables: &[(FileId, u64)]) -> Option<Cost> {
    let clock = SystemClock::default();
    let blocks = tables.iter().map(|(_, bytes)| bytes / BLOCK).fold(0, u64::saturating_add);
    let (mut times, mut past_cache) = (Vec::new(), true);
    let mut buffer = vec![0; BLOCK as usize];
    for n in 0..READS.min(blocks) {
        // Spread evenly, in an order that defeats readahead.
        let mut at = (n * 13 % READS).saturating_mul(blocks) / READS;
        let (id, offset) = tables.iter().find_map(|(id, bytes)| {
            let here = bytes / BLOCK;
            let found = (at < here).then_some((*id, at * BLOCK));
            at = at.saturating_sub(here);
            found
        })?;
        let file = store.open(id).ok()?;
        let direct = file.past_cache();
        past_cache &= direct.is_some();
        let file = direct.as_deref().unwrap_or(&*file);
        let start = clock.monotonic_ns();
        file.read_at(offset, &mut buffer).ok()?;
        times.push(clock.monotonic_ns().saturating_sub(start) as f64 / 1000.0);
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    (!times.is_empty()).then(|| Cost { reads: times.len(), past_cache, mean, most: times.iter().copied().fold(0.0, f64::max) })
}

/// A family's settings, completed for the database's tiers.
fn settings_of(state: &ManifestState, family: &FamilyState) -> Option<Arc<FamilySettings>> {
    let (settings, _) = FamilySettings::from_stored(&family.settings).ok()?;
    Some(Arc::new(settings).on_tiers(state.tiers.keys().copied()))
}

/// Time from which on writes are kept from the last level, unix seconds; `None`: none are. If the engine chooses the age, it is not known
/// here: the result is 1, as any write may be young enough.
fn kept_since(state: &ManifestState, settings: &FamilySettings, now: u64) -> Option<u64> {
    settings.places_by_age().then_some(match settings.preclude_last_level_data_seconds {
        Preclude::Seconds(age) => now.checked_sub(age).and_then(|at| at.checked_sub(1)).map_or(0, |limit| state.times.cut(limit).time),
        _ => 1,
    })
}

fn placed<'a>(state: &'a ManifestState, all: &Tiers, now: u64) -> Vec<Placed<'a>> {
    let mut list = Vec::new();
    for family in state.families.values() {
        let settings = settings_of(state, family).unwrap_or_default();
        let since = kept_since(state, &settings, now);
        list.extend(family.version.tables().map(|(level, _, table)| {
            let wanted = settings.temperature_of(level, table.newest_time, table.temperature, now);
            let is_last = since.is_some() && level + 1 == family.version.levels.len();
            let newest = since.filter(|_| is_last).map_or(table.newest_time, |since| table.newest_time.min(since));
            let sunk = settings.temperature_of(level, newest, table.temperature, now);
            Placed { table, place: all.place(FileId::table(table.number)), wanted, sunk }
        }));
    }
    list
}

/// Why data of a family is kept from the last level; `None`: it is not.
fn kept(stores: &Stores, state: &ManifestState, family: &FamilyState) -> Option<String> {
    let (settings, _) = FamilySettings::from_stored(&family.settings).ok()?;
    let last = settings.last_level_by(state.tiers.keys().copied());
    let last = last.map(|tier| format!("; the last level is {}, as the coldest tier: last_level_temperature is not set", tier.name()));
    let why = match settings.preclude_last_level_data_seconds {
        Preclude::Seconds(0) => None,
        Preclude::Seconds(age) => Some(format!("what is younger than {} stays above the last level", with_unit(age))),
        _ => {
            let newest = family.version.tables().map(|(_, _, table)| table).max_by_key(|table| table.number);
            let properties = newest.and_then(|info| {
                let table = Table::open(&stores.files, state.db, Arc::clone(info), &Cache::new(0));
                table.and_then(|table| table.properties()).ok()
            });
            let why = properties.map(|properties| properties.placed).filter(|why| !why.is_empty());
            Some(why.unwrap_or_else(|| "auto: the newest table does not tell".into()))
        }
    };
    why.map(|why| why + &last.unwrap_or_default())
}

/// Heat of the data of a store.
struct Heat {
    noted: TierHeat,
    /// Percentage of the gets that tables served.
    share: f64,
}

/// The heat of a store; `None`: there is no record. Records of other stores from another run of the database do not count.
fn heat(state: &ManifestState, temperature: Temperature) -> Option<Heat> {
    let noted = *state.heat.get(&temperature)?;
    let all: f64 = state.heat.values().filter(|heat| heat.until == noted.until).map(|heat| heat.answered as f64).sum();
    (all > 0.0).then(|| Heat { noted, share: 100.0 * noted.answered as f64 / all })
}

/// The current time, or that of the database's newest sample if the clock was set back since.
fn now(state: &ManifestState) -> u64 {
    SystemClock::default().unix_seconds().max(state.times.newest().map_or(0, |(_, time)| time))
}

/// Shows all stores.
pub(super) fn view(stores: &Stores, state: &ManifestState) -> Shown {
    let now = now(state);
    let tables = placed(state, &stores.places, now);
    let mut text = String::new();
    let mut list = Vec::new();
    let settings = DbSettings::from_stored(&state.settings).map(|(settings, _)| settings).unwrap_or_default();
    let named = |wanted| settings.tiers.named().find(|(temperature, _)| *temperature == wanted).map(|(_, path)| path);
    for (temperature, store) in &stores.each {
        let here: Vec<&Placed<'_>> = tables.iter().filter(|placed| placed.place == Some(*temperature)).collect();
        let mut contents = Contents::default();
        here.iter().for_each(|placed| contents.add(placed.table, now));
        for (_, bytes) in store.list().unwrap_or_default().into_iter().filter(|(id, _)| id.kind != FileKind::Table) {
            contents.other_files += 1;
            contents.other_bytes += bytes;
        }
        let files: Vec<_> = here.iter().map(|placed| (placed.id(), placed.table.bytes)).collect();
        let (cost, heat) = (measure(&stores.files, &files), heat(state, *temperature));
        let at = store.directory().or_else(|| named(*temperature)).map(Path::to_owned);
        let looked = Looked { temperature: *temperature, at, store: &**store, contents, cost, heat, now };
        looked.text(&mut text);
        list.push(looked.json());
    }
    for (temperature, error) in &stores.problems {
        let (name, what) = (temperature.name(), plain(error));
        // Most errors begin with the name of the tier.
        let what = what
            .strip_prefix("tier ")
            .and_then(|what| what.strip_prefix(name))
            .map_or(what.as_str(), |what| what.trim_start_matches([':', ' ']));
        let _ = writeln!(text, "{name}: cannot be looked at: {what}");
        list.push(json!({ "tier": name, "problem": error.to_string() }));
    }
    let serving = |wanted: Temperature| state.tiers.range(..=wanted).next_back().map_or(Temperature::Unknown, |(known, _)| *known);
    let is_elsewhere =
        |placed: &&Placed<'_>| placed.place.is_some_and(|place| [placed.wanted, placed.sunk].into_iter().all(|may| serving(may) != place));
    let (elsewhere, bytes) =
        tables.iter().filter(is_elsewhere).fold((0u64, 0u64), |(n, sum), p| (n + 1, sum.saturating_add(p.table.bytes)));
    let unseen = tables.iter().filter(|placed| placed.place.is_none()).count();
    // Tables on an unreadable tier are unknown, not missing.
    let missing = if stores.problems.is_empty() { unseen } else { 0 };
    if elsewhere > 0 {
        let what = "are not on the tier where they belong by now: they wait to be moved, or that tier is full";
        let _ = writeln!(text, "{elsewhere} tables with {:.1} MB {what}", bytes as f64 / MIB);
    }
    if unseen > 0 {
        let where_else = if missing == 0 { "; they may lie where it cannot be looked" } else { "" };
        let _ = writeln!(text, "{unseen} tables are in none of these{where_else}");
    }
    let kept: Vec<_> = state.families.values().filter_map(|family| Some((&family.name, kept(stores, state, family)?))).collect();
    for (family, what) in &kept {
        let _ = writeln!(text, "family {family:?}: {}", escape_whole(what.as_bytes()));
    }
    let kept: Vec<Value> = kept.iter().map(|(family, what)| json!({ "family": family, "kept": what })).collect();
    let elsewhere = json!({ "tables": elsewhere, "bytes": bytes });
    let json = json!({ "tiers": list, "elsewhere": elsewhere, "missing": missing, "unseen": unseen - missing, "kept": kept });
    Shown { text, json }
}

fn name(temperature: Temperature) -> &'static str {
    if temperature == Temperature::Unknown { "primary" } else { temperature.name() }
}

fn age(time: u64, now: u64) -> String {
    if time == 0 { "unknown".into() } else { format!("{} ago", span(now.saturating_sub(time))) }
}

/// A duration in the form of settings, but with the unit of seconds, which these omit.
fn with_unit(seconds: u64) -> String {
    let text = format_seconds(seconds);
    if text.ends_with(|last: char| last.is_ascii_digit()) { text + "s" } else { text }
}

/// A duration for people: its two largest units.
fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let mut rest = seconds;
    let parts = units[first..].iter().take(2).map(|(unit, name)| {
        let number = rest / unit;
        rest %= unit;
        (number, name)
    });
    let parts: Vec<String> =
        parts.enumerate().filter(|(n, (number, _))| *n == 0 || *number > 0).map(|(_, (number, name))| format!("{number} {name}")).collect();
    parts.join(" ")
}

/// A store with the figures to show.
struct Looked<'a> {
    temperature: Temperature,
    /// A directory, or a zoned drive.
    at: Option<PathBuf>,
    store: &'a dyn Store,
    contents: Contents,
    cost: Option<Cost>,
    heat: Option<Heat>,
    now: u64,
}

impl Looked<'_> {
    fn text(&self, text: &mut String) {
        let Looked { temperature, at, store, contents, cost, heat, now } = self;
        let mib = |bytes: u64| bytes as f64 / MIB;
        let place = at.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
        let free = store.free_bytes().ok().flatten().map(|free| format!(", {:.1} MB free", mib(free))).unwrap_or_default();
        let tables = format!("{} tables, {:.1} MB", contents.tables, mib(contents.bytes));
        let others = format!("{} other files, {:.1} MB", contents.other_files, mib(contents.other_bytes));
        let _ = writeln!(text, "{}{place}: {tables}; {others}{free}", name(*temperature));
        if contents.tables > 0 {
            let _ = writeln!(text, "  oldest write {}, newest {}", age(contents.oldest, *now), age(contents.newest, *now));
            let ages: Vec<String> = contents.ages().into_iter().map(|(name, bytes)| format!("{name} {:.1} MB", mib(bytes))).collect();
            let _ = writeln!(text, "  {}", ages.join(", "));
            let warmth = contents.by_temperature.iter().map(|(t, (n, bytes))| format!("{} {n} tables, {:.1} MB", t.name(), mib(*bytes)));
            let _ = writeln!(text, "  written as {}", warmth.collect::<Vec<_>>().join("; "));
            let _ = match heat {
                Some(Heat { noted: TierHeat { answered, since, until, .. }, share }) => {
                    let (over, ago) = (span(until.saturating_sub(*since)), span(now.saturating_sub(*until)));
                    let each = *answered as f64 / mib(contents.bytes).max(f64::MIN_POSITIVE);
                    let counted = format!("counted over {over} until {ago} ago, one in {SAMPLED}");
                    let of_all = format!("{share:.1} % of those that tables did, {each:.1} for each MB");
                    writeln!(text, "  answered about {answered} gets, {of_all} ({counted})")
                }
                None => writeln!(text, "  how often it is read is not noted yet; the open database tells it (property sinterdb.tiers)"),
            };
        }
        if let Some(Cost { reads, past_cache, mean, most }) = cost {
            let how = if *past_cache { "past the page cache" } else { "which the page cache may have answered" };
            let _ = writeln!(text, "  a read of {BLOCK} bytes takes {mean:.1} us, {most:.1} us at most ({reads} reads {how})");
        }
    }

    fn json(&self) -> Value {
        let Looked { temperature, at, store, contents, cost, heat, now } = self;
        let ages: Vec<Value> = contents.ages().into_iter().map(|(age, bytes)| json!({ "age": age, "bytes": bytes })).collect();
        let warmth = contents.by_temperature.iter().map(|(t, (n, bytes))| json!({ "temperature": t.name(), "tables": n, "bytes": bytes }));
        json!({
            "tier": name(*temperature), "directory": at, "tables": contents.tables, "bytes": contents.bytes,
            "other_files": contents.other_files, "other_bytes": contents.other_bytes, "free_bytes": store.free_bytes().ok().flatten(),
            "oldest_time": contents.oldest, "newest_time": contents.newest, "now": now, "by_age": ages,
            "by_temperature": warmth.collect::<Vec<_>>(),
            "gets": heat.as_ref().map(|Heat { noted, share }| {
                let TierHeat { answered, since, until, .. } = noted;
                json!({ "answered": answered, "percent": share, "since": since, "until": until, "one_counted_in": SAMPLED })
            }),
            "read_us": cost.as_ref().map(|c| json!({ "reads": c.reads, "past_page_cache": c.past_cache, "mean": c.mean, "most": c.most })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        let table =
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min 59 s"), (3_600, "1 h"), (86_405, "1 d"), (100_000, "1 d 3 h")];
        for (seconds, text) in table {
            assert_eq!(span(seconds), text);
        }
        assert_eq!((with_unit(90), with_unit(3_600)), ("90s".into(), "1h".into()));
        assert_eq!((age(0, 9), age(5, 9)), ("unknown".into(), "4 s ago".into()));
    }
}
