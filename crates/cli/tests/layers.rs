//! Modules have ranks, and each imports only modules of its own rank and lower ones. The table below is the whole architecture: a new
//! module has to be entered here. All complaints come at once, each as `file:line: what`.

use crate::source::{Source, ident, is_word, skip_blank, words, workspace};
use std::collections::{BTreeMap, BTreeSet};

/// Path below `crates` and its rank; ranks leave gaps. `NAME` stands for NAME.rs and all files in the folder NAME, `NAME.rs` for the file
/// alone. The longest entry that fits a file counts, so that files inherit their folder's rank.
const RANKS: &[(&str, u32)] = &[
    ("storage/src/combined_sync", 10),
    ("storage/src/locked", 10),
    ("storage/src/random", 10),
    ("storage/src/store.rs", 10),
    ("storage/src/store/error", 10),
    ("storage/src/store/hint", 10),
    ("storage/src/store/beneath", 10),
    ("storage/src/store/sys", 10),
    ("storage/src/store/behind", 20),
    ("storage/src/store/dir", 20),
    ("storage/src/store/memory", 20),
    ("storage/src/store/fault", 20),
    ("storage/src/store/meter", 20),
    ("storage/src/store/throttle", 20),
    ("storage/src/store/open_files", 20),
    ("storage/src/store/tiers", 20),
    ("storage/src/zoned.rs", 10),
    ("storage/src/zoned/memory", 10),
    ("storage/src/zoned/sys", 10),
    ("storage/src/zoned", 20),
    ("storage/src/zoned_store", 22),
    ("storage/src/place", 25),
    ("storage/src/backup", 25),
    ("storage/src/lib", 25),
    ("engine/src/key", 30),
    ("engine/src/coding", 30),
    ("engine/src/checksum", 30),
    ("engine/src/codec", 30),
    ("engine/src/error", 30),
    ("engine/src/ledger", 30),
    ("engine/src/clock", 30),
    ("engine/src/operator", 30),
    ("engine/src/cursor", 30),
    ("engine/src/limits", 30),
    ("engine/src/slab", 30),
    ("engine/src/cpu", 30),
    ("engine/src/tiering/age", 30),
    ("engine/src/prefetch", 30),
    ("engine/src/manifest/version", 30),
    ("engine/src/settings", 35),
    ("engine/src/tiering", 40),
    ("engine/src/filter", 40),
    ("engine/src/cache", 40),
    ("engine/src/range_del", 40),
    ("engine/src/table", 50),
    ("engine/src/wal", 50),
    ("engine/src/memtable", 50),
    ("engine/src/merge", 60),
    ("engine/src/visible", 60),
    ("engine/src/run_cursor", 60),
    ("engine/src/manifest", 65),
    ("engine/src/memory_split", 70),
    ("engine/src/compaction", 70),
    ("engine/src/pacing", 70),
    ("engine/src/compaction/codec_choice", 75),
    ("engine/src/compaction/auto_codecs", 80),
    ("engine/src/compaction/codec_trials", 80),
    ("engine/src/compaction/collapse", 80),
    ("engine/src/compaction/output", 80),
    ("engine/src/compaction/split_by_age", 80),
    ("engine/src/compaction/subcompactions", 80),
    ("engine/src/compaction/throttle", 80),
    ("engine/src/compaction/job", 80),
    // Parts that know nothing of the open database.
    ("engine/src/db/builder", 84),
    ("engine/src/db/callback", 84),
    ("engine/src/db/end", 84),
    ("engine/src/db/mem", 84),
    ("engine/src/db/obsolete", 84),
    ("engine/src/db/snapshot", 84),
    ("engine/src/db/sync", 84),
    ("engine/src/db/write_options", 84),
    ("engine/src/db/space/refusals", 84),
    ("engine/src/db/space/reservations", 84),
    ("engine/src/db/space/reserve", 84),
    // The open database and its state: stores, trees, families.
    ("engine/src/db.rs", 90),
    ("engine/src/db/open_full", 90),
    ("engine/src/db/tick", 90),
    ("engine/src/db/media", 90),
    ("engine/src/db/view", 91),
    ("engine/src/db/tier_stores", 91),
    ("engine/src/db/family", 92),
    // Decisions and figures about that state.
    ("engine/src/db/batch", 93),
    ("engine/src/db/codec_review", 93),
    ("engine/src/db/confined", 93),
    ("engine/src/db/cutoff_review", 93),
    ("engine/src/db/division", 93),
    ("engine/src/db/jobs", 93),
    ("engine/src/db/properties", 93),
    ("engine/src/db/read", 93),
    ("engine/src/db/space", 93),
    ("engine/src/db/time_samples", 93),
    // Work: jobs, then the write path from the queue to the log.
    ("engine/src/db/background", 94),
    ("engine/src/db/checkpoint", 94),
    ("engine/src/db/iterator", 94),
    ("engine/src/db/mover", 94),
    ("engine/src/db/queue", 94),
    ("engine/src/db/insert", 95),
    ("engine/src/db/schedule", 95),
    ("engine/src/db/admin", 96),
    ("engine/src/db/gate", 96),
    ("engine/src/db/logs", 96),
    ("engine/src/db/space/admission", 96),
    ("engine/src/db/publish", 97),
    ("engine/src/db/records", 97),
    ("engine/src/db/recover", 98),
    ("engine/src/db/write", 98),
    // The whole: opening and checking.
    ("engine/src/db/damage", 99),
    ("engine/src/db/open", 99),
    ("engine/src/db/read_only", 99),
    ("engine/src/db/verify", 99),
    ("engine/src/store", 30),
    ("engine/src/internal", 99),
    ("engine/src/lib", 99),
    ("script/src/sha1", 90),
    ("script/src/number", 90),
    ("script/src/host", 90),
    ("script/src", 95),
    ("server/src/number", 100),
    ("server/src/wide", 100),
    ("server/src/glob", 100),
    ("server/src/bits", 100),
    ("server/src/geohash", 102),
    ("server/src/hyperloglog", 102),
    ("server/src/log", 100),
    ("server/src/system", 100),
    ("server/src/tls", 100),
    ("server/src/resp", 105),
    ("server/src/rdb", 105),
    // Encodings and structures in memory, which know no keyspace.
    ("server/src/keyspace/body", 106),
    ("server/src/keyspace/committer", 106),
    ("server/src/keyspace/entry", 106),
    ("server/src/keyspace/entry_id", 106),
    ("server/src/keyspace/error", 106),
    ("server/src/keyspace/layout", 106),
    ("server/src/keyspace/watch", 106),
    ("server/src/keyspace/written", 106),
    ("server/src/keyspace/backlog", 107),
    ("server/src/keyspace/cleaner", 107),
    ("server/src/keyspace/dead_ranges", 107),
    ("server/src/keyspace/delta", 107),
    ("server/src/keyspace/due", 107),
    ("server/src/keyspace/hot", 107),
    ("server/src/keyspace/turn", 108),
    ("server/src/keyspace/inline", 109),
    // The keyspace and its state.
    ("server/src/keyspace.rs", 110),
    // Work on any key, and figures.
    ("server/src/keyspace/budget", 111),
    ("server/src/keyspace/changes", 111),
    ("server/src/keyspace/counting", 111),
    ("server/src/keyspace/estimate", 111),
    ("server/src/keyspace/eviction", 111),
    ("server/src/keyspace/groups", 111),
    ("server/src/keyspace/keys", 111),
    ("server/src/keyspace/libraries", 111),
    ("server/src/keyspace/own_deadlines", 111),
    ("server/src/keyspace/passed", 111),
    ("server/src/keyspace/pieces", 111),
    ("server/src/keyspace/ranks", 111),
    ("server/src/keyspace/sizes", 111),
    ("server/src/keyspace/stream_position", 111),
    ("server/src/keyspace/unsynced", 111),
    ("server/src/keyspace/waits", 111),
    // Values of each type, whole keyspaces.
    ("server/src/keyspace/collection", 112),
    ("server/src/keyspace/long", 112),
    ("server/src/keyspace/successor", 112),
    ("server/src/keyspace/trace", 112),
    ("server/src/keyspace/fields", 113),
    ("server/src/keyspace/image", 113),
    ("server/src/keyspace/lists", 113),
    ("server/src/keyspace/scans", 113),
    ("server/src/keyspace/sorted", 113),
    ("server/src/keyspace/streams", 113),
    ("server/src/keyspace/members", 114),
    ("server/src/persist", 115),
    ("server/src/feed", 116),
    ("server/src/append", 117),
    ("server/src/replication", 118),
    // Parts that know nothing of a command.
    ("server/src/command/replicas", 118),
    ("server/src/command/transfers", 118),
    // What a command is and works with.
    ("server/src/command.rs", 119),
    ("server/src/command/arguments", 120),
    ("server/src/command/digest", 120),
    ("server/src/command/encoding", 120),
    ("server/src/command/spec", 120),
    // What the run of a request needs: names, keys, waits, steps.
    ("server/src/command/blocking", 120),
    ("server/src/command/client", 120),
    ("server/src/command/comparison", 120),
    ("server/src/command/forms", 120),
    ("server/src/command/hub", 120),
    ("server/src/command/keyspecs", 120),
    ("server/src/command/steps", 120),
    ("server/src/command/syntax", 120),
    ("server/src/command/units", 120),
    ("server/src/command/usage", 120),
    // Commands on data, and their effects.
    ("server/src/command/absent", 121),
    ("server/src/command/bitmaps", 121),
    ("server/src/command/conditional", 121),
    ("server/src/command/dumps", 121),
    ("server/src/command/effects", 121),
    ("server/src/command/geo", 121),
    ("server/src/command/hash_deadlines", 121),
    ("server/src/command/hashes", 121),
    ("server/src/command/hyperloglog", 121),
    ("server/src/command/keys", 121),
    ("server/src/command/lcs", 121),
    ("server/src/command/lists", 121),
    ("server/src/command/members", 121),
    ("server/src/command/memory", 121),
    ("server/src/command/pops", 121),
    ("server/src/command/scan", 121),
    ("server/src/command/sets", 121),
    ("server/src/command/sort", 121),
    ("server/src/command/sorted", 121),
    ("server/src/command/sorted_algebra", 121),
    ("server/src/command/sorted_ranges", 121),
    ("server/src/command/streams", 121),
    ("server/src/command/streams_groups", 121),
    ("server/src/command/streams_ids", 121),
    ("server/src/command/streams_info", 121),
    ("server/src/command/streams_read", 121),
    ("server/src/command/streams_references", 121),
    ("server/src/command/strings", 121),
    ("server/src/command/subcommand", 121),
    // Commands that look at the server or its clients.
    ("server/src/command", 122),
    // The run of a request, and what runs others.
    ("server/src/command/metrics", 123),
    ("server/src/command/session", 123),
    ("server/src/command/debug", 124),
    ("server/src/command/functions", 124),
    ("server/src/command/resuming", 124),
    ("server/src/command/scripting", 124),
    ("server/src/command/scripts", 124),
    ("server/src/command/transactions", 124),
    // The table of all commands.
    ("server/src/command/table", 125),
    ("server/src/testing", 124),
    ("server/src/transfer", 125),
    ("server/src/net", 130),
    ("server/src/lib", 130),
    ("lab/src/workload", 100),
    ("lab/src/system", 110),
    ("lab/src/result", 120),
    ("lab/src/run", 125),
    ("lab/src/statistics", 126),
    ("lab/src/drive", 130),
    ("lab/src/bench", 132),
    ("lab/src/study", 135),
    ("lab/src/advise", 136),
    ("lab/src/published", 136),
    ("lab/src/churn", 136),
    ("lab/src/report", 136),
    ("lab/src/lib", 140),
    ("cli/src", 150),
    ("rivals/src", 150),
];

