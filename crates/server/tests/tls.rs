//! The server with TLS: which clients are accepted, the versions, and attacks by clients that break the protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::certificates::Authority;
use crate::common::contents::{NOT_IN_LOGS, ok, same};
use crate::common::{Client, Real, Reply, Served, encode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use sinter_server::command::{Configuration, Server};
use sinter_server::tls::{Clients, Settings};
use sinter_storage::store::MemoryStore;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A client with TLS.
type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

fn one(text: &str) -> Reply {
    Reply::One(text.as_bytes().to_vec())
}

/// A server's configuration: the authority of its certificate, and the directory of the files.
struct TlsServer {
    authority: Authority,
    folder: TempDir,
    settings: Settings,
}

impl TlsServer {
    fn new(clients: Clients) -> TlsServer {
        let (authority, folder) = (Authority::new("authority"), tempfile::tempdir().unwrap());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let settings = Settings {
            certificate: path("server.crt"),
            key: path("server.key"),
            authorities: path("ca.crt"),
            clients,
            ..Settings::default()
        };
        let place = TlsServer { authority, folder, settings };
        place.renew(&place.authority);
        std::fs::write(&place.settings.authorities, place.authority.certificate()).unwrap();
        place
    }

    /// Replaces the certificate in the files by another one.
    fn renew(&self, authority: &Authority) {
        let (certificate, key) = authority.certify();
        std::fs::write(&self.settings.certificate, certificate).unwrap();
        std::fs::write(&self.settings.key, key).unwrap();
    }

    fn serve_at(&self, encrypted: &[bool], configuration: Configuration) -> Served {
        let tls = Some(self.settings.load().unwrap());
        let configuration = Configuration { tls: self.settings.clone(), ..configuration };
        Served::listen(encrypted, Server { configuration, tls, ..Server::default() }, Arc::new(MemoryStore::new()))
    }

    fn serve(&self) -> Served {
        self.serve_at(&[true], Configuration::default())
    }
}

/// Configuration of a client: the authority that signs servers' certificates, its own certificate, the versions that it speaks.
fn config(trusted: &Authority, own: Option<&Authority>, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.certificate().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let (certificate, key) = authority.certify();
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    })
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap()
}

fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Encrypted {
    Client { stream: std::io::BufReader::new(StreamOwned::new(session(config), socket(address))) }
}

/// Whether a client gets a reply, or why not.
fn answer(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<(), String> {
    let mut stream = StreamOwned::new(session(config), socket(address));
    stream.write_all(b"PING\r\n").map_err(|error| error.to_string())?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).map_err(|error| error.to_string())?;
    assert_eq!(&reply, b"+PONG\r\n");
    Ok(())
}

