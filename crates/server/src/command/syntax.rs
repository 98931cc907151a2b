//! The arguments of commands as `COMMAND DOCS` describes them, from which `redis-cli` makes its hints and its help.
//!
//! `syntax.txt` has them in the notation that people know from manuals, and this module turns a line of it into a tree.
//!
//! ```text
//! key            an argument; its kind follows from its name (`KINDS`), or stands behind a colon: `score:double`
//! NX             a word to be written as it is
//! EX seconds     such a word and the arguments that belong to it: all up to the next word, option or end
//! [x]            x may be left out
//! <x | y>        one of them; `[x | y]`: one or none
//! x [x ...]      x at least once; `EX x [EX x ...]`: each time with its word
//! <x> ...        the same, for what is long
//! ```

use std::collections::HashMap;
use std::sync::LazyLock;

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    /// Whether the argument consists of others.
    pub(super) fn has_parts(self) -> bool {
        matches!(self, Kind::OneOf | Kind::Block)
    }
}

/// Kinds of arguments by their names; all others are strings.
const KINDS: &[(Kind, &str)] = &[
    (Kind::Key, "key key1 key2 newkey destkey sourcekey"),
    (Kind::Pattern, "pattern library-name-pattern"),
    (Kind::UnixTime, "unix-time-seconds unix-time-milliseconds"),
    (Kind::Double, "longitude latitude radius width height weight"),
    (
        Kind::Integer,
        "bit bits client-id cluster-bus-port config-epoch count cursor db decrement destination-db end end-slot entries-added entries-read \
         frequency increment index index1 index2 len limit maxage milliseconds min-idle-time min-match-len ms num-matches numfields numids \
         numkeys numlocal numreplicas offset port protover rank seconds slot start start-slot stop timeout ttl version",
    ),
];

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub name: String,
    pub kind: Kind,
    /// The word that stands before it, or all there is of it.
    pub token: Option<&'static str>,
    pub is_optional: bool,
    /// May be repeated.
    pub is_multiple: bool,
    /// The token is repeated with it.
    pub repeats_token: bool,
    /// Alternatives of a [`Kind::OneOf`], in a row in a [`Kind::Block`].
    pub parts: Vec<Argument>,
}

impl Argument {
    fn new(name: &str, kind: Kind, parts: Vec<Argument>) -> Self {
        Argument { name: name.to_owned(), kind, token: None, is_optional: false, is_multiple: false, repeats_token: false, parts }
    }

    /// The argument that a word other than a token names.
    fn named(word: &str) -> Self {
        let all = [Kind::String, Kind::Integer, Kind::Double, Kind::Key];
        let said = word.split_once(':').and_then(|(name, kind)| Some((name, all.into_iter().find(|known| known.name() == kind)?)));
        let (name, kind) = said.unwrap_or_else(|| {
            let known = KINDS.iter().find(|(_, names)| names.split_whitespace().any(|name| name == word));
            (word, known.map_or(Kind::String, |(kind, _)| *kind))
        });
        Argument::new(name, kind, Vec::new())
    }

    /// Some arguments as one.
    fn of(mut parts: Vec<Argument>, kind: Kind) -> Option<Self> {
        let first = parts.first()?.name.clone();
        Some(if parts.len() == 1 { parts.remove(0) } else { Argument::new(&first, kind, parts) })
    }

    /// A token and what belongs to it.
    fn with_token(token: &'static str, parts: Vec<Argument>) -> Self {
        let alone = || Argument::new(&token.to_ascii_lowercase(), Kind::PureToken, Vec::new());
        Argument { token: Some(token), ..Argument::of(parts, Kind::Block).unwrap_or_else(alone) }
    }

    /// Words of the flags in the reply.
    pub(super) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = [(self.is_optional, "optional"), (self.is_multiple, "multiple"), (self.repeats_token, "multiple_token")];
        flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1)
    }
}

