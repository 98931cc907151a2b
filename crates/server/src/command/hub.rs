//! Subscriptions (channels, patterns of channels, shard channels) and monitors, and the messages to be sent to them and to clients that
//! track keys (`tracking`).
//!
//! A message is encoded once for all its receivers. It waits here as a [`Post`] until its request has ended; then the network puts it into
//! the outputs of its receivers, before any other request is run. So messages are sent with the replies of their event-loop iteration, and
//! are dropped with them if the iteration cannot be committed.

use super::Session;
use crate::glob;
use crate::resp::{Protocol, Writer};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Kind of subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// A channel by its name.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A shard channel, which patterns do not reach.
    Shard,
}

impl Topic {
    const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::Shard];
}

/// Channel by whose name clients with RESP2 get invalidations that are redirected to them.
const INVALIDATIONS: &[u8] = b"__redis__:invalidate";

/// A message for one client that is no reply.
#[derive(Debug, Clone)]
pub struct Post {
    /// The receiver's session.
    pub to: u64,
    content: Content,
}

/// Content of a message, encoded once for all receivers.
#[derive(Debug, Clone)]
enum Content {
    /// A line for monitors.
    Line(Arc<[u8]>),
    /// A message of a channel in RESP2; RESP3 sends it as a push message.
    Message(Arc<[u8]>),
    /// Keys that the receiver has to forget. In RESP2 only a client that another one redirects to, and that has a subscription, gets this
    /// message.
    Invalidation { keys: Forgotten, is_redirected: bool },
    /// The client to which the receiver redirects its invalidations is gone. In RESP2 there is no such message.
    Broken(u64),
}

/// Keys that a client has to forget: an encoded array of them; `None`: all keys.
pub(super) type Forgotten = Option<Arc<[u8]>>;

impl Post {
    /// Appends the message to the output of the receiver.
    pub fn write(&self, receiver: &Session, out: &mut Vec<u8>) {
        let is_three = receiver.protocol == Protocol::Resp3;
        match &self.content {
            Content::Message(bytes) if is_three => {
                out.push(b'>');
                out.extend_from_slice(bytes.get(1..).unwrap_or_default());
            }
            Content::Line(bytes) | Content::Message(bytes) => out.extend_from_slice(bytes),
            Content::Invalidation { keys, is_redirected } => {
                let mut writer = Writer::new(out, receiver.protocol);
                if is_three {
                    writer.push(2);
                    writer.bulk(b"invalidate");
                } else if *is_redirected && receiver.gets_only_messages() {
                    writer.push(3);
                    writer.bulk(b"message");
                    writer.bulk(INVALIDATIONS);
                } else {
                    return;
                }
                match keys {
                    Some(keys) => writer.raw(keys),
                    None => writer.null(),
                }
            }
            Content::Broken(id) if is_three => {
                let mut writer = Writer::new(out, receiver.protocol);
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                writer.integer(i64::try_from(*id).unwrap_or(i64::MAX));
            }
            Content::Broken(_) => {}
        }
    }
}

/// Names that a session subscribes to, each with a number that tells their order.
type Names = HashMap<Vec<u8>, u64>;

/// All subscriptions and monitors.
#[derive(Debug, Default)]
pub struct Hub {
    /// Sessions by [`Topic`] and name.
    listeners: [HashMap<Vec<u8>, BTreeSet<u64>>; 3],
    /// Names by session, then by [`Topic`].
    names: HashMap<u64, [Names; 3]>,
    /// Sessions in `MONITOR`.
    monitors: BTreeSet<u64>,
    posts: Vec<Post>,
    added: u64,
}

impl Hub {
    /// Subscribes a session to a name.
    pub fn add(&mut self, session: u64, topic: Topic, name: &[u8]) {
        self.added += 1;
        let names = &mut self.names.entry(session).or_default()[topic as usize];
        names.entry(name.to_vec()).or_insert(self.added);
        self.listeners[topic as usize].entry(name.to_vec()).or_default().insert(session);
    }