/// Checks that the server closes the connection, whatever comes before.
fn is_closed(mut socket: TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn commands_run_in_each_version() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    for version in VERSIONS {
        let mut client = connect(served.address, &config(&place.authority, None, &[version]));
        assert_eq!(client.ask(&[b"SET", b"k", b"v"]), one("+OK"));
        assert_eq!(client.stream.get_ref().conn.protocol_version(), Some(version.version));
        client.send(&encode(&["GET", "k"]).repeat(1000));
        (0..1000).for_each(|_| assert_eq!(client.reply(), Some(one("$v"))));
        let Reply::One(own) = client.ask(&[b"CLIENT", b"INFO"]) else { panic!("a text") };
        assert!(String::from_utf8(own).unwrap().contains(&format!(" laddr={} ", served.address)));
        assert_eq!(client.ask(&[b"QUIT"]), one("+OK"));
        // An end that was not announced would be an error here.
        assert_eq!(client.stream.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn a_version_can_be_left_out() {
    let place = TlsServer::new(Clients::NotAsked);
    for (protocols, named, other) in [("TLSv1.3", &TLS13, &TLS12), ("tlsv1.2", &TLS12, &TLS13)] {
        let settings = Settings { protocols: protocols.into(), ..place.settings.clone() };
        let tls = Some(settings.load().unwrap());
        let served = Served::listen(&[true], Server { tls, ..Server::default() }, Arc::new(MemoryStore::new()));
        assert_eq!(answer(served.address, &config(&place.authority, None, &[named])), Ok(()));
        assert!(answer(served.address, &config(&place.authority, None, &[other])).is_err());
    }
}

#[test]
fn a_client_that_does_not_trust_the_server_goes() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    for version in VERSIONS {
        let told = answer(served.address, &config(&Authority::new("stranger"), None, &[version])).unwrap_err();
        assert!(told.contains("UnknownIssuer"), "{told}");
        assert_eq!(answer(served.address, &config(&place.authority, None, &[version])), Ok(()));
    }
}

#[test]
fn certificates_of_clients_are_looked_at() {
    let stranger = Authority::new("stranger");
    for (clients, without, with_strange) in
        [(Clients::Required, false, false), (Clients::Optional, true, false), (Clients::NotAsked, true, true)]
    {
        let place = TlsServer::new(clients);
        let served = place.serve();
        for version in VERSIONS {
            let answer = |own: Option<&Authority>| answer(served.address, &config(&place.authority, own, &[version])).is_ok();
            assert_eq!((answer(None), answer(Some(&stranger))), (without, with_strange), "{clients:?} {version:?}");
            assert!(answer(Some(&place.authority)));
        }
    }
}

#[test]
fn who_does_not_read_waits_alone() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    for version in VERSIONS {
        let config = config(&place.authority, None, &[version]);
        let (mut slow, mut other) = (connect(served.address, &config), connect(served.address, &config));
        let value: Vec<u8> = (0..3 << 20).map(|n: usize| (n % 251) as u8).collect();
        assert_eq!(slow.ask(&[b"SET", b"big", &value]), one("+OK"));
        slow.send(&encode(&["GET", "big"]).repeat(16));
        for _ in 0..50 {
            assert_eq!(other.ask(&[b"PING"]), one("+PONG"));
        }
        for _ in 0..16 {
            assert!(slow.reply() == Some(Reply::One([b"$", &value[..]].concat())), "a reply is not what was stored");
        }
        // An end that comes behind a long reply does not cut it.
        slow.send(&[encode(&["GET", "big"]), encode(&["QUIT"])].concat());
        assert!(slow.reply() == Some(Reply::One([b"$", &value[..]].concat())), "a reply is not what was stored");
        assert_eq!((slow.reply(), slow.reply()), (Some(one("+OK")), None));
    }
}

/// Requests may come in any pieces, and several in one.
#[test]
fn requests_come_in_pieces() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    let mut client = connect(served.address, &config(&place.authority, None, &VERSIONS));
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n" {
        client.send(&[*byte]);
        client.stream.get_mut().flush().unwrap();
    }
    assert_eq!((client.reply(), client.reply()), (Some(one("$hi")), Some(one("+PONG"))));
    let value = vec![b'x'; 100_000];
    client.send(&encode(&[b"ECHO", &value[..]]).repeat(5));
    (0..5).for_each(|_| assert!(client.reply() == Some(Reply::One([b"$", &value[..]].concat()))));
}

/// A client's last requests count, whether the end is announced or not; half a request does not.
#[test]
fn a_client_may_end_as_it_likes() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    let config = config(&place.authority, None, &VERSIONS);
    let mut other = connect(served.address, &config);
    for announces in [true, false] {
        let mut client = connect(served.address, &config);
        assert_eq!(client.ask(&[b"PING"]), one("+PONG"));
        let stream = client.stream.get_mut();
        // In one piece with the end.
        stream.conn.writer().write_all(&[encode(&["INCR", "n"]), b"*1\r\n$8\r\nFLUSHALL".to_vec()].concat()).unwrap();
        if announces {
            stream.conn.send_close_notify();
        }
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut stream.sock).unwrap();
        }
        stream.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.reply(), Some(one(if announces { ":1" } else { ":2" })));
        assert_eq!(client.reply(), None);
    }
    assert_eq!(other.ask(&[b"GET", b"n"]), one("$2"));
}

