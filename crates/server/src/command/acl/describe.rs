//! Users as text: the shortest list of rules that creates the given permissions.

use super::selector::Selector;
use super::user::User;
use crate::command::units::{CATEGORIES, Unit};

/// The command rules of a selector: first the categories that fit best, then the single commands in which the selector differs from them.
pub(super) fn commands(selector: &Selector) -> Vec<u8> {
    let adds = !selector.is_subtractive();
    let units = selector.units.all();
    let mut rules = vec![if adds { b"-@all".to_vec() } else { b"+@all".to_vec() }];
    // Permissions that the rules so far create, and those of the selector that no rule has stated yet.
    let mut made = vec![!adds; units.len()];
    let mut left: Vec<bool> = (0..made.len()).map(|number| selector.allows_unit(number)).collect();
    let mut unused: Vec<usize> = (0..CATEGORIES.len()).collect();
    while let Some(place) = best_category(units, &left, &unused, adds) {
        let category = unused.remove(place);
        rules.push(format!("{}@{}", if adds { '+' } else { '-' }, CATEGORIES[category]).into_bytes());
        set_category(units, &mut made, category, adds);
        set_category(units, &mut left, category, !adds);
    }
    for (number, unit) in units.iter().enumerate() {
        let is_allowed = selector.allows_unit(number);
        if is_allowed != made[number] {
            rules.push([if is_allowed { b"+" } else { b"-" }, unit.name.as_bytes()].concat());
            made[number] = is_allowed;
            made[unit.subcommands.clone()].fill(is_allowed);
        }
        if !is_allowed {
            rules.extend(selector.first_arguments(number).iter().map(|argument| [b"+", unit.name.as_bytes(), b"|", argument].concat()));
        }
    }
    rules.join(&b' ')
}

/// Index in `unused` of the category that covers most of the commands in `left` (to grant if `adds`, else to take away): the one with the
/// fewest other commands, and among several of these the one with the most in `left`.
fn best_category(units: &[Unit], left: &[bool], unused: &[usize], adds: bool) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for (place, category) in unused.iter().enumerate() {
        let of_it = units.iter().zip(left).filter(|(unit, _)| unit.categories & 1 << category != 0);
        let (mut same, mut others) = (0, 0);
        of_it.for_each(|(_, allowed)| if *allowed == adds { same += 1 } else { others += 1 });
        let is_better = best.is_none_or(|(fewest, most, _)| others < fewest || others == fewest && same > most);
        if same > others && is_better {
            best = Some((others, same, place));
        }
    }
    best.map(|(.., place)| place)
}

fn set_category(units: &[Unit], allowed: &mut [bool], category: usize, value: bool) {
    for (number, unit) in units.iter().enumerate().filter(|(_, unit)| unit.categories & 1 << category != 0) {
        allowed[number] = value;
        allowed[unit.subcommands.clone()].fill(value);
    }
}

/// The rules for keys.
pub(super) fn keys(selector: &Selector) -> Vec<u8> {
    if selector.all_keys { b"~*".to_vec() } else { selector.keys.iter().map(|known| known.rule()).collect::<Vec<_>>().join(&b' ') }
}

/// The rules for channels.
pub(super) fn channels(selector: &Selector) -> Vec<u8> {
    let each = |known: &Vec<u8>| [b"&", known.as_slice()].concat();
    if selector.all_channels { b"&*".to_vec() } else { selector.channels.iter().map(each).collect::<Vec<_>>().join(&b' ') }
}

fn whole(selector: &Selector) -> Vec<u8> {
    let mut parts = vec![keys(selector)];
    if !selector.all_channels {
        parts.push(b"resetchannels".to_vec());
    }
    parts.extend([channels(selector), commands(selector)]);
    parts.retain(|part| !part.is_empty());
    parts.join(&b' ')
}

/// A user as a line of an ACL file.
pub(super) fn line(name: &[u8], user: &User) -> Vec<u8> {
    let mut parts = vec![b"user".to_vec(), name.to_vec()];
    parts.extend(user.flag_names().map(|flag| flag.as_bytes().to_vec()));
    parts.extend(user.passwords().iter().map(|hash| [b"#", hash.as_bytes()].concat()));
    parts.push(whole(&user.root));
    parts.extend(user.selectors.iter().map(|selector| [b"(", whole(selector).as_slice(), b")"].concat()));
    parts.join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::super::selector::NewChannels;
    use super::super::user::join_selectors;
    use super::*;
    use crate::command::units::Units;
    use crate::testing::Random;

    fn rule(random: &mut Random) -> String {
        let units = <&Units>::default().all();
        let sign = ["+", "-"][random.below(2)];
        match random.below(12) {
            0 => format!("{sign}@all"),
            1..4 => format!("{sign}@{}", CATEGORIES[random.below(CATEGORIES.len())]),
            4..8 => format!("{sign}{}", units[random.below(units.len())].name),
            8 => format!("+{}|argument", units[random.below(units.len())].name),
            9 => ["~a*", "%R~b", "%W~b", "~*", "resetkeys"][random.below(5)].into(),
            10 => ["&x*", "&y", "&*", "resetchannels"][random.below(4)].into(),
            _ => {
                ["on", "off", "nopass", ">secret", "resetpass", "clearselectors", "(+get ~s)", "(-@all +@read &z)"][random.below(8)].into()
            }
        }
    }

    /// The rules that describe a user create that user again, whatever rules had created it.
    #[test]
    fn descriptions_make_the_same_user() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut user = User::default();
            for _ in 0..=random.below(12) {
                // Some rules make no sense and change nothing.
                let _ = user.apply(rule(&mut random).as_bytes(), NewChannels::None);
            }
            let line = line(b"u", &user);
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').skip(2).collect();
            let mut again = User::default();
            for rule in join_selectors(&words).unwrap() {
                assert_eq!(again.apply(&rule, NewChannels::None), Ok(()), "seed {seed}: {}", String::from_utf8_lossy(&rule));
            }
            assert_eq!(super::line(b"u", &again), line, "seed {seed}");
            let allowed =
                |selector: &Selector| (0..<&Units>::default().all().len()).map(|number| selector.allows_unit(number)).collect::<Vec<_>>();
            assert_eq!(allowed(&again.root), allowed(&user.root), "seed {seed}");
            assert_eq!(again.selectors.len(), user.selectors.len(), "seed {seed}");
        }
    }
}
