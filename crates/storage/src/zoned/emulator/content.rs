//! The bytes of one zone in memory, cheap to copy: chunks are shared until one side writes on.

use std::sync::{Arc, LazyLock};

/// Bytes in a chunk.
const CHUNK: usize = 16 << 10;

/// A chunk of zeros, which all zones share: files that are only about lengths take no memory.
static ZEROS: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| Arc::new(vec![0; CHUNK]));

/// Bytes from the start of a zone. Bytes that were never written are not kept; readers know how far the data goes.
#[derive(Clone, Default)]
pub(super) struct ZoneBytes {
    chunks: Vec<Arc<Vec<u8>>>,
}

impl ZoneBytes {
    /// Writes `bytes` at `at`, which is not past what was written before.
    pub(super) fn write(&mut self, at: u64, mut bytes: &[u8]) {
        let mut at = at as usize;
        while !bytes.is_empty() {
            let (index, inside) = (at / CHUNK, at % CHUNK);
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - inside));
            if index == self.chunks.len() {
                if now == ZEROS.as_slice() {
                    self.chunks.push(Arc::clone(&ZEROS));
                    (at, bytes) = (at + CHUNK, later);
                    continue;
                }
                self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
            }
            let chunk = Arc::make_mut(&mut self.chunks[index]);
            // Bytes of a torn write behind the pointer are written over.
            chunk.truncate(inside);
            chunk.extend_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    /// Fills `buffer` from `at`; all these bytes were written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_take_no_memory_and_can_be_written_over() {
        let mut content = ZoneBytes::default();
        content.write(0, &vec![0; 2 * CHUNK + 5]);
        assert!(Arc::ptr_eq(&content.chunks[0], &ZEROS) && Arc::ptr_eq(&content.chunks[1], &ZEROS));
        assert_eq!(content.chunks.len(), 3, "what does not fill a chunk has one of its own");
        let copy = content.clone();
        // As after a power cut that took the rest.
        content.write(CHUNK as u64 + 3, &[7; 4]);
        let mut found = vec![1; 2 * CHUNK + 5];
        copy.read(0, &mut found);
        assert!(found.iter().all(|byte| *byte == 0));
        content.read(0, &mut found[..CHUNK + 7]);
        assert_eq!(found[CHUNK - 1..CHUNK + 7], [0, 0, 0, 0, 7, 7, 7, 7]);
        assert!(Arc::ptr_eq(&content.chunks[0], &ZEROS));
    }
}
