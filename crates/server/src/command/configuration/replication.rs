//! Directives of replication that have an effect, and their values.

use super::parameter::{Parameter, parameter};
use super::values::{memory, name_of, number, yes_or_no};

/// Settings of replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// Bytes of the stream that are kept for replicas that come back.
    pub backlog_size: u64,
    /// Seconds without any replica after which the stream ends; 0: never.
    pub backlog_seconds: u64,
    /// Seconds between two `PING`s in the stream.
    pub ping_seconds: u64,
    /// Seconds of silence after which a link is closed.
    pub timeout_seconds: u64,
    /// Seconds for which the end of the server waits for replicas; 0: it does not.
    pub shutdown_seconds: u64,
    /// Seconds for which a full synchronisation waits for more replicas.
    pub sync_delay_seconds: u64,
    /// Number of waiting replicas at which it begins without delay; 0: any number waits.
    pub sync_replicas: usize,
    /// Microseconds that the transfer of all data waits after each key, for tests; below 0: none.
    pub key_delay: i64,
    /// The kernel may collect small packets to replicas before it sends them.
    pub delays_packets: bool,
    /// Number of replicas that must be connected and not lag for writes to be accepted; 0: writes need none.
    pub replicas_to_write: usize,
    /// Seconds since its last acknowledgement after which a replica lags; 0: none ever does.
    pub lag_max_seconds: u64,
}

impl Default for Replication {
    fn default() -> Self {
        Replication {
            backlog_size: 256 << 20,
            backlog_seconds: 3600,
            ping_seconds: 10,
            timeout_seconds: 60,
            shutdown_seconds: 10,
            sync_delay_seconds: 0,
            sync_replicas: 0,
            key_delay: 0,
            delays_packets: false,
            replicas_to_write: 0,
            lag_max_seconds: 10,
        }
    }
}

const INT_MAX: i64 = i32::MAX as i64;

/// Directives of replication.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter(
        "min-replicas-max-lag",
        true,
        "seconds since its last acknowledgement after which a replica does not count for `min-replicas-to-write`; 0: writes need no \
         replicas",
        |c| c.replication.lag_max_seconds.to_string(),
        |c, value| number(value, 0, INT_MAX).map(|number| c.replication.lag_max_seconds = number),
    )
    .also("min-slaves-max-lag"),
    parameter(
        "min-replicas-to-write",
        true,
        "replicas that must be connected and acknowledge in time for writes to be accepted; 0: writes need none",
        |c| c.replication.replicas_to_write.to_string(),
        |c, value| number(value, 0, INT_MAX).map(|number| c.replication.replicas_to_write = number),
    )
    .also("min-slaves-to-write"),
    parameter(
        "rdb-key-save-delay",
        true,
        "microseconds that a full synchronisation waits after each key, for tests of what happens meanwhile; below 0: none",
        |c| c.replication.key_delay.to_string(),
        |c, value| number(value, i32::MIN.into(), INT_MAX).map(|number| c.replication.key_delay = number),
    ),
    parameter(
        "repl-backlog-size",
        true,
        "bytes of the replication stream that are kept on disk, so that a replica that comes back gets what it missed instead of all data",
        |c| c.replication.backlog_size.to_string(),
        |c, value| memory(value, 1).map(|bytes| c.replication.backlog_size = bytes),
    ),
    parameter(
        "repl-backlog-ttl",
        true,
        "seconds without any replica after which the stream ends and its backlog goes; the next replica gets all data. 0: never",
        |c| c.replication.backlog_seconds.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.replication.backlog_seconds = number),
    ),
    parameter(
        "repl-disable-tcp-nodelay",
        true,
        "whether the kernel may collect small packets to a replica, which saves bandwidth and delays them by up to 40 ms. A change \
         concerns new replicas",
        |c| name_of(c.replication.delays_packets),
        |c, value| yes_or_no(value).map(|yes| c.replication.delays_packets = yes),
    ),
    parameter(
        "repl-diskless-sync-delay",
        true,
        "seconds for which a full synchronisation waits for more replicas. Snapshots cost next to nothing, so there is little to gain",
        |c| c.replication.sync_delay_seconds.to_string(),
        |c, value| number(value, 0, INT_MAX).map(|number| c.replication.sync_delay_seconds = number),
    ),
    parameter(
        "repl-diskless-sync-max-replicas",
        true,
        "waiting replicas at which a full synchronisation begins without that delay; 0: any number waits",
        |c| c.replication.sync_replicas.to_string(),
        |c, value| number(value, 0, INT_MAX).map(|number| c.replication.sync_replicas = number),
    ),
    parameter(
        "repl-ping-replica-period",
        true,
        "seconds between two `PING`s to replicas, by which they notice that the link is alive",
        |c| c.replication.ping_seconds.to_string(),
        |c, value| number(value, 1, INT_MAX).map(|number| c.replication.ping_seconds = number),
    )
    .also("repl-ping-slave-period"),
    parameter(
        "repl-timeout",
        true,
        "seconds without acknowledgement, or without progress of a full synchronisation, after which a replica is closed",
        |c| c.replication.timeout_seconds.to_string(),
        |c, value| number(value, 1, INT_MAX).map(|number| c.replication.timeout_seconds = number),
    ),
    parameter(
        "shutdown-timeout",
        true,
        "seconds for which the end of the server waits for replicas that acknowledge, and have not acknowledged everything. Writes wait \
         meanwhile; 0: it does not wait",
        |c| c.replication.shutdown_seconds.to_string(),
        |c, value| number(value, 0, INT_MAX).map(|number| c.replication.shutdown_seconds = number),
    ),
];
