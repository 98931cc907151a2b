use super::*;
use std::fs;

/// A made-up system: paths and what is in them.
fn made(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    files.iter().for_each(|(path, text)| put(root.path(), path, text));
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// CPU quotas as (group, processors, used, throttled), and memory limits as (group, bytes, used), groups as seen from the root.
type Seen = (Vec<(String, f64, u64, u64)>, Vec<(String, u64, u64)>);

fn seen(root: &tempfile::TempDir) -> Seen {
    let limits = ProcessLimits::find(root.path());
    let name = |group: &Path| format!("/{}", group.strip_prefix(root.path()).unwrap().display());
    let quotas = limits.quotas().into_iter().map(|q| (name(&q.group), q.cpus, q.used_ns, q.throttled)).collect();
    (quotas, limits.memory().into_iter().map(|m| (name(&m.group), m.bytes, m.used)).collect())
}

const V2: (&str, &str) =
    ("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");

#[test]
fn version_2_with_the_limits_of_all_groups() {
    let root = made(&[
        V2,
        ("proc/self/cgroup", "0::/pod/box\n"),
        ("sys/fs/cgroup/pod/box/cpu.max", "200000 100000\n"),
        ("sys/fs/cgroup/pod/box/cpu.stat", "usage_usec 7\nuser_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 1\n"),
        ("sys/fs/cgroup/pod/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/pod/cpu.stat", "usage_usec 11\nnr_throttled 4\n"),
        ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
        ("sys/fs/cgroup/pod/box/memory.high", "1000\n"),
        ("sys/fs/cgroup/pod/box/memory.current", "900\n"),
        ("sys/fs/cgroup/pod/box/memory.stat", "anon 500\nfile 400\ninactive_file 300\nactive_file 100\n"),
        ("sys/fs/cgroup/pod/memory.max", "2000\n"),
        ("sys/fs/cgroup/pod/memory.current", "1900\n"),
        ("sys/fs/cgroup/pod/memory.stat", "inactive_file 20\nactive_file 10\n"),
    ]);
    let (inner, outer) = ("/sys/fs/cgroup/pod/box".to_string(), "/sys/fs/cgroup/pod".to_string());
    let quotas = vec![("/sys/fs/cgroup/pod/box".into(), 2.0, 7000, 2), ("/sys/fs/cgroup/pod".into(), 0.5, 11_000, 4)];
    assert_eq!(seen(&root), (quotas, vec![(inner.clone(), 1000, 500), (outer.clone(), 2000, 1870)]));
    // What is left for files is what the group leaves that is nearest to its limit.
    let for_files = || {
        let limits = ProcessLimits::find(root.path());
        limits.for_files(&limits.memory())
    };
    assert_eq!(for_files(), Some(130));
    put(root.path(), "sys/fs/cgroup/pod/memory.current", "1200\n");
    assert_eq!(for_files(), Some(500));
    // Limits change while the process runs.
    put(root.path(), "sys/fs/cgroup/pod/memory.max", "800\n");
    put(root.path(), "sys/fs/cgroup/pod/cpu.max", "max 100000\n");
    let (quotas, memory) = seen(&root);
    assert_eq!((quotas.len(), memory), (1, vec![(inner, 1000, 500), (outer, 800, 1170)]));
    assert_eq!(for_files(), Some(0));
}

/// Controllers of version 1 that are mounted each by itself, beside a tree of version 2 that has none of them.
#[test]
fn version_1_and_hybrids() {
    let mounts = "33 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                  34 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                  35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let root = made(&[
        ("proc/self/mountinfo", mounts),
        ("proc/self/cgroup", "4:memory:/a\n2:cpuacct:/\n1:cpu:/b/c\n0::/\n"),
        ("proc/self/stat", "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 12 30 0 0 20 0 1 0 5 100 9 18446744073709551615\n"),
        ("sys/fs/cgroup/cpu/b/c/cpu.cfs_quota_us", "150000\n"),
        ("sys/fs/cgroup/cpu/b/c/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/b/c/cpu.stat", "nr_periods 5\nnr_throttled 1\nthrottled_time 99\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpuacct/cpuacct.usage", "123456789\n"),
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n"),
        ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000\n"),
        ("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\nactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n"),
    ]);
    // CPU time is accounted in another tree than it is limited in: the process's own stands in.
    let quotas = vec![("/sys/fs/cgroup/cpu/b/c".into(), 1.5, 420_000_000, 1)];
    assert_eq!(seen(&root), (quotas, vec![("/sys/fs/cgroup/memory/a".into(), 5000, 2500)]));
    let both = mounts.replace("/cpu rw,relatime - cgroup cgroup rw,cpu\n", "/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    put(root.path(), "proc/self/mountinfo", &both);
    put(root.path(), "sys/fs/cgroup/cpu/b/c/cpuacct.usage", "77\n");
    assert_eq!(seen(&root).0[0].2, 77);
}

