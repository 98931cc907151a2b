//! Strings that are changed in part.
//!
//! A string is normally stored in the entry of its key. When a part of a long one is changed (`SETBIT`, `SETRANGE`, `APPEND`, `BITFIELD`),
//! the string is split into pieces, which are stored like elements of a collection: from then on a change costs the pieces that it touches,
//! and parts that were never written take no space: they read as zeros. The next `SET` puts the string back into its entry, unless it is so
//! long that it is written in pieces from the start (`long`).

use super::Keyspace;
use super::changes::Change;
use super::entry::{Head, Kind, LONG, LONGEST_STORED};
use super::error::{Error, Result};
use super::layout::{self, Direction, FamilyKind, PIECE};
use super::turn::Turn;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Shortest string that a change splits into pieces, bytes. Tests have both sorts.
pub(super) const PIECES_FROM: u64 = if cfg!(test) { 64 } else { 4 << 10 };

/// Zeros, shown by a walk where nothing was written.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Callback of a walk over a string, called for each part with its offset and its bytes.
pub type VisitPart<'a> = dyn FnMut(u64, &[u8]) -> ControlFlow<()> + 'a;

/// Shows zeros from one offset up to another.
fn visit_zeros(mut at: u64, to: u64, visit: &mut VisitPart) -> ControlFlow<()> {
    while at < to {
        let some = ZEROS.get(..usize::try_from(to - at).unwrap_or(usize::MAX)).unwrap_or(&ZEROS);
        visit(at, some)?;
        at += some.len() as u64;
    }
    ControlFlow::Continue(())
}

/// A piece of a string that is being changed.
#[derive(Debug)]
struct Piece {
    /// Bytes of the piece, always [`PIECE`].
    bytes: Vec<u8>,
    is_changed: bool,
}

/// Storage of a string that is being changed.
#[derive(Debug)]
enum StringStorage {
    /// In the entry, behind its start.
    Whole { entry: Vec<u8>, at: usize },
    /// Pieces that were looked at, by number.
    Pieces(BTreeMap<u64, Piece>),
}

/// A string that is being changed.
pub struct StringEdit<'t> {
    turn: &'t Turn,
    /// Id under which the pieces are stored as elements; 0: there are none yet.
    id: u64,
    length: u64,
    form: StringStorage,
}

impl StringEdit<'_> {
    /// Length of the string, bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Extends the string to a length, with zeros; false: it was at least as long. The caller has checked the limit of the length.
    pub fn grow(&mut self, length: u64) -> bool {
        let grows = self.length < length;
        if grows {
            self.length = length;
            self.before_change();
            if let StringStorage::Whole { entry, at } = &mut self.form {
                entry.resize(*at + usize::try_from(length).unwrap_or(usize::MAX), 0);
            }
        }
        grows
    }

    /// Splits a long string into pieces before it is changed.
    fn before_change(&mut self) {
        let StringStorage::Whole { entry, at } = &self.form else { return };
        // A string above the limit was written by an earlier version, and stays as it is.
        if (PIECES_FROM..=LONGEST_STORED).contains(&self.length) {
            let pieces = entry.get(*at..).unwrap_or_default().chunks(PIECE);
            let piece = |bytes: &[u8]| Piece { bytes: padded(bytes), is_changed: true };
            self.form = StringStorage::Pieces((0..).zip(pieces.map(piece)).collect());
        }
    }

    /// Reads the bytes from an offset on; zeros behind the end.
    pub fn read(&mut self, from: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        match &mut self.form {
            StringStorage::Whole { entry, at } => {
                let there = usize::try_from(from).ok().and_then(|from| entry.get(*at + from..)).unwrap_or_default();
                lay_over(out, there);
            }
            StringStorage::Pieces(pieces) => {
                for (index, skip, part) in spans(from, out.len()) {
                    let piece = look(pieces, self.turn, self.id, index)?;
                    lay_over(out.get_mut(part).unwrap_or_default(), piece.bytes.get(skip..).unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    /// Overwrites bytes inside the string.
    pub fn write(&mut self, from: u64, bytes: &[u8]) -> Result<()> {
        self.before_change();
        match &mut self.form {
            StringStorage::Whole { entry, at } => {
                let there = usize::try_from(from).ok().and_then(|from| entry.get_mut(*at + from..)).unwrap_or_default();
                lay_over(there, bytes);
            }
            StringStorage::Pieces(pieces) => {
                for (index, skip, part) in spans(from, bytes.len()) {
                    let from = bytes.get(part).unwrap_or_default();
                    let piece = if from.len() == PIECE {
                        // The old bytes of the piece do not matter.
                        pieces.entry(index).or_insert_with(|| Piece { bytes: vec![0; PIECE], is_changed: true })
                    } else {
                        look(pieces, self.turn, self.id, index)?
                    };
                    piece.is_changed = true;
                    lay_over(piece.bytes.get_mut(skip..).unwrap_or_default(), from);
                }
            }
        }
        Ok(())
    }
}

/// The pieces that hold `length` bytes from an offset on: number of the piece, offset in the piece, and range of the bytes.
fn spans(from: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = from.saturating_add(done as u64);
        // Less than a piece.
        let skip = (at % PIECE as u64) as usize;
        let part = done..length.min(done + PIECE - skip);
        done = part.end;
        (!part.is_empty()).then_some((at / PIECE as u64, skip, part))
    })
}

/// Copies as many bytes as both have.
fn lay_over(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut piece = Vec::with_capacity(PIECE);
    piece.extend_from_slice(bytes);
    piece.resize(PIECE, 0);
    piece
}

/// A piece as it was before the current change.
fn stored(turn: &Turn, id: u64, index: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PIECE);
    turn.get(FamilyKind::Elements, &layout::piece_key(id, index), &mut bytes)?;
    if bytes.len() > PIECE {
        return Err(Error::Damaged("a piece of a string is too long"));
    }
    bytes.resize(PIECE, 0);
    Ok(bytes)
}

/// A piece as it is now.
fn look<'p>(pieces: &'p mut BTreeMap<u64, Piece>, turn: &Turn, id: u64, index: u64) -> Result<&'p mut Piece> {
    use std::collections::btree_map::Entry;
    match pieces.entry(index) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(unknown) => {
            let bytes = if id == 0 { vec![0; PIECE] } else { stored(turn, id, index)? };
            Ok(unknown.insert(Piece { bytes, is_changed: false }))
        }
    }
}

