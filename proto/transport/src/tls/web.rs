//! TLS of a web server for clients of the Kubernetes API server: Prometheus, which scrapes metrics, or a person
//! who opens the status page. It has no role in the agents' trust. A client may present the certificate that it
//! presents to the API server.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::CertificateDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::SingleCertAndKey,
};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::{Digest as _, Sha256};
use tracing::info;

use super::{TlsError, files, provider, reload::reload_every};

/// A certificate and its key, reloaded when the files change.
pub struct WebTls {
    /// Paths of certificate and key; `None` for a self-signed one.
    files: Option<(PathBuf, PathBuf)>,
    current: ArcSwap<Current>,
    clients: ArcSwapOption<Clients>,
}

/// The CAs of clients, in PEM, and the verifier that uses them.
struct Clients {
    pem: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

struct Current {
    cert: Vec<u8>,
    key: SecretSlice<u8>,
    leaf: CertificateDer<'static>,
    resolver: Arc<SingleCertAndKey>,
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
            clients: ArcSwapOption::empty(),
        })
    }

    /// Creates a self-signed certificate for this name.
    ///
    /// # Errors
    ///
    /// There is no random source.
    pub fn self_signed(name: &str) -> Result<Self, TlsError> {
        let what = "self-signed certificate";
        let failed = |error: rcgen::Error| wrong(what, error);
        let key = KeyPair::generate().map_err(failed)?;
        let params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        let cert = params.self_signed(&key).map_err(failed)?.pem();
        let key = key.serialize_pem().into_bytes().into();
        let here = Path::new(what);
        let current = Current::parse((here, cert.into_bytes()), (here, key))?;
        Ok(Self {
            files: None,
            current: ArcSwap::from_pointee(current),
            clients: ArcSwapOption::empty(),
        })
    }

    /// Configuration of the next connection.
    ///
    /// # Errors
    ///
    /// The TLS library refuses it.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS versions", error))?;
        let builder = match self.clients.load_full() {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.current.load().resolver.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The [`fingerprint`] of the certificate that the next connection presents.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.current.load().leaf)
    }

    /// Sets the CAs (PEM) of the certificates that clients may present; a client without a certificate is accepted
    /// too. `None`: no certificate is requested. `true`: this is a change.
    ///
    /// # Errors
    ///
    /// There is no certificate in the text; the previous CAs stay in use.
    pub fn trust_clients(&self, pem: Option<&[u8]>) -> Result<bool, TlsError> {
        let old = self.clients.load();
        if old.as_ref().map(|clients| clients.pem.as_slice()) == pem {
            return Ok(false);
        }
        let Some(pem) = pem else {
            self.clients.store(None);
            return Ok(true);
        };
        let what = "CAs of clients";
        let mut roots = RootCertStore::empty();
        for ca in files::certificates(Path::new(what), pem)? {
            roots.add(ca).map_err(|error| wrong(what, error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| wrong(what, error))?;
        self.clients.store(Some(Arc::new(Clients {
            pem: pem.to_vec(),
            verifier,
        })));
        Ok(true)
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
        reload_every(every, move || self.reload()).await;
    }
}

/// The SHA-256 fingerprint of a certificate in DER, as 64 lower-case hexadecimal digits.
pub fn fingerprint(certificate: &[u8]) -> String {
    let digest = Sha256::digest(certificate);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wrong(what: &str, error: impl fmt::Display) -> TlsError {
    TlsError::Config {
        path: PathBuf::from(what),
        reason: error.to_string(),
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
        let leaf = pair.end_entity_cert().map_err(|error| TlsError::Config {
            path: cert_path.to_owned(),
            reason: error.to_string(),
        })?;
        let leaf = leaf.clone().into_owned();
        Ok(Self {
            leaf,
            resolver: Arc::new(SingleCertAndKey::from(pair)),
            cert,
            key,
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
        let first = tls.fingerprint();
        assert!(!tls.reload().unwrap(), "nothing has changed");
        assert!(first == tls.fingerprint());

        let old_key = std::fs::read(dir.path().join("tls.key")).unwrap();
        issue(dir.path(), "b");
        let new_key = std::fs::read(dir.path().join("tls.key")).unwrap();
        std::fs::write(dir.path().join("tls.key"), old_key).unwrap();
        let error = tls.reload().unwrap_err();
        assert!(matches!(error, TlsError::KeyMismatch { .. }), "{error}");
        assert!(first == tls.fingerprint(), "the old pair stays");

        std::fs::write(dir.path().join("tls.key"), new_key).unwrap();
        assert!(tls.reload().unwrap());
        assert!(first != tls.fingerprint());
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
        let first = tls.fingerprint();
        assert!(!tls.reload().unwrap());
        assert!(first == tls.fingerprint());
        assert!(tls.not_after() > Timestamp::now());
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }

    #[test]
    fn unusable_cas_of_clients_leave_the_previous_ones_in_use() {
        let dir = tempfile::tempdir().unwrap();
        issue(dir.path(), "a");
        let ca = std::fs::read(dir.path().join("tls.crt")).unwrap();
        let tls = WebTls::self_signed("metrics").unwrap();
        let asks = || tls.clients.load().is_some();
        assert!(!asks());
        assert!(tls.trust_clients(Some(&ca)).unwrap() && asks());
        assert!(!tls.trust_clients(Some(&ca)).unwrap(), "no change");
        for text in ["", "no certificate"] {
            tls.trust_clients(Some(text.as_bytes())).unwrap_err();
            assert!(asks(), "{text:?}");
        }
        tls.config().unwrap();
        assert!(tls.trust_clients(None).unwrap() && !asks());
    }

    #[test]
    fn debug_output_contains_no_key() {
        let dir = tempfile::tempdir().unwrap();
        issue(dir.path(), "a");
        let shown = format!("{:?}", WebTls::in_dir(dir.path()).unwrap());
        assert!(!shown.contains("PRIVATE") && shown.contains("tls.crt"));
    }
}
