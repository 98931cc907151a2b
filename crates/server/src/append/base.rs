//! Writing a base, in a thread, at a pace that leaves others their share of the processor and the medium.

use super::files::Shared;
use super::location::LogLocation;
use crate::keyspace::Image;
use crate::persist::manifest::prepare_manifest;
use crate::persist::{Contents, sync_directory, write_image};
use crate::rdb::Version;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes after which the thread rests, and for how long: about as long as writing the bytes takes.
const PIECE: usize = 256 << 10;
const REST: Duration = Duration::from_millis(2);
/// Bytes of the base between two syncs, so that the medium does not get all of it at once.
const SYNC_EVERY: usize = 4 << 20;

/// Input of the thread that writes a base.
pub(super) struct Task {
    pub place: LogLocation,
    /// Number of the base and of the increment that goes with it.
    pub number: u64,
    pub image: Image,
    /// The increment that goes with the base.
    pub next: Arc<File>,
    pub shared: Arc<Shared>,
    pub stops: Arc<AtomicBool>,
}

impl Task {
    /// Writes the base, makes the manifest list it with its increment, and returns the size of the base. After an error the base is
    /// removed, unless the manifest may list it.
    pub fn run(self) -> Result<u64, String> {
        let Task { place, number, image, next, shared, stops } = self;
        // Files that cannot be removed now are removed with a later base.
        let _ = place.remove_unlisted(number);
        let written = write(&place, number, image, &stops).and_then(|bytes| {
            swap(&place, number, &next, &shared)?;
            Ok(bytes)
        });
        if written.is_err() && !shared.lock().is_swapped {
            for file in [place.base(number), place.increment(number), format!("temp-{}", place.manifest())] {
                // The file may not even exist.
                let _ = fs::remove_file(place.path(&file));
            }
        }
        written
    }
}

fn write(place: &LogLocation, number: u64, image: Image, stops: &AtomicBool) -> Result<u64, String> {
    let name = place.base(number);
    let failed = |error: io::Error| format!("{name}: {error}");
    let file = File::create_new(place.path(&name)).map_err(failed)?;
    // Everything known of streams fits into this version.
    let contents = Contents { version: Version::Ten, is_base: true, ..Contents::default() };
    write_image(Paced { file: &file, stops, unsynced: 0 }, &image, contents).map_err(|error| format!("{name}: {error}"))?;
    // Releases the snapshot: the engine need not keep old versions for it any more.
    drop(image);
    file.sync_all().and_then(|()| file.metadata()).map(|about| about.len()).map_err(failed)
}

/// Makes the manifest list the base and the new increment. At every moment the manifest's files hold everything that counts as durable.
fn swap(place: &LogLocation, number: u64, next: &File, shared: &Shared) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", place.manifest());
    // From now on every sync covers both increments. Commits that count as durable already are in this one, too, and are synced here.
    shared.lock().counts_next = true;
    next.sync_data().map_err(failed)?;
    sync_directory(&place.directory).map_err(failed)?;
    let temporary = prepare_manifest(&place.directory, &place.manifest(), &place.text_with_history(number)).map_err(failed)?;
    {
        let mut files = shared.lock();
        if files.is_abandoned {
            return Err("the rewrite was given up".into());
        }
        // Set before the rename, which may wait for the medium: nobody must wait for this lock so long.
        files.is_swapped = true;
    }
    fs::rename(temporary, place.path(&place.manifest())).map_err(|error| {
        shared.lock().is_swapped = false;
        failed(error)
    })?;
    sync_directory(&place.directory).map_err(failed)
}

struct Paced<'a> {
    file: &'a File,
    stops: &'a AtomicBool,
    unsynced: usize,
}

impl Write for Paced<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stops.load(Ordering::Acquire) {
            return Err(io::Error::other("the rewrite was stopped"));
        }
        let mut file = self.file;
        let written = file.write(bytes.get(..PIECE).unwrap_or(bytes))?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        std::thread::sleep(REST);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
