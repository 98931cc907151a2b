//! Access control: users, the permission check of each request, and `ACL`.
//!
//! Reading order: `selector` (rules that are granted together), `user`, `describe` (users as rules again), `log` (refused requests), `file`
//! (the file of users), this file (all users, and the command).
//!
//! A connection keeps the number of its user. Numbers are never reused: a connection of a deleted user may do nothing, even before it is
//! closed.

mod describe;
mod file;
mod log;
mod selector;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod touched;
mod user;

pub(super) use file::{load, save};
pub(super) use selector::Request;
pub(super) use user::User;

use super::arguments::{integer, is};
use super::spec::{ADMIN, LOADING, NOSCRIPT, STALE};
use super::subcommand::wrong_form;
use super::units::{CATEGORIES, Unit, category};
use super::{Client, Command, Context, Failure, Group, Outcome, Server, Session, Topic, help, unknown_subcommand};
use crate::keyspace::Keyspace;
use crate::log::Level;
use crate::resp::Writer;
use crate::system;
use log::{AclLog, AclLogEntry};
pub use selector::NewChannels;
use selector::{Selector, has_blanks};
use std::collections::BTreeMap;

/// Bits of a password that `ACL GENPASS` makes by default, and at most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;
/// Bytes of a name that an error message repeats, at most.
const REPEATED: usize = 128;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "acl", -2, acl)
    .subcommands(
        &["cat", "deluser", "dryrun", "genpass", "getuser", "help", "list", "load", "log", "save", "setuser", "users", "whoami"],
        HELP,
    )
    .flags(ADMIN | LOADING | NOSCRIPT | STALE)
    .since("6.0.0")
    .says("Who may do what", "O(n), n being the number of users and rules")];

/// Why a request is not allowed; later variants got further in the check. The number is the index of the refused argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refused {
    Command,
    Key(usize),
    Channel(usize),
}

impl Refused {
    fn reason(self) -> &'static str {
        match self {
            Refused::Command => "command",
            Refused::Key(_) => "key",
            Refused::Channel(_) => "channel",
        }
    }

    /// The error reply.
    pub fn failure(self, unit: &Unit) -> Failure {
        match self {
            Refused::Command => Failure::new(format!("NOPERM this user has no permissions to run the '{}' command", unit.name)),
            Refused::Key(_) => Failure::fixed("NOPERM this user has no permissions to access one of the keys used as arguments"),
            Refused::Channel(_) => Failure::fixed("NOPERM this user has no permissions to access one of the channels used as arguments"),
        }
    }

    /// The refused command, key, or channel.
    fn object(self, request: &Request) -> Vec<u8> {
        match self {
            Refused::Command => request.unit.name.clone().into_bytes(),
            Refused::Key(at) | Refused::Channel(at) => request.arguments.get(at).copied().unwrap_or_default().to_vec(),
        }
    }
}

/// Commands with channels among their arguments, from the first one on: whether all of them are channels, and whether they are patterns.
const CHANNELS: &[(&str, bool, bool)] = &[
    ("publish", false, false),
    ("spublish", false, false),
    ("subscribe", true, false),
    ("ssubscribe", true, false),
    ("psubscribe", true, true),
];

/// Indices of the arguments of a command that are channels, and whether these are patterns.
fn channels(command: &str, arguments: usize) -> (std::ops::Range<usize>, bool) {
    let found = CHANNELS.iter().find(|(name, ..)| *name == command);
    found.map_or((0..0, false), |(_, all, is_pattern)| (1..if *all { arguments } else { arguments.min(2) }, *is_pattern))
}

/// The number of the user that every connection starts as.
pub(super) const DEFAULT: u64 = 0;
const DEFAULT_NAME: &[u8] = b"default";

/// All users.
#[derive(Debug)]
pub struct Users {
    users: BTreeMap<u64, User>,
    numbers: BTreeMap<Vec<u8>, u64>,
    last: u64,
    /// Channels of new users and selectors.
    pub(super) new_channels: NewChannels,
    pub(super) log: AclLog,
}

impl Default for Users {
    fn default() -> Self {
        Users {
            users: [(DEFAULT, User::default_user())].into(),
            numbers: [(DEFAULT_NAME.to_vec(), DEFAULT)].into(),
            last: DEFAULT,
            new_channels: NewChannels::default(),
            log: AclLog::default(),
        }
    }
}

