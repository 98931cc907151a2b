//! Seeds for an empty corpus and the cutting of input into pieces, for all fuzz targets.

use std::path::Path;

/// Writes seeds into the corpus directory, the first argument that is no flag, if it is empty.
pub fn seed(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(directory) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else { return };
    let directory = Path::new(&directory);
    if std::fs::read_dir(directory).is_ok_and(|mut files| files.next().is_none()) {
        for (n, bytes) in seeds().into_iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{n}")), bytes).expect("the corpus takes a seed");
        }
    }
}

/// Input that is cut into pieces; past its end there are zeros and empty pieces.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number below `n` (at least 1), from two bytes.
    pub fn below(&mut self, n: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % n.max(1)
    }

    /// At most so many bytes.
    pub fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A piece with its length in front, in two bytes.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()) << 8 | usize::from(self.byte());
        self.take(length)
    }
}

/// Adds a piece as [`Input::piece`] reads it; pieces are shorter than 64 KiB.
pub fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    let length = u16::try_from(piece.len()).expect("a short piece");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(piece);
}
