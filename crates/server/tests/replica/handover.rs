//! Roles that change: by Sentinel, real and imitated, and by `FAILOVER`; and links with TLS.

use super::{False, ask, level, linked, of};
use crate::append::send;
use crate::common::certificates::Authority;
use crate::common::commands::Random;
use crate::common::contents::{NOT_IN_LOGS, ok, same};
use crate::common::{Client, Served, encode};
use crate::replication::{field, fill, follower, info, served, settled, until};
use sinter_server::command::{Allowed, Configuration, Server};
use sinter_server::tls::Settings;
use sinter_storage::store::MemoryStore;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Sentinel's transaction, and the configuration file that it leaves.
#[test]
fn sentinel_promotes_and_demotes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sinter.conf");
    std::fs::write(&file, "# mine\nreplicaof 127.0.0.1 1\nreplica-priority 7\n").unwrap();
    let mut configuration = Configuration { debug_command: Allowed::Yes, file: file.display().to_string(), ..Configuration::default() };
    configuration.set("replicaof", "127.0.0.1 1").unwrap();
    configuration.set("replica-priority", "7").unwrap();
    let served = Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()));
    let mut other = served.client();
    ok(&mut other, &[b"CLIENT", b"SETNAME", b"other"]);
    for (words, expected) in [(["NO", "ONE"], "# mine\nreplica-priority 7\n"), (["127.0.0.1", "2"], "# mine\nreplica-priority 7\n")] {
        let mut sentinel = served.client();
        let role = format!("SLAVEOF {} {}", words[0], words[1]);
        for line in ["MULTI", &role, "CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"] {
            assert!(!ask(&mut sentinel, line).starts_with('-'), "{line}");
        }
        let reply = ask(&mut sentinel, "EXEC");
        assert!(reply.starts_with("*4(+OK +OK :"), "{reply}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(text.contains("replicaof 127.0.0.1 2\n"), words[0] != "NO", "{text}");
        assert_eq!(field(&mut sentinel, "role"), if words[0] == "NO" { "master" } else { "slave" });
    }
    assert_eq!(other.reply(), None);
    assert_eq!(field(&mut served.client(), "slave_priority"), "7");
}

