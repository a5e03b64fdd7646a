//! A CA for one test.

use std::path::Path;

use rackhand_transport::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Ca {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes `tls.crt`, `tls.key` and `ca.crt`.
    pub(crate) fn write(&self, dir: &Path, uri: &str) -> TlsFiles {
        self.write_with(dir, uri, |_| {})
    }

    pub(crate) fn write_with(
        &self,
        dir: &Path,
        uri: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let files = TlsFiles::in_dir(dir);
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        std::fs::write(&files.cert, cert).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        std::fs::write(&files.ca, &self.pem).unwrap();
        files
    }
}
