//! A copy of a volume in a directory: the files by their names, so that it is a database like any other, and `BACKUP`, a list of them with
//! lengths, checksums and what a zone has to know of each.
//!
//! The list is text. Its first line is `sinter backup 1`, the second `volume` and the identity; then one line for each file: name, bytes,
//! checksum (XXH3 with 64 bits, hexadecimal), lifetime, level, family; the last line is `end`, how many files there are, and the checksum
//! of all lines before. It is written last: a directory without it, or with a part of it, is no backup. Restoring goes the other way
//! around: manifests come last, so that what was restored in part is no database.
//!
//! The list says that the files are good. This module knows no format of the engine, so a backup is made in two steps: [`Copied::make`]
//! copies as far as bytes can be read, the caller verifies the copy, and [`Copied::finish`] writes the list.

use crate::store::{Cause, DirStore, FileId, FileKind, Hint, Lifetime, Result, Store, StoreError};
use crate::zoned_store::{FileEntry, VolumeId, ZonedStore};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const LIST: &str = "BACKUP";
const FIRST_LINE: &str = "sinter backup 1";

/// Bytes that are copied at once.
const COPY: usize = 1 << 20;

/// Bytes that are given up at once where they cannot be read.
const PIECE: usize = 4096;

/// A file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Saved {
    id: FileId,
    bytes: u64,
    checksum: u64,
    lifetime: u8,
    level: u8,
    family: u32,
}

