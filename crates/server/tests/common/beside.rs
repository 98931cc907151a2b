//! Sends equal requests to a real server and this one.

use super::{Client, Real, Reply, Served, encode};
use std::collections::BTreeMap;

/// A server, and its clients by name.
struct Side<'a> {
    connect: Box<dyn Fn() -> Client + 'a>,
    clients: BTreeMap<String, Client>,
}

impl<'a> Side<'a> {
    fn new(connect: impl Fn() -> Client + 'a) -> Self {
        Side { connect: Box::new(connect), clients: BTreeMap::new() }
    }

    /// Sends a request and returns the reply; `None`: the connection was closed, and the next line of that name is another client's.
    fn ask(&mut self, name: &str, words: &[&[u8]]) -> Option<Reply> {
        let client = self.clients.entry(name.into()).or_insert_with(|| (self.connect)());
        client.send(&encode(words));
        let reply = client.reply();
        if reply.is_none() {
            self.clients.remove(name);
        }
        reply
    }
}

/// Runs lines `CLIENT: COMMAND ..` on both servers. `␣` stands for a blank inside a word.
pub fn compare(lines: &[&str], normalise: impl Fn(&str, Option<Reply>) -> Option<Reply>) {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let (mut ours, mut theirs) = (Side::new(|| served.client()), Side::new(|| real.client()));
    let mut complaints = Vec::new();
    for line in lines {
        let (name, command) = line.split_once(": ").unwrap();
        let words: Vec<String> = command.split(' ').map(|word| word.replace('␣', " ")).collect();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let (ours, theirs) = (normalise(command, ours.ask(name, &words)), normalise(command, theirs.ask(name, &words)));
        if ours != theirs {
            let shown = |reply: &Option<Reply>| reply.as_ref().map_or("closed".into(), ToString::to_string);
            complaints.push(format!("{line}\n  ours:   {}\n  theirs: {}", shown(&ours), shown(&theirs)));
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// The members of a reply, in order.
pub fn members(reply: &Reply) -> Vec<Reply> {
    match reply {
        Reply::Many(_, members) => members.clone(),
        Reply::One(_) => Vec::new(),
    }
}
