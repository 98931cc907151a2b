//! Keys and their values, stored in the engine and nowhere else.
//!
//! Reading order: `layout` (engine keys), `entry` (encoding of a key's entry), `turn` (many commands become one batch), `written` (the
//! writes of a turn), `committer` (a thread for large batches), `hot` (entries cached in memory), `budget` (limits of memory), this file
//! and `keys` (keys of any type), `scans` (walks over them in steps), `pieces` (strings that are changed in part), `long` (strings that are
//! written and read in steps), `libraries` (code of functions), `collection`, `inline` and `body` (small collections, which lie in their
//! key's entry), `delta` (changes of entries), `due` and `passed` (deadlines that have passed), `members`, `fields`, `lists`, `sorted`,
//! `streams`, `groups` (elements), `counting` and `ranks` (positions of elements in their order), `watch`, `waits` and `changes` (clients
//! that want to know of a change), `trace` (changes for a second log), `unsynced` (changes that are not durable yet), `cleaner` (removal of
//! deleted collections), `sizes` (bytes of keys and values), `eviction` (removal of keys beyond a limit of bytes), `image` (whole keyspaces
//! and whole values), `successor` (replacement of all keys at once), `stream_position` and `backlog` (the replication stream).
//!
//! A keyspace belongs to one thread. Reads see all writes of the turn; nothing is in the engine until [`Keyspace::commit`]. A command makes
//! all checks that can refuse it, such as that of a key's type, before its first write, so a refused command leaves nothing behind.
//! [`Error::Engine`] and [`Error::Damaged`] may come between two writes: then the turn has to be dropped ([`Keyspace::discard`]).
//!
//! Numbers of keys and of bytes are exact: they change in the batch that changes the keys. A key whose deadline has passed exists for no
//! reader. The reader that finds it removes it, or [`Keyspace::remove_expired`] does, unless [`Passed`] says otherwise, as on a replica.

mod backlog;
mod body;
mod budget;
mod changes;
mod cleaner;
mod collection;
mod committer;
mod counting;
mod dead_ranges;
mod delta;
mod due;
mod entry;
mod entry_id;
mod error;
mod estimate;
mod eviction;
mod fields;
mod groups;
mod hot;
mod image;
mod inline;
mod keys;
mod layout;
mod libraries;
mod lists;
mod long;
mod members;
mod own_deadlines;
mod passed;
mod pieces;
mod ranks;
mod scans;
mod sizes;
mod sorted;
mod stream_position;
mod streams;
mod successor;
#[cfg(test)]
mod tests;
mod trace;
mod turn;
mod unsynced;
mod waits;
mod watch;
mod written;

pub use budget::{MEMORY_MAX, MEMORY_MIN, Memory, engine_settings};
pub use changes::{Change, Noted, Stale};
pub use collection::{Collection, Edit, Limit, Thresholds};
pub use entry::{FieldDeadlines, Form, Head, Kind, LONG, LONGEST_STRING, Side, StreamHead};
pub use entry_id::EntryId;
pub use error::{Error, Result};
pub use eviction::{Policy, Rank};
pub use fields::{FIELD_DEADLINE_MAX, VisitField};
pub use groups::{Consumer, ConsumerGroup, GroupEdit, NewGroup, Pending};
pub use hot::{Counting, HotCounts};
pub use image::Image;
pub use inline::sort_integers;
pub use keys::EXPECTED_MAX;
pub use layout::{DATABASES, check_key, check_member};
pub use long::{StringReader, Upload};
pub use members::Member;
pub use passed::Passed;
pub use pieces::{StringEdit, VisitPart};
pub use sorted::{LexBound, ScoreBound, decode_score};
pub use stream_position::{StreamId, StreamPosition};
pub use streams::{Blocks, Keep, encode_fields, fields};
pub use trace::{GroupTrace, Trace};
pub use unsynced::{Beside, Syncer};

