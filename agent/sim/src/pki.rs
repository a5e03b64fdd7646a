//! A certificate authority for tests and demonstrations.
//!
//! Owns: one directory with the CA and every certificate issued by it, as PEM files, private keys
//! with mode 0600. Must never: be used in production: its CA key is stored beside the certificates.
//!
//! A [`Pki`] opened twice on the same directory is the same CA, so that a simulator, an agent and a
//! controller started by a script can share it.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The contents of a certificate.
#[derive(Clone, Debug)]
pub struct CertSpec {
    /// Common name, and base name of the files.
    pub name: String,
    /// DNS names of the certificate.
    pub dns: Vec<String>,
    /// IP addresses of the certificate.
    pub ips: Vec<IpAddr>,
    /// URI names of the certificate: the SPIFFE id of its holder.
    pub uris: Vec<String>,
    /// Whether it is valid for servers.
    pub server: bool,
    /// Whether it is valid for clients.
    pub client: bool,
    /// Whether it has already expired.
    pub expired: bool,
}

impl CertSpec {
    /// A server on this machine: `127.0.0.1`, `::1` and `localhost`.
    pub fn server(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            dns: vec!["localhost".to_owned()],
            ips: vec![
                Ipv4Addr::LOCALHOST.into(),
                std::net::Ipv6Addr::LOCALHOST.into(),
            ],
            uris: Vec::new(),
            server: true,
            client: false,
            expired: false,
        }
    }

    /// A peer that is both server and client, such as a rack agent.
    pub fn peer(name: impl Into<String>, uri: impl Into<String>) -> Self {
        Self {
            uris: vec![uri.into()],
            client: true,
            ..Self::server(name)
        }
    }

    /// The same specification, already expired.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.expired = true;
        self
    }
}

/// Paths of an issued certificate.
#[derive(Clone, Debug)]
pub struct CertFiles {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM, mode 0600.
    pub key: PathBuf,
    /// The CA's certificate, PEM.
    pub ca: PathBuf,
}

impl CertFiles {
    /// A server configuration with this certificate that requests no client certificate.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>> {
        let chain = CertificateDer::pem_file_iter(&self.cert)
            .with_context(|| format!("reading {}", self.cert.display()))?
            .collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("reading {}", self.key.display()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A certificate authority in a directory.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    /// Opens the authority of `dir`, or creates it.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        let key_file = dir.join("ca-key.pem");
        let (key, fresh) = if key_file.exists() {
            (KeyPair::from_pem(&fs::read_to_string(&key_file)?)?, false)
        } else {
            (KeyPair::generate()?, true)
        };
        // The name is derived from the key, so that two authorities never have the same name, and a
        // reopened authority has the name in its certificates.
        let mut params = CertificateParams::default();
        let id = params.key_identifier(&key);
        let id: String = id
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        params.distinguished_name = named(&format!("Rackhand test CA {id}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        date(&mut params, 3650 * DAY);
        let ca = CertifiedIssuer::self_signed(params, key)?;
        if fresh {
            write(&key_file, &ca.key().serialize_pem(), 0o600)?;
            write(&dir.join("ca.pem"), &ca.pem(), 0o644)?;
        }
        Ok(Self { dir, ca })
    }

    /// Another authority in a subdirectory, which is not trusted by users of this one.
    pub fn other(&self, name: &str) -> Result<Self> {
        Self::new(self.dir.join(name))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of the CA certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Issues a certificate with a new key, and writes both; existing files of the same name are
    /// replaced.
    pub fn issue(&self, spec: &CertSpec) -> Result<CertFiles> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&spec.name);
        for name in &spec.dns {
            params
                .subject_alt_names
                .push(SanType::DnsName(name.as_str().try_into()?));
        }
        for ip in &spec.ips {
            params.subject_alt_names.push(SanType::IpAddress(*ip));
        }
        for uri in &spec.uris {
            params
                .subject_alt_names
                .push(SanType::URI(uri.as_str().try_into()?));
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if spec.server {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if spec.client {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        date(&mut params, 30 * DAY);
        if spec.expired {
            params.not_before -= 31 * DAY;
            params.not_after -= 31 * DAY;
        }
        let cert = params.signed_by(&key, &self.ca)?;
        let files = CertFiles {
            cert: self.dir.join(format!("{}.pem", spec.name)),
            key: self.dir.join(format!("{}-key.pem", spec.name)),
            ca: self.ca_file(),
        };
        write(&files.key, &key.serialize_pem(), 0o600)?;
        write(&files.cert, &cert.pem(), 0o644)?;
        Ok(files)
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Rackhand tests");
    name.push(DnType::CommonName, common_name);
    name
}

/// Sets the validity from an hour ago to `lifetime` from now.
fn date(params: &mut CertificateParams, lifetime: Duration) {
    let now = Duration::from_secs(u64::try_from(Timestamp::now().as_second()).unwrap_or(0));
    let now = date_time_ymd(1970, 1, 1) + now;
    (params.not_before, params.not_after) = (now - HOUR, now + lifetime);
}

/// Writes a new file and renames it, so that a reader never sees a partial file.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let fresh = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&fresh)
        .with_context(|| format!("writing {}", fresh.display()))?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path).with_context(|| format!("writing {}", path.display()))
}
