//! Directives of Redis that are fixed or rejected here, with the reason.

/// A directive that is accepted only at the values that describe what the server does.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    /// Names of the directive, blanks between them.
    pub names: &'static str,
    /// Values that are accepted, bars between them; the first is the one that is shown.
    pub values: &'static str,
    /// Why there are no others.
    pub why: &'static str,
}

impl Fixed {
    /// The value that is shown.
    pub fn value(&self) -> &'static str {
        self.values.split('|').next().unwrap_or_default()
    }

    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        if self.values.split('|').any(|known| known.eq_ignore_ascii_case(value)) {
            return Ok(());
        }
        let values = self.values.split('|').map(|known| if known.is_empty() { "\"\"" } else { known }).collect::<Vec<_>>().join(" or ");
        Err(format!("only {values} is possible: {}", self.why))
    }
}

const fn fixed(names: &'static str, values: &'static str, why: &'static str) -> Fixed {
    Fixed { names, values, why }
}

const CLUSTER: &str = "there is no cluster";
const PROCESS: &str = "the service manager (systemd, a container) controls the process";
const MODULES: &str = "there are no modules";

/// Directives with one value.
pub const FIXED: &[Fixed] = &[
    fixed("activedefrag", "no", "memory is allocated in few large pieces and does not fragment"),
    fixed("aof-timestamp-enabled", "no", "the log that `appendonly` keeps has no timestamps"),
    fixed("cluster-enabled", "no", CLUSTER),
    fixed("databases", "16", "the data format has 16 databases"),
    fixed("enable-protected-configs", "no", "names that could do harm cannot be changed while the server runs"),
    fixed("gopher-enabled", "no", "Redis has removed the protocol, too"),
    fixed("oom-score-adj", "no", PROCESS),
    fixed("oom-score-adj-values", "0 200 800", PROCESS),
    fixed("proto-max-bulk-len", "536870912|512mb", "a string may have 512 MiB"),
    fixed("socket-mark-id", "0", "connections have no mark"),
];

/// Directives that do not exist here, and why.
pub const ABSENT: &[(&str, &str)] = &[("loadmodule", MODULES), ("sentinel", "there is no Sentinel")];
