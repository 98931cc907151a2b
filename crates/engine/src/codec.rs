//! Block compression. A block is compressed alone, so that one read finds one key. The number of a [`Codec`] is part of the format.
//! Contexts (hash tables, zstd's work areas) live as long as the [`Compressor`], or as the thread for reads: nothing is set up per block
//! except where the library has no reset (bzip2). What comes out does not depend on what a context did before.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use zstd::zstd_safe;

/// The algorithm of a compressed block; the number is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
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
    pub fn from_byte(byte: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(byte)).copied()
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

/// Zstd's effort where none is given.
const ZSTD_LEVEL: i32 = 1;
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

/// A zstd dictionary, digested for decompression.
pub struct Dictionary(zstd_safe::DDict<'static>);

impl Dictionary {
    /// Digests dictionary bytes (tens of microseconds: once per open table). `None` if zstd refuses them.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        zstd_safe::DDict::try_create(bytes).map(Dictionary)
    }

    /// Trains a dictionary of at most `bytes` from samples that stand one after another (`sizes` are their lengths). `None` if the samples
    /// do not suffice: the table then goes without.
    pub fn train(samples: &[u8], sizes: &[usize], bytes: usize) -> Option<Vec<u8>> {
        zstd::dict::from_continuous(samples, sizes, bytes).ok().filter(|trained| !trained.is_empty())
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
    digested: zstd_safe::CDict<'static>,
}

impl Trained {
    /// Digests dictionary bytes for a level ([`Compression::level`]). `None` if zstd refuses them.
    pub fn new(bytes: Vec<u8>, level: Option<i32>) -> Option<Self> {
        let digested = zstd_safe::CDict::try_create(&bytes, level.unwrap_or(ZSTD_LEVEL))?;
        Some(Trained { bytes, digested })
    }

    /// What a reader needs.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trained({} bytes)", self.bytes.len())
    }
}

/// Compresses blocks with reused contexts.
#[derive(Default)]
pub struct Compressor {
    scratch: Vec<u8>,
    snappy: Option<snap::raw::Encoder>,
    /// For inputs below 64 KiB, and for all others: a table that has grown for one large input would pack small ones differently.
    lz4: [Option<lz4_flex::block::CompressTable>; 2],
    zstd: Option<zstd_safe::CCtx<'static>>,
    zlib: Option<(i32, flate2::Compress)>,
}

impl Compressor {
    /// Appends the compressed form of `input` to `out`; false (and `out` unchanged) if it did not shrink by an eighth.
    /// `dictionary` is for zstd only and brings its own level.
    pub fn compress(&mut self, how: Compression, dictionary: Option<&Trained>, input: &[u8], out: &mut Vec<u8>) -> bool {
        let limit = input.len() - input.len() / 8;
        let room = match how.codec {
            Codec::None => return false,
            Codec::Snappy => snap::raw::max_compress_len(input.len()),
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(input.len()),
            Codec::Zstd | Codec::Zlib | Codec::Bzip2 => limit,
        };
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let shrunk = match self.compress_to_scratch(how, dictionary, input, room) {
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

    /// Bytes of the compressed form at the start of the scratch; `None` if it does not fit `room`.
    fn compress_to_scratch(&mut self, how: Compression, dictionary: Option<&Trained>, input: &[u8], room: usize) -> Option<usize> {
        match how.codec {
            Codec::None => None,
            Codec::Snappy => self.snappy.get_or_insert_with(snap::raw::Encoder::new).compress(input, &mut self.scratch[..room]).ok(),
            Codec::Lz4 => {
                let large = input.len() >= usize::from(u16::MAX);
                let table = self.lz4[usize::from(large)].get_or_insert_default();
                lz4_flex::block::compress_into_with_table(input, &mut self.scratch[..room], table).ok()
            }
            Codec::Zstd => self.zstd(how.level.unwrap_or(ZSTD_LEVEL), dictionary, input, room),
            Codec::Zlib => self.zlib(how.level.unwrap_or(6), input, room),
            Codec::Bzip2 => {
                // A level is the size of bzip2's own blocks in 100 KB: more than the input needs only costs memory, 8 MB at 9.
                let most = u32::try_from(input.len().div_ceil(100_000)).unwrap_or(9).clamp(1, 9);
                let level = how.level.unwrap_or(9).clamp(1, 9).unsigned_abs().min(most);
                let mut stream = bzip2::Compress::new(bzip2::Compression::new(level), 0);
                let status = stream.compress(input, &mut self.scratch[..room], bzip2::Action::Finish).ok()?;
                (status == bzip2::Status::StreamEnd).then(|| usize::try_from(stream.total_out()).ok())?
            }
        }
    }

    fn zstd(&mut self, level: i32, dictionary: Option<&Trained>, input: &[u8], room: usize) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = zstd_safe::CCtx::try_create();
        }
        let context = self.zstd.as_mut()?;
        let out = &mut self.scratch[..room];
        match dictionary {
            Some(dictionary) => context.compress_using_cdict(out, input, &dictionary.digested).ok(),
            None => context.compress(out, input, level).ok(),
        }
    }

