//! Compares the cost of allocation policies of the zoned store under the files of a leveled or universal tree, one table per case:
//! `cargo run --release -p sinter-lab --example zone_policies [divisor [case [policy [seed]]]]`.
//!
//! The case of the original study is a drive of 32 GB in 256 zones, memtables and tables of half a zone, levels from 256 MB by a factor of
//! 2, and 22.4 GB of puts. All lengths are divided by `divisor` (64), which keeps the shape. `case` and `policy` are parts of the names
//! of those that are run; keys are drawn by `seed` (1). Columns: living share of the capacity and write amplification in the end; bytes
//! that the collector moved; resets, and over the least possible; zones in use, and over the least possible in the end and on average; what
//! of them does not live, in zones (not written yet, dead beside what lives, dead alone); zones finished; fallbacks.

use sinter_lab::churn::{Churn, Law, Outcome, run};
use sinter_storage::zoned::Geometry;
use sinter_storage::zoned_store::{Allocation, Options, Reset};
use sinterdb::settings::{FamilySettings, Style};
use std::error::Error;
use std::time::Instant;

const GB: u64 = 1 << 30;

struct Case {
    name: String,
    churn: Churn,
}

/// Zones of `zone` bytes with `per_zone` tables each, `user` bytes put at keys for `unique` bytes.
fn case(name: &str, divisor: u64, (zones, per_zone): (u32, u64), (user, unique): (f64, f64), law: Law, max_active: Option<u32>) -> Case {
    let zone = (128 << 20) / divisor;
    let table = zone / per_zone;
    let settings = FamilySettings {
        write_buffer_size: table,
        target_file_size_base: table,
        max_bytes_for_level_base: (256 << 20) / divisor,
        max_bytes_for_level_multiplier: if name.contains("fan-out 10") { 10.0 } else { 2.0 },
        max_compaction_bytes: 25 * table,
        level_compaction_dynamic_level_bytes: false,
        style: if name.contains("universal") { Style::Universal } else { Style::Leveled },
        ..FamilySettings::default()
    };
    let geometry = Geometry { block: 4096, zones, zone_size: zone, max_open: max_active, max_active, conventional: 0 };
    let entry = (64 << 10) / divisor;
    let of = |gigabytes: f64| (gigabytes * GB as f64) as u64 / (64 << 10);
    let churn = Churn { settings, geometry, keys: of(unique), puts: of(user), entry: entry as u32, law, seed: 1 };
    let active = max_active.map_or("unlimited".to_string(), |limit| limit.to_string());
    Case { name: format!("{name}, {}, {active} active, {user} GB of {unique} GB, {zones} zones", law.name()), churn }
}

fn cases(divisor: u64) -> Vec<Case> {
    let (fourteen, zipf) = (Some(14), Law::Zipf(0.9));
    vec![
        case("original", divisor, (256, 2), (22.4, 22.4), Law::Uniform, fourteen),
        case("original", divisor, (256, 2), (22.4, 22.4), Law::Uniform, None),
        case("long", divisor, (256, 2), (27.0, 27.0), Law::Uniform, None),
        case("60", divisor, (247, 2), (22.4, 22.4), Law::Uniform, fourteen),
        case("85", divisor, (175, 2), (22.4, 22.4), Law::Uniform, fourteen),
        case("zipf-original", divisor, (256, 2), (44.8, 22.4), zipf, fourteen),
        case("mixed-original", divisor, (256, 2), (44.8, 22.4), Law::Mixed, fourteen),
        case("mixed-85", divisor, (160, 2), (44.8, 22.4), Law::Mixed, fourteen),
        case("small tables", divisor, (256, 8), (22.4, 22.4), Law::Uniform, fourteen),
        case("fan-out 10", divisor, (256, 2), (22.4, 22.4), Law::Uniform, fourteen),
        case("universal", divisor, (256, 2), (11.2, 11.2), Law::Uniform, fourteen),
    ]
}

const COLUMNS: &str = "| live    | write  | moved MB | reset | /least | used     | /least | mean  | open, dead, all | fin. | fallb.";

fn line(name: &str, outcome: &Outcome, puts: u64, seconds: f64) {
    let figures = &outcome.figures;
    let least = outcome.least_resets();
    let [unwritten, beside, dead] = outcome.waste();
    println!(
        "{name:>22} | {:5.1} % | {:6.2} | {:8.1} | {:5} | {:5.3} | {:3} / {:3} | {:5.3} | {:5.3} | {:4.1} {:4.1} {:4.1} | {:4} | {:4} \
         | {:5.1} s{}",
        outcome.utilisation() * 100.0,
        outcome.write_amplification,
        figures.moved.total() as f64 / (1 << 20) as f64,
        figures.resets.total(),
        figures.resets.total() as f64 / least.max(1.0),
        outcome.map.used(),
        outcome.map.least(),
        f64::from(outcome.map.used()) / f64::from(outcome.map.least().max(1)),
        outcome.mean_use,
        unwritten,
        beside,
        dead,
        figures.finishes,
        figures.fallbacks,
        seconds,
        outcome.failure.as_ref().map_or(String::new(), |why| format!(" | after {:.1} %: {why}", outcome.puts as f64 * 100.0 / puts as f64)),
    );
}

#[expect(clippy::disallowed_methods, reason = "an example that measures how long it takes itself")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let divisor: u64 = arguments.first().map_or(Ok(64), |text| text.parse())?;
    let [wanted, chosen] = [1, 2].map(|i| arguments.get(i).cloned().unwrap_or_default());
    let options = |allocation, reset, fallback, tells| Options { allocation, reset, fallback, tells, ..Options::default() };
    let zenfs = Allocation::Zenfs { tokens: true };
    let policies = [
        ("zenfs eager", options(zenfs, Reset::Eager, false, false)),
        ("wla lzr", options(Allocation::Wla { tokens: true }, Reset::Lzr, true, false)),
        ("sla lzr", options(Allocation::Sla { tokens: true }, Reset::Lzr, true, false)),
        ("sla lazy", options(Allocation::Sla { tokens: true }, Reset::Lazy, true, false)),
        ("per-level lzr", options(Allocation::PerLevel, Reset::Lzr, true, false)),
        ("told per-level lzr", options(Allocation::PerLevel, Reset::Lzr, true, true)),
        ("told sla lzr", options(Allocation::Sla { tokens: true }, Reset::Lzr, true, true)),
        ("untold", options(Allocation::Sinter, Reset::Sinter, true, false)),
        ("sinter", options(Allocation::Sinter, Reset::Sinter, true, true)),
    ];
    let seed: u64 = arguments.get(3).map_or(Ok(1), |text| text.parse())?;
    for Case { name, churn } in cases(divisor).into_iter().filter(|case| case.name.contains(&wanted)) {
        let churn = Churn { seed, ..churn };
        println!("\n{name}\n{:>22} {COLUMNS}", "policy");
        for (policy, options) in policies.into_iter().filter(|(policy, _)| policy.contains(&chosen)) {
            let begun = Instant::now();
            let outcome = run(&churn, options)?;
            line(policy, &outcome, churn.puts, begun.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
