//! TLS of a client: the chain must be signed by the CA, and the peer must be the agent of the
//! expected rack. Host names are not compared.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
    client::{
        ResolvesClientCert, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
    sign::SingleCertAndKey,
};

use super::{
    ExpectedRole, Store, TlsError, TlsFiles, provider,
    revocation::{Revocations, Side},
};
use crate::identity::{Identity, SpiffeId};

/// TLS configuration of a client. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientTls(Arc<Store>);

impl ClientTls {
    /// For the controller: its certificate must have that role.
    pub fn controller(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Store::load(
            files,
            ExpectedRole::Controller,
        )?)))
    }

    /// For the command line: the certificate must be an operator's.
    pub fn operator(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Store::load(files, ExpectedRole::Operator)?)))
    }

    /// Checks the files now. `true`: they have changed, and the next connection uses them.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload()
    }

    /// Checks the files periodically; never returns. An invalid new set is logged once, and the
    /// previous set stays in use.
    pub fn watch(&self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.0.clone().watch(every)
    }

    /// Identity of the own certificate.
    pub fn identity(&self) -> Identity {
        self.0.current.load().id.identity.clone()
    }

    /// Expiry of the own certificate.
    pub fn not_after(&self) -> Timestamp {
        self.0.current.load().validity.not_after
    }

    /// Configuration of one connection to the agent of `rack`. Created for each connection, so that
    /// the current files are used and no session of an earlier peer is resumed.
    pub(crate) fn config(&self, rack: &str) -> Result<ClientConfig, rustls::Error> {
        let material = self.0.current.load();
        let verifier = RackVerifier {
            roots: material.roots.clone(),
            revocations: material.revocations.clone(),
            provider: provider(),
            expected: SpiffeId {
                trust_domain: material.id.trust_domain.clone(),
                identity: Identity::Rack(rack.to_owned()),
            },
        };
        let ours: Arc<dyn ResolvesClientCert> =
            Arc::new(SingleCertAndKey::from(material.key.clone()));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(ours);
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// The peer is trusted, but has another identity than expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongPeer {
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl fmt::Display for WrongPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(f, "expected {expected}, but the peer's certificate {found}")
    }
}

impl std::error::Error for WrongPeer {}

#[derive(Debug)]
struct RackVerifier {
    roots: Arc<RootCertStore>,
    revocations: Arc<Revocations>,
    provider: Arc<CryptoProvider>,
    expected: SpiffeId,
}

impl RackVerifier {
    fn wrong(&self, found: String) -> rustls::Error {
        let error = WrongPeer {
            expected: self.expected.to_string(),
            found,
        };
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}

impl ServerCertVerifier for RackVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        )?;
        let chain = (end_entity, intermediates);
        self.revocations
            .check(chain, Side::Server, &self.roots, &self.provider, now)?;
        match SpiffeId::from_certificate(end_entity) {
            Ok(id) if id == self.expected => Ok(ServerCertVerified::assertion()),
            Ok(id) => Err(self.wrong(format!("is for {id}"))),
            Err(error) => Err(self.wrong(error.to_string())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
