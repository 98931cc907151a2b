//! Sizes at which Redis changes the way in which it keeps a value: what `OBJECT ENCODING` answers by, and up to which a HyperLogLog is sparse.

/// A size that can be configured.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    name: &'static str,
    /// An older name, or none.
    old_name: &'static str,
    /// A number of bytes, for which there are units.
    is_memory: bool,
    default: u64,
}

const fn elements(name: &'static str, old_name: &'static str, default: u64) -> Parameter {
    Parameter { name, old_name, is_memory: false, default }
}

const fn bytes(name: &'static str, old_name: &'static str, default: u64) -> Parameter {
    Parameter { name, old_name, is_memory: true, default }
}

const HASH_ELEMENTS: usize = 0;
const HASH_BYTES: usize = 1;
const SET_INTEGERS: usize = 2;
const ZSET_ELEMENTS: usize = 3;
const ZSET_BYTES: usize = 4;
const HYPERLOGLOG_BYTES: usize = 5;

const PARAMETERS: [Parameter; 6] = [
    elements("hash-max-listpack-entries", "hash-max-ziplist-entries", 512),
    bytes("hash-max-listpack-value", "hash-max-ziplist-value", 64),
    elements("set-max-intset-entries", "", 512),
    elements("zset-max-listpack-entries", "zset-max-ziplist-entries", 128),
    bytes("zset-max-listpack-value", "zset-max-ziplist-value", 64),
    bytes("hll-sparse-max-bytes", "", 3000),
];

/// What each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds([u64; PARAMETERS.len()]);

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds(PARAMETERS.map(|parameter| parameter.default))
    }
}

/// Elements of a collection, and bytes of each of them, up to which Redis packs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    pub elements: u64,
    pub bytes: u64,
}

/// A number of bytes as Redis reads it: `k` is 1000, `kb` is 1024.
pub(super) fn parse_memory(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

impl Thresholds {
    /// All names.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        PARAMETERS.iter().flat_map(|parameter| [parameter.name, parameter.old_name]).filter(|name| !name.is_empty())
    }

    fn at(name: &str) -> Option<usize> {
        PARAMETERS.iter().position(|parameter| !name.is_empty() && (parameter.name == name || parameter.old_name == name))
    }

    /// A parameter as the configuration has it; `None`: it is not one of these.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        Some(self.0.get(Self::at(name)?)?.to_string())
    }

    /// Changes a parameter; `None`: it is not one of these.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let at = Self::at(name)?;
        let (parameter, number) = (PARAMETERS.get(at)?, self.0.get_mut(at)?);
        let (read, wrong) = if parameter.is_memory {
            (parse_memory(value), "argument must be a memory value")
        } else {
            (value.parse().ok(), "argument couldn't be parsed into an integer")
        };
        Some(read.map(|read| *number = read).ok_or(wrong))
    }

    fn number(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Hashes.
    pub(super) fn hash(&self) -> Packed {
        Packed { elements: self.number(HASH_ELEMENTS), bytes: self.number(HASH_BYTES) }
    }

    /// Sets of integers.
    pub(super) fn set_of_integers(&self) -> u64 {
        self.number(SET_INTEGERS)
    }

    /// Sorted sets.
    pub(super) fn sorted_set(&self) -> Packed {
        Packed { elements: self.number(ZSET_ELEMENTS), bytes: self.number(ZSET_BYTES) }
    }

    /// Bytes up to which a HyperLogLog stays sparse.
    pub(super) fn sparse_hyperloglog(&self) -> usize {
        usize::try_from(self.number(HYPERLOGLOG_BYTES)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_written_by_both_names() {
        let mut thresholds = Thresholds::default();
        assert_eq!(thresholds.get("zset-max-ziplist-entries").as_deref(), Some("128"));
        assert_eq!(thresholds.set("zset-max-listpack-entries", "7"), Some(Ok(())));
        assert_eq!(thresholds.get("zset-max-ziplist-entries").as_deref(), Some("7"));
        assert_eq!(thresholds.set("hll-sparse-max-bytes", "1kb"), Some(Ok(())));
        assert_eq!((thresholds.sparse_hyperloglog(), thresholds.sorted_set()), (1024, Packed { elements: 7, bytes: 64 }));
        assert!(thresholds.set("set-max-intset-entries", "x").is_some_and(|result| result.is_err()));
        assert!(thresholds.set("hash-max-listpack-value", "-1").is_some_and(|result| result.is_err()));
        assert_eq!((thresholds.set("nosuch", "1"), thresholds.get("")), (None, None));
        assert!(Thresholds::names().all(|name| thresholds.get(name).is_some()));
        assert_eq!(thresholds.hash(), Packed { elements: 512, bytes: 64 });
    }

    #[test]
    fn memory_has_units() {
        let cases =
            [("0", Some(0)), ("10b", Some(10)), ("1k", Some(1000)), ("1KB", Some(1024)), ("2mb", Some(2 << 20)), ("1gb", Some(1 << 30))];
        for (text, number) in
            cases.into_iter().chain(["", "k", "-1", "1x", "99999999999999999999", "9999999999999gb"].map(|text| (text, None)))
        {
            assert_eq!(parse_memory(text), number, "{text}");
        }
    }
}
