//! Selectors: rules about commands, keys and channels that are granted together. A user has one and may have more; each request has to be
//! allowed by one of them as a whole.

use super::Refused;
use super::channels;
use crate::command::keyspecs::{self, KeyArgument};
use crate::command::spec::NO_AUTH;
use crate::command::units::{Unit, Units, category};
use crate::glob;
use std::collections::BTreeMap;

/// A pattern of keys that may be used, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub pattern: Vec<u8>,
    pub reads: bool,
    pub writes: bool,
}

impl KeyPattern {
    /// The pattern as an ACL rule.
    pub fn rule(&self) -> Vec<u8> {
        let mark: &[u8] = match (self.reads, self.writes) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        };
        [mark, &self.pattern].concat()
    }
}

/// Why a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Syntax,
    Unknown,
    KeysAreAll,
    ChannelsAreAll,
    NoSuchPassword,
    Hash,
    ArgumentOfSubcommand,
}

impl Wrong {
    pub fn text(self) -> &'static str {
        match self {
            Wrong::Syntax => "Syntax error",
            Wrong::Unknown => "Unknown command or category name in ACL",
            Wrong::KeysAreAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' \
                 to start with an empty list of patterns"
            }
            Wrong::ChannelsAreAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
                 'resetchannels' to start with an empty list of channels"
            }
            Wrong::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Wrong::Hash => "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
            Wrong::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// Channels that a new user and a new selector may use (`acl-pubsub-default`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NewChannels {
    /// None, until a rule grants some.
    #[default]
    None,
    /// All.
    All,
}

impl NewChannels {
    /// The setting with this name.
    pub fn parse(name: &str) -> Option<NewChannels> {
        [NewChannels::None, NewChannels::All].into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }

    /// Name of the setting.
    pub fn name(self) -> &'static str {
        match self {
            NewChannels::None => "resetchannels",
            NewChannels::All => "allchannels",
        }
    }
}

/// Permissions that are granted together. The default grants nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selector {
    pub units: &'static Units,
    pub all_keys: bool,
    pub all_channels: bool,
    /// Whether every command was granted and none taken away since.
    all_commands: bool,
    /// Whether the rules began with every command; the selector is then described by the commands that it lacks.
    is_subtractive: bool,
    /// Whether each command or subcommand is granted, by its number in `units`.
    allowed: Vec<bool>,
    /// First arguments with which a command may be used that is not granted otherwise.
    first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    pub keys: Vec<KeyPattern>,
    pub channels: Vec<Vec<u8>>,
}

impl Default for Selector {
    fn default() -> Self {
        let units = <&Units>::default();
        Selector {
            units,
            all_keys: false,
            all_channels: false,
            all_commands: false,
            is_subtractive: false,
            allowed: vec![false; units.all().len()],
            first_arguments: BTreeMap::new(),
            keys: Vec::new(),
            channels: Vec::new(),
        }
    }
}

/// Whether a text has blanks or zero bytes, which would split or end a rule in a file.
pub(super) fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

impl Selector {
    /// A selector that grants these channels and nothing else.
    pub fn new(channels: NewChannels) -> Selector {
        Selector { all_channels: channels == NewChannels::All, ..Selector::default() }
    }

