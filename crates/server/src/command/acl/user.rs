//! Users: how they authenticate, and what they may do.

use super::Refused;
use super::selector::{NewChannels, Request, Selector, Wrong};
use crate::resp::split_words;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of a password's hash.
const HASH_DIGITS: usize = 64;

/// Flags in the order in which they are listed.
const SANITIZE: &str = "sanitize-payload";
const SKIP_SANITIZE: &str = "skip-sanitize-payload";

/// A user. A new one is off, has no password and may do nothing.
#[derive(Debug, Clone, Default)]
pub(in crate::command) struct User {
    pub is_on: bool,
    /// Whether any password is accepted.
    pub needs_no_password: bool,
    /// Stored only to be read back: the payload of `RESTORE` is always checked here.
    sanitize: Option<&'static str>,
    /// SHA-256 of each password, in hexadecimal digits.
    passwords: Vec<String>,
    pub(super) root: Selector,
    pub(super) selectors: Vec<Selector>,
}

fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_hash(text: &[u8]) -> Result<String, Wrong> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let is_hash = text.len() == HASH_DIGITS && text.iter().all(is_digit);
    is_hash.then(|| String::from_utf8_lossy(text).into_owned()).ok_or(Wrong::Hash)
}

/// Compares in a time that does not depend on where the difference is.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y));
    std::hint::black_box(difference) == 0 && a.len() == b.len()
}

impl User {
    /// The user that every connection starts as: everything is allowed, without a password.
    pub fn default_user() -> User {
        let mut user = User { is_on: true, needs_no_password: true, ..User::default() };
        for rule in ["+@all", "~*", "&*"] {
            // Rules that cannot fail.
            let _ = user.root.apply(rule.as_bytes());
        }
        user
    }

    /// A new user, which is off, has no password and may do nothing but use these channels.
    pub(super) fn new(channels: NewChannels) -> User {
        User { root: Selector::new(channels), ..User::default() }
    }

    /// Applies a rule. `channels`: those of a new user and a new selector.
    pub(super) fn apply(&mut self, rule: &[u8], channels: NewChannels) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.sanitize = Some(SKIP_SANITIZE),
            b"sanitize-payload" => self.sanitize = Some(SANITIZE),
            b"nopass" => self.set_passwords(true),
            b"resetpass" => self.set_passwords(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = User { sanitize: Some(SANITIZE), ..User::new(channels) },
            [b'>', ..] => self.add(hash(&rule[1..])),
            [b'#', ..] => self.add(check_hash(&rule[1..])?),
            [b'<', ..] => self.take_away(&hash(&rule[1..]))?,
            [b'!', ..] => self.take_away(&check_hash(&rule[1..])?)?,
            [b'(', .., b')'] => self.selectors.push(selector(&rule[1..rule.len() - 1], channels)?),
            _ => self.root.apply(rule)?,
        }
        Ok(())
    }

    /// Forgets all passwords. Afterwards either none is needed or none is accepted.
    fn set_passwords(&mut self, none_is_needed: bool) {
        self.needs_no_password = none_is_needed;
        self.passwords.clear();
    }

    fn add(&mut self, hash: String) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
    }

    fn take_away(&mut self, hash: &str) -> Result<(), Wrong> {
        let place = self.passwords.iter().position(|known| known == hash).ok_or(Wrong::NoSuchPassword)?;
        self.passwords.remove(place);
        Ok(())
    }

    /// Replaces all passwords by this one; `None`: none is needed.
    pub fn set_password(&mut self, password: Option<&[u8]>) {
        self.set_passwords(password.is_none());
        if let Some(password) = password {
            self.add(hash(password));
        }
    }

    /// Whether clients are authenticated as this user without a password.
    pub fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether the user is on and this is one of its passwords.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.is_on {
            return false;
        }
        let given = hash(password);
        // All hashes are compared, so that the time does not tell which one matched.
        let is_known = self.passwords.iter().fold(false, |known, hash| known | is_equal(hash.as_bytes(), given.as_bytes()));
        self.needs_no_password || is_known
    }

    pub(super) fn passwords(&self) -> &[String] {
        &self.passwords
    }

    pub(super) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let nopass = self.needs_no_password.then_some("nopass");
        [Some(if self.is_on { "on" } else { "off" }), nopass, self.sanitize].into_iter().flatten()
    }

    /// Whether the user may listen to a channel or a pattern.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        std::iter::once(&self.root).chain(&self.selectors).any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Whether the user may do everything.
    pub fn allows_everything(&self) -> bool {
        self.root.allows_everything()
    }

    /// Whether one selector allows both the request and reading every key.
    pub fn may_read_all(&self, request: &Request) -> bool {
        std::iter::once(&self.root).chain(&self.selectors).any(|selector| selector.reads_all_keys() && selector.check(request).is_ok())
    }

    /// Checks a request against all selectors. If none allows it, the refusal that got furthest is returned.
    pub fn check(&self, request: &Request) -> Result<(), Refused> {
        let mut worst = Refused::Command;
        for selector in std::iter::once(&self.root).chain(&self.selectors) {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(refused) => worst = worst.max(refused),
            }
        }
        Err(worst)
    }
}

/// A selector from the rules between brackets.
fn selector(rules: &[u8], channels: NewChannels) -> Result<Selector, Wrong> {
    let mut selector = Selector::new(channels);
    // Text with unbalanced quotes has no rules.
    for rule in split_words(rules).unwrap_or_default() {
        selector.apply(&rule)?;
    }
    Ok(selector)
}

