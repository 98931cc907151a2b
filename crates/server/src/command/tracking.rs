//! Client-side caching (`CLIENT TRACKING`): clients that keep copies of values are told which copies have become stale.
//!
//! By default the server remembers which keys a client has read ([`Table`], for all databases together, as in Redis) and sends the client
//! one invalidation for each of them that changes. With `BCAST` the client gets all changes of keys with its prefixes ([`Prefixes`]), at
//! the end of the event-loop iteration, and the server remembers none of its reads. The keyspace notes stale keys while any client tracks
//! keys; otherwise a command costs one look at a flag.
//!
//! Invalidations are messages of the [`Hub`]: they follow the reply of the command that has caused them, and leave after the change is
//! committed. If the commit fails, messages of the iteration are dropped with its replies, and [`Server::invalidate_everything`] sends
//! invalidations of all keys instead.

mod prefixes;
mod table;
#[cfg(test)]
mod tests;

use super::arguments::{Rest, integer, is};
use super::hub::{Forgotten, Hub};
use super::spec::READ;
use super::units::Unit;
use super::{Client, Context, Failure, Group, Outcome, SYNTAX, Server, Session, keyspecs};
use crate::keyspace::{Keyspace, Stale};
use crate::resp::{Protocol, Writer};
use prefixes::Prefixes;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;

/// Keys that the first call of [`Server::limit_tracking`] evicts from the table, at most; each call that leaves the table too large allows
/// the next one as many more.
const EVICTED_AT_ONCE: usize = 100;

/// Changes for which a client gets invalidations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Changes of all keys that it reads.
    #[default]
    Read,
    /// Changes of keys that it reads after `CLIENT CACHING YES`.
    OptIn,
    /// Changes of keys that it reads, except after `CLIENT CACHING NO`.
    OptOut,
    /// Changes of all keys with its prefixes.
    Broadcast,
}

/// A client that tracks keys.
#[derive(Debug, Default)]
struct Tracker {
    mode: Mode,
    /// The client that gets the invalidations instead (`REDIRECT`); 0: none.
    redirect: u64,
    /// Whether the client in `redirect` was gone when it should have got an invalidation.
    is_broken: bool,
    /// Whether the client gets no invalidations for its own changes (`NOLOOP`).
    skips_own: bool,
    /// Prefixes of [`Mode::Broadcast`].
    prefixes: BTreeSet<Vec<u8>>,
}

/// All clients that track keys, and what they track.
#[derive(Debug, Default)]
pub struct Tracking {
    trackers: BTreeMap<u64, Tracker>,
    table: Table,
    prefixes: Prefixes,
    /// Calls of [`Server::limit_tracking`] in a row that have left the table too large.
    attempts: usize,
}

impl Tracking {
    /// Whether any client tracks keys.
    pub fn is_on(&self) -> bool {
        !self.trackers.is_empty()
    }

    /// Ends the tracking of a client. With the last one, the table is dropped.
    pub fn leave(&mut self, id: u64) {
        let Some(tracker) = self.trackers.remove(&id) else { return };
        tracker.prefixes.iter().for_each(|prefix| self.prefixes.remove(prefix, id));
        if self.trackers.is_empty() {
            self.table.clear();
        }
    }

    /// The client to which a client redirects (0: to none), or -1 if it does not track keys.
    pub(super) fn redirect(&self, id: u64) -> i64 {
        self.trackers.get(&id).map_or(-1, |tracker| i64::try_from(tracker.redirect).unwrap_or(i64::MAX))
    }

    /// Number of clients that track keys.
    pub(super) fn len(&self) -> usize {
        self.trackers.len()
    }

    /// Whether a client tracks keys, redirects to a client that is gone, and gets broadcasts.
    pub(super) fn flags(&self, id: u64) -> [bool; 3] {
        let tracker = self.trackers.get(&id);
        tracker.map_or([false; 3], |tracker| [true, tracker.is_broken, tracker.mode == Mode::Broadcast])
    }

    /// Figures for `INFO`: keys in the table, their readers, prefixes.
    pub(super) fn figures(&self) -> [(&'static str, usize); 3] {
        let (keys, readers) = (self.table.len(), self.table.items());
        [("tracking_total_keys", keys), ("tracking_total_items", readers), ("tracking_total_prefixes", self.prefixes.len())]
    }
}

/// Encodes an array of keys.
fn encode<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Forgotten {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Protocol::Resp2);
    writer.array(keys.len());
    keys.for_each(|key| writer.bulk(key));
    Some(out.into())
}

