//! Replicas of this server: what they have said of themselves, what they ask for, and how far they are.

use crate::persist::Selection;
use std::collections::{BTreeMap, VecDeque};

/// Samples of the stream's offset that are kept, one a second, for the age of what a replica lacks.
const SAMPLES: usize = 3600;

/// A request for synchronisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// `PSYNC`: the stream of this id from this byte on, the first one being 1; otherwise all data.
    Continue(Vec<u8>, i64),
    /// `SYNC`: all data. The client does not expect to be told id and offset, and is not closed for its silence. As in Redis, it has to
    /// acknowledge data that end in a mark, before the stream follows.
    All,
}

/// Stage of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// The client has said something of itself with `REPLCONF`, and is no replica yet.
    #[default]
    Greeting,
    /// The replica has asked for a synchronisation that has not begun.
    Waiting,
    /// The replica gets all data.
    Loading,
    /// The replica was sent all data. The stream follows its first acknowledgement, because some find the end of the data only if nothing
    /// has arrived behind it.
    Loaded,
    /// The replica gets the stream.
    Online,
}

impl Stage {
    /// The name in `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Greeting | Stage::Waiting => "wait_bgsave",
            Stage::Loading => "send_bulk",
            Stage::Loaded | Stage::Online => "online",
        }
    }
}

/// A replica, or a client that may become one.
#[derive(Debug, Clone, Default)]
pub struct Replica {
    /// Stage of the synchronisation.
    pub stage: Stage,
    /// The request that has not been looked at yet.
    pub wish: Option<Wish>,
    /// Port that the replica listens on, as it says.
    pub port: i64,
    /// Address of the replica, as it says; empty: that of its connection.
    pub address: Vec<u8>,
    /// The replica finds the end of data whose length is not known before.
    pub finds_end: bool,
    /// The replica takes over a new id of the stream.
    pub takes_id: bool,
    /// The replica says that it is a Valkey 9 or newer, which takes deadlines of fields in Valkey's own version of RDB only.
    pub is_valkey_9: bool,
    /// The client wants data only, and is closed behind them.
    pub takes_no_stream: bool,
    /// The part of the data that the client wants.
    pub selection: Selection,
    /// The client has asked with `SYNC`.
    pub is_old: bool,
    /// When the stage began, unix milliseconds.
    pub since: u64,
    /// Bytes of the stream before this offset are sent, or on their way.
    pub sent: u64,
    /// Offset that the replica has acknowledged; `None`: none yet, so nobody knows whether it has the data.
    pub acknowledged: Option<u64>,
    /// Offset that the replica has on its medium, as it says (`FACK`); `None`: it has not said so.
    pub durable: Option<u64>,
    /// When the replica was last heard of, unix milliseconds.
    pub heard: u64,
    /// Since when the replica is further behind than the soft limit, unix milliseconds.
    pub behind_since: Option<u64>,
}

impl Replica {
    /// Whether the replica has, or was sent, all data.
    pub fn is_online(&self) -> bool {
        self.stage >= Stage::Loaded
    }

    /// Seconds since the last acknowledgement.
    pub fn silence(&self, now: u64) -> u64 {
        now.saturating_sub(self.heard) / 1000
    }

    /// Begins a stage.
    pub fn enter(&mut self, stage: Stage, now: u64) {
        (self.stage, self.since, self.heard) = (stage, now, now);
    }
}

/// The replicas, by session.
#[derive(Debug, Default)]
pub struct Replicas {
    all: BTreeMap<u64, Replica>,
    /// The replicas are to be asked for acknowledgements at the end of the event-loop iteration.
    pub asks: bool,
    /// A replica has acknowledged something, and requests may have waited for it.
    pub has_news: bool,
    /// Full synchronisations, partial ones, and requests for partial ones that were not possible.
    pub syncs: [u64; 3],
    /// Times (unix milliseconds) and offsets of the stream at them, in order.
    samples: VecDeque<(u64, u64)>,
}

impl Replicas {
    /// The words of a client on itself, to be changed.
    pub(super) fn greet(&mut self, id: u64) -> &mut Replica {
        self.all.entry(id).or_default()
    }