#[test]
fn what_is_not_tls_ends_the_connection() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    let config = config(&place.authority, None, &VERSIONS);
    let mut other = connect(served.address, &config);
    let random = |n: usize| (0..n).map(|at| (at * 7919 % 256) as u8).collect::<Vec<u8>>();
    for bytes in [
        &b"PING\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x16\x03\x01\xff\xff\x01\x00",
        b"\x16\x03\x01\x00\x00",
        b"\x17\x03\x03\x00\x01\x00",
        &random(100_000)[..],
    ] {
        let mut socket = socket(served.address);
        // It may be closed before all is sent.
        let _ = socket.write_all(bytes).and_then(|()| socket.shutdown(Shutdown::Write));
        assert!(is_closed(socket), "{:?}", &bytes[..bytes.len().min(20)]);
        assert_eq!(other.ask(&[b"PING"]), one("+PONG"));
    }
    // Records that are none, from a client that was one.
    let client = connect(served.address, &config);
    let mut stream = client.stream.into_inner();
    stream.write_all(b"PING\r\n").unwrap();
    stream.sock.write_all(b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaPING\r\n").unwrap();
    assert!(is_closed(stream.sock));
    assert_eq!(other.ask(&[b"PING"]), one("+PONG"));
}

/// Randomly changed handshakes end in a closed connection, or in nothing worse.
#[test]
fn damaged_handshakes_harm_nobody() {
    let place = TlsServer::new(Clients::Optional);
    let served = place.serve();
    let config = config(&place.authority, Some(&place.authority), &VERSIONS);
    let mut other = connect(served.address, &config);
    let seed: u64 = 0x5eed_0007;
    let mut state = seed;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for round in 0..300 {
        let mut hello = Vec::new();
        session(&config).write_tls(&mut hello).unwrap();
        for _ in 0..=below(4) {
            let at = below(hello.len());
            match below(4) {
                0 => hello.truncate(at + 1),
                1 => hello.insert(at, below(256) as u8),
                _ => hello[at] = below(256) as u8,
            }
        }
        let mut socket = socket(served.address);
        let _ = socket.write_all(&hello).and_then(|()| socket.shutdown(Shutdown::Write));
        assert!(is_closed(socket), "seed {seed:#x}, round {round}");
    }
    assert_eq!(other.ask(&[b"PING"]), one("+PONG"));
    let Reply::One(list) = other.ask(&[b"CLIENT", b"LIST"]) else { panic!("a text") };
    assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), 1, "clients stay");
}

#[test]
fn a_server_may_listen_for_tls_alone() {
    let place = TlsServer::new(Clients::NotAsked);
    let config = config(&place.authority, None, &VERSIONS);
    let pair = |name: &str, value: u16| Reply::Many(b'*', vec![one(&format!("${name}")), one(&format!("${value}"))]);
    let port = |client: &mut Encrypted| {
        let Reply::One(text) = client.ask(&[b"INFO", b"server"]) else { panic!("a text") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix("tcp_port:")).unwrap().trim().parse::<u16>().unwrap()
    };
    let served = place.serve();
    let tls = served.tls_address.unwrap();
    assert_eq!(tls, served.address);
    let mut client = connect(tls, &config);
    assert_eq!(client.ask(&[b"CONFIG", b"GET", b"port"]), pair("port", 0));
    assert_eq!(client.ask(&[b"CONFIG", b"GET", b"tls-port"]), pair("tls-port", tls.port()));
    assert_eq!(port(&mut client), tls.port());
    let served = place.serve_at(&[false, true], Configuration::default());
    let (plain, tls) = (served.address, served.tls_address.unwrap());
    let mut client = connect(tls, &config);
    assert_eq!(served.client().ask(&[b"PING"]), one("+PONG"));
    assert_eq!(client.ask(&[b"CONFIG", b"GET", b"port"]), pair("port", plain.port()));
    assert_eq!(client.ask(&[b"CONFIG", b"GET", b"tls-port"]), pair("tls-port", tls.port()));
    assert_eq!(port(&mut client), plain.port());
}

#[test]
fn too_many_clients_are_turned_away() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve_at(&[true], Configuration { clients_max: 1, ..Configuration::default() });
    let config = config(&place.authority, None, &VERSIONS);
    let mut first = connect(served.address, &config);
    assert_eq!(first.ask(&[b"PING"]), one("+PONG"));
    assert!(is_closed(socket(served.address)));
    assert_eq!(first.ask(&[b"PING"]), one("+PONG"));
}