/// Joins the pieces of a selector in brackets into one rule. The error is a piece with an opening bracket that nothing closes.
pub(super) fn join_selectors(pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut rules: Vec<Vec<u8>> = Vec::with_capacity(pieces.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for piece in pieces {
        match &mut open {
            Some((_, rule)) => {
                rule.push(b' ');
                rule.extend_from_slice(piece);
            }
            None if piece.first() == Some(&b'(') && piece.last() != Some(&b')') => open = Some((piece, piece.to_vec())),
            None => rules.push(piece.to_vec()),
        }
        if piece.last() == Some(&b')')
            && let Some((_, rule)) = open.take()
        {
            rules.push(rule);
        }
    }
    open.map_or(Ok(rules), |(piece, _)| Err(piece.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::describe;
    use super::*;
    use crate::command::units::Units;

    fn user(rules: &str) -> Result<User, Wrong> {
        let pieces: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        let mut user = User::default();
        join_selectors(&pieces).unwrap().iter().try_for_each(|rule| user.apply(rule, NewChannels::None)).map(|()| user)
    }

    fn described(rules: &str) -> String {
        String::from_utf8(describe::line(b"u", &user(rules).unwrap())).unwrap()
    }

    fn may(user: &User, line: &str) -> Result<(), Refused> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let units = <&Units>::default();
        let number = units.resolve(units.find(words[0]).unwrap(), &words).unwrap();
        user.check(&Request::new(units, number, &words))
    }

    #[test]
    fn passwords_are_kept_as_hashes() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(b""), empty);
        assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut user = user("on >abc >def <def").unwrap();
        assert!(user.accepts(b"abc") && !user.accepts(b"def") && !user.accepts(b""));
        assert_eq!(user.apply(b"<def", NewChannels::None), Err(Wrong::NoSuchPassword));
        assert_eq!(user.apply(b"#XYZ", NewChannels::None), Err(Wrong::Hash));
        user.apply(b"off", NewChannels::None).unwrap();
        assert!(!user.accepts(b"abc"));
        user.apply(format!("#{empty}").as_bytes(), NewChannels::None).unwrap();
        user.apply(b"on", NewChannels::None).unwrap();
        assert!(user.accepts(b"") && user.accepts(b"abc"));
        user.apply(b"nopass", NewChannels::None).unwrap();
        assert!(user.accepts(b"anything") && user.passwords().is_empty());
    }

    #[test]
    fn users_are_described_by_rules_that_make_them() {
        for (rules, expected) in [
            ("reset", "user u off sanitize-payload resetchannels -@all"),
            ("on nopass ~* &* +@all", "user u on nopass ~* &* +@all"),
            ("on ~a %R~b %W~b %W~c &x", "user u on ~a ~b %W~c resetchannels &x -@all"),
            ("+get", "user u off resetchannels -@all +get"),
            ("+config|get", "user u off resetchannels -@all +config|get"),
            ("+select|0", "user u off resetchannels -@all +select|0"),
            ("+@all -config|set", "user u off resetchannels +@all -config|set"),
            ("+@hash", "user u off resetchannels -@all +@hash"),
            ("+get (+set ~a)", "user u off resetchannels -@all +get (~a resetchannels -@all +set)"),
            ("( +set ~b )", "user u off resetchannels -@all (~b resetchannels -@all +set)"),
        ] {
            let line = described(rules);
            assert_eq!(line, expected, "{rules}");
            assert_eq!(described(line.strip_prefix("user u ").unwrap()), line, "{rules}");
        }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        for (rules, wrong) in [
            ("+nosuch", Wrong::Unknown),
            ("+@nosuch", Wrong::Unknown),
            ("-select|0", Wrong::Unknown),
            ("+config|nosuch", Wrong::Unknown),
            ("+config|get|x", Wrong::ArgumentOfSubcommand),
            ("+get|", Wrong::Syntax),
            ("~* ~a", Wrong::KeysAreAll),
            ("&* &a", Wrong::ChannelsAreAll),
            ("%X~a", Wrong::Syntax),
            ("%~a", Wrong::Syntax),
            ("nonsense", Wrong::Syntax),
            ("(+nosuch)", Wrong::Unknown),
            ("((+get)", Wrong::Syntax),
        ] {
            assert_eq!(user(rules).map(|_| ()), Err(wrong), "{rules}");
        }
        assert_eq!(join_selectors(&[b"on", b"(+get", b"~a"]), Err(b"(+get".to_vec()));
    }

    #[test]
    fn requests_are_allowed_as_a_whole() {
        let user = user("+@all -@dangerous %R~r* %W~w* ~rw (+set|x ~z)").unwrap();
        for (line, expected) in [
            ("get r1", Ok(())),
            ("get w1", Err(Refused::Key(1))),
            ("set w1 x", Ok(())),
            ("set w1 x get", Err(Refused::Key(1))),
            ("set rw x get", Ok(())),
            ("exists w1", Ok(())),
            ("exists x", Err(Refused::Key(1))),
            ("copy r1 w1", Ok(())),
            ("copy w1 r1", Err(Refused::Key(1))),
            ("mget r1 r2 x", Err(Refused::Key(3))),
            ("flushall", Err(Refused::Command)),
            ("ping", Ok(())),
            ("auth x", Ok(())),
        ] {
            assert_eq!(may(&user, line), expected, "{line}");
        }
        assert_eq!(may(&user, "config get x"), Err(Refused::Command));
        let narrow = self::user("+select|0 +config|get +@hash ~*").unwrap();
        assert_eq!(may(&narrow, "select 0"), Ok(()));
        assert_eq!(may(&narrow, "select 1"), Err(Refused::Command));
        assert_eq!(may(&narrow, "config get x"), Ok(()));
        assert_eq!(may(&narrow, "config set x y"), Err(Refused::Command));
        assert_eq!(may(&narrow, "hget a b"), Ok(()));
        assert!(User::default_user().allows_everything() && !narrow.allows_everything());
    }
}