/// Tells a client that tracks keys, or the one to which it redirects, to forget keys.
fn tell(hub: &mut Hub, clients: &BTreeMap<u64, Client>, (id, tracker): (u64, &mut Tracker), keys: &Forgotten) {
    match tracker.redirect {
        0 => hub.invalidate(id, keys, false),
        to if clients.contains_key(&to) => hub.invalidate(to, keys, true),
        gone => {
            tracker.is_broken = true;
            hub.tell_broken(id, gone);
        }
    }
}

impl Server {
    /// Tells clients of the keys that have become stale. `by`: the session whose request changed them, if one did.
    pub fn invalidate_stale(&mut self, keyspace: &mut Keyspace, by: Option<u64>) {
        for stale in keyspace.take_stale() {
            match stale {
                Stale::Key { key, has_ended } => {
                    self.tracking.prefixes.change(&key, by.filter(|_| !has_ended));
                    self.invalidate(&key, by);
                }
                Stale::All => self.invalidate_everything(),
            }
        }
    }

    /// Tells the readers of a key that it is stale, except the client `by` if it has `NOLOOP`.
    fn invalidate(&mut self, key: &[u8], by: Option<u64>) {
        let readers = self.tracking.table.remove(key);
        if readers.is_empty() {
            return;
        }
        let keys = encode([key].into_iter());
        for id in readers {
            let Some(tracker) = self.tracking.trackers.get_mut(&id) else { continue };
            // A client that now has prefixes may have read the key before it had them.
            if tracker.mode == Mode::Broadcast || tracker.skips_own && by == Some(id) {
                continue;
            }
            tell(&mut self.hub, &self.clients, (id, tracker), &keys);
        }
    }

    /// Tells all clients that track keys to forget everything.
    pub fn invalidate_everything(&mut self) {
        for (id, tracker) in &mut self.tracking.trackers {
            tell(&mut self.hub, &self.clients, (*id, tracker), &None);
        }
        self.tracking.table.clear();
    }

    /// Remembers the keys that a request has read.
    fn remember(&mut self, session: &mut Session, unit: &Unit, arguments: &[&[u8]]) {
        let Some(tracker) = self.tracking.trackers.get_mut(&session.id) else { return };
        let remembers = match tracker.mode {
            Mode::Read => true,
            Mode::OptIn => session.caching,
            Mode::OptOut => !session.caching,
            Mode::Broadcast => false,
        };
        if !remembers {
            return;
        }
        session.reads += 1;
        let (table, id) = (&mut self.tracking.table, session.id);
        // The reply to a request that took several steps shows the keys as they were when it came. A key that has changed since is stale.
        let is_late = session.is_resumed && session.steps.is_some();
        let mut read = |key: &[u8]| {
            if is_late && !table.has(key, id) {
                tell(&mut self.hub, &self.clients, (id, &mut *tracker), &encode([key].into_iter()));
            } else {
                table.add(key, id);
            }
        };
        match keyspecs::only(unit.specs) {
            Some(position) => arguments.get(position).copied().into_iter().for_each(&mut read),
            None => {
                let keys = keyspecs::keys(unit.command, unit.specs, arguments).unwrap_or_default();
                keys.iter().filter_map(|key| arguments.get(key.position)).for_each(|key| read(key));
            }
        }
    }

    /// Evicts random keys from the table while it has more than `tracking-table-max-keys`, and invalidates them, since later changes of
    /// them go unnoticed. Called after each command and each tick while clients track keys.
    pub fn limit_tracking(&mut self, keyspace: &mut Keyspace) {
        let most = self.configuration.tracking_keys_max;
        let mut left = EVICTED_AT_ONCE.saturating_mul(self.tracking.attempts + 1);
        while most > 0 && self.tracking.table.len() > most {
            if left == 0 {
                self.tracking.attempts += 1;
                return;
            }
            left -= 1;
            let at = keyspace.random_below(self.tracking.table.len() as u64);
            if let Some(key) = usize::try_from(at).ok().and_then(|at| self.tracking.table.key(at)) {
                self.invalidate(&key, None);
            }
        }
        self.tracking.attempts = 0;
    }

