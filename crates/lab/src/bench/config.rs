//! Parameters of a bench run; the names are db_bench's flags.

/// Parameters of the workloads. The settings of the database are not here.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchConfig {
    /// Key numbers run from 0 to `num`; also the operations per thread where nothing else says so.
    pub num: u64,
    /// Reads per thread; default `num`.
    pub reads: Option<u64>,
    /// Writes per thread; default `num`, which 0 means too (to loads and `overwrite`, as in db_bench).
    pub writes: Option<u64>,
    /// Deletes per thread; default `num`.
    pub deletes: Option<u64>,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Compressed size of values as a share of their size, about.
    pub compression_ratio: f64,
    /// Threads per workload.
    pub threads: usize,
    /// Seconds after which random workloads end; 0: they end by count.
    pub duration: u64,
    /// Seed of all streams.
    pub seed: u64,
    /// Entries per write batch, keys per multi-get.
    pub batch_size: u64,
    /// Entries read behind each seek.
    pub seek_nexts: u64,
    /// `readrandomwriterandom`: percent of reads.
    pub readwritepercent: u64,
    /// Above 0: random reads and updates draw keys by Zipf's law with this exponent.
    pub zipf_alpha: f64,
    /// Above 0: random reads draw keys by db_bench's exponential law with this range.
    pub read_random_exp_range: f64,
    /// Whether to keep the contents of the database; loads (`fill...`) are skipped then.
    pub use_existing_db: bool,
    /// Every write is durable before it returns.
    pub sync: bool,
    /// Key and value bytes per second of all threads together, written by loads, `overwrite`, `updaterandom` and the writer beside readers;
    /// 0: no limit.
    pub benchmark_write_rate_limit: u64,
    /// Time every operation. One clock read (about 21 ns) per operation.
    pub time_operations: bool,
}

impl Default for BenchConfig {
    fn default() -> Self {
        BenchConfig {
            num: 1_000_000,
            reads: None,
            writes: None,
            deletes: None,
            key_size: 16,
            value_size: 100,
            compression_ratio: 0.5,
            threads: 1,
            duration: 0,
            seed: 1,
            batch_size: 1,
            seek_nexts: 0,
            readwritepercent: 90,
            zipf_alpha: 0.0,
            read_random_exp_range: 0.0,
            use_existing_db: false,
            sync: false,
            benchmark_write_rate_limit: 0,
            time_operations: true,
        }
    }
}

/// Largest number of threads; more is taken for a typing error.
const MAX_THREADS: usize = 1024;
/// Largest value: the engine's limits lie below 4 GiB.
const MAX_VALUE: usize = 1 << 30;
/// Longest key; those of `readmissing` are longer by one.
const MAX_KEY: usize = 65_534;

impl BenchConfig {
    /// Checks the parameters. Returns all complaints; empty if there are none.
    pub fn validate(&self) -> Vec<String> {
        let room = if self.key_size >= 8 { u64::MAX } else { 1u64 << (8 * self.key_size) };
        let share = |x: f64| (0.0..=1.0).contains(&x);
        let checks = [
            (self.num >= 1, "num must be at least 1".to_string()),
            ((1..=MAX_KEY).contains(&self.key_size), format!("key_size must be 1 to {MAX_KEY}, not {}", self.key_size)),
            (self.num <= room, format!("keys of {} bytes have room for {room} numbers, num is {}", self.key_size, self.num)),
            (self.value_size <= MAX_VALUE, format!("value_size must be at most {MAX_VALUE}, not {}", self.value_size)),
            (share(self.compression_ratio), format!("compression_ratio must be 0 to 1, not {}", self.compression_ratio)),
            ((1..=MAX_THREADS).contains(&self.threads), format!("threads must be 1 to {MAX_THREADS}, not {}", self.threads)),
            ((1..=1 << 20).contains(&self.batch_size), format!("batch_size must be 1 to 1048576, not {}", self.batch_size)),
            (self.duration <= 1_000_000_000, format!("duration must be at most 1000000000, not {}", self.duration)),
            (self.readwritepercent <= 100, format!("readwritepercent must be 0 to 100, not {}", self.readwritepercent)),
            ((0.0..=100.0).contains(&self.zipf_alpha), format!("zipf_alpha must be 0 to 100, not {}", self.zipf_alpha)),
            (
                (0.0..=1e6).contains(&self.read_random_exp_range),
                format!("read_random_exp_range must be 0 to 1000000, not {}", self.read_random_exp_range),
            ),
            (self.zipf_alpha == 0.0 || self.read_random_exp_range == 0.0, "zipf_alpha and read_random_exp_range exclude each other".into()),
        ];
        checks.into_iter().filter(|(good, _)| !good).map(|(_, complaint)| complaint).collect()
    }
}
