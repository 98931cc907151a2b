//! Counts of distinct elements in little memory: HyperLogLog (Flajolet and others, 2007) with the estimator of Ertl (arXiv:1702.01284), in
//! strings as Redis has them.
//!
//! ```text
//! "HYLL" | form: 0 dense, 1 sparse | 3 bytes | count that was computed last, 8 bytes, little-endian | registers
//! ```
//!
//! The highest bit of the count says that it is out of date. There are 16384 registers of 6 bits. The lowest 14 bits of an element's hash
//! are the number of its register; the register keeps the largest position, among its elements, of the lowest one bit in the other 50 bits.
//!
//! * Dense: the registers one after the other, each from the lowest free bit of its byte on. 12288 bytes.
//! * Sparse: runs of equal registers. `00llllll`: l + 1 zeros; `01llllll llllllll`: l + 1 zeros, too; `1vvvvvll`: l + 1 times v + 1.
//!
//! A string comes from a user and may hold anything. Damage that does not show in its start and length is noticed where it is read.

use crate::number::to_integer;

/// Registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash that are not the number of a register.
const PLACES: usize = 64 - INDEX_BITS as usize;
/// Bits of a register.
const WIDTH: usize = 6;

const MAGIC: &[u8] = b"HYLL";
/// Offset of the byte that has the form.
const FORM: usize = 4;
/// Offset of the count.
const COUNT: usize = 8;
/// Offset of the registers.
const HEADER: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Bytes of the dense form.
const DENSE_BYTES: usize = HEADER + REGISTERS * WIDTH / 8;

/// Highest bit of the last byte of the count: the count is out of date.
const OUT_OF_DATE: u8 = 0x80;

/// The largest register that the sparse form can have.
const RUN_VALUE_MAX: u8 = 32;
/// Most registers that are not zero in a run.
const RUN_MAX: usize = 4;
/// Most zeros in a run of one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// Runs that are looked at after a change, to put equal ones together.
const JOINED: usize = 5;

/// Encoding of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterEncoding {
    /// Every register at its own position.
    Dense,
    /// Runs of equal registers.
    Sparse,
}

/// Error: the runs of a sparse string do not cover exactly all registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// The form of a string, if its start and its length are valid.
pub fn form(string: &[u8]) -> Option<RegisterEncoding> {
    if string.len() < HEADER || !string.starts_with(MAGIC) {
        return None;
    }
    match *string.get(FORM)? {
        DENSE if string.len() == DENSE_BYTES => Some(RegisterEncoding::Dense),
        SPARSE => Some(RegisterEncoding::Sparse),
        _ => None,
    }
}

/// The count that was computed last, if it is still right.
pub fn known_count(string: &[u8]) -> Option<i64> {
    let bytes = string.get(COUNT..)?.first_chunk::<8>()?;
    (bytes[7] & OUT_OF_DATE == 0).then(|| i64::from_le_bytes(*bytes))
}

/// Notes a count.
pub fn note_count(string: &mut [u8], count: i64) {
    if let Some(bytes) = string.get_mut(COUNT..).and_then(|rest| rest.first_chunk_mut::<8>()) {
        *bytes = count.to_le_bytes();
    }
}

/// `MurmurHash64A`, with the seed that all these counts share.
fn hash(element: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SEED: u64 = 0xadc8_3b19;
    let mix = |number: u64| number ^ number >> 47;
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = element.as_chunks::<8>();
    for word in words {
        let word = mix(u64::from_le_bytes(*word).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    mix(mix(hash).wrapping_mul(FACTOR))
}

/// The register of an element, and the value that the element raises it to.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let index = (hash & (REGISTERS as u64 - 1)) as usize;
    // A one behind the last bit ends the search there.
    let rest = hash >> INDEX_BITS | 1 << PLACES;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Equal registers in the sparse form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Value of each register.
    pub value: u8,
    /// Number of registers.
    pub length: usize,
    /// Bytes of the run's encoding, 1 or 2.
    pub bytes: usize,
}

impl Run {
    /// Reads the run that starts here; `None`: there is no run.
    fn read(bytes: &[u8]) -> Option<Run> {
        let first = *bytes.first()?;
        let low = usize::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Run { value: 0, length: low + 1, bytes: 1 },
            // A byte that is missing at the end counts as zero.
            1 => Run { value: 0, length: (low << 8 | usize::from(bytes.get(1).copied().unwrap_or(0))) + 1, bytes: 2 },
            _ => Run { value: (first >> 2 & 0x1f) + 1, length: usize::from(first & 3) + 1, bytes: 1 },
        })
    }

    /// Appends a run of `length` registers of a value that the sparse form can hold; 0: nothing.
    fn write(out: &mut Vec<u8>, value: u8, length: usize) {
        let Some(low) = length.checked_sub(1) else { return };
        // Callers have lengths that fit.
        match value {
            0 if length <= SHORT_ZEROS_MAX => out.push(low as u8),
            0 => out.extend([0x40 | (low >> 8) as u8, low as u8]),
            value => out.push(0x80 | (value - 1) << 2 | low as u8),
        }
    }
}