    /// Ends an event-loop iteration: sends invalidations of keys that have become stale without a request, and broadcasts changed keys to
    /// the clients with their prefixes.
    pub fn end_tracked_iteration(&mut self, keyspace: &mut Keyspace) {
        keyspace.note_stale(self.tracking.is_on());
        if !self.tracking.is_on() {
            return;
        }
        self.invalidate_stale(keyspace, None);
        for (ids, changed) in self.tracking.prefixes.take_changed() {
            let all = encode(changed.keys().map(Vec::as_slice));
            for id in ids {
                let Some(tracker) = self.tracking.trackers.get_mut(&id) else { continue };
                if !tracker.skips_own {
                    tell(&mut self.hub, &self.clients, (id, tracker), &all);
                    continue;
                }
                let others: Vec<&[u8]> = changed.iter().filter(|(_, by)| **by != Some(id)).map(|(key, _)| key.as_slice()).collect();
                if !others.is_empty() {
                    tell(&mut self.hub, &self.clients, (id, tracker), &encode(others.into_iter()));
                }
            }
        }
    }
}

/// Invalidates the keys that a command has changed, and remembers those that it has read. Each command of a script counts by itself; a
/// script that has read anything has also read all keys that it declares, as in Redis 7.0. `reads`: [`Session::reads`] before the command.
pub(super) fn ran(context: &mut Context, unit: &Unit, arguments: &[&[u8]], reads: u64) {
    let Context { keyspace, server, session, .. } = context;
    server.invalidate_stale(keyspace, Some(session.id));
    let has_read = if unit.command.group == Group::Scripting { session.reads > reads } else { unit.flags & READ != 0 };
    if has_read {
        server.remember(session, unit, arguments);
    }
    server.limit_tracking(keyspace);
}

/// Options of `CLIENT TRACKING`.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    broadcasts: bool,
    opts_in: bool,
    opts_out: bool,
    skips_own: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a [u8]], server: &Server) -> Result<Options<'a>, Failure> {
        let mut options = Options::default();
        let mut rest = Rest::new(arguments);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "redirect") && rest.len() > 0 => {
                    if options.redirect != 0 {
                        return Err(Failure::fixed("ERR A client can only redirect to a single other client"));
                    }
                    let unknown = Failure::fixed("ERR The client ID you want redirect to does not exist");
                    let id = u64::try_from(integer(rest.value()?)?).ok();
                    options.redirect = id.filter(|id| server.clients.contains_key(id)).ok_or(unknown)?;
                }
                () if is(word, "bcast") => options.broadcasts = true,
                () if is(word, "optin") => options.opts_in = true,
                () if is(word, "optout") => options.opts_out = true,
                () if is(word, "noloop") => options.skips_own = true,
                () if is(word, "prefix") && rest.len() > 0 => options.prefixes.push(rest.value()?),
                () => return Err(SYNTAX),
            }
        }
        Ok(options)
    }

    /// The mode, if the options agree with each other and with the client's present tracking.
    fn mode(&self, now: Option<&Tracker>) -> Result<Mode, Failure> {
        let fail = |text| Err(Failure::fixed(text));
        let old = now.map(|tracker| tracker.mode);
        if !self.broadcasts && !self.prefixes.is_empty() {
            return fail("ERR PREFIX option requires BCAST mode to be enabled");
        }
        if old.is_some_and(|old| (old == Mode::Broadcast) != self.broadcasts) {
            return fail(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
                 different mode.",
            );
        }
        if self.broadcasts && (self.opts_in || self.opts_out) {
            return fail("ERR OPTIN and OPTOUT are not compatible with BCAST");
        }
        if self.opts_in && self.opts_out {
            return fail("ERR You can't specify both OPTIN mode and OPTOUT mode");
        }
        if self.opts_in && old == Some(Mode::OptOut) || self.opts_out && old == Some(Mode::OptIn) {
            return fail(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
                 different mode.",
            );
        }
        Ok(match () {
            () if self.broadcasts => Mode::Broadcast,
            () if self.opts_in => Mode::OptIn,
            () if self.opts_out => Mode::OptOut,
            () => Mode::Read,
        })
    }

    /// Checks that no key begins with two of the client's prefixes.
    fn check_prefixes(&self, now: Option<&Tracker>) -> Outcome {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        let refused = |prefix: &[u8], what: &str, other: &[u8]| {
            let parts = [&b"ERR Prefix '"[..], prefix, b"' overlaps with ", what.as_bytes(), b" prefix '", other];
            Failure::new([&parts.concat()[..], b"'. Prefixes for a single client must not overlap."].concat())
        };
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let mut existing = now.into_iter().flat_map(|tracker| &tracker.prefixes);
            if let Some(other) = existing.find(|other| overlap(prefix, other)) {
                return Err(refused(prefix, "an existing", other));
            }
            if let Some(other) = self.prefixes.iter().skip(at + 1).find(|other| overlap(prefix, other)) {
                return Err(refused(prefix, "another provided", other));
            }
        }
        Ok(())
    }
}

