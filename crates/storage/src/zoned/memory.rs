//! Memory at an address that direct input and output accept.

use parking_lot::Mutex;

/// Covers the logical block sizes in use; a larger block is a multiple of it.
const ALIGN: usize = 4096;

/// Buffers that are kept for the next call.
const KEPT: usize = 8;

/// Bytes at an aligned address.
pub(super) struct Aligned {
    memory: Vec<u8>,
    skip: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGN];
        let skip = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Aligned { memory, skip, length }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.length]
    }
}

/// True if direct input and output can use these bytes where they lie.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN)
}

/// Aligned buffers of one length, to be used again.
pub(super) struct Pool {
    length: usize,
    free: Mutex<Vec<Aligned>>,
}

impl Pool {
    pub(super) fn new(length: usize) -> Self {
        Pool { length, free: Mutex::default() }
    }

    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut [u8]) -> T) -> T {
        let kept = self.free.lock().pop();
        let mut buffer = kept.unwrap_or_else(|| Aligned::new(self.length));
        let result = use_it(buffer.bytes());
        let mut free = self.free.lock();
        if free.len() < KEPT {
            free.push(buffer);
        }
        result
    }
}
