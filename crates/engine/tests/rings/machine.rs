//! The stores of one database in memory: the primary one and its tiers. They crash at the same instant, each with a fate of its own.

use sinter_storage::store::{CrashMode, FaultStore, MemoryStore, Operation, Store, Temperature};
use sinterdb::Builder;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Temperatures of the tiers, in the order in which they are attached.
pub const TEMPERATURES: [Temperature; 2] = [Temperature::Cold, Temperature::Ice];

/// The stores of a database, which crash together; also what a crash leaves of them.
pub struct Machine {
    pub primary: Arc<MemoryStore>,
    pub tiers: Vec<Arc<MemoryStore>>,
}

/// Called with the index, among all stores, and kind of each mutating call.
pub type Hook = Arc<dyn Fn(u64, Operation) + Send + Sync>;

/// The stores as a database sees them.
pub struct Front {
    pub primary: Arc<FaultStore>,
    pub tiers: Vec<Arc<FaultStore>>,
}

impl Machine {
    pub fn new(tiers: usize) -> Self {
        let memory = || Arc::new(MemoryStore::new());
        Machine { primary: memory(), tiers: (0..tiers).map(|_| memory()).collect() }
    }

    /// Zeros are written ahead of the log, up to a multiple of `bytes`, as in a directory.
    pub fn ahead(self, bytes: u64) -> Self {
        self.primary.set_ahead(bytes);
        self
    }

    fn map(&self, make: impl Fn(usize, &MemoryStore) -> MemoryStore) -> Machine {
        let tiers = self.tiers.iter().enumerate().map(|(n, store)| Arc::new(make(n + 1, store))).collect();
        Machine { primary: Arc::new(make(0, &self.primary)), tiers }
    }

    /// The power goes. `mode` says what becomes of each store, the primary one being number 0.
    pub fn crash(&self, mode: impl Fn(usize) -> CrashMode) -> Machine {
        self.map(|n, store| store.crash_with(mode(n)))
    }

    /// The process dies.
    pub fn image(&self) -> Machine {
        self.map(|_, store| store.clone_image())
    }

    /// Stores that can fail, and that tell of every call.
    pub fn front(&self, hook: Option<&Hook>) -> Front {
        let calls = Arc::new(AtomicU64::new(0));
        let front = |store: &Arc<MemoryStore>| {
            let front = Arc::new(FaultStore::new(store.clone()));
            if let Some(hook) = hook.cloned() {
                let calls = calls.clone();
                front.on_call(Some(Arc::new(move |_, operation| hook(calls.fetch_add(1, Ordering::Relaxed), operation))));
            }
            front
        };
        Front { primary: front(&self.primary), tiers: self.tiers.iter().map(front).collect() }
    }

    /// The stores as they are, for a builder.
    pub fn open(&self, builder: Builder) -> sinterdb::Result<sinterdb::Db> {
        let tiers = self.tiers.iter().map(|store| store.clone() as Arc<dyn Store>);
        with_tiers(builder, tiers).open_store(self.primary.clone())
    }

    /// All files of the stores, for messages.
    pub fn files(&self) -> String {
        let all = std::iter::once(&self.primary).chain(&self.tiers);
        all.map(|store| format!("{store:?}")).collect::<Vec<_>>().join(", tier ")
    }
}

impl Front {
    pub fn mutating_calls(&self) -> u64 {
        self.primary.mutating_calls() + self.tiers.iter().map(|store| store.mutating_calls()).sum::<u64>()
    }

    pub fn stores(&self) -> (Arc<dyn Store>, Vec<Arc<dyn Store>>) {
        (self.primary.clone(), self.tiers.iter().map(|store| store.clone() as Arc<dyn Store>).collect())
    }
}

/// Gives a builder the tiers in order.
pub fn with_tiers(builder: Builder, tiers: impl IntoIterator<Item = Arc<dyn Store>>) -> Builder {
    TEMPERATURES.into_iter().zip(tiers).fold(builder, |builder, (temperature, store)| builder.tier_store(temperature, store))
}