#[test]
fn certificates_are_renewed_while_the_server_runs() {
    let place = TlsServer::new(Clients::NotAsked);
    let served = place.serve();
    let next = Authority::new("next");
    let (old, new) = (config(&place.authority, None, &VERSIONS), config(&next, None, &VERSIONS));
    let mut client = connect(served.address, &old);
    let path = place.settings.certificate.as_bytes();
    place.renew(&next);
    assert!(answer(served.address, &new).is_err());
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"tls-cert-file", path]), one("+OK"));
    assert_eq!((answer(served.address, &new), answer(served.address, &old).is_err()), (Ok(()), true));
    // Who is there stays.
    assert_eq!(client.ask(&[b"PING"]), one("+PONG"));
    let none = place.folder.path().join("none").display().to_string();
    for (name, value, why) in [
        ("tls-cert-file", none.as_str(), format!("tls-cert-file {none}: No such file or directory (os error 2)")),
        ("tls-ca-cert-dir", none.as_str(), format!("tls-ca-cert-dir {none}: No such file or directory (os error 2)")),
        ("tls-protocols", "SSLv3", "'SSLv3' is no version; there are TLSv1.2 and TLSv1.3".into()),
        ("tls-port", "7", "can't set immutable config".into()),
    ] {
        let refused = format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        assert_eq!(client.ask(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]), one(&refused));
    }
    assert_eq!(answer(served.address, &new), Ok(()));
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"tls-auth-clients", b"yes"]), one("+OK"));
    assert!(answer(served.address, &new).is_err());
    assert_eq!(client.ask(&[b"CONFIG", b"GET", b"tls-auth-clients"]), Reply::Many(b'*', vec![one("$tls-auth-clients"), one("$yes")]));
    // Without a port for TLS files would be for nothing.
    let refused = Served::start().client().ask(&[b"CONFIG", b"SET", b"tls-cert-file", path]);
    assert!(matches!(refused, Reply::One(text) if text.ends_with(b"no connection would be encrypted")));
}

/// The usual client connects, where it is installed and has TLS.
#[test]
fn redis_cli_connects() {
    let help = Command::new("redis-cli").arg("--help").output();
    if !help.is_ok_and(|help| [help.stdout, help.stderr].concat().windows(5).any(|word| word == b"--tls")) {
        eprintln!("skipped: there is no redis-cli with TLS here");
        return;
    }
    let place = TlsServer::new(Clients::Required);
    let served = place.serve();
    let run = |more: &[&str]| {
        let port = served.address.port().to_string();
        let arguments = ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", &place.settings.authorities];
        let output = Command::new("redis-cli").args(arguments).args(more).args(["SET", "k", "v"]).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let own = ["--cert", &place.settings.certificate, "--key", &place.settings.key];
    assert_eq!(run(&own), "OK\n");
    assert_ne!(run(&[]), "OK\n");
}

/// A real Redis replicates over TLS, and shows its certificate.
#[test]
fn a_real_redis_follows_with_tls() {
    let place = TlsServer::new(Clients::Required);
    let served = place.serve_at(&[false, true], Configuration::default());
    let (mut client, value) = (served.client(), vec![b'v'; 3 << 20]);
    ok(&mut client, &[b"SET", b"before", &value]);
    let (folder, port) = (tempfile::tempdir().unwrap(), served.tls_address.unwrap().port().to_string());
    let Settings { certificate, key, authorities, .. } = &place.settings;
    let directory = folder.path().to_str().unwrap();
    let files = ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", authorities, "--tls-replication", "yes"];
    let rest = ["--save", "", "--appendonly", "no", "--dir", directory, "--replicaof", "127.0.0.1", &port];
    let Some(real) = Real::with(&[&files[..], &rest].concat()) else {
        eprintln!("skipped: there is no redis-server 7.0 here");
        return;
    };
    ok(&mut client, &[b"SET", b"after", &value]);
    for _ in 0..2000 {
        if client.ask(&[b"WAIT", b"1", b"10"]) == one(":1") {
            break;
        }
    }
    same(&mut client, &mut real.client(), NOT_IN_LOGS, "over TLS");
    assert!(client.ask(&[b"CLIENT", b"LIST", b"TYPE", b"replica"]).to_string().contains(" flags=S "));
}
