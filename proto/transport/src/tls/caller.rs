//! Verification of client certificates by an agent: signed by the CA, not revoked, and of a
//! controller or an operator of the same trust domain.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use super::{
    provider,
    revocation::{Revocations, Side},
};
use crate::identity::{Identity, IdentityError, SpiffeId};

/// A certificate signed by the CA, whose identity may not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WrongCaller {
    /// It has no role.
    #[error("the client certificate {0}")]
    Nobody(IdentityError),
    /// It belongs to an agent.
    #[error("the client certificate is of {0}: only controllers and operators may connect")]
    Role(Identity),
    /// It belongs to another trust domain.
    #[error("the client certificate is of trust domain {found}, this agent's is {expected}")]
    TrustDomain {
        /// The trust domain in the certificate.
        found: String,
        /// The expected trust domain.
        expected: String,
    },
}

/// The identity of a caller, if it may connect to an agent of this trust domain.
pub(super) fn caller(leaf: &[u8], trust_domain: &str) -> Result<Identity, WrongCaller> {
    let id = SpiffeId::from_certificate(leaf).map_err(WrongCaller::Nobody)?;
    if id.trust_domain != trust_domain {
        return Err(WrongCaller::TrustDomain {
            found: id.trust_domain,
            expected: trust_domain.to_owned(),
        });
    }
    match id.identity {
        identity @ (Identity::Controller | Identity::Operator(_)) => Ok(identity),
        rack @ Identity::Rack(_) => Err(WrongCaller::Role(rack)),
    }
}

/// Verifies client certificates within the handshake.
pub(super) struct CallerVerifier {
    pub(super) chain: Arc<dyn ClientCertVerifier>,
    pub(super) revocations: Arc<Revocations>,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) trust_domain: String,
}

impl fmt::Debug for CallerVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerVerifier")
            .field("trust_domain", &self.trust_domain)
            .finish_non_exhaustive()
    }
}

impl ClientCertVerifier for CallerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chain
            .verify_client_cert(end_entity, intermediates, now)?;
        let chain = (end_entity, intermediates);
        self.revocations
            .check(chain, Side::Client, &self.roots, &provider(), now)?;
        match caller(end_entity, &self.trust_domain) {
            Ok(_) => Ok(verified),
            Err(wrong) => Err(CertificateError::Other(OtherError(Arc::new(wrong))).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
