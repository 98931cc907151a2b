//! How signals end the server: `shutdown-on-sigint` and `shutdown-on-sigterm`.

use super::Why;
use super::parameter::{Parameter, parameter};

/// Options of the end by a signal. Only `now` changes something: all data is in the log, so nothing is saved or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// For each word of [`WORDS`], whether it was given.
    given: [bool; 4],
}

/// Options, in the order in which `CONFIG GET` shows them.
const WORDS: [&str; 4] = ["save", "nosave", "now", "force"];
const DEFAULT: &str = "default";

impl Ending {
    /// Whether the end does not wait for replicas.
    pub fn is_now(self) -> bool {
        self.given[2]
    }

    fn text(self) -> String {
        let words: Vec<&str> = WORDS.iter().zip(self.given).filter(|(_, is_given)| *is_given).map(|(word, _)| *word).collect();
        if words.is_empty() { DEFAULT.into() } else { words.join(" ") }
    }

    fn parse(value: &str) -> Result<Ending, Why> {
        let mut ending = Ending::default();
        let wrong = || format!("argument(s) must be one of the following: {DEFAULT}, {}", WORDS.join(", "));
        if value.trim().is_empty() {
            return Err(wrong());
        }
        for word in value.split_ascii_whitespace().filter(|word| !word.eq_ignore_ascii_case(DEFAULT)) {
            let at = WORDS.iter().position(|known| known.eq_ignore_ascii_case(word)).ok_or_else(wrong)?;
            ending.given[at] = true;
        }
        if ending.given[0] && ending.given[1] {
            return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
        }
        Ok(ending)
    }
}

/// Directives of the end by a signal.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter(
        "shutdown-on-sigint",
        true,
        "how Ctrl-C ends the server: `now` does not wait for replicas; `save`, `nosave`, `force` and `default` change nothing, as all data \
         is in the log",
        |c| c.on_interrupt.text(),
        |c, value| Ending::parse(value).map(|ending| c.on_interrupt = ending),
    ),
    parameter(
        "shutdown-on-sigterm",
        true,
        "how SIGTERM ends the server, in the words of `shutdown-on-sigint`",
        |c| c.on_termination.text(),
        |c, value| Ending::parse(value).map(|ending| c.on_termination = ending),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_shown_in_order() {
        let shown = |value| Ending::parse(value).map(Ending::text);
        for (value, text) in [("nosave force now", "nosave now force"), ("SAVE", "save"), ("default now", "now"), ("default", "default")] {
            assert_eq!(shown(value), Ok(text.to_owned()));
        }
        let words = "argument(s) must be one of the following: default, save, nosave, now, force";
        for (value, why) in
            [("", words), ("nosave x", words), ("save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously")]
        {
            assert_eq!(shown(value), Err(why.to_owned()));
        }
        assert_eq!([Ending::parse("nosave now").unwrap().is_now(), Ending::parse("force").unwrap().is_now()], [true, false]);
    }
}
