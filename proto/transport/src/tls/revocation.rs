//! Certificate revocation lists.
//!
//! A list applies to the CA that signed it, for every certificate of a chain. A CA without a list
//! revokes nothing, and a list past its `nextUpdate` still revokes its entries: an outdated list
//! must not separate a rack from its controller.

use std::path::Path;

use rustls::{
    CertificateError, OtherError, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
};
use webpki::{
    BorrowedCertRevocationList, CertRevocationList, EndEntityCert, KeyUsage,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

use super::TlsError;

/// The end of a connection that a certificate belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// The lists of one file; empty without a file.
#[derive(Debug, Default)]
pub(super) struct Revocations(Vec<CertRevocationList<'static>>);

impl Revocations {
    /// Parses every list of a PEM file.
    pub(super) fn parse(path: &Path, pem: &[u8]) -> Result<Self, TlsError> {
        let lists: Vec<CertificateRevocationListDer<'static>> =
            CertificateRevocationListDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .unwrap_or_default();
        if lists.is_empty() {
            return Err(TlsError::Pem {
                path: path.to_owned(),
                expected: "certificate revocation list",
            });
        }
        let lists = lists.iter().map(|list| {
            let list = BorrowedCertRevocationList::from_der(list.as_ref());
            let owned = list.and_then(|list| list.to_owned());
            owned.map(Into::into).map_err(|error| TlsError::Crl {
                path: path.to_owned(),
                reason: error.to_string(),
            })
        });
        Ok(Self(lists.collect::<Result<_, _>>()?))
    }

    /// Whether a certificate of this chain is on a list of its CA.
    pub(super) fn check(
        &self,
        (leaf, intermediates): (&CertificateDer<'_>, &[CertificateDer<'_>]),
        side: Side,
        roots: &RootCertStore,
        provider: &CryptoProvider,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let lists: Vec<_> = self.0.iter().collect();
        let Ok(options) = RevocationOptionsBuilder::new(&lists) else {
            return Ok(());
        };
        let options = options.with_status_policy(UnknownStatusPolicy::Allow);
        let usage = match side {
            Side::Client => KeyUsage::client_auth(),
            Side::Server => KeyUsage::server_auth(),
        };
        let leaf = EndEntityCert::try_from(leaf).map_err(refusal)?;
        leaf.verify_for_usage(
            provider.signature_verification_algorithms.all,
            &roots.roots,
            intermediates,
            now,
            usage,
            Some(options.build()),
            None,
        )
        .map(drop)
        .map_err(refusal)
    }
}

fn refusal(error: webpki::Error) -> rustls::Error {
    match error {
        webpki::Error::CertRevoked => CertificateError::Revoked,
        // The chain itself was verified before, with its own error.
        other => CertificateError::Other(OtherError(std::sync::Arc::new(other))),
    }
    .into()
}
