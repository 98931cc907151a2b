//! Location of the log, and the files there that belong to it.

use crate::persist::manifest::{BASE, HISTORY, INCREMENT, Listed, MANIFEST, read_manifest};
use crate::persist::sync_directory;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Start of the comment line in SinterDB's manifests, before the name of the data set. Redis ignores the line.
const MARK: &str = "# sinterdb ";

/// A directory, and the name that all files of the log begin with.
#[derive(Debug, Clone)]
pub struct LogLocation {
    /// The directory.
    pub directory: PathBuf,
    /// Prefix of the names of all files of the log.
    pub name: String,
    /// Name of the data set that the log belongs to.
    pub mark: String,
}

impl LogLocation {
    pub(super) fn manifest(&self) -> String {
        format!("{}{MANIFEST}", self.name)
    }

    pub(super) fn base(&self, number: u64) -> String {
        format!("{}.{number}.base.rdb", self.name)
    }

    pub(super) fn increment(&self, number: u64) -> String {
        format!("{}.{number}.incr.aof", self.name)
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The number of a file of the log by its name; `None`: the file is none of the log.
    fn number(&self, file: &str) -> Option<u64> {
        let rest = file.strip_prefix(&self.name)?.strip_prefix('.')?;
        let number: u64 = rest.strip_suffix(".base.rdb").or_else(|| rest.strip_suffix(".incr.aof"))?.parse().ok()?;
        [self.base(number), self.increment(number)].iter().any(|known| known == file).then_some(number)
    }

    /// The files of the log that are there, with their numbers.
    fn files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            found.extend(entry.file_name().to_str().and_then(|name| self.number(name)).map(|number| (number, entry.path())));
        }
        Ok(found)
    }

    /// Creates the directory if it is missing, checks whose log is in it, and returns the largest number of a file there.
    ///
    /// # Errors
    /// The directory has the log of other data, which would be lost; errors of the medium.
    pub(super) fn open(&self) -> Result<u64, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.directory.display());
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let above = self.directory.parent().filter(|above| !above.as_os_str().is_empty());
        sync_directory(above.unwrap_or(Path::new("."))).map_err(failed)?;
        match read_manifest(&self.path(&self.manifest())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(text) if text.starts_with(self.head().as_bytes()) => {}
            Ok(_) => {
                let shown = self.path(&self.manifest()).display().to_string();
                return Err(format!("{shown}: this is the log of other data: import it (sinter import), or move the directory away"));
            }
        }
        Ok(self.files().map_err(failed)?.into_iter().map(|(number, _)| number).max().unwrap_or(0))
    }

    fn head(&self) -> String {
        format!("{MARK}{}\n", self.mark)
    }

    /// The manifest of a base and an increment of this number.
    pub(super) fn text(&self, number: u64) -> String {
        let base = Listed { file: self.base(number), number, kind: BASE };
        let increment = Listed { file: self.increment(number), number, kind: INCREMENT };
        format!("{}{base}{increment}", self.head())
    }

    /// Like `text`, but also lists the files that were listed before and are about to be deleted.
    pub(super) fn text_with_history(&self, number: u64) -> String {
        let old = read_manifest(&self.path(&self.manifest())).unwrap_or_default();
        let lines = old.split_inclusive(|byte| *byte == b'\n').filter_map(Listed::parse);
        let history = lines.filter(|line| line.kind != HISTORY).map(|line| Listed { kind: HISTORY, ..line }.to_string());
        history.fold(self.text(number), |text, line| text + &line)
    }

    /// Removes the files of the log with lower numbers that the manifest does not list: bases that a kill cut short. Without a manifest no
    /// file is removed: it may be all that somebody has of another log.
    ///
    /// # Errors
    /// Errors of the medium.
    pub(super) fn remove_unlisted(&self, number: u64) -> io::Result<()> {
        let manifest = match read_manifest(&self.path(&self.manifest())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read?,
        };
        let lines = manifest.split_inclusive(|byte| *byte == b'\n').filter_map(Listed::parse);
        let listed: Vec<PathBuf> = lines.map(|line| self.path(&line.file)).collect();
        let files = self.files()?.into_iter().filter(|(other, path)| *other < number && !listed.contains(path));
        files.map(|(_, path)| path).try_for_each(fs::remove_file)
    }

    /// Removes all files of the log with lower numbers: the manifest does not need them.
    ///
    /// # Errors
    /// Errors of the medium.
    pub(super) fn remove_before(&self, number: u64) -> io::Result<()> {
        self.files()?.into_iter().filter(|(other, _)| *other < number).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path) -> LogLocation {
        LogLocation { directory: directory.join("logs"), name: "a.aof".into(), mark: "mine".into() }
    }

    #[test]
    fn files_are_known_by_their_names() {
        let place = place(Path::new("x"));
        for (name, number) in [("a.aof.1.base.rdb", Some(1)), ("a.aof.12.incr.aof", Some(12)), ("a.aof.01.incr.aof", None)] {
            assert_eq!(place.number(name), number, "{name}");
        }
        for other in ["a.aof", "a.aof.manifest", "b.aof.1.base.rdb", "a.aof.1.base.aof", "a.aof.x.incr.aof", "a.aof.1.2.incr.aof"] {
            assert_eq!(place.number(other), None, "{other}");
        }
    }

    #[test]
    fn the_log_of_other_data_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        assert_eq!(place.open(), Ok(0));
        for file in [place.base(3), place.increment(4), "other".into()] {
            fs::write(place.path(&file), "").unwrap();
        }
        assert_eq!(place.open(), Ok(4));
        place.remove_unlisted(5).unwrap();
        assert!(place.path(&place.base(3)).exists() && place.path(&place.increment(4)).exists());
        fs::write(place.path(&place.manifest()), place.text(3)).unwrap();
        assert_eq!(place.open(), Ok(4));
        let text = place.text_with_history(4);
        let expected = "# sinterdb mine\nfile a.aof.4.base.rdb seq 4 type b\nfile a.aof.4.incr.aof seq 4 type i\n\
                        file a.aof.3.base.rdb seq 3 type h\nfile a.aof.3.incr.aof seq 3 type h\n";
        assert_eq!(text, expected);
        for file in [place.base(2), place.increment(2), place.increment(3)] {
            fs::write(place.path(&file), "").unwrap();
        }
        place.remove_unlisted(4).unwrap();
        let left = [place.base(3), place.increment(3), place.increment(4), "other".into(), place.manifest()];
        assert!(left.iter().all(|file| place.path(file).exists()) && fs::read_dir(&place.directory).unwrap().count() == left.len());
        place.remove_before(4).unwrap();
        assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 3);
        for manifest in ["file a.aof.1.base.rdb seq 1 type b\n", "# sinterdb yours\n", "# sinterdb mine and\n", ""] {
            fs::write(place.path(&place.manifest()), manifest).unwrap();
            let why = place.open().unwrap_err();
            assert!(why.contains("a.aof.manifest: this is the log of other data"), "{why}");
        }
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(LogLocation { directory: folder.path().join("file"), ..place }.open().is_err());
    }
}
