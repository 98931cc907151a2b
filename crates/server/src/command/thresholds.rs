//! Sizes at which Redis changes the way in which it keeps a value: what `OBJECT ENCODING` answers by, and up to which a HyperLogLog is
//! sparse.

/// Elements of a collection, and bytes of each of them, up to which Redis packs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Elements.
    pub elements: u64,
    /// Bytes of the longest.
    pub bytes: u64,
}

/// What each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Hashes.
    pub hash: Packed,
    /// Elements of sets of integers.
    pub integers: u64,
    /// Sorted sets.
    pub sorted_set: Packed,
    /// Bytes up to which a HyperLogLog stays sparse.
    pub sparse_hyperloglog: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            hash: Packed { elements: 512, bytes: 64 },
            integers: 512,
            sorted_set: Packed { elements: 128, bytes: 64 },
            sparse_hyperloglog: 3000,
        }
    }
}

/// A threshold as the configuration has it.
struct Parameter {
    name: &'static str,
    /// An older name, or none.
    old_name: &'static str,
    /// It is a number of bytes, for which there are units.
    is_memory: bool,
    field: fn(&mut Thresholds) -> &mut u64,
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "hash-max-listpack-entries",
        old_name: "hash-max-ziplist-entries",
        is_memory: false,
        field: |thresholds| &mut thresholds.hash.elements,
    },
    Parameter {
        name: "hash-max-listpack-value",
        old_name: "hash-max-ziplist-value",
        is_memory: true,
        field: |thresholds| &mut thresholds.hash.bytes,
    },
    Parameter { name: "hll-sparse-max-bytes", old_name: "", is_memory: true, field: |thresholds| &mut thresholds.sparse_hyperloglog },
    Parameter { name: "set-max-intset-entries", old_name: "", is_memory: false, field: |thresholds| &mut thresholds.integers },
    Parameter {
        name: "zset-max-listpack-entries",
        old_name: "zset-max-ziplist-entries",
        is_memory: false,
        field: |thresholds| &mut thresholds.sorted_set.elements,
    },
    Parameter {
        name: "zset-max-listpack-value",
        old_name: "zset-max-ziplist-value",
        is_memory: true,
        field: |thresholds| &mut thresholds.sorted_set.bytes,
    },
];

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

fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| !name.is_empty() && (parameter.name == name || parameter.old_name == name))
}

impl Thresholds {
    /// All names.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        PARAMETERS.iter().flat_map(|parameter| [parameter.name, parameter.old_name]).filter(|name| !name.is_empty())
    }

    /// A parameter as the configuration has it; `None`: it is not one of these.
    pub(super) fn get(mut self, name: &str) -> Option<String> {
        let field = find(name)?.field;
        Some(field(&mut self).to_string())
    }

    /// Changes a parameter; `None`: it is not one of these.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        let parameter = find(name)?;
        let (read, wrong) = if parameter.is_memory {
            (parse_memory(value), "argument must be a memory value")
        } else {
            (value.parse().ok(), "argument couldn't be parsed into an integer")
        };
        Some(read.map(|read| *(parameter.field)(self) = read).ok_or(wrong))
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
        assert_eq!((thresholds.sparse_hyperloglog, thresholds.sorted_set), (1024, Packed { elements: 7, bytes: 64 }));
        assert!(thresholds.set("set-max-intset-entries", "x").is_some_and(|result| result.is_err()));
        assert!(thresholds.set("hash-max-listpack-value", "-1").is_some_and(|result| result.is_err()));
        assert_eq!((thresholds.set("nosuch", "1"), thresholds.get("")), (None, None));
        assert!(Thresholds::names().all(|name| thresholds.get(name).is_some()));
        assert_eq!((thresholds.hash, thresholds.integers), (Packed { elements: 512, bytes: 64 }, 512));
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
