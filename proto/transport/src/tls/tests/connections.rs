//! Accepted and rejected connections, their limits per caller, and their end.

use std::{path::Path, sync::Arc, time::Duration};

use futures::StreamExt;
use rcgen::{
    CertificateParams, CertificateRevocationListParams, KeyIdMethod, RevocationReason,
    RevokedCertParams, SerialNumber,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::TcpListenerStream;

use super::{CONTROLLER, Ca, RACK};
use crate::{ConnectError, tls::*};

const ANN: &str = "spiffe://dc1/operator/ann";
const BOB: &str = "spiffe://dc1/operator/bob";
const PATIENCE: Duration = Duration::from_secs(30);

/// Trusts every agent, so that only the agent decides.
#[derive(Debug)]
struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// An agent that only does handshakes.
struct Acceptor {
    dir: TempDir,
    ca: Ca,
    tls: Arc<ServerTls>,
    address: String,
    incoming: Incoming<TcpStream>,
}

impl Acceptor {
    async fn open(limits: AcceptLimits) -> Self {
        Self::open_with(limits, |_| {}, |_| {}).await
    }

    async fn open_with(
        limits: AcceptLimits,
        certificate: impl FnOnce(&mut CertificateParams),
        change: impl FnOnce(&mut ServerTls),
    ) -> Self {
        let (dir, ca) = (TempDir::new().unwrap(), Ca::new());
        let files = ca.write_with(dir.path(), RACK, certificate);
        let mut tls = ServerTls::load(files, "r1").unwrap();
        change(&mut tls);
        let tls = Arc::new(tls);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let incoming = incoming(TcpListenerStream::new(listener), tls.clone(), limits);
        Self {
            dir,
            ca,
            tls,
            address,
            incoming,
        }
    }

    /// A handshake as the client sees it; whether the agent accepts it shows in the first read.
    async fn dial(&self, uri: &str) -> TlsStream<TcpStream> {
        self.dial_with(uri, |_| {}).await
    }

    async fn dial_with(
        &self,
        uri: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsStream<TcpStream> {
        let dir = TempDir::new().unwrap();
        let files = self.ca.write_with(dir.path(), uri, change);
        let chain = CertificateDer::pem_file_iter(&files.cert).unwrap();
        let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer))
            .with_client_auth_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("agent").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }

    async fn accepted(&mut self) -> PeerStream<TcpStream> {
        let next = tokio::time::timeout(PATIENCE, self.incoming.next()).await;
        next.unwrap().unwrap().unwrap()
    }

    fn refused(&self, reason: &str) -> u64 {
        let refused = self.tls.counts().refused();
        let found = refused.iter().find(|(why, _)| why.label() == reason);
        found.unwrap().1
    }
}

/// The error that the client reads after a rejection.
async fn alert(stream: &mut TlsStream<TcpStream>) -> String {
    let read = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    read.unwrap().unwrap_err().to_string()
}

/// The error with which the agent has closed a connection.
async fn end(stream: &mut PeerStream<TcpStream>) -> String {
    let read = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    read.unwrap().unwrap_err().to_string()
}

#[tokio::test]
async fn handshake_rejects_the_wrong_role_or_trust_domain() {
    let mut door = Acceptor::open(AcceptLimits::default()).await;
    for (uri, reason) in [
        ("spiffe://dc1/rack/r2", "wrong-role"),
        (RACK, "wrong-role"),
        ("https://dc1/controller", "wrong-role"),
        ("spiffe://dc2/controller", "wrong-trust-domain"),
        ("spiffe://dc2/operator/ann", "wrong-trust-domain"),
    ] {
        let before = door.refused(reason);
        let told = alert(&mut door.dial(uri).await).await;
        assert!(told.contains("received fatal alert"), "{uri}: {told}");
        assert_eq!(door.refused(reason), before + 1, "{uri}");
    }
    let _ann = door.dial(ANN).await;
    let first = door.accepted().await;
    let ann = Identity::Operator("ann".into());
    assert_eq!(first.peer.identity, ann, "another connection was accepted");
    assert_eq!(door.tls.counts().accepted(), 1);
}