/// The role of the primary is handed over, to one of ours and to a real Redis, and back.
#[test]
fn the_role_is_handed_over() {
    let one = served(&[]);
    let mut first = one.client();
    fill(&mut first, 100);
    let Some((real, _folder)) = follower(&one, &[]) else { return };
    settled(&mut first);
    let two = served(&[("replicaof", &of(one.address))]);
    let mut second = two.client();
    level(&mut first, &mut second);
    let mut third = real.client();
    until("both are online", || info(&mut first).matches("state=online").count() == 2);
    let to = |client: &mut Client, port: u16| ask(client, &format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 10000"));
    assert_eq!(to(&mut first, one.address.port()), "-ERR FAILOVER target HOST and PORT is not a replica.");
    assert_eq!(to(&mut first, two.address.port()), "+OK");
    until("the second one leads", || field(&mut second, "role") == "master" && field(&mut first, "master_link_status") == "up");
    assert_eq!((field(&mut first, "master_failover_state"), field(&mut first, "role")), ("no-failover".into(), "slave".into()));
    assert!(ask(&mut first, "SET a 1").starts_with("-READONLY "));
    assert_eq!(field(&mut second, "sync_full"), "0");
    ok(&mut third, &[b"REPLICAOF", b"127.0.0.1", two.address.port().to_string().as_bytes()]);
    ok(&mut second, &[b"SET", b"a", b"2"]);
    level(&mut second, &mut third);
    assert_eq!((ask(&mut third, "GET a"), field(&mut second, "sync_full")), ("$2".into(), "0".into()));
    // To a real Redis, which hands it over in its turn.
    assert_eq!(to(&mut second, real.address().port()), "+OK");
    until("the real one leads", || field(&mut third, "role") == "master" && field(&mut second, "master_link_status") == "up");
    ok(&mut first, &[b"REPLICAOF", b"127.0.0.1", real.address().port().to_string().as_bytes()]);
    level(&mut third, &mut first);
    level(&mut third, &mut second);
    assert_eq!(to(&mut third, one.address.port()), "+OK");
    until("the first one leads again", || field(&mut first, "role") == "master" && field(&mut third, "master_link_status") == "up");
    ok(&mut first, &[b"SET", b"a", b"3"]);
    level(&mut first, &mut third);
    same(&mut first, &mut third, NOT_IN_LOGS, "at the end");
    assert_eq!(field(&mut first, "sync_full"), "2", "only the first synchronisations have sent all data");
}

/// A replica that does not acknowledge takes nothing over, and writes go on.
#[test]
fn a_handover_ends_in_time() {
    let served = served(&[]);
    let (mut client, mut replica) = (served.client(), served.client());
    ok(&mut client, &[b"SET", b"a", b"1"]);
    ok(&mut replica, &[b"REPLCONF", b"listening-port", b"7"]);
    replica.send(b"PSYNC ? -1\r\n");
    until("it is online", || info(&mut client).contains("state=online"));
    ok(&mut client, &[b"SET", b"a", b"2"]);
    assert_eq!(ask(&mut client, "FAILOVER TIMEOUT 50"), "+OK");
    ok(&mut client, &[b"SET", b"a", b"3"]);
    assert_eq!((field(&mut client, "master_failover_state"), field(&mut client, "role")), ("no-failover".into(), "master".into()));
    // By force it is told to, but cannot be reached: until that is given up, this server follows it.
    assert_eq!(ask(&mut client, "FAILOVER TO 127.0.0.1 7 FORCE TIMEOUT 50"), "+OK");
    until("it is in progress", || field(&mut client, "master_failover_state") == "failover-in-progress");
    assert_eq!(field(&mut client, "role"), "slave");
    assert_eq!(ask(&mut client, "FAILOVER ABORT"), "+OK");
    ok(&mut client, &[b"SET", b"a", b"4"]);
    assert_eq!(field(&mut client, "role"), "master");
}

/// A replica has taken over, and its reply is lost: it serves the former primary, which asks again.
#[test]
fn who_has_taken_over_is_asked_again() {
    let one = served(&[]);
    let two = served(&[("replicaof", &of(one.address))]);
    let (mut first, mut second) = (one.client(), two.client());
    level(&mut first, &mut second);
    let (id, offset) = (field(&mut second, "master_replid"), field(&mut second, "slave_repl_offset"));
    let next = (offset.parse::<u64>().unwrap() + 1).to_string();
    for round in 0..2 {
        let mut former = two.client();
        ok(&mut former, &[b"REPLCONF", b"capa", b"psync2"]);
        let reply = former.ask(&[b"PSYNC", id.as_bytes(), next.as_bytes(), b"FAILOVER"]).to_string();
        assert_eq!(reply, format!("+CONTINUE {}", field(&mut second, "master_replid")), "round {round}");
        assert_eq!(field(&mut second, "role"), "master", "round {round}");
    }
    let mut foreign = two.client();
    let reply = foreign.ask(&[b"PSYNC", "f".repeat(40).as_bytes(), b"1", b"FAILOVER"]).to_string();
    assert_eq!(reply, "-ERR PSYNC FAILOVER can\\'t be sent to a master.");
}

/// The reply of a target is lost. From then on the former primary asks until the target says which role it has, and takes the other one.
#[test]
fn a_lost_reply_leaves_one_primary() {
    const FOLLOWS: &[u8] = b"-ERR PSYNC FAILOVER replid must match my replid.\r\n";
    const LEADS: &[u8] = b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n";
    // The replica acknowledges once.
    let served = served(&[("repl-ping-replica-period", "3600")]);
    let target = False::new();
    let port = target.0.local_addr().unwrap().port().to_string();
    let mut client = served.client();
    let state = |client: &mut Client| (field(client, "role"), field(client, "master_failover_state"));
    for (refusal, role) in [(FOLLOWS, "master"), (LEADS, "slave")] {
        let mut replica = served.client();
        ok(&mut replica, &[b"REPLCONF", b"listening-port", port.as_bytes()]);
        replica.send(b"PSYNC ? -1\r\n");
        until("it is online", || info(&mut client).contains("state=online"));
        ok(&mut client, &[b"SET", b"a", b"1"]);
        assert_eq!(ask(&mut client, &format!("FAILOVER TO 127.0.0.1 {port}")), "+OK");
        replica.send(&encode(&["REPLCONF", "ACK", &field(&mut client, "master_repl_offset")]));
        for reply in [&b""[..], b"-NOPERM not now\r\n"] {
            let (stream, asked) = target.serve(reply);
            assert!(asked.last().unwrap().ends_with(" $FAILOVER )"), "{asked:?}");
            drop(stream);
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(state(&mut client), ("slave".into(), "failover-in-progress".into()), "{}", reply.escape_ascii());
        }
        target.serve(refusal);
        until("the handover is over", || state(&mut client) == (role.into(), "no-failover".into()));
    }
    let next = field(&mut client, "slave_repl_offset").parse::<u64>().unwrap() + 1;
    let (known, id) = (field(&mut client, "master_replid"), "a".repeat(40));
    let (_stream, asked) = target.serve(format!("+CONTINUE {id}\r\n").as_bytes());
    linked(&mut client);
    assert_eq!((asked.last().unwrap(), field(&mut client, "master_replid")), (&format!("*3($PSYNC ${known} ${next} )"), id));
}

/// The link to the primary is encrypted.
#[test]
fn links_can_be_encrypted() {
    let (authority, folder) = (Authority::new("authority"), tempfile::tempdir().unwrap());
    let (certificate, key) = authority.certify();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        path
    };
    let tls = Settings {
        certificate: path("server.crt", &certificate),
        key: path("server.key", &key),
        authorities: path("ca.crt", &authority.certificate()),
        ..Settings::default()
    };
    let start = |more: &[(&str, &str)]| {
        let mut configuration = Configuration { tls: tls.clone(), debug_command: Allowed::Yes, ..Configuration::default() };
        more.iter().for_each(|(name, value)| configuration.set(name, value).unwrap());
        let server = Server { tls: Some(tls.load().unwrap()), configuration, ..Server::default() };
        Served::listen(&[false, true], server, Arc::new(MemoryStore::new()))
    };
    let primary = start(&[]);
    let mut source = primary.client();
    fill(&mut source, 3000);
    let port = primary.tls_address.unwrap().port();
    let replica = start(&[("tls-replication", "yes"), ("replicaof", &format!("127.0.0.1 {port}"))]);
    let mut client = replica.client();
    level(&mut source, &mut client);
    let mut random = Random::new(3);
    send(&mut primary.client(), &mut random, 500);
    std::thread::sleep(Duration::from_millis(40));
    level(&mut source, &mut client);
    same(&mut client, &mut source, NOT_IN_LOGS, "with TLS");
    assert_eq!(ask(&mut client, "CLIENT KILL TYPE master"), ":1");
    fill(&mut source, 50);
    level(&mut source, &mut client);
    assert_eq!((field(&mut source, "sync_full"), field(&mut source, "sync_partial_ok")), ("1".into(), "1".into()));
    // Another authority than the one that has signed the primary's certificate.
    std::fs::write(&tls.authorities, Authority::new("other").certificate()).unwrap();
    assert_eq!(ask(&mut client, "CLIENT KILL TYPE master"), ":1");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(field(&mut client, "master_link_status"), "down");
}