#[test]
fn groups_that_are_not_visible() {
    let files = |cgroup: &'static str| {
        made(&[V2, ("proc/self/cgroup", cgroup), ("sys/fs/cgroup/cpu.max", "100000 100000\n"), ("sys/fs/cgroup/memory.max", "64\n")])
    };
    let expected: Seen = (vec![("/sys/fs/cgroup".into(), 1.0, 0, 0)], vec![("/sys/fs/cgroup".into(), 64, 0)]);
    for cgroup in ["0::/\n", "0::/../..\n", "0::/../other/box\n", "0::/docker/0123\n", "0::/docker/0123 (deleted)\n"] {
        assert_eq!(seen(&files(cgroup)), expected, "{cgroup}");
    }
    // A container of version 1 sees its own directory at the mount, and itself under the path of its host.
    let mount = "35 31 0:32 /docker/0123 /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n";
    for cgroup in ["4:memory:/docker/0123\n", "4:memory:/elsewhere\n"] {
        let root = made(&[
            ("proc/self/mountinfo", mount),
            ("proc/self/cgroup", cgroup),
            ("sys/fs/cgroup/my memory/memory.limit_in_bytes", "77\n"),
        ]);
        assert_eq!(seen(&root), (vec![], vec![("/sys/fs/cgroup/my memory".into(), 77, 0)]), "{cgroup}");
    }
    // Of several mounts the one that shows the group.
    let mounts = "30 23 0:26 /other /a rw - cgroup2 cgroup2 rw\n30 23 0:26 / /b rw - cgroup2 cgroup2 rw\n";
    let root =
        made(&[("proc/self/mountinfo", mounts), ("proc/self/cgroup", "0::/box\n"), ("a/memory.max", "1\n"), ("b/box/memory.max", "2\n")]);
    assert_eq!(seen(&root).1, vec![("/b/box".into(), 2, 0)]);
}

/// No content of these files may do more harm than their absence.
#[test]
fn garbage_is_a_limit_that_is_not_known() {
    assert_eq!(seen(&made(&[])), (vec![], vec![]));
    let garbage =
        ["", "\n", " ", "max", "-1", "-1 -1", "x y", "0 0", "5", "5 0", "0 5", "18446744073709551616", "1e3 7", "\u{0}\u{feff}", ": - :"];
    for text in garbage {
        let root = made(&[
            V2,
            ("proc/self/cgroup", "0::/box\n"),
            ("proc/stat", text),
            ("proc/self/stat", text),
            ("proc/thread-self/status", &format!("Cpus_allowed_list:\t{text}\n")),
            ("sys/fs/cgroup/box/cpu.max", text),
            ("sys/fs/cgroup/box/cpu.stat", text),
            ("sys/fs/cgroup/box/memory.stat", text),
            ("sys/fs/cgroup/box/memory.current", text),
        ]);
        assert_eq!(seen(&root), (vec![], vec![]), "{text:?}");
        let limits = ProcessLimits::find(root.path());
        assert_eq!((limits.machine(), limits.process_ns()), (vec![], None), "{text:?}");
        for file in ["proc/self/cgroup", "proc/self/mountinfo"] {
            put(root.path(), file, text);
            assert_eq!(seen(&root), (vec![], vec![]), "{file} {text:?}");
        }
        put(root.path(), "proc/self/mountinfo", &format!("1 2 3:4 {text} {text} rw - cgroup2 {text}"));
        put(root.path(), "proc/self/cgroup", &format!("0::{text}\n1:cpu:{text}"));
        assert_eq!(seen(&root), (vec![], vec![]), "{text:?}");
    }
    assert_eq!(parse_list(" 0-2,5\n"), Some(vec![0, 1, 2, 5]));
    assert_eq!((parse_list("0-99999999999"), parse_list("3-1"), parse_list("1,,2")), (None, None, None));
    assert_eq!(parse_cpu("cpu7 1 2 3 4 5 6 7 8 9 10"), Some(CpuTicks { cpu: 7, idle: 9, total: 36 }));
    assert_eq!(parse_cpu("cpu7 1 2 3 4"), Some(CpuTicks { cpu: 7, idle: 4, total: 10 }));
}

