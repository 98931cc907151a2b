//! From a value in Redis's format to a key.

use crate::keyspace::{self, Edit, Keyspace, Kind, Side};
use crate::rdb::{self, Element, StreamElement};
use sinterdb::db::WriteOptions;

/// Bytes of writes at which a piece of a collection is committed.
const PIECE: usize = 8 << 20;

/// Why a value could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes.
    #[error(transparent)]
    Format(#[from] rdb::Error),
    /// A set, a hash or a sorted set has something twice.
    #[error("the same member comes twice")]
    Twice,
    /// A type that is not there yet.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// The keyspace.
    #[error(transparent)]
    Keyspace(#[from] keyspace::Error),
}

/// How a value gets into the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// In the caller's turn, and not at all if anything is wrong with it.
    Whole,
    /// Large ones in several commits, so that they need not fit into memory. What is wrong with one is found when a part of it is there.
    Many,
}

/// What reads a value calls this for each of its elements.
pub type Visit<'a> = dyn FnMut(Element<'_>) -> Result<(), Error> + 'a;

/// A part of a stream, as it is read: `rdb::streams` has the order in which they come.
fn stream(_: &StreamElement) -> Result<(), Error> {
    Err(Error::Unsupported("stream"))
}

/// Refuses what could not be loaded, before anything is written.
///
/// # Errors
/// A type that is not there, or a member that is too long.
pub fn check(element: &Element) -> Result<(), Error> {
    match element {
        Element::Stream(element) => stream(element),
        Element::Member(name) | Element::Scored(name, _) | Element::Field(name, _) => Ok(keyspace::check_member(name)?),
        Element::Text(_) | Element::Item(_) => Ok(()),
    }
}

/// Puts a value into a key, which loses what it held; `read` reads it. False: it is an empty collection, and nothing was done.
///
/// # Errors
/// Those of reading, and those of the keyspace.
pub fn load(
    keyspace: &mut Keyspace,
    place: (usize, &[u8]),
    deadline: Option<u64>,
    pieces: Pieces,
    read: impl FnOnce(&mut Visit) -> Result<(), Error>,
) -> Result<bool, Error> {
    let mut target = Target { keyspace, place, deadline, pieces, text: None, edit: None };
    let result = read(&mut |element| target.put(element));
    target.end(result)
}

struct Target<'a> {
    keyspace: &'a mut Keyspace,
    place: (usize, &'a [u8]),
    deadline: Option<u64>,
    pieces: Pieces,
    /// A string.
    text: Option<Vec<u8>>,
    /// A collection.
    edit: Option<Edit<'a>>,
}

impl Target<'_> {
    fn put(&mut self, element: Element<'_>) -> Result<(), Error> {
        let kind = match &element {
            Element::Text(text) => {
                self.text = Some(text.to_vec());
                return Ok(());
            }
            Element::Item(_) => Kind::List,
            Element::Member(_) => Kind::Set,
            Element::Scored(..) => Kind::SortedSet,
            Element::Field(..) => Kind::Hash,
            Element::Stream(element) => return stream(element),
        };
        if self.edit.is_none() {
            self.edit = Some(self.keyspace.replace(self.place.0, self.place.1, kind, self.deadline)?);
        }
        let Some(edit) = &mut self.edit else { return Ok(()) };
        let is_new = match element {
            Element::Item(text) => self.keyspace.push(edit, Side::Right, text).map(|()| true)?,
            Element::Member(member) => self.keyspace.add_member(edit, member)?,
            Element::Scored(member, score) => self.keyspace.set_score(edit, member, score)?.is_none(),
            Element::Field(field, value) => self.keyspace.set_field(edit, field, value)?,
            Element::Text(_) | Element::Stream(_) => true,
        };
        if !is_new {
            return Err(Error::Twice);
        }
        if self.pieces == Pieces::Many && self.keyspace.uncommitted() > PIECE {
            self.keyspace.keep(edit);
            self.keyspace.commit(&WriteOptions::default())?;
        }
        Ok(())
    }

    fn end(self, result: Result<(), Error>) -> Result<bool, Error> {
        match (&self.edit, result) {
            (Some(edit), Err(error)) => {
                self.keyspace.abandon(edit);
                Err(error)
            }
            (None, Err(error)) => Err(error),
            (Some(edit), Ok(())) => {
                self.keyspace.finish(edit);
                Ok(true)
            }
            (None, Ok(())) => {
                let Some(text) = &self.text else { return Ok(false) };
                self.keyspace.set_string(self.place.0, self.place.1, text, self.deadline)?;
                Ok(true)
            }
        }
    }
}
