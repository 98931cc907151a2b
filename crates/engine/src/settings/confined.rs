//! Fits memtables and cache into the memory limit of the process.
//!
//! A quarter of the limit is left to memory that the settings do not count: the program itself, open tables, buffers of compactions, and
//! the page cache that the kernel charges to the same group. Memtables come first, because writers wait without them; the cache gets the
//! rest. Sizes that do not fit are reported and reduced: a database that opens with a small cache is better than one that the kernel kills
//! when the cache is full.

use super::{DbSettings, FamilySettings, format_bytes};

/// The cache keeps at least this part (as a divisor) of the memory for memtables and cache together; indexes and filters live in it.
const CACHE_LEAST: u64 = 8;

/// Memtables and cache within a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    /// Bytes of the cache.
    pub cache_size: u64,
    /// Bytes of all memtables.
    pub db_write_buffer_size: u64,
    /// Bytes that both may take together; `u64::MAX`: no limit is known.
    pub together: u64,
    /// Message for people about sizes that do not fit.
    pub note: Option<String>,
}

/// Fits the settings of a database and of its families into `limit` bytes of memory. Memtables get half of what there is for both, or the
/// bound that was stated, four fifths at most.
pub fn confine<'a>(db: &DbSettings, families: impl Iterator<Item = &'a FamilySettings>, limit: Option<u64>) -> Confined {
    let mut confined =
        Confined { cache_size: db.cache_size, db_write_buffer_size: db.db_write_buffer_size, together: u64::MAX, note: None };
    let Some(limit) = limit else { return confined };
    let ours = limit / 4 * 3;
    confined.together = ours;
    let text = |bytes: u64| format_bytes(if bytes < u64::MAX { bytes >> 20 << 20 } else { bytes });
    let limited = || format!("memory is limited to {}, of which memtables and cache may take {}", text(limit), text(ours));
    if db.memory_budget > ours {
        // What is divided is what fits, whatever the sizes are that it begins with.
        confined.note = Some(format!("{}: the settings ask for {}", limited(), text(db.memory_budget)));
    }
    let each = families.map(|family| family.write_buffer_size.saturating_mul(family.max_write_buffer_number as u64));
    // Where the sizes of families move, their settings tell only where they began.
    let each = if db.memory_budget > 0 { u64::MAX } else { each.fold(0, u64::saturating_add) };
    let memtables = each.min(db.db_write_buffer_size);
    if memtables.saturating_add(db.cache_size) <= ours {
        return confined;
    }
    confined.db_write_buffer_size = match db.db_write_buffer_size {
        u64::MAX => memtables.min((ours / 2).max(4096)),
        // What moves is cut where it is divided, and families tell by this size that they follow.
        stated if db.memory_budget > 0 && db.max_background_jobs > 0 => stated,
        // More was asked for; the cache has a fifth in any case.
        stated => stated.min((ours / 5 * 4).max(4096)),
    };
    let left = ours.saturating_sub(memtables.min(confined.db_write_buffer_size));
    confined.cache_size = db.cache_size.min(left.max(ours / CACHE_LEAST));
    let (asked, given) = ((memtables, db.cache_size), (memtables.min(confined.db_write_buffer_size), confined.cache_size));
    confined.note.get_or_insert_with(|| {
        let both = |(memtables, cache): (u64, u64)| format!("{} + {}", text(memtables), text(cache));
        format!("{}: the settings ask for {}, and get {}", limited(), both(asked), both(given))
    });
    confined
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn fit(cache: u64, bound: Option<u64>, families: usize, limit: Option<u64>) -> (u64, Option<u64>, bool) {
        let db = DbSettings { cache_size: cache * MIB, db_write_buffer_size: bound.map_or(u64::MAX, |b| b * MIB), ..DbSettings::default() };
        let list = vec![FamilySettings { max_write_buffer_number: 2, ..FamilySettings::default() }; families];
        let confined = confine(&db, list.iter(), limit.map(|limit| limit * MIB));
        let bound = Some(confined.db_write_buffer_size).filter(|b| *b != u64::MAX);
        (confined.cache_size / MIB, bound.map(|b| b / MIB), confined.note.is_some())
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(fit(32, None, 1, None), (32, None, false));
        assert_eq!(fit(32, None, 1, Some(512)), (32, None, false));
        assert_eq!(fit(256, Some(100), 9, Some(512)), (256, Some(100), false));
        assert_eq!(fit(256, None, 1, Some(512)), (256, None, false), "exactly three quarters");
    }

    #[test]
    fn what_does_not_fit_is_cut_and_said() {
        assert_eq!(fit(1024, None, 1, Some(512)), (256, Some(128), true));
        assert_eq!(fit(1024, None, 8, Some(512)), (192, Some(192), true), "half for memtables");
        assert_eq!(fit(1024, Some(300), 8, Some(512)), (84, Some(300), true), "a bound that was stated holds");
        assert_eq!(fit(1024, Some(3000), 80, Some(512)), (76, Some(307), true), "as far as it fits");
        assert_eq!(fit(32, None, 1, Some(128)), (32, Some(48), true), "defaults follow a small limit");
        let db = DbSettings::default();
        let none = confine(&db, std::iter::empty(), Some(0));
        assert_eq!((none.cache_size, none.db_write_buffer_size), (0, 0));
    }

    #[test]
    fn a_budget_that_does_not_fit_is_said_whatever_its_parts_are() {
        let note = |cache_size, db_write_buffer_size, memory_budget| {
            let db = DbSettings { cache_size, db_write_buffer_size, memory_budget, ..DbSettings::default() };
            confine(&db, std::iter::empty(), Some(512 * MIB)).note
        };
        let expected = "memory is limited to 512MiB, of which memtables and cache may take 384MiB: the settings ask for 1GiB";
        for sizes in [(900 * MIB, 124 * MIB), (300 * MIB, 84 * MIB), (MIB, u64::MAX)] {
            assert_eq!(note(sizes.0, sizes.1, 1024 * MIB).as_deref(), Some(expected));
        }
        assert_eq!(note(300 * MIB, 84 * MIB, 384 * MIB), None);
        assert!(note(MIB, u64::MAX, 100 * MIB).unwrap().contains("ask for unlimited + 1MiB, and get 192MiB + 1MiB"));
    }

    #[test]
    fn a_note_says_all_figures() {
        let db = DbSettings { cache_size: 1024 * MIB, ..DbSettings::default() };
        let family = FamilySettings { max_write_buffer_number: 2, ..FamilySettings::default() };
        let note = confine(&db, std::iter::once(&family), Some(512 * MIB)).note.unwrap();
        assert_eq!(
            note,
            "memory is limited to 512MiB, of which memtables and cache may take 384MiB: the settings ask for 128MiB + 1GiB, and get \
             128MiB + 256MiB"
        );
    }
}
