//! Streams between keys and Redis's format.

use super::error::{LoadError, SaveError};
use super::steps::Steps;
use crate::keyspace::{self, ConsumerGroup, Edit, EntryId, Head, Keyspace, NewGroup, encode_fields, fields};
use crate::rdb::{Node, Nodes, Output, StreamElement, StreamEntryId, StreamField, StreamState, Version};
use std::io::Write;
use std::ops::ControlFlow;

const ALL: (EntryId, EntryId) = (EntryId::MIN, EntryId::MAX);

fn from_file(id: StreamEntryId) -> EntryId {
    EntryId::new(id.ms, id.seq)
}

fn to_file(id: EntryId) -> StreamEntryId {
    StreamEntryId { ms: id.ms(), seq: id.seq() }
}

/// Refuses a part of a stream that could not be loaded.
pub(super) fn check(element: &StreamElement) -> Result<(), LoadError> {
    match element {
        StreamElement::Group { name, .. } | StreamElement::Consumer { name, .. } => Ok(keyspace::check_member(name)?),
        _ => Ok(()),
    }
}

/// A stream that is being loaded.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// The group that is being loaded.
    group: Option<NewGroup>,
    /// The file does not say how many entries groups have read, so the numbers are estimated.
    estimates: bool,
}

impl Loading {
    /// Loads the next part; `rdb::StreamElement` describes the order of parts.
    pub fn put(&mut self, keyspace: &mut Keyspace, edit: &mut Edit, element: &StreamElement) -> Result<(), LoadError> {
        match element {
            StreamElement::Entry { id, fields } => keyspace.append(edit, from_file(*id), encode(fields)),
            // The reader reports corrections.
            StreamElement::Corrected(_) => {}
            StreamElement::State { length, last, max_deleted, added } => {
                let stream = &mut edit.head.stream;
                stream.last = from_file(*last);
                stream.max_deleted = from_file(*max_deleted);
                stream.added = added.unwrap_or(*length);
                self.estimates = added.is_none();
            }
            StreamElement::Group { name, last, read } => {
                self.end(keyspace)?;
                let last = from_file(*last);
                let read = if self.estimates { edit.head.added_up_to(last) } else { *read };
                self.group = Some(keyspace.new_group(&edit.head, name, last, read)?.ok_or(LoadError::Twice)?);
            }
            StreamElement::Pending { id, delivered, deliveries } => {
                keyspace.add_pending(self.group()?, from_file(*id), *delivered, *deliveries);
            }
            // The time at which the consumer was last given something is not stored separately.
            StreamElement::Consumer { name, seen, .. } => {
                if !keyspace.add_new_consumer(self.group()?, name, *seen)? {
                    return Err(LoadError::Twice);
                }
            }
            StreamElement::Owned { id } => {
                if !keyspace.own_pending(self.group()?, from_file(*id))? {
                    return Err(LoadError::Unowned);
                }
            }
        }
        Ok(())
    }

    fn group(&mut self) -> Result<&mut NewGroup, LoadError> {
        self.group.as_mut().ok_or(LoadError::Unowned)
    }

    /// Ends the group that is being loaded.
    pub fn end(&mut self, keyspace: &mut Keyspace) -> Result<(), LoadError> {
        let is_whole = self.group.take().is_none_or(|group| keyspace.finish_new_group(group));
        if is_whole { Ok(()) } else { Err(LoadError::Unowned) }
    }
}

fn encode(fields: &[StreamField]) -> Vec<u8> {
    let texts: Vec<&[u8]> = fields.iter().flat_map(|(field, value)| [field.as_ref(), value.as_ref()]).collect();
    encode_fields(&texts)
}

/// Shows `visit` the entries of a stream, divided into nodes.
fn walk_nodes(keyspace: &Keyspace, head: &Head, visit: &mut dyn FnMut(&Node) -> ControlFlow<()>) -> Result<u64, SaveError> {
    let (mut nodes, mut count, mut damage) = (Nodes::default(), 0, None);
    let mut broken = false;
    keyspace.walk_entries(head, ALL, false, &mut |id, entry| {
        let texts = match fields(entry) {
            Ok(texts) => texts,
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        };
        // Fields and values alternate, in equal numbers.
        let (pairs, _) = texts.as_chunks::<2>();
        let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[field, value]| (*field, *value)).collect();
        count += 1;
        broken = nodes.add(to_file(id), &pairs).is_some_and(|node| visit(&node).is_break());
        if broken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(error) = damage {
        return Err(error.into());
    }
    if let Some(node) = nodes.end().filter(|_| !broken) {
        // This is the last node.
        let _ = visit(&node);
    }
    Ok(count)
}

/// Writes a stream. Its entries are read twice: the number of nodes stands before the nodes.
pub(super) fn write<W: Write>(out: &mut Output<W>, version: Version, keyspace: &Keyspace, head: &Head) -> Result<(), SaveError> {
    let mut nodes = 0;
    let entries = walk_nodes(keyspace, head, &mut |_| {
        nodes += 1;
        ControlFlow::Continue(())
    })?;
    if entries != head.count {
        return Err(keyspace::Error::Damaged("a stream's entries are not as many as its count says").into());
    }
    out.length(nodes)?;
    let mut steps = Steps::default();
    walk_nodes(keyspace, head, &mut |node| steps.step(out.stream_node(node)))?;
    steps.end(nodes)?;
    let stream = &head.stream;
    let state = StreamState {
        length: head.count,
        first: to_file(stream.first),
        last: to_file(stream.last),
        max_deleted: to_file(stream.max_deleted),
        added: stream.added,
    };
    out.stream_state(version, &state)?;
    let groups = keyspace.groups(head)?;
    out.length(groups.len() as u64)?;
    groups.iter().try_for_each(|(name, group)| write_group(out, version, keyspace, name, group))
}

fn write_group<W: Write>(
    out: &mut Output<W>,
    version: Version,
    keyspace: &Keyspace,
    name: &[u8],
    group: &ConsumerGroup,
) -> Result<(), SaveError> {
    out.stream_group(version, name, to_file(group.last), group.read)?;
    out.length(group.pending)?;
    let mut steps = Steps::default();
    keyspace.walk_pending(group, None, ALL, &mut |id, pending| {
        steps.step(out.stream_pending(to_file(id), pending.delivered, pending.deliveries))
    })?;
    steps.end(group.pending)?;
    out.length(group.consumers)?;
    let consumers = keyspace.consumers(group)?;
    if consumers.len() as u64 != group.consumers {
        return Err(keyspace::Error::Damaged("a group's consumers are not as many as its count says").into());
    }
    for (number, consumer) in consumers {
        // The time of the last request is the best known estimate of when something was last given.
        out.stream_consumer(version, &consumer.name, consumer.seen, Some(consumer.seen))?;
        out.length(consumer.pending)?;
        let mut steps = Steps::default();
        keyspace.walk_pending(group, Some(number), ALL, &mut |id, _| steps.step(out.stream_owned(to_file(id))))?;
        steps.end(consumer.pending)?;
    }
    Ok(())
}
