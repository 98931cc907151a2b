//! The runs of a study in one file, `runs.jsonl.zst`: JSON lines, compressed by zstd, readable with `zstdcat`. The first line is the
//! study's request. Each other line is one run, `{"run":N,"record":{...}}`, in ascending order of numbers.
//!
//! While a study runs, its folder holds the loose files `study.json` and `runs/NNNN.json`. [`archive()`] moves them into the archive. A
//! loose file replaces its counterpart in the archive, so that a study can go on after it was archived, and an interrupted [`archive()`]
//! loses nothing.

use super::Error;
use super::whole::write_whole;
use crate::run::{RECORD_VERSION, RunRecord};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Name of the archive in a result folder.
pub const ARCHIVE: &str = "runs.jsonl.zst";
/// Name of the loose file of a study.
pub const STUDY: &str = "study.json";
/// Name of the directory of loose runs.
pub const RUNS: &str = "runs";

/// Level of zstd: an archive is written once.
const LEVEL: i32 = 19;
/// Largest window of a zstd frame that is accepted, as a power of two: 128 MiB.
const WINDOW_LOG: u32 = 27;
/// Longest line that is read, bytes. The longest record of our studies takes 0.8 MB.
const LONGEST_LINE: u64 = 64 << 20;
/// Largest archive that is read, bytes after decompression.
const LARGEST: u64 = 1 << 30;

/// A JSON text of a result folder.
#[derive(Debug)]
pub struct Text {
    /// File of the text, or the archive and the line in it; errors name it.
    pub place: String,
    /// The text.
    pub json: String,
}

/// The part of a record by which a program sees whether it can read the rest.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

impl Text {
    /// Reads a loose file; `None` if there is none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn loose(file: &Path) -> Result<Option<Text>, Error> {
        match fs::read_to_string(file) {
            Ok(json) => Ok(Some(Text { place: file.display().to_string(), json })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(&file.display(), &error)),
        }
    }

    /// Parses the text.
    ///
    /// # Errors
    /// Text that is damaged, or holds something else.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.json).map_err(|error| wrong(&self.place, &error))
    }

    /// Parses the text as a record.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); a record of another version.
    pub fn record(&self) -> Result<RunRecord, Error> {
        // The version first: a record of another version may lack any field, and that is not damage.
        match self.parse()? {
            Head { version: RECORD_VERSION } => self.parse(),
            Head { version } => {
                Err(wrong(&self.place, &format_args!("record version {version}, this program reads version {RECORD_VERSION}")))
            }
        }
    }

    /// The text in one line.
    fn line(&self) -> Result<Box<RawValue>, Error> {
        let json = self.json.trim();
        let one = if json.contains(['\n', '\r']) { self.parse::<Value>()?.to_string() } else { json.to_owned() };
        RawValue::from_string(one).map_err(|error| wrong(&self.place, &error))
    }
}

/// A line of the archive.
#[derive(Serialize, Deserialize)]
struct Line {
    run: usize,
    record: Box<RawValue>,
}

/// The study and the runs of a result folder.
#[derive(Debug, Default)]
pub struct Stored {
    /// The request of the study.
    pub study: Option<Text>,
    /// Records by the names of their loose files, `NNNN.json`.
    pub runs: BTreeMap<String, Text>,
}

impl Stored {
    /// Reads the archive and the loose files of a folder.
    ///
    /// # Errors
    /// Files that cannot be read, or a damaged archive.
    pub fn read(folder: &Path) -> Result<Stored, Error> {
        let mut stored = Self::archived(folder)?;
        if let Some(study) = Text::loose(&folder.join(STUDY))? {
            stored.study = Some(study);
        }
        let runs = folder.join(RUNS);
        for name in names(&runs).map_err(|error| wrong(&runs.display(), &error))? {
            if let Some(text) = Text::loose(&runs.join(&name))? {
                stored.runs.insert(name, text);
            }
        }
        Ok(stored)
    }

