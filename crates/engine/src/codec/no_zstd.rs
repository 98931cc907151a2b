//! In place of zstd where it is not built in: nothing is compressed, nothing decompresses, and there are no dictionaries.

use std::convert::Infallible;

/// A dictionary for decompression, of which there are none.
#[derive(Debug)]
pub struct Dictionary(Infallible);

impl Dictionary {
    /// `None`.
    pub fn new(_bytes: &[u8]) -> Option<Self> {
        None
    }

    /// `None`.
    pub fn train(_samples: &[u8], _sizes: &[usize], _bytes: usize) -> Option<Vec<u8>> {
        None
    }
}

/// A dictionary for compression, of which there are none.
#[derive(Debug)]
pub struct Trained(Infallible);

impl Trained {
    /// `None`.
    pub fn new(_bytes: Vec<u8>, _level: Option<i32>) -> Option<Self> {
        None
    }

    /// Bytes of the dictionary, from which a reader makes its own.
    pub fn bytes(&self) -> &[u8] {
        match self.0 {}
    }
}

/// Compresses nothing.
#[derive(Default)]
pub struct Packer;

impl Packer {
    /// `None`.
    pub fn compress(&mut self, _level: Option<i32>, _dictionary: Option<&Trained>, _input: &[u8], _out: &mut [u8]) -> Option<usize> {
        None
    }
}

/// `None`.
pub fn decompress(_dictionary: Option<&Dictionary>, _input: &[u8], _out: &mut [u8]) -> Option<usize> {
    None
}
