//! A connection for one request at a time.

use super::replies::LONGEST_VALUE;
use crate::system::Outcome;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between checks of the stop flag while a connection waits.
const LOOK: Duration = Duration::from_millis(100);
/// Checks without a byte from the server after which a connection gives up: ten minutes.
pub(super) const LOOKS: u32 = 6000;
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG";
const INFO: &[u8] = b"*1\r\n$4\r\nINFO\r\n";
/// Longest line of a reply, bytes.
const LONGEST_LINE: usize = 64 << 10;

/// A connection.
pub(super) struct Line<'a> {
    stream: TcpStream,
    stop: &'a AtomicBool,
    looks: u32,
    /// Bytes received behind the last reply.
    read: Vec<u8>,
}

impl<'a> Line<'a> {
    /// Connects; waiting ends when `stop` is raised.
    pub fn connect(address: SocketAddr, stop: &'a AtomicBool) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Line { stream, stop, looks: LOOKS, read: Vec::new() })
    }

    /// Sends PING and waits for the reply.
    pub fn ping(&mut self) -> Outcome<()> {
        self.stream.write_all(PING)?;
        match self.line()? {
            line if line == PONG => Ok(()),
            line => Err(format!("the server answered PING with {}", line.escape_ascii()).into()),
        }
    }

    /// Sends INFO and returns the reply: `name:value`, a line each.
    pub fn info(&mut self) -> Outcome<String> {
        self.stream.write_all(INFO)?;
        let head = self.line()?;
        let length = std::str::from_utf8(&head).ok().and_then(|text| text.strip_prefix('$')?.parse::<usize>().ok());
        let length = length.filter(|length| *length <= LONGEST_VALUE);
        let length = length.ok_or_else(|| format!("the server answered INFO with {}", head.escape_ascii()))?;
        while self.read.len() < length + 2 {
            self.more()?;
        }
        let text = String::from_utf8_lossy(&self.read[..length]).into_owned();
        self.read.drain(..length + 2);
        Ok(text)
    }

    fn line(&mut self) -> Outcome<Vec<u8>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(line.trim_ascii_end().to_vec());
            }
            if self.read.len() > LONGEST_LINE {
                return Err("the server answered with an endless line".into());
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Outcome<()> {
        let mut buffer = [0; 4096];
        for _ in 0..self.looks {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(count) => {
                    self.read.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err("interrupted".into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err("the server does not answer".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn nobody_waits_for_ever() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = AtomicBool::new(false);
        let line = Line::connect(silent.local_addr().unwrap(), &stop).unwrap();
        assert_eq!(Line { looks: 2, ..line }.ping().unwrap_err().to_string(), "the server does not answer");
        let mut line = Line::connect(silent.local_addr().unwrap(), &stop).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(line.ping().unwrap_err().to_string(), "interrupted");
    }
}
