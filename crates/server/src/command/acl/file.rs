//! The ACL file: a line `user NAME RULE..` for each user.
//!
//! A file is loaded as a whole or not at all. A new one is written beside the old one and then renamed over it.

use super::selector::{NewChannels, Wrong, has_blanks};
use super::user::{User, join_selectors};
use crate::system::replace_file;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Reads the users of a file, who begin with these channels. The error lists everything that is wrong with the file.
pub(in crate::command) fn load(path: &Path, channels: NewChannels) -> Result<BTreeMap<Vec<u8>, User>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("Error loading ACLs, opening file '{}': {error}", path.display()))?;
    parse(&bytes, &path.display().to_string(), channels)
}

fn parse(bytes: &[u8], path: &str, channels: NewChannels) -> Result<BTreeMap<Vec<u8>, User>, String> {
    let mut users = BTreeMap::new();
    let mut errors = String::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let words: Vec<&[u8]> = line.trim_ascii().split(|byte| *byte == b' ').collect();
        if words == [b""] {
            continue;
        }
        let place = format!("{path}:{}", at + 1);
        let [b"user", name, rules @ ..] = &words[..] else {
            errors.push_str(&format!("{place} should start with user keyword followed by the username. "));
            continue;
        };
        let shown = String::from_utf8_lossy(name);
        if has_blanks(name) {
            errors.push_str(&format!("'{place}: username '{shown}' contains invalid characters. "));
        } else if users.contains_key(*name) {
            errors.push_str(&format!("WARNING: Duplicate user '{shown}' found on line {}. ", at + 1));
        } else {
            let user = user(rules, channels, &place, &mut errors);
            users.insert(name.to_vec(), user);
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.push_str("WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    Err(errors)
}

/// A user from its rules. Every rule with an unknown command is reported; of other errors only the first, as later ones may follow from it.
fn user(rules: &[&[u8]], channels: NewChannels, place: &str, errors: &mut String) -> User {
    let mut user = User::new(channels);
    let Ok(rules) = join_selectors(rules) else {
        errors.push_str(&format!("{place}: Unmatched parenthesis in selector definition."));
        return user;
    };
    let mut has_syntax_error = false;
    for rule in rules {
        match user.apply(rule.trim_ascii(), channels) {
            Ok(()) => {}
            Err(Wrong::Unknown) => {
                let rule = String::from_utf8_lossy(&rule).into_owned();
                errors.push_str(&format!("{place}: Error in applying operation '{rule}': {}. ", Wrong::Unknown.text()));
            }
            Err(wrong) => {
                if !std::mem::replace(&mut has_syntax_error, true) {
                    errors.push_str(&format!("{place}: {}. ", wrong.text()));
                }
            }
        }
    }
    user
}

/// Writes an ACL file of these lines.
pub(in crate::command) fn save(path: &Path, lines: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let mut text = Vec::new();
    for line in lines {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    replace_file(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_whole_or_not_at_all() {
        let good = b"user default on nopass ~* &* +@all\n\n  user alice on >x ~a:* +@read (+set ~b) \r\nuser bob\n";
        let users = parse(good, "f", NewChannels::None).unwrap();
        assert_eq!(users.keys().map(Vec::as_slice).collect::<Vec<_>>(), [&b"alice"[..], b"bob", b"default"]);
        assert!(users[&b"alice"[..]].accepts(b"x") && !users[&b"bob"[..]].is_on);
        for (text, error) in [
            ("usr a", "f:1 should start with user keyword followed by the username. "),
            ("user", "f:1 should start with user keyword followed by the username. "),
            ("user a on\nuser a", "WARNING: Duplicate user 'a' found on line 2. "),
            ("user a +nosuch ", "f:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. "),
            ("user a x y", "f:1: Syntax error. "),
            ("user a (+get", "f:1: Unmatched parenthesis in selector definition."),
            ("# note", "f:1 should start with user keyword followed by the username. "),
        ] {
            let all = format!("{error}WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
            assert_eq!(parse(text.as_bytes(), "f", NewChannels::None).map(|_| ()), Err(all), "{text}");
        }
    }

    #[test]
    fn a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.acl");
        for lines in [vec![b"user a".to_vec()], vec![b"user b".to_vec(), b"user c".to_vec()]] {
            save(&path, lines.clone().into_iter()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [lines.join(&b'\n'), b"\n".to_vec()].concat());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(save(&folder.path().join("no/such"), std::iter::empty()).is_err());
    }
}
