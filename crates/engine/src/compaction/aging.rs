//! Drops tables that have expired or are hidden as a whole, and rewrites bottommost tables that mostly hold tombstones; for both styles.

use super::{Choice, Input, PickEnv, collides, is_bottommost, plan};
use crate::manifest::{TableInfo, Version};
use crate::tiering::age::Cut;
use sinter_storage::store::Reason;
use std::sync::Arc;

/// Returns whether every entry of the table has outlived the family's time to live.
pub fn expired(env: &PickEnv<'_>, table: &TableInfo) -> bool {
    let ttl = env.settings.ttl_seconds;
    ttl > 0 && table.newest_time != 0 && table.newest_time.saturating_add(ttl) < env.now && is_covered(table, env.expired)
}

/// Returns whether readers see nothing of the table any more.
fn is_covered(table: &TableInfo, cut: Cut) -> bool {
    table.by_number().is_none_or(|(_, newest)| newest <= cut.seq) && table.by_time().is_none_or(|(_, newest)| newest <= cut.time)
}

/// Drops all expired tables that have no older data below: dropping others would bring back what their entries hide. A table that a live
/// snapshot sees waits for the release of the snapshot.
pub fn drop_expired(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    if env.settings.ttl_seconds == 0 {
        return None;
    }
    let can_go = |level: usize, run: u64, table: &Arc<TableInfo>| {
        let one = [single(level, run, table)];
        let is_seen = env.newest_snapshot.is_some_and(|snapshot| table.min_seq <= snapshot);
        !is_seen && !collides(env, &one, level) && is_bottommost(version, &one)
    };
    let tables = version.tables().filter(|(level, run, table)| expired(env, table) && can_go(*level, *run, table));
    drop(version, env, Reason::TimeToLive, tables)
}

/// Drops all tables that range tombstones hide completely, on any level. A dropped table brings nothing back: the tombstones also hide what
/// the table hid, and stay as long as any of that exists. A table that a live snapshot sees waits for the release of the snapshot.
pub fn drop_hidden(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    if env.hidden.is_empty() {
        return None;
    }
    let is_unseen = |table: &TableInfo| {
        let since = env.hidden.get(&table.number).copied();
        since.is_some_and(|since| env.oldest_snapshot >= since || env.newest_snapshot.is_none_or(|newest| newest < table.min_seq))
    };
    drop(version, env, Reason::Tombstones, version.tables().filter(|(_, _, table)| is_unseen(table) && !env.is_taken(table)))
}

/// The choice that drops `tables`.
fn drop<'a>(
    version: &Version,
    env: &PickEnv<'_>,
    why: Reason,
    tables: impl Iterator<Item = (usize, u64, &'a Arc<TableInfo>)>,
) -> Option<Choice> {
    let mut inputs: Vec<Input> = Vec::new();
    for (level, run, table) in tables {
        match inputs.last_mut() {
            Some(last) if (last.level, last.run) == (level, run) => last.tables.push(Arc::clone(table)),
            _ => inputs.push(single(level, run, table)),
        }
    }
    let (level, run) = inputs.first().map(|i| (i.level, i.run))?;
    let mut plan = plan(version, env, why, Vec::new(), (level, run));
    plan.inputs = inputs;
    Some(Choice::Drop(plan))
}

/// Rewrites a table of level >= 1 that consists mostly of tombstones with nothing left to hide. All its entries are visible to every
/// snapshot, so the output has no tombstones and is not chosen again.
pub fn rewrite_tombstones(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    version.tables().filter(|(level, _, t)| *level > 0 && t.tombstones.saturating_mul(2) > t.entries).find_map(|(level, run, table)| {
        let inputs = vec![single(level, run, table)];
        let ready = table.max_seq <= env.oldest_snapshot && !collides(env, &inputs, level) && is_bottommost(version, &inputs);
        ready.then(|| Choice::Merge(plan(version, env, Reason::Tombstones, inputs, (level, run))))
    })
}

fn single(level: usize, run: u64, table: &Arc<TableInfo>) -> Input {
    Input { level, run, tables: vec![Arc::clone(table)] }
}
