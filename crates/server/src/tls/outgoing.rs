//! TLS towards other servers: a replica's connection to its primary (`tls-replication`).
//!
//! As in Redis, the other server's certificate has to be signed by one of the configured authorities, whatever the name in it: servers of
//! one installation are often known by addresses that no certificate has.

use super::{AUTHORITIES, AUTHORITIES_DIRECTORY, CERTIFICATE, KEY, Settings, versions};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const CLIENT_CERTIFICATE: &str = "tls-client-cert-file";
const CLIENT_KEY: &str = "tls-client-key-file";

/// Configuration of new connections to other servers. Clones share it.
#[derive(Debug, Clone)]
pub struct Outgoing(Arc<ClientConfig>);

impl Outgoing {
    /// The client's end of a new connection to a host.
    ///
    /// # Errors
    /// None are known.
    pub fn begin(&self, host: &str) -> io::Result<ClientConnection> {
        // A name that no certificate can have is not told to the other server, and is not checked in any case.
        let nobody = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
        let name = ServerName::try_from(host.to_owned()).unwrap_or(nobody);
        ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)
    }
}

impl Settings {
    /// Reads the files for connections to other servers. The certificate shown to them is the one for that purpose, or else the server's
    /// own, or none.
    ///
    /// # Errors
    /// The name of a file and what is wrong with it, or which file there has to be.
    pub fn load_outgoing(&self) -> Result<Outgoing, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authorities = self.authorities()?;
        if authorities.is_empty() {
            return Err(format!("tls-replication needs {AUTHORITIES} or {AUTHORITIES_DIRECTORY}: who signs the primary's certificate"));
        }
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), provider.clone()).build();
        let verifier = AnyName(inner.map_err(|error| format!("{AUTHORITIES}: {error}"))?);
        let versions = versions(&self.protocols)?;
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions);
        let builder = builder.map_err(|error| error.to_string())?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let shown = match (self.client_certificate.is_empty(), self.certificate.is_empty()) {
            (false, _) => Some([(CLIENT_CERTIFICATE, self.client_certificate.as_str()), (CLIENT_KEY, self.client_key.as_str())]),
            (true, false) => Some([(CERTIFICATE, self.certificate.as_str()), (KEY, self.key.as_str())]),
            (true, true) => None,
        };
        let config = match shown {
            Some([certificate, key]) => {
                let certified = super::certified(&provider, certificate, key)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Outgoing(Arc::new(config)))
    }
}

/// Accepts certificates that the authorities have signed, whatever name is in them.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The name is checked last, when the rest was found to be right.
            Err(Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::certificates::Authority;

    #[test]
    fn a_primary_is_trusted_by_its_authority() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name).display().to_string();
            std::fs::write(&path, text).unwrap();
            path
        };
        let authority = Authority::new("one");
        let (certificate, key) = authority.certify();
        let authorities = file("ca.pem", &authority.certificate());
        let alone = Settings { authorities, ..Settings::default() };
        let outgoing = alone.load_outgoing().unwrap();
        for host in ["127.0.0.1", "::1", "localhost", "no_name at all"] {
            assert!(outgoing.begin(host).is_ok(), "{host}");
        }
        let without = Settings::default().load_outgoing().map(|_| ()).unwrap_err();
        assert!(without.starts_with("tls-replication needs tls-ca-cert-file"), "{without}");
        let shows = Settings { client_certificate: file("c.pem", &certificate), ..alone.clone() };
        assert_eq!(shows.load_outgoing().map(|_| ()).unwrap_err(), "TLS needs tls-client-key-file, which is not set");
        let shows = Settings { client_key: file("k.pem", &key), ..shows };
        assert!(shows.load_outgoing().is_ok());
    }
}
