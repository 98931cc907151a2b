//! Conditions by which `CLIENT KILL` and `CLIENT LIST` choose connections.

use super::arguments::{integer_or, is};
use super::client::Client;
use super::{Context, Failure, SYNTAX, Users};
use crate::number::parse_integer;

/// Types of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    Replica,
    PubSub,
    Primary,
}

impl Type {
    fn parse(text: &[u8]) -> Result<Type, Failure> {
        match () {
            () if is(text, "normal") => Ok(Type::Normal),
            () if is(text, "pubsub") => Ok(Type::PubSub),
            () if is(text, "slave") || is(text, "replica") => Ok(Type::Replica),
            () if is(text, "master") => Ok(Type::Primary),
            () => Err(Failure::new([b"ERR Unknown client type '", text, b"'"].concat())),
        }
    }

    fn of(context: &Context, id: u64) -> Type {
        match () {
            () if context.server.upstream.session() == Some(id) => Type::Primary,
            () if context.server.replicas.has(id) => Type::Replica,
            () if context.server.hub.is_listening(id) => Type::PubSub,
            () => Type::Normal,
        }
    }
}

/// A property that chosen connections have.
#[derive(Debug)]
enum Property<'a> {
    Ids(Vec<u64>),
    Type(Type),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    /// The address without its port.
    Machine(&'a [u8]),
    User(u64),
    Name(&'a [u8]),
    Library(usize, &'a [u8]),
    Database(usize),
    /// Least age of the connection, seconds.
    Age(u64),
    /// Least time since the client's last request, seconds.
    Idle(u64),
}

const ID: Failure = Failure::fixed("ERR client-id should be greater than 0");

fn id(text: &[u8]) -> Result<u64, Failure> {
    u64::try_from(integer_or(text, ID)?).ok().filter(|id| *id > 0).ok_or(ID)
}

/// A number above 0; `name`: the option, for errors.
fn positive(name: &str, text: &[u8]) -> Result<u64, Failure> {
    let number = integer_or(text, Failure::new(format!("ERR {name} is not an integer or out of range")))?;
    let wrong = || Failure::new(format!("ERR {name} should be greater than 0"));
    u64::try_from(number).ok().filter(|number| *number > 0).ok_or_else(wrong)
}

/// Words of conditions that `NOT-` can reverse.
const WORDS: [&str; 12] = ["id", "type", "addr", "laddr", "ip", "user", "name", "lib-name", "lib-ver", "db", "maxage", "idle"];

/// The word of a condition behind `NOT-`; `None`: the condition is not reversed.
fn reversed(word: &[u8]) -> Option<&[u8]> {
    word.split_at_checked(4).filter(|(start, _)| is(start, "not-")).map(|(_, word)| word)
}

/// Whether a word is the word of a condition.
pub(super) fn is_condition(word: &[u8]) -> bool {
    let positive = reversed(word).unwrap_or(word);
    WORDS.iter().any(|known| is(positive, known)) || is(word, "skipme")
}

impl<'a> Property<'a> {
    /// Parses an option and its value; `None`: there is no such option.
    fn parse(word: &[u8], value: &'a [u8], users: &Users) -> Result<Option<Property<'a>>, Failure> {
        Ok(Some(match () {
            () if is(word, "id") => Property::Ids(vec![id(value)?]),
            () if is(word, "type") => Property::Type(Type::parse(value)?),
            () if is(word, "addr") => Property::Address(value),
            () if is(word, "laddr") => Property::LocalAddress(value),
            () if is(word, "ip") => Property::Machine(value),
            () if is(word, "user") => {
                let unknown = || Failure::new([b"ERR No such user '", value, b"'"].concat());
                Property::User(users.number_of(value).ok_or_else(unknown)?)
            }
            () if is(word, "name") => Property::Name(value),
            () if is(word, "lib-name") => Property::Library(0, value),
            () if is(word, "lib-ver") => Property::Library(1, value),
            () if is(word, "db") => Property::Database(super::keys::database(value)?),
            () if is(word, "maxage") => Property::Age(positive("maxage", value)?),
            () if is(word, "idle") => Property::Idle(positive("idle", value)?),
            () => return Ok(None),
        }))
    }

    fn is_of(&self, context: &Context, client: &Client) -> bool {
        let seconds = |since: u64| context.keyspace.now().saturating_sub(since) / 1000;
        match self {
            Property::Ids(ids) => ids.contains(&client.id),
            Property::Type(kind) => Type::of(context, client.id) == *kind,
            Property::Address(address) => client.address.as_bytes() == *address,
            Property::LocalAddress(address) => client.local_address.as_bytes() == *address,
            Property::Machine(ip) => client.address.rsplit_once(':').is_some_and(|(own, _)| own.as_bytes() == *ip),
            Property::User(user) => client.user == *user,
            Property::Name(name) => client.name == *name,
            Property::Library(at, text) => client.library[*at] == *text,
            Property::Database(db) => client.db == *db,
            Property::Age(least) => seconds(client.since) >= *least,
            Property::Idle(least) => seconds(client.active) >= *least,
        }
    }
}

/// The conditions of a request, all of which a chosen connection fulfils.
#[derive(Debug, Default)]
pub(super) struct Filter<'a> {
    /// Properties, each with whether `NOT-` reverses it.
    properties: Vec<(Property<'a>, bool)>,
    /// Whether the client's own connection may be chosen (`SKIPME`). `None`: the request does not say.
    with_self: Option<bool>,
}

impl<'a> Filter<'a> {
    /// The connection from an address.
    pub fn address(address: &'a [u8]) -> Filter<'a> {
        Filter { properties: vec![(Property::Address(address), false)], with_self: Some(true) }
    }

    /// Parses options with their values. `NOT-` in front of a word reverses a condition, and several ids may follow `ID`: up to the first
    /// word that is no number.
    pub fn parse(mut rest: &[&'a [u8]], users: &Users) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter::default();
        while let [word, value, behind @ ..] = rest {
            rest = behind;
            if is(word, "skipme") {
                filter.with_self = Some(match () {
                    () if is(value, "yes") => false,
                    () if is(value, "no") => true,
                    () => return Err(SYNTAX),
                });
                continue;
            }
            let positive = reversed(word);
            let mut property = Property::parse(positive.unwrap_or(word), value, users)?.ok_or(SYNTAX)?;
            if let Property::Ids(ids) = &mut property {
                while let Some((text, behind)) = rest.split_first().filter(|(text, _)| parse_integer(text).is_some()) {
                    ids.push(id(text)?);
                    rest = behind;
                }
            }
            filter.properties.push((property, positive.is_some()));
        }
        if rest.is_empty() { Ok(filter) } else { Err(SYNTAX) }
    }

    /// Whether a connection is chosen. `with_self`: whether the client's own may be chosen if the request does not say.
    pub fn takes(&self, context: &Context, client: &Client, with_self: bool) -> bool {
        let has_all = self.properties.iter().all(|(property, is_reversed)| property.is_of(context, client) != *is_reversed);
        has_all && (self.with_self.unwrap_or(with_self) || client.id != context.session.id)
    }
}
