//! The bytes of one file in memory, in pieces that images share, and how far they are durable.

use std::sync::Arc;

/// Bytes per piece. An append to a shared file copies at most one of them.
const PIECE: usize = 1 << 16;

/// A growing byte string. Cloning it copies pointers; all pieces but the last are full.
#[derive(Clone, Default)]
pub(super) struct SharedBytes {
    pieces: Vec<Arc<Vec<u8>>>,
    len: u64,
}

impl SharedBytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut content = SharedBytes::default();
        content.append(bytes);
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.pieces.last().is_none_or(|last| last.len() == PIECE) {
                self.pieces.push(Arc::default());
            }
            let Some(last) = self.pieces.last_mut().map(Arc::make_mut) else { return };
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - last.len()));
            last.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Writes over what is there from `offset` on, and appends what reaches behind it. `offset` is at most the length.
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset as usize;
        while !bytes.is_empty() && (at as u64) < self.len {
            let piece = &mut Arc::make_mut(&mut self.pieces[at / PIECE])[at % PIECE..];
            let (now, later) = bytes.split_at(bytes.len().min(piece.len()));
            piece[..now.len()].copy_from_slice(now);
            at += now.len();
            bytes = later;
        }
        self.append(bytes);
    }

    /// Fills `buffer` from `offset`; false if the file ends earlier.
    pub(super) fn read(&self, offset: u64, mut buffer: &mut [u8]) -> bool {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        let mut at = offset as usize;
        while !buffer.is_empty() {
            let piece = &self.pieces[at / PIECE][at % PIECE..];
            let (now, later) = buffer.split_at_mut(buffer.len().min(piece.len()));
            now.copy_from_slice(&piece[..now.len()]);
            at += now.len();
            buffer = later;
        }
        true
    }

    pub(super) fn byte_mut(&mut self, offset: u64) -> Option<&mut u8> {
        let at = usize::try_from(offset).ok()?;
        Arc::make_mut(self.pieces.get_mut(at / PIECE)?).get_mut(at % PIECE)
    }

    /// The first `len` bytes, sharing all whole pieces.
    pub(super) fn prefix(&self, len: u64) -> SharedBytes {
        if len >= self.len {
            return self.clone();
        }
        let (whole, rest) = (len as usize / PIECE, len as usize % PIECE);
        let mut prefix = SharedBytes { pieces: self.pieces[..whole].to_vec(), len: (whole * PIECE) as u64 };
        if rest > 0 {
            prefix.append(&self.pieces[whole][..rest]);
        }
        prefix
    }

    /// A copy of the bytes from `start` on.
    pub(super) fn suffix(&self, start: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.len.saturating_sub(start) as usize];
        self.read(start, &mut bytes);
        bytes
    }
}

/// A file: its bytes, how many of them are durable, and where the appends since then ended.
#[derive(Clone, Default)]
pub(super) struct FileState {
    /// Appended bytes, and zeros written ahead of them.
    pub(super) content: SharedBytes,
    /// Bytes appended.
    pub(super) len: u64,
    pub(super) synced: u64,
    pub(super) ends: Vec<u64>,
    /// Length of the file that is durable, with zeros.
    pub(super) synced_end: u64,
}

impl FileState {
    /// A file all of which is durable.
    pub(super) fn durable(content: SharedBytes) -> Self {
        let len = content.len();
        FileState { content, len, synced: len, ends: Vec::new(), synced_end: len }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.content.write(self.len, bytes);
            self.len += bytes.len() as u64;
            self.ends.push(self.len);
        }
    }

    /// Zeros ahead of what was appended, bytes.
    pub(super) fn ahead(&self) -> u64 {
        self.content.len() - self.len
    }

    /// Writes zeros so that the file has `end` bytes.
    pub(super) fn write_ahead(&mut self, end: u64) {
        let zeros = vec![0; end.saturating_sub(self.content.len()) as usize];
        self.content.append(&zeros);
    }

    /// Takes the zeros back.
    pub(super) fn cut(&mut self) {
        if self.ahead() > 0 {
            self.content = self.content.prefix(self.len);
        }
    }

    pub(super) fn sync(&mut self) {
        self.sync_to(self.len);
    }

    /// The first `len` bytes are durable.
    pub(super) fn sync_to(&mut self, len: u64) {
        self.synced = self.synced.max(len);
        self.ends.retain(|end| *end > len);
        self.synced_end = self.content.len();
    }
}
