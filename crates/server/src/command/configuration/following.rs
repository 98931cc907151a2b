//! Directives of a replica that have an effect, and their values.

use super::Why;
use super::parameter::{Parameter, parameter};
use super::values::{name_of, number, yes_or_no};
use crate::replication::Address;

/// Settings of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    /// The primary; `None`: the server is no replica.
    pub primary: Option<Address>,
    /// Password for the primary; empty: none.
    pub password: String,
    /// User that the password is of; empty: the primary's default user.
    pub user: String,
    /// Clients cannot write.
    pub is_read_only: bool,
    /// Clients are served while the link to the primary is down.
    pub serves_stale: bool,
    /// Rank among the replicas of a primary that fails: the smallest one is promoted; 0: never.
    pub priority: u32,
    /// Address that the primary tells others; empty: the one from which the replica connects.
    pub announced_address: String,
    /// Port that the primary tells others; 0: the one that the replica listens on.
    pub announced_port: u16,
    /// Sentinel may tell others of the replica.
    pub is_announced: bool,
    /// The link to the primary uses TLS.
    pub is_encrypted: bool,
    /// Microseconds that a synchronisation waits after each key that it loads, for tests; negative: none.
    pub load_delay_us: i64,
}

impl Default for Following {
    fn default() -> Self {
        Following {
            primary: None,
            password: String::new(),
            user: String::new(),
            is_read_only: true,
            serves_stale: true,
            priority: 100,
            announced_address: String::new(),
            announced_port: 0,
            is_announced: true,
            is_encrypted: false,
            load_delay_us: 0,
        }
    }
}

impl Following {
    /// Arguments of `AUTH` for the primary; empty: no password is set.
    pub fn credentials(&self) -> Vec<String> {
        let words = [&self.user, &self.password].into_iter().filter(|word| !word.is_empty());
        if self.password.is_empty() { Vec::new() } else { words.cloned().collect() }
    }
}

/// Parses host and port of a primary.
fn primary(value: &str) -> Result<Option<Address>, Why> {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(None),
        [host, port] => {
            let port = port.parse::<u16>().map_err(|_| "Invalid master port")?;
            Ok(Some(Address { host: host.into(), port }))
        }
        _ => Err("wrong number of arguments".into()),
    }
}

/// Directives of a replica.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter(
        "key-load-delay",
        true,
        "microseconds that a full synchronisation of this replica waits after each key that it loads, for tests; negative: none",
        |c| c.following.load_delay_us.to_string(),
        |c, value| number(value, i32::MIN.into(), i32::MAX.into()).map(|number| c.following.load_delay_us = number),
    ),
    parameter(
        "masterauth",
        true,
        "password for the primary; empty: none",
        |c| c.following.password.clone(),
        |c, value| {
            c.following.password = value.into();
            Ok(())
        },
    )
    .also("primaryauth"),
    parameter(
        "masteruser",
        true,
        "user of that password; empty: the primary's user `default`",
        |c| c.following.user.clone(),
        |c, value| {
            c.following.user = value.into();
            Ok(())
        },
    )
    .also("primaryuser"),
    parameter(
        "replica-announce-ip",
        true,
        "address under which the primary and Sentinel know this replica; empty: the one from which it connects",
        |c| c.following.announced_address.clone(),
        |c, value| {
            c.following.announced_address = value.into();
            Ok(())
        },
    )
    .also("slave-announce-ip"),
    parameter(
        "replica-announce-port",
        true,
        "port under which they know it; 0: the one that it listens on",
        |c| c.following.announced_port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.following.announced_port = number),
    )
    .also("slave-announce-port"),
    parameter(
        "replica-announced",
        true,
        "whether Sentinel tells clients of this replica",
        |c| name_of(c.following.is_announced),
        |c, value| yes_or_no(value).map(|yes| c.following.is_announced = yes),
    ),
    parameter(
        "replica-priority",
        true,
        "rank among the replicas of a primary that fails: Sentinel promotes the one with the smallest number, and none with 0",
        |c| c.following.priority.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.following.priority = number),
    )
    .also("slave-priority"),
    parameter(
        "replica-read-only",
        true,
        "whether a replica refuses the writes of clients. Writes that it accepts stay on it alone, until the next full synchronisation",
        |c| name_of(c.following.is_read_only),
        |c, value| yes_or_no(value).map(|yes| c.following.is_read_only = yes),
    )
    .also("slave-read-only"),
    parameter(
        "replica-serve-stale-data",
        true,
        "whether a replica serves its data, which may be old, while the link to its primary is down or all data are on their way",
        |c| name_of(c.following.serves_stale),
        |c, value| yes_or_no(value).map(|yes| c.following.serves_stale = yes),
    )
    .also("slave-serve-stale-data"),
    parameter(
        "replicaof",
        false,
        "`HOST PORT` of the primary that this server follows as a replica; empty: none. `REPLICAOF` changes it while the server runs",
        |c| c.following.primary.as_ref().map_or_else(String::new, |primary| format!("{} {}", primary.host, primary.port)),
        |c, value| primary(value).map(|primary| c.following.primary = primary),
    )
    .also("slaveof"),
    parameter(
        "tls-client-cert-file",
        true,
        "PEM file of the certificate that a replica shows its primary; empty: that of `tls-cert-file`, if there is one",
        |c| c.tls.client_certificate.clone(),
        |c, value| {
            c.tls.client_certificate = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-client-key-file",
        true,
        "PEM file of that certificate's key",
        |c| c.tls.client_key.clone(),
        |c, value| {
            c.tls.client_key = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-replication",
        true,
        "whether the link of a replica to its primary uses TLS. The authorities of `tls-ca-cert-file` must have signed the primary's \
         certificate; names in it are not checked, as in Redis",
        |c| name_of(c.following.is_encrypted),
        |c, value| yes_or_no(value).map(|yes| c.following.is_encrypted = yes),
    ),
];
