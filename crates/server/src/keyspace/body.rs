//! Memory of an inline collection's elements.
//!
//! Nearly every command on a small collection copies the elements. An allocation of some KiB takes longer than the copy, so each thread
//! keeps the memory of the last collection for the next one.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// Bytes of memory behind elements that were read, for additions.
const SPARE: usize = 64;
/// Largest memory that is kept, bytes.
const KEPT: usize = 64 << 10;

thread_local! {
    static LAST: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The encoded elements of an inline collection (`inline`).
#[derive(Debug, Clone, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    /// A copy of encoded elements.
    pub fn copy(bytes: &[u8]) -> Body {
        let mut copy = LAST.take();
        copy.clear();
        copy.reserve(bytes.len() + SPARE);
        copy.extend_from_slice(bytes);
        Body(copy)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if (1..=KEPT).contains(&self.0.capacity()) {
            // A thread that ends keeps nothing.
            let _ = LAST.try_with(|last| last.set(std::mem::take(&mut self.0)));
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body(bytes)
    }
}

impl Deref for Body {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Body {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_from_one_collection_to_the_next() {
        let first = Body::copy(&[1; 3000]);
        let at = first.as_ptr();
        drop(first);
        let second = Body::copy(&[2; 2000]);
        assert_eq!((second.as_ptr(), &second[..]), (at, &[2; 2000][..]));
        let both = second.clone();
        assert!(both.as_ptr() != at && *both == *second);
        drop(Body::copy(&vec![3; KEPT]));
        assert!(LAST.take().is_empty(), "large memory is given back");
    }
}
