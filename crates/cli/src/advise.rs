//! `sinter advise`: predicts what shapes of a tree would write, hold and cost, and sets stored measurements beside predictions.

use crate::ended::Ended;
use crate::store::require_database;
use clap::Args;
use sinter_lab::advise::{ASSUMPTIONS, Advice, Compared, advise, compare, uniform_updates};
use sinter_lab::run::Workload;
use sinter_lab::study::folder::read;
use sinterdb::Db;
use sinterdb::internal::settings::parse_bytes;
use sinterdb::settings::{Budgets, Settings};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The workload to advise on, and the budgets for it.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct AdviseFlags {
    /// A workload (JSON, as `sinter study --workload` takes it).
    #[arg(long, conflicts_with = "from_db", required_unless_present_any = ["from_db", "results"])]
    workload: Option<PathBuf>,
    /// A database: uniform updates of data like its own.
    #[arg(long)]
    from_db: Option<PathBuf>,
    /// Memory for memtables and cache.
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Allowed size on disk over size of live data, at its peak.
    #[arg(long)]
    space_amplification: Option<f64>,
    /// Result folders of studies: predictions beside what was measured.
    #[arg(long, value_delimiter = ',')]
    results: Vec<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Malformed files, budgets out of range, workloads that cannot be predicted.
pub fn run(flags: &AdviseFlags) -> Result<ExitCode, Ended> {
    let budgets = Budgets { memory: flags.memory, space_amplification: flags.space_amplification };
    Settings::new(budgets).validate().map_err(|list| Ended::Usage(list.join("; ")))?;
    let workload: Option<Workload> = match (&flags.workload, &flags.from_db) {
        (Some(file), _) => Some(read(file)?),
        (_, Some(path)) => Some(like_database(path)?),
        _ => None,
    };
    let mut out = io::stdout().lock();
    if let Some(workload) = workload {
        print_advice(&workload, &advise(&workload, budgets)?, &mut out)?;
    }
    for folder in &flags.results {
        print_comparison(folder, &compare(folder)?, &mut out)?;
    }
    writeln!(out, "\nAssumed:")?;
    ASSUMPTIONS.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The worst workload for data like a database's; the real requests of its writers are unknown.
fn like_database(path: &Path) -> Result<Workload, Ended> {
    let db = Db::builder().read_only().create_if_missing(false).open_store(require_database(path)?)?;
    let (mut entries, mut raw, mut stored, mut keys, mut tables) = (0u64, 0u64, 0u64, 0u64, 0u64);
    for family in db.families() {
        for (_, _, table) in db.version(&family)?.tables() {
            entries += table.entries;
            raw += table.raw_bytes;
            stored += table.bytes;
            keys += table.range.smallest.len() as u64;
            tables += 1;
        }
    }
    db.close()?;
    if entries == 0 {
        return Err(Ended::usage(format!("--from_db {}: it has no tables to learn from", path.display())));
    }
    let size = |bytes: u64, of: u64| usize::try_from(bytes / of).unwrap_or(usize::MAX);
    let key_size = size(keys, tables).clamp(8, 1024);
    let value_size = size(raw, entries).saturating_sub(key_size);
    Ok(uniform_updates(entries, key_size, value_size, (stored as f64 / raw.max(1) as f64).clamp(0.01, 1.0)))
}

fn print_advice(workload: &Workload, list: &[Advice], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Workload {:?}: {} keys of {} bytes, values {:?}", workload.name, workload.keys, workload.key_size, workload.value_size)?;
    writeln!(out, "\n{:36} {:>19} {:>7} {:>12} {:>5}", "settings", "write amplification", "space", "space (peak)", "runs")?;
    for advice in list {
        let mark = if advice.fits { "" } else { "  beyond the space budget" };
        writeln!(
            out,
            "{:36} {:>19.2} {:>7.2} {:>12.2} {:>5.1}{mark}",
            advice.name, advice.write_amplification, advice.space_amplification, advice.peak_space_amplification, advice.runs
        )?;
    }
    match list.first() {
        Some(best) if best.fits => writeln!(out, "\nLeast written within the budget: {}", best.name),
        _ => writeln!(out, "\nNothing fits the space budget."),
    }
}

fn print_comparison(folder: &Path, list: &[Compared], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}: write amplification of SinterDB", folder.display())?;
    writeln!(out, "{:44} {:16} {:>9} {:>9} {:>8}", "cell", "measured of", "predicted", "measured", "error")?;
    for line in list {
        let error = 100.0 * (line.predicted / line.measured.mean - 1.0);
        writeln!(out, "{:44} {:16} {:>9.2} {:>9.2} {error:>+7.1}%", line.cell, line.measure, line.predicted, line.measured.mean)?;
    }
    Ok(())
}
