//! Removal of stream entries to which consumer groups refer (`KEEPREF`, `DELREF`, `ACKED`), and the commands `XDELEX` and `XACKDEL`.
//!
//! A group refers to its pending entries and to all entries that are not delivered to it yet.

use super::arguments::{integer_or, is};
use super::effects::MANY;
use super::spec::{FAST, WRITE};
use super::streams_ids::{entry_ids, stream};
use super::{Command, Context, Failure, Outcome, SYNTAX};
use crate::keyspace::{Blocks, Edit, EntryId, GroupEdit, Head, Keep, Keyspace, Kind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    stream("xackdel", -6, xackdel)
        .flags(WRITE | FAST)
        .since("8.2.0")
        .says("Acknowledge entries and remove them", "O(n), n being the number of ids, for each group of the stream"),
    stream("xdelex", -5, xdelex)
        .flags(WRITE | FAST)
        .since("8.2.0")
        .says("Remove entries, and what groups know of them", "O(n), n being the number of ids, for each group of the stream"),
];

/// Treatment of an entry to which groups refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum References {
    /// The entry is removed, and stays pending in groups.
    #[default]
    Keep,
    /// The entry is removed, from the groups' pending entries as well.
    Remove,
    /// The entry stays in the stream.
    Obey,
}

impl References {
    const ALL: [(References, &'static str); 3] =
        [(References::Keep, "keepref"), (References::Remove, "delref"), (References::Obey, "acked")];

    /// Parses the word of an option. `None`: it is another word.
    pub fn parse(word: &[u8]) -> Option<References> {
        Self::ALL.iter().find(|(_, known)| is(word, known)).map(|(references, _)| *references)
    }
}

/// All groups of a stream, opened to be changed.
struct Groups<'g>(Vec<GroupEdit<'g>>);

impl<'g> Groups<'g> {
    /// Opens the groups of these names.
    fn open(keyspace: &Keyspace, of: (usize, &'g [u8]), head: &Head, names: &'g [Vec<u8>]) -> Result<Groups<'g>, Failure> {
        let mut edits = Vec::with_capacity(names.len());
        for name in names {
            edits.extend(keyspace.edit_group(of, head, name)?);
        }
        Ok(Groups(edits))
    }

