//! A certificate authority for tests and demonstrations.
//!
//! Owns one directory: the CA and every certificate issued from it, as PEM files, private keys with
//! mode 0600. Must never be used for anything that matters: its CA key lies beside the
//! certificates.
//!
//! A [`Pki`] opened twice on the same directory is the same CA, so that a simulator, an agent and a
//! controller started by a script can share one.

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
    /// Common name, and stem of the file names.
    pub name: String,
    /// DNS names it is good for.
    pub dns: Vec<String>,
    /// Addresses it is good for.
    pub ips: Vec<IpAddr>,
    /// URI names: the SPIFFE id of its holder.
    pub uris: Vec<String>,
    /// Allowed as a server's certificate.
    pub server: bool,
    /// Allowed as a client's certificate.
    pub client: bool,
    /// Whether it has expired already.
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

    /// A peer that is server and client at once, such as a rack agent.
    pub fn peer(name: impl Into<String>, uri: impl Into<String>) -> Self {
        Self {
            uris: vec![uri.into()],
            client: true,
            ..Self::server(name)
        }
    }

    /// The same, already expired.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.expired = true;
        self
    }
}

/// Where one issued certificate lies.
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
    /// A server configuration with this certificate, asking clients for none.
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
    /// The authority of `dir`: made there if it has none yet.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        let key_file = dir.join("ca-key.pem");
        let (key, fresh) = if key_file.exists() {
            (KeyPair::from_pem(&fs::read_to_string(&key_file)?)?, false)
        } else {
            (KeyPair::generate()?, true)
        };
        // The name follows from the key, so that two authorities never share one and an authority
        // that is opened again has the name that its certificates know.
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

    /// Another authority, in a directory below this one, that nobody trusts because of this one.
    pub fn other(&self, name: &str) -> Result<Self> {
        Self::new(self.dir.join(name))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of the CA's certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Issues a certificate with a new key, and writes both; one of the same name is replaced.
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

/// Makes a certificate valid from an hour ago, for this long from now.
fn date(params: &mut CertificateParams, lifetime: Duration) {
    let now = Duration::from_secs(u64::try_from(Timestamp::now().as_second()).unwrap_or(0));
    let now = date_time_ymd(1970, 1, 1) + now;
    (params.not_before, params.not_after) = (now - HOUR, now + lifetime);
}

/// Writes through a new file and a rename: a reader that watches for a new certificate never sees
/// half.
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