    /// Reads the archive of a folder without its loose files; empty where there is none.
    ///
    /// # Errors
    /// A damaged archive; the message names the line.
    pub fn archived(folder: &Path) -> Result<Stored, Error> {
        let path = folder.join(ARCHIVE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Stored::default()),
            Err(error) => return Err(wrong(&path.display(), &error)),
        };
        let mut lines = decompressed(file).map_err(|error| wrong(&path.display(), &error))?;
        let mut stored = Stored::default();
        for number in 1.. {
            let place = format!("{}, line {number}", path.display());
            let Some(json) = next(&mut lines).map_err(|error| wrong(&place, &error))? else { break };
            let text = Text { place: place.clone(), json };
            if number == 1 {
                let fields: BTreeMap<String, IgnoredAny> = text.parse()?;
                if !fields.contains_key("version") || fields.contains_key("run") {
                    return Err(wrong(&text.place, &"the first line has to be the study"));
                }
                stored.study = Some(text);
                continue;
            }
            let Line { run, record } = text.parse()?;
            let record = Text { place, json: record.get().to_owned() };
            if let Some(twice) = stored.runs.insert(run_name(run), record) {
                return Err(wrong(&text.place, &format_args!("run {run} is there twice, also in {}", twice.place)));
            }
        }
        if stored.study.is_none() {
            return Err(wrong(&path.display(), &"empty, without even a study"));
        }
        Ok(stored)
    }
}

/// Moves the loose files of a study into the archive of its folder. The study must have ended.
///
/// # Errors
/// A folder without a study, damaged files, a full medium. The loose files then still exist.
pub fn archive(folder: &Path) -> Result<PathBuf, Error> {
    let stored = Stored::read(folder)?;
    let study = stored.study.as_ref().ok_or_else(|| wrong(&folder.display(), &"no study there"))?.line()?;
    let mut lines = vec![serde_json::to_string(&study)];
    let mut loose = vec![folder.join(STUDY)];
    // Files with other names do not belong to the study.
    let numbered = stored.runs.iter().filter_map(|(name, text)| Some((number(name)?, name, text)));
    let mut numbered: Vec<_> = numbered.filter(|(run, name, _)| run_name(*run) == **name).collect();
    numbered.sort_by_key(|(run, ..)| *run);
    for (run, name, text) in numbered {
        // A record that no reader would understand stays a loose file, which can be removed.
        text.record()?;
        lines.push(serde_json::to_string(&Line { run, record: text.line()? }));
        loose.push(folder.join(RUNS).join(name));
    }
    let file = folder.join(ARCHIVE);
    write_whole(&file, |new| {
        let mut encoder = zstd::Encoder::new(new, LEVEL)?;
        encoder.include_checksum(true)?;
        let mut bytes = 0;
        for line in lines {
            let line = line? + "\n";
            bytes += line.len() as u64;
            // Readers accept no more.
            if line.len() as u64 > LONGEST_LINE || bytes > LARGEST {
                return Err(io::Error::new(ErrorKind::InvalidData, "a record is too long, or all of them together are"));
            }
            encoder.write_all(line.as_bytes())?;
        }
        encoder.finish().map(drop)
    })?;
    // The archive's name must survive a power cut before the loose files are removed.
    let removed = File::open(folder).and_then(|folder| folder.sync_all()).and_then(|()| loose.iter().try_for_each(|file| remove(file)));
    removed.map_err(|error| Error::Failed(format!("{}: {error}", folder.display())))?;
    // A directory with other files stays.
    let _ = fs::remove_dir(folder.join(RUNS));
    Ok(file)
}

/// Name of the loose file of a run.
pub fn run_name(number: usize) -> String {
    format!("{number:04}.json")
}

/// Number of a run by the name of its loose file.
pub fn number(name: &str) -> Option<usize> {
    name.strip_suffix(".json")?.parse().ok()
}

/// Names of `runs/*.json`; unfinished files have other endings.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "json"));
    Ok(names)
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn decompressed(file: File) -> io::Result<impl BufRead> {
    let mut decoder = zstd::Decoder::new(file)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(BufReader::new(decoder.take(LARGEST)))
}

/// The next line; `None` at the end.
fn next(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    match lines.take(LONGEST_LINE).read_line(&mut line)? {
        0 => Ok(None),
        _ if line.pop() == Some('\n') => Ok(Some(line)),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "the line does not end, or is too long")),
    }
}

fn wrong(place: &dyn Display, what: &dyn Display) -> Error {
    Error::Request(format!("{place}: {what}"))
}