use backlog::BACKLOG;
use budget::Bulk;
use cleaner::Cleaner;
use delta::Deltas;
use due::Due;
use eviction::Hand;
use hot::Purpose;
use layout::{DatabaseBytes, Direction, FamilyKind, Generation, Ids};
use long::Tombstones;
use own_deadlines::OwnDeadlines;
use parking_lot::Mutex;
use ranks::Ranks;
use sinter_storage::store::Store;
use sinterdb::internal::coding::{Decoder, put_varint};
use sinterdb::settings::Settings;
use sinterdb::{Builder, DEFAULT_FAMILY, Db, Durability, WriteOptions};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stream_position::Stream;
use turn::Turn;
use unsynced::Unsynced;
use waits::Waits;
use watch::Watches;

/// Version of the format of keys, which [`layout`] and [`entry`] describe. Version 3 adds strings in pieces; 4 inline collections and the
/// second generation of database bytes; 5 deadlines of fields; 6 byte counts of keys, sizes in entries, and the position in the replication
/// stream. A program that knows only earlier versions would leave counts and position as they are, so it does not open this one.
const FORMAT: u64 = 6;
/// The oldest version that is read. It becomes [`FORMAT`] when the store is opened for writing.
const OLDEST_FORMAT: u64 = 2;
/// Family of the elements of collections; keys are in the default family. A database without this family is no keyspace. Opening for
/// writing changes stored settings before the format is read, so a later [`FORMAT`] that this program must not open takes another name.
const ELEMENTS: &str = "elements";
/// Names of two settings: one has the [`Counters`] without their bytes, the other one these bytes, which change more often.
const COUNTERS: &[u8] = b"counters";
const BYTES: &[u8] = b"bytes";
/// Advice once all 2^48 ids are used up. One million new collections or long strings per second last for nine years.
const NO_IDS: &str = "export the keys and import them into an empty directory";
/// Number of ids from which on no command that may need one is run: a command that finds none left could have removed something before.
/// Larger than the number that any command needs; the largest are those that restore the consumers of a stream.
const IDS_OF_COMMAND: u64 = 1 << 25;
/// Number of ids that are taken from the store at once.
const IDS_AT_ONCE: u64 = 1 << 16;
/// Number of elements that are read at once where elements are changed meanwhile.
const CHUNK: usize = 1024;
/// Number of elements above which one range tombstone is cheaper than a deletion of each.
const RANGE_FROM: u64 = 512;

/// Numbers that are stored beside the keys and change with them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counters {
    /// Number of keys of each database.
    keys: [u64; DATABASES],
    /// Number of keys of each database that have a deadline.
    deadlines: [u64; DATABASES],
    /// Number of hashes with deadlines of fields, by database.
    expiring: [u64; DATABASES],
    /// Bytes of the keys of each database and of their values (`sizes`). `None`: not counted, as a program of an earlier format wrote keys.
    bytes: Option<[u64; DATABASES]>,
    /// Ids up to this may have been used.
    ids: u64,
    /// The byte that each database has in engine keys.
    places: DatabaseBytes,
}

impl Counters {
    const NONE: Counters = Counters {
        keys: [0; DATABASES],
        deadlines: [0; DATABASES],
        expiring: [0; DATABASES],
        bytes: Some([0; DATABASES]),
        ids: 0,
        places: DatabaseBytes::START,
    };