/// Shows `visit` the bytes of the string with pieces under this id from one offset up to another, in order, until it breaks. The offsets
/// must be inside.
pub(super) fn walk_pieces(turn: &Turn, id: u64, from: u64, to: u64, visit: &mut VisitPart) -> Result<()> {
    let (mut at, mut damage, mut flow) = (from, Ok(()), ControlFlow::Continue(()));
    turn.walk(FamilyKind::Elements, &layout::pieces(id, from, to), Direction::Forward, &mut |place, value| {
        let Some(start) = layout::piece_start(place).filter(|_| value.len() <= PIECE) else {
            damage = Err(Error::Damaged("a piece of a string"));
            return ControlFlow::Break(());
        };
        let (begin, end) = (start.max(at), to.min(start + value.len() as u64));
        flow = visit_zeros(at, begin, visit);
        // Begin and end are less than a piece behind its start.
        let part = value.get((begin - start) as usize..end.saturating_sub(start) as usize).unwrap_or_default();
        if flow.is_continue() && !part.is_empty() {
            flow = visit(begin, part);
        }
        at = begin + part.len() as u64;
        flow
    })?;
    damage?;
    if flow.is_continue() {
        let _ = visit_zeros(at, to, visit);
    }
    Ok(())
}

/// Writes a piece, without zeros at its end; false: it is all zeros, and not stored.
pub(super) fn put_piece(turn: &mut Turn, id: u64, index: u64, bytes: &[u8]) -> bool {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    let bytes = last.and_then(|last| bytes.get(..=last));
    bytes.inspect(|bytes| turn.put(FamilyKind::Elements, layout::piece_key(id, index), bytes)).is_some()
}

