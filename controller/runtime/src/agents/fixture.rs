//! What agent connections of tests need.

use std::collections::BTreeMap;

use rackhand_transport::{ClientTls, TlsFiles};

/// A client certificate that no agent receives.
pub(crate) fn unseen_certificate() -> ClientTls {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let id = "spiffe://test/controller".try_into().unwrap();
    params.subject_alt_names.push(rcgen::SanType::URI(id));
    let cert = params.self_signed(&key).unwrap();
    let files = BTreeMap::from([
        ("tls.crt", cert.pem()),
        ("tls.key", key.serialize_pem()),
        ("ca.crt", cert.pem()),
    ]);
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    ClientTls::controller(TlsFiles::in_dir(dir.path())).unwrap()
}
