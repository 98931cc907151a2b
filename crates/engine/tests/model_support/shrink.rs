//! Fewer operations that still fail: whole chunks are left out, large ones first, as in Zeller's delta debugging.

use super::operations::Operation;

/// Runs that a shrink may take.
const TRIES: usize = 400;

/// The shortest list found for which `fails` says why.
pub fn shrink(mut list: Vec<Operation>, fails: impl Fn(&[Operation]) -> Option<String>) -> (Vec<Operation>, String) {
    let mut why = fails(&list).unwrap_or_else(|| "does not fail when repeated".into());
    let mut tries = 0;
    let mut chunk = list.len() / 2;
    while chunk > 0 && tries < TRIES {
        let mut at = 0;
        while at < list.len() && tries < TRIES {
            let rest = [&list[..at], &list[(at + chunk).min(list.len())..]].concat();
            tries += 1;
            match fails(&rest) {
                Some(reason) => (list, why) = (rest, reason),
                None => at += chunk,
            }
        }
        chunk /= 2;
    }
    (list, why)
}
