//! One CA, valid and invalid certificates, and the reaction of both ends.

mod connections;

use std::{path::Path, sync::Arc};

use futures::StreamExt;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::{ConnectError, Identity};

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn issue(&self, uri: &str, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        if !uri.is_empty() {
            params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    fn write(&self, dir: &Path, uri: &str) -> TlsFiles {
        self.write_with(dir, uri, |_| {})
    }

    fn write_with(
        &self,
        dir: &Path,
        uri: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsFiles {
        let (cert, key) = self.issue(uri, change);
        let files = TlsFiles::in_dir(dir);
        std::fs::write(&files.cert, cert).unwrap();
        std::fs::write(&files.key, key).unwrap();
        std::fs::write(&files.ca, &self.pem).unwrap();
        files
    }
}

const RACK: &str = "spiffe://dc1/rack/r1";
const CONTROLLER: &str = "spiffe://dc1/controller";

fn message(result: Result<ServerTls, TlsError>, dir: &TempDir) -> String {
    let dir = dir.path().display().to_string();
    let result = result.and_then(|tls| tls.check_validity());
    result.unwrap_err().to_string().replace(&dir, "/tls")
}

#[test]
fn missing_file_error_has_the_path() {
    let dir = TempDir::new().unwrap();
    assert_eq!(
        message(ServerTls::load(TlsFiles::in_dir(dir.path()), "r1"), &dir),
        "cannot read /tls/tls.crt: No such file or directory (os error 2)"
    );
}

#[test]
fn expired_certificate_is_rejected_with_its_date() {
    let dir = TempDir::new().unwrap();
    let files = Ca::new().write_with(dir.path(), RACK, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    assert_eq!(
        message(ServerTls::load(files, "r1"), &dir),
        "certificate /tls/tls.crt: expired on 2020-01-02T00:00:00Z; renew it"
    );
    let files = Ca::new().write_with(dir.path(), CONTROLLER, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let refused = ClientTls::controller(files).unwrap_err();
    assert!(matches!(refused, TlsError::Expired { .. }), "{refused}");
}

#[test]
fn not_yet_valid_certificate_error_mentions_the_clock() {
    let dir = TempDir::new().unwrap();
    let files = Ca::new().write_with(dir.path(), RACK, |params| {
        params.not_before = rcgen::date_time_ymd(2900, 1, 2);
        params.not_after = rcgen::date_time_ymd(2901, 1, 2);
    });
    assert_eq!(
        message(ServerTls::load(files, "r1"), &dir),
        "certificate /tls/tls.crt: valid only from 2900-01-02T00:00:00Z; check the clock of this \
         machine"
    );
}

#[test]
fn key_of_another_certificate_is_rejected() {
    let dir = TempDir::new().unwrap();
    let ca = Ca::new();
    let files = ca.write(dir.path(), RACK);
    std::fs::write(&files.key, ca.issue(RACK, |_| {}).1).unwrap();
    assert_eq!(
        message(ServerTls::load(files, "r1"), &dir),
        "key /tls/tls.key does not belong to certificate /tls/tls.crt"
    );
}

#[test]
fn certificate_without_the_rack_reports_the_expected_uri() {
    let dir = TempDir::new().unwrap();
    let ca = Ca::new();
    let files = ca.write(dir.path(), "");
    assert!(
        message(ServerTls::load(files, "r1"), &dir).starts_with(
            "certificate /tls/tls.crt: names no identity: expected a URI SAN spiffe://"
        )
    );
    let files = ca.write(dir.path(), CONTROLLER);
    assert_eq!(
        message(ServerTls::load(files, "r1"), &dir),
        "certificate /tls/tls.crt is for spiffe://dc1/controller: expected a URI SAN \
         spiffe://dc1/rack/r1"
    );
    let files = ca.write(dir.path(), "spiffe://dc1/rack/r2");
    assert_eq!(
        message(ServerTls::load(files, "r1"), &dir),
        "certificate /tls/tls.crt is for spiffe://dc1/rack/r2: expected a URI SAN \
         spiffe://dc1/rack/r1"
    );
}

#[test]
fn non_pem_file_error_has_the_path() {
    let dir = TempDir::new().unwrap();
    let ca = Ca::new();
    for (which, expected) in [
        ("tls.crt", "/tls/tls.crt: holds no certificate in PEM"),
        ("tls.key", "/tls/tls.key: holds no private key in PEM"),
        ("ca.crt", "/tls/ca.crt: holds no certificate in PEM"),
    ] {
        let files = ca.write(dir.path(), RACK);
        std::fs::write(dir.path().join(which), "nothing").unwrap();
        assert_eq!(message(ServerTls::load(files, "r1"), &dir), expected);
    }
}

#[test]
fn debug_output_contains_no_key() {
    let dir = TempDir::new().unwrap();
    let files = Ca::new().write(dir.path(), RACK);
    let key = std::fs::read_to_string(&files.key).unwrap();
    let line = key.lines().nth(1).unwrap().to_owned();
    let shown = format!("{:?}", ServerTls::load(files, "r1").unwrap());
    assert!(!shown.contains(&line) && !shown.contains("PRIVATE"));
}

#[test]
fn failed_reload_keeps_the_previous_certificate() {
    let dir = TempDir::new().unwrap();
    let ca = Ca::new();
    let files = ca.write(dir.path(), RACK);
    let tls = ServerTls::load(files.clone(), "r1").unwrap();
    assert!(!tls.reload().unwrap());
    std::fs::write(&files.key, ca.issue(RACK, |_| {}).1).unwrap();
    assert!(matches!(tls.reload(), Err(TlsError::KeyMismatch { .. })));
    assert!(tls.accept().is_some());
    ca.write(dir.path(), RACK);
    assert!(tls.reload().unwrap());
}

/// An agent that only does handshakes and reports the identities of its clients.
async fn server(
    files: TlsFiles,
    limits: AcceptLimits,
) -> (String, Incoming<tokio::net::TcpStream>) {
    let tls = Arc::new(ServerTls::load(files, "r1").unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (
        address,
        incoming(TcpListenerStream::new(listener), tls, limits),
    )
}

async fn peer_of(incoming: &mut Incoming<tokio::net::TcpStream>) -> Identity {
    use tonic::transport::server::Connected;
    incoming
        .next()
        .await
        .unwrap()
        .unwrap()
        .connect_info()
        .identity
}

#[tokio::test]
async fn agent_reads_the_identity_of_the_caller() {
    let ca = Ca::new();
    let (server_dir, client_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (address, mut incoming) =
        server(ca.write(server_dir.path(), RACK), AcceptLimits::default()).await;
    for (uri, expected) in [
        (CONTROLLER, Identity::Controller),
        (
            "spiffe://dc1/operator/ann",
            Identity::Operator("ann".into()),
        ),
    ] {
        let files = ca.write(client_dir.path(), uri);
        let tls = match &expected {
            Identity::Controller => ClientTls::controller(files).unwrap(),
            _ => ClientTls::operator(files).unwrap(),
        };
        let channel = crate::connect(&address, "r1", &tls);
        let (channel, peer) = tokio::join!(channel, peer_of(&mut incoming));
        channel.unwrap();
        assert_eq!(peer, expected);
    }
}

#[tokio::test]
async fn rack_of_another_trust_domain_is_not_trusted() {
    let ca = Ca::new();
    let (server_dir, client_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let files = ca.write(server_dir.path(), RACK);
    let (address, _incoming) = server(files, AcceptLimits::default()).await;
    let files = ca.write(client_dir.path(), "spiffe://dc2/controller");
    let tls = ClientTls::controller(files).unwrap();
    let error = crate::connect(&address, "r1", &tls).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn client_trusts_only_the_agent_of_its_rack() {
    let ca = Ca::new();
    let (server_dir, client_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (address, mut incoming) =
        server(ca.write(server_dir.path(), RACK), AcceptLimits::default()).await;
    let drain = tokio::spawn(async move { while incoming.next().await.is_some() {} });
    let tls = ClientTls::controller(ca.write(client_dir.path(), CONTROLLER)).unwrap();
    let error = crate::connect(&address, "r2", &tls).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the agent at {address} is not trusted as rack r2: expected spiffe://dc1/rack/r2, but \
             the peer's certificate is for spiffe://dc1/rack/r1"
        )
    );
    assert!(!error.is_transient());

    // A client with another CA does not trust the agent ...
    let other = Ca::new();
    let tls = ClientTls::controller(other.write(client_dir.path(), CONTROLLER)).unwrap();
    let error = crate::connect(&address, "r1", &tls).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is not signed by our CA (ca.crt)"),
        "{error}"
    );
    // ... and is not trusted either, even if it trusts both CAs.
    let files = other.write(client_dir.path(), CONTROLLER);
    std::fs::write(&files.ca, &ca.pem).unwrap();
    let tls = ClientTls::controller(files).unwrap();
    let channel = crate::connect_lazy(&address, "r1", &tls).unwrap();
    let status = rackhand_proto::v1::power_client::PowerClient::new(channel)
        .list_hosts(rackhand_proto::v1::ListHostsRequest {})
        .await
        .unwrap_err();
    let error = crate::classify(&status);
    assert_eq!(error.kind, crate::CallErrorKind::Permanent, "{error}");
    assert!(
        error.message.contains("does not take our certificate"),
        "{error}"
    );
    drain.abort();
}

#[tokio::test]
async fn silent_peer_does_not_block_other_handshakes() {
    let ca = Ca::new();
    let (server_dir, client_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (address, mut incoming) =
        server(ca.write(server_dir.path(), RACK), AcceptLimits::default()).await;
    let _silent = tokio::net::TcpStream::connect(&address).await.unwrap();
    let tls = ClientTls::controller(ca.write(client_dir.path(), CONTROLLER)).unwrap();
    let (channel, peer) =
        tokio::join!(crate::connect(&address, "r1", &tls), peer_of(&mut incoming));
    channel.unwrap();
    assert_eq!(peer, Identity::Controller);
}

#[tokio::test]
async fn silent_peers_are_evicted_when_all_slots_are_taken() {
    let ca = Ca::new();
    let (server_dir, client_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let limits = AcceptLimits {
        handshakes: 1,
        timeout: std::time::Duration::from_secs(600),
        ..AcceptLimits::default()
    };
    let (address, mut incoming) = server(ca.write(server_dir.path(), RACK), limits).await;
    let _silent = tokio::net::TcpStream::connect(&address).await.unwrap();
    let tls = ClientTls::controller(ca.write(client_dir.path(), CONTROLLER)).unwrap();
    let (channel, peer) =
        tokio::join!(crate::connect(&address, "r1", &tls), peer_of(&mut incoming));
    channel.unwrap();
    assert_eq!(peer, Identity::Controller);
}

#[tokio::test]
async fn unreachable_agent_is_a_transient_error() {
    let ca = Ca::new();
    let dir = TempDir::new().unwrap();
    let tls = ClientTls::controller(ca.write(dir.path(), CONTROLLER)).unwrap();
    let error = crate::connect("127.0.0.1:1", "r1", &tls).await.unwrap_err();
    assert!(error.is_transient());
    assert!(
        error
            .to_string()
            .starts_with("cannot reach the agent at 127.0.0.1:1: "),
        "{error}"
    );
    let channel = crate::connect_lazy("127.0.0.1:1", "r1", &tls).unwrap();
    let status = rackhand_proto::v1::power_client::PowerClient::new(channel)
        .list_hosts(rackhand_proto::v1::ListHostsRequest {})
        .await
        .unwrap_err();
    let classified = crate::classify(&status);
    assert_eq!(classified.kind, crate::CallErrorKind::Retryable);
    assert_eq!(classified.message, error.to_string());
}
