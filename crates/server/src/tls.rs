//! TLS: its settings, and the certificates and keys in their files, made into the configuration of connections.
//!
//! All files are read and checked at once, by [`Settings::load`]. So an error in a file is reported when the server starts or the
//! configuration is changed, and never when a client connects.
//!
//! Sessions are not resumed: each connection proves its client's identity. Nothing is kept of closed connections, and a certificate that
//! was accepted once is not accepted any more when the files have changed.

mod outgoing;

pub use outgoing::Outgoing;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Largest size of a file, bytes.
const FILE_MAX: u64 = 4 << 20;

/// Names of the files in the configuration.
const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-key-file";
const AUTHORITIES: &str = "tls-ca-cert-file";
const AUTHORITIES_DIRECTORY: &str = "tls-ca-cert-dir";

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clients {
    /// Clients have to show a certificate.
    #[default]
    Required,
    /// Clients may show a certificate; one that is shown has to be valid.
    Optional,
    /// Clients are not asked for a certificate.
    NotAsked,
}

impl Clients {
    const ALL: [(Clients, &'static str); 3] = [(Clients::NotAsked, "no"), (Clients::Required, "yes"), (Clients::Optional, "optional")];

    /// Name of the choice in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(clients, _)| *clients == self).map_or("", |(_, name)| name)
    }

    /// Reads the name of a choice from the configuration.
    pub fn parse(name: &str) -> Option<Clients> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(clients, _)| *clients)
    }
}

/// Settings of the configuration. An empty name is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// File of the server's certificate, and of the certificates that lead from it to one that clients know.
    pub certificate: String,
    /// File of the certificate's key.
    pub key: String,
    /// File of the certificates that sign clients' certificates.
    pub authorities: String,
    /// Directory of further such files.
    pub authorities_directory: String,
    /// Whether clients have to show a certificate.
    pub clients: Clients,
    /// Versions, separated by blanks; empty: all.
    pub protocols: String,
    /// File of the certificate that is shown to other servers; empty: the server's own.
    pub client_certificate: String,
    /// File of that certificate's key.
    pub client_key: String,
}

/// Parses names of versions.
///
/// # Errors
/// The first word that is no version, or an unsupported one.
pub fn versions(names: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let version = |name: &str| match name.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        "tlsv1" | "tlsv1.1" => Err(format!("{name} is not safe and not spoken; there are TLSv1.2 and TLSv1.3")),
        _ => Err(format!("'{name}' is no version; there are TLSv1.2 and TLSv1.3")),
    };
    let all: Vec<_> = names.split_ascii_whitespace().map(version).collect::<Result<_, _>>()?;
    Ok(if all.is_empty() { vec![&TLS12, &TLS13] } else { all })
}

/// Configuration of new connections. Clones share it.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// The server's end of a new connection.
    ///
    /// # Errors
    /// None are known.
    pub fn begin(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(self.0.clone()).map_err(io::Error::other)
    }
}

impl Settings {
    /// Reads the files, if encrypted connections are wanted: those of clients, and that of a replica to its primary (`is_outgoing`).
    ///
    /// # Errors
    /// Errors of [`load`](Self::load) and of [`load_outgoing`](Self::load_outgoing). Or the connections are not wanted, but files are
    /// configured: an operator who has set them up believes that connections are encrypted.
    pub fn load_if(&self, is_wanted: bool, is_outgoing: bool) -> Result<Option<Tls>, String> {
        if is_outgoing {
            self.load_outgoing()?;
        }
        if is_wanted {
            return self.load().map(Some);
        }
        if is_outgoing {
            return Ok(None);
        }
        let names = [
            (CERTIFICATE, &self.certificate),
            (KEY, &self.key),
            (AUTHORITIES, &self.authorities),
            (AUTHORITIES_DIRECTORY, &self.authorities_directory),
        ];
        match names.iter().find(|(_, path)| !path.is_empty()) {
            Some((name, _)) => Err(format!("{name} is set, but the server was given no tls-port: no connection would be encrypted")),
            None => Ok(None),
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// The name of a file and what is wrong with it, or which file there has to be.
    pub fn load(&self) -> Result<Tls, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certified = certified(&provider, (CERTIFICATE, &self.certificate), (KEY, &self.key))?;
        let clients = self.verifier(&provider)?;
        let versions = versions(&self.protocols)?;
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(|error| error.to_string())?;
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let mut config = builder.with_client_cert_verifier(clients).with_cert_resolver(resolver);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Tls(Arc::new(config)))
    }