/// The runs of a sparse string.
pub fn runs(string: &[u8]) -> impl Iterator<Item = Run> {
    let mut rest = string.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let run = Run::read(rest)?;
        rest = rest.get(run.bytes..).unwrap_or_default();
        Some(run)
    })
}

/// Shows `visit` the runs of a sparse string with their offsets.
fn walk(string: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let mut index = 0;
    for run in runs(string) {
        if index + run.length > REGISTERS {
            return Err(Corrupt);
        }
        visit(index, run);
        index += run.length;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// The registers of a dense string.
fn dense(string: &[u8]) -> impl Iterator<Item = u8> {
    let (groups, _) = string.get(HEADER..).unwrap_or_default().as_chunks::<3>();
    groups.iter().flat_map(|[a, b, c]| [a & 63, (a >> 6 | b << 2) & 63, (b >> 4 | c << 4) & 63, c >> 2])
}

/// The union of many strings: the largest value of each register.
pub struct Union {
    registers: Vec<u8>,
}

impl Default for Union {
    fn default() -> Self {
        Union { registers: vec![0; REGISTERS] }
    }
}

impl Union {
    /// Adds the registers of a string that has a form.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn add(&mut self, string: &[u8]) -> Result<(), Corrupt> {
        let raise = |to: &mut u8, value: u8| *to = (*to).max(value);
        if form(string) == Some(RegisterEncoding::Dense) {
            self.registers.iter_mut().zip(dense(string)).for_each(|(to, value)| raise(to, value));
            return Ok(());
        }
        walk(string, |start, run| {
            let covered = self.registers.get_mut(start..start + run.length).unwrap_or_default();
            covered.iter_mut().for_each(|to| raise(to, run.value));
        })
    }

    /// The estimated number of distinct elements.
    pub fn count(&self) -> i64 {
        let mut histogram = Histogram::default();
        self.registers.iter().for_each(|register| histogram.add(*register, 1));
        histogram.estimate()
    }

    /// The registers.
    pub fn registers(&self) -> &[u8] {
        &self.registers
    }
}

/// The estimated number of distinct elements of a string that has a form.
///
/// # Errors
/// [`Corrupt`].
pub fn count(string: &[u8]) -> Result<i64, Corrupt> {
    let mut histogram = Histogram::default();
    match form(string) {
        Some(RegisterEncoding::Dense) => dense(string).for_each(|register| histogram.add(register, 1)),
        _ => walk(string, |_, run| histogram.add(run.value, run.length))?,
    }
    Ok(histogram.estimate())
}

/// Number of registers with each value.
struct Histogram([u32; 1 << WIDTH]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; 1 << WIDTH])
    }
}

impl Histogram {
    fn add(&mut self, register: u8, number: usize) {
        if let Some(count) = self.0.get_mut(usize::from(register)) {
            *count += number as u32;
        }
    }

    /// Ertl's improved raw estimator, algorithm 6 of the paper.
    fn estimate(&self) -> i64 {
        /// 1 / (2 ln 2)
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let registers = REGISTERS as f64;
        let [zeros, others @ ..] = &self.0;
        let full = f64::from(others.get(PLACES).copied().unwrap_or(0));
        let mut sum = registers * tau((registers - full) / registers);
        for number in others.iter().take(PLACES).rev() {
            sum = 0.5 * (sum + f64::from(*number));
        }
        sum += registers * sigma(f64::from(*zeros) / registers);
        // No hash makes registers beyond the last place; a string may have nothing else, and then there is no estimate.
        to_integer((ALPHA * registers * registers / sum).round())
    }
}

