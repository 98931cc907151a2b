//! Keys and fields whose deadline has passed, and that nobody removes.

use super::super::{Keyspace, Kind, Passed};
use crate::testing::fresh;
use std::ops::ControlFlow;

/// A hash whose field `n` has deadline `deadline(n)`; 0: none.
fn hash(keyspace: &mut Keyspace, key: &[u8], fields: u64, deadline: impl Fn(u64) -> u64) {
    let mut edit = keyspace.edit(0, key, Kind::Hash).unwrap();
    for n in 0..fields {
        let field = format!("field:{n}");
        keyspace.set_field(&mut edit, field.as_bytes(), b"value").unwrap();
        if deadline(n) > 0 {
            keyspace.set_field_deadline(&mut edit, field.as_bytes(), Some(deadline(n))).unwrap();
        }
    }
    keyspace.finish(&edit);
}

/// Number of fields that a walk and a scan show, and that are found by name. So many are counted and picked at random.
fn shown(keyspace: &mut Keyspace, key: &[u8], fields: u64) -> Option<(usize, usize, usize)> {
    let found = keyspace.collection(0, key, Kind::Hash).unwrap()?;
    let counted = keyspace.without_hidden(found.clone()).unwrap().count;
    for most in [1, 2, counted, u64::MAX] {
        let picked = keyspace.random_members(&found, most).unwrap();
        assert_eq!(picked.len() as u64, most.min(counted));
        assert!(picked.iter().all(|(field, _)| keyspace.member(&found, field).unwrap().is_some()));
    }
    for _ in 0..20 {
        let (field, _) = keyspace.random_member(&found).unwrap().unwrap();
        assert!(keyspace.member(&found, &field).unwrap().is_some());
    }
    let (mut walked, mut scanned, mut cursor) = (0, 0, 0);
    keyspace
        .walk_members(&found, &mut |_, _| {
            walked += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    loop {
        cursor = keyspace.scan_members(&found, cursor, 100, &mut |_, _| scanned += 1).unwrap();
        if cursor == 0 {
            break;
        }
    }
    let named = (0..fields).filter(|n| keyspace.member(&found, format!("field:{n}").as_bytes()).unwrap().is_some()).count();
    assert_eq!(walked as u64, counted);
    Some((walked, scanned, named))
}

#[test]
fn ended_keys_are_hidden_and_stay() {
    let mut keyspace = fresh();
    let now = keyspace.now();
    keyspace.set_string(0, b"ends", b"value", Some(now + 10)).unwrap();
    keyspace.set_string(0, b"stays", b"value", None).unwrap();
    keyspace.commit(&Default::default()).unwrap();
    keyspace.set_now(now + 20);
    keyspace.note_changes(true);
    keyspace.treat_passed(Passed::Hidden);
    assert_eq!(keyspace.string(0, b"ends").unwrap(), None);
    assert!(keyspace.exists(0, b"stays").unwrap());
    let mut keys = Vec::new();
    keyspace.scan(0, 0, 100, &mut |key, _| keys.push(key.to_vec())).unwrap();
    assert_eq!((keys, keyspace.size(0), keyspace.is_committed()), (vec![b"stays".to_vec()], 2, true));
    assert_eq!(keyspace.expired().keys, 0);
    // The primary's requests find it.
    keyspace.treat_passed(Passed::Kept);
    assert_eq!(keyspace.string(0, b"ends").unwrap(), Some(&b"value"[..]));
    assert!(!keyspace.is_over(now));
    // Once it is promoted, the next look removes it, and so would the search for what is due.
    keyspace.treat_passed(Passed::Removed);
    assert_eq!((keyspace.remove_expired(10).unwrap(), keyspace.size(0)), (1, 1));
}

#[test]
fn due_fields_are_hidden_and_stay() {
    // Small hashes lie in their key's entry, and large ones do not.
    for fields in [6, 1200] {
        let mut keyspace = fresh();
        let now = keyspace.now();
        hash(&mut keyspace, b"some", fields, |n| [0, now + 10, now + 100][usize::try_from(n % 3).unwrap()]);
        hash(&mut keyspace, b"all", fields, |n| now + 1 + n % 5);
        keyspace.commit(&Default::default()).unwrap();
        keyspace.set_now(now + 50);
        keyspace.treat_passed(Passed::Hidden);
        let left = usize::try_from(fields / 3 * 2).unwrap();
        assert_eq!(shown(&mut keyspace, b"some", fields), Some((left, left, left)), "{fields}");
        assert_eq!((shown(&mut keyspace, b"all", fields), keyspace.exists(0, b"all").unwrap()), (None, false), "{fields}");
        assert_eq!((keyspace.size(0), keyspace.is_committed(), keyspace.expired().fields), (2, true, 0));
        keyspace.treat_passed(Passed::Kept);
        let all = usize::try_from(fields).unwrap();
        assert_eq!(shown(&mut keyspace, b"all", fields), Some((all, all, all)), "{fields}");
        keyspace.treat_passed(Passed::Removed);
        assert_eq!(shown(&mut keyspace, b"some", fields), Some((left, left, left)), "{fields}");
        assert!(!keyspace.is_committed() && shown(&mut keyspace, b"all", fields).is_none());
    }
}
