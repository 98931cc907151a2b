//! Hints to the processor: data that will be needed soon. Misses that are asked for together take the time of one.

/// Bytes that a processor loads at once.
const LINE: usize = 64;

/// Starts to load the cache line at an address; any address will do.
#[inline(always)]
pub fn address<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint. It reads nothing that the program can see and does not fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Starts to load the cache line at `slice[index]`; any index will do.
#[inline(always)]
pub fn item<T>(slice: &[T], index: usize) {
    address(slice.as_ptr().wrapping_add(index));
}

/// Starts to load `len` bytes at an address.
#[inline(always)]
pub fn range(at: *const u8, len: usize) {
    (0..len).step_by(LINE).for_each(|line| address(at.wrapping_add(line)));
}

/// Starts to load bytes.
#[inline(always)]
pub fn bytes(bytes: &[u8]) {
    range(bytes.as_ptr(), bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_nowhere_is_harmless() {
        item(&[1u8], usize::MAX / 2);
        address(std::ptr::null::<u64>());
        range(std::ptr::null(), 1 << 20);
        bytes(&[]);
    }
}