/// A limit that cannot be read for a moment is one all the same, and it is said which it is.
#[test]
fn what_cannot_be_read_counts_as_before_and_is_named() {
    let (cpu, max, high) = ("sys/fs/cgroup/box/cpu.max", "sys/fs/cgroup/box/memory.max", "sys/fs/cgroup/box/memory.high");
    let root = made(&[V2, ("proc/self/cgroup", "0::/box\n"), (cpu, "150000 100000\n"), (max, "2000\n"), (high, "max\n")]);
    let limits = ProcessLimits::find(root.path());
    let seen = || {
        let quotas: Vec<f64> = limits.quotas().iter().map(|quota| quota.cpus).collect();
        let memory: Vec<u64> = limits.memory().iter().map(|limit| limit.bytes).collect();
        let unknown = limits.unknown().iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>();
        (quotas, memory, unknown.join(" "))
    };
    assert_eq!(seen(), (vec![1.5], vec![2000], String::new()));
    for text in ["", "garbage\n", "-5\n", "0 0\n", "5 0\n"] {
        put(root.path(), cpu, text);
        put(root.path(), max, text);
        assert_eq!(seen(), (vec![1.5], vec![2000], "cpu.max memory.max".into()), "{text:?}");
    }
    // A directory opens, and cannot be read: for root, too.
    fs::remove_file(root.path().join(max)).unwrap();
    fs::create_dir(root.path().join(max)).unwrap();
    put(root.path(), cpu, "max 100000\n");
    put(root.path(), high, "1500\n");
    assert_eq!(seen(), (vec![], vec![1500], "memory.max".into()), "what is known beside it counts");
    assert_eq!(limits.failures(), 11);
    fs::remove_dir(root.path().join(max)).unwrap();
    assert_eq!(seen(), (vec![], vec![1500], String::new()), "what is gone is no limit");
    put(root.path(), max, "1000\n");
    assert_eq!(seen().1, [1000]);
    // Version 1 as well.
    let mount = "33 31 0:29 / /c rw - cgroup cgroup rw,cpu\n";
    let (quota, period) = ("c/cpu.cfs_quota_us", "c/cpu.cfs_period_us");
    let root = made(&[("proc/self/mountinfo", mount), ("proc/self/cgroup", "1:cpu:/\n"), (quota, "50000\n"), (period, "100000\n")]);
    let limits = ProcessLimits::find(root.path());
    let cpus = || limits.quotas().iter().map(|quota| quota.cpus).collect::<Vec<_>>();
    assert_eq!(cpus(), [0.5]);
    put(root.path(), quota, "0\n");
    put(root.path(), period, "x\n");
    assert_eq!((cpus(), limits.unknown().len()), (vec![0.5], 2));
    put(root.path(), quota, "-1\n");
    assert_eq!(cpus(), [0.0; 0]);
}

/// The files of the system that runs this test, whatever they are, do no harm.
#[test]
fn this_system_is_read() {
    let limits = ProcessLimits::find(Path::new("/"));
    assert!(limits.quotas().iter().all(|quota| quota.cpus > 0.0));
    assert!(limits.memory().iter().all(|memory| memory.bytes < NO_LIMIT));
}
