//! Block compression. A block is compressed alone, so that one read finds one key. The number of a [`Codec`] is part of the format.
//! Contexts (hash tables, zstd's work areas) live as long as the [`Compressor`], or as the thread for reads: nothing is set up per block
//! except where the library has no reset (bzip2). What comes out does not depend on what a context did before.
//!
//! Each codec is a cargo feature and a module below. One that is not built in has a module that compresses and decompresses nothing
//! (`absent`, `no_zstd`); settings and readers ask [`Codec::is_built_in`] before.

#[cfg(not(all(feature = "lz4", feature = "snappy", feature = "zlib", feature = "bzip2")))]
mod absent;
#[cfg(feature = "bzip2")]
mod bzip2;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(not(feature = "zstd"))]
mod no_zstd;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

#[cfg(not(feature = "bzip2"))]
use absent as bzip2;
#[cfg(not(feature = "lz4"))]
use absent as lz4;
#[cfg(not(feature = "snappy"))]
use absent as snappy;
#[cfg(not(feature = "zlib"))]
use absent as zlib;
#[cfg(not(feature = "zstd"))]
use no_zstd as zstd;

pub use zstd::{Dictionary, Trained};

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The algorithm of a compressed block; the number is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
#[non_exhaustive]
pub enum Codec {
    /// Stored as it is.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4 block format.
    Lz4 = 2,
    /// Zstandard.
    Zstd = 3,
    /// Zlib (deflate).
    Zlib = 4,
    /// Bzip2.
    Bzip2 = 5,
}

impl Codec {
    /// Every codec, in order of its number.
    pub const ALL: [Codec; 6] = [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib, Codec::Bzip2];

    /// The codec of a format byte.
    pub(crate) fn from_byte(byte: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(byte)).copied()
    }

    /// Name of the codec in settings. The cargo feature that builds it in has the same name.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Zlib => "zlib",
            Codec::Bzip2 => "bzip2",
        }
    }

    /// The codec is built in: this build can compress and decompress with it.
    pub const fn is_built_in(self) -> bool {
        match self {
            Codec::None => true,
            Codec::Snappy => cfg!(feature = "snappy"),
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Zstd => cfg!(feature = "zstd"),
            Codec::Zlib => cfg!(feature = "zlib"),
            Codec::Bzip2 => cfg!(feature = "bzip2"),
        }
    }

    /// The codec that is used before anything speaks for another: lz4, or none in a build without it.
    pub const fn usual() -> Codec {
        if Codec::Lz4.is_built_in() { Codec::Lz4 } else { Codec::None }
    }

    /// A sentence for people if the codec is not built in.
    #[doc(hidden)]
    pub fn missing(self) -> Option<String> {
        let name = self.name();
        #[cfg(test)]
        let is_built_in = self.is_built_in() && WITHOUT.get() != Some(self);
        #[cfg(not(test))]
        let is_built_in = self.is_built_in();
        (!is_built_in).then(|| format!("{name} is not built in: build the crate sinterdb with the feature `{name}`"))
    }

    /// The levels it knows; `None` if it has only one way to work (none, snappy, lz4).
    pub fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Codec::None | Codec::Snappy | Codec::Lz4 => None,
            // Below, it is no faster.
            Codec::Zstd => Some(-7..=22),
            Codec::Zlib => Some(0..=9),
            Codec::Bzip2 => Some(1..=9),
        }
    }

    /// `raw` bytes can have come out of `packed` bytes: the most the format can expand, generously. Asked before memory is taken for a
    /// claimed length, and by the writer, which stores what a reader would refuse uncompressed.
    #[doc(hidden)]
    pub fn plausible(self, packed: usize, raw: usize) -> bool {
        let expansion = match self {
            Codec::None => return packed == raw,
            Codec::Snappy => 64,
            Codec::Lz4 => 256,
            Codec::Zlib => 1100,
            Codec::Zstd => 1 << 17,
            Codec::Bzip2 => 1 << 17,
        };
        raw > 0 && raw <= packed.saturating_mul(expansion)
    }
}

