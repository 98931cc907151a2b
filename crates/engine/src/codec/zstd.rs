//! Zstandard, by the reference library.

use ::zstd::dict;
use ::zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};
use std::cell::RefCell;
use std::fmt;

/// Effort where none is given.
const LEVEL: i32 = 1;

/// A zstd dictionary, digested for decompression.
pub struct Dictionary(DDict<'static>);

impl Dictionary {
    /// Digests dictionary bytes (tens of microseconds: once per open table). `None` if zstd refuses them.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        DDict::try_create(bytes).map(Dictionary)
    }

    /// Trains a dictionary of at most `bytes` from samples that stand one after another (`sizes` are their lengths). `None` if the samples
    /// do not suffice: the table then goes without.
    pub fn train(samples: &[u8], sizes: &[usize], bytes: usize) -> Option<Vec<u8>> {
        dict::from_continuous(samples, sizes, bytes).ok().filter(|trained| !trained.is_empty())
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dictionary")
    }
}

/// A zstd dictionary digested for compression, once for all threads that use it.
pub struct Trained {
    bytes: Vec<u8>,
    digested: CDict<'static>,
}

impl Trained {
    /// Digests dictionary bytes for a level ([`Compression::level`](super::Compression::level)). `None` if zstd refuses them.
    pub fn new(bytes: Vec<u8>, level: Option<i32>) -> Option<Self> {
        let digested = CDict::try_create(&bytes, level.unwrap_or(LEVEL))?;
        Some(Trained { bytes, digested })
    }

    /// Bytes of the dictionary, from which a reader makes its own.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trained({} bytes)", self.bytes.len())
    }
}

/// A reused context.
#[derive(Default)]
pub struct Packer(Option<CCtx<'static>>);

impl Packer {
    /// The length of the compressed form, which is put into `out`; `None` if it does not fit. A dictionary brings its own level.
    pub fn compress(&mut self, level: Option<i32>, dictionary: Option<&Trained>, input: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.0.is_none() {
            self.0 = CCtx::try_create();
        }
        let context = self.0.as_mut()?;
        match dictionary {
            Some(dictionary) => context.compress_using_cdict(out, input, &dictionary.digested).ok(),
            None => context.compress(out, input, level.unwrap_or(LEVEL)).ok(),
        }
    }
}

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// The length of what came out.
pub fn decompress(dictionary: Option<&Dictionary>, input: &[u8], out: &mut [u8]) -> Option<usize> {
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = DCtx::try_create();
        }
        let context = context.as_mut()?;
        match dictionary {
            Some(dictionary) => context.decompress_using_ddict(out, input, &dictionary.0).ok(),
            None => context.decompress(out, input).ok(),
        }
    })
}
