//! Scripts of several clients, for this server and for a real `redis-server`: all replies must be equal, byte for byte.
//!
//! A line is a client's name and its action. `a: SET k v` sends a request and reads a reply; with `&` at its end it waits instead until one
//! more client is blocked, with `~` it waits for nothing. `a?` reads a reply, `a!` reads until a message `END` has come, `a.` checks that
//! there is nothing to read. `#a` stands for the number of a client, `␣` for a blank in a word, `␊` for the end of a line, `=> text` for
//! the reply required in RESP2, whether a Redis is there to compare with or not.

use super::{Client, Real, Reply, Served, encode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A server, and clients by name.
pub struct Play {
    address: SocketAddr,
    protocol: &'static str,
    clients: BTreeMap<String, (Client, String)>,
    control: Client,
    transcript: Vec<String>,
}

impl Play {
    pub fn new(address: SocketAddr, protocol: &'static str) -> Play {
        let mut control = Client::new(address);
        control.ask(&[b"FLUSHALL"]);
        control.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b""]);
        Play { address, protocol, clients: BTreeMap::new(), control, transcript: Vec::new() }
    }

    pub fn client(&mut self, name: &str) -> &mut Client {
        if !self.clients.contains_key(name) {
            let mut client = Client::new(self.address);
            client.ask(&[b"HELLO", self.protocol.as_bytes()]);
            let Reply::One(id) = client.ask(&[b"CLIENT", b"ID"]) else { panic!("a number") };
            self.clients.insert(name.into(), (client, String::from_utf8(id[1..].to_vec()).unwrap()));
        }
        &mut self.clients.get_mut(name).unwrap().0
    }

    pub fn blocked(&mut self) -> usize {
        let Reply::One(text) = self.control.ask(&[b"INFO", b"clients"]) else { panic!("a text") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().trim().parse().unwrap()
    }

    pub fn send(&mut self, name: &str, words: &str) {
        self.client(name);
        let named = |word: &str| word.strip_prefix('#').and_then(|other| self.clients.get(other)).map(|(_, id)| id.clone());
        let plain = |word: &str| word.replace("''", "").replace('␣', " ").replace('␊', "\n");
        let words: Vec<String> = words.split(' ').map(|word| named(word).unwrap_or_else(|| plain(word))).collect();
        self.client(name).send(&encode(&words));
    }

    pub fn read(&mut self, name: &str) -> String {
        self.client(name).reply().map_or_else(|| "closed".into(), |reply| reply.to_string())
    }

    fn step(&mut self, line: &str) {
        let (line, expected) = line.split_once(" => ").map_or((line, None), |(line, expected)| (line, Some(expected)));
        let got = if let Some(name) = line.strip_suffix('?') {
            self.read(name)
        } else if let Some(name) = line.strip_suffix('.') {
            let is_silent = self.client(name).is_silent(Duration::from_millis(60));
            format!("silent: {is_silent}")
        } else if let Some(name) = line.strip_suffix('!') {
            let mut all = Vec::new();
            while all.last().is_none_or(|last: &String| !last.contains("$END") && last != "closed") {
                all.push(self.read(name));
            }
            all.join("\n    ")
        } else {
            let (name, words) = line.split_once(": ").unwrap();
            let before = self.blocked();
            if let Some(words) = words.strip_suffix(" &") {
                self.send(name, words);
                for _ in 0..500 {
                    if self.blocked() > before {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                format!("{} more blocked", self.blocked() - before)
            } else if let Some(words) = words.strip_suffix(" ~") {
                self.send(name, words);
                String::new()
            } else {
                self.send(name, words);
                self.read(name)
            }
        };
        if let Some(expected) = expected.filter(|_| self.protocol == "2") {
            assert_eq!(got, expected, "{line}\nafter\n{}", self.transcript.join("\n"));
        }
        self.transcript.push(format!("{line}\n    {got}"));
    }
}

/// Plays a script in both protocols.
pub fn play(script: &str) {
    play_in(&["2", "3"], script);
}

/// Plays a script in some protocols.
pub fn play_in(protocols: &[&'static str], script: &str) {
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    let (served, real) = (Served::start(), Real::start());
    if real.is_none() {
        eprintln!("not compared: there is no redis-server 7.0 here");
    }
    for protocol in protocols.iter().copied() {
        let run = |address| {
            let mut play = Play::new(address, protocol);
            lines.iter().for_each(|line| play.step(line));
            assert_eq!(play.blocked(), 0, "clients are left blocked");
            play.transcript
        };
        let ours = run(served.address);
        let Some(real) = &real else { continue };
        for (ours, theirs) in ours.iter().zip(run(real.address())) {
            assert_eq!(*ours, theirs, "RESP{protocol}: ours, then theirs");
        }
    }
}
