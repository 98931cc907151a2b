//! Directives of TLS that have an effect.

use super::parameter::{Parameter, parameter};
use super::values::number;
use crate::tls;

/// Directives of TLS.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter(
        "tls-auth-clients",
        true,
        "whether TLS clients must show a certificate: `yes`, `optional` (one that is shown must be valid), `no` (not requested)",
        |c| c.tls.clients.name().into(),
        |c, value| {
            c.tls.clients = tls::Clients::parse(value).ok_or("argument(s) must be one of the following: no, yes, optional")?;
            Ok(())
        },
    ),
    parameter(
        "tls-ca-cert-dir",
        true,
        "directory of more files like `tls-ca-cert-file`, whatever their names; empty: none",
        |c| c.tls.authorities_directory.clone(),
        |c, value| {
            c.tls.authorities_directory = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-ca-cert-file",
        true,
        "PEM file of the authorities that sign client certificates; empty: none",
        |c| c.tls.authorities.clone(),
        |c, value| {
            c.tls.authorities = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-cert-file",
        true,
        "PEM file of the server's certificate chain. `CONFIG SET` reads it again, also under the same name",
        |c| c.tls.certificate.clone(),
        |c, value| {
            c.tls.certificate = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-key-file",
        true,
        "PEM file of the certificate's key",
        |c| c.tls.key.clone(),
        |c, value| {
            c.tls.key = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-port",
        false,
        "port for TLS clients, on the same addresses; 0: none",
        |c| c.tls_port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.tls_port = number),
    ),
    parameter(
        "tls-protocols",
        true,
        "allowed versions, of `TLSv1.2` and `TLSv1.3`; empty: both",
        |c| c.tls.protocols.clone(),
        |c, value| {
            tls::versions(value)?;
            c.tls.protocols = value.into();
            Ok(())
        },
    ),
];
