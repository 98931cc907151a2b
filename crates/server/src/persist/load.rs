//! Loading of values in Redis's format into keys.

use super::error::LoadError;
use super::streams::{self, Loading};
use crate::keyspace::{self, Edit, Keyspace, Kind, Side};
use crate::rdb::{Element, STRING_MAX};
use sinterdb::WriteOptions;

/// Bytes of writes at which a part of a collection is committed. Tests have collections of many parts.
const PIECE: usize = if cfg!(test) { 4 << 10 } else { 8 << 20 };

/// The way in which a value gets into the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// In the caller's turn, and not at all if anything is wrong with it.
    Whole,
    /// Large values in several commits, so that they need not fit into memory. An error in a value is found when a part of it is loaded.
    Many,
    /// In the caller's turn, from which it is withdrawn: the key stays as it is. Only errors of the value are of interest.
    Checked,
}

/// Callback of the reader of a value, called for each of its elements.
pub type Visit<'a> = dyn FnMut(Element<'_>) -> Result<(), LoadError> + 'a;

/// Refuses an element that could not be loaded, before anything is written.
///
/// # Errors
/// A member that is too long.
pub fn check(element: &Element) -> Result<(), LoadError> {
    match element {
        Element::Stream(element) => streams::check(element),
        Element::Member(name) | Element::Scored(name, _) | Element::Field(name, ..) => Ok(keyspace::check_member(name)?),
        Element::Text(_) | Element::Item(_) => Ok(()),
    }
}

/// Loads a value, read by `read`, into a key, which loses its old value, or only checks the value ([`Pieces::Checked`]). False: it is an
/// empty collection, and nothing was done.
///
/// # Errors
/// Errors of reading, and of the keyspace.
pub fn load(
    keyspace: &mut Keyspace,
    place: (usize, &[u8]),
    deadline: Option<u64>,
    pieces: Pieces,
    read: impl FnOnce(&mut Visit) -> Result<(), LoadError>,
) -> Result<bool, LoadError> {
    let before = keyspace.uncommitted();
    let mut target = KeyLoader { keyspace, place, deadline, pieces, before, text: None, edit: None, stream: Loading::default() };
    let result = read(&mut |element| target.put(element));
    target.end(result)
}

/// Loads one key.
struct KeyLoader<'a> {
    keyspace: &'a mut Keyspace,
    place: (usize, &'a [u8]),
    deadline: Option<u64>,
    pieces: Pieces,
    /// Uncommitted bytes at the start.
    before: usize,
    /// A string.
    text: Option<Vec<u8>>,
    /// A collection.
    edit: Option<Edit<'a>>,
    stream: Loading,
}

impl KeyLoader<'_> {
    fn put(&mut self, element: Element<'_>) -> Result<(), LoadError> {
        let kind = match &element {
            Element::Text(text) => {
                self.text = Some(text.to_vec());
                return Ok(());
            }
            Element::Item(_) => Kind::List,
            Element::Member(_) => Kind::Set,
            Element::Scored(..) => Kind::SortedSet,
            Element::Field(..) => Kind::Hash,
            Element::Stream(_) => Kind::Stream,
        };
        if self.edit.is_none() {
            self.edit = Some(self.keyspace.replace(self.place.0, self.place.1, kind, self.deadline)?);
        }
        let Some(edit) = &mut self.edit else { return Ok(()) };
        let is_new = match element {
            Element::Item(text) => self.keyspace.push(edit, Side::Right, text).map(|()| true)?,
            Element::Member(member) => self.keyspace.add_member(edit, member)?,
            Element::Scored(member, score) => self.keyspace.set_score(edit, member, score)?.is_none(),
            Element::Field(field, value, deadline) => self.keyspace.load_field(edit, field, value, deadline)?,
            Element::Stream(element) => self.stream.put(self.keyspace, edit, &element).map(|()| true)?,
            Element::Text(_) => true,
        };
        if !is_new {
            return Err(LoadError::Twice);
        }
        let waiting = self.keyspace.uncommitted();
        match self.pieces {
            // A text that occurs once in the format may stand for many elements.
            Pieces::Whole | Pieces::Checked if waiting.saturating_sub(self.before) as u64 > STRING_MAX => return Err(LoadError::TooLarge),
            Pieces::Many if waiting > PIECE => {
                self.keyspace.keep(edit);
                self.keyspace.commit(&WriteOptions::default())?;
            }
            Pieces::Whole | Pieces::Many | Pieces::Checked => {}
        }
        Ok(())
    }

    fn end(mut self, result: Result<(), LoadError>) -> Result<bool, LoadError> {
        let result = result.and_then(|()| self.stream.end(self.keyspace));
        let is_checked = self.pieces == Pieces::Checked;
        if let Some(edit) = self.edit.as_ref().filter(|_| is_checked || result.is_err()) {
            self.keyspace.abandon(edit);
        }
        match (&self.edit, result) {
            (_, Err(error)) => Err(error),
            (edit, Ok(())) if is_checked => Ok(edit.is_some() || self.text.is_some()),
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
