//! Counters that are added to without being read: `cargo run -p sinterdb --example merge_operator`.

use sinterdb::operator::MergeOperator;
use sinterdb::{DEFAULT_FAMILY, Db};
use std::sync::Arc;

/// Values and operands are numbers of eight bytes, and are added up.
struct Add;

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "add u64"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut sum = base.map_or(Some(0), number)?;
        for operand in operands {
            sum = sum.wrapping_add(number(operand)?);
        }
        Some(sum.to_le_bytes().to_vec())
    }

    /// Compactions may add operands up before the value is known.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

fn main() -> sinterdb::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = Db::builder().merge_operator(DEFAULT_FAMILY, Arc::new(Add)).open(directory.path())?;
    for visit in 0..1000u64 {
        let page: &[u8] = if visit % 4 == 0 { b"/about" } else { b"/" };
        db.merge(page, &1u64.to_le_bytes())?;
    }
    let visits = |page: &[u8]| Ok::<_, sinterdb::Error>(db.get(page)?.as_deref().and_then(number));
    assert_eq!((visits(b"/")?, visits(b"/about")?, visits(b"/none")?), (Some(750), Some(250), None));
    println!("/ was seen {} times", visits(b"/")?.unwrap_or_default());
    db.close()
}