    fn encode(&self) -> Vec<u8> {
        let all = self.keys.iter().chain(&self.deadlines).chain([&self.ids]);
        let mut out: Vec<u8> = all.flat_map(|number| number.to_le_bytes()).collect();
        out.extend_from_slice(self.places.bytes());
        if self.expiring != Counters::NONE.expiring {
            out.extend(self.expiring.iter().flat_map(|number| number.to_le_bytes()));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Counters> {
        let mut from = Decoder::new(bytes);
        let mut counters = Counters::NONE;
        for number in counters.keys.iter_mut().chain(&mut counters.deadlines).chain([&mut counters.ids]) {
            *number = from.u64()?;
        }
        counters.places = DatabaseBytes::read(from.bytes(DATABASES)?)?;
        if !from.is_empty() {
            for number in &mut counters.expiring {
                *number = from.u64()?;
            }
        }
        from.is_empty().then_some(counters)
    }

    /// Encodes the bytes; empty: they are not counted.
    fn encode_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.bytes.iter().flatten().for_each(|bytes| put_varint(&mut out, *bytes));
        out
    }

    /// Decodes [`Counters::encode_bytes`].
    fn decode_bytes(encoded: &[u8]) -> Option<[u64; DATABASES]> {
        let (mut from, mut bytes) = (Decoder::new(encoded), [0; DATABASES]);
        for number in &mut bytes {
            *number = from.varint()?;
        }
        from.is_empty().then_some(bytes)
    }
}

/// Sixteen databases of keys.
pub struct Keyspace {
    turn: Turn,
    cleaner: Arc<Cleaner>,
    thresholds: Thresholds,
    /// Secret start value of all hashes.
    seed: u64,
    /// The time of the current command, unix milliseconds.
    now: u64,
    counters: Counters,
    /// Counters as the engine has them.
    committed: Counters,
    /// The position in the replication stream, and the one that the engine has.
    stream: Stream,
    committed_stream: Stream,
    /// This turn has written counters that may have changed again.
    has_put_counters: bool,
    /// Position of the search for keys to evict.
    hand: Hand,
    /// Number of the command that runs, and the purpose of lookups.
    command: u64,
    purpose: Purpose,
    /// The id that was given out last.
    last_id: u64,
    /// Ids for this keyspace's collections; another keyspace on the same engine has others.
    ids: Ids,
    /// The keyspace is a successor: it is being filled to replace another one.
    is_successor: bool,
    /// A successor of this keyspace is being filled.
    has_successor: bool,
    due: Due,
    /// Ids of collections that were deleted in this turn, and whether all collections were.
    deleted: Vec<u64>,
    all_deleted: bool,
    /// Ids of strings that are being uploaded, of those that got a key in this turn, and of those whose commit reads may not find yet.
    uploads: BTreeSet<u64>,
    named: Vec<u64>,
    ending: Vec<u64>,
    /// Number of times that writes were dropped before they were committed.
    losses: u64,
    bulk: Bulk,
    tombstones: Tombstones,
    ranks: Ranks,
    /// The entry that was read last, the offset at which a string starts in it, and its key.
    entry: Vec<u8>,
    string_at: usize,
    known: Known,
    /// Engine key of the entry that is looked for; kept for its memory.
    place: Vec<u8>,
    watches: Watches,
    waits: Waits,
    /// Changes of keys, if somebody wants to be told of them.
    changes: Option<Vec<Noted>>,
    /// Whether misses of keys are noted among the changes.
    notes_misses: bool,
    /// Keys of which clients' copies are stale, if any client tracks keys.
    stale: Option<Vec<Stale>>,
    /// Changes for a second log (`trace`), if there is one; and memory for the key of the next change.
    traces: Option<Vec<Trace>>,
    spare_key: Vec<u8>,
    /// Numbers of commits, shared with the threads that sync.
    marks: Arc<Marks>,
    /// A second log, which is synced with the engine's.
    beside: Option<Arc<dyn Beside>>,
    unsynced: Unsynced,
    /// State of the random numbers.
    random: u64,
    /// Treatment of keys and fields whose deadline has passed, and whether they are kept in any case.
    passed: Passed,
    keeps_ended: bool,
    /// Deadlines that clients of a writable replica have set.
    own: OwnDeadlines,
    lookups: Lookups,
    /// Whether lookups are counted now.
    counts_lookups: bool,
    expired: Expired,
    /// Number of changes of keys.
    touched: u64,
}

/// Counted lookups of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Lookups that found a key.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
}

/// Keys and fields that were removed since the start because their deadlines had passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expired {
    /// Keys.
    pub keys: u64,
    /// Fields of hashes.
    pub fields: u64,
}

/// The key whose entry was read last.
#[derive(Debug, Default)]
struct Known {
    /// [`Turn::version`] when the entry was read; `None`: nothing is known.
    version: Option<u64>,
    place: Vec<u8>,
    head: Option<Head>,
    /// The part of the entry that was read.
    part: Option<hot::Part>,
    /// The command whose use of the key was counted last.
    command: u64,
    /// The pieces of a string were read into the entry, behind its head.
    is_joined: bool,
}

