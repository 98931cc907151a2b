//! Runs `testdata/compaction/*.txt`: blocks of a command, its lines, `----` and the expected answer. `REWRITE=1` writes
//! the answers anew.
//!
//! `define` makes a tree (`L0 run=7` opens a run, `000012: a-f bytes=64M seq=1-100 tombstones=5` adds a table, and
//! `timed=10 times=900-1000 others=1-90` gives some of its entries times of their own), `settings`, `busy`,
//! `damaged` and `env` change what the picker sees until the next `define`; `pick`, `manual from=a to=f before=20`, `debt` and `pace` ask.
//! `pick apply` also changes the tree as if the job had made one table of all inputs, and another one of what is young in them.

use super::super::{Choice, ManualRange, PickEnv, Plan, Span, Young, check_shape, manual, picker};
use super::apply;
use crate::manifest::{KeyRange, OwnTimes, Run, TableInfo, Version};
use crate::pacing::{PaceInput, pace};
use crate::settings::{FamilySettings, Preclude, Style};
use crate::tiering::age::Cut;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

struct State {
    settings: FamilySettings,
    version: Version,
    busy: HashSet<u64>,
    busy_output: Vec<(usize, KeyRange)>,
    damaged: HashSet<u64>,
    hidden: HashMap<u64, u64>,
    now: u64,
    oldest_snapshot: u64,
    newest_snapshot: Option<u64>,
    loading: bool,
    young: Option<Young>,
    two_media: bool,
    room: u64,
    unit: u64,
    rested: u64,
    next_number: u64,
}

impl State {
    fn new(settings: FamilySettings) -> State {
        let version = Version::empty(settings.num_levels);
        State {
            settings,
            version,
            busy: HashSet::new(),
            busy_output: Vec::new(),
            damaged: HashSet::new(),
            hidden: HashMap::new(),
            now: 0,
            oldest_snapshot: 0,
            newest_snapshot: None,
            loading: false,
            young: None,
            two_media: true,
            room: u64::MAX,
            unit: 0,
            rested: 0,
            next_number: 900,
        }
    }