impl Users {
    /// Whether connections are authenticated as the default user from the start.
    pub(super) fn is_open(&self) -> bool {
        self.users.get(&DEFAULT).is_some_and(User::is_open)
    }

    /// Whether the default user needs no password, be it on or off.
    pub(super) fn needs_no_password(&self) -> bool {
        self.users.get(&DEFAULT).is_some_and(|user| user.needs_no_password)
    }

    /// Sets the default user's password; `None`: none is needed.
    pub(super) fn set_default_password(&mut self, password: Option<&[u8]>) {
        if let Some(user) = self.users.get_mut(&DEFAULT) {
            user.set_password(password);
        }
    }

    fn by_name(&self, name: &[u8]) -> Option<&User> {
        self.numbers.get(name).and_then(|number| self.users.get(number))
    }

    fn named(&self) -> impl Iterator<Item = (&[u8], &User)> {
        self.numbers.iter().filter_map(|(name, number)| Some((name.as_slice(), self.users.get(number)?)))
    }

    /// The number of a user.
    pub(super) fn number_of(&self, name: &[u8]) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    /// Whether a user may listen to a channel or a pattern.
    fn allows_channel(&self, number: u64, channel: &[u8], is_pattern: bool) -> bool {
        self.users.get(&number).is_some_and(|user| user.allows_channel(channel, is_pattern))
    }

    pub(super) fn name_of(&self, number: u64) -> Option<&[u8]> {
        self.numbers.iter().find(|(_, known)| **known == number).map(|(name, _)| name.as_slice())
    }

    /// The number of the user with this name and password. Takes equally long if there is no such user.
    fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<u64> {
        let number = self.numbers.get(name);
        match number.and_then(|number| self.users.get(number)) {
            Some(user) => number.copied().filter(|_| user.accepts(password)),
            None => {
                User::default().accepts(password);
                None
            }
        }
    }

    /// Changes a user by rules, or creates it. If one rule is wrong, none is applied.
    pub(super) fn set(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        let rules = user::join_selectors(rules)
            .map_err(|piece| [b"Unmatched parenthesis in acl selector starting at '", &piece[..], b"'."].concat())?;
        let channels = self.new_channels;
        let mut changed = self.by_name(name).cloned().unwrap_or_else(|| User::new(channels));
        for rule in &rules {
            let failed = |wrong: selector::Wrong| [b"Error in ACL SETUSER modifier '", &rule[..], b"': ", wrong.text().as_bytes()].concat();
            changed.apply(rule, channels).map_err(failed)?;
        }
        self.insert(name, changed);
        Ok(())
    }

    /// Creates a user from a line of a configuration: its name and its rules. The default user starts with no permissions here, too.
    pub(super) fn define(&mut self, words: &[&[u8]]) -> Result<(), Vec<u8>> {
        let [name, rules @ ..] = words else { return Err(b"user takes a name and rules".to_vec()) };
        if has_blanks(name) {
            return Err(b"Spaces not allowed in ACL usernames".to_vec());
        }
        if self.numbers.get(*name).is_some_and(|number| *number != DEFAULT) {
            return Err([b"the user '", *name, b"' is defined twice"].concat());
        }
        if *name == DEFAULT_NAME {
            self.users.insert(DEFAULT, User::new(self.new_channels));
        }
        self.set(name, rules)
    }

    fn insert(&mut self, name: &[u8], user: User) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        self.numbers.insert(name.to_vec(), number);
        self.users.insert(number, user);
    }

    fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let number = self.numbers.remove(name)?;
        self.users.remove(&number);
        Some(number)
    }

    /// Users as lines of an ACL file, by name.
    pub(super) fn lines(&self) -> impl Iterator<Item = Vec<u8>> {
        self.named().map(|(name, user)| describe::line(name, user))
    }

    /// Whether a user may run a request. A deleted user may run none.
    pub(super) fn check(&self, number: u64, request: &Request) -> Result<(), Refused> {
        self.users.get(&number).map_or(Err(Refused::Command), |user| user.check(request))
    }

    /// Whether a user may do everything.
    pub(super) fn allows_everything(&self, number: u64) -> bool {
        self.users.get(&number).is_some_and(User::allows_everything)
    }
}