/// Number of commits, and number of them that are synced.
#[derive(Debug, Default)]
struct Marks {
    committed: AtomicU64,
    synced: AtomicU64,
    /// Why the last failed sync has failed, until somebody asks.
    failure: Mutex<Option<String>>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?})", self.turn.db())
    }
}

impl Keyspace {
    /// Opens the keyspace in a store, creating it if there is none; `random` should differ between all servers and starts.
    ///
    /// # Errors
    /// [`Error::Unfinished`] after an import that was cut short; errors of the engine.
    pub fn open(store: Arc<dyn Store>, settings: &Settings, random: u64) -> Result<Keyspace> {
        let mut keyspace = Keyspace::open_any(store, settings, random)?;
        if keyspace.has_rest_of_copy()? {
            keyspace.remove_rest()?;
        }
        if keyspace.unfinished()?.is_some() { Err(Error::Unfinished) } else { Ok(keyspace) }
    }

    /// [`Keyspace::open`] for callers that handle an unfinished successor.
    fn open_any(store: Arc<dyn Store>, settings: &Settings, random: u64) -> Result<Keyspace> {
        let stored = Builder::settings_in(&*store)?;
        if stored.as_ref().is_some_and(|stored| !stored.families.contains_key(ELEMENTS)) {
            // Another program's database must not be changed: not even its settings.
            return Err(Error::Format(0, FORMAT));
        }
        let cleaner = Arc::new(Cleaner::default());
        let mut builder = Db::builder().settings(settings.db.clone()).compaction_filter(ELEMENTS, cleaner.clone());
        builder = builder.merge_operator(DEFAULT_FAMILY, Arc::new(Deltas));
        for family in [DEFAULT_FAMILY, ELEMENTS] {
            builder = builder.family(family, settings.family(family));
        }
        for family in BACKLOG.into_iter().filter(|name| stored.as_ref().is_some_and(|stored| stored.families.contains_key(*name))) {
            builder = builder.family(family, backlog::settings(settings.family(DEFAULT_FAMILY)));
        }
        let db = builder.open_store(store)?;
        let elements = db.family(ELEMENTS).ok_or(Error::Damaged("the family of elements is missing"))?;
        let turn = Turn::new(db.clone(), db.default_family(), elements.clone());
        let mut keyspace = Keyspace::new(turn, cleaner, random);
        keyspace.load(random, true)?;
        // From now on the filter can look up whether a collection exists; so far it has kept all elements.
        keyspace.cleaner.attach(db, elements);
        keyspace.keep_hot(settings.db.memory_budget);
        Ok(keyspace)
    }

    /// Opens the keyspace in a store to read it: nothing is changed, and nothing can be written. No other process may have it open.
    ///
    /// # Errors
    /// [`Error::Unfinished`] after an import that was cut short; errors of the engine.
    pub fn open_to_read(store: Arc<dyn Store>) -> Result<Keyspace> {
        let db = Db::builder().read_only().merge_operator(DEFAULT_FAMILY, Arc::new(Deltas)).open_store(store)?;
        let elements = db.family(ELEMENTS).ok_or(Error::Format(0, FORMAT))?;
        let turn = Turn::new(db.clone(), db.default_family(), elements);
        let mut keyspace = Keyspace::new(turn, Arc::new(Cleaner::default()), 0);
        keyspace.load(0, false)?;
        if keyspace.unfinished()?.is_some() && !keyspace.has_rest_of_copy()? { Err(Error::Unfinished) } else { Ok(keyspace) }
    }