/// x + the sum of x^(2^k) * 2^(k-1) over k from 1 on.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        let before = sum;
        x *= x;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// A third of: 1 - x - the sum of (1 - x^(2^-k))^2 * 2^-k over k from 1 on.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        let before = sum;
        x = x.sqrt();
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// A string that is being changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    string: Vec<u8>,
    /// Largest size at which the string stays sparse, bytes.
    sparse_max: usize,
}

impl Sketch {
    /// A sketch of no elements.
    pub fn new(sparse_max: usize) -> Self {
        let mut string = [MAGIC, &[SPARSE]].concat();
        string.resize(HEADER, 0);
        Run::write(&mut string, 0, REGISTERS);
        Sketch { string, sparse_max }
    }

    /// Wraps a string; `None`: it has no valid form.
    pub fn from(string: Vec<u8>, sparse_max: usize) -> Option<Self> {
        form(&string)?;
        Some(Sketch { string, sparse_max })
    }

    /// The string.
    pub fn bytes(&self) -> &[u8] {
        &self.string
    }

    /// Whether the string is sparse.
    pub fn is_sparse(&self) -> bool {
        self.string.get(FORM) == Some(&SPARSE)
    }

    /// Marks the count as out of date.
    pub fn forget_count(&mut self) {
        if let Some(byte) = self.string.get_mut(HEADER - 1) {
            *byte |= OUT_OF_DATE;
        }
    }

