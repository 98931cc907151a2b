//! The calls of the system and its C library that std does not offer, each as a safe function. The only unsafe code of the store
//! beside that of `dir/window.rs`.

use super::Lifetime;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// `F_SET_RW_HINT` of linux/fcntl.h; the libc crate does not have it.
const F_SET_RW_HINT: libc::c_int = 1024 + 12;

/// Tells the kernel how long the file's data will live (`RWH_WRITE_LIFE_*` of linux/fcntl.h, Linux 4.13). Returns whether the kernel
/// accepted the hint; `None`: the lifetime is unknown. The hint only affects placement, so a refusal is no error.
pub(super) fn set_lifetime(file: &File, lifetime: Lifetime) -> Option<bool> {
    let hint: u64 = match lifetime {
        Lifetime::Unknown => return None,
        Lifetime::Short => 2,
        Lifetime::Medium => 3,
        Lifetime::Long => 4,
        Lifetime::Extreme => 5,
    };
    // SAFETY: the descriptor is open for as long as `file` is borrowed; the kernel reads one u64 behind the pointer, which
    // points to a live local.
    Some(unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) } == 0)
}

/// `F_GET_RW_HINT`, of the file whatever descriptor it was set on.
#[cfg(test)]
pub(super) fn lifetime(file: &File) -> Option<u64> {
    const F_GET_RW_HINT: libc::c_int = 1024 + 11;
    let mut hint = 0u64;
    // SAFETY: the descriptor is open for as long as `file` is borrowed; the kernel writes one u64 behind the pointer, which points to a
    // live local.
    (unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) } == 0).then_some(hint)
}

/// How many descriptors this process may have; `None`: nothing limits them.
pub(super) fn descriptor_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit behind the pointer, which points to a live local.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The error of a call that finds no descriptor.
pub(super) fn no_descriptors() -> io::Error {
    io::Error::from_raw_os_error(libc::EMFILE)
}

/// The process (EMFILE) or the system (ENFILE) has no descriptor left.
pub(super) fn is_no_descriptors(code: i32) -> bool {
    matches!(code, libc::EMFILE | libc::ENFILE)
}

/// Makes glibc return freed blocks of `bytes` or more to the kernel at once; at most 32 MiB. By default glibc begins with 128 KiB and
/// raises the threshold to the size of freed blocks, up to 32 MiB, and each heap keeps up to twice the threshold: some 30 MB in all, once
/// compactions have run. Also makes all threads share one heap instead of up to eight per processor. The price: each larger allocation
/// costs a system call and page faults. Has no effect on other allocators.
pub fn give_back_when_freed(bytes: i32) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, bytes), (libc::M_TRIM_THRESHOLD, bytes), (libc::M_ARENA_MAX, 1)] {
        // SAFETY: plain integers; it may be called at any time.
        unsafe { libc::mallopt(parameter, value) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Returns free pages inside glibc's heaps to the kernel; free space at the end of a heap only of the first one, which is the only heap
/// after [`give_back_when_freed`]. Threads that allocate meanwhile may wait. Has no effect on other allocators.
pub fn give_back_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a plain integer; it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A path that leads to an open file or directory, whatever became of its name. There is none where `/proc` is not mounted.
pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Starts writing `length` dirty bytes from `offset` to the medium and does not wait. Gives no durability; a failed write-back is
/// kept by the kernel and reported by the next fdatasync of this descriptor, so the result is not needed.
pub(super) fn start_writeback(file: &File, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: plain integers and a descriptor that is open for as long as `file` is borrowed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Asks the kernel to read `length` bytes from `offset` into the page cache. A hint, so there is no error.
pub(super) fn will_need(file: &File, offset: u64, length: u64) {
    advise(file, offset, length, libc::POSIX_FADV_WILLNEED);
}

/// Tells the kernel that reads of the file have no order, so that it does not read ahead.
pub(super) fn read_without_order(file: &File) {
    advise(file, 0, 0, libc::POSIX_FADV_RANDOM);
}

fn advise(file: &File, offset: u64, length: u64, advice: libc::c_int) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: plain integers and a descriptor that is open for as long as `file` is borrowed.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) };
}

/// Bytes that an unprivileged process can still write on the file system of `directory`.
pub(super) fn free_bytes(directory: &File) -> io::Result<u64> {
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open and `stat` is writable memory of exactly the type the call fills.
    if unsafe { libc::fstatvfs(directory.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fstatvfs returned 0, so it filled the whole structure.
    let stat = unsafe { stat.assume_init() };
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns whether the file system of `directory` overwrites blocks in place, so that a store into a mapped page never needs new space.
/// Other file systems copy on write, or lie on one that may.
pub(super) fn keeps_space(directory: &File) -> bool {
    const XFS: u32 = 0x5846_5342;
    let known = [libc::EXT4_SUPER_MAGIC as u32, libc::TMPFS_MAGIC as u32, XFS];
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open and `stat` is writable memory of exactly the type the call fills.
    if unsafe { libc::fstatfs(directory.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: fstatfs returned 0, so it filled the whole structure.
    let stat = unsafe { stat.assume_init() };
    known.contains(&(stat.f_type as u32))
}

/// Number of names and length in bytes of an open file.
///
/// Asks for nothing else, above all not for the time of the last change. After someone has asked for that time, the next write has to give
/// the file a new one (multigrain timestamps of Linux 6.13), and `fdatasync` of a file that still grows writes it to the medium: twice the
/// bytes for each synced record of a log.
pub(super) fn names_and_length(file: &File) -> io::Result<(u64, u64)> {
    let mut about = std::mem::MaybeUninit::<libc::statx>::uninit();
    let wanted = libc::STATX_NLINK | libc::STATX_SIZE;
    // SAFETY: the descriptor is open, the path is an empty string that ends in zero, and `about` is writable memory of exactly the type
    // the call fills.
    if unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, wanted, about.as_mut_ptr()) } == 0 {
        // SAFETY: statx returned 0, so it filled the whole structure.
        let about = unsafe { about.assume_init() };
        return Ok((u64::from(about.stx_nlink), about.stx_size));
    }
    // Some sandboxes forbid statx.
    file.metadata().map(|about| (about.nlink(), about.len()))
}

/// Closes a file and reports what `Drop` would swallow: network file systems may learn of a lost write only here.
pub(super) fn close(file: File) -> io::Result<()> {
    // SAFETY: `into_raw_fd` gave up ownership, so this is the one close of this descriptor. Linux frees the descriptor even when
    // close fails, so it is not tried again.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Two files written within one tick of the kernel's clock have equal times, unless someone asked for the time of one in between. File
    /// systems with finer times prove nothing.
    #[test]
    fn the_length_of_a_file_is_told_without_asking_for_its_times() {
        let share_a_time = |ask: fn(&File)| {
            let changed = || {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(b"record").unwrap();
                ask(&file);
                file.write_all(b"record").unwrap();
                file.metadata().unwrap().modified().unwrap()
            };
            (0..1000).any(|_| changed() == changed())
        };
        let asked = share_a_time(|file| assert_eq!(names_and_length(file).unwrap(), (0, 6)));
        assert!(asked || !share_a_time(|_| ()));
    }
}