impl Server {
    /// Checks whether a request is allowed. A refused one is noted in the log.
    pub(super) fn allow(&mut self, keyspace: &Keyspace, session: &Session, request: &Request) -> Result<(), Refused> {
        if session.is_primary || self.users.allows_everything(session.user) {
            return Ok(());
        }
        self.users.check(session.user, request).inspect_err(|refused| {
            let user = self.users.name_of(session.user).unwrap_or_default().to_vec();
            self.note_refusal(keyspace, session, (refused.reason(), refused.object(request)), user);
        })
    }

    /// Whether a client may run a request and read every key: requests such as `SORT .. GET` find keys in data that they read.
    pub(super) fn may_read_all(&self, session: &Session, name: &str, arguments: &[&[u8]]) -> bool {
        let Some(number) = self.units.find(name.as_bytes()) else { return false };
        self.users.users.get(&session.user).is_some_and(|user| user.may_read_all(&Request::new(self.units, number, arguments)))
    }

    fn note_refusal(&mut self, keyspace: &Keyspace, session: &Session, (reason, object): (&'static str, Vec<u8>), user: Vec<u8>) {
        let now = keyspace.now();
        if !session.is_script {
            self.update(session, now);
        }
        let server = &*self;
        let line = server.clients.get(&session.id).map(|client| client.line(keyspace, server));
        let client = line.unwrap_or_default().trim_end().to_owned();
        let context = match () {
            () if session.is_script => "lua",
            () if session.is_in_transaction() || session.is_in_exec => "multi",
            () => "toplevel",
        };
        let most = self.configuration.acllog_max_len;
        let at = REASONS.iter().position(|known| *known == reason).unwrap_or(0);
        self.statistics.refused_requests[at] += 1;
        self.users.log.add(AclLogEntry { count: 1, reason, context, object, user, at: now, client }, most);
    }
}

/// Closes clients. The one that asks for it gets its reply first.
fn close_clients(context: &mut Context, is_meant: impl Fn(&Server, &Client) -> bool) {
    let server = &*context.server;
    let meant: Vec<u64> = server.clients.values().filter(|client| is_meant(server, client)).map(|client| client.id).collect();
    for id in meant {
        if id == context.session.id {
            context.session.closes = true;
        } else {
            // The client takes part in nothing from now on; the network closes it.
            context.keyspace.unwait(id);
            context.server.kill(id);
        }
    }
}

/// Closes the clients of deleted users.
fn close_clients_of(context: &mut Context, gone: &[u64]) {
    context.server.update(context.session, context.keyspace.now());
    close_clients(context, |_, client| gone.contains(&client.user));
}

/// Closes the clients of a user that listen to channels which the user may no longer read.
fn close_listeners_of(context: &mut Context, user: u64) {
    close_clients(context, |server, client| {
        client.user == user
            && [(Topic::Channel, false), (Topic::Shard, false), (Topic::Pattern, true)].iter().any(|(topic, is_pattern)| {
                let names = server.hub.names(client.id, *topic);
                names.iter().any(|name| !server.users.allows_channel(user, name, *is_pattern))
            })
    });
}

/// Reasons of refusals, in the order in which statistics count them.
pub(super) const REASONS: [&str; 4] = ["auth", "command", "key", "channel"];

/// Authenticates a client as the user with this name and password. `request`: the command word of the request.
pub(super) fn authenticate(context: &mut Context, request: &[u8], name: &[u8], password: &[u8]) -> Outcome {
    const WRONG: Failure = Failure::fixed("WRONGPASS invalid username-password pair or user is disabled.");
    match context.server.users.authenticate(name, password) {
        Some(number) => {
            context.session.user = number;
            context.session.is_authenticated = true;
            context.server.update(context.session, context.keyspace.now());
            Ok(())
        }
        None => {
            context.server.note_refusal(context.keyspace, context.session, ("auth", request.to_vec()), name.to_vec());
            Err(WRONG)
        }
    }
}

const HELP: &[&str] = &[
    "CAT [<category>]",
    "    The categories, or the commands of one.",
    "DELUSER <username> [<username> ...]",
    "    Remove users and close their connections.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Whether a user may run a command, which is not run.",
    "GENPASS [<bits>]",
    "    A random password of 256 bits, or of so many.",
    "GETUSER <username>",
    "    What a user is and may do.",
    "LIST",
    "    All users, as in an ACL file.",
    "LOAD",
    "    Read the ACL file again.",
    "LOG [<count> | RESET]",
    "    What was refused to whom, or forget it.",
    "SAVE",
    "    Write the ACL file.",
    "SETUSER <username> <rule> [<rule> ...]",
    "    Make a user, or change it.",
    "USERS",
    "    The names of all users.",
    "WHOAMI",
    "    The name of this connection's user.",
];

fn acl(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1].to_ascii_lowercase();
    match (sub.as_slice(), &arguments[2..]) {
        (b"help", []) => help(context, "ACL", HELP)?,
        (b"cat", []) => {
            context.reply.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
        }
        (b"cat", [name]) => cat(context, name)?,
        (b"setuser", [name, rules @ ..]) => set_user(context, name, rules)?,
        (b"deluser", names) => delete_users(context, names)?,
        (b"getuser", [name]) => get_user(context, name),
        (b"list", []) => bulks(&mut context.reply, context.server.users.lines().collect()),
        (b"users", []) => bulks(&mut context.reply, context.server.users.named().map(|(name, _)| name.to_vec()).collect()),
        (b"whoami", []) => {
            let name = context.server.users.name_of(context.session.user).map(<[u8]>::to_vec);
            context.reply.bulk_or_null(name.as_deref());
        }
        (b"genpass", [] | [_]) => generate_password(context, arguments.get(2).copied())?,
        (b"log", [] | [_]) => show_log(context, arguments.get(2).copied())?,
        (b"dryrun", [name, request @ ..]) => dry_run(context, name, request)?,
        (b"load", []) => load_file(context)?,
        (b"save", []) => save_file(context)?,
        (b"cat" | b"genpass" | b"log", _) => return Err(wrong_form(arguments)),
        _ => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn bulks(reply: &mut Writer, all: Vec<Vec<u8>>) {
    reply.array(all.len());
    all.iter().for_each(|text| reply.bulk(text));
}

fn cat(context: &mut Context, name: &[u8]) -> Outcome {
    let category = category(name);
    if category == 0 {
        let name = name.get(..name.len().min(REPEATED)).unwrap_or_default();
        return Err(Failure::new([b"ERR Unknown category '", name, b"'"].concat()));
    }
    let of_it = context.server.units.all().iter().filter(|unit| unit.categories & category != 0);
    bulks(&mut context.reply, of_it.map(|unit| unit.name.clone().into_bytes()).collect());
    Ok(())
}

fn set_user(context: &mut Context, name: &[u8], rules: &[&[u8]]) -> Outcome {
    if has_blanks(name) {
        return Err(Failure::fixed("ERR Usernames can't contain spaces or null characters"));
    }
    context.server.users.set(name, rules).map_err(|text| Failure::new([b"ERR ", &text[..]].concat()))?;
    if let Some(number) = context.server.users.number_of(name) {
        close_listeners_of(context, number);
    }
    context.reply.ok();
    Ok(())
}

fn delete_users(context: &mut Context, names: &[&[u8]]) -> Outcome {
    if names.contains(&DEFAULT_NAME) {
        return Err(Failure::fixed("ERR The 'default' user cannot be removed"));
    }
    let gone: Vec<u64> = names.iter().filter_map(|name| context.server.users.remove(name)).collect();
    close_clients_of(context, &gone);
    context.reply.count(gone.len());
    Ok(())
}

fn get_user(context: &mut Context, name: &[u8]) {
    let Some(user) = context.server.users.by_name(name) else { return context.reply.null() };
    let reply = &mut context.reply;
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(user.flag_names().count());
    user.flag_names().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    describe_selector(reply, &user.root);
    reply.bulk(b"selectors");
    reply.array(user.selectors.len());
    for selector in &user.selectors {
        reply.map(3);
        describe_selector(reply, selector);
    }
}

fn describe_selector(reply: &mut Writer, selector: &Selector) {
    for (key, value) in
        [("commands", describe::commands(selector)), ("keys", describe::keys(selector)), ("channels", describe::channels(selector))]
    {
        reply.bulk(key.as_bytes());
        reply.bulk(&value);
    }
}

fn generate_password(context: &mut Context, bits: Option<&[u8]>) -> Outcome {
    const RANGE: Failure =
        Failure::fixed("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096");
    let bits = bits.map_or(Ok(PASSWORD_BITS), integer)?;
    let bits = usize::try_from(bits).ok().filter(|_| (1..=PASSWORD_BITS_MAX).contains(&bits)).ok_or(RANGE)?;
    let bytes = system::random_bytes(bits.div_ceil(8)).map_err(|error| Failure::new(format!("ERR no random numbers: {error}")))?;
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(bits.div_ceil(4));
    context.reply.bulk(digits.as_bytes());
    Ok(())
}

fn show_log(context: &mut Context, argument: Option<&[u8]>) -> Outcome {
    let count = match argument {
        Some(word) if is(word, "reset") => {
            context.server.users.log.clear();
            context.reply.ok();
            return Ok(());
        }
        Some(count) => usize::try_from(integer(count)?.max(0)).unwrap_or(usize::MAX),
        None => 10,
    };
    let now = context.keyspace.now();
    let (log, reply) = (&context.server.users.log, &mut context.reply);
    reply.array(log.iter().len().min(count));
    for entry in log.iter().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(i64::try_from(entry.count).unwrap_or(i64::MAX));
        for (key, value) in [
            ("reason", entry.reason.as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(key.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now.saturating_sub(entry.at) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

fn dry_run(context: &mut Context, name: &[u8], words: &[&[u8]]) -> Outcome {
    let users = &context.server.users;
    let quoted = |start: &str, what: &[u8], end: &str| [start.as_bytes(), what, end.as_bytes()].concat();
    let Some(user) = users.by_name(name) else { return Err(Failure::new(quoted("ERR User '", name, "' not found"))) };
    let command = words.first().copied().unwrap_or_default();
    let (renames, units) = (&context.server.configuration.renames, context.server.units);
    let number = renames.find(command).and_then(|(number, _)| units.resolve(number, words));
    let Some(number) = number else { return Err(Failure::new(quoted("ERR Command '", command, "' not found"))) };
    let request = Request::new(units, number, words);
    if !request.unit.takes(words.len()) {
        return Err(Failure::new(quoted("ERR wrong number of arguments for '", request.unit.name.as_bytes(), "' command")));
    }
    match user.check(&request) {
        Ok(()) => context.reply.ok(),
        Err(refused) => {
            let object = refused.object(&request);
            let text = match refused {
                Refused::Command => quoted("This user has no permissions to run the '", &object, "' command"),
                Refused::Key(_) => quoted("This user has no permissions to access the '", &object, "' key"),
                Refused::Channel(_) => quoted("This user has no permissions to access the '", &object, "' channel"),
            };
            context.reply.bulk(&text);
        }
    }
    Ok(())
}

fn acl_file(context: &Context) -> Result<std::path::PathBuf, Failure> {
    const NONE: Failure = Failure::fixed(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then \
         issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
    );
    context.server.configuration.acl_path().ok_or(NONE)
}

/// Replaces all users by those of the file. All but the default one get new numbers, so the clients of the old ones are closed.
fn load_file(context: &mut Context) -> Outcome {
    let file = acl_file(context)?;
    let loaded = load(&file, context.server.users.new_channels).map_err(|errors| Failure::new(format!("ERR {errors}")))?;
    let gone = context.server.users.replace(loaded);
    close_clients_of(context, &gone);
    close_listeners_of(context, DEFAULT);
    context.reply.ok();
    Ok(())
}

fn save_file(context: &mut Context) -> Outcome {
    let file = acl_file(context)?;
    save(&file, context.server.users.lines()).map_err(|error| {
        context.server.event(Level::Warning, "acl_not_saved", &[("file", &file.display()), ("error", &error)]);
        Failure::fixed("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
    })?;
    context.reply.ok();
    Ok(())
}

impl Users {
    /// Replaces all users by these. The default user keeps its number, and is as new if `loaded` lacks it. Returns the numbers that no
    /// longer exist.
    pub(super) fn replace(&mut self, mut loaded: BTreeMap<Vec<u8>, User>) -> Vec<u64> {
        let gone: Vec<u64> = self.users.keys().copied().filter(|number| *number != DEFAULT).collect();
        let default = loaded.remove(DEFAULT_NAME).unwrap_or_else(User::default_user);
        self.users = [(DEFAULT, default)].into();
        self.numbers = [(DEFAULT_NAME.to_vec(), DEFAULT)].into();
        for (name, user) in loaded {
            self.insert(&name, user);
        }
        gone
    }
}
