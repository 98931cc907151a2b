//! The connected clients, by the numbers of their sessions.

use super::connection::Connection;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hash of session numbers, which the server gives: nobody can choose colliding ones.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: the table takes the upper bits and the lower ones.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// All connections by session number. A connection that is being served is taken out, and its number stays.
#[derive(Default)]
pub(super) struct Connections(HashMap<u64, Option<Box<Connection>>, BuildHasherDefault<NumberHasher>>);

impl Connections {
    /// Number of connections, including those taken out.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, id: u64) -> Option<&Connection> {
        self.0.get(&id)?.as_deref()
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Connection> {
        self.0.get_mut(&id)?.as_deref_mut()
    }

    /// Takes a connection out until [`Connections::put`].
    pub fn take(&mut self, id: u64) -> Option<Box<Connection>> {
        self.0.get_mut(&id)?.take()
    }

    /// Adds a connection, or puts it back.
    pub fn put(&mut self, id: u64, connection: Box<Connection>) {
        self.0.insert(id, Some(connection));
    }

    /// Whether a connection is taken out.
    pub fn is_out(&self, id: u64) -> bool {
        self.0.get(&id).is_some_and(Option::is_none)
    }

    pub fn remove(&mut self, id: u64) -> Option<Box<Connection>> {
        self.0.remove(&id)?
    }

    /// Closes all connections but some.
    pub fn keep(&mut self, is_kept: impl Fn(&Connection) -> bool) {
        self.0.retain(|_, connection| connection.as_deref().is_some_and(&is_kept));
    }

    /// The connections that are not taken out.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.0.iter().filter_map(|(id, connection)| Some((*id, connection.as_deref()?)))
    }

    /// Like [`Connections::iter`], without the numbers.
    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = &Connection> {
        self.iter().map(|(_, connection)| connection)
    }
}
