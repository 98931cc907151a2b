//! The latest bytes of the replication stream in memory, so that readers that keep up cost no read of the engine.

use std::collections::VecDeque;

/// Bytes of a part, and the most of all parts together.
const PART: usize = if cfg!(test) { 16 } else { 64 << 10 };
const MOST: usize = 64 * PART;

/// The latest bytes of the stream.
#[derive(Debug, Default)]
pub struct Tail {
    /// Offset of the first byte.
    start: u64,
    /// Parts of [`PART`] bytes, the last of which may be shorter.
    parts: VecDeque<Vec<u8>>,
}

impl Tail {
    /// Offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> u64 {
        let full = self.parts.len().saturating_sub(1) * PART;
        self.start + (full + self.parts.back().map_or(0, Vec::len)) as u64
    }

    /// Memory, bytes.
    pub fn held(&self) -> usize {
        self.parts.len() * PART
    }

    /// Forgets all bytes; the next one has this offset.
    pub fn restart(&mut self, offset: u64) {
        self.parts.clear();
        self.start = offset;
    }

    /// Adds bytes, up to offset `end`. If bytes before them are missing, those are all that there are.
    pub fn add(&mut self, end: u64, mut bytes: &[u8]) {
        let begin = end.saturating_sub(bytes.len() as u64);
        if begin != self.end() {
            self.restart(begin);
        }
        while !bytes.is_empty() {
            if self.parts.back().is_none_or(|part| part.len() == PART) {
                let memory = if self.parts.len() * PART < MOST { None } else { self.parts.pop_front() };
                self.start += memory.as_ref().map_or(0, |part| part.len() as u64);
                let mut part = memory.unwrap_or_else(|| Vec::with_capacity(PART));
                part.clear();
                self.parts.push_back(part);
            }
            let Some(part) = self.parts.back_mut() else { return };
            let (some, rest) = bytes.split_at(bytes.len().min(PART - part.len()));
            part.extend_from_slice(some);
            bytes = rest;
        }
    }

    /// Reads the bytes behind `from`, at most `most` of them; false: there are none, or some of those are not here.
    pub fn read(&self, from: u64, most: usize, out: &mut Vec<u8>) -> bool {
        let Some(Ok(mut at)) = from.checked_sub(self.start).map(usize::try_from) else { return false };
        if from >= self.end() {
            return false;
        }
        let mut left = most;
        while let Some(some) = self.parts.get(at / PART).and_then(|part| part.get(at % PART..)).filter(|some| !some.is_empty() && left > 0)
        {
            let some = some.get(..left).unwrap_or(some);
            out.extend_from_slice(some);
            (at, left) = (at + some.len(), left - some.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_bytes_can_be_read() {
        let mut tail = Tail::default();
        let all: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
        tail.restart(1000);
        let mut at = 0;
        for size in [1, 15, 16, 17, 0, 100, 3].into_iter().cycle() {
            let Some(some) = all.get(at..at + size) else { break };
            at += size;
            tail.add(1000 + at as u64, some);
            let (start, end) = (tail.start(), tail.end());
            assert!(end == 1000 + at as u64 && (end - start) as usize <= MOST && tail.held() <= MOST);
            assert!(at <= MOST - PART || (end - start) as usize >= MOST - PART, "{start} to {end}");
            for from in [start, (start + end) / 2, end - 1] {
                let mut out = Vec::new();
                assert!(tail.read(from, 33, &mut out));
                let first = from as usize - 1000;
                assert_eq!(out, all[first..at.min(first + 33)]);
            }
            let mut out = Vec::new();
            assert!(![start - 1, end, end + 1].iter().any(|from| tail.read(*from, 1, &mut out)) && out.is_empty());
        }
        assert!(at > 9000);
    }

    #[test]
    fn missing_bytes_begin_it_anew() {
        let mut tail = Tail::default();
        tail.add(10, b"0123456789");
        tail.add(20, b"56789");
        assert_eq!((tail.start(), tail.end()), (15, 20));
        let mut out = Vec::new();
        assert!(tail.read(16, 100, &mut out) && out == b"6789" && !tail.read(14, 1, &mut out));
    }
}