    /// Ends a session's subscription to a name.
    pub fn remove(&mut self, session: u64, topic: Topic, name: &[u8]) {
        let Some(names) = self.names.get_mut(&session) else { return };
        names[topic as usize].remove(name);
        if names.iter().all(HashMap::is_empty) {
            self.names.remove(&session);
        }
        let listeners = &mut self.listeners[topic as usize];
        if let Some(sessions) = listeners.get_mut(name) {
            sessions.remove(&session);
            if sessions.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// Forgets a session that has ended or was reset.
    pub fn leave(&mut self, session: u64) {
        self.monitors.remove(&session);
        for topic in Topic::ALL {
            for name in self.names(session, topic) {
                self.remove(session, topic, &name);
            }
        }
    }

    /// Names that a session subscribes to, in the order of subscription.
    pub fn names(&self, session: u64, topic: Topic) -> Vec<Vec<u8>> {
        let Some(names) = self.names.get(&session) else { return Vec::new() };
        let mut all: Vec<(&u64, &Vec<u8>)> = names[topic as usize].iter().map(|(name, added)| (added, name)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Number of names that a session subscribes to.
    pub fn count(&self, session: u64, topic: Topic) -> usize {
        self.names.get(&session).map_or(0, |names| names[topic as usize].len())
    }

    /// Whether a session subscribes to anything.
    pub fn is_listening(&self, session: u64) -> bool {
        self.names.contains_key(&session)
    }

    /// Names with at least one subscriber, sorted.
    pub fn all(&self, topic: Topic) -> Vec<&[u8]> {
        let mut all: Vec<&[u8]> = self.listeners[topic as usize].keys().map(Vec::as_slice).collect();
        all.sort_unstable();
        all
    }

    /// Number of subscribers of a name.
    pub fn listeners(&self, topic: Topic, name: &[u8]) -> usize {
        self.listeners[topic as usize].get(name).map_or(0, BTreeSet::len)
    }

    /// Whether [`Hub::publish`] can reach anybody.
    pub fn has_listeners(&self) -> bool {
        !self.names.is_empty()
    }

    /// Sends a message to the subscribers of a channel, shard channel, or pattern that matches the channel; returns their number.
    pub fn publish(&mut self, topic: Topic, channel: &[u8], message: &[u8]) -> usize {
        let before = self.posts.len();
        if let Some(sessions) = self.listeners[topic as usize].get(channel) {
            let word: &[u8] = if topic == Topic::Shard { b"smessage" } else { b"message" };
            send(&mut self.posts, sessions, &[word, channel, message]);
        }
        if topic == Topic::Channel {
            for (pattern, sessions) in &self.listeners[Topic::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    send(&mut self.posts, sessions, &[b"pmessage", pattern, channel, message]);
                }
            }
        }
        self.posts.len() - before
    }

    /// Makes a session a monitor, which sees all commands.
    pub fn monitor(&mut self, session: u64) {
        self.monitors.insert(session);
    }

    /// Whether a session is a monitor.
    pub fn is_monitor(&self, session: u64) -> bool {
        self.monitors.contains(&session)
    }

    /// Whether there is any monitor.
    pub fn has_monitors(&self) -> bool {
        !self.monitors.is_empty()
    }

    /// Sends a line to all monitors.
    pub fn tell(&mut self, line: &[u8]) {
        let bytes: Arc<[u8]> = line.into();
        self.posts.extend(self.monitors.iter().map(|to| Post { to: *to, content: Content::Line(bytes.clone()) }));
    }

    /// Tells a client to forget keys; `is_redirected`: another client has read them.
    pub(super) fn invalidate(&mut self, to: u64, keys: &Forgotten, is_redirected: bool) {
        self.posts.push(Post { to, content: Content::Invalidation { keys: keys.clone(), is_redirected } });
    }

    /// Tells a client that the one to which it redirects its invalidations is gone.
    pub(super) fn tell_broken(&mut self, to: u64, gone: u64) {
        self.posts.push(Post { to, content: Content::Broken(gone) });
    }

    /// Whether messages wait to be sent.
    pub fn has_posts(&self) -> bool {
        !self.posts.is_empty()
    }

    /// Takes all messages that wait to be sent.
    pub fn take(&mut self) -> Vec<Post> {
        std::mem::take(&mut self.posts)
    }
}

fn send(posts: &mut Vec<Post>, sessions: &BTreeSet<u64>, parts: &[&[u8]]) {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Protocol::Resp2);
    writer.push(parts.len());
    parts.iter().for_each(|part| writer.bulk(part));
    let bytes: Arc<[u8]> = out.into();
    posts.extend(sessions.iter().map(|to| Post { to: *to, content: Content::Message(bytes.clone()) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(hub: &mut Hub, protocol: Protocol) -> Vec<(u64, String)> {
        let receiver = Session { protocol, ..Session::default() };
        let text = |post: Post| {
            let mut out = Vec::new();
            post.write(&receiver, &mut out);
            (post.to, String::from_utf8_lossy(&out).replace("\r\n", "|"))
        };
        let mut all: Vec<(u64, String)> = hub.take().into_iter().map(text).collect();
        all.sort();
        all
    }

    #[test]
    fn messages_reach_those_who_listen() {
        let mut hub = Hub::default();
        hub.add(1, Topic::Channel, b"news");
        hub.add(1, Topic::Channel, b"news");
        hub.add(1, Topic::Pattern, b"n*");
        hub.add(2, Topic::Pattern, b"n*");
        hub.add(3, Topic::Shard, b"news");
        assert_eq!(hub.publish(Topic::Channel, b"news", b"x"), 3);
        let message = "*3|$7|message|$4|news|$1|x|";
        let matched = "*4|$8|pmessage|$2|n*|$4|news|$1|x|";
        assert_eq!(sent(&mut hub, Protocol::Resp2), [(1, message.to_owned()), (1, matched.to_owned()), (2, matched.to_owned())]);
        assert_eq!(hub.publish(Topic::Shard, b"news", b"x"), 1);
        assert_eq!(sent(&mut hub, Protocol::Resp3), [(3, ">3|$8|smessage|$4|news|$1|x|".to_owned())]);
        assert_eq!(hub.publish(Topic::Channel, b"other", b"x"), 0);
        hub.monitor(2);
        hub.tell(b"+line\r\n");
        assert_eq!(sent(&mut hub, Protocol::Resp3), [(2, "+line|".to_owned())]);
    }

    #[test]
    fn invalidations_reach_clients_that_can_tell_them_from_replies() {
        let keys: Forgotten = Some(b"*1\r\n$1\r\nk\r\n"[..].into());
        let mut hub = Hub::default();
        hub.invalidate(1, &keys, false);
        hub.invalidate(1, &None, true);
        hub.tell_broken(1, 7);
        let posts = hub.take();
        let text = |protocol, listens| {
            let receiver = Session { protocol, listens, ..Session::default() };
            let mut out = Vec::new();
            posts.iter().for_each(|post| post.write(&receiver, &mut out));
            String::from_utf8_lossy(&out).replace("\r\n", "|")
        };
        let pushes = ">2|$10|invalidate|*1|$1|k|>2|$10|invalidate|_|>2|$21|tracking-redir-broken|:7|";
        assert_eq!((text(Protocol::Resp3, false).as_str(), text(Protocol::Resp3, true).as_str()), (pushes, pushes));
        assert_eq!(text(Protocol::Resp2, true), "*3|$7|message|$20|__redis__:invalidate|$-1|");
        assert_eq!(text(Protocol::Resp2, false), "");
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let mut hub = Hub::default();
        for name in [&b"c"[..], b"a", b"b"] {
            hub.add(1, Topic::Channel, name);
            hub.add(2, Topic::Channel, name);
        }
        hub.monitor(1);
        assert_eq!(hub.names(1, Topic::Channel), [b"c".to_vec(), b"a".to_vec(), b"b".to_vec()]);
        hub.remove(1, Topic::Channel, b"a");
        hub.remove(1, Topic::Channel, b"no such");
        assert_eq!((hub.count(1, Topic::Channel), hub.listeners(Topic::Channel, b"a")), (2, 1));
        hub.leave(1);
        hub.leave(1);
        assert!(!hub.is_listening(1) && hub.is_listening(2) && !hub.has_monitors());
        assert_eq!(hub.all(Topic::Channel), [b"a", b"b", b"c"]);
        hub.leave(2);
        assert!(hub.all(Topic::Channel).is_empty() && !hub.has_listeners());
    }
}