impl Saved {
    fn line(&self) -> String {
        let Saved { id, bytes, checksum, lifetime, level, family } = self;
        format!("{id} {bytes} {checksum:016x} {lifetime} {level} {family}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next();
        let saved = Saved {
            id: FileId::parse(next()?)?,
            bytes: next()?.parse().ok()?,
            checksum: u64::from_str_radix(next()?, 16).ok()?,
            lifetime: next()?.parse().ok()?,
            level: next()?.parse().ok()?,
            family: next()?.parse().ok()?,
        };
        // As it was written, and nothing behind it.
        (saved.line().trim_end() == line).then_some(saved)
    }

    fn hint(&self) -> Hint {
        let lifetime = match self.lifetime {
            2 => Lifetime::Short,
            3 => Lifetime::Medium,
            4 => Lifetime::Long,
            5 => Lifetime::Extreme,
            _ => Lifetime::Unknown,
        };
        Hint { lifetime, level: self.level, family: self.family, ..Hint::new(Cause::Checkpoint) }
    }
}

/// A backup in a directory.
#[derive(Debug)]
pub struct Backup {
    store: Arc<DirStore>,
    volume: VolumeId,
    files: Vec<Saved>,
}

fn wrong(path: &Path, kind: io::ErrorKind, what: impl std::fmt::Display) -> StoreError {
    StoreError::store("backup", io::Error::new(kind, format!("{}: {what}", path.display())))
}

/// Sort key of a file in a restored volume: files that others need come before them, and tables of a level lie together.
fn turn(saved: &Saved) -> (u8, u8, FileId) {
    let kind = match saved.id.kind {
        FileKind::Table => 0,
        FileKind::Tier => 1,
        FileKind::Log => 2,
        FileKind::Manifest => 3,
    };
    (kind, saved.level, saved.id)
}

/// Reads a whole file in pieces, and gives its length and checksum.
fn walk(from: &dyn Store, id: FileId, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<(u64, u64)> {
    let file = from.open(id)?;
    let length = file.len();
    let (mut sum, mut at) = (Xxh3::new(), 0);
    let mut buffer = vec![0; COPY.min(usize::try_from(length).unwrap_or(COPY)).max(1)];
    while at < length {
        let part = buffer.len().min(usize::try_from(length - at).unwrap_or(buffer.len()));
        file.read_at(at, &mut buffer[..part])?;
        sum.update(&buffer[..part]);
        each(&buffer[..part])?;
        at += part as u64;
    }
    Ok((length, sum.digest()))
}

/// Writes a file again, durably but for its name, and gives its length and checksum.
fn copy(from: &dyn Store, to: &dyn Store, id: FileId, hint: &Hint) -> Result<(u64, u64)> {
    let mut out = to.create(id, hint)?;
    let copied = walk(from, id, |bytes| out.append(bytes))?;
    out.seal()?;
    Ok(copied)
}

/// Bytes of a file that could not be read. They are zeros in the copy.
#[derive(Debug)]
pub struct Lost {
    /// The file.
    pub file: FileId,
    /// Offset of the first lost byte, to whole pieces of 4 KiB.
    pub offset: u64,
    /// Number of lost bytes, to whole pieces of 4 KiB.
    pub bytes: u64,
    /// The error of the first read that failed.
    pub why: String,
}

/// The files of a volume in a directory, durable, without the list that makes a backup of them.
#[derive(Debug)]
pub struct Copied {
    store: Arc<DirStore>,
    list: PathBuf,
    volume: VolumeId,
    files: Vec<Saved>,
    lost: Vec<Lost>,
}

/// Copies like [`copy`], but goes on behind bytes that cannot be read.
fn salvage(from: &dyn Store, to: &dyn Store, id: FileId, hint: &Hint) -> Result<(u64, u64, Option<Lost>)> {
    let mut out = to.create(id, hint)?;
    let file = from.open(id)?;
    let (mut sum, mut at, mut lost) = (Xxh3::new(), 0, None::<Lost>);
    let mut buffer = vec![0; COPY];
    while at < file.len() {
        let part = COPY.min(usize::try_from(file.len() - at).unwrap_or(COPY));
        let buffer = &mut buffer[..part];
        if file.read_at(at, buffer).is_err() {
            for (piece, at) in buffer.chunks_mut(PIECE).zip((at..).step_by(PIECE)) {
                let Err(error) = file.read_at(at, piece) else { continue };
                piece.fill(0);
                lost.get_or_insert_with(|| Lost { file: id, offset: at, bytes: 0, why: error.to_string() }).bytes += piece.len() as u64;
            }
        }
        sum.update(buffer);
        out.append(buffer)?;
        at += part as u64;
    }
    out.seal()?;
    Ok((at, sum.digest(), lost))
}

impl Copied {
    /// Copies all files of a volume, which nobody writes, into a directory that is missing or empty. Goes on behind bytes that cannot be
    /// read. Durable when it returns.
    pub fn make(from: &ZonedStore, directory: &Path) -> Result<Copied> {
        if directory.exists() && fs::read_dir(directory).map_err(|e| wrong(directory, e.kind(), e))?.next().is_some() {
            return Err(wrong(directory, io::ErrorKind::AlreadyExists, "the directory is not empty"));
        }
        let (store, volume) = (Arc::new(DirStore::open(directory, true)?), from.id());
        let mut copied = Copied { store, list: directory.join(LIST), volume, files: Vec::new(), lost: Vec::new() };
        let listed = from.files();
        let saved = listed.iter().try_for_each(|file| copied.save(from, file)).and_then(|()| copied.store.sync_names());
        saved.inspect_err(|_| copied.remove(listed.iter().map(|file| file.id)))?;
        Ok(copied)
    }

    fn save(&mut self, from: &ZonedStore, FileEntry { id, about, .. }: &FileEntry) -> Result<()> {
        let saved = Saved { id: *id, bytes: 0, checksum: 0, lifetime: about.lifetime, level: about.level, family: about.family };
        let (bytes, checksum, lost) = salvage(from, &*self.store, *id, &saved.hint())?;
        self.lost.extend(lost);
        self.files.push(Saved { bytes, checksum, ..saved });
        Ok(())
    }

    /// The directory failed, not the drive: a partial copy would be in the way of the next.
    fn remove(&self, files: impl Iterator<Item = FileId>) {
        let _ = fs::remove_file(&self.list);
        for file in files {
            let _ = self.store.delete(file);
        }
    }

    /// The directory.
    pub fn store(&self) -> &Arc<DirStore> {
        &self.store
    }

    /// Parts of files that could not be read.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Writes the list. The caller has verified the files: the list says that they are good.
    ///
    /// # Errors
    /// A copy of which something is lost.
    pub fn finish(self) -> Result<Backup> {
        if let Some(lost) = self.lost.first() {
            return Err(StoreError::file("backup", lost.file, io::Error::new(io::ErrorKind::InvalidData, lost.why.clone())));
        }
        let write = || {
            let mut file = File::options().write(true).create_new(true).open(&self.list)?;
            file.write_all(list(self.volume, &self.files).as_bytes())?;
            file.sync_all()
        };
        let written = write().map_err(|e| wrong(&self.list, e.kind(), e)).and_then(|()| self.store.sync_names());
        written.inspect_err(|_| self.remove(self.files.iter().map(|file| file.id)))?;
        Ok(Backup { store: self.store, volume: self.volume, files: self.files })
    }
}

impl Backup {
    /// Reads the list of a backup. `InvalidData` if it is damaged, or if the directory has other files of a database than the list.
    pub fn open(directory: &Path) -> Result<Backup> {
        let path = directory.join(LIST);
        let text = fs::read_to_string(&path).map_err(|e| wrong(&path, e.kind(), e))?;
        let (volume, files) = parse(&text).map_err(|what| wrong(&path, io::ErrorKind::InvalidData, what))?;
        let store = Arc::new(DirStore::open(directory, false)?);
        let mut there = store.list()?;
        there.sort_unstable();
        let mut listed: Vec<(FileId, u64)> = files.iter().map(|saved| (saved.id, saved.bytes)).collect();
        listed.sort_unstable();
        if let Some((id, _)) = there.iter().find(|file| listed.binary_search(file).is_err()) {
            return Err(wrong(directory, io::ErrorKind::InvalidData, format_args!("{id} is not as the backup has it")));
        }
        if let Some((id, _)) = listed.iter().find(|file| there.binary_search(file).is_err()) {
            return Err(wrong(directory, io::ErrorKind::InvalidData, format_args!("{id} is missing")));
        }
        Ok(Backup { store, volume, files })
    }

    /// The directory.
    pub fn store(&self) -> &Arc<DirStore> {
        &self.store
    }

    /// The volume that it was made of.
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Number of files in the backup.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Name and length of each file.
    pub fn lengths(&self) -> Vec<(FileId, u64)> {
        self.files.iter().map(|saved| (saved.id, saved.bytes)).collect()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, saved| sum.saturating_add(saved.bytes))
    }

    /// Reads all bytes. `InvalidData` with the name of the first file that is not what it was.
    pub fn verify(&self) -> Result<()> {
        self.verify_in(&*self.store)
    }

    fn verify_in(&self, store: &dyn Store) -> Result<()> {
        self.files.iter().try_for_each(|saved| self.compare(saved, walk(store, saved.id, |_| Ok(()))?))
    }

    fn compare(&self, saved: &Saved, found: (u64, u64)) -> Result<()> {
        if found == (saved.bytes, saved.checksum) {
            return Ok(());
        }
        let what = io::Error::new(io::ErrorKind::InvalidData, "its bytes are not those that were saved");
        Err(StoreError::file("backup", saved.id, what))
    }

    /// Writes all files into an empty volume and reads them back. Durable when it returns; until then the volume is no database.
    pub fn restore(&self, to: &ZonedStore) -> Result<()> {
        let mut files = self.files.clone();
        files.sort_by_key(turn);
        for saved in &files {
            self.compare(saved, copy(&*self.store, to, saved.id, &saved.hint())?)?;
        }
        to.sync_names()?;
        self.verify_in(to)
    }
}

fn list(volume: VolumeId, files: &[Saved]) -> String {
    let mut text = format!("{FIRST_LINE}\nvolume {volume}\n");
    files.iter().for_each(|saved| text.push_str(&saved.line()));
    let sum = xxh3_64(text.as_bytes());
    let _ = writeln!(text, "end {} {sum:016x}", files.len());
    text
}

fn parse(text: &str) -> std::result::Result<(VolumeId, Vec<Saved>), String> {
    let damaged = || "the list is damaged".to_owned();
    let whole = text.strip_suffix('\n').ok_or_else(damaged)?;
    let last = whole.rfind('\n').map_or(0, |at| at + 1);
    let (body, end) = (&text[..last], &whole[last..]);
    let mut lines = body.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(format!("not a backup, or one of another version: the first line is not {FIRST_LINE:?}"));
    }
    let volume = lines.next().and_then(|line| identity(line.strip_prefix("volume ")?)).ok_or_else(damaged)?;
    let files: Vec<Saved> = lines.map(Saved::parse).collect::<Option<_>>().ok_or_else(damaged)?;
    if end != format!("end {} {:016x}", files.len(), xxh3_64(body.as_bytes())) {
        return Err(damaged());
    }
    let mut names: Vec<FileId> = files.iter().map(|saved| saved.id).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(damaged());
    }
    Ok((volume, files))
}

fn identity(text: &str) -> Option<VolumeId> {
    let number = u128::from_str_radix(text, 16).ok()?;
    let id = VolumeId(number.to_be_bytes());
    (id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<Saved> {
        let saved = |id, bytes| Saved { id, bytes, checksum: bytes ^ 0xabc, lifetime: 3, level: 1, family: 2 };
        vec![saved(FileId::table(12), 5), saved(FileId::manifest(7), u64::MAX)]
    }

    #[test]
    fn a_list_says_what_was_saved() {
        let volume = VolumeId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        let text = list(volume, &files());
        assert_eq!(parse(&text), Ok((volume, files())));
        assert_eq!(parse(&list(volume, &[])), Ok((volume, Vec::new())));
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(parse(&changed).is_err(), "changed at {at}: {changed}");
        }
        let twice = [files(), files()].concat();
        assert!(parse(&list(volume, &twice)).is_err());
    }
}