/// Modules that may import only the listed ones (beside themselves), whatever the ranks say. Modules of a higher rank inside them are
/// exempt.
const ONLY: &[(&str, &[&str])] = &[
    // Pickers are pure: they see versions and settings, never tables.
    (
        "engine/src/compaction",
        &["engine/src/manifest/version", "engine/src/settings", "engine/src/key", "engine/src/tiering/age", "storage/src/store/hint"],
    ),
];

/// Crates by the names under which code imports them.
const CRATES: &[(&str, &str)] = &[
    ("sinter_storage", "storage"),
    ("sinterdb", "engine"),
    ("sinter_script", "script"),
    ("sinter_server", "server"),
    ("sinter_lab", "lab"),
];

/// A module: the folder of its crate, and its path inside.
type Module = (String, Vec<String>);

/// The longest entry of a table that `place` (a path without ending) is or lies in.
fn lookup<'a, T>(table: &'a [(&'a str, T)], place: &str) -> Option<&'a (&'a str, T)> {
    table.iter().filter(|(entry, _)| lies_in(place, entry)).max_by_key(|(entry, _)| entry.len())
}

fn lies_in(place: &str, entry: &str) -> bool {
    match entry.strip_suffix(".rs") {
        Some(file) => place == file,
        None => place.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    }
}

/// A path found in code: its segments and its position.
struct Import {
    segments: Vec<String>,
    alias: Option<String>,
    at: usize,
}

/// Reads the path or use tree at `at`, one import per leaf.
fn tree(code: &[char], at: usize, prefix: &[String], found: &mut Vec<Import>) -> usize {
    let mut segments = prefix.to_vec();
    let mut i = skip_blank(code, at);
    loop {
        let name = ident(code, i);
        if name.is_empty() {
            break;
        }
        i += name.chars().count();
        segments.push(name);
        if code[i..].starts_with(&[':', ':']) {
            i = skip_blank(code, i + 2);
            if code.get(i) == Some(&'{') {
                return group(code, i + 1, &segments, found);
            }
        } else {
            break;
        }
    }
    let mut alias = None;
    let next = skip_blank(code, i);
    if ident(code, next) == "as" {
        let from = skip_blank(code, next + 2);
        let name = ident(code, from);
        i = from + name.chars().count();
        alias = Some(name);
    } else if code.get(i) == Some(&'*') {
        i += 1;
    }
    found.push(Import { segments, alias, at });
    i
}

fn group(code: &[char], at: usize, prefix: &[String], found: &mut Vec<Import>) -> usize {
    let mut i = skip_blank(code, at);
    while i < code.len() && code[i] != '}' {
        let next = tree(code, i, prefix, found);
        i = skip_blank(code, next.max(i + 1));
        if code.get(i) == Some(&',') {
            i = skip_blank(code, i + 1);
        }
    }
    i + 1
}

struct File<'a> {
    source: &'a Source,
    place: String,
    module: Module,
    imports: Vec<Import>,
    /// Names that a `use` brings into the module, where other modules can import them.
    names: BTreeMap<String, Vec<String>>,
}

impl<'a> File<'a> {
    /// `None` for files outside `src` and files of tests.
    fn new(source: &'a Source) -> Option<Self> {
        let place = source.path.strip_prefix("crates/")?.strip_suffix(".rs")?.to_owned();
        let (folder, inside) = place.split_once("/src/")?;
        let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
        if module.iter().any(|name| name == "tests") {
            return None;
        }
        module.pop_if(|last| ["lib", "main"].contains(&last.as_str()));
        let code = &source.production;
        let mut names = BTreeMap::new();
        for at in words(code, "use").into_iter().filter(|at| code.get(skip_blank(code, at + 3)) != Some(&'<')) {
            let mut brought = Vec::new();
            tree(code, at + 3, &[], &mut brought);
            for import in brought {
                let mut segments = import.segments;
                segments.pop_if(|last| last == "self");
                if let Some(name) = import.alias.or_else(|| segments.last().cloned()) {
                    names.insert(name, segments);
                }
            }
        }
        let mut imports = Vec::new();
        for root in ["crate", "super"].into_iter().chain(CRATES.iter().map(|(name, _)| *name)) {
            for at in words(code, root) {
                let starts = at == 0 || !(code[at - 1] == ':' || is_word(code[at - 1]));
                if starts && code[at + root.len()..].starts_with(&[':', ':']) {
                    tree(code, at, &[], &mut imports);
                }
            }
        }
        imports.sort_by_key(|import| import.at);
        let module = (folder.to_owned(), module);
        Some(File { source, place, module, imports, names })
    }
}

struct House<'a> {
    files: BTreeMap<Module, File<'a>>,
}

