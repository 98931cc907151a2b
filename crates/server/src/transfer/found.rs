//! Which files a path stands for.

use super::error::{Error, Result};
use crate::resp::Parser;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// How the name of a manifest ends.
const MANIFEST: &str = ".manifest";
/// Longest manifest, bytes.
const MANIFEST_MAX: u64 = 1 << 20;
/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// A file, opened.
pub(super) type Source = BufReader<File>;

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Rdb,
    Log,
    Empty,
}

/// Opens a file and looks at how it begins.
pub(super) fn open(path: &Path) -> Result<(Source, Start)> {
    let mut file = File::open(path).map_err(Error::file(path))?;
    let mut head = Vec::new();
    file.by_ref().take(5).read_to_end(&mut head).map_err(Error::file(path))?;
    std::io::Seek::rewind(&mut file).map_err(Error::file(path))?;
    let start = match head.as_slice() {
        b"REDIS" => Start::Rdb,
        [] => Start::Empty,
        [b'*' | b'#', ..] => Start::Log,
        _ => return Err(Error::log(path, 0, "this is neither an RDB file nor a log of commands")),
    };
    Ok((BufReader::with_capacity(BUFFER, file), start))
}

/// The files that a path stands for, in order.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !fs::metadata(path).map_err(Error::file(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut manifests = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::file(path))? {
        let entry = entry.map_err(Error::file(path))?;
        // One that was being written when its server died begins with `temp-`, as Redis names them.
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(MANIFEST) && !name.starts_with("temp-")) {
            manifests.push(entry.path());
        }
    }
    match manifests.as_slice() {
        [manifest] => listed(path, manifest),
        [] => Err(Error::Request(format!("{}: there is no manifest of a log (a file that ends in {MANIFEST})", path.display()))),
        many => Err(Error::Request(format!("{}: there are {} manifests of logs; name one file", path.display(), many.len()))),
    }
}

/// What a line of a manifest says.
#[derive(Debug, Default)]
struct Line {
    file: String,
    number: u64,
    kind: u8,
}

/// The files that a manifest lists: the base, if there is one, and what came after it.
fn listed(directory: &Path, manifest: &Path) -> Result<Vec<PathBuf>> {
    let mut text = Vec::new();
    let file = File::open(manifest).map_err(Error::file(manifest))?;
    file.take(MANIFEST_MAX + 1).read_to_end(&mut text).map_err(Error::file(manifest))?;
    if text.len() as u64 > MANIFEST_MAX {
        return Err(Error::log(manifest, MANIFEST_MAX, "no manifest is as long"));
    }
    let (mut base, mut later, mut newest, mut at) = (None, Vec::new(), 0, 0);
    for bytes in text.split_inclusive(|byte| *byte == b'\n') {
        let wrong = |what: &str| Error::log(manifest, at, what);
        if !bytes.starts_with(b"#") {
            let line = parse(bytes).ok_or_else(|| wrong("this is no line of a manifest"))?;
            let path = directory.join(&line.file);
            match line.kind {
                b'b' if base.is_some() => return Err(wrong("a second base file")),
                b'b' => base = Some(path),
                b'i' if line.number <= newest => return Err(wrong("the numbers of files do not ascend")),
                b'i' => {
                    newest = line.number;
                    later.push(path);
                }
                // Replaced, and kept for a while.
                b'h' => {}
                _ => return Err(wrong("a file of no known type")),
            }
        }
        at += bytes.len() as u64;
    }
    let all: Vec<PathBuf> = base.into_iter().chain(later).collect();
    if all.is_empty() { Err(Error::log(manifest, at, "it lists no file")) } else { Ok(all) }
}

/// `file NAME seq NUMBER type LETTER`, and perhaps more pairs. Names are quoted as in an inline request.
fn parse(line: &[u8]) -> Option<Line> {
    let mut parser = Parser::default();
    parser.feed(line).ok()??;
    let words: Vec<&[u8]> = parser.arguments(line).collect();
    let mut found = Line::default();
    for pair in words.chunks(2) {
        let [name, value] = pair else { return None };
        let value = std::str::from_utf8(value).ok()?;
        match () {
            () if name.eq_ignore_ascii_case(b"file") => found.file = value.into(),
            () if name.eq_ignore_ascii_case(b"seq") => found.number = value.parse().ok()?,
            () if name.eq_ignore_ascii_case(b"type") => found.kind = *value.as_bytes().first()?,
            () => {}
        }
    }
    let is_name = !found.file.is_empty() && !found.file.contains(['/', '\\', '\0']) && found.file != "..";
    (is_name && found.number > 0 && found.kind != 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_manifests() {
        let line = parse(b"file appendonly.aof.1.base.rdb seq 1 type b\n").unwrap();
        assert_eq!((line.file.as_str(), line.number, line.kind), ("appendonly.aof.1.base.rdb", 1, b'b'));
        let line = parse(b"file \"with blank\" seq 12 type i more of\r\n").unwrap();
        assert_eq!((line.file.as_str(), line.number, line.kind), ("with blank", 12, b'i'));
        for wrong in [
            &b"\n"[..],
            b"file a seq 1 type b",
            b"file a seq 1\n",
            b"file a seq 0 type b\n",
            b"file ../a seq 1 type b\n",
            b"file .. seq 1 type b\n",
            b"file a seq x type b\n",
            b"file a seq 1 type\n",
            b"file \"a seq 1 type b\n",
            b"*1\r\n$1\r\nx\r\n",
        ] {
            assert!(parse(wrong).is_none(), "{}", wrong.escape_ascii());
        }
    }
}
