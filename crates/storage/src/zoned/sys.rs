//! The system calls of zoned drives, each as a safe function: `linux/blkzoned.h`, `linux/nvme_ioctl.h`, and of those without zones:
//! `linux/fs.h`, io_uring and a hole in a file. The only unsafe code of this module.

use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOC` of asm-generic/ioctl.h, which all architectures that Rust's Linux targets share but MIPS, PowerPC and SPARC.
const fn request(direction: u64, group: u8, number: u8, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | (group as u64) << 8 | number as u64
}

const WRITE: u64 = 1;
const READ: u64 = 2;
const READ_WRITE: u64 = 3;
const BLOCK: u8 = 0x12;

/// Bytes of `struct blk_zone_report` without its zones, and of one `struct blk_zone`.
const REPORT_HEAD: usize = 16;
const REPORT_ZONE: usize = 64;

/// The two calls by which a kernel reports zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportCall {
    /// `BLKREPORTZONE`: the drive's word.
    First,
    /// `BLKREPORTZONEV2`, since Linux 6.19: the kernel's own knowledge. It does not tell one active state from another, and a zone that was
    /// opened and holds nothing is empty to it.
    Second,
}

/// A zone as `struct blk_zone` has it. Sectors have 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawZone {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) pointer: u64,
    /// `BLK_ZONE_TYPE_*`: 1 for conventional, 2 and 3 for written in order.
    pub(super) kind: u8,
    /// `BLK_ZONE_COND_*`.
    pub(super) condition: u8,
    /// `None` if the kernel does not say (before Linux 5.9): then it is the length.
    pub(super) capacity: Option<u64>,
}

/// The zones from the one that holds `sector` on, at most `count`.
pub(super) fn report(file: &File, call: ReportCall, sector: u64, count: u32) -> io::Result<Vec<RawZone>> {
    let number = if call == ReportCall::First { 130 } else { 142 };
    // In words of eight bytes, for the alignment of the kernel's structures.
    let mut buffer = vec![0u64; (REPORT_HEAD + count as usize * REPORT_ZONE) / 8];
    buffer[0] = sector;
    let (low, high) = (count.to_ne_bytes(), 0u32.to_ne_bytes());
    buffer[1] = u64::from_ne_bytes(std::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] }));
    // SAFETY: the kernel reads the head and writes it and at most `count` zones behind it, for all of which the buffer has room; it is
    // live and not otherwise used during the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request(READ_WRITE, BLOCK, number, REPORT_HEAD) as _, buffer.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(parse_report(&bytes))
}

fn parse_report(bytes: &[u8]) -> Vec<RawZone> {
    let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (count, flags) = (half(8), half(12));
    let has_capacity = flags & 1 != 0;
    let zones = bytes[REPORT_HEAD..].chunks_exact(REPORT_ZONE).take(count as usize);
    let zone = |zone: &[u8]| RawZone {
        start: word(zone, 0),
        length: word(zone, 8),
        pointer: word(zone, 16),
        kind: zone[24],
        condition: zone[25],
        capacity: has_capacity.then(|| word(zone, 32)),
    };
    zones.map(zone).collect()
}

/// Operation on a zone as a whole: the number of its ioctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Management {
    /// `BLKRESETZONE`
    Reset = 131,
    /// `BLKOPENZONE`
    Open = 134,
    /// `BLKCLOSEZONE`
    Close = 135,
    /// `BLKFINISHZONE`
    Finish = 136,
}

/// Does it to the zones in a range of sectors.
pub(super) fn manage(file: &File, what: Management, sector: u64, sectors: u64) -> io::Result<()> {
    let range = [sector, sectors];
    let request = request(WRITE, BLOCK, what as u8, size_of_val(&range));
    // SAFETY: the kernel reads a `struct blk_zone_range`, two u64, behind the pointer, which points to a live local of that layout.
    if unsafe { libc::ioctl(file.as_raw_fd(), request as _, range.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A command to an NVMe namespace, the fields of `struct nvme_passthru_cmd64` that we use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NvmeCommand {
    pub(super) opcode: u8,
    pub(super) namespace: u32,
    /// Dwords 10 to 13 of the command.
    pub(super) words: [u32; 4],
}

/// `struct nvme_passthru_cmd64` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct Passthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    dwords_10_15: [u32; 6],
    timeout_ms: u32,
    reserved_2: u32,
    result: u64,
}

/// The number of the namespace that a file stands for.
pub(super) fn nvme_namespace(file: &File) -> io::Result<u32> {
    // SAFETY: this ioctl has no argument; its result is the number.
    let number = unsafe { libc::ioctl(file.as_raw_fd(), request(0, b'N', 0x40, 0) as _) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Gives a command that takes data from `data` or puts it there, as its opcode says. `Ok(Err(status))` is the drive's refusal.
pub(super) fn nvme(file: &File, command: &NvmeCommand, data: &mut [u8]) -> io::Result<Result<u64, u16>> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut passthrough = Passthrough {
        opcode: command.opcode,
        namespace: command.namespace,
        address: if data.is_empty() { 0 } else { data.as_mut_ptr().expose_provenance() as u64 },
        data_length: u32::try_from(data.len()).map_err(too_long)?,
        ..Passthrough::default()
    };
    passthrough.dwords_10_15[..4].copy_from_slice(&command.words);
    let request = request(READ_WRITE, b'N', 0x48, size_of::<Passthrough>());
    // SAFETY: the kernel reads and writes one structure of that layout behind the pointer, and reads or writes `data_length` bytes at
    // `address`, which `data` borrows mutably until after the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut passthrough) };
    match u16::try_from(result) {
        Ok(0) => Ok(Ok(passthrough.result)),
        // Above the code and its type there are bits about retries.
        Ok(status) => Ok(Err(status & 0x7ff)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Gives the space of a range back to the file system; it reads as zeros then. If that cannot be done, nothing happens.
pub(super) fn punch_hole(file: &File, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: plain integers and a descriptor that is open for as long as `file` is borrowed.
    unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, length) };
}

/// Tells a block device that the bytes of a range are of no use. A favour: where it cannot be done, nothing happens.
pub(super) fn discard(device: &File, offset: u64, length: u64) {
    let range = [offset, length];
    // SAFETY: the kernel reads two u64 behind the pointer, which points to a live local of that layout.
    unsafe { libc::ioctl(device.as_raw_fd(), request(0, BLOCK, 119, 0) as _, range.as_ptr()) };
}

/// A block device that is written in zones; a kernel that cannot be asked has none.
pub(super) fn is_zoned(device: &File) -> bool {
    let mut sectors: u32 = 0;
    // BLKGETZONESZ.
    // SAFETY: the kernel writes a u32 behind the pointer, which points to a live local that is not otherwise used during the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), request(READ, BLOCK, 132, size_of::<u32>()) as _, &raw mut sectors) };
    result >= 0 && sectors > 0
}

/// The number that the kernel gave a disk when it came, and gives to no other until the machine is started again; 0 before Linux 5.15.
pub(super) fn disk_sequence(device: &File) -> u64 {
    let mut number: u64 = 0;
    // BLKGETDISKSEQ.
    // SAFETY: the kernel writes a u64 behind the pointer, which points to a live local that is not otherwise used during the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), request(READ, BLOCK, 128, size_of::<u64>()) as _, &raw mut number) };
    if result < 0 { 0 } else { number }
}

/// Bytes of a block device's logical block.
pub(super) fn logical_block(device: &File) -> io::Result<u32> {
    let mut block: libc::c_int = 0;
    // SAFETY: the kernel writes an int behind the pointer, which points to a live local that is not otherwise used during the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), request(0, BLOCK, 104, 0) as _, &raw mut block) } < 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(block).ok().filter(|block| *block > 0).ok_or_else(|| io::Error::other("the device has blocks of no size"))
}

/// Writes to a write stream by a ring that has nothing else to do, and waits until it is done. The ring comes back with how many bytes
/// arrived, or why none did; if it could not be asked, nothing is written and it is gone.
pub(super) fn write_by_ring(mut ring: IoUring, file: &File, stream: u8, bytes: &[u8], at: u64) -> io::Result<(IoUring, io::Result<usize>)> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), bytes.as_ptr(), length).offset(at).write_stream(stream).build();
    // SAFETY: the kernel uses the descriptor and reads `bytes` until it says that the write has ended, and both are borrowed for as long:
    // once it has taken the entry, this function does not return before that. If it does not take it, the ring is dropped with it.
    unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
    loop {
        let asked = ring.submit_and_wait(1);
        let done = ring.completion().next();
        if let Some(done) = done {
            let written = usize::try_from(done.result()).map_err(|_| io::Error::from_raw_os_error(-done.result()));
            return Ok((ring, written));
        }
        match asked {
            // A signal ends the waiting, not the write.
            Err(e) if e.kind() != io::ErrorKind::Interrupted && !ring.submission().is_empty() => return Err(e),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!(request(READ_WRITE, BLOCK, 130, REPORT_HEAD), 0xc010_1282, "BLKREPORTZONE");
        assert_eq!(request(READ_WRITE, BLOCK, 142, REPORT_HEAD), 0xc010_128e, "BLKREPORTZONEV2");
        assert_eq!(request(WRITE, BLOCK, Management::Reset as u8, 16), 0x4010_1283, "BLKRESETZONE");
        assert_eq!(request(WRITE, BLOCK, Management::Finish as u8, 16), 0x4010_1288, "BLKFINISHZONE");
        assert_eq!(request(READ_WRITE, b'N', 0x48, size_of::<Passthrough>()), 0xc050_4e48, "NVME_IOCTL_IO64_CMD");
        assert_eq!(request(0, b'N', 0x40, 0), 0x4e40, "NVME_IOCTL_ID");
        assert_eq!(request(0, BLOCK, 119, 0), 0x1277, "BLKDISCARD");
        assert_eq!(request(0, BLOCK, 104, 0), 0x1268, "BLKSSZGET");
    }

    /// A report as a kernel of x86-64 writes it, with room for two zones and one in it.
    #[test]
    fn a_report_is_read() {
        let mut bytes = vec![0; REPORT_HEAD + 2 * REPORT_ZONE];
        bytes[8] = 1;
        bytes[12] = 1;
        for (at, number) in [(16, 0x8000u64), (24, 0x8000), (32, 0x8010), (48, 0x6000)] {
            bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[40] = 2;
        bytes[41] = 0xe;
        let zone = RawZone { start: 0x8000, length: 0x8000, pointer: 0x8010, kind: 2, condition: 0xe, capacity: Some(0x6000) };
        assert_eq!(parse_report(&bytes), [zone]);
        bytes[12] = 0;
        assert_eq!(parse_report(&bytes), [RawZone { capacity: None, ..zone }]);
        assert_eq!(parse_report(&bytes[..REPORT_HEAD]), []);
    }
}