    /// Forgets a client.
    pub fn remove(&mut self, id: u64) {
        self.all.remove(&id);
    }

    /// A replica, or a client that may become one.
    pub fn get(&self, id: u64) -> Option<&Replica> {
        self.all.get(&id)
    }

    /// Like [`Replicas::get`], to be changed.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Replica> {
        self.all.get_mut(&id)
    }

    /// All replicas, in the order in which they connected.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Replica)> {
        self.all.iter().filter(|(_, replica)| replica.stage > Stage::Greeting).map(|(id, replica)| (*id, replica))
    }

    /// Number of replicas.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no replica.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether a client is a replica.
    pub fn has(&self, id: u64) -> bool {
        self.get(id).is_some_and(|replica| replica.stage > Stage::Greeting)
    }

    /// Number of replicas that get the stream, have acknowledged something, and were heard of in the last `seconds`. A replica that loads
    /// is heard of by line breaks, and lacks all writes of that time.
    pub fn in_time(&self, seconds: u64, now: u64) -> usize {
        let follows = |replica: &Replica| replica.stage == Stage::Online && replica.acknowledged.is_some() && !replica.takes_no_stream;
        self.iter().filter(|(_, replica)| follows(replica) && replica.silence(now) <= seconds).count()
    }

    /// Number of replicas that have acknowledged an offset. `is_durable`: that they have it on their media.
    pub fn that_have(&self, offset: u64, is_durable: bool) -> usize {
        let has = |replica: &Replica| if is_durable { replica.durable } else { replica.acknowledged };
        self.iter().filter(|(_, replica)| replica.is_online() && has(replica).is_some_and(|has| has >= offset)).count()
    }

    /// Number of replicas that acknowledge, and have not acknowledged this offset.
    pub fn that_lack(&self, offset: u64) -> usize {
        let lacks = |replica: &Replica| replica.acknowledged.is_some_and(|has| has < offset) && !replica.is_old;
        self.iter().filter(|(_, replica)| replica.stage == Stage::Online && lacks(replica)).count()
    }

    /// The smallest offset from which the stream is still needed, by replicas that are at most `behind` bytes behind its end, or sixteen
    /// times as many while they load; 0: whatever their distance.
    pub fn oldest_needed(&self, end: u64, behind: u64) -> Option<u64> {
        let is_kept = |replica: &Replica| {
            let most = behind_max(replica.stage, behind);
            replica.stage >= Stage::Loading && !replica.takes_no_stream && (most == 0 || end.saturating_sub(replica.sent) <= most)
        };
        self.iter().filter(|(_, replica)| is_kept(replica)).map(|(_, replica)| replica.sent).min()
    }

    /// Notes the offset of the stream at a time; one sample a second is kept. A clock that is set back hides no replica's silence.
    pub fn sample(&mut self, now: u64, offset: u64) {
        self.all.values_mut().for_each(|replica| replica.heard = replica.heard.min(now));
        if self.is_empty() {
            return self.samples.clear();
        }
        // Samples of a clock that was ahead would hide later ones.
        self.samples.retain(|(at, _)| *at <= now);
        if self.samples.back().is_none_or(|(at, _)| now - at >= 1000) {
            self.samples.push_back((now, offset));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// Seconds since the stream had an offset that a replica has not acknowledged; 0: it has all.
    pub fn lag_seconds(&self, acknowledged: u64, now: u64) -> f64 {
        let missed = self.samples.partition_point(|(_, offset)| *offset <= acknowledged);
        self.samples.get(missed).map_or(0.0, |(at, _)| now.saturating_sub(*at) as f64 / 1000.0)
    }
}

/// Number of times by which a replica that loads may be further behind than one that has all data. The bytes cost disk and no memory, and a
/// full synchronisation that is cut short begins again from nothing. Without any limit a slow one could fill the medium.
const LOADING_TIMES: u64 = 16;

/// Bytes that a replica may be behind at a stage, given those of one that has all data; 0: any number.
pub fn behind_max(stage: Stage, behind: u64) -> u64 {
    if stage < Stage::Online { behind.saturating_mul(LOADING_TIMES) } else { behind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(stage: Stage, sent: u64, acknowledged: u64) -> Replica {
        Replica { stage, sent, acknowledged: Some(acknowledged), durable: Some(acknowledged / 2), heard: 5000, ..Replica::default() }
    }

    #[test]
    fn replicas_count_if_they_have_the_data_and_speak() {
        let mut replicas = Replicas::default();
        assert!(replicas.is_empty());
        for (id, stage) in [Stage::Greeting, Stage::Waiting, Stage::Loading, Stage::Loaded, Stage::Online].into_iter().enumerate() {
            *replicas.greet(id as u64) = replica(stage, 100 * id as u64, 40 * id as u64);
        }
        assert_eq!((replicas.len(), replicas.has(0), replicas.has(1), replicas.has(9)), (4, false, true, false));
        assert_eq!((replicas.in_time(1, 6999), replicas.in_time(1, 7000)), (1, 0));
        assert_eq!([0, 120, 121, 160, 161].map(|offset| replicas.that_have(offset, false)), [2, 2, 1, 1, 0]);
        assert_eq!([60, 61, 80, 81].map(|offset| replicas.that_have(offset, true)), [2, 1, 1, 0]);
        assert_eq!([160, 161].map(|offset| replicas.that_lack(offset)), [0, 1]);
        replicas.greet(4).durable = None;
        assert_eq!((replicas.that_have(0, false), replicas.that_have(0, true)), (2, 1), "it says nothing of its medium");
        replicas.greet(4).acknowledged = None;
        assert_eq!((replicas.that_have(0, false), replicas.that_lack(161)), (1, 0), "it has not acknowledged anything");
        assert_eq!(replicas.in_time(1, 6000), 0);
        replicas.greet(4).acknowledged = Some(0);
        assert_eq!((replicas.that_have(0, false), replicas.that_lack(1)), (2, 1));
        replicas.remove(4);
        assert_eq!(replicas.iter().map(|(_, replica)| replica.stage.name()).collect::<Vec<_>>(), ["wait_bgsave", "send_bulk", "online"]);
    }

    #[test]
    fn the_stream_is_kept_for_the_slowest_within_the_limit() {
        let mut replicas = Replicas::default();
        assert_eq!(replicas.oldest_needed(1000, 0), None);
        *replicas.greet(1) = replica(Stage::Online, 900, 0);
        *replicas.greet(2) = replica(Stage::Waiting, 0, 0);
        *replicas.greet(3) = replica(Stage::Loading, 200, 0);
        *replicas.greet(4) = Replica { takes_no_stream: true, ..replica(Stage::Loading, 5, 0) };
        // The one that loads may be 16 times as far behind as the other.
        assert_eq!([0, 100, 50, 49].map(|behind| replicas.oldest_needed(1000, behind)), [Some(200), Some(200), Some(200), None]);
        *replicas.greet(3) = replica(Stage::Loaded, 950, 0);
        assert_eq!([100, 99, 3].map(|behind| replicas.oldest_needed(1000, behind)), [Some(900), Some(950), None]);
    }

    #[test]
    fn a_clock_that_is_set_back_hides_no_silence() {
        let mut replicas = Replicas::default();
        *replicas.greet(1) = replica(Stage::Online, 0, 0);
        replicas.sample(1000, 10);
        assert_eq!((replicas.in_time(1, 2999), replicas.in_time(1, 3000)), (1, 0));
    }

    #[test]
    fn the_lag_is_the_age_of_the_first_missing_byte() {
        let mut replicas = Replicas::default();
        replicas.sample(500, 10);
        assert_eq!(replicas.lag_seconds(0, 900), 0.0, "there is no replica");
        *replicas.greet(1) = replica(Stage::Online, 0, 0);
        for (now, offset) in [(1000, 10), (1500, 15), (2000, 20), (3000, 30), (4000, 30)] {
            replicas.sample(now, offset);
        }
        assert_eq!([0, 10, 15, 20, 30].map(|offset| replicas.lag_seconds(offset, 5000)), [4.0, 3.0, 3.0, 2.0, 0.0]);
        // The clock is set back.
        replicas.sample(1500, 40);
        assert_eq!([5, 10].map(|offset| replicas.lag_seconds(offset, 2500)), [1.5, 0.0]);
    }
}