impl<'a> House<'a> {
    fn new(sources: &'a [Source]) -> Self {
        let mut files: BTreeMap<Module, File<'a>> = BTreeMap::new();
        for file in sources.iter().filter_map(File::new) {
            files.insert(file.module.clone(), file);
        }
        let tests: Vec<Module> =
            files.values().flat_map(|file| file.source.test_modules().into_iter().map(|name| child(&file.module, name))).collect();
        files.retain(|(folder, path), _| !tests.iter().any(|(f, p)| f == folder && path.starts_with(p)));
        House { files }
    }

    /// Turns segments as written in a module into a crate and a path in it; `None` for foreign crates.
    fn absolute(&self, module: &Module, segments: &[String]) -> Option<Module> {
        let (first, rest) = segments.split_first()?;
        let join = |base: &[String], rest: &[String]| [base, rest].concat();
        match first.as_str() {
            "crate" => Some((module.0.clone(), rest.to_vec())),
            "self" => Some((module.0.clone(), join(&module.1, rest))),
            "super" => {
                let ups = segments.iter().take_while(|s| *s == "super").count();
                let base = &module.1[..module.1.len().saturating_sub(ups)];
                Some((module.0.clone(), join(base, &segments[ups..])))
            }
            name => match CRATES.iter().find(|(known, _)| *known == name) {
                Some((_, folder)) => Some(((*folder).to_owned(), rest.to_vec())),
                None => {
                    let local = self.files.contains_key(&child(module, name.to_owned()));
                    local.then(|| (module.0.clone(), join(&module.1, segments)))
                }
            },
        }
    }

