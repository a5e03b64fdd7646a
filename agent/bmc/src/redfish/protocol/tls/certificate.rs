//! The public key of a certificate, whatever the form of the certificate.
//!
//! Owns: finding the key (RFC 5280, 4.1), and checking a signature of a handshake with it. Must never:
//! judge the certificate; the caller trusts exactly this one.

use rustls::{
    CertificateError, Error, SignatureScheme,
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};
use webpki::RawPublicKeyEntity;

use super::rsa;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
/// `[0] EXPLICIT Version`, which X.509 version 1 does not have.
const VERSION: u8 = 0xa0;
/// AlgorithmIdentifier of rsaEncryption (RFC 3279, 2.3.1), without its outer tag.
const RSA: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// An element of DER: its tag, its content, the whole element, and the bytes after it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
    rest: &'a [u8],
}

/// The first element of DER (X.690, 8.1) with a length of at most four bytes.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&tag, after) = bytes.split_first()?;
    let (&first, after) = after.split_first()?;
    let (length, after) = match first {
        0..=0x7f => (usize::from(first), after),
        0x81..=0x84 => {
            let (length, after) = after.split_at_checked(usize::from(first & 0x7f))?;
            let length = length
                .iter()
                .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
            (length, after)
        }
        _ => return None,
    };
    let (content, rest) = after.split_at_checked(length)?;
    let whole = bytes.get(..bytes.len() - rest.len())?;
    Some(Element {
        tag,
        content,
        whole,
        rest,
    })
}

fn tagged(bytes: &[u8], tag: u8) -> Option<Element<'_>> {
    element(bytes).filter(|element| element.tag == tag)
}

/// The `SubjectPublicKeyInfo` of a certificate of any version.
fn public_key_info(certificate: &[u8]) -> Option<&[u8]> {
    let certificate = tagged(certificate, SEQUENCE)?;
    let mut rest = tagged(certificate.content, SEQUENCE)?.content;
    if let Some(version) = tagged(rest, VERSION) {
        rest = version.rest;
    }
    rest = tagged(rest, INTEGER)?.rest;
    // Algorithm of the signature, issuer, validity and subject.
    for _ in 0..4 {
        rest = tagged(rest, SEQUENCE)?.rest;
    }
    Some(tagged(rest, SEQUENCE)?.whole)
}

/// The two numbers of an RSA key: modulus and exponent.
fn rsa_numbers(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let algorithm = tagged(tagged(info, SEQUENCE)?.content, SEQUENCE)?;
    if algorithm.content != RSA {
        return None;
    }
    let key = tagged(algorithm.rest, BIT_STRING)?.content;
    let numbers = tagged(key.strip_prefix(&[0])?, SEQUENCE)?.content;
    let modulus = tagged(numbers, INTEGER)?;
    Some((modulus.content, tagged(modulus.rest, INTEGER)?.content))
}

/// Verifies the signature of a handshake with the key of the certificate.
pub(super) fn verify(
    certificate: &CertificateDer<'_>,
    algorithms: &WebPkiSupportedAlgorithms,
    scheme: SignatureScheme,
    message: &[u8],
    signature: &[u8],
) -> Result<(), Error> {
    let encoding = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let wrong = || Error::InvalidCertificate(CertificateError::BadSignature);
    let info = public_key_info(certificate).ok_or_else(encoding)?;
    if let Some((modulus, exponent)) = rsa_numbers(info)
        && let Some(key) = rsa::ShortKey::new(modulus, exponent)
    {
        let is_valid = key.verify(scheme, message, signature);
        return is_valid.then_some(()).ok_or_else(wrong);
    }
    let info = SubjectPublicKeyInfoDer::from(info);
    let key = RawPublicKeyEntity::try_from(&info).map_err(|_| encoding())?;
    let mut candidates = algorithms
        .mapping
        .iter()
        .filter(|(known, _)| *known == scheme)
        .flat_map(|(_, algorithms)| algorithms.iter());
    let is_valid =
        candidates.any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok());
    is_valid.then_some(()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{KeyPair, PublicKeyData, SigningKey};

    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82], &length[..], &content].concat()
    }

    /// A certificate around a key, of version 1 unless there is a version.
    fn certificate(version: &[u8], key: &[u8]) -> Vec<u8> {
        let any = der(SEQUENCE, &[b"x"]);
        let tbs = der(
            SEQUENCE,
            &[version, &der(INTEGER, &[&[7]]), &any, &any, &any, &any, key],
        );
        der(SEQUENCE, &[&tbs, &any, &der(BIT_STRING, &[&[0, 1]])])
    }

    #[test]
    fn key_is_found_in_a_certificate_of_any_version() {
        let numbers = der(
            SEQUENCE,
            &[&der(INTEGER, &[&[0, 9]]), &der(INTEGER, &[&[3]])],
        );
        let key = der(
            SEQUENCE,
            &[&der(SEQUENCE, &[RSA]), &der(BIT_STRING, &[&[0], &numbers])],
        );
        for version in [Vec::new(), der(VERSION, &[&der(INTEGER, &[&[2]])])] {
            let certificate = certificate(&version, &key);
            assert_eq!(public_key_info(&certificate), Some(&key[..]));
        }
        assert_eq!(rsa_numbers(&key), Some((&[0, 9][..], &[3][..])));
    }

    #[test]
    fn signature_is_verified_with_the_key_of_a_certificate_of_any_version() {
        let key = KeyPair::generate().unwrap();
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let signature = key.sign(b"a message").unwrap();
        for version in [Vec::new(), der(VERSION, &[&der(INTEGER, &[&[2]])])] {
            let certificate = certificate(&version, &key.subject_public_key_info());
            let verified = |scheme, message: &[u8]| {
                let certificate = CertificateDer::from(&certificate[..]);
                verify(&certificate, &algorithms, scheme, message, &signature)
            };
            let scheme = SignatureScheme::ECDSA_NISTP256_SHA256;
            assert_eq!(verified(scheme, b"a message"), Ok(()));
            verified(scheme, b"another message").unwrap_err();
            verified(SignatureScheme::ED25519, b"a message").unwrap_err();
        }
        let any = CertificateDer::from(&b"\x30\x00"[..]);
        let scheme = SignatureScheme::ECDSA_NISTP256_SHA256;
        verify(&any, &algorithms, scheme, b"a message", &signature).unwrap_err();
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (public_key_info(&bytes), rsa_numbers(&bytes));
            let _ = public_key_info(&certificate(&bytes, &bytes));
        }
    }
}