/// `CLIENT TRACKING`.
pub(super) fn switch(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let options = Options::parse(&arguments[3..], context.server)?;
    let id = context.session.id;
    match arguments[2] {
        word if is(word, "on") => switch_on(context, options)?,
        word if is(word, "off") => {
            context.server.tracking.leave(id);
            context.session.caching = false;
        }
        _ => return Err(SYNTAX),
    }
    context.reply.ok();
    Ok(())
}

fn switch_on(context: &mut Context, options: Options) -> Outcome {
    let id = context.session.id;
    let tracking = &mut context.server.tracking;
    let now = tracking.trackers.get(&id);
    let mode = options.mode(now)?;
    options.check_prefixes(now)?;
    let tracker = tracking.trackers.entry(id).or_default();
    (tracker.mode, tracker.redirect, tracker.is_broken, tracker.skips_own) = (mode, options.redirect, false, options.skips_own);
    // The empty prefix stands for all keys.
    let all: &[&[u8]] = if mode == Mode::Broadcast && options.prefixes.is_empty() { &[&b""[..]] } else { &options.prefixes };
    for prefix in all {
        tracker.prefixes.insert(prefix.to_vec());
        tracking.prefixes.add(prefix, id);
    }
    context.keyspace.note_stale(true);
    Ok(())
}

/// `CLIENT CACHING`.
pub(super) fn caching(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let fail = |text| Err(Failure::fixed(text));
    let Some(tracker) = context.server.tracking.trackers.get(&context.session.id) else {
        return fail("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
    };
    match arguments[2] {
        word if is(word, "yes") && tracker.mode != Mode::OptIn => {
            return fail("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
        }
        word if is(word, "no") && tracker.mode != Mode::OptOut => {
            return fail("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
        }
        word if is(word, "yes") || is(word, "no") => context.session.caching = true,
        _ => return Err(SYNTAX),
    }
    context.reply.ok();
    Ok(())
}

/// `CLIENT GETREDIR`.
pub(super) fn get_redirect(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.reply.integer(context.server.tracking.redirect(context.session.id));
    Ok(())
}

/// `CLIENT TRACKINGINFO`.
pub(super) fn info(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let (tracking, id) = (&context.server.tracking, context.session.id);
    let tracker = tracking.trackers.get(&id);
    let mode = tracker.map(|tracker| tracker.mode);
    let flags = [
        ("on", tracker.is_some()),
        ("off", tracker.is_none()),
        ("bcast", mode == Some(Mode::Broadcast)),
        ("optin", mode == Some(Mode::OptIn)),
        ("caching-yes", mode == Some(Mode::OptIn) && context.session.caching),
        ("optout", mode == Some(Mode::OptOut)),
        ("caching-no", mode == Some(Mode::OptOut) && context.session.caching),
        ("noloop", tracker.is_some_and(|tracker| tracker.skips_own)),
        ("broken_redirect", tracker.is_some_and(|tracker| tracker.is_broken)),
    ];
    let set: Vec<&str> = flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
    let reply = &mut context.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(set.len());
    set.iter().for_each(|name| reply.bulk(name.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(tracking.redirect(id));
    reply.bulk(b"prefixes");
    reply.array(tracker.map_or(0, |tracker| tracker.prefixes.len()));
    tracker.into_iter().flat_map(|tracker| &tracker.prefixes).for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