    /// Adds an element; false: no register has changed.
    ///
    /// # Errors
    /// [`Corrupt`], if the damage is noticed; nothing is changed then.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Corrupt> {
        let (index, value) = place(element);
        self.raise(index, value)
    }

    /// Raises a register to at least `value`; false: it was as large.
    ///
    /// # Errors
    /// [`Corrupt`], if the damage is noticed; nothing is changed then.
    pub fn raise(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        if self.is_sparse() { self.raise_sparse(index, value) } else { Ok(self.raise_dense(index, value)) }
    }

    /// Raises a register of the dense form. Its bits start at some bit of a byte, and may end in the next byte.
    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        let (at, shift) = (HEADER + index * WIDTH / 8, index * WIDTH % 8);
        let Some(rest) = self.string.get_mut(at..) else { return false };
        let mut pair = [0; 2];
        pair.iter_mut().zip(rest.iter()).for_each(|(to, from)| *to = *from);
        let (pair, mask) = (u16::from_le_bytes(pair), 63 << shift);
        let grows = u16::from(value) > (pair & mask) >> shift;
        if grows {
            let pair = (pair & !mask | u16::from(value & 63) << shift).to_le_bytes();
            rest.iter_mut().zip(pair).for_each(|(to, from)| *to = from);
        }
        grows
    }

    fn raise_sparse(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        if value > RUN_VALUE_MAX {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        // The run that has the register, its first register, and where the run before it is.
        let (mut at, mut first, mut before) = (HEADER, 0, HEADER);
        let run = loop {
            let run = Run::read(self.string.get(at..).unwrap_or_default()).ok_or(Corrupt)?;
            if index < first + run.length {
                break run;
            }
            before = at;
            at += run.bytes;
            first += run.length;
        };
        if run.value >= value {
            return Ok(false);
        }
        let mut runs = Vec::with_capacity(5);
        Run::write(&mut runs, run.value, index - first);
        Run::write(&mut runs, value, 1);
        Run::write(&mut runs, run.value, first + run.length - 1 - index);
        let grown = self.string.len() + runs.len().saturating_sub(run.bytes);
        if runs.len() > run.bytes && grown > self.sparse_max {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        let end = self.string.len().min(at + run.bytes);
        drop(self.string.splice(at..end, runs));
        self.join(before);
        self.forget_count();
        Ok(true)
    }

    /// Merges equal runs that are neighbours, from the run at `at` on.
    fn join(&mut self, mut at: usize) {
        let read = |string: &[u8], at: usize| Run::read(string.get(at..).unwrap_or_default());
        for _ in 0..JOINED {
            let Some(run) = read(&self.string, at) else { return };
            match read(&self.string, at + run.bytes) {
                Some(next) if run.value > 0 && next.value == run.value && run.length + next.length <= RUN_MAX => {
                    let mut joined = Vec::with_capacity(1);
                    Run::write(&mut joined, run.value, run.length + next.length);
                    drop(self.string.splice(at..at + 2, joined));
                }
                _ => at += run.bytes,
            }
        }
    }

    /// Converts to the dense form; false: it was dense.
    ///
    /// # Errors
    /// [`Corrupt`]; nothing is changed then.
    pub fn make_dense(&mut self) -> Result<bool, Corrupt> {
        if !self.is_sparse() {
            return Ok(false);
        }
        let mut string = self.string.get(..HEADER).unwrap_or_default().to_vec();
        string.resize(DENSE_BYTES, 0);
        if let Some(form) = string.get_mut(FORM) {
            *form = DENSE;
        }
        let mut dense = Sketch { string, sparse_max: self.sparse_max };
        walk(&self.string, |start, run| {
            if run.value > 0 {
                for index in start..start + run.length {
                    dense.raise_dense(index, run.value);
                }
            }
        })?;
        *self = dense;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const SPARSE_MAX: usize = 3000;

    fn sketch(elements: impl IntoIterator<Item = String>) -> Sketch {
        let mut sketch = Sketch::new(SPARSE_MAX);
        for element in elements {
            sketch.add(element.as_bytes()).unwrap();
        }
        sketch
    }

    fn numbers(prefix: &str, n: usize) -> impl Iterator<Item = String> {
        (0..n).map(move |number| format!("{prefix}{number}"))
    }

    /// The string has the bytes that Redis 7.0.15 stores after `PFADD k a b c`.
    #[test]
    fn golden_bytes() {
        let mut sketch = sketch(["a", "b", "c"].map(String::from));
        assert_eq!(
            sketch.bytes(),
            b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x60\xf3\x80\x50\xb1\x84\x4b\xfb\x80\x42\x5a",
            "{:?}",
            runs(sketch.bytes()).collect::<Vec<_>>()
        );
        assert_eq!((count(sketch.bytes()), known_count(sketch.bytes())), (Ok(3), None));
        note_count(&mut sketch.string, 3);
        assert_eq!(known_count(sketch.bytes()), Some(3));
        assert_eq!(Sketch::new(SPARSE_MAX).bytes(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
    }

    #[test]
    fn estimates_are_near() {
        for n in [0, 1, 5, 10, 100, 1000, 10_000, 300_000] {
            let estimate = count(sketch(numbers("element:", n)).bytes()).unwrap();
            let error = (estimate - n as i64).unsigned_abs() as f64;
            // Five standard errors; few elements hardly ever meet in a register.
            assert!(error <= 5.0 * 1.04 / 128.0 * n as f64, "{n}: {estimate}");
        }
    }

    /// Both forms have the same registers, whatever was added.
    #[test]
    fn sparse_and_dense_agree() {
        let mut random = Random(3);
        for _ in 0..20 {
            let (mut sparse, mut dense) = (Sketch::new(1 << 20), Sketch::new(1 << 20));
            assert!(dense.make_dense().unwrap());
            for _ in 0..random.below(2000) {
                let element = random.below(1 << 30).to_string();
                assert_eq!(sparse.add(element.as_bytes()), dense.add(element.as_bytes()));
            }
            assert!(sparse.is_sparse() && !dense.is_sparse());
            assert_eq!(count(sparse.bytes()), count(dense.bytes()));
            let (mut of_sparse, mut of_dense) = (Union::default(), Union::default());
            of_sparse.add(sparse.bytes()).unwrap();
            of_dense.add(dense.bytes()).unwrap();
            assert_eq!(of_sparse.registers(), of_dense.registers());
            assert_eq!(Ok(of_dense.count()), count(sparse.bytes()));
            sparse.forget_count();
            dense.forget_count();
            assert!(sparse.make_dense().unwrap());
            assert_eq!(sparse, dense);
        }
    }

    #[test]
    fn registers_do_not_touch_their_neighbours() {
        let mut random = Random(4);
        let mut sketch = Sketch::new(SPARSE_MAX);
        sketch.make_dense().unwrap();
        let mut expected = vec![0; REGISTERS];
        for _ in 0..3 * REGISTERS {
            let (index, value) = (random.below(REGISTERS), random.below(64) as u8);
            assert_eq!(sketch.raise(index, value), Ok(value > expected[index]));
            expected[index] = value.max(expected[index]);
        }
        assert!(sketch.raise(REGISTERS - 1, 63) == Ok(expected[REGISTERS - 1] < 63));
        expected[REGISTERS - 1] = 63;
        assert_eq!(dense(sketch.bytes()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn it_becomes_dense_when_it_grows() {
        let mut small = sketch(numbers("x", 100));
        assert!(small.is_sparse() && small.bytes().len() < 400);
        let mut large = sketch(numbers("x", 3000));
        assert!(!large.is_sparse() && large.bytes().len() == DENSE_BYTES);
        assert_eq!((small.make_dense(), large.make_dense()), (Ok(true), Ok(false)));
        // A register that runs cannot have.
        let mut high = sketch(numbers("x", 10));
        assert_eq!((high.raise(7, 33), high.is_sparse(), high.raise(7, 33)), (Ok(true), false, Ok(false)));
    }

    #[test]
    fn what_is_no_sketch_is_told_by_its_start_and_length() {
        let good = sketch(numbers("x", 10)).bytes().to_vec();
        assert_eq!(form(&good), Some(RegisterEncoding::Sparse));
        for end in 0..HEADER {
            assert_eq!(form(&good[..end]), None);
        }
        assert_eq!((form(b"HYLX............"), form(b"HYLL\x02..........."), form(b"HYLL\0...........")), (None, None, None));
        assert_eq!(form(&[b"HYLL\0", &[0; DENSE_BYTES - 5][..]].concat()), Some(RegisterEncoding::Dense));
    }

    /// Any bytes behind a right start: an answer or [`Corrupt`], without a panic and without more memory than the dense form takes.
    #[test]
    fn damage_is_noticed_or_harmless() {
        let mut random = Random(5);
        for _ in 0..3000 {
            let mut string = sketch(numbers("x", random.below(200))).bytes().to_vec();
            for _ in 0..=random.below(5) {
                if string.len() == HEADER {
                    break;
                }
                let at = HEADER + random.below(string.len() - HEADER);
                match random.below(3) {
                    0 => string[at] = random.below(256) as u8,
                    1 => string.truncate(at.max(string.len() - 1)),
                    _ => string.insert(at, random.below(256) as u8),
                }
            }
            let all: usize = runs(&string).map(|run| run.length).sum();
            let mut union = Union::default();
            assert_eq!((count(&string).is_ok(), union.add(&string).is_ok()), (all == REGISTERS, all == REGISTERS));
            let mut sketch = Sketch::from(string, SPARSE_MAX).unwrap();
            for element in numbers("y", 20) {
                if sketch.add(element.as_bytes()).is_err() {
                    assert_ne!(all, REGISTERS);
                }
            }
            assert_eq!(sketch.make_dense().is_ok(), all == REGISTERS);
        }
    }

    /// Runs of more registers than numbers of 32 bits can count.
    #[test]
    fn too_many_runs_are_corrupt() {
        for run in [&b"\x7f\xff"[..], b"\x3f"] {
            let mut string = [b"HYLL\x01", &[0; 11][..]].concat();
            string.extend(run.repeat((1 << 18) + 1000));
            string.push(0xff);
            assert_eq!((count(&string), Union::default().add(&string)), (Err(Corrupt), Err(Corrupt)));
            assert_eq!(Sketch::from(string, SPARSE_MAX).unwrap().make_dense(), Err(Corrupt));
        }
        let empty = [b"HYLL\x01", &[0; 11][..]].concat();
        assert_eq!((count(&empty), Sketch::from(empty, SPARSE_MAX).unwrap().add(b"a")), (Err(Corrupt), Err(Corrupt)));
    }

    /// Registers that no hash makes.
    #[test]
    fn there_is_no_estimate_of_full_registers() {
        let string = [b"HYLL\0", &[0; 11][..], &[0xff; DENSE_BYTES - HEADER]].concat();
        assert_eq!(count(&string), Ok(i64::MIN));
    }
}
