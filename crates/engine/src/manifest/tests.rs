mod crash;
mod edits;
mod tree;

use super::*;
use crate::checksum::DbId;
use crate::wal::testing::Random;
use sinter_storage::store::Temperature;
use std::sync::Arc;

const DB: DbId = DbId([7; 16]);

fn table(number: u64, smallest: &str, largest: &str) -> Arc<TableInfo> {
    let range = KeyRange::closed(smallest, largest);
    Arc::new(TableInfo { number, bytes: 1000 + number, identity: number * 77, range, min_seq: 1, max_seq: 5, ..TableInfo::default() })
}

fn add(level: usize, run: u64, table: Arc<TableInfo>) -> Change {
    Change::Add { to: RunLocation { level, run }, table }
}

fn new_family(id: u32, name: &str) -> NewFamily {
    NewFamily { id, name: name.into(), settings: "style = \"leveled\"\n".into(), operator: String::new(), num_levels: 7 }
}

fn in_family(family: u32, changes: impl IntoIterator<Item = Change>) -> Vec<TableChange> {
    changes.into_iter().map(|change| TableChange { family, change }).collect()
}

/// An edit that makes sense after `state`: anything that an engine does.
fn random_step(random: &mut Random, state: &ManifestState) -> Edit {
    let mut edit = Edit::default();
    let ids: Vec<u32> = state.families.keys().copied().collect();
    let number = state.next_number;
    if ids.is_empty() || random.below(20) == 0 {
        let id = state.next_family + random.below(2) as u32;
        let operator = if random.below(2) == 0 { "counter" } else { "" };
        edit.new_families.push(NewFamily { operator: operator.into(), ..new_family(id, &format!("family {id}")) });
        edit.flushed_logs.push((id, state.newest_log().unwrap_or(0)));
        return edit;
    }
    let id = ids[random.below(ids.len() as u64) as usize];
    let family = &state.families[&id];
    let tables: Vec<(usize, u64, u64)> = family.version.tables().map(|(level, run, t)| (level, run, t.number)).collect();
    match random.below(12) {
        11 => {
            let temperature = Temperature::ALL[random.below(6) as usize];
            edit.tier_heat.push(TierHeat { temperature, answered: random.below(1 << 40), since: number, until: random.next() });
        }
        10 => {
            let temperature = Temperature::ALL[1 + random.below(5) as usize];
            edit.tiers.push(KnownTier { temperature, number, identity: random.next() });
        }
        0 if ids.len() > 1 => edit.dropped_families.push(id),
        1 => edit.family_settings.push((id, format!("ttl_seconds = {number}\n"))),
        2 => edit.db_settings = Some(format!("cache_size = {number}\n")),
        3 => edit.new_logs.push(number),
        9 if !state.logs.is_empty() => edit.log_lengths.extend(state.logs.iter().map(|log| (*log, random.below(1 << 40)))),
        4 => edit.time_samples.push((state.last_seq + 1, 1_700_000_000 + number)),
        5 if !tables.is_empty() => {
            let (level, run, number) = tables[random.below(tables.len() as u64) as usize];
            edit.tables = in_family(id, [Change::Remove { from: RunLocation { level, run }, number }]);
        }
        6 if !tables.is_empty() => {
            let (level, run, moved) = tables[random.below(tables.len() as u64) as usize];
            let to = RunLocation { level: level.min(5) + 1, run: number };
            edit.tables = in_family(id, [Change::Move { from: RunLocation { level, run }, to, number: moved }]);
            edit.next_number = Some(number + 1);
        }
        _ => {
            let (a, b) = (random.below(500), random.below(500));
            let mut new = TableInfo::clone(&table(number, &format!("key{:03}", a.min(b)), &format!("key{:03}x", a.max(b))));
            new.max_seq = state.last_seq + random.below(1000).max(5);
            new.range.end_exclusive = random.below(4) == 0;
            new.entries = random.next() >> random.below(64);
            new.temperature = Temperature::Warm;
            new.settled = random.below(2) * random.below(1 << 20);
            new.timed = (random.below(2) == 0).then(|| OwnTimes {
                entries: random.below(100),
                times: (random.below(1 << 40), random.next()),
                others: (u64::MAX, random.below(100)),
            });
            edit.tables = in_family(id, [add(0, number, Arc::new(new))]);
            edit.flushed_logs.push((id, random.below(number)));
            edit.last_seq = Some(state.last_seq + 3);
            edit.next_number = Some(number + random.below(3));
        }
    }
    edit
}