/// The words of a line that are not read yet.
struct Line<'a>(&'a [&'static str]);

/// The content of brackets.
enum Group {
    Argument(Argument),
    /// The arguments before it may follow again.
    Again(Vec<Argument>),
}

impl Line<'_> {
    fn peek(&self) -> Option<&'static str> {
        self.0.first().copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.0 = &self.0[usize::from(is_next)..];
        is_next
    }

    /// Whether brackets begin here whose last word is `...`.
    fn is_at_repetition(&self) -> bool {
        let mut depth = 0;
        let close = self.0.iter().position(|word| {
            depth += i32::from(matches!(*word, "[" | "<")) - i32::from(matches!(*word, "]" | ">"));
            depth <= 0
        });
        close.and_then(|close| self.0.get(close.checked_sub(1)?)).is_some_and(|last| *last == "...")
    }

    /// Arguments up to the end, a closing bracket or a bar.
    fn arguments(&mut self) -> Option<Vec<Argument>> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                None | Some("]" | ">" | "|" | "...") => return Some(all),
                Some("[" | "<") => match self.group()? {
                    Group::Argument(argument) => all.push(argument),
                    Group::Again(last) => repeat(&mut all, &last)?,
                },
                Some(word) => {
                    self.take(word);
                    all.push(if is_token(word) { self.behind(word)? } else { Argument::named(word) });
                }
            }
        }
    }

    /// A token that was read, with the arguments that belong to it.
    fn behind(&mut self, token: &'static str) -> Option<Argument> {
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                Some(bracket @ ("[" | "<")) if bracket == "<" || self.is_at_repetition() => match self.group()? {
                    Group::Argument(argument) => parts.push(argument),
                    Group::Again(last) if last == [Argument::with_token(token, parts.clone())] => {
                        let argument = Argument::with_token(token, parts);
                        return Some(Argument { is_multiple: true, repeats_token: true, ..argument });
                    }
                    Group::Again(last) => repeat(&mut parts, &last)?,
                },
                Some(word) if !is_token(word) && !is_sign(word) => {
                    self.take(word);
                    parts.push(Argument::named(word));
                }
                _ => return Some(Argument::with_token(token, parts)),
            }
        }
    }

    fn group(&mut self) -> Option<Group> {
        let is_optional = self.take("[");
        let close = if is_optional { "]" } else { ">" };
        if !is_optional && !self.take("<") {
            return None;
        }
        let mut alternatives = Vec::new();
        loop {
            let arguments = self.arguments()?;
            if self.take("...") {
                return (self.take(close) && alternatives.is_empty()).then_some(Group::Again(arguments));
            }
            alternatives.push(Argument::of(arguments, Kind::Block)?);
            if !self.take("|") {
                break;
            }
        }
        let is_closed = self.take(close);
        let argument = Argument::of(alternatives, Kind::OneOf)?;
        let is_multiple = self.take("...") || argument.is_multiple;
        is_closed.then_some(Group::Argument(Argument { is_optional, is_multiple, ..argument }))
    }
}

/// Lets the last arguments be repeated; `None`: they are others.
fn repeat(all: &mut Vec<Argument>, last: &[Argument]) -> Option<()> {
    let at = all.len().checked_sub(last.len()).filter(|at| all[*at..] == *last)?;
    let argument = Argument::of(all.split_off(at), Kind::Block)?;
    all.push(Argument { is_multiple: true, ..argument });
    Some(())
}

/// A sign of the notation.
fn is_sign(word: &str) -> bool {
    matches!(word, "[" | "]" | "<" | ">" | "|" | "...")
}