    /// Verifier of clients' certificates. Authorities are read even if none is needed, to report errors in them.
    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let authorities = self.authorities()?;
        if self.clients == Clients::NotAsked {
            return Ok(WebPkiClientVerifier::no_client_auth());
        }
        if authorities.is_empty() {
            let clients = self.clients.name();
            return Err(format!(
                "tls-auth-clients {clients} needs {AUTHORITIES} or {AUTHORITIES_DIRECTORY}: who signs clients' certificates; \
                 with tls-auth-clients no they need none"
            ));
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider.clone());
        let builder = if self.clients == Clients::Optional { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error| format!("{AUTHORITIES}: {error}"))
    }

    fn authorities(&self) -> Result<RootCertStore, String> {
        let mut store = RootCertStore::empty();
        if !self.authorities.is_empty() && add(&mut store, AUTHORITIES, self.authorities.as_ref())? == 0 {
            return Err(format!("{AUTHORITIES} {}: there is no certificate in it", self.authorities));
        }
        if self.authorities_directory.is_empty() {
            return Ok(store);
        }
        let failed = |error| format!("{AUTHORITIES_DIRECTORY} {}: {error}", self.authorities_directory);
        let mut found = 0;
        for entry in std::fs::read_dir(&self.authorities_directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // Other files and folders may lie there; names are arbitrary.
            if path.is_file() {
                found += add(&mut store, AUTHORITIES_DIRECTORY, &path)?;
            }
        }
        if found == 0 {
            return Err(format!("{AUTHORITIES_DIRECTORY} {}: there is no file with a certificate in it", self.authorities_directory));
        }
        Ok(store)
    }
}

/// Reads a certificate and its key, each from the file of a directive.
fn certified(
    provider: &CryptoProvider,
    (certificate_name, certificate): (&str, &str),
    (key_name, key): (&str, &str),
) -> Result<CertifiedKey, String> {
    let chain = certificates(certificate_name, certificate.as_ref())?;
    if chain.is_empty() {
        return Err(format!("{certificate_name} {certificate}: there is no certificate in it"));
    }
    let secret = private_key(key_name, key.as_ref())?;
    let secret = provider.key_provider.load_private_key(secret).map_err(|error| format!("{key_name} {key}: {error}"))?;
    let certified = CertifiedKey::new(chain, secret);
    certified.keys_match().map_err(|error| match error {
        Error::InconsistentKeys(_) => format!("{key_name} {key}: this is not the key of the certificate in {certificate}"),
        Error::InvalidCertificate(why) => {
            format!("{certificate_name} {certificate}: no certificate of X.509 version 3 that can be used ({why:?})")
        }
        other => format!("{certificate_name} {certificate}: {other}"),
    })?;
    Ok(certified)
}

