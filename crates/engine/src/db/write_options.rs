//! Options of a write.

/// Guarantee with which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// After fdatasync, shared by the group: survives the machine.
    Sync,
    /// Handed to the kernel before the acknowledgement: survives the process, not the machine.
    #[default]
    Buffered,
    /// Not logged: survives only from the next flush on.
    NoWal,
}

/// Options of a write: `WriteOptions::new(Durability::Sync)`, or the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Guarantee with which the write is acknowledged.
    pub durability: Durability,
}

impl WriteOptions {
    /// Acknowledged when `durability` says.
    pub const fn new(durability: Durability) -> Self {
        WriteOptions { durability }
    }
}
