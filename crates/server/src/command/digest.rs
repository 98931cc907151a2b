//! Digests of values, as Redis's `DEBUG DIGEST` computes them: equal for equal data, however it was written and is stored.

use super::{Context, Failure};
use crate::keyspace::{Collection, DATABASES, EntryId, Kind, decode_score, fields};
use crate::number::format_double;
use sinter_script::sha1::{DIGEST, sha1};
use std::ops::ControlFlow;

/// Keys looked at together.
const AT_ONCE: usize = 1000;

/// A digest in progress.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; DIGEST]);

impl Digest {
    /// Adds bytes whose order does not matter.
    fn add(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(sha1(bytes)).for_each(|(to, from)| *to ^= from);
    }

    /// Adds bytes whose order matters.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = sha1(&self.0);
    }

    /// The digest in hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds the value of a key.
    fn append_value(&mut self, context: &mut Context, db: usize, key: &[u8], head: &Collection) -> Result<(), Failure> {
        // Redis's number of the type; 5 is the type of modules.
        let number = if head.kind == Kind::Stream { 6 } else { head.kind as u32 };
        self.append(&number.to_be_bytes());
        let mut damage = None;
        match head.kind {
            Kind::String => self.append(context.keyspace.string(db, key)?.unwrap_or_default()),
            Kind::List => context.keyspace.walk_items(head, (0, head.count), false, &mut |item| {
                self.append(item);
                ControlFlow::Continue(())
            })?,
            Kind::Hash => context.keyspace.walk_fields(head, &mut |name, value, deadline| {
                let mut element = Digest::default();
                element.append(name);
                element.append(value);
                if deadline > 0 {
                    element.add(b"!!hexpire!!");
                }
                self.add(&element.0);
                ControlFlow::Continue(())
            })?,
            Kind::Set | Kind::SortedSet => context.keyspace.walk_members(head, &mut |name, value| {
                let mut element = Digest::default();
                match head.kind {
                    Kind::Set => self.add(name),
                    _ => match decode_score(value) {
                        Ok(score) => {
                            element.append(name);
                            element.append(format_double(score).as_bytes());
                            self.add(&element.0);
                        }
                        Err(error) => damage = Some(error),
                    },
                }
                ControlFlow::Continue(())
            })?,
            Kind::Stream => context.keyspace.walk_entries(head, (EntryId::MIN, EntryId::MAX), false, &mut |id, entry| {
                self.append(format!("{}.{}", id.ms(), id.seq()).as_bytes());
                match fields(entry) {
                    Ok(fields) => fields.into_iter().for_each(|field| self.append(field)),
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            })?,
        }
        if head.deadline.is_some() {
            self.add(b"!!expire!!");
        }
        damage.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The digest of a key's value; zeros if there is no such key.
pub(super) fn of_value(context: &mut Context, key: &[u8]) -> Result<Digest, Failure> {
    let (db, mut digest) = (context.session.db, Digest::default());
    if let Some(head) = context.keyspace.find_collection(db, key)? {
        digest.append_value(context, db, key, &head)?;
    }
    Ok(digest)
}

/// The digest of all keys of all databases.
pub(super) fn of_everything(context: &mut Context) -> Result<Digest, Failure> {
    let mut all = Digest::default();
    for db in 0..DATABASES {
        if context.keyspace.size(db) == 0 {
            continue;
        }
        all.append(&(db as u32).to_be_bytes());
        let mut cursor = 0;
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            cursor = context.keyspace.scan(db, cursor, AT_ONCE, &mut |key, _| keys.push(key.to_vec()))?;
            for key in keys {
                let Some(head) = context.keyspace.find_collection(db, &key)? else { continue };
                let mut digest = Digest::default();
                digest.append(&key);
                digest.append_value(context, db, &key, &head)?;
                all.add(&digest.0);
            }
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(all)
}
