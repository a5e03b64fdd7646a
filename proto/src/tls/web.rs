//! TLS of a web server for clients without certificates, such as a Prometheus that scrapes metrics.
//! It is identified by its DNS name, and has no role in the agents' trust.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, sign::SingleCertAndKey};
use secrecy::{ExposeSecret, SecretSlice};
use tracing::{info, warn};

use super::{TlsError, files, provider};

/// A certificate and its key, reloaded when the files change.
pub struct WebTls {
    /// Paths of certificate and key; `None` for a self-signed one.
    files: Option<(PathBuf, PathBuf)>,
    current: ArcSwap<Current>,
}

struct Current {
    cert: Vec<u8>,
    key: SecretSlice<u8>,
    config: Arc<ServerConfig>,
    not_after: Timestamp,
}

impl WebTls {
    /// Reads `tls.crt` and `tls.key` of a directory, such as a mounted Secret of cert-manager.
    ///
    /// # Errors
    ///
    /// A file cannot be read, the certificate is not valid now, or the key does not match.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let dir = dir.into();
        let (cert, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        let current = Current::read(&cert, &key)?;
        Ok(Self {
            files: Some((cert, key)),
            current: ArcSwap::from_pointee(current),
        })
    }

    /// Creates a self-signed certificate for this name.
    ///
    /// # Errors
    ///
    /// There is no random source.
    pub fn self_signed(name: &str) -> Result<Self, TlsError> {
        let wrong = |error: rcgen::Error| TlsError::Config {
            path: PathBuf::from("self-signed certificate"),
            reason: error.to_string(),
        };
        let key = KeyPair::generate().map_err(wrong)?;
        let params = CertificateParams::new(vec![name.to_owned()]).map_err(wrong)?;
        let cert = params.self_signed(&key).map_err(wrong)?.pem();
        let key = key.serialize_pem().into_bytes().into();
        let here = Path::new("self-signed certificate");
        let current = Current::parse((here, cert.into_bytes()), (here, key))?;
        Ok(Self {
            files: None,
            current: ArcSwap::from_pointee(current),
        })
    }

    /// Configuration of the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.load().config.clone()
    }

    /// Expiry of the certificate.
    pub fn not_after(&self) -> Timestamp {
        self.current.load().not_after
    }

    /// Checks the files now. `true`: they have changed, and the next connection uses them.
    ///
    /// # Errors
    ///
    /// The new files cannot be used; the previous ones stay in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let Some((cert, key)) = &self.files else {
            return Ok(false);
        };
        let new = Current::read(cert, key)?;
        let old = self.current.load();
        let same_key = new.key.expose_secret() == old.key.expose_secret();
        if new.cert == old.cert && same_key {
            return Ok(false);
        }
        info!(not_after = %new.not_after, path = %cert.display(), "TLS files changed: the new certificate is in use");
        self.current.store(Arc::new(new));
        Ok(true)
    }

    /// Checks the files periodically; never returns. An invalid new set is logged once, and the
    /// previous set stays in use.
    pub async fn watch(self: Arc<Self>, every: Duration) {
        let mut said = None;
        loop {
            tokio::time::sleep(every).await;
            let this = self.clone();
            let error = match tokio::task::spawn_blocking(move || this.reload()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if error != said
                && let Some(error) = &error
            {
                warn!(
                    error,
                    "new TLS files are not usable: the old ones stay in use"
                );
            }
            said = error;
        }
    }
}

impl fmt::Debug for WebTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebTls")
            .field("files", &self.files)
            .field("not_after", &self.not_after())
            .finish_non_exhaustive()
    }
}

impl Current {
    fn read(cert_path: &Path, key_path: &Path) -> Result<Self, TlsError> {
        let cert = files::read(cert_path)?;
        let key: SecretSlice<u8> = files::read(key_path)?.into();
        Self::parse((cert_path, cert), (key_path, key))
    }

    fn parse(
        (cert_path, cert): (&Path, Vec<u8>),
        (key_path, key): (&Path, SecretSlice<u8>),
    ) -> Result<Self, TlsError> {
        let (pair, validity) = files::pair((cert_path, &cert), (key_path, &key))?;
        validity.check(cert_path, SystemTime::now())?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Config {
                path: cert_path.to_owned(),
                reason: error.to_string(),
            })?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            cert,
            key,
            config: Arc::new(config),
            not_after: validity.not_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(dir: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.self_signed(&key).unwrap();
        std::fs::write(dir.join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(dir.join("tls.key"), key.serialize_pem()).unwrap();
    }

    #[test]
    fn reload_requires_a_matching_certificate_and_key() {
        let dir = tempfile::tempdir().unwrap();
        issue(dir.path(), "a");
        let tls = WebTls::in_dir(dir.path()).unwrap();
        let first = tls.config();
        assert!(!tls.reload().unwrap(), "nothing has changed");
        assert!(Arc::ptr_eq(&first, &tls.config()));

        let old_key = std::fs::read(dir.path().join("tls.key")).unwrap();
        issue(dir.path(), "b");
        let new_key = std::fs::read(dir.path().join("tls.key")).unwrap();
        std::fs::write(dir.path().join("tls.key"), old_key).unwrap();
        let error = tls.reload().unwrap_err();
        assert!(matches!(error, TlsError::KeyMismatch { .. }), "{error}");
        assert!(Arc::ptr_eq(&first, &tls.config()), "the old pair stays");

        std::fs::write(dir.path().join("tls.key"), new_key).unwrap();
        assert!(tls.reload().unwrap());
        assert!(!Arc::ptr_eq(&first, &tls.config()));
    }

    #[test]
    fn missing_certificate_error_has_the_file_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = WebTls::in_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tls.crt"), "{error}");
    }

    #[test]
    fn self_signed_certificate_requires_no_files() {
        let tls = WebTls::self_signed("metrics").unwrap();
        let first = tls.config();
        assert!(!tls.reload().unwrap());
        assert!(Arc::ptr_eq(&first, &tls.config()));
        assert!(tls.not_after() > Timestamp::now());
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }

    #[test]
    fn debug_output_contains_no_key() {
        let dir = tempfile::tempdir().unwrap();
        issue(dir.path(), "a");
        let shown = format!("{:?}", WebTls::in_dir(dir.path()).unwrap());
        assert!(!shown.contains("PRIVATE") && shown.contains("tls.crt"));
    }
}
