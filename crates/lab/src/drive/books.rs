//! The books of a run: writes of its clients beside the figures of the store.

use super::gauge::{self, Gauge};
use crate::result::Process;
use crate::run::{PROCESS, Source};
use crate::system::{Figures, Outcome, System};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Completes the figures of a system, so that the figures of all engines mean the same.
pub(super) struct Books {
    pub source: Source,
    /// Directories of the store; none if it lies in directories of the user's, where the engine's own figures count.
    pub directories: Vec<PathBuf>,
    /// Bytes that the process had written when the store was opened.
    pub written_at_open: u64,
    /// Figures at the end of the last phase, where the next phase begins: bytes that compactions write between two phases count for the
    /// second, so that none is lost.
    pub figures: Figures,
    /// Bytes that the process had written at the end of the last phase.
    pub process_written: u64,
}

impl Books {
    /// Books of a store that is opened now in `directories`.
    pub fn open(source: Source, directories: Vec<PathBuf>, written_at_open: u64) -> Self {
        Books { source, directories, written_at_open, figures: Figures::default(), process_written: written_at_open }
    }

    /// The system's figures, completed: user bytes are those that the clients wrote; the size of the store is that of its directories (in a
    /// volume, of its files); and where the engine does not count writes itself, the writes of the process stand in.
    pub fn read<T: System>(&self, system: &T, gauges: &[Gauge], process: &Process) -> Outcome<Figures> {
        let mut figures = system.figures()?;
        figures.user_bytes = self.figures.user_bytes + gauge::written(gauges);
        if figures.beneath.is_none() && !self.directories.is_empty() {
            figures.store_bytes = self.directories.iter().map(|directory| directory_bytes(directory)).sum();
        }
        if self.source == Source::Process {
            figures.written = vec![(PROCESS.into(), process.written_bytes.saturating_sub(self.written_at_open))];
        }
        Ok(figures)
    }
}

/// Bytes of all files below a directory. For a file that is longer than its blocks (sparse) or shorter (preallocated) the smaller number
/// counts. Files may vanish meanwhile.
pub(super) fn directory_bytes(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { directory_bytes(&entry.path()) } else { metadata.len().min(metadata.blocks() * 512) };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::model::ModelOpener;

    #[test]
    fn a_directory_is_as_large_as_what_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("below")).unwrap();
        fs::write(directory.path().join("a"), vec![1; 10_000]).unwrap();
        fs::write(directory.path().join("below/b"), vec![1; 5000]).unwrap();
        fs::File::create(directory.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        // Blocks of new files may be given later.
        fs::File::open(directory.path().join("a")).unwrap().sync_all().unwrap();
        fs::File::open(directory.path().join("below/b")).unwrap().sync_all().unwrap();
        assert_eq!(directory_bytes(directory.path()), 15_000);
        assert_eq!(directory_bytes(&directory.path().join("absent")), 0);
    }

    #[test]
    fn an_engine_without_books_has_those_of_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let system = ModelOpener::default().open(true);
        let mut books = Books::open(Source::Process, vec![directory.path().to_owned()], 100);
        books.figures.user_bytes = 7;
        let process = Process { written_bytes: 150, ..Process::default() };
        let figures = books.read(&system, &[], &process).unwrap();
        assert_eq!((figures.user_bytes, figures.written), (7, vec![("process".into(), 50)]));
        books.source = Source::Engine;
        assert_eq!(books.read(&system, &[], &process).unwrap().written, [("wal".into(), 0)]);
    }
}