    fn env(&self) -> PickEnv<'_> {
        PickEnv {
            settings: &self.settings,
            busy: &self.busy,
            busy_output: &self.busy_output,
            damaged: &self.damaged,
            hidden: &self.hidden,
            now: self.now,
            oldest_snapshot: self.oldest_snapshot,
            newest_snapshot: self.newest_snapshot,
            expired: Cut::ALL,
            loading: self.loading,
            young: self.young,
            crowded: false,
            room: self.room,
            two_media: self.two_media,
            unit: self.unit,
            rested: self.rested,
        }
    }

    fn command(&mut self, head: &str, lines: &[&str]) -> String {
        let mut words = head.split_whitespace();
        match words.next().unwrap_or_default() {
            "define" => self.define(lines),
            "settings" => self.set(lines),
            "busy" => self.busy(lines),
            "damaged" => self.damaged = lines.iter().flat_map(|l| l.split_whitespace()).map(number).collect(),
            "env" => lines.iter().flat_map(|l| l.split_whitespace()).for_each(|word| match pair(word) {
                ("now", v) => self.now = number(v),
                ("snapshot", v) => self.oldest_snapshot = number(v),
                ("newest-snapshot", v) => self.newest_snapshot = Some(number(v)),
                ("loading", v) => self.loading = v == "true",
                ("media", v) => self.two_media = number(v) > 1,
                ("unit", v) => self.unit = number(v),
                ("room", v) => self.room = number(v),
                ("rested", v) => self.rested = number(v),
                ("after", v) => self.young.get_or_insert(Young { after: 0, since: 0 }).after = number(v),
                ("since", v) => self.young.get_or_insert(Young { after: 0, since: 0 }).since = number(v),
                other => panic!("env {other:?}"),
            }),
            "pick" => {
                let choice = picker(self.settings.style).pick(&self.version, &self.env());
                return self.answer(&choice, words.next() == Some("apply"));
            }
            "manual" => {
                let mut range = ManualRange::default();
                let mut before = 0;
                let mut applies = false;
                for word in words {
                    match pair(word) {
                        ("from", key) => range.from = Some(key.into()),
                        ("to", key) => range.to = Some(key.into()),
                        ("before", n) => before = number(n),
                        ("apply", _) => applies = true,
                        other => panic!("manual {other:?}"),
                    }
                }
                let choice = manual(&self.version, &self.env(), &range, before);
                return self.answer(&choice, applies);
            }
            "debt" => return format!("{}\n", size(picker(self.settings.style).debt(&self.version, &self.settings))),
            "pace" => return format!("{:?}\n", pace(&PaceInput::of(&self.version, &self.settings, 0))),
            other => panic!("unknown command {other:?}"),
        }
        "ok\n".into()
    }

    fn define(&mut self, lines: &[&str]) {
        *self = State::new(self.settings.clone());
        let mut place = (0, 0);
        for line in lines {
            if let Some(rest) = line.strip_prefix('L') {
                let (level, run) = rest.split_once(" run=").unwrap_or((rest, "0"));
                place = (number(level) as usize, number(run));
                self.version.levels[place.0].push(Run { number: place.1, tables: Vec::new() });
            } else {
                let run = self.version.levels[place.0].last_mut().expect("a run was opened");
                run.tables.push(Arc::new(table(line)));
            }
        }
        assert_eq!(check_shape(&self.version), Ok(()));
    }

    fn set(&mut self, lines: &[&str]) {
        let s = &mut self.settings;
        for word in lines.iter().flat_map(|l| l.split_whitespace()) {
            match pair(word) {
                ("style", "leveled") => s.style = Style::Leveled,
                ("style", "universal") => s.style = Style::Universal,
                ("dynamic", v) => s.level_compaction_dynamic_level_bytes = v == "true",
                ("trigger", v) => s.level0_file_num_compaction_trigger = number(v) as usize,
                ("base", v) => s.max_bytes_for_level_base = number(v),
                ("multiplier", v) => s.max_bytes_for_level_multiplier = number(v) as f64,
                ("max_compaction", v) => s.max_compaction_bytes = number(v),
                ("ttl", v) => s.ttl_seconds = number(v),
                ("preclude", v) => s.preclude_last_level_data_seconds = Preclude::Seconds(number(v)),
                ("ratio", v) => s.size_ratio = number(v) as u32,
                ("max_width", v) => s.max_merge_width = number(v) as usize,
                ("soft", v) => s.soft_pending_compaction_bytes_limit = number(v),
                ("hard", v) => s.hard_pending_compaction_bytes_limit = number(v),
                ("slowdown", v) => s.level0_slowdown_writes_trigger = number(v) as usize,
                ("stop", v) => s.level0_stop_writes_trigger = number(v) as usize,
                other => panic!("setting {other:?}"),
            }
        }
    }

    /// `table 12` or `output 3 a-f`.
    fn busy(&mut self, lines: &[&str]) {
        self.busy.clear();
        self.busy_output.clear();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["table", n] => drop(self.busy.insert(number(n))),
                ["output", level, keys] => self.busy_output.push((number(level) as usize, range(keys))),
                _ => panic!("busy {line:?}"),
            }
        }
    }

    /// Makes one table of all that a plan reads, and one of its young data.
    fn made(&mut self, plan: &Plan) -> (Vec<TableInfo>, Vec<TableInfo>) {
        let seqs = || plan.tables().flat_map(|t| [t.min_seq, t.max_seq]);
        let mut table = |bytes: u64, min_seq: u64, max_seq: u64| {
            self.next_number += 1;
            TableInfo { number: self.next_number - 1, bytes, range: plan.range(), min_seq, max_seq, ..TableInfo::default() }
        };
        let (oldest, newest) = (seqs().min().unwrap_or(0), seqs().max().unwrap_or(0));
        let Some(hot) = &plan.hot else { return (vec![table(plan.bytes(), oldest, newest)], Vec::new()) };
        let young = Young { after: hot.old.seq, since: hot.old.time };
        let old: u64 = plan.tables().map(|t| young.due(t)).sum();
        let up = table(plan.bytes() - old, hot.old.seq + 1, newest);
        let up = TableInfo { settled: if plan.bottommost { up.bytes } else { 0 }, ..up };
        (if old > 0 { vec![table(old, oldest, hot.old.seq)] } else { Vec::new() }, vec![up])
    }

    fn answer(&mut self, choice: &Choice, applies: bool) -> String {
        let (name, plan) = match choice {
            Choice::Nothing => return "nothing\n".into(),
            Choice::Move(plan) => ("move", plan),
            Choice::Merge(plan) => ("merge", plan),
            Choice::Drop(plan) => ("drop", plan),
        };
        if applies {
            let (outputs, hot) = self.made(plan);
            self.version = apply(&self.version, choice, outputs, hot);
            assert_eq!(check_shape(&self.version), Ok(()));
        }
        show(name, plan)
    }
}

