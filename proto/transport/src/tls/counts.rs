//! Counters of connections, for metrics.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use rustls::{CertificateError, Error};

use super::caller::WrongCaller;

/// Reason why a handshake was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The client sent no certificate.
    NoCertificate,
    /// The certificate is not valid at this time.
    Expired,
    /// The certificate is malformed, or not signed by the CA.
    Untrusted,
    /// The certificate is on a revocation list.
    Revoked,
    /// The certificate is neither that of a controller nor of an operator.
    WrongRole,
    /// The certificate belongs to another trust domain.
    WrongTrustDomain,
    /// The handshake did not finish in time.
    Slow,
    /// The handshake was evicted in favour of others.
    Displaced,
    /// The identity, or all operators together, have reached their limit of connections.
    TooMany,
    /// The client does not speak TLS, or has closed the connection.
    Garbage,
}

impl Refused {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::NoCertificate,
        Self::Expired,
        Self::Untrusted,
        Self::Revoked,
        Self::WrongRole,
        Self::WrongTrustDomain,
        Self::Slow,
        Self::Displaced,
        Self::TooMany,
        Self::Garbage,
    ];

    /// A label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoCertificate => "no-certificate",
            Self::Expired => "expired",
            Self::Untrusted => "untrusted",
            Self::Revoked => "revoked",
            Self::WrongRole => "wrong-role",
            Self::WrongTrustDomain => "wrong-trust-domain",
            Self::Slow => "slow",
            Self::Displaced => "displaced",
            Self::TooMany => "too-many",
            Self::Garbage => "garbage",
        }
    }

    pub(super) fn of(error: &io::Error) -> Self {
        let source = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
        match source {
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            )) => Self::Expired,
            Some(Error::InvalidCertificate(CertificateError::Revoked)) => Self::Revoked,
            Some(Error::InvalidCertificate(CertificateError::Other(other))) => {
                match other.0.downcast_ref::<WrongCaller>() {
                    Some(WrongCaller::Nobody(_) | WrongCaller::Role(_)) => Self::WrongRole,
                    Some(WrongCaller::TrustDomain { .. }) => Self::WrongTrustDomain,
                    None => Self::Untrusted,
                }
            }
            Some(Error::InvalidCertificate(_)) => Self::Untrusted,
            _ => Self::Garbage,
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counts {
    accepted: AtomicU64,
    refused: [AtomicU64; Refused::ALL.len()],
}

impl Counts {
    /// Number of handshakes that succeeded.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Number of rejected handshakes, by reason.
    pub fn refused(&self) -> [(Refused, u64); Refused::ALL.len()] {
        let mut counts = Refused::ALL.map(|refused| (refused, 0));
        for ((_, count), counter) in counts.iter_mut().zip(&self.refused) {
            *count = counter.load(Ordering::Relaxed);
        }
        counts
    }

    pub(super) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, why: Refused) {
        let at = Refused::ALL.iter().position(|one| *one == why);
        if let Some(counter) = at.and_then(|at| self.refused.get(at)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
