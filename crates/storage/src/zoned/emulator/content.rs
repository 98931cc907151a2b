//! The bytes of one zone in memory, cheap to copy: chunks are shared until one side writes on.

use std::sync::Arc;

/// Bytes in a chunk.
const CHUNK: usize = 16 << 10;

/// Bytes from the start of a zone. What was never written is not kept; who reads knows how far the data goes.
#[derive(Clone, Default)]
pub(super) struct Content {
    chunks: Vec<Arc<Vec<u8>>>,
}

impl Content {
    /// Writes `bytes` at `at`, which is not past what was written before.
    pub(super) fn write(&mut self, at: u64, mut bytes: &[u8]) {
        let mut at = at as usize;
        while !bytes.is_empty() {
            let (index, inside) = (at / CHUNK, at % CHUNK);
            if index == self.chunks.len() {
                self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - inside));
            let chunk = Arc::make_mut(&mut self.chunks[index]);
            // What a torn write left behind the pointer is written over.
            chunk.truncate(inside);
            chunk.extend_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    /// Fills `buffer` from `at`; all of it was written.
    pub(super) fn read(&self, at: u64, mut buffer: &mut [u8]) {
        let mut at = at as usize;
        while !buffer.is_empty() {
            let (index, inside) = (at / CHUNK, at % CHUNK);
            let (now, later) = buffer.split_at_mut(buffer.len().min(CHUNK - inside));
            now.copy_from_slice(&self.chunks[index][inside..inside + now.len()]);
            at += now.len();
            buffer = later;
        }
    }
}