    fn zlib(&mut self, level: i32, input: &[u8], room: usize) -> Option<usize> {
        if self.zlib.as_ref().is_none_or(|(l, _)| *l != level) {
            let effort = flate2::Compression::new(level.clamp(0, 9).unsigned_abs());
            self.zlib = Some((level, flate2::Compress::new(effort, true)));
        }
        let stream = &mut self.zlib.as_mut()?.1;
        stream.reset();
        let status = stream.compress(input, &mut self.scratch[..room], flate2::FlushCompress::Finish).ok()?;
        (status == flate2::Status::StreamEnd).then(|| usize::try_from(stream.total_out()).ok())?
    }
}

thread_local! {
    static ZSTD: RefCell<Option<zstd_safe::DCtx<'static>>> = const { RefCell::new(None) };
    static ZLIB: RefCell<Option<flate2::Decompress>> = const { RefCell::new(None) };
}

/// Decompresses into `out`, which must come out exactly full; `None` if the bytes are not valid. Takes no memory that depends on `input`.
pub fn decompress(codec: Codec, dictionary: Option<&Dictionary>, input: &[u8], out: &mut [u8]) -> Option<()> {
    if out.is_empty() {
        return None;
    }
    let n = match codec {
        Codec::None => {
            out.get_mut(..input.len())?.copy_from_slice(input);
            input.len()
        }
        Codec::Snappy => {
            (snap::raw::decompress_len(input).ok()? == out.len()).then_some(())?;
            snap::raw::Decoder::new().decompress(input, out).ok()?
        }
        Codec::Lz4 => lz4_flex::block::decompress_into(input, out).ok()?,
        Codec::Zstd => ZSTD.with_borrow_mut(|context| {
            if context.is_none() {
                *context = zstd_safe::DCtx::try_create();
            }
            let context = context.as_mut()?;
            match dictionary {
                Some(dictionary) => context.decompress_using_ddict(out, input, &dictionary.0).ok(),
                None => context.decompress(out, input).ok(),
            }
        })?,
        Codec::Zlib => ZLIB.with_borrow_mut(|stream| {
            let stream = stream.get_or_insert_with(|| flate2::Decompress::new(true));
            stream.reset(true);
            let status = stream.decompress(input, out, flate2::FlushDecompress::Finish).ok()?;
            whole(status == flate2::Status::StreamEnd, stream.total_in(), stream.total_out(), input)
        })?,
        Codec::Bzip2 => {
            let mut stream = bzip2::Decompress::new(false);
            let status = stream.decompress(input, out).ok()?;
            whole(status == bzip2::Status::StreamEnd, stream.total_in(), stream.total_out(), input)?
        }
    };
    (n == out.len()).then_some(())
}

/// The output length of a stream that ended with its input.
fn whole(ended: bool, total_in: u64, total_out: u64, input: &[u8]) -> Option<usize> {
    (ended && total_in == input.len() as u64).then(|| usize::try_from(total_out).ok())?
}

#[cfg(test)]
mod tests;
