//! Certificates, made when the tests run: of X.509 version 3, with keys on P-256.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const TEXT: u8 = 0x0c;
const TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;

const COMMON_NAME: &[u8] = b"\x06\x03\x55\x04\x03";
const PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
const P_256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const ECDSA_SHA_256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
/// The certificate may sign others.
const IS_AUTHORITY: &[u8] = b"\x30\x0f\x06\x03\x55\x1d\x13\x01\x01\xff\x04\x05\x30\x03\x01\x01\xff";
/// The certificate is for localhost and 127.0.0.1.
const IS_HERE: &[u8] = b"\x30\x1a\x06\x03\x55\x1d\x11\x04\x13\x30\x11\x82\x09localhost\x87\x04\x7f\x00\x00\x01";

/// An element of DER and what it consists of.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut bytes = vec![tag];
    match content.len() {
        length @ 0..=127 => bytes.push(length as u8),
        length @ 128..=255 => bytes.extend([0x81, length as u8]),
        length => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    bytes.extend(content);
    bytes
}

pub fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let number = (0..3).fold(0, |number, at| number << 8 | usize::from(*three.get(at).unwrap_or(&0)));
        for place in 0..4 {
            text.push(if place > three.len() { '=' } else { char::from(DIGITS[number >> (18 - 6 * place) & 63]) });
        }
    }
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Keys, and their file.
fn keys() -> (EcdsaKeyPair, String) {
    let random = SystemRandom::new();
    let file = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let keys = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, file.as_ref(), &random).unwrap();
    (keys, pem("PRIVATE KEY", file.as_ref()))
}

fn certificate(subject: &str, public: &[u8], extension: &[u8], issuer: &str, signer: &EcdsaKeyPair) -> String {
    let random = SystemRandom::new();
    let mut serial = [0; 9];
    random.fill(&mut serial).unwrap();
    serial[0] = 1;
    let name = |text: &str| der(SEQUENCE, &[&der(SET, &[&der(SEQUENCE, &[COMMON_NAME, &der(TEXT, &[text.as_bytes()])])])]);
    let algorithm = der(SEQUENCE, &[ECDSA_SHA_256]);
    let to_sign = der(
        SEQUENCE,
        &[
            &der(0xa0, &[&der(INTEGER, &[&[2]])]),
            &der(INTEGER, &[&serial]),
            &algorithm,
            &name(issuer),
            &der(SEQUENCE, &[&der(TIME, &[b"200101000000Z"]), &der(LONG_TIME, &[b"20990101000000Z"])]),
            &name(subject),
            &der(SEQUENCE, &[&der(SEQUENCE, &[PUBLIC_KEY, P_256]), &der(BIT_STRING, &[&[0], public])]),
            &der(0xa3, &[&der(SEQUENCE, &[extension])]),
        ],
    );
    let signature = signer.sign(&random, &to_sign).unwrap();
    let whole = der(SEQUENCE, &[&to_sign, &algorithm, &der(BIT_STRING, &[&[0], signature.as_ref()])]);
    pem("CERTIFICATE", &whole)
}

/// An authority that signs certificates.
pub struct Authority {
    name: String,
    keys: EcdsaKeyPair,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        Authority { name: name.into(), keys: keys().0 }
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> String {
        certificate(&self.name, self.keys.public_key().as_ref(), IS_AUTHORITY, &self.name, &self.keys)
    }

    /// A certificate for somebody on this machine, and its key.
    pub fn certify(&self) -> (String, String) {
        let (keys, file) = keys();
        (certificate("somebody", keys.public_key().as_ref(), IS_HERE, &self.name, &self.keys), file)
    }
}
