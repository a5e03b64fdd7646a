//! TLS: certificates that are trusted.

use std::sync::Arc;

use rackhand_bmc::{
    Bmc, ErrorKind, Trust, TrustError,
    redfish::{RedfishConfig, connect},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::bmc::{PASSWORD, TestBmc, config};

/// A CA, and a certificate from it for 127.0.0.1.
struct Pki {
    ca: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

fn pki() -> Pki {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    Pki {
        ca: ca_certificate.pem(),
        certificate: leaf.der().clone(),
        key,
    }
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, from) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn start(pki: &Pki) -> TestBmc {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(pki.key.serialize_der()).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pki.certificate.clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    TestBmc::on(port, Tls { listener, acceptor }, |_, _| None)
}

fn trusting(bmc: &TestBmc, trust: Trust) -> RedfishConfig {
    let mut config = config(&format!("redfish://127.0.0.1:{}", bmc.port));
    config.trust = trust;
    config
}

fn client(bmc: &TestBmc, trust: Trust) -> Box<dyn Bmc> {
    connect(trusting(bmc, trust)).unwrap()
}

fn pin(pki: &Pki) -> Trust {
    Trust::Sha256Pin(Sha256::digest(&pki.certificate).into())
}

#[tokio::test]
async fn matching_ca_matching_pin_and_insecure_connect() {
    let pki = pki();
    let bmc = start(&pki).await;
    for trust in [
        Trust::CaBundle(pki.ca.as_bytes().into()),
        pin(&pki),
        Trust::Insecure,
    ] {
        let client = client(&bmc, trust.clone());
        client
            .off()
            .await
            .unwrap_or_else(|error| panic!("{trust:?}: {error}"));
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn wrong_ca_or_pin_sends_nothing() {
    let (right, wrong) = (pki(), pki());
    let bmc = start(&right).await;
    for trust in [Trust::CaBundle(wrong.ca.as_bytes().into()), pin(&wrong)] {
        let error = client(&bmc, trust.clone()).off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Tls, "{trust:?}: {error}");
        assert!(!error.maybe_sent);
        assert!(!error.kind.is_transient());
    }
    assert_eq!(bmc.seen().len(), 0);
}

#[tokio::test]
async fn wrong_pin_reports_the_presented_certificate() {
    let (right, wrong) = (pki(), pki());
    let bmc = start(&right).await;
    let error = client(&bmc, pin(&wrong)).power().await.unwrap_err();
    let Some(shown) = error.message.split("SHA-256 is ").nth(1) else {
        panic!("{error}")
    };
    let shown = Trust::pin(shown.split(',').next().unwrap()).unwrap();
    assert_eq!(shown, pin(&right));
    assert!(!error.message.contains(PASSWORD));
}

#[tokio::test]
async fn private_ca_is_not_trusted_by_the_system_roots() {
    let bmc = start(&pki()).await;
    let config = trusting(&bmc, Trust::System);
    // A build container may have no roots; then creating the client fails.
    match connect(config) {
        Ok(client) => assert_eq!(client.power().await.unwrap_err().kind, ErrorKind::Tls),
        Err(error) => assert_eq!(error.kind, ErrorKind::Configuration),
    }
    assert_eq!(bmc.seen().len(), 0);
}

#[tokio::test]
async fn certificate_for_another_name_is_rejected() {
    let pki = pki();
    let bmc = start(&pki).await;
    let mut config = trusting(&bmc, Trust::CaBundle(pki.ca.as_bytes().into()));
    config.address = format!("redfish://localhost:{}", bmc.port).parse().unwrap();
    let error = connect(config).unwrap().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Tls, "{error}");
}

#[tokio::test]
async fn plain_http_on_a_tls_address_is_a_tls_error_with_advice() {
    let bmc = TestBmc::start().await;
    let error = client(&bmc, Trust::Insecure).power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Tls, "{error}");
    assert!(error.message.contains("redfish+http://"), "{error}");
    assert_eq!(bmc.seen().len(), 0);
}

#[tokio::test]
async fn invalid_settings_are_rejected_at_creation() {
    let bmc = TestBmc::start().await;
    let kind = |config: RedfishConfig| connect(config).unwrap_err().kind;
    for bundle in [
        "",
        "no pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let trust = Trust::CaBundle(bundle.as_bytes().into());
        assert_eq!(
            kind(trusting(&bmc, trust)),
            ErrorKind::Configuration,
            "{bundle}"
        );
    }
    assert_eq!(kind(config("ipmi://127.0.0.1")), ErrorKind::Configuration);
    let mut nobody = bmc.config();
    nobody.username = String::new();
    assert_eq!(kind(nobody), ErrorKind::Configuration);
    assert_eq!(Trust::pin("abc"), Err(TrustError::Pin));
}

/// A BMC that ends each handshake with this alert.
async fn alerting(alert: u8) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).await.ok();
            // RFC 5246, 7.2: alert, fatal.
            stream.write_all(&[21, 3, 1, 0, 2, 2, alert]).await.ok();
        }
    });
    port
}

#[tokio::test]
async fn outdated_tls_of_the_bmc_is_reported_with_advice() {
    const HANDSHAKE_FAILURE: u8 = 40;
    const PROTOCOL_VERSION: u8 = 70;
    for (alert, cause) in [
        (PROTOCOL_VERSION, "offers no TLS 1.2 or later"),
        (HANDSHAKE_FAILURE, "only RSA key exchange"),
    ] {
        let address = format!("redfish://127.0.0.1:{}", alerting(alert).await);
        let mut config = config(&address);
        config.trust = Trust::Insecure;
        let client = connect(config).unwrap();
        let error = client.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Tls, "{error}");
        assert!(error.message.contains(cause), "{error}");
        assert!(error.message.contains("ipmi://"), "{error}");
        assert!(
            !error.message.contains("pin"),
            "a pin does not help: {error}"
        );
    }
}
