//! The test CA, verified with openssl: names, usage, dates, and signatures.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rackhand_tests::pki::{CertFiles, CertSpec, Pki};
use tempfile::TempDir;

fn openssl(args: &[&str]) -> (bool, String) {
    let output = Command::new("openssl")
        .args(args)
        .output()
        .expect("openssl is needed");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn verify(ca: &Path, files: &CertFiles, purpose: &str) -> (bool, String) {
    let (ca, cert) = (ca.to_str().unwrap(), files.cert.to_str().unwrap());
    openssl(&["verify", "-purpose", purpose, "-CAfile", ca, cert])
}

#[test]
fn certificates_have_the_requested_names_and_usages() {
    let dir = TempDir::new().unwrap();
    let pki = Pki::new(dir.path()).unwrap();
    let agent = pki
        .issue(&CertSpec::peer("agent", "spiffe://rackhand/rack/rack-a"))
        .unwrap();
    assert!(verify(&agent.ca, &agent, "sslserver").0);
    assert!(verify(&agent.ca, &agent, "sslclient").0);
    let server = pki.issue(&CertSpec::server("bmc")).unwrap();
    assert!(verify(&server.ca, &server, "sslserver").0);
    assert!(!verify(&server.ca, &server, "sslclient").0);
    let (_, text) = openssl(&[
        "x509",
        "-in",
        agent.cert.to_str().unwrap(),
        "-noout",
        "-text",
    ]);
    for name in [
        "URI:spiffe://rackhand/rack/rack-a",
        "DNS:localhost",
        "IP Address:127.0.0.1",
    ] {
        assert!(text.contains(name), "{name} in {text}");
    }
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&agent.key), mode(&agent.cert)), (0o600, 0o644));
    assert_eq!(mode(&dir.path().join("ca-key.pem")), 0o600);
}

#[test]
fn expired_and_foreign_certificates_do_not_verify() {
    let dir = TempDir::new().unwrap();
    let pki = Pki::new(dir.path()).unwrap();
    let expired = pki.issue(&CertSpec::server("old").expired()).unwrap();
    let (ok, text) = verify(&expired.ca, &expired, "sslserver");
    assert!(!ok && text.contains("expired"), "{text}");
    let foreign = pki
        .other("foreign")
        .unwrap()
        .issue(&CertSpec::server("other"))
        .unwrap();
    assert!(!verify(&pki.ca_file(), &foreign, "sslserver").0);
    assert!(verify(&foreign.ca, &foreign, "sslserver").0);
}

#[test]
fn reopened_authority_is_the_same() {
    let dir = TempDir::new().unwrap();
    let first = Pki::new(dir.path())
        .unwrap()
        .issue(&CertSpec::server("a"))
        .unwrap();
    let again = Pki::new(dir.path()).unwrap();
    let second = again.issue(&CertSpec::server("b")).unwrap();
    for files in [&first, &second] {
        let (ok, text) = verify(&again.ca_file(), files, "sslserver");
        assert!(ok, "{text}");
        files.server_config().unwrap();
    }
}