/// Adds the certificates of a file; returns their number.
fn add(store: &mut RootCertStore, name: &str, path: &Path) -> Result<usize, String> {
    let all = certificates(name, path)?;
    let count = all.len();
    for certificate in all {
        store.add(certificate).map_err(|error| format!("{name} {}: {error}", path.display()))?;
    }
    Ok(count)
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, String> {
    if path.as_os_str().is_empty() {
        return Err(format!("TLS needs {name}, which is not set"));
    }
    let failed = |error: io::Error| format!("{name} {}: {error}", path.display());
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_MAX {
        return Err(format!("{name} {}: larger than {FILE_MAX} bytes", path.display()));
    }
    std::fs::read(path).map_err(failed)
}

fn certificates(name: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(name, path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    all.map_err(|error| format!("{name} {}: {error}", path.display()))
}

fn private_key(name: &str, path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(name, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let is_encrypted = text.windows(b"ENCRYPTED".len()).any(|word| word == b"ENCRYPTED");
        let why = match error {
            _ if is_encrypted => "the key is encrypted, and the server knows no password; let only the server read the file instead".into(),
            pem::Error::NoItemsFound => "there is no key in it".into(),
            other => other.to_string(),
        };
        format!("{name} {}: {why}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::certificates::{Authority, pem};

    #[test]
    fn files_are_read_and_complained_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let file = |name: &str, text: &str| {
            std::fs::write(path(name), text).unwrap();
            path(name)
        };
        let authority = Authority::new("one");
        let ((certificate, key), (_, other_key)) = (authority.certify(), authority.certify());
        let good = Settings {
            certificate: file("cert.pem", &certificate),
            key: file("key.pem", &key),
            authorities: file("ca.pem", &authority.certificate()),
            ..Settings::default()
        };
        assert!(good.load().is_ok());
        let (none, no_pem) = (path("none"), file("no_pem", "nothing\n"));
        let damaged = file("damaged.pem", &certificate.replace("MII", "!!!"));
        let empty = file("empty.pem", &(pem("CERTIFICATE", b"no") + &pem("PRIVATE KEY", b"no")));
        let locked = file("locked.pem", &pem("ENCRYPTED PRIVATE KEY", b"no"));
        let other = file("other.pem", &other_key);
        let missing = "No such file or directory (os error 2)";
        type Change<'a> = &'a dyn Fn(&mut Settings);
        let cases: [(Change, String); 15] = [
            (&|s| s.certificate.clear(), "TLS needs tls-cert-file, which is not set".into()),
            (&|s| s.certificate.clone_from(&none), format!("tls-cert-file {none}: {missing}")),
            (&|s| s.certificate.clone_from(&no_pem), format!("tls-cert-file {no_pem}: there is no certificate in it")),
            (&|s| s.certificate.clone_from(&damaged), format!("tls-cert-file {damaged}: base64")),
            (&|s| s.certificate.clone_from(&empty), format!("tls-cert-file {empty}: no certificate of X.509 version 3")),
            (&|s| s.key.clear(), "TLS needs tls-key-file, which is not set".into()),
            (&|s| s.key.clone_from(&none), format!("tls-key-file {none}: {missing}")),
            (&|s| s.key.clone_from(&no_pem), format!("tls-key-file {no_pem}: there is no key in it")),
            (&|s| s.key.clone_from(&empty), format!("tls-key-file {empty}: ")),
            (&|s| s.key.clone_from(&locked), format!("tls-key-file {locked}: the key is encrypted")),
            (&|s| s.key.clone_from(&other), format!("tls-key-file {other}: this is not the key of the certificate in ")),
            (&|s| s.authorities.clone_from(&none), format!("tls-ca-cert-file {none}: {missing}")),
            (&|s| s.authorities.clone_from(&empty), format!("tls-ca-cert-file {empty}: ")),
            (&|s| s.authorities_directory.clone_from(&none), format!("tls-ca-cert-dir {none}: {missing}")),
            (&|s| s.authorities.clear(), "tls-auth-clients yes needs tls-ca-cert-file or tls-ca-cert-dir".into()),
        ];
        for (change, complaint) in cases {
            let mut settings = good.clone();
            change(&mut settings);
            let told = settings.load().map(|_| ()).unwrap_err();
            assert!(told.starts_with(&complaint), "{told}\n{complaint}");
        }
        let not_asked = Settings { clients: Clients::NotAsked, authorities: String::new(), ..good.clone() };
        assert!(not_asked.load_if(true, false).unwrap().is_some());
        let unused = good.load_if(false, false).map(|_| ()).unwrap_err();
        assert_eq!(unused, "tls-cert-file is set, but the server was given no tls-port: no connection would be encrypted");
        assert!(Settings::default().load_if(false, false).unwrap().is_none());
    }

    #[test]
    fn authorities_lie_in_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("README"), "nothing").unwrap();
        let settings = Settings { authorities_directory: path.clone(), ..Settings::default() };
        assert_eq!(settings.authorities().unwrap_err(), format!("tls-ca-cert-dir {path}: there is no file with a certificate in it"));
        for name in ["one", "two"] {
            std::fs::write(folder.path().join(name), Authority::new(name).certificate()).unwrap();
        }
        assert_eq!(settings.authorities().unwrap().len(), 2);
        std::fs::write(folder.path().join("three"), pem("CERTIFICATE", b"no")).unwrap();
        assert!(settings.authorities().unwrap_err().starts_with(&format!("tls-ca-cert-dir {path}/three: ")));
    }

    #[test]
    fn versions_have_names() {
        assert_eq!(versions("").unwrap().len(), 2);
        assert_eq!(versions(" tlsv1.3 ").unwrap(), [&TLS13]);
        assert_eq!(versions("TLSv1.2 TLSv1.3").unwrap(), [&TLS12, &TLS13]);
        assert_eq!(versions("TLSv1.1").unwrap_err(), "TLSv1.1 is not safe and not spoken; there are TLSv1.2 and TLSv1.3");
        assert_eq!(versions("TLSv1.2,TLSv1.3").unwrap_err(), "'TLSv1.2,TLSv1.3' is no version; there are TLSv1.2 and TLSv1.3");
        assert_eq!((Clients::parse("OPTIONAL"), Clients::parse("maybe")), (Some(Clients::Optional), None));
    }
}
