//! A wrapper that makes any store as slow as a given medium, to see what an engine does on one.

use super::{Appender, Beneath, FileId, Hint, ReadAt, Result, Shared, Store, StoreLock, SyncBeside};
use parking_lot::Mutex;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Sleeps shorter than this are saved up: the kernel rounds them up by about 50 us each.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Speed of the medium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medium {
    /// Megabytes (10^6 bytes) read per second; 0 means no limit.
    pub read_mb_per_s: f64,
    /// Megabytes (10^6 bytes) written per second; 0 means no limit.
    pub write_mb_per_s: f64,
    /// Time for a read that does not start where the last request of the medium ended.
    pub seek: Duration,
}

/// Function that lets time pass; a test passes its own.
pub type Sleep = Arc<dyn Fn(Duration) + Send + Sync>;

struct Device {
    medium: Medium,
    sleep: Sleep,
    head: Mutex<Head>,
}

#[derive(Default)]
struct Head {
    /// File and end of the last read; `None` after a write.
    at: Option<(FileId, u64)>,
    /// Time used up and not yet slept.
    owed: Duration,
}

impl Device {
    /// Serves one request at a time: the head stays taken while it sleeps.
    fn charge(&self, read: Option<(FileId, u64)>, bytes: u64) {
        let mut head = self.head.lock();
        let rate = if read.is_some() { self.medium.read_mb_per_s } else { self.medium.write_mb_per_s };
        if rate > 0.0 {
            head.owed += Duration::from_secs_f64(bytes as f64 / (rate * 1e6));
        }
        if read.is_some() && head.at != read {
            head.owed += self.medium.seek;
        }
        head.at = read.map(|(file, offset)| (file, offset + bytes));
        if head.owed >= SHORTEST_SLEEP {
            (self.sleep)(std::mem::take(&mut head.owed));
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.medium.fmt(f)
    }
}

/// A model of a slow medium, not a simulation of one: it has one head that serves one request at a time, without a cache and without
/// reordering. Every append pays its bytes at once, every read its bytes and, unless it continues the last request, a seek; syncs,
/// names and links are free. It sleeps in the calling thread.
#[derive(Debug)]
pub struct Throttle {
    below: Arc<dyn Store>,
    device: Arc<Device>,
}

impl Throttle {
    /// A medium in real time.
    pub fn new(below: Arc<dyn Store>, medium: Medium) -> Self {
        Self::with_sleep(below, medium, Arc::new(std::thread::sleep))
    }

    /// A medium whose time passes in `sleep`.
    pub fn with_sleep(below: Arc<dyn Store>, medium: Medium, sleep: Sleep) -> Self {
        Throttle { below, device: Arc::new(Device { medium, sleep, head: Mutex::default() }) }
    }
}

impl Store for Throttle {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        Ok(Box::new(ThrottleAppender { below: self.below.create(id, hint)?, device: Arc::clone(&self.device) }))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(ThrottleReader { id, below: self.below.open(id)?, device: Arc::clone(&self.device) }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        self.below.delete(id)
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.below.list()
    }

    fn sync_names(&self) -> Result<()> {
        self.below.sync_names()
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.below.free_bytes()
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        self.below.lock()
    }

    fn directory(&self) -> Option<&Path> {
        self.below.directory()
    }

    fn beneath(&self) -> Option<Beneath> {
        self.below.beneath()
    }

    fn unit(&self) -> u64 {
        self.below.unit()
    }

    fn check_there(&self) -> Result<()> {
        self.below.check_there()
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        self.below.sync_file(id)
    }

    fn pinned_bytes(&self) -> u64 {
        self.below.pinned_bytes()
    }

    /// A copy pays for reading here; the target pays for writing, if it is throttled itself.
    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        let shared = self.below.share(id, target, hint)?;
        if let Shared::Copied(bytes) = shared {
            self.device.charge(Some((id, 0)), bytes);
        }
        Ok(shared)
    }
}

struct ThrottleAppender {
    below: Box<dyn Appender>,
    device: Arc<Device>,
}

impl Appender for ThrottleAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.below.append(bytes)?;
        self.device.charge(None, bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.below.sync()
    }

    fn sync_beside(&self) -> Option<SyncBeside> {
        self.below.sync_beside()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        self.below.seal()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.below.close()
    }
}

#[derive(Debug)]
struct ThrottleReader {
    id: FileId,
    below: Arc<dyn ReadAt>,
    device: Arc<Device>,
}

impl ReadAt for ThrottleReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)?;
        self.device.charge(Some((self.id, offset)), buffer.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.below.will_need(offset, length);
    }

    fn holds_descriptor(&self) -> bool {
        self.below.holds_descriptor()
    }
}