    /// Applies a rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_keys(true),
            b"resetkeys" => self.set_keys(false),
            b"allchannels" | b"&*" => self.set_channels(true),
            b"resetchannels" => self.set_channels(false),
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            [b'~' | b'%', ..] => return self.add_keys(rule),
            [b'&', ..] => return self.add_channels(&rule[1..]),
            [b'+', b'@', name @ ..] => return self.set_category(name, true),
            [b'-', b'@', name @ ..] => return self.set_category(name, false),
            [b'+', name @ ..] => return self.grant(name),
            [b'-', name @ ..] => self.set_unit(self.units.find(name).ok_or(Wrong::Unknown)?, false),
            _ => return Err(Wrong::Syntax),
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn set_all_commands(&mut self, all: bool) {
        self.allowed.fill(all);
        self.all_commands = all;
        self.is_subtractive = all;
        self.first_arguments.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        if self.all_keys {
            return Err(Wrong::KeysAreAll);
        }
        let end = if rule[0] == b'~' { 0 } else { rule.iter().position(|byte| *byte == b'~').unwrap_or(rule.len()) };
        let (marks, pattern) = (rule.get(1..end.max(1)).unwrap_or_default(), rule.get(end + 1..).unwrap_or_default());
        let (reads, writes) = match marks.to_ascii_uppercase().as_slice() {
            b"" if end == 0 => (true, true),
            b"R" => (true, false),
            b"W" => (false, true),
            b"RW" | b"WR" => (true, true),
            _ => return Err(Wrong::Syntax),
        };
        if has_blanks(pattern) {
            return Err(Wrong::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), Wrong> {
        if self.all_channels {
            return Err(Wrong::ChannelsAreAll);
        }
        if has_blanks(pattern) {
            return Err(Wrong::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], allows: bool) -> Result<(), Wrong> {
        let category = category(name);
        if category == 0 {
            return Err(Wrong::Unknown);
        }
        for (number, _) in self.units.all().iter().enumerate().filter(|(_, unit)| unit.categories & category != 0) {
            self.set_unit(number, allows);
        }
        Ok(())
    }

    /// Grants a command, a subcommand, or a command with a certain first argument.
    fn grant(&mut self, name: &[u8]) -> Result<(), Wrong> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            self.set_unit(self.units.find(name).ok_or(Wrong::Unknown)?, true);
            return Ok(());
        };
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let number = self.units.find(command).ok_or(Wrong::Unknown)?;
        let unit = self.units.get(number);
        match () {
            () if unit.parent.is_some() => return Err(Wrong::ArgumentOfSubcommand),
            () if argument.is_empty() => return Err(Wrong::Syntax),
            () if !unit.subcommands.is_empty() => self.set_unit(self.units.find(name).ok_or(Wrong::Unknown)?, true),
            () => {
                let known = self.first_arguments.entry(number).or_default();
                if !known.iter().any(|known| known == argument) {
                    known.push(argument.to_vec());
                }
            }
        }
        Ok(())
    }

    /// Grants a command or subcommand or takes it away, together with its subcommands.
    pub fn set_unit(&mut self, number: usize, allows: bool) {
        self.first_arguments.remove(&number);
        self.allowed[number] = allows;
        self.allowed[self.units.get(number).subcommands.clone()].fill(allows);
        self.all_commands &= allows;
    }

    pub fn allows_unit(&self, number: usize) -> bool {
        self.allowed[number]
    }

    pub fn is_subtractive(&self) -> bool {
        self.is_subtractive
    }

    pub fn first_arguments(&self, number: usize) -> &[Vec<u8>] {
        self.first_arguments.get(&number).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether every command with every key and channel is allowed.
    pub fn allows_everything(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Whether every key may be read.
    pub fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|known| known.reads && known.pattern == b"*")
    }

    /// Checks a request as a whole.
    pub fn check(&self, request: &Request) -> Result<(), Refused> {
        if !self.allows_command(request) {
            return Err(Refused::Command);
        }
        if !self.all_keys
            && let Some(key) = request.keys().iter().find(|key| !self.allows_key(request, **key))
        {
            return Err(Refused::Key(key.position));
        }
        if self.all_channels {
            return Ok(());
        }
        let (channels, is_pattern) = channels(request.unit.command.name, request.arguments.len());
        match channels.into_iter().find(|at| !self.allows_channel(request.arguments[*at], is_pattern)) {
            Some(position) => Err(Refused::Channel(position)),
            None => Ok(()),
        }
    }

    fn allows_command(&self, request: &Request) -> bool {
        if self.all_commands || request.unit.flags & NO_AUTH != 0 || self.allowed[request.number] {
            return true;
        }
        let argument = request.arguments.get(1);
        argument.is_some_and(|argument| self.first_arguments(request.number).iter().any(|known| argument.eq_ignore_ascii_case(known)))
    }

    fn allows_key(&self, request: &Request, key: KeyArgument) -> bool {
        let name = request.arguments.get(key.position).copied().unwrap_or_default();
        let fits = |known: &KeyPattern| (known.reads || !key.is_read()) && (known.writes || !key.is_written());
        self.keys.iter().any(|known| fits(known) && glob::matches(&known.pattern, name))
    }

    /// Whether a channel may be used. A pattern of `PSUBSCRIBE` has to be granted literally, as no rule covers everything that it may
    /// match.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let fits = |known: &Vec<u8>| if is_pattern { known == channel } else { glob::matches(known, channel) };
        self.all_channels || self.channels.iter().any(fits)
    }
}

/// A request, as the permission check sees it.
pub(in crate::command) struct Request<'a> {
    pub number: usize,
    pub unit: &'static Unit,
    pub arguments: &'a [&'a [u8]],
    /// Filled when the first selector asks.
    keys: std::cell::OnceCell<Vec<KeyArgument>>,
}

impl<'a> Request<'a> {
    pub fn new(units: &'static Units, number: usize, arguments: &'a [&'a [u8]]) -> Self {
        Request { number, unit: units.get(number), arguments, keys: std::cell::OnceCell::new() }
    }

    /// The keys of the request; none if the arguments are malformed, in which case the command refuses them.
    fn keys(&self) -> &[KeyArgument] {
        self.keys.get_or_init(|| keyspecs::keys(self.unit.command, self.unit.specs, self.arguments).unwrap_or_default())
    }
}