fn show(name: &str, plan: &Plan) -> String {
    let mut out = format!("{name} {} -> L{} run {}", plan.reason.name(), plan.output_level, plan.output_run);
    let numbers = |tables: &[Arc<TableInfo>]| tables.iter().map(|t| format!(" {:06}", t.number)).collect::<String>();
    out.push_str(if plan.bottommost { " bottommost\n" } else { "\n" });
    for input in &plan.inputs {
        let _ = writeln!(out, "  L{} run {}:{}", input.level, input.run, numbers(&input.tables));
    }
    if let Some(hot) = &plan.hot {
        let key = |key: &Option<Vec<u8>>| key.as_ref().map_or_else(String::new, |key| key.escape_ascii().to_string());
        let span = |span: &Span| format!(" [{}..{})", key(&span.from), key(&span.to));
        let spans: String = hot.spans.iter().map(span).collect();
        let _ = write!(out, "  after {} -> L{} run {}:{spans}", hot.old.seq, plan.output_level - 1, hot.run);
        let over = if hot.grandparents.is_empty() { String::new() } else { format!(" over{}", numbers(&hot.grandparents)) };
        let _ = writeln!(out, "{over}");
    }
    if !plan.cuts.is_empty() {
        let cuts: String = plan.cuts.iter().map(|key| format!(" {}", key.escape_ascii())).collect();
        let _ = writeln!(out, "  cut at{cuts}");
    }
    if !plan.grandparents.is_empty() {
        let _ = writeln!(out, "  grandparents:{}", numbers(&plan.grandparents));
    }
    out
}

fn table(line: &str) -> TableInfo {
    let (file, rest) = line.split_once(": ").expect("number: range");
    let mut words = rest.split_whitespace();
    let range = range(words.next().expect("a range"));
    let mut info = TableInfo { number: number(file), range, bytes: 64 << 20, entries: 1000, ..TableInfo::default() };
    let ends = |text: &str| text.split_once('-').map(|(min, max)| (number(min), number(max))).expect("min-max");
    let mut timed = OwnTimes { entries: 0, times: (u64::MAX, 0), others: (u64::MAX, 0) };
    for word in words {
        match pair(word) {
            ("bytes", v) => info.bytes = number(v),
            ("entries", v) => info.entries = number(v),
            ("tombstones", v) => info.tombstones = number(v),
            ("newest", v) => info.newest_time = number(v),
            ("settled", v) => info.settled = number(v),
            ("seq", v) => (info.min_seq, info.max_seq) = ends(v),
            ("timed", v) => timed.entries = number(v),
            ("times", v) => timed.times = ends(v),
            ("others", v) => timed.others = ends(v),
            other => panic!("table {other:?}"),
        }
    }
    TableInfo { timed: (timed.entries > 0).then_some(timed), ..info }
}

/// `a-f`, or `a-f)` without its end.
fn range(text: &str) -> KeyRange {
    let (from, to) = text.split_once('-').expect("from-to");
    KeyRange { end_exclusive: to.ends_with(')'), ..KeyRange::closed(from, to.trim_end_matches(')')) }
}

fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

fn number(text: &str) -> u64 {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().unwrap_or_else(|e| panic!("{text:?}: {e}")) << shift
}

fn size(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

/// The file with the answers that are given now.
fn answered(text: &str) -> String {
    let mut state = State::new(FamilySettings::default());
    let mut out = String::new();
    for block in text.split("\n\n") {
        let lines: Vec<&str> = block.lines().collect();
        let (comments, rest): (Vec<&str>, Vec<&str>) = lines.iter().partition(|l| l.starts_with('#'));
        comments.iter().for_each(|line| out.extend([line, "\n"]));
        let body: Vec<&str> = rest.into_iter().take_while(|l| *l != "----").filter(|l| !l.is_empty()).collect();
        if let Some((head, lines)) = body.split_first() {
            body.iter().for_each(|line| out.extend([line, "\n"]));
            out.push_str("----\n");
            out.push_str(&state.command(head, lines));
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

#[test]
fn scripts_give_the_expected_choices() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/compaction");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() >= 4, "scripts are missing");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a script");
        let now = answered(&text);
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, now).expect("written");
        } else {
            assert_eq!(text, now, "{}", path.display());
        }
    }
}