#[tokio::test]
async fn connections_are_limited_per_identity() {
    let mut door = Acceptor::open(AcceptLimits {
        per_identity: 2,
        ..AcceptLimits::default()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push((door.dial(ANN).await, door.accepted().await));
    }
    let mut third = door.dial(ANN).await;
    alert(&mut third).await;
    assert_eq!(door.refused("too-many"), 1);
    for uri in [BOB, CONTROLLER] {
        held.push((door.dial(uri).await, door.accepted().await));
    }
    held.remove(0);
    held.push((door.dial(ANN).await, door.accepted().await));
    assert_eq!(door.tls.counts().accepted(), 5);
}

/// Limits with an immediate check.
fn quick() -> AcceptLimits {
    AcceptLimits {
        check_every: Duration::from_millis(5),
        ..AcceptLimits::default()
    }
}

fn in_the_year_2950() -> SystemTime {
    SystemTime::from(rcgen::date_time_ymd(2950, 1, 1))
}

fn until_2900(params: &mut CertificateParams) {
    params.not_after = rcgen::date_time_ymd(2900, 1, 1);
}

#[tokio::test]
async fn connection_ends_when_a_certificate_expires() {
    let set = |tls: &mut ServerTls| tls.clock = in_the_year_2950;
    let mut door = Acceptor::open_with(quick(), |_| {}, set).await;
    let mut client = door.dial_with(ANN, until_2900).await;
    let mut stream = door.accepted().await;
    assert_eq!(end(&mut stream).await, "the client certificate has expired");
    drop(stream);
    alert(&mut client).await;
    // A connection with a longer validity stays open.
    let mut client = door.dial(ANN).await;
    let mut stream = door.accepted().await;
    client.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);

    // The same for the agent's own certificate.
    let mut door = Acceptor::open_with(quick(), until_2900, set).await;
    let _client = door.dial(ANN).await;
    let mut stream = door.accepted().await;
    assert_eq!(
        end(&mut stream).await,
        "the certificate of this agent has expired"
    );
}

#[tokio::test]
async fn connection_ends_at_its_maximum_age() {
    let mut door = Acceptor::open(AcceptLimits {
        max_age: Duration::from_millis(10),
        ..quick()
    })
    .await;
    let _client = door.dial(CONTROLLER).await;
    let mut stream = door.accepted().await;
    assert_eq!(
        end(&mut stream).await,
        "the connection has reached its greatest age"
    );
}

fn write_crl(ca: &Ca, dir: &Path, serials: &[u64]) {
    let list = CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2024, 1, 1),
        // An outdated list applies too.
        next_update: rcgen::date_time_ymd(2024, 2, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: serials
            .iter()
            .map(|serial| RevokedCertParams {
                serial_number: SerialNumber::from(*serial),
                revocation_time: rcgen::date_time_ymd(2024, 1, 1),
                reason_code: Some(RevocationReason::KeyCompromise),
                invalidity_date: None,
            })
            .collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let pem = list.signed_by(&ca.issuer).unwrap().pem().unwrap();
    std::fs::write(dir.join("crl.pem"), pem).unwrap();
}

