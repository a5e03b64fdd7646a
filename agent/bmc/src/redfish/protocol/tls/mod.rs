//! TLS client configuration for a trust setting.
//!
//! Owns: certificate verification. Must never: read the disk for each BMC, or accept a handshake
//! without proof of the private key (except where nothing is verified).

mod certificate;
mod rsa;

use std::sync::{Arc, OnceLock};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use sha2::{Digest, Sha256};

use super::trust::{Trust, TrustError, fingerprint};

/// TLS sessions that are remembered of a server. Each client has one server, and the default has room for 32.
const SESSIONS: usize = 8;

/// A client configuration for TLS 1.2 and 1.3 that verifies certificates by `trust`.
pub(super) fn client_config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Setup(error.to_string()))?;
    let mut config = match trust {
        Trust::System => builder
            .with_root_certificates(system_roots()?)
            .with_no_client_auth(),
        Trust::CaBundle(pem) => builder
            .with_root_certificates(bundle(pem)?)
            .with_no_client_auth(),
        Trust::Sha256Pin(pin) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned {
                pin: *pin,
                provider,
            }))
            .with_no_client_auth(),
        Trust::Insecure => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate { provider }))
            .with_no_client_auth(),
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(config)
}

/// The root certificates of the operating system, read once per process.
fn system_roots() -> Result<Arc<RootCertStore>, TrustError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unreadable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let why = if errors.is_empty() {
            "none installed".to_owned()
        } else {
            errors.join("; ")
        };
        return Err(TrustError::NoSystemRoots(why));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

fn bundle(pem: &[u8]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TrustError::CaBundle(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| TrustError::CaBundle(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TrustError::CaBundle("no CERTIFICATE section".to_owned()));
    }
    Ok(roots)
}

const PKCS1: [SignatureScheme; 3] = [
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// Trusts one certificate by its SHA-256, if the server proves that it has the key. The form of the
/// certificate does not matter: version, dates, names, and who signed it.
#[derive(Debug)]
struct Pinned {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Sha256::digest(end_entity.as_ref());
        if shown.as_slice() == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General(format!(
            "the certificate's SHA-256 is {}, but {} is pinned",
            fingerprint(shown.as_slice()),
            fingerprint(&self.pin)
        )))
    }

    // Without these two checks, anyone who has seen the certificate could present it.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        certificate::verify(cert, algorithms, dss.scheme, message, dss.signature())?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // TLS 1.3 allows PKCS #1 v1.5 in certificates only (RFC 8446, 4.2.3).
        if PKCS1.contains(&dss.scheme) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        certificate::verify(cert, algorithms, dss.scheme, message, dss.signature())?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Trusts every certificate, including keys that are too short to verify, which old BMCs have.
#[derive(Debug)]
struct AcceptAnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
