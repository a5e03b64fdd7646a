//! A client with any certificate that trusts every server certificate.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::rt::TokioIo;
use rackhand_transport::TlsFiles;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

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
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}

/// `None`: no client certificate.
pub(crate) async fn connect_with(address: SocketAddr, files: Option<&TlsFiles>) -> Channel {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believer));
    let mut config = match files {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = CertificateDer::pem_file_iter(&files.cert).unwrap();
            let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
            builder
                .with_client_auth_cert(chain.map(Result::unwrap).collect(), key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
    let connector = tower::service_fn(move |_: http::Uri| {
        let tls = tls.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("agent").unwrap();
            Ok::<_, std::io::Error>(TokioIo::new(tls.connect(name, stream).await?))
        }
    });
    Endpoint::from_static("http://agent").connect_with_connector_lazy(connector)
}

pub(crate) async fn connect(address: SocketAddr, files: &TlsFiles) -> Channel {
    connect_with(address, Some(files)).await
}
