//! A load that is many times larger than memory, on engines beside each other: random puts of 25 GB at full scale. No claim is tested; the
//! outcome is a table row.

use super::plan::{Cell, Request, Scale, Study};
use super::settings::{BASE, MEMTABLE, Shape, database, family, owed};
use super::side_by_side::{ENTRY, requests};
use crate::run::{EngineSpec, Workload};

/// Name on the command line.
pub const NAME: &str = "large-load";

/// Name of the measured phase.
const LOAD: &str = "large load";
/// Size of each level over that of the level above: so small that a load of this size fills seven levels.
const FAN_OUT: u64 = 2;

/// Sizes at a scale. Memtables, tables and level targets shrink by the divisor.
struct Sizes {
    divisor: u64,
    keys: u64,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Ci => Sizes { divisor: 64, keys: 10_000 },
            Scale::Small => Sizes { divisor: 4, keys: 12_000_000 },
            Scale::Paper => Sizes { divisor: 1, keys: 193_000_000 },
        }
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let phases = vec![requests(LOAD, "put", sizes.keys), owed(LOAD)];
    let workload = Workload::new("random writes, large", sizes.keys, ENTRY, phases);
    let cell = Cell::new(workload.name.clone(), &[], settings(&sizes), workload).measuring_each([LOAD]);
    let title = "Engines side by side on a large load";
    Study { questions: questions(&sizes), cells: vec![cell], ..request.study(NAME, title, Some(scale), 1) }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let memtable = MEMTABLE / sizes.divisor;
    vec![
        "How fast does an engine take random puts once its tree has all its levels, and how much does it write for them?".to_string(),
        format!(
            "{} puts at uniformly drawn keys of {} bytes, values of {} bytes, one thread; leveled compaction with level targets that \
             follow the amount of data, each level {FAN_OUT} times the one above, memtables and tables of {} MiB, base level of {} MiB, \
             no compression, log on, no sync.",
            sizes.keys,
            ENTRY.0,
            ENTRY.1,
            memtable >> 20,
            (BASE * memtable) >> 20
        ),
    ]
}

fn settings(sizes: &Sizes) -> EngineSpec {
    let memtable = MEMTABLE / sizes.divisor;
    let mut family = family("default", Shape::Dynamic, memtable);
    let fan_out = FAN_OUT.to_string();
    let stated = [
        ("compression", "kNoCompression"),
        ("filter_policy", "bloomfilter:10:false"),
        ("block_size", "4096"),
        ("max_bytes_for_level_multiplier", fan_out.as_str()),
    ];
    family.settings.extend(stated.map(|(name, value)| (name.to_string(), value.to_string())));
    database(vec![family], memtable, true, false)
}
