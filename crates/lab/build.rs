//! Tells the laboratory its commit, `-dirty` behind it where files differ from that; nothing where there is no repository.

use std::path::Path;
use std::process::Command;

/// The sources whose change makes another version; they are all that a measurement depends on.
const SOURCES: [&str; 3] = ["../lab/src", "../engine/src", "../storage/src"];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}

fn main() {
    // HEAD says which branch, its log changes with every commit. A file that is not there would make every build a new one.
    let heads = ["HEAD", "logs/HEAD"].into_iter().filter_map(|file| git(&["rev-parse", "--git-path", file]));
    let sources = SOURCES.into_iter().map(str::to_string);
    for path in heads.chain(sources).filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    // Without tags, `describe` gives the whole hash.
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]) {
        println!("cargo:rustc-env=SINTER_COMMIT={commit}");
    }
}
