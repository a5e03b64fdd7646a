//! The CA: its own certificate and the certificates that it signs.

use std::path::Path;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use rackhand_transport::{Identity, SpiffeId};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType, SubjectPublicKeyInfo,
};
use time::OffsetDateTime;
use x509_parser::{extensions::GeneralName, pem::parse_x509_pem, prelude::X509Certificate};
use zeroize::Zeroizing;

use super::files;

/// A certificate is valid from this time before its creation, for machines whose clocks are slow.
const BACKDATED: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// The CA with its key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    pem: String,
    trust_domain: String,
}

/// The parsed fields of a certificate.
pub(super) struct Certificate {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    uris: Vec<String>,
    pub(super) public_key: Vec<u8>,
}

impl Authority {
    /// Creates a CA. Its certificate names the trust domain, like SPIFFE signing certificates.
    pub(super) fn new(
        trust_domain: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let mut params = params(&format!("Rackhand CA of {trust_domain}"), from, until)?;
        params.subject_alt_names =
            vec![SanType::URI(format!("spiffe://{trust_domain}").try_into()?)];
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Self::from_pem(pem, key)
    }

    /// Reads the CA from a directory.
    pub(super) fn load(dir: &Path) -> anyhow::Result<Self> {
        ensure!(
            dir.join("ca.key").exists(),
            "{} holds no CA: `rackhand-controller pki init --dir {}` makes one",
            dir.display(),
            dir.display()
        );
        let key = KeyPair::from_pem(&files::read(&dir.join("ca.key"))?)
            .with_context(|| format!("{} holds no usable key", dir.join("ca.key").display()))?;
        let pem = files::read(&dir.join("ca.crt"))?.to_string();
        Self::from_pem(pem, key).with_context(|| dir.join("ca.crt").display().to_string())
    }

    fn from_pem(pem: String, key: KeyPair) -> anyhow::Result<Self> {
        let certificate = Certificate::parse(&pem)?;
        ensure!(
            certificate.public_key == key.subject_public_key_info(),
            "the certificate does not belong to ca.key"
        );
        let trust_domain = match certificate.uris.as_slice() {
            [uri] => uri.strip_prefix("spiffe://"),
            _ => None,
        };
        let trust_domain = trust_domain
            .filter(|domain| !domain.contains('/'))
            .context("the CA names no trust domain: expected one URI SAN spiffe://TRUST-DOMAIN")?
            .to_owned();
        Ok(Self {
            issuer: Issuer::from_ca_cert_pem(&pem, key)?,
            certificate,
            pem,
            trust_domain,
        })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    pub(super) const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub(super) fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// The SPIFFE id of an identity in the CA's trust domain.
    pub(super) fn id(&self, identity: Identity) -> anyhow::Result<SpiffeId> {
        let id = SpiffeId {
            trust_domain: self.trust_domain.clone(),
            identity,
        };
        // Rejects names that no peer would accept.
        Ok(id.to_string().parse()?)
    }

    /// The earlier of this time and the expiry of the CA.
    pub(super) fn no_longer_than(&self, until: Timestamp) -> Timestamp {
        until.min(self.certificate.until)
    }

    /// Issues a certificate with a new key.
    pub(super) fn issue(
        &self,
        id: &SpiffeId,
        from: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<(String, Zeroizing<String>)> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let pem = self.sign(id, &key, from, until)?;
        Ok((pem, Zeroizing::new(key.serialize_pem())))
    }

    /// Signs a request (PKCS #10, PEM) that contains exactly this identity.
    pub(super) fn sign_request(
        &self,
        id: &SpiffeId,
        request: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<String> {
        let request = CertificateSigningRequestParams::from_pem(request)?;
        let uris: Vec<&str> = request
            .params
            .subject_alt_names
            .iter()
            .filter_map(|name| match name {
                SanType::URI(uri) => Some(uri.as_str()),
                _ => None,
            })
            .collect();
        ensure!(
            uris == [id.to_string()],
            "asks for {}, not for {id}",
            if uris.is_empty() {
                "no identity".to_owned()
            } else {
                uris.join(", ")
            }
        );
        self.sign(id, &request.public_key, from, until)
    }

    /// Issues a new certificate for the key of an old one.
    pub(super) fn renew(
        &self,
        id: &SpiffeId,
        old: &Certificate,
        from: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<String> {
        let key = SubjectPublicKeyInfo::from_der(&old.public_key)?;
        self.sign(id, &key, from, until)
    }

    fn sign(
        &self,
        id: &SpiffeId,
        key: &impl PublicKeyData,
        from: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<String> {
        let mut params = params(&id.identity.to_string(), from, until)?;
        params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

fn params(name: &str, from: Timestamp, until: Timestamp) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.not_before = OffsetDateTime::from_unix_timestamp((from - BACKDATED).as_second())?;
    params.not_after = OffsetDateTime::from_unix_timestamp(until.as_second())?;
    Ok(params)
}

impl Certificate {
    /// Reads the first certificate of a PEM file.
    pub(super) fn parse(pem: &str) -> anyhow::Result<Self> {
        let (_, pem) = parse_x509_pem(pem.as_bytes()).context("not a certificate in PEM")?;
        let certificate: X509Certificate<'_> = pem.parse_x509().context("not a certificate")?;
        let names = certificate.subject_alternative_name()?;
        let uris = names
            .iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) => Some((*uri).to_owned()),
                _ => None,
            })
            .collect();
        Ok(Self {
            from: Timestamp::from_second(certificate.validity().not_before.timestamp())?,
            until: Timestamp::from_second(certificate.validity().not_after.timestamp())?,
            uris,
            public_key: certificate.public_key().raw.to_vec(),
        })
    }

    /// The SPIFFE id in the certificate.
    pub(super) fn id(&self) -> anyhow::Result<SpiffeId> {
        match self.uris.as_slice() {
            [uri] => Ok(uri.parse()?),
            _ => anyhow::bail!("it has {} identities, not one", self.uris.len()),
        }
    }
}