/// A word to be written as it is, such as `NX` or `*`.
fn is_token(word: &str) -> bool {
    !is_sign(word) && !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Cuts a line into words and brackets.
fn words(line: &'static str) -> Vec<&'static str> {
    let brackets = ['[', ']', '<', '>'];
    let pieces = line.split_whitespace().flat_map(|word| word.split_inclusive(brackets));
    let apart = pieces.flat_map(|piece| <[&str; 2]>::from(piece.split_at(piece.strip_suffix(brackets).map_or(0, str::len))));
    apart.filter(|word| !word.is_empty()).collect()
}

/// Arguments of a line; `None`: it does not follow the notation.
fn parse(line: &'static str) -> Option<Vec<Argument>> {
    let words = words(line);
    let mut line = Line(&words);
    line.arguments().filter(|_| line.0.is_empty())
}

/// Lines of the file, by name of the command.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("syntax.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Arguments of a command or subcommand (`config|get`); none if nothing is known of them.
pub(super) fn arguments(name: &str) -> &'static [Argument] {
    static ALL: LazyLock<HashMap<&str, Vec<Argument>>> =
        LazyLock::new(|| lines().map(|(name, line)| (name, parse(line).unwrap_or_default())).collect());
    ALL.get(name).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::TABLE;
    use crate::command::units::Units;

    /// Words that a request must have at least for these arguments, and at most if there is a limit.
    fn words_of(argument: &Argument) -> (usize, Option<usize>) {
        let parts = || argument.parts.iter().map(words_of);
        let (least, most) = match argument.kind {
            Kind::PureToken => (0, Some(0)),
            Kind::OneOf => (parts().map(|part| part.0).min().unwrap(), parts().map(|part| part.1).max().unwrap()),
            Kind::Block => (parts().map(|part| part.0).sum(), parts().map(|part| part.1).sum()),
            _ => (1, Some(1)),
        };
        let token = usize::from(argument.token.is_some());
        let most = most.filter(|_| !argument.is_multiple).map(|most| most + token);
        (if argument.is_optional { 0 } else { least + token }, most)
    }

    #[test]
    fn every_command_takes_as_many_words_as_its_syntax_says() {
        let units = Units::new(TABLE);
        for unit in units.all() {
            let arguments = arguments(&unit.name);
            if !unit.subcommands.is_empty() {
                assert!(arguments.is_empty(), "{}", unit.name);
                continue;
            }
            let name = unit.name.split('|').count();
            let least = name + arguments.iter().map(|argument| words_of(argument).0).sum::<usize>();
            let most: Option<usize> = arguments.iter().map(|argument| words_of(argument).1).sum();
            assert_eq!(least, unit.arity.unsigned_abs() as usize, "{}", unit.name);
            assert!(unit.arity < 0 || most.map(|most| most + name) == Some(least), "{}", unit.name);
        }
    }

    #[test]
    fn every_line_is_of_a_command_and_follows_the_notation() {
        let units = Units::new(TABLE);
        let mut names = std::collections::HashSet::new();
        for (name, line) in lines() {
            assert!(units.all().iter().any(|unit| unit.name == name), "{name} is no command");
            assert!(names.insert(name), "{name} has two lines");
            assert!(parse(line).is_some_and(|arguments| !arguments.is_empty()), "{name}");
        }
    }

    /// Writes arguments as `redis-cli` shows them.
    fn shown(arguments: &[Argument]) -> String {
        let show = |argument: &Argument| {
            let parts: Vec<String> = argument.parts.iter().map(|part| shown(std::slice::from_ref(part))).collect();
            let text = match argument.kind {
                Kind::PureToken => String::new(),
                Kind::OneOf => parts.join("|"),
                Kind::Block => parts.join(" "),
                _ => argument.name.clone(),
            };
            let text = [argument.token.unwrap_or_default(), &text].join(" ").trim().to_owned();
            let text = match argument.token.filter(|_| !argument.repeats_token) {
                _ if !argument.is_multiple => text,
                Some(token) => format!("{text} [{} ...]", &text[token.len() + 1..]),
                None => format!("{text} [{text} ...]"),
            };
            if argument.is_optional { format!("[{text}]") } else { text }
        };
        arguments.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn notation_becomes_a_tree() {
        let same = [
            "key [NX|XX] [GET] [EX seconds|PX milliseconds]",
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN]",
            "key [GET pattern [GET pattern ...]] [COUNT count [ANY]] [LIMIT offset count]",
            "key field value [field value ...] STREAMS key [key ...] id [id ...] [*|id]",
            "[[IDLE min-idle-time] start end [consumer]]",
        ];
        for text in same {
            let spaced: &'static str = text.replace('|', " | ").replace("SUM | MIN", "<SUM | MIN>").leak();
            assert_eq!(shown(&parse(spaced).unwrap_or_else(|| panic!("{spaced}"))), text);
        }
        let of = |line| parse(line).unwrap();
        let [streams] = &of("STREAMS key [key ...] id")[..] else { panic!("one block") };
        assert_eq!(
            (streams.kind, streams.token, streams.parts.len(), streams.parts[0].is_multiple),
            (Kind::Block, Some("STREAMS"), 2, true)
        );
        let [filters] = &of("<ip:port | <ID client-id | SKIPME <YES | NO>> ...>")[..] else { panic!("one choice") };
        assert_eq!((filters.parts[0].name.as_str(), filters.parts[1].is_multiple), ("ip:port", true));
        assert_eq!(of("score:double")[0], Argument::new("score", Kind::Double, Vec::new()));
        for bad in ["[key", "key]", "<>", "a | b", "key [field ...]", "[a ... | b]", "key ..."] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