    /// A keyspace before its settings are read.
    fn new(turn: Turn, cleaner: Arc<Cleaner>, random: u64) -> Keyspace {
        Keyspace {
            turn,
            cleaner,
            thresholds: Thresholds::default(),
            seed: 0,
            now: 0,
            counters: Counters::NONE,
            committed: Counters::NONE,
            stream: Stream::default(),
            committed_stream: Stream::default(),
            has_put_counters: false,
            hand: Hand::default(),
            command: 0,
            purpose: Purpose::Use,
            last_id: 0,
            ids: 1..layout::ID_MAX + 1,
            is_successor: false,
            has_successor: false,
            due: Due::default(),
            deleted: Vec::new(),
            all_deleted: false,
            uploads: BTreeSet::new(),
            named: Vec::new(),
            ending: Vec::new(),
            losses: 0,
            bulk: Bulk::default(),
            tombstones: Tombstones::default(),
            ranks: Ranks::default(),
            entry: Vec::new(),
            string_at: 0,
            known: Known::default(),
            place: Vec::new(),
            watches: Watches::default(),
            waits: Waits::default(),
            changes: None,
            notes_misses: false,
            stale: None,
            traces: None,
            spare_key: Vec::new(),
            marks: Arc::default(),
            beside: None,
            unsynced: Unsynced::default(),
            random: random | 1,
            passed: Passed::default(),
            keeps_ended: false,
            own: OwnDeadlines::default(),
            lookups: Lookups::default(),
            counts_lookups: false,
            expired: Expired::default(),
            touched: 0,
        }
    }

