//! Programs of a machine, scripts by digest and functions by name, and whether their latest runs were short.

use crate::redis::hexadecimal;
use crate::sha1::sha1;
use crate::shebang::Flags;
use std::hash::{Hash, Hasher};

/// Number of short runs in a row after which a program counts as short.
const SHORT_RUNS: u8 = 16;

/// Digest of a script in 40 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 40]);

impl Hash for Digest {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (words, _) = self.0.as_chunks::<8>();
        let mixed =
            words.iter().fold(0u64, |mixed, word| mixed.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(*word));
        hasher.write_u64(mixed);
    }
}

/// Hasher for digests, whose bits are evenly distributed already.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Digest {
    /// Digest of a script's code.
    pub fn of(code: &[u8]) -> Digest {
        Digest(hexadecimal(sha1(code)))
    }

    /// Reads a digest in either case; `None` if the text has another length.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        text.try_into().ok().map(|digest: [u8; 40]| Digest(digest.map(|byte| byte.to_ascii_lowercase())))
    }

    /// The digits.
    pub fn bytes(&self) -> &[u8; 40] {
        &self.0
    }
}

/// A script of the cache or a function of a library.
#[derive(Debug, Clone, Copy)]
pub enum Program<'a> {
    /// The script with a digest.
    Script(Digest),
    /// The function with a name.
    Function(&'a [u8]),
}

/// Facts about a program.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Flags that the program states, if any.
    pub flags: Option<Flags>,
    /// Whether none of the latest runs took long, and there were enough of them to tell.
    pub is_short: bool,
}

/// Latest runs of a program: how many have begun since the last long one.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Runs(u8);

impl Runs {
    /// Counts a run, which is taken as short until [`Runs::restart`].
    pub(crate) fn begin(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Notes that a run was long.
    pub(crate) fn restart(&mut self) {
        self.0 = 0;
    }

    /// Whether the latest runs were short.
    pub(crate) fn are_short(&self) -> bool {
        self.0 >= SHORT_RUNS
    }
}