    /// The file in which a path ends, after following re-exports.
    fn target(&self, path: &Module, hops: u32) -> Option<&File<'a>> {
        let (folder, segments) = path;
        let whole = (0..=segments.len()).rev().find_map(|n| self.files.get_key_value(&(folder.clone(), segments[..n].to_vec())))?;
        let (module, file) = whole;
        let rest = &segments[module.1.len()..];
        let passed_on = rest.first().and_then(|name| file.names.get(name)).filter(|_| hops < 8);
        let further = passed_on.and_then(|to| self.absolute(module, to)).map(|(f, to)| (f, [&to, &rest[1..]].concat()));
        match further {
            Some(further) if further != *path => self.target(&further, hops + 1),
            _ => Some(file),
        }
    }

    fn complaints(&self, ranks: &[(&str, u32)], only: &[(&str, &[&str])]) -> Vec<String> {
        let mut list = Vec::new();
        for file in self.files.values() {
            let Some((_, rank)) = lookup(ranks, &file.place) else {
                list.push(format!("{}: has no rank; enter it in the table of layers.rs", file.source.path));
                continue;
            };
            for import in &file.imports {
                let Some(target) = self.absolute(&file.module, &import.segments).and_then(|path| self.target(&path, 0)) else { continue };
                let at = format!("{}:{}", file.source.path, file.source.line(import.at));
                let (path, place) = (import.segments.join("::"), &target.place);
                // A file without a rank has a complaint of its own.
                let Some((_, theirs)) = lookup(ranks, place) else { continue };
                if theirs > rank {
                    list.push(format!("{at}: rank {rank} imports {path} ({place}) of rank {theirs}"));
                }
                let restricted = lookup(only, &file.place).filter(|(room, _)| lookup(ranks, room).is_none_or(|(_, own)| own == rank));
                if let Some((room, allowed)) = restricted
                    && !lies_in(place, room)
                    && !allowed.iter().any(|entry| lies_in(place, entry))
                {
                    list.push(format!("{at}: {room} imports {path} ({place}); it may import only {}", allowed.join(", ")));
                }
            }
        }
        list.dedup();
        list
    }

    /// Arrows between neighbours: modules of one folder, each with all that lies in it, and the first import that makes the arrow. A module
    /// and those inside it are one, so arrows between them are none.
    fn neighbours(&self) -> BTreeMap<Module, BTreeMap<Module, String>> {
        let mut arrows: BTreeMap<Module, BTreeMap<Module, String>> = BTreeMap::new();
        for file in self.files.values() {
            for import in &file.imports {
                let Some(target) = self.absolute(&file.module, &import.segments).and_then(|path| self.target(&path, 0)) else { continue };
                let ((folder, from), (theirs, to)) = (&file.module, &target.module);
                let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                if folder == theirs && common < from.len().min(to.len()) {
                    let ends = [from, to].map(|path| (folder.clone(), path[..=common].to_vec()));
                    let [from, to] = ends;
                    let at = || format!("{}:{}", file.source.path, file.source.line(import.at));
                    arrows.entry(from).or_default().entry(to).or_insert_with(at);
                }
            }
        }
        arrows
    }

    /// Complaints about circles of neighbours, which are the largest sets of modules that reach each other: the folder that they lie in,
    /// their names, and the imports that close the circle.
    fn circles(&self) -> Vec<String> {
        let arrows = self.neighbours();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = arrows.keys().map(|from| (from, reach(&arrows, from))).collect();
        let mut found = Vec::new();
        for (from, all) in &reached {
            let ring: Vec<&Module> = all.iter().copied().filter(|to| reached.get(to).is_some_and(|back| back.contains(from))).collect();
            if ring.first() == Some(from) {
                let (folder, path) = from;
                let room = [&[folder.clone(), "src".to_owned()], &path[..path.len() - 1]].concat().join("/");
                let names: Vec<&str> = ring.iter().filter_map(|(_, path)| path.last().map(String::as_str)).collect();
                let inside = |(to, _): &(&Module, &String)| ring.contains(to);
                let closing = ring.iter().flat_map(|one| arrows[*one].iter().filter(inside));
                let closing: String = closing.map(|(to, at)| format!("\n  {at}: imports {}", to.1.join("::"))).collect();
                found.push(format!("{room}: {}: is a circle:{closing}", names.join(" ")));
            }
        }
        found
    }
}