#[tokio::test]
async fn revoked_certificate_is_rejected_and_its_connections_closed() {
    let mut door = Acceptor::open(quick()).await;
    let serial = |n: u64| {
        move |params: &mut CertificateParams| {
            params.serial_number = Some(SerialNumber::from(n));
        }
    };
    let _ann = door.dial_with(ANN, serial(71)).await;
    let mut of_ann = door.accepted().await;
    let mut bob = door.dial_with(BOB, serial(72)).await;
    let mut of_bob = door.accepted().await;

    write_crl(&door.ca, door.dir.path(), &[71]);
    assert!(door.tls.reload().unwrap());
    assert_eq!(end(&mut of_ann).await, "the client certificate was revoked");
    bob.write_u8(7).await.unwrap();
    assert_eq!(of_bob.read_u8().await.unwrap(), 7);
    alert(&mut door.dial_with(ANN, serial(71)).await).await;
    assert_eq!(door.refused("revoked"), 1);

    // A lost list does not make revoked certificates valid.
    std::fs::remove_file(door.dir.path().join("crl.pem")).unwrap();
    let error = door.tls.reload().unwrap_err();
    assert!(matches!(error, TlsError::CrlGone { .. }), "{error}");
    alert(&mut door.dial_with(ANN, serial(71)).await).await;
    write_crl(&door.ca, door.dir.path(), &[]);
    assert!(door.tls.reload().unwrap());
    let _ann = door.dial_with(ANN, serial(71)).await;
    door.accepted().await;
}

#[tokio::test]
async fn nothing_is_read_from_a_caller_whose_certificate_was_revoked() {
    let mut door = Acceptor::open(AcceptLimits::default()).await;
    let serial = |params: &mut CertificateParams| {
        params.serial_number = Some(SerialNumber::from(71_u64));
    };
    let mut ann = door.dial_with(ANN, serial).await;
    let mut of_ann = door.accepted().await;
    write_crl(&door.ca, door.dir.path(), &[71]);
    assert!(door.tls.reload().unwrap());
    ann.write_u8(7).await.unwrap();
    assert_eq!(end(&mut of_ann).await, "the client certificate was revoked");
}

#[tokio::test]
async fn revoked_agent_certificate_is_not_trusted() {
    let serial = |params: &mut CertificateParams| {
        params.serial_number = Some(SerialNumber::from(9_u64));
    };
    let mut door = Acceptor::open_with(AcceptLimits::default(), serial, |_| {}).await;
    let dir = TempDir::new().unwrap();
    let files = door.ca.write(dir.path(), CONTROLLER);
    let tls = ClientTls::controller(files).unwrap();
    let connected = crate::connect(&door.address, "r1", &tls).await;
    drop((connected.unwrap(), door.accepted().await));
    write_crl(&door.ca, dir.path(), &[9]);
    assert!(tls.reload().unwrap());
    let error = crate::connect(&door.address, "r1", &tls).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("Revoked"), "{error}");
}

#[test]
fn empty_crl_is_ignored_and_a_malformed_one_is_an_error() {
    let (dir, ca) = (TempDir::new().unwrap(), Ca::new());
    let files = ca.write(dir.path(), RACK);
    std::fs::write(&files.crl, "\n").unwrap();
    let tls = ServerTls::load(files.clone(), "r1").unwrap();
    std::fs::write(&files.crl, "nothing").unwrap();
    let error = tls.reload().unwrap_err().to_string();
    assert!(
        error.ends_with("crl.pem: holds no certificate revocation list in PEM"),
        "{error}"
    );
    let broken = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
    std::fs::write(&files.crl, broken).unwrap();
    let error = tls.reload().unwrap_err();
    assert!(matches!(error, TlsError::Crl { .. }), "{error}");
}

#[tokio::test]
async fn port_probe_is_not_counted_as_a_rejected_handshake() {
    let mut door = Acceptor::open(AcceptLimits::default()).await;
    for resets in [false, true].repeat(10) {
        let probe = TcpStream::connect(&door.address).await.unwrap();
        if resets {
            probe.set_zero_linger().unwrap();
        }
    }
    let mut garbage = TcpStream::connect(&door.address).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    garbage.read_to_end(&mut Vec::new()).await.ok();
    let _ann = door.dial(ANN).await;
    door.accepted().await;
    let refused = door.tls.counts().refused();
    let all: u64 = refused.iter().map(|(_, count)| count).sum();
    assert_eq!((all, door.refused("garbage")), (1, 1), "{refused:?}");
}
