//! What has become of connections, for metrics.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use rustls::{CertificateError, Error};

/// Why a connection did not come to a good handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// It showed no certificate.
    NoCertificate,
    /// Its certificate is over, or has not begun.
    Expired,
    /// Its certificate is not signed by our CA, or is none.
    Untrusted,
    /// It did not finish in time.
    Slow,
    /// It had to make way for others, or there are too many connections already.
    Displaced,
    /// It does not speak our TLS, or went away.
    Garbage,
}

impl Refused {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NoCertificate,
        Self::Expired,
        Self::Untrusted,
        Self::Slow,
        Self::Displaced,
        Self::Garbage,
    ];

    /// A label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoCertificate => "no-certificate",
            Self::Expired => "expired",
            Self::Untrusted => "untrusted",
            Self::Slow => "slow",
            Self::Displaced => "displaced",
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
    /// Good handshakes.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Refused ones, by reason.
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
