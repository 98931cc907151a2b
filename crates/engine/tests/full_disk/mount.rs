//! Small real file systems. They are mounted in a mount namespace of the test's own process (`unshare`), so that they go with it however it
//! ends; a guard unmounts them before that, so that their directory can be removed.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says so where everyone sees it: the harness hides what a passing test prints.
pub fn say(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Runs a program; its error output if it fails or is missing.
fn run(program: &str, args: &[&OsStr]) -> Result<(), String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|e| format!("{program}: {e}"))?;
    let text = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {}", text())) }
}

/// Runs the test of this name again, with `variable` set, in a process that may mount, or says that none may. Root gets a mount namespace;
/// anyone else a user namespace too, in which a tmpfs can be mounted.
///
/// # Panics
/// If the test fails there, or if there is none of that name.
pub fn run_where_mounting_is_allowed(test: &str, variable: &str) {
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let words = |way: &[&'static str], rest: &[&'static str]| [way, rest].concat().into_iter().map(OsStr::new).collect::<Vec<_>>();
    let mut reason = String::new();
    for way in ways {
        match run("unshare", &words(way, &["true"])) {
            Err(error) => reason = error,
            Ok(()) => {
                let itself = std::env::current_exe().expect("the path of the test");
                let ended = Command::new("unshare")
                    .args(way)
                    .arg(itself)
                    .args(["--exact", test, "--nocapture"])
                    .env(variable, "1")
                    .stderr(Stdio::inherit())
                    .output()
                    .expect("unshare just ran");
                let report = String::from_utf8_lossy(&ended.stdout);
                assert!(ended.status.success() && report.contains(" 1 passed"), "{test} in its namespace: {}\n{report}", ended.status);
                return;
            }
        }
    }
    say(&format!("SKIPPED {test}: no mount namespace is to be had here ({reason})"));
}

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    path: PathBuf,
}

impl Mounted {
    /// A tmpfs with the options of its size, at a new directory in `scratch`.
    pub fn tmpfs(scratch: &Path, options: &str) -> Result<Mounted, String> {
        Self::mount(scratch.join("tmpfs"), &["-t", "tmpfs", "-o", options, "tmpfs"].map(OsStr::new))
    }

    /// An ext4 of so many bytes, in a file in `scratch` behind a loop device, which goes with the mount. No blocks are kept back for root.
    pub fn ext4(scratch: &Path, bytes: u64) -> Result<Mounted, String> {
        let image = scratch.join("ext4.image");
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(bytes));
        made.map_err(|e| e.to_string())?;
        run("mkfs.ext4", &[OsStr::new("-q"), OsStr::new("-F"), OsStr::new("-m"), OsStr::new("0"), image.as_os_str()])?;
        Self::mount(scratch.join("ext4"), &[OsStr::new("-o"), OsStr::new("loop"), image.as_os_str()])
    }

    fn mount(path: PathBuf, what: &[&OsStr]) -> Result<Mounted, String> {
        std::fs::create_dir(&path).map_err(|e| e.to_string())?;
        run("mount", &[what, &[path.as_os_str()]].concat())?;
        Ok(Mounted { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that fails may leave files open: then at least the name goes now, and the rest with the process.
        if let Err(error) = run("umount", &[self.path.as_os_str()]).or_else(|_| run("umount", &[OsStr::new("-l"), self.path.as_os_str()])) {
            say(&format!("{} stays mounted: {error}", self.path.display()));
        }
    }
}
