//! Range tombstones, cut into fragments that do not overlap. STUB

use crate::coding::Decoder;
use crate::key::Seq;

/// One piece of the key space and the sequence numbers of all range tombstones that cover it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Vec<u8>,
    /// First key after it that is not covered.
    pub end: Vec<u8>,
    /// Newest first.
    pub seqs: Vec<Seq>,
}

/// Fragments in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeTombstones {}

impl RangeTombstones {
    /// Cuts arbitrary, overlapping tombstones `(start, end, seq)` into fragments. Empty ranges (`start >= end`) vanish.
    pub fn new(_tombstones: impl IntoIterator<Item = (Vec<u8>, Vec<u8>, Seq)>) -> Self {
        unimplemented!()
    }
    /// No tombstones.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// In key order.
    pub fn fragments(&self) -> &[Fragment] {
        unimplemented!()
    }
    /// The newest tombstone `<= snapshot` that covers `key`; an entry with a smaller sequence number is deleted.
    pub fn covering(&self, _key: &[u8], _snapshot: Seq) -> Option<Seq> {
        unimplemented!()
    }
    /// The part within `[from, to)`; `None` is unbounded.
    pub fn clip(&self, _from: Option<&[u8]>, _to: Option<&[u8]>) -> Self {
        unimplemented!()
    }
    /// Appends the format (docs/format.md): count, then start, end, seqs of each fragment.
    pub fn encode(&self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Reads the format; `None` if it is damaged (order, lengths, empty ranges, trailing bytes are checked).
    pub fn decode(_from: Decoder<'_>) -> Option<Self> {
        unimplemented!()
    }
}
