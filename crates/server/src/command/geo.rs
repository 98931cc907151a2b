//! Positions on earth: members of a sorted set whose scores are geohashes. A search reads the ranges of scores around its center.

use super::arguments::{double, integer, is};
use super::sorted::{self, Options, Scored};
use super::sorted_ranges::store;
use super::spec::{DENYOOM, MOVABLE, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::geohash::{Position, Search, Shape};
use crate::keyspace::{Collection, Kind, ScoreBound};
use crate::number::to_integer;
use crate::resp::Writer;
use std::ops::ControlFlow;

const NO_POSITION: Failure = Failure::fixed("ERR could not decode requested zset member");

const NEAR: &str = "O(n+m*log(m)), n being the members in the cells around the middle and m those found";

const fn geo(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Geo, name, arity, run).keys(1, 1, 1).since("3.2.0")
}

/// Indices of the keys of `GEORADIUS`: the set, and all destinations, of which the last one counts.
fn radius_keys(arguments: &[&[u8]]) -> Option<Vec<usize>> {
    Some(keys_behind(6, arguments))
}

/// Indices of the keys of `GEORADIUSBYMEMBER`, which are those of `GEORADIUS`.
fn radius_by_member_keys(arguments: &[&[u8]]) -> Option<Vec<usize>> {
    Some(keys_behind(5, arguments))
}

/// Indices of the set and of all destinations among options that begin at an index.
fn keys_behind(mut at: usize, arguments: &[&[u8]]) -> Vec<usize> {
    let mut keys = vec![1];
    while let Some(word) = arguments.get(at) {
        at += match () {
            () if is(word, "count") => 2,
            () if is(word, "store") || is(word, "storedist") => {
                keys.extend(Some(at + 1).filter(|key| *key < arguments.len()));
                2
            }
            () => 1,
        };
    }
    keys
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    geo("geoadd", -5, geoadd)
        .flags(WRITE | DENYOOM)
        .says("Add members with positions, or move them", "O(n), n being the number of members"),
    geo("geodist", -4, geodist).flags(READ).says("The distance between two members", "O(1)"),
    geo("geohash", -2, geohash).flags(READ).says("Positions of members as geohashes", "O(n), n being the number of members"),
    geo("geopos", -2, geopos).flags(READ).says("Positions of members", "O(n), n being the number of members"),
    geo("georadius", -6, georadius)
        .finds_keys(radius_keys)
        .flags(WRITE | DENYOOM | MOVABLE)
        .says("Members around a position, which may be kept in another key", NEAR),
    geo("georadius_ro", -6, georadius_ro).flags(READ).since("3.2.10").says("Members around a position", NEAR),
    geo("georadiusbymember", -5, georadiusbymember)
        .finds_keys(radius_by_member_keys)
        .flags(WRITE | DENYOOM | MOVABLE)
        .says("Members around a member, which may be kept in another key", NEAR),
    geo("georadiusbymember_ro", -5, georadiusbymember_ro).flags(READ).since("3.2.10").says("Members around a member", NEAR),
    geo("geosearch", -7, geosearch).flags(READ).since("6.2.0").says("Members in a circle or a box", NEAR),
    geo("geosearchstore", -8, geosearchstore)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM)
        .since("6.2.0")
        .says("Keep the members in a circle or a box", NEAR),
];

fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Failure> {
    let (longitude, latitude) = (double(longitude)?, double(latitude)?);
    Position::new(longitude, latitude)
        .ok_or_else(|| Failure::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Meters of a unit.
fn unit(text: &[u8]) -> Result<f64, Failure> {
    match () {
        () if is(text, "m") => Ok(1.0),
        () if is(text, "km") => Ok(1000.0),
        () if is(text, "ft") => Ok(0.3048),
        () if is(text, "mi") => Ok(1609.34),
        () => Err(Failure::fixed("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

fn length(text: &[u8], failure: &'static str) -> Result<f64, Failure> {
    double(text).map_err(|_| Failure::fixed(failure))
}

fn circle(radius: &[u8], of: &[u8]) -> Result<(Shape, f64), Failure> {
    let radius = length(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Failure::fixed("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle { radius }, unit(of)?))
}

fn rectangle(width: &[u8], height: &[u8], of: &[u8]) -> Result<(Shape, f64), Failure> {
    let (width, height) = (length(width, "ERR need numeric width")?, length(height, "ERR need numeric height")?);
    if width < 0.0 || height < 0.0 {
        return Err(Failure::fixed("ERR height or width cannot be negative"));
    }
    Ok((Shape::Box { width, height }, unit(of)?))
}

/// The position of a member.
fn of_member(context: &Context, head: &Collection, member: &[u8]) -> Result<Option<Position>, Failure> {
    Ok(context.keyspace.score(head, member)?.map(Position::from_score))
}

fn geoadd(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut options = Options::default();
    let mut rest = &arguments[2..];
    while let Some((word, behind)) = rest.split_first() {
        match () {
            () if is(word, "nx") => options.only_new = true,
            () if is(word, "xx") => options.only_existing = true,
            () if is(word, "ch") => options.counts_changes = true,
            () => break,
        }
        rest = behind;
    }
    let (members, []) = rest.as_chunks::<3>() else { return Err(SYNTAX) };
    if members.is_empty() || options.only_new && options.only_existing {
        return Err(SYNTAX);
    }
    let scored: Vec<(f64, &[u8])> = members
        .iter()
        .map(|[longitude, latitude, member]| Ok((position(longitude, latitude)?.score(), *member)))
        .collect::<Result<_, Failure>>()?;
    sorted::add(context, arguments[1], &options, &scored)
}

/// Replies with the output of `write` for each member's position; `None`: there is no such member.
fn each(context: &mut Context, arguments: &[&[u8]], write: impl Fn(&mut Writer, Option<Position>)) -> Outcome {
    let head = context.find(arguments[1], Kind::SortedSet)?;
    context.reply.array(arguments.len() - 2);
    for member in &arguments[2..] {
        let position = match &head {
            Some(head) => of_member(context, head, member)?,
            None => None,
        };
        write(&mut context.reply, position);
    }
    Ok(())
}

fn geohash(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    each(context, arguments, |reply, position| reply.bulk_or_null(position.map(Position::text).as_ref().map(|text| &text[..])))
}

fn reply_position(reply: &mut Writer, position: Position) {
    reply.array(2);
    reply.plain_double(position.longitude);
    reply.plain_double(position.latitude);
}

fn geopos(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    each(context, arguments, |reply, position| match position {
        Some(position) => reply_position(reply, position),
        None => reply.null_array(),
    })
}

/// A distance as text, with four decimals.
fn distance_text(distance: f64) -> String {
    let number = to_integer((distance * 10_000.0).round_ties_even());
    let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
    format!("{sign}{}.{:04}", size / 10_000, size % 10_000)
}

fn geodist(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let unit = match &arguments[4..] {
        [] => 1.0,
        [text] => unit(text)?,
        _ => return Err(SYNTAX),
    };
    let positions = match context.find(arguments[1], Kind::SortedSet)? {
        Some(head) => of_member(context, &head, arguments[2])?.zip(of_member(context, &head, arguments[3])?),
        None => None,
    };
    match positions {
        Some((from, to)) => context.reply.bulk(distance_text(from.distance(to) / unit).as_bytes()),
        None => context.reply.null(),
    }
    Ok(())
}

/// Form of a search's center and shape, given by the command's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Arguments: a position and a distance.
    Position,
    /// Arguments: a member and a distance.
    Member,
    /// Options.
    Options,
}

/// Arguments of a search.
#[derive(Debug, Default)]
struct Request<'a> {
    /// Center of the search; `None`: it is a member of a key that does not exist.
    middle: Option<Position>,
    from_member: bool,
    from_position: bool,
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    /// Order: farthest first (true), nearest first (false), or `None`.
    backward: Option<bool>,
    count: Option<usize>,
    /// Stop at the first `count` members found, rather than search the nearest ones.
    any: bool,
    stored: Option<&'a [u8]>,
    stores_distance: bool,
}

impl<'a> Request<'a> {
    /// Parses the arguments behind the key. `may_store`: options may name a key to store the result in.
    fn parse(context: &Context, head: Option<&Collection>, arguments: &[&'a [u8]], by: By, may_store: bool) -> Result<Self, Failure> {
        let mut request = Request::default();
        let mut rest = match (by, arguments) {
            (By::Position, [longitude, latitude, radius, unit, rest @ ..]) => {
                request.middle = Some(position(longitude, latitude)?);
                request.shape = Some(circle(radius, unit)?);
                rest
            }
            (By::Member, [member, radius, unit, rest @ ..]) => {
                // Without a key there is no center, and only the options are checked.
                if let Some(head) = head {
                    request.middle = Some(of_member(context, head, member)?.ok_or(NO_POSITION)?);
                    request.shape = Some(circle(radius, unit)?);
                }
                rest
            }
            _ => arguments,
        };
        while let [word, behind @ ..] = rest {
            rest = match request.flag(word) {
                true => behind,
                false if by == By::Options => request.place(context, head, (word, behind), may_store)?,
                false => request.destination((word, behind), may_store)?,
            };
        }
        Ok(request)
    }

    /// Parses an option without arguments, of all searches; false: it is none.
    fn flag(&mut self, word: &[u8]) -> bool {
        match () {
            () if is(word, "withdist") => self.with_distance = true,
            () if is(word, "withhash") => self.with_hash = true,
            () if is(word, "withcoord") => self.with_position = true,
            () if is(word, "any") => self.any = true,
            () if is(word, "asc") => self.backward = Some(false),
            () if is(word, "desc") => self.backward = Some(true),
            () => return false,
        }
        true
    }

    /// Parses `COUNT`; returns the words behind it.
    fn count<'r>(&mut self, (word, behind): (&[u8], &'r [&'a [u8]])) -> Result<&'r [&'a [u8]], Failure> {
        let [number, behind @ ..] = behind else { return Err(SYNTAX) };
        if !is(word, "count") {
            return Err(SYNTAX);
        }
        let number = usize::try_from(integer(number)?).ok().filter(|number| *number > 0);
        self.count = Some(number.ok_or(Failure::fixed("ERR COUNT must be > 0"))?);
        Ok(behind)
    }

    /// Parses the options with arguments of `GEORADIUS` and `GEORADIUSBYMEMBER`; returns the words behind them.
    fn destination<'r>(&mut self, (word, behind): (&[u8], &'r [&'a [u8]]), may_store: bool) -> Result<&'r [&'a [u8]], Failure> {
        match behind {
            [key, behind @ ..] if may_store && (is(word, "store") || is(word, "storedist")) => {
                self.stored = Some(*key);
                self.stores_distance = is(word, "storedist");
                Ok(behind)
            }
            _ => self.count((word, behind)),
        }
    }

    /// Parses the options with arguments of `GEOSEARCH` and `GEOSEARCHSTORE`; returns the words behind them.
    fn place<'r>(
        &mut self,
        context: &Context,
        head: Option<&Collection>,
        (word, behind): (&[u8], &'r [&'a [u8]]),
        may_store: bool,
    ) -> Result<&'r [&'a [u8]], Failure> {
        let is_box = matches!(self.shape, Some((Shape::Box { .. }, _)));
        let is_circle = matches!(self.shape, Some((Shape::Circle { .. }, _)));
        Ok(match behind {
            _ if may_store && is(word, "storedist") => {
                self.stores_distance = true;
                behind
            }
            [member, behind @ ..] if is(word, "frommember") && !self.from_position => {
                if let Some(head) = head {
                    self.middle = Some(of_member(context, head, member)?.ok_or(NO_POSITION)?);
                }
                self.from_member = true;
                behind
            }
            [longitude, latitude, behind @ ..] if is(word, "fromlonlat") && !self.from_member => {
                self.middle = Some(position(longitude, latitude)?);
                self.from_position = true;
                behind
            }
            [radius, unit, behind @ ..] if is(word, "byradius") && !is_box => {
                self.shape = Some(circle(radius, unit)?);
                behind
            }
            [width, height, unit, behind @ ..] if is(word, "bybox") && !is_circle => {
                self.shape = Some(rectangle(width, height, unit)?);
                behind
            }
            _ => self.count((word, behind))?,
        })
    }

    /// Refuses combinations of options that do not go together.
    fn check(&self, by: By, name: &[u8]) -> Outcome {
        let exactly_one = |of: &str| Err(Failure::new([b"ERR exactly one of ", of.as_bytes(), b" can be specified for ", name].concat()));
        if self.stored.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let what = if by == By::Options { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Failure::new(format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options")));
        }
        match () {
            () if by == By::Options && !self.from_member && !self.from_position => exactly_one("FROMMEMBER or FROMLONLAT"),
            () if by == By::Options && self.shape.is_none() => exactly_one("BYRADIUS and BYBOX"),
            () if self.any && self.count.is_none() => Err(Failure::fixed("ERR the ANY argument requires COUNT argument")),
            () => Ok(()),
        }
    }

    /// The members inside the shape, in the requested order.
    fn collect(&self, context: &Context, head: &Collection, search: &Search) -> Result<Vec<Found>, Failure> {
        let mut found: Vec<Found> = Vec::new();
        let enough = self.count.filter(|_| self.any).unwrap_or(usize::MAX);
        for (from, to) in search.scores() {
            if found.len() >= enough {
                break;
            }
            let range = (ScoreBound { score: from, is_open: false }, ScoreBound { score: to, is_open: true });
            context.keyspace.walk_scores(head, range, false, &mut |member, score| {
                let position = Position::from_score(score);
                if let Some(distance) = search.finds(position) {
                    found.push(Found { member: member.to_vec(), score, position, distance });
                }
                if found.len() >= enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        // `COUNT` without an order takes the nearest members.
        let backward = self.backward.or(if self.count.is_some() && !self.any { Some(false) } else { None });
        match backward {
            Some(false) => found.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
            Some(true) => found.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
            None => {}
        }
        found.truncate(self.count.unwrap_or(usize::MAX));
        Ok(found)
    }

    fn reply(&self, reply: &mut Writer, found: &[Found], unit: f64) {
        let more = usize::from(self.with_distance) + usize::from(self.with_hash) + usize::from(self.with_position);
        reply.array(found.len());
        for place in found {
            if more > 0 {
                reply.array(1 + more);
            }
            reply.bulk(&place.member);
            if self.with_distance {
                reply.bulk(distance_text(place.distance / unit).as_bytes());
            }
            if self.with_hash {
                reply.integer(to_integer(place.score));
            }
            if self.with_position {
                reply_position(reply, place.position);
            }
        }
    }
}

/// A member found by a search.
struct Found {
    member: Vec<u8>,
    score: f64,
    position: Position,
    /// Meters from the center.
    distance: f64,
}

/// Runs a search. With [`By::Options`], `may_store` says that the result is stored, in the key that comes first.
fn search(context: &mut Context, arguments: &[&[u8]], by: By, may_store: bool) -> Outcome {
    let (stored, behind) = if by == By::Options && may_store { (Some(arguments[1]), &arguments[2..]) } else { (None, &arguments[1..]) };
    let head = context.counted(|context| context.find(behind[0], Kind::SortedSet))?;
    let mut request = Request::parse(context, head.as_ref(), &behind[1..], by, may_store)?;
    request.stored = request.stored.or(stored);
    request.check(by, arguments[0])?;
    let (found, unit) = match (&head, request.middle, request.shape) {
        (Some(head), Some(middle), Some((shape, unit))) => (request.collect(context, head, &Search { middle, shape, unit })?, unit),
        _ => (Vec::new(), 1.0),
    };
    let Some(target) = request.stored else {
        request.reply(&mut context.reply, &found, unit);
        return Ok(());
    };
    let score = |place: &Found| if request.stores_distance { place.distance / unit } else { place.score };
    let members: Vec<Scored> = found.iter().map(|place| (place.member.clone(), score(place))).collect();
    store(context, target, &members)
}

fn georadius(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Position, true)
}

fn georadius_ro(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Position, false)
}

fn georadiusbymember(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Member, true)
}

fn georadiusbymember_ro(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Member, false)
}

fn geosearch(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Options, false)
}

fn geosearchstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    search(context, arguments, By::Options, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_four_decimals() {
        for (distance, text) in
            [(0.0, "0.0000"), (166274.15156960033, "166274.1516"), (0.775, "0.7750"), (0.00004, "0.0000"), (12.5, "12.5000")]
        {
            assert_eq!(distance_text(distance), text);
        }
        assert_eq!(distance_text(f64::NAN), "-922337203685477.5808");
    }
}