/// A real Sentinel, which watches a primary.
struct Sentinel {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Sentinel {
    /// Starts it; `None`: there is no Redis here.
    fn watching(primary: SocketAddr) -> Option<Sentinel> {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = folder.path().join("sentinel.conf");
        let settings = ["down-after-milliseconds m 500", "failover-timeout m 2000", "parallel-syncs m 1"];
        let settings: Vec<String> = settings.iter().map(|line| format!("sentinel {line}\n")).collect();
        let text = format!("port {}\nbind 127.0.0.1\nsentinel monitor m {} {} 1\n", address.port(), primary.ip(), primary.port());
        std::fs::write(&file, text + &settings.concat()).unwrap();
        let child = Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn().ok()?;
        let sentinel = Sentinel { child, address, _folder: folder };
        until("Sentinel answers", || TcpStream::connect(sentinel.address).is_ok());
        Some(sentinel)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real Sentinel finds the replicas, promotes one of them, and makes the others follow it.
#[test]
fn a_real_sentinel_fails_over() {
    let one = served(&[]);
    let mut first = one.client();
    fill(&mut first, 50);
    let Some((real, _folder)) = follower(&one, &["--replica-priority", "0"]) else { return };
    let two = served(&[("replicaof", &of(one.address))]);
    let mut second = two.client();
    level(&mut first, &mut second);
    let Some(sentinel) = Sentinel::watching(one.address) else { return };
    let mut control = Client::new(sentinel.address);
    until("both replicas are known", || {
        let replicas = ask(&mut control, "SENTINEL REPLICAS m");
        replicas.contains(&format!("$127.0.0.1:{}", two.address.port())) && replicas.matches("$master-link-status $ok").count() == 2
    });
    drop((first, one));
    // Sentinel closes the connections of all clients before it tells them of the new primary: no client may ask before.
    until("clients are told", || ask(&mut control, "SENTINEL GET-MASTER-ADDR-BY-NAME m").contains(&two.address.port().to_string()));
    let mut second = two.client();
    assert_eq!(field(&mut second, "role"), "master");
    until("the third one follows", || field(&mut second, "connected_slaves") == "1");
    settled(&mut second);
    same(&mut second, &mut real.client(), NOT_IN_LOGS, "after the failover");
    assert_eq!(field(&mut second, "sync_full"), "0");
}