    /// Whether a group refers to an entry.
    fn refer_to(&self, keyspace: &Keyspace, id: EntryId) -> Result<bool, Failure> {
        for edit in &self.0 {
            if id > edit.group.last || edit.group.pending > 0 && keyspace.pending(&edit.group, id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The id up to which entries were delivered to all groups; `None`: there are no groups.
    fn delivered_to_all(&self) -> Option<EntryId> {
        self.0.iter().map(|edit| edit.group.last).min()
    }

    /// Removes an entry from the pending entries of all groups.
    fn forget(&mut self, keyspace: &mut Keyspace, id: EntryId) -> Outcome {
        for edit in &mut self.0 {
            if edit.group.pending == 0 {
                continue;
            }
            if let Some(pending) = keyspace.pending(&edit.group, id)? {
                keyspace.remove_pending(edit, id, pending)?;
            }
        }
        Ok(())
    }

    fn finish(self, keyspace: &mut Keyspace) {
        self.0.into_iter().for_each(|edit| keyspace.finish_group(edit));
    }
}

/// Names of the groups of a stream.
fn names(keyspace: &Keyspace, head: &Head) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(keyspace.groups(head)?.into_iter().map(|(name, _)| name).collect())
}

/// Trims a stream with groups by `DELREF` or `ACKED`. Returns the number of removed entries, and for `ACKED` their ids, since they need not
/// be the first ones. `None`: there is nothing to do with references, and the caller trims.
pub(super) fn trim(
    context: &mut Context,
    (edit, key): (&mut Edit, &[u8]),
    references: References,
    (keep, blocks): (Keep, Option<Blocks>),
) -> Result<Option<(u64, Vec<EntryId>)>, Failure> {
    let keyspace = &mut *context.keyspace;
    if references == References::Keep || !edit.existed() {
        return Ok(None);
    }
    let names = names(keyspace, &edit.head)?;
    if names.is_empty() {
        return Ok(None);
    }
    let mut groups = Groups::open(keyspace, (context.session.db, key), &edit.head, &names)?;
    if references == References::Remove {
        let count = keyspace.count_to_trim(&edit.head, keep, blocks)?;
        for id in first_ids(keyspace, &edit.head, count)? {
            groups.forget(keyspace, id)?;
        }
        groups.finish(keyspace);
        return Ok(Some((keyspace.trim_entries(edit, keep, blocks)?, Vec::new())));
    }
    let (looked_at, most) = match (keep, blocks) {
        // For an entry that stays, a later one is removed.
        (Keep::Newest(kept), None) => (u64::MAX, edit.head.count.saturating_sub(kept)),
        _ => (keyspace.count_to_trim(&edit.head, keep, blocks)?, u64::MAX),
    };
    let ids = free_ids(keyspace, &edit.head, &groups, (looked_at, most))?;
    groups.finish(keyspace);
    Ok(Some((keyspace.remove_entries(edit, &ids)?, ids)))
}

/// Ids of the first `count` entries.
fn first_ids(keyspace: &Keyspace, head: &Head, count: u64) -> Result<Vec<EntryId>, Failure> {
    let mut ids = Vec::new();
    if count > 0 {
        keyspace.walk_entries(head, (EntryId::MIN, EntryId::MAX), false, &mut |id, _| {
            ids.push(id);
            if ids.len() as u64 == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    Ok(ids)
}

/// Ids of at most `most` entries to which no group refers, among the first `looked_at` entries.
fn free_ids(keyspace: &Keyspace, head: &Head, groups: &Groups, (looked_at, most): (u64, u64)) -> Result<Vec<EntryId>, Failure> {
    let Some(delivered) = groups.delivered_to_all().filter(|_| looked_at > 0 && most > 0) else { return Ok(Vec::new()) };
    let (mut ids, mut seen, mut outcome) = (Vec::new(), 0u64, Ok(()));
    keyspace.walk_entries(head, (EntryId::MIN, delivered), false, &mut |id, _| {
        seen += 1;
        match groups.refer_to(keyspace, id) {
            Ok(false) => ids.push(id),
            Ok(true) => {}
            Err(error) => outcome = Err(error),
        }
        if outcome.is_err() || seen == looked_at || ids.len() as u64 == most {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    outcome.map(|()| ids)
}

/// Logs the removal of entries for the AOF.
pub(super) fn log_removed(context: &mut Context, key: &[u8], ids: &[EntryId]) {
    if !context.server.feed.is_on() {
        return;
    }
    for some in ids.chunks(MANY) {
        let texts: Vec<String> = some.iter().map(ToString::to_string).collect();
        let words: Vec<&[u8]> = [&b"XDEL"[..], key].into_iter().chain(texts.iter().map(String::as_bytes)).collect();
        context.server.feed.put(context.session.db, &words);
    }
}

/// Options of `XDELEX` and `XACKDEL`.
struct Request<'r, 'a> {
    references: References,
    ids: &'r [&'a [u8]],
}

impl<'r, 'a> Request<'r, 'a> {
    fn parse(options: &'r [&'a [u8]]) -> Result<Request<'r, 'a>, Failure> {
        const NUMBER: Failure = Failure::fixed("ERR Number of IDs must be a positive integer");
        const COUNT: Failure = Failure::fixed("ERR The `numids` parameter must match the number of arguments");
        let (mut references, mut ids, mut rest) = (None, None, options);
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            if let Some(known) = References::parse(word).filter(|_| references.is_none()) {
                references = Some(known);
            } else if let Some((number, behind)) = rest.split_first().filter(|_| is(word, "ids") && ids.is_none()) {
                let number = usize::try_from(integer_or(number, NUMBER)?).ok().filter(|number| *number > 0).ok_or(NUMBER)?;
                let (given, behind) = behind.split_at_checked(number).ok_or(COUNT)?;
                ids = Some(given);
                rest = behind;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(Request { references: references.unwrap_or_default(), ids: ids.ok_or(SYNTAX)? })
    }

    /// Replies that there is none of the entries.
    fn reply_missing(&self, context: &mut Context) {
        context.reply.array(self.ids.len());
        self.ids.iter().for_each(|_| context.reply.integer(MISSING));
    }
}

/// Results for an id in a reply.
const MISSING: i64 = -1;
const REMOVED: i64 = 1;
const STAYS: i64 = 2;

fn xdelex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove(context, arguments[1], None, &Request::parse(&arguments[2..])?)
}

fn xackdel(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove(context, arguments[1], Some(arguments[2]), &Request::parse(&arguments[3..])?)
}

/// Removes entries, and replies with a result for each id. With `group`, acknowledges entries in this group, and removes only entries that
/// were pending in it.
fn remove(context: &mut Context, key: &[u8], group: Option<&[u8]>, request: &Request) -> Outcome {
    let db = context.session.db;
    let Some(head) = context.find_stream(key)? else {
        request.reply_missing(context);
        return Ok(());
    };
    let mut names = names(context.keyspace, &head)?;
    if let Some(group) = group {
        // The acknowledging group comes first.
        let Some(at) = names.iter().position(|name| name == group) else {
            request.reply_missing(context);
            return Ok(());
        };
        names.swap(0, at);
    }
    let ids = entry_ids(request.ids)?;
    let mut edit = context.keyspace.edit(db, key, Kind::Stream)?;
    let mut groups = Groups::open(context.keyspace, (db, key), &head, &names)?;
    let (mut removed, mut results) = (BTreeSet::new(), Vec::with_capacity(ids.len()));
    for id in ids {
        if group.is_some() {
            let Some(own) = groups.0.first_mut() else { break };
            let Some(pending) = context.keyspace.pending(&own.group, id)? else {
                results.push(MISSING);
                continue;
            };
            context.keyspace.remove_pending(own, id, pending)?;
        }
        match request.references {
            References::Obey if groups.refer_to(context.keyspace, id)? => {
                results.push(STAYS);
                continue;
            }
            References::Remove => groups.forget(context.keyspace, id)?,
            References::Keep | References::Obey => {}
        }
        let is_removed = !removed.contains(&id) && context.keyspace.entry(&head, id)?.is_some();
        if is_removed {
            removed.insert(id);
        }
        // An acknowledged entry counts as removed even if it was removed from the stream before.
        results.push(if is_removed || group.is_some() { REMOVED } else { MISSING });
    }
    groups.finish(context.keyspace);
    let removed: Vec<EntryId> = removed.into_iter().collect();
    if context.keyspace.remove_entries(&mut edit, &removed)? > 0 {
        context.keyspace.finish(&edit);
        log_removed(context, key, &removed);
    }
    context.reply.array(results.len());
    results.into_iter().for_each(|result| context.reply.integer(result));
    Ok(())
}
