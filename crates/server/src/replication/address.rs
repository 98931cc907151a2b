//! Addresses of servers, as users give them.

use std::fmt;

/// Address of a server, as it was given: a name or an IP address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