impl Keyspace {
    /// Length of a string; `None`: there is no such key. [`Keyspace::string_part`] and [`Keyspace::walk_string`] read this string from then
    /// on, until another key is looked for or anything is written.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    pub fn string_length(&mut self, db: usize, key: &[u8]) -> Result<Option<u64>> {
        let Some(head) = self.find_kind(db, key, Kind::String)? else { return Ok(None) };
        if !head.is_in_pieces() {
            self.complete()?;
        }
        Ok(Some(self.known_length(&head)))
    }

    fn known_length(&self, head: &Head) -> u64 {
        if head.is_in_pieces() { head.count } else { self.entry.len().saturating_sub(self.string_at) as u64 }
    }

    /// Head of the key that was looked up last, if nothing was written since and it holds a string.
    pub(super) fn known_string(&self) -> Option<Head> {
        let is_fresh = self.known.version == Some(self.turn.version());
        self.known.head.filter(|head| is_fresh && head.kind == Kind::String)
    }

    /// Bytes of the string whose length was asked for, from one offset up to another, as far as it has them; none if there is no such key.
    pub fn string_part(&mut self, from: u64, to: u64) -> Result<Cow<'_, [u8]>> {
        let Some(head) = self.known_string() else { return Ok(Cow::Borrowed(&[])) };
        let to = to.min(self.known_length(&head));
        let length = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
        if !head.is_in_pieces() {
            return Ok(self.known_part(from, to).into());
        }
        if length <= PIECE {
            // One or two pieces: a look at each costs less than a walk.
            let mut part = vec![0; length];
            for (index, skip, place) in spans(from, length) {
                let piece = stored(&self.turn, head.id, index)?;
                lay_over(part.get_mut(place).unwrap_or_default(), piece.get(skip..).unwrap_or_default());
            }
            return Ok(part.into());
        }
        let mut part = Vec::with_capacity(length);
        self.walk_pieces(&head, from, to, &mut |_, bytes| {
            part.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        Ok(part.into())
    }

    /// Shows `visit` the bytes of the string whose length was asked for, from one offset up to another in order, as far as it has them,
    /// until it breaks.
    pub fn walk_string(&mut self, from: u64, to: u64, visit: &mut VisitPart) -> Result<()> {
        let Some(head) = self.known_string() else { return Ok(()) };
        let to = to.min(self.known_length(&head));
        if head.is_in_pieces() {
            return self.walk_pieces(&head, from, to, visit);
        }
        // There is only one visit, so nothing is left to break.
        let _ = visit(from, self.known_part(from, to));
        Ok(())
    }

    /// Bytes of the string that was found last, which lies in its entry.
    fn known_part(&self, from: u64, to: u64) -> &[u8] {
        let string = self.entry.get(self.string_at..).unwrap_or_default();
        let part = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        part.and_then(|(from, to)| string.get(from..to)).unwrap_or_default()
    }

    /// Shows `visit` the bytes of a string that lies in pieces from one offset up to another, in order, until it breaks. The offsets must
    /// be inside.
    pub fn walk_pieces(&self, head: &Head, from: u64, to: u64, visit: &mut VisitPart) -> Result<()> {
        if to.saturating_sub(from) >= LONG as u64 {
            // Blocks of a long string would push other data out of the cache, and stay there when the string is deleted.
            let turn = self.turn.of_now(FamilyKind::Elements, &layout::pieces(head.id, from, to));
            return walk_pieces(&turn, head.id, from, to, visit);
        }
        walk_pieces(&self.turn, head.id, from, to, visit)
    }

    /// Appends the pieces of the known string to its entry, if it has any: then its bytes lie there like those of any other string.
    pub(super) fn join(&mut self) -> Result<()> {
        let Some(head) = self.known.head.filter(|head| head.is_in_pieces() && !self.known.is_joined) else { return Ok(()) };
        let mut joined = std::mem::take(&mut self.entry);
        joined.reserve(usize::try_from(head.count).unwrap_or(0));
        let result = self.walk_pieces(&head, 0, head.count, &mut |_, bytes| {
            joined.extend_from_slice(bytes);
            ControlFlow::Continue(())
        });
        self.entry = joined;
        self.known.is_joined = result.is_ok();
        if result.is_err() {
            self.known.version = None;
        }
        result
    }

    /// Changes a string in place. `change` gets an empty string if there is no such key, and returns whether the key is to be written; its
    /// deadline stays.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else; errors of `change`.
    pub fn change_string(&mut self, db: usize, key: &[u8], change: impl FnOnce(&mut StringEdit) -> Result<bool>) -> Result<()> {
        let old = self.find_kind(db, key, Kind::String)?;
        let (id, length, form) = match old {
            Some(head) if head.is_in_pieces() => (head.id, head.count, StringStorage::Pieces(BTreeMap::new())),
            _ => {
                if old.is_none() {
                    self.entry = Head::string(None).encode(b"");
                    self.string_at = self.entry.len();
                } else {
                    self.complete()?;
                }
                // The entry that was read is changed and written: changing a bit costs one copy of the string.
                self.known.version = None;
                let (entry, at) = (std::mem::take(&mut self.entry), self.string_at);
                (0, entry.len().saturating_sub(at) as u64, StringStorage::Whole { entry, at })
            }
        };
        let mut string = StringEdit { turn: &self.turn, id, length, form };
        if !change(&mut string)? {
            return Ok(());
        }
        let StringEdit { length, form, .. } = string;
        match form {
            StringStorage::Whole { entry, .. } => {
                self.counters.keys[db] += u64::from(old.is_none());
                let new = Head { size: Some(length), ..Head::string(None) };
                self.count_bytes(db, key, old.as_ref(), Some(&new));
                self.turn.put(FamilyKind::Keys, layout::entry_key(self.seed, self.counters.places.of(db), key), entry);
                self.changed(db, key, if old.is_none() { Change::Made } else { Change::Changed });
            }
            StringStorage::Pieces(pieces) => {
                let id = if id == 0 { self.new_id()? } else { id };
                self.put_pieces(id, &pieces, old.is_some_and(|old| old.is_in_pieces()));
                let new = Head { id, count: length, size: Some(length), ..old.unwrap_or(Head::string(None)) };
                if old == Some(new) {
                    self.changed(db, key, Change::Changed);
                } else {
                    self.write(db, key, old.as_ref(), &new, b"");
                }
            }
        }
        Ok(())
    }

    fn put_pieces(&mut self, id: u64, pieces: &BTreeMap<u64, Piece>, had_some: bool) {
        for (index, piece) in pieces.iter().filter(|(_, piece)| piece.is_changed) {
            if !put_piece(&mut self.turn, id, *index, &piece.bytes) && had_some {
                self.turn.delete(FamilyKind::Elements, layout::piece_key(id, *index));
            }
        }
    }
}