#[cfg(test)]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<Codec>> = const { std::cell::Cell::new(None) };
}

/// Runs `test` in this thread as in a build without a codec.
#[cfg(test)]
pub(crate) fn without(codec: Codec, test: impl FnOnce()) {
    WITHOUT.set(Some(codec));
    test();
    WITHOUT.set(None);
}

/// A larger output buffer does not stay with its thread.
const KEPT: usize = 1 << 20;

/// A codec and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Compression {
    /// The algorithm.
    pub codec: Codec,
    /// Effort, in the codec's own scale ([`Codec::levels`]); `None`: its default (zstd 1, zlib 6, bzip2 9).
    pub level: Option<i32>,
    /// Zstd only: size of a dictionary trained per table; 0 for none.
    pub dictionary_bytes: u32,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Compression { codec, level: None, dictionary_bytes: 0 }
    }
}

/// Compresses blocks with reused contexts.
#[derive(Default)]
pub struct Compressor {
    scratch: Vec<u8>,
    snappy: snappy::Packer,
    lz4: lz4::Packer,
    zstd: zstd::Packer,
    zlib: zlib::Packer,
    bzip2: bzip2::Packer,
}

impl Compressor {
    /// Appends the compressed form of `input` to `out`; false (and `out` unchanged) if it did not shrink by an eighth, or if the codec is
    /// not built in. `dictionary` is for zstd only and brings its own level.
    pub fn compress(&mut self, how: Compression, dictionary: Option<&Trained>, input: &[u8], out: &mut Vec<u8>) -> bool {
        let limit = input.len() - input.len() / 8;
        let room = match how.codec {
            Codec::None => return false,
            Codec::Snappy => snappy::most(input.len()),
            Codec::Lz4 => lz4::most(input.len()),
            Codec::Zstd | Codec::Zlib | Codec::Bzip2 => limit,
        };
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let target = &mut self.scratch[..room];
        let packed = match how.codec {
            Codec::None => None,
            Codec::Snappy => self.snappy.compress(how.level, input, target),
            Codec::Lz4 => self.lz4.compress(how.level, input, target),
            Codec::Zstd => self.zstd.compress(how.level, dictionary, input, target),
            Codec::Zlib => self.zlib.compress(how.level, input, target),
            Codec::Bzip2 => self.bzip2.compress(how.level, input, target),
        };
        let shrunk = match packed {
            Some(n) if n <= limit && how.codec.plausible(n, input.len()) => {
                out.extend_from_slice(&self.scratch[..n]);
                true
            }
            _ => false,
        };
        if self.scratch.len() > KEPT {
            self.scratch = Vec::new();
        }
        shrunk
    }
}

/// Decompresses into `out`, which must come out exactly full; `None` if the bytes are not valid, or if the codec is not built in. Takes no
/// memory that depends on `input`.
pub fn decompress(codec: Codec, dictionary: Option<&Dictionary>, input: &[u8], out: &mut [u8]) -> Option<()> {
    if out.is_empty() {
        return None;
    }
    let n = match codec {
        Codec::None => {
            out.get_mut(..input.len())?.copy_from_slice(input);
            input.len()
        }
        Codec::Snappy => snappy::decompress(input, out)?,
        Codec::Lz4 => lz4::decompress(input, out)?,
        Codec::Zstd => zstd::decompress(dictionary, input, out)?,
        Codec::Zlib => zlib::decompress(input, out)?,
        Codec::Bzip2 => bzip2::decompress(input, out)?,
    };
    (n == out.len()).then_some(())
}

/// The output length of a stream that ended with its input.
#[cfg(any(feature = "zlib", feature = "bzip2"))]
fn whole(ended: bool, total_in: u64, total_out: u64, input: &[u8]) -> Option<usize> {
    (ended && total_in == input.len() as u64).then(|| usize::try_from(total_out).ok())?
}