/// Modules that a module imports, directly or not.
fn reach<'a>(arrows: &'a BTreeMap<Module, BTreeMap<Module, String>>, from: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Module> = arrows.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(arrows.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

/// Rows of a table that name no file and no folder with one.
fn idle_rows<'a>(files: &[Source], rows: impl Iterator<Item = &'a str>) -> Vec<String> {
    let places: Vec<&str> = files.iter().filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix(".rs")).collect();
    rows.filter(|row| !places.iter().any(|place| lies_in(place, row))).map(|row| format!("{row}: names no file")).collect()
}

fn child(module: &Module, name: String) -> Module {
    let mut path = module.1.clone();
    path.push(name);
    (module.0.clone(), path)
}

#[test]
fn modules_import_only_lower_ranks() {
    let sources = workspace();
    let allowed = ONLY.iter().flat_map(|(room, allowed)| [*room].into_iter().chain(allowed.iter().copied()));
    let mut complaints = House::new(&sources).complaints(RANKS, ONLY);
    complaints.extend(idle_rows(&sources, RANKS.iter().map(|(row, _)| *row).chain(allowed)));
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn modules_form_no_circles() {
    let sources = workspace();
    let complaints = House::new(&sources).circles();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// A small workspace with every kind of import that the checker has to find or to ignore.
#[test]
fn arrows_are_found() {
    let ranks = [("storage/src", 1), ("engine/src/low", 3), ("engine/src/high", 5), ("engine/src/high/plain", 3), ("engine/src/lib", 9)];
    let only: [(&str, &[&str]); 1] = [("engine/src/high", &["engine/src/low"])];
    let check = |path: &str, text: &str| {
        let files = [
            ("crates/storage/src/lib.rs", "pub struct Store;"),
            ("crates/engine/src/lib.rs", "pub mod low; pub mod high; pub use high::Plain;"),
            ("crates/engine/src/high.rs", "mod plain;\npub use plain::{Plain, Other as Renamed};\n#[cfg(test)]\nmod helpers;"),
            ("crates/engine/src/high/plain.rs", ""),
            ("crates/engine/src/high/helpers.rs", "use crate::top::Everything;"),
            ("crates/engine/src/low.rs", ""),
        ];
        let mut sources: Vec<Source> = files.iter().filter(|(p, _)| *p != path).map(|(p, t)| Source::new(p, t)).collect();
        sources.push(Source::new(path, text));
        House::new(&sources).complaints(&ranks, &only)
    };
    let low = "crates/engine/src/low.rs";
    assert_eq!(
        check(low, "use crate::high::Thing;"),
        ["crates/engine/src/low.rs:1: rank 3 imports crate::high::Thing (engine/src/high) of rank 5"]
    );
    let three = check(low, "use super::{\n    high::Thing,\n    low,\n    high,\n};\nfn f() -> crate::high::Thing {}");
    let lines: Vec<&str> = three.iter().filter_map(|c| c.split(": ").next()).collect();
    assert_eq!(lines, ["crates/engine/src/low.rs:2", "crates/engine/src/low.rs:4", "crates/engine/src/low.rs:6"], "{three:?}");
    for fine in [
        "use crate::high::{Plain, Renamed};",
        "use crate::Plain; use std::fmt; use crate::low::x;",
        "// use crate::high::Thing;\nconst X: &str = \"crate::high::Thing\";",
        "#[cfg(test)]\nmod tests { use crate::high::Thing; }",
        "use sinter_storage::Store;",
        "mod crate_high {}",
    ] {
        assert_eq!(check(low, fine), [""; 0], "{fine}");
    }
    assert_eq!(check("crates/engine/src/low/deep.rs", "use super::super::high::Thing;").len(), 1, "files inherit the folder's rank");
    assert_eq!(check("crates/storage/src/lib.rs", "use sinterdb::low::Low;").len(), 1, "crates are arrows too");
    assert_eq!(check("crates/engine/src/new.rs", ""), ["crates/engine/src/new.rs: has no rank; enter it in the table of layers.rs"]);
    assert_eq!(check("crates/engine/src/high/picker.rs", "use sinter_storage::Store; use crate::low::Low; use super::Plain;").len(), 1);
    assert_eq!(
        check("crates/engine/src/high/plain.rs", "use super::Thing;").len(),
        1,
        "a lower file in a folder does not import its parent"
    );
}

#[test]
fn circles_are_found() {
    let check = |extra: &[(&str, &str)]| {
        let files = [
            ("crates/engine/src/lib.rs", "mod a; mod b; mod c; pub use a::Alpha;"),
            ("crates/engine/src/a.rs", "mod deep;\npub use deep::Deep;\nuse crate::b::Beta;"),
            ("crates/engine/src/a/deep.rs", "use super::Alpha;"),
            ("crates/engine/src/b.rs", "use super::c::Gamma;"),
            ("crates/engine/src/c.rs", "#[cfg(test)]\nmod tests { use crate::a::Alpha; }"),
        ];
        let kept = files.iter().filter(|(path, _)| !extra.iter().any(|(other, _)| other == path));
        let sources: Vec<Source> = kept.chain(extra).map(|(path, text)| Source::new(path, text)).collect();
        House::new(&sources).circles()
    };
    assert_eq!(check(&[]), [""; 0], "a module and its children are one, and tests may import everything");
    let through_child = check(&[("crates/engine/src/c.rs", "fn f() -> crate::a::Deep {}")]);
    let circle = "engine/src: a b c: is a circle:\n  crates/engine/src/a.rs:3: imports b\n  crates/engine/src/b.rs:1: imports c\n  \
                  crates/engine/src/c.rs:1: imports a";
    assert_eq!(through_child, [circle]);
    assert_eq!(check(&[("crates/engine/src/c.rs", "use crate::a::Alpha;")]), [circle], "re-exports are followed");
    let inside = [("crates/engine/src/a/deep.rs", "use super::more::More;"), ("crates/engine/src/a/more.rs", "use super::deep::Deep;")];
    assert_eq!(check(&inside)[0].lines().next(), Some("engine/src/a: deep more: is a circle:"));
}

#[test]
fn rows_without_a_file_are_found() {
    let sources = [Source::new("crates/engine/src/a.rs", ""), Source::new("crates/engine/src/b/deep.rs", "")];
    let rows = ["engine/src", "engine/src/a", "engine/src/b", "engine/src/b/deep", "engine/src/a.rs"];
    assert_eq!(idle_rows(&sources, rows.into_iter()), [""; 0]);
    assert_eq!(idle_rows(&sources, ["engine/src/de", "engine/src/b.rs"].into_iter()).len(), 2);
}
