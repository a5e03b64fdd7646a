use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use rackhand_transport::{ClientTls, ServerTls, TlsFiles};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    pki: Pki,
}

fn pki(line: &str, dir: &Path, now: Timestamp) -> anyhow::Result<String> {
    let dir = dir.join("pki");
    let words = format!("pki {line} --dir {}", dir.display());
    run(Line::try_parse_from(words.split(' '))?.pki, now)
}

fn certificate(dir: &Path, folder: &str) -> Certificate {
    let file = dir.join("pki").join(folder).join(CERTIFICATE);
    Certificate::parse(&files::read(&file).unwrap()).unwrap()
}

#[test]
fn issued_certificates_are_accepted_by_agents_and_controllers() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = Timestamp::now();
    pki("init --trust-domain example.org", dir, now).unwrap();
    for line in ["controller", "rack r1", "operator ann"] {
        pki(&format!("issue {line}"), dir, now).unwrap();
    }
    for (folder, uri) in [
        ("controller", "spiffe://example.org/controller"),
        ("rack-r1", "spiffe://example.org/rack/r1"),
        ("operator-ann", "spiffe://example.org/operator/ann"),
    ] {
        assert_eq!(certificate(dir, folder).id().unwrap().to_string(), uri);
        let folder = dir.join("pki").join(folder);
        let mode = |file: &str| folder.join(file).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(KEY), 0o600, "{uri}");
    }
    let files = |folder: &str| TlsFiles::in_dir(dir.join("pki").join(folder));
    ClientTls::controller(files("controller")).unwrap();
    ClientTls::operator(files("operator-ann")).unwrap();
    let server = ServerTls::load(files("rack-r1"), "r1").unwrap();
    server.check_validity().unwrap();
}

#[test]
fn existing_ca_and_certificates_are_not_replaced() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = Timestamp::now();
    let error = pki("issue controller", dir, now).unwrap_err().to_string();
    assert!(error.contains("holds no CA"), "{error}");
    pki("init", dir, now).unwrap();
    let error = format!("{:#}", pki("init", dir, now).unwrap_err());
    assert!(error.contains("is not replaced"), "{error}");
    pki("issue controller", dir, now).unwrap();
    let error = pki("issue controller", dir, now).unwrap_err().to_string();
    assert!(error.contains("pki renew"), "{error}");
}

#[test]
fn renewal_keeps_key_and_skips_fresh_certificates() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let start = Timestamp::now();
    pki("init", dir, start).unwrap();
    pki("issue controller --days 30", dir, start).unwrap();
    pki("issue rack r1 --days 300", dir, start).unwrap();
    let before = (certificate(dir, "controller"), certificate(dir, "rack-r1"));

    let later = start + DAY * 21;
    let report = pki("renew --days 30", dir, later).unwrap();
    assert!(
        report.contains("controller               renewed"),
        "{report}"
    );
    assert!(
        report.contains("rack-r1                  valid until"),
        "{report}"
    );
    let after = (certificate(dir, "controller"), certificate(dir, "rack-r1"));
    assert_eq!(after.0.public_key, before.0.public_key);
    assert!(after.0.until > before.0.until);
    assert_eq!(after.1.until, before.1.until);
    assert_eq!(after.0.id().unwrap(), before.0.id().unwrap());
}

#[test]
fn certificate_does_not_outlive_its_ca() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = Timestamp::now();
    pki("init --days 10", dir, now).unwrap();
    pki("issue controller --days 365", dir, now).unwrap();
    let until = certificate(dir, "controller").until;
    assert!(until <= now + DAY * 10, "{until}");
}

#[test]
fn signing_request_is_signed_only_for_its_rack() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = Timestamp::now();
    pki("init --trust-domain example.org", dir, now).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let uri = "spiffe://example.org/rack/r1";
    params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    let request = dir.join("tls.csr");
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    std::fs::write(&request, pem).unwrap();

    let asked = |rack: &str| format!("issue rack {rack} --request {}", request.display());
    let error = format!("{:#}", pki(&asked("r2"), dir, now).unwrap_err());
    assert!(
        error.contains("asks for spiffe://example.org/rack/r1, not for"),
        "{error}"
    );
    pki(&asked("r1"), dir, now).unwrap();
    let signed = certificate(dir, "rack-r1");
    assert_eq!(signed.id().unwrap().to_string(), uri);
    assert!(!dir.join("pki/rack-r1").join(KEY).exists());
}

#[test]
fn invalid_trust_domain_and_rack_names_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = Timestamp::now();
    assert!(pki("init --trust-domain UPPER", dir, now).is_err());
    pki("init", dir, now).unwrap();
    assert!(pki("issue rack a/b", dir, now).is_err());
}
