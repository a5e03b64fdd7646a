//! Mutual TLS for both ends, from files that may change at any time.
//!
//! Owns: reading and validating certificate, key and CA, replacing them at run time, and the
//! identity that a client requires of the agent of a rack. Must never: use half of a new set (an
//! invalid new file leaves the previous set in use), or print a key.

mod caller;
mod client;
mod connection_slots;
mod counts;
mod files;
mod queue;
mod refusals;
mod reload;
mod revocation;
mod server;
mod stream;
mod web;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use tracing::info;

pub use client::ClientTls;
pub(crate) use client::WrongPeer;
pub use counts::{Counts, Refused};
use files::Material;
pub(crate) use files::not_after;
pub use files::{TlsError, TlsFiles};
use reload::reload_every;
pub use server::{AcceptLimits, CONNECTION_AGE, Incoming, ServerTls, incoming};
pub use stream::{PeerInfo, PeerStream, RemoteAddr};
pub use web::{WebTls, fingerprint};

use crate::identity::{Identity, SpiffeId};

/// Polling interval of the files. A Kubernetes Secret mount swaps symlinks, which file watches do
/// not follow well, and no new certificate is needed sooner.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Role that the own certificate must have.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpectedRole {
    Rack(String),
    Controller,
    Operator,
}

impl ExpectedRole {
    fn check(&self, files: &TlsFiles, id: &SpiffeId) -> Result<(), TlsError> {
        let ok = match (self, &id.identity) {
            (Self::Rack(want), Identity::Rack(name)) => want == name,
            (Self::Controller, Identity::Controller) | (Self::Operator, Identity::Operator(_)) => {
                true
            }
            _ => false,
        };
        if ok {
            return Ok(());
        }
        Err(TlsError::WrongRole {
            path: files.cert.clone(),
            found: id.to_string(),
            expected: match self {
                Self::Rack(name) => format!("spiffe://{}/rack/{name}", id.trust_domain),
                Self::Controller => format!("spiffe://{}/controller", id.trust_domain),
                Self::Operator => format!("spiffe://{}/operator/<name>", id.trust_domain),
            },
        })
    }
}

/// The files, and their last valid content.
#[derive(Debug)]
struct Store {
    files: TlsFiles,
    want: ExpectedRole,
    current: ArcSwap<Material>,
}

impl Store {
    fn load(files: TlsFiles, want: ExpectedRole) -> Result<Self, TlsError> {
        let store = Self::load_any_validity(files, want)?;
        store.check_validity(SystemTime::now())?;
        Ok(store)
    }

    /// Loads a set whose certificate may be expired or not yet valid.
    fn load_any_validity(files: TlsFiles, want: ExpectedRole) -> Result<Self, TlsError> {
        let material = Material::new(&files, files.read()?)?;
        want.check(&files, &material.id)?;
        Ok(Self {
            files,
            want,
            current: ArcSwap::from_pointee(material),
        })
    }

    fn check_validity(&self, now: SystemTime) -> Result<(), TlsError> {
        self.current.load().validity.check(&self.files.cert, now)
    }

    /// Whether a new set was loaded.
    fn reload(&self) -> Result<bool, TlsError> {
        let contents = self.files.read()?;
        let current = self.current.load();
        if current.contents == contents {
            return Ok(false);
        }
        // A lost file must not make revoked certificates valid.
        if current.contents.crl.is_some() && contents.crl.is_none() {
            return Err(TlsError::CrlGone {
                path: self.files.crl.clone(),
            });
        }
        let material = Material::new(&self.files, contents)?;
        material
            .validity
            .check(&self.files.cert, SystemTime::now())?;
        self.want.check(&self.files, &material.id)?;
        info!(identity = %material.id, not_after = %material.validity.not_after, "TLS files changed: the new ones are in use");
        self.current.store(Arc::new(material));
        Ok(true)
    }

    async fn watch(self: Arc<Self>, every: Duration) {
        reload_every(every, move || self.reload()).await;
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The usual file names in a directory, as in a Kubernetes TLS Secret.
pub(crate) fn in_dir(dir: &Path) -> TlsFiles {
    TlsFiles {
        cert: dir.join("tls.crt"),
        key: dir.join("tls.key"),
        ca: dir.join("ca.crt"),
        crl: dir.join("crl.pem"),
    }
}

#[cfg(test)]
mod tests;