    fn setting(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.turn.get(FamilyKind::Keys, &layout::setting_key(name), &mut out)?.then_some(out))
    }

    fn number_setting(&self, name: &[u8]) -> Result<Option<u64>> {
        let read = |bytes: Vec<u8>| Decoder::new(&bytes).u64().ok_or(Error::Damaged("a setting of the keyspace"));
        self.setting(name)?.map(read).transpose()
    }

    /// Reads the settings of the keyspace, or creates them.
    fn load(&mut self, random: u64, is_writable: bool) -> Result<()> {
        let Some(format) = self.number_setting(b"format")? else { return self.create(random) };
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(Error::Format(format, FORMAT));
        }
        if is_writable && format < FORMAT {
            self.turn.put(FamilyKind::Keys, layout::setting_key(b"format"), FORMAT.to_le_bytes());
            // The byte counts may be wrong: a program of the earlier format, which does not count, may have changed keys since.
            self.turn.delete(FamilyKind::Keys, layout::setting_key(BYTES));
            self.turn.commit(&WriteOptions::default())?;
        }
        self.seed = self.number_setting(b"seed")?.ok_or(Error::Damaged("the seed is missing"))?;
        if let Some(bytes) = self.setting(COUNTERS)? {
            self.counters = Counters::decode(&bytes).ok_or(Error::Damaged("the counters"))?;
            self.counters.bytes = match self.setting(BYTES)?.filter(|_| format == FORMAT) {
                Some(bytes) => Some(Counters::decode_bytes(&bytes).ok_or(Error::Damaged("the counted bytes"))?),
                // Keys of an earlier format are not counted; without a key, the count is 0.
                None => Some([0; DATABASES]).filter(|_| self.counters.keys == [0; DATABASES]),
            };
        }
        self.last_id = self.counters.ids;
        self.committed = self.counters.clone();
        self.load_stream()
    }

    fn create(&mut self, random: u64) -> Result<()> {
        let mut is_empty = true;
        let everything = (Vec::new(), vec![u8::MAX; 16]);
        self.turn.walk(FamilyKind::Keys, &everything, Direction::Forward, &mut |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        if !is_empty {
            // Some other program's database.
            return Err(Error::Format(0, FORMAT));
        }
        self.seed = random;
        self.turn.put(FamilyKind::Keys, layout::setting_key(b"format"), FORMAT.to_le_bytes());
        self.turn.put(FamilyKind::Keys, layout::setting_key(b"seed"), random.to_le_bytes());
        self.turn.commit(&WriteOptions::default())
    }

    /// The engine below.
    pub fn db(&self) -> &Db {
        self.turn.db()
    }

    /// Sets the time for the commands that follow, unix milliseconds.
    pub fn set_now(&mut self, unix_ms: u64) {
        self.now = unix_ms;
        self.turn.set_now(unix_ms);
    }

    /// Begins a command, whose lookups count as uses of the keys (for eviction) or do not.
    pub fn begin_command(&mut self, counts_use: bool) {
        self.command = self.command.wrapping_add(1);
        self.purpose = if counts_use { Purpose::Use } else { Purpose::Look };
    }

    /// The time of the current command, unix milliseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Counts lookups of keys from now on, or no longer. Commands that only read begin with counting; others count the lookups of the keys
    /// that they also read.
    pub fn count_lookups(&mut self, is_on: bool) {
        self.counts_lookups = is_on;
    }

    /// Counted lookups of keys since the start.
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Keys and fields that were removed since the start because their deadlines had passed.
    pub fn expired(&self) -> Expired {
        self.expired
    }

    /// Nanoseconds since the start for which reads have waited until they could find earlier commits: work for other requests.
    pub fn waited(&self) -> u64 {
        self.turn.waited()
    }

    /// Bytes that wait for [`Keyspace::commit`].
    pub fn uncommitted(&self) -> usize {
        self.turn.bytes()
    }

    /// Whether nothing waits for [`Keyspace::commit`].
    pub fn is_committed(&self) -> bool {
        self.turn.is_empty()
    }

    /// Gives the engine all writes since the last commit, as one batch. A durable commit of nothing makes earlier ones durable.
    ///
    /// # Errors
    /// Errors of the engine; the writes are dropped then.
    pub fn commit(&mut self, options: &WriteOptions) -> Result<()> {
        if self.turn.is_empty() && options.durability != Durability::Sync {
            return Ok(());
        }
        if self.counters != self.committed || self.has_put_counters {
            self.put_counters();
        }
        self.settle_stream();
        self.has_put_counters = false;
        if self.all_deleted {
            self.cleaner.hold_all();
        }
        // Before readers see the deletion: a power cut may undo it, and elements that the filter has removed would not come back.
        self.cleaner.hold(&self.deleted);
        if self.all_deleted || !self.deleted.is_empty() {
            self.bulk.delete(self.now);
        }
        if self.turn.deletes_ranges() {
            self.bulk.delete_range(self.now);
        }
        self.deleted.clear();
        self.all_deleted = false;
        self.bulk.add(self.turn.bytes(), self.now);
        self.end_committed();
        let result = self.turn.commit(options);
        // Not earlier: a sync that began while the batch waited does not cover the deletions.
        self.cleaner.committed();
        self.unsynced.restart();
        if result.is_ok() {
            self.ending.append(&mut self.named);
            self.committed = self.counters.clone();
            self.committed_stream = self.stream;
            let number = self.marks.committed.fetch_add(1, Ordering::AcqRel) + 1;
            if options.durability == Durability::Sync {
                self.marks.synced.fetch_max(number, Ordering::AcqRel);
            }
        } else {
            self.lose_uploads();
            self.counters = self.committed.clone();
            self.stream = self.committed_stream;
            self.due = Due::default();
            self.hand = Hand::default();
            self.ranks.clear();
            self.forget_traces();
        }
        result
    }

    /// Writes the counters that have changed in this turn.
    fn put_counters(&mut self) {
        if self.is_successor {
            let (name, value) = self.encode_successor();
            return self.turn.put(FamilyKind::Keys, layout::setting_key(name), value);
        }
        let others = Counters { bytes: self.committed.bytes, ..self.counters.clone() };
        if others != self.committed || self.has_put_counters {
            self.turn.put(FamilyKind::Keys, layout::setting_key(COUNTERS), self.counters.encode());
        }
        if self.counters.bytes.is_some() && (self.counters.bytes != self.committed.bytes || self.has_put_counters) {
            self.turn.put(FamilyKind::Keys, layout::setting_key(BYTES), self.counters.encode_bytes());
        }
    }

    /// Writes all counters, for a turn that may write nothing else.
    fn put_all_counters(&mut self) {
        self.has_put_counters = true;
        self.put_counters();
    }

    /// Generation of the database bytes in use.
    fn generation(&self) -> Generation {
        self.counters.places.generation()
    }

    /// The number of the commit that all writes so far are in.
    pub fn position(&self) -> u64 {
        self.committed() + u64::from(!self.is_committed())
    }

    /// Number of the last commit that is synced, with all before it.
    pub fn synced(&self) -> u64 {
        self.marks.synced.load(Ordering::Acquire)
    }

    /// Why a sync has failed since the last call. Commits that are not synced may be lost at the next start, although reads find them now.
    pub fn take_sync_failure(&self) -> Option<String> {
        self.marks.failure.lock().take()
    }

    /// Whether a commit would wait for a flush.
    pub fn would_wait(&self) -> bool {
        self.turn.would_wait()
    }

    /// Whether a batch is on its way into the memtables: reads would wait for it.
    pub fn is_underway(&self) -> bool {
        self.turn.is_underway()
    }

    /// Frees the memory that is kept for the next commands.
    pub fn give_back(&mut self) {
        self.turn.give_back();
        self.known = Known::default();
        self.entry = Vec::new();
        self.spare_key = Vec::new();
    }

    /// Number of changes of keys since the start.
    pub fn times_changed(&self) -> u64 {
        self.touched
    }

    /// Drops all writes since the last commit.
    pub fn discard(&mut self) {
        self.turn.discard();
        self.lose_uploads();
        self.ranks.clear();
        self.forget_traces();
        self.forget_stale();
        self.unsynced.restart();
        self.counters = self.committed.clone();
        self.stream = self.committed_stream;
        self.has_put_counters = false;
        self.deleted.clear();
        self.all_deleted = false;
        // Deadlines and keys that were removed are there again.
        self.due = Due::default();
        self.hand = Hand::default();
    }

    /// Returns a handle by which another thread makes commits durable.
    pub fn syncer(&self) -> Syncer {
        let (cleaner, marks, beside) = (self.cleaner.clone(), self.marks.clone(), self.beside.clone());
        Syncer { db: self.turn.db().clone(), cleaner, marks, beside }
    }

    /// Commits, syncs and closes the store. Syncers must be dropped before.
    pub fn close(mut self) -> Result<()> {
        self.commit(&WriteOptions::default())?;
        // An earlier failure may have ended the engine's handle: closing it does not report that again.
        let synced = self.syncer().sync();
        self.cleaner.detach();
        self.turn.db().clone().close()?;
        synced
    }

    /// A random number, not for secrets.
    pub fn random(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A random number below `n`, or 0.
    pub fn random_below(&mut self, n: u64) -> u64 {
        // The upper half of the product: even enough, without a division.
        let product = u128::from(self.random()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Whether there are ids for any command.
    ///
    /// # Errors
    /// [`Error::NoIds`]: a command that may need an id must not run.
    pub fn check_ids(&self) -> Result<()> {
        let left = self.ids.end.saturating_sub(self.last_id);
        if left > IDS_OF_COMMAND { Ok(()) } else { Err(self.no_ids()) }
    }

    fn no_ids(&self) -> Error {
        Error::NoIds(if self.has_successor { "wait for the end of the import or synchronisation" } else { NO_IDS })
    }

    /// Uses up all ids but some, for tests.
    #[cfg(test)]
    pub fn use_up_ids(&mut self, left: u64) {
        self.last_id = self.ids.end - 1 - left;
    }

    /// An id that no value had before. [`Error::NoIds`] if none is left: two values with the same id would share their elements.
    fn new_id(&mut self) -> Result<u64> {
        let id = self.last_id + 1;
        if !self.ids.contains(&id) {
            return Err(self.no_ids());
        }
        self.last_id = id;
        if id > self.counters.ids {
            self.counters.ids = (id + IDS_AT_ONCE).min(self.ids.end - 1);
        }
        Ok(id)
    }

    /// The next elements within bounds, copied, so that they can be changed.
    fn chunk(&self, family: FamilyKind, bounds: &layout::Bounds, direction: Direction, most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        self.turn.walk(family, bounds, direction, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(found)
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        // The database owns the filter, whose handle of the database would keep it open for ever.
        if !self.is_successor {
            self.cleaner.detach();
        }
    }
}
