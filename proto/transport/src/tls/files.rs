//! Certificate, key and CA files, validated as one set.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use secrecy::{ExposeSecret, SecretSlice};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{in_dir, provider, revocation::Revocations};
use crate::identity::{IdentityError, SpiffeId};

/// Paths of certificate, key and CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Own certificate chain, PEM, leaf first.
    pub cert: PathBuf,
    /// Private key of the certificate, PEM.
    pub key: PathBuf,
    /// CA certificates that sign the peers' certificates, PEM.
    pub ca: PathBuf,
    /// Revocation lists of these CAs, PEM. The file may be missing or empty.
    pub crl: PathBuf,
}

impl TlsFiles {
    /// `tls.crt`, `tls.key`, `ca.crt` and, if present, `crl.pem` of one directory.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        in_dir(&dir.into())
    }

    pub(super) fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents {
            cert: read(&self.cert)?,
            key: read(&self.key)?.into(),
            ca: read(&self.ca)?,
            crl: read_crl(&self.crl)?,
        })
    }
}

fn read_crl(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    match read(path) {
        Ok(pem) => Ok(Some(pem).filter(|pem| !pem.trim_ascii().is_empty())),
        Err(TlsError::Read { why, .. }) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reason why a set of TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason, as a clause for messages.
        why: io::Error,
    },
    /// Not PEM, or no item of the right kind in it.
    #[error("{path}: holds no {expected} in PEM")]
    Pem {
        /// Path of the file.
        path: PathBuf,
        /// What the file should contain.
        expected: &'static str,
    },
    /// The own certificate has expired.
    #[error("certificate {path}: expired on {at}; renew it")]
    Expired {
        /// Path of the file.
        path: PathBuf,
        /// End of validity.
        at: Timestamp,
    },
    /// The own certificate is not valid yet.
    #[error("certificate {path}: valid only from {at}; check the clock of this machine")]
    NotYetValid {
        /// Path of the file.
        path: PathBuf,
        /// When the certificate becomes valid.
        at: Timestamp,
    },
    /// Certificate and key do not match.
    #[error("key {key} does not belong to certificate {cert}")]
    KeyMismatch {
        /// Path of the key.
        key: PathBuf,
        /// Path of the certificate.
        cert: PathBuf,
    },
    /// The key is of a kind that TLS does not support.
    #[error("key {path}: {reason}")]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// The reason; never the key.
        reason: String,
    },
    /// The CA certificate cannot be used.
    #[error("CA {path}: {reason}")]
    Ca {
        /// Path of the file.
        path: PathBuf,
        /// Why the CA certificate cannot be used.
        reason: String,
    },
    /// The revocation list cannot be used.
    #[error("revocation list {path}: {reason}")]
    Crl {
        /// Path of the file.
        path: PathBuf,
        /// Why the revocation list cannot be used.
        reason: String,
    },
    /// The revocation list was removed.
    #[error(
        "revocation list {path}: missing or empty; to revoke nothing, provide a list without entries"
    )]
    CrlGone {
        /// Path of the file.
        path: PathBuf,
    },
    /// A certificate without a role.
    #[error("certificate {path}: {why}")]
    Identity {
        /// Path of the file.
        path: PathBuf,
        /// Why the identity is not accepted.
        why: IdentityError,
    },
    /// A certificate of another role than that of this process.
    #[error("certificate {path} is for {found}: expected a URI SAN {expected}")]
    WrongRole {
        /// Path of the file.
        path: PathBuf,
        /// The identity in the certificate.
        found: String,
        /// Identity that the certificate should have.
        expected: String,
    },
    /// rustls rejects the set.
    #[error("TLS configuration from {path}: {reason}")]
    Config {
        /// Path of the certificate.
        path: PathBuf,
        /// The error of rustls.
        reason: String,
    },
}

/// Content of the files, to detect changes.
pub(super) struct Contents {
    cert: Vec<u8>,
    key: SecretSlice<u8>,
    ca: Vec<u8>,
    pub(super) crl: Option<Vec<u8>>,
}

impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        self.cert == other.cert
            && self.ca == other.ca
            && self.crl == other.crl
            && self.key.expose_secret() == other.key.expose_secret()
    }
}

/// A consistent set.
pub(super) struct Material {
    pub(super) contents: Contents,
    pub(super) key: Arc<CertifiedKey>,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) revocations: Arc<Revocations>,
    pub(super) id: SpiffeId,
    pub(super) validity: Validity,
    pub(super) server: Option<Arc<rustls::ServerConfig>>,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("id", &self.id)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl Material {
    /// Checks that the files are consistent, but not whether the certificate is valid now.
    pub(super) fn new(files: &TlsFiles, contents: Contents) -> Result<Self, TlsError> {
        let (key, validity) = pair((&files.cert, &contents.cert), (&files.key, &contents.key))?;
        let leaf = key.cert.first().ok_or_else(|| no_pem(&files.cert))?;
        let id = SpiffeId::from_certificate(leaf).map_err(|why| TlsError::Identity {
            path: files.cert.clone(),
            why,
        })?;
        let mut roots = RootCertStore::empty();
        for ca in certificates(&files.ca, &contents.ca)? {
            roots.add(ca).map_err(|error| TlsError::Ca {
                path: files.ca.clone(),
                reason: error.to_string(),
            })?;
        }
        let revocations = match &contents.crl {
            Some(pem) => Revocations::parse(&files.crl, pem)?,
            None => Revocations::default(),
        };
        let mut material = Self {
            contents,
            key: Arc::new(key),
            roots: Arc::new(roots),
            revocations: Arc::new(revocations),
            id,
            validity,
            server: None,
        };
        if matches!(material.id.identity, crate::Identity::Rack(_)) {
            material.server = Some(super::server::config(files, &material)?);
        }
        Ok(material)
    }
}

/// A certificate with the matching key, and its validity.
pub(super) fn pair(
    (cert_path, cert): (&Path, &[u8]),
    (key_path, key): (&Path, &SecretSlice<u8>),
) -> Result<(CertifiedKey, Validity), TlsError> {
    let chain = certificates(cert_path, cert)?;
    let leaf = chain.first().ok_or_else(|| no_pem(cert_path))?;
    let validity = Validity::of(leaf).ok_or_else(|| no_pem(cert_path))?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret()).map_err(|_| TlsError::Pem {
        path: key_path.to_owned(),
        expected: "private key",
    })?;
    let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch {
            key: key_path.to_owned(),
            cert: cert_path.to_owned(),
        },
        other => TlsError::Key {
            path: key_path.to_owned(),
            reason: other.to_string(),
        },
    })?;
    Ok((key, validity))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|why| TlsError::Read {
        path: path.to_owned(),
        why,
    })
}

fn no_pem(path: &Path) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        expected: "certificate",
    }
}

pub(super) fn certificates(
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| no_pem(path))
}

/// Validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl Validity {
    fn of(leaf: &[u8]) -> Option<Self> {
        let (_, cert) = X509Certificate::from_der(leaf).ok()?;
        let validity = cert.validity();
        Some(Self {
            not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }

    /// Checks that the certificate is valid now; `path` is the file that it was read from.
    pub(super) fn check(&self, path: &Path, now: SystemTime) -> Result<(), TlsError> {
        let now = Timestamp::try_from(now).map_err(|_| no_pem(path))?;
        if now > self.not_after {
            return Err(TlsError::Expired {
                path: path.to_owned(),
                at: self.not_after,
            });
        }
        if now < self.not_before {
            return Err(TlsError::NotYetValid {
                path: path.to_owned(),
                at: self.not_before,
            });
        }
        Ok(())
    }
}

/// End of a certificate's validity.
pub(crate) fn not_after(leaf: &[u8]) -> Option<Timestamp> {
    Some(Validity::of(leaf)?.not_after)
}
