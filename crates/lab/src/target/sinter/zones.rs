//! SinterDB on an emulated drive of zones.

use super::{SinterOpener, SinterTarget};
use crate::target::Outcome;
use sinter_storage::store::Store;
use sinter_storage::store::zoned::{Options, VolumeId, ZonedStore};
use sinter_storage::zoned::{Emulator, Geometry};
use sinterdb::db::Db;
use std::sync::Arc;

/// Drives up to this size are kept in memory, bytes.
const IN_MEMORY: u64 = 256 << 20;

/// How to open SinterDB on a new drive.
#[derive(Debug, Clone)]
pub struct ZonedOpener {
    /// Everything but where the files lie. Its directory is where the drive's file comes to lie.
    pub rest: SinterOpener,
    /// The drive; all of a zone can be written.
    pub geometry: Geometry,
    /// How the store is run.
    pub options: Options,
}

impl ZonedOpener {
    /// Opens an empty database on an empty drive.
    pub fn open(&self) -> Outcome<SinterTarget> {
        let (geometry, capacity) = (self.geometry.clone(), self.geometry.zone_size);
        let drive = if u64::from(geometry.zones).saturating_mul(geometry.zone_size) <= IN_MEMORY {
            Emulator::memory(geometry, capacity)?
        } else {
            Emulator::create(self.rest.path.join("drive"), geometry, capacity)?
        };
        // The only volume on a drive that nobody else sees: any identity will do.
        let store = Arc::new(ZonedStore::format(Arc::new(drive), VolumeId(*b"emulated for lab"), self.options)?);
        let builder = Db::builder().settings(self.rest.database.clone());
        let builder = self.rest.families.iter().fold(builder, |builder, (name, settings)| builder.family(name, settings.clone()));
        let builder = match &self.rest.clock {
            Some(clock) => builder.clock(Arc::clone(clock) as Arc<dyn sinterdb::clock::Clock>),
            None => builder,
        };
        let builder = if self.rest.hide_limits { builder.system_root(super::system_without_groups(&self.rest.path)?) } else { builder };
        let db = builder.open_store(Arc::clone(&store) as Arc<dyn Store>)?;
        let families = self.rest.families.iter().filter_map(|(name, _)| db.family(name)).collect();
        let clock = self.rest.clock.clone();
        Ok(SinterTarget { db, families, disable_wal: self.rest.disable_wal, clock, zones: Some(store) })
    }
}

/// What the volume did since it was opened, and how it looks now, as counters. Lengths are bytes.
pub(super) fn tickers(store: &ZonedStore) -> Outcome<Vec<(String, u64)>> {
    let (figures, map) = (store.figures(), store.map()?);
    // What lies below the write pointers of zones for files.
    let files = || map.zones.iter().filter(|zone| !map.metadata.contains(&zone.zone));
    let lies = files().map(|zone| zone.written).sum();
    let values = [
        ("host.bytes", figures.host_total()),
        ("moved.bytes", figures.moved.total()),
        ("metadata.bytes", figures.journal.bytes),
        ("resets", figures.resets),
        ("log.resets", figures.log_resets),
        ("reset.unwritten.bytes", figures.reset_unwritten),
        ("finishes", figures.finishes),
        ("finish.padding.bytes", figures.finish_padding),
        ("waits", figures.waits),
        ("fallbacks", figures.fallbacks),
        ("used", u64::from(map.used())),
        ("least", u64::from(map.least())),
        ("live.bytes", map.live()),
        ("lying.bytes", lies),
        ("capacity.bytes", map.capacity()),
        ("zone.bytes", files().map(|zone| zone.capacity).max().unwrap_or(0)),
    ];
    Ok(values.into_iter().map(|(name, value)| (format!("zones.{name}"), value)).collect())
}
