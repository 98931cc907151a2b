//! Steps that commands of hashes, sets and sorted sets share. A hash's members are its fields.

use super::arguments::{count, is};
use super::{Context, Failure, OUT_OF_RANGE, Outcome, SYNTAX};
use crate::keyspace::{Head, Kind, Member, check_member};
use crate::resp::REPLIES_MAX;
use std::ops::ControlFlow;

/// Members that may be picked with repetition, at most: the reply is built in memory.
const PICKS_MAX: u64 = 1 << 22;

/// Number of elements of a collection; 0 if it does not exist.
pub(super) fn size(head: Option<&Head>) -> usize {
    head.map_or(0, |head| usize::try_from(head.count).unwrap_or(usize::MAX))
}

/// Removes the members named behind the key, and replies with the number of removed ones.
pub(super) fn remove(context: &mut Context, arguments: &[&[u8]], kind: Kind) -> Outcome {
    arguments[2..].iter().try_for_each(|member| check_member(member))?;
    let keyspace = &mut *context.keyspace;
    let mut edit = keyspace.edit(context.session.db, arguments[1], kind)?;
    let mut removed = 0;
    for member in &arguments[2..] {
        let existed = match kind {
            Kind::SortedSet => keyspace.remove_scored(&mut edit, member)?.is_some(),
            _ => keyspace.remove_member(&mut edit, member)?,
        };
        removed += i64::from(existed);
    }
    if removed > 0 {
        keyspace.finish(&edit);
    }
    context.reply.integer(removed);
    Ok(())
}

/// Runs `HRANDFIELD`, `SRANDMEMBER` or `ZRANDMEMBER` up to the reply, and returns the picked members, and whether the option `with` asks
/// for their values. Without a number of members, replies with one member, and returns `None`.
pub(super) fn random(
    context: &mut Context,
    arguments: &[&[u8]],
    kind: Kind,
    with: Option<&str>,
) -> Result<Option<(Vec<Member>, bool)>, Failure> {
    let Some(number) = arguments.get(2) else {
        let head = context.find(arguments[1], kind)?;
        let found = head.map(|head| context.keyspace.random_member(&head)).transpose()?.flatten();
        context.reply.bulk_or_null(found.as_ref().map(|member| &member.0[..]));
        return Ok(None);
    };
    let number = count(number)?;
    let with_values = match &arguments[3..] {
        [] => false,
        [word] if with.is_some_and(|with| is(word, with)) => true,
        _ => return Err(SYNTAX),
    };
    if with_values && number.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(OUT_OF_RANGE);
    }
    Ok(Some((pick(context, arguments[1], kind, number)?, with_values)))
}

/// Picks `number` different members; if negative, as many that may repeat. Their bytes are bounded, as one long value may repeat often.
fn pick(context: &mut Context, key: &[u8], kind: Kind, number: i64) -> Result<Vec<Member>, Failure> {
    let Some(head) = context.find(key, kind)? else { return Ok(Vec::new()) };
    if number >= 0 {
        return Ok(context.keyspace.random_members(&head, number.unsigned_abs())?);
    }
    if number.unsigned_abs() > PICKS_MAX {
        return Err(OUT_OF_RANGE);
    }
    let (mut picked, mut bytes) = (Vec::new(), 0);
    context.keyspace.pick_members(&head, number.unsigned_abs(), &mut |member| {
        bytes += member.0.len() + member.1.len();
        picked.push(member);
        if bytes > REPLIES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if bytes > REPLIES_MAX { Err(OUT_OF_RANGE) } else { Ok(picked) }
}
