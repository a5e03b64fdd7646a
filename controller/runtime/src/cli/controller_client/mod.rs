//! A client of the controller's HTTPS server, as the user of a kubeconfig.
//!
//! Owns: the verification of the controller's certificate. Must never: send a token before that verification.

mod explanation;
mod page_proxy;

use std::{path::PathBuf, sync::Arc};

use http::Uri;
use hyper_util::{client::legacy, rt::TokioExecutor};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    client::{Body, ConfigExt},
};
use rackhand_api::names::SERVING_CERTIFICATE_ANNOTATION;
use rackhand_transport::tls::fingerprint;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tower::ServiceBuilder;

pub use explanation::explain_by_leader;
pub use page_proxy::{PageProxy, ProxyError};

use crate::store::api::{call, connection_of, optional, unusable_certificate};

/// A controller that serves explanations and the status page.
#[derive(Debug, Clone)]
pub struct ControllerAddress {
    /// URL of the controller, for example `https://127.0.0.1:8443`.
    pub url: Uri,
    /// How its certificate is verified.
    pub trust: ControllerTrust,
}

/// How the certificate of a controller is verified.
#[derive(Debug, Clone)]
pub enum ControllerTrust {
    /// By the CA in this file.
    Ca(PathBuf),
    /// By the fingerprint that the leader writes to its Lease, which is read with the kubeconfig.
    Lease {
        /// Namespace of the Lease.
        namespace: String,
        /// Name of the Lease.
        name: String,
    },
}

/// Why there is no client of a controller.
#[derive(Debug, thiserror::Error)]
pub enum ControllerClientError {
    /// The kubeconfig, or a file that it names, cannot be used.
    #[error("{0}")]
    Kubeconfig(String),
    /// A token is sent over TLS only.
    #[error("the address of a controller begins with https://")]
    NotHttps,
    /// The Lease cannot be read.
    #[error("{0}")]
    Cluster(String),
    /// There is no such Lease.
    #[error("{lease} does not exist, so no controller leads")]
    NoLease {
        /// The Lease, for messages.
        lease: String,
    },
    /// The Lease names no certificate.
    #[error(
        "{lease} does not carry {SERVING_CERTIFICATE_ANNOTATION}, by which the certificate of the leader is \
         verified: name its CA with --controller-ca, or check that the controller runs with --metrics-address"
    )]
    NoCertificate {
        /// The Lease, for messages.
        lease: String,
    },
}

/// A client of the controller at an address, with the token or the client certificate of the kubeconfig.
///
/// # Errors
/// The kubeconfig cannot be used, or nothing tells which certificate the controller has.
async fn controller_client(
    kubeconfig: Option<&std::path::Path>,
    address: &ControllerAddress,
) -> Result<Client, ControllerClientError> {
    let connection = connection_of(kubeconfig).await;
    let mut connection =
        connection.map_err(|e| ControllerClientError::Kubeconfig(e.to_string()))?;
    let user = connection.auth_info.clone();
    let unusable = |error: kube::Error| {
        let told = unusable_certificate(&error, &user).unwrap_or_else(|| error.into());
        ControllerClientError::Kubeconfig(told.to_string())
    };
    if address.url.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return Err(ControllerClientError::NotHttps);
    }
    let of_cluster = connection.clone();
    connection.cluster_url = address.url.clone();
    connection.root_cert = None;
    connection.root_cert_file = None;
    connection.tls_server_name = None;
    connection.proxy_url = None;
    let leader = match &address.trust {
        ControllerTrust::Ca(file) => {
            connection.root_cert_file = Some(file.clone());
            connection.accept_invalid_certs = false;
            return Client::try_from(connection).map_err(unusable);
        }
        ControllerTrust::Lease { namespace, name } => {
            let cluster = Client::try_from(of_cluster).map_err(unusable)?;
            leader_certificate(cluster, namespace, name).await?
        }
    };
    // Replaced before the first connection.
    connection.accept_invalid_certs = true;
    let mut tls = connection.rustls_client_config().map_err(unusable)?;
    tls.dangerous()
        .set_certificate_verifier(Arc::new(Pinned::new(leader)));
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .build();
    let service = ServiceBuilder::new()
        .layer(connection.base_uri_layer())
        .option_layer(connection.auth_layer().map_err(unusable)?)
        .map_err(tower::BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(https));
    Ok(Client::new(service, connection.default_namespace))
}

/// The fingerprint of the leader's certificate.
async fn leader_certificate(
    cluster: Client,
    namespace: &str,
    name: &str,
) -> Result<String, ControllerClientError> {
    let what = format!("Lease {namespace}/{name}");
    let leases: Api<Lease> = Api::namespaced(cluster, namespace);
    let found = optional(call(&what, leases.get(name)).await);
    let found = found.map_err(|e| ControllerClientError::Cluster(e.to_string()))?;
    let Some(found) = found else {
        return Err(ControllerClientError::NoLease { lease: what });
    };
    let certificate = found.annotations().get(SERVING_CERTIFICATE_ANNOTATION);
    let certificate = certificate.cloned();
    certificate.ok_or(ControllerClientError::NoCertificate { lease: what })
}

/// Accepts one certificate, whatever its name and its dates, if the peer has the key of it.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(fingerprint: String) -> Self {
        Self {
            fingerprint,
            algorithms: ring::default_provider().signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = fingerprint(end_entity);
        if found.eq_ignore_ascii_case(&self.fingerprint) {
            return Ok(ServerCertVerified::assertion());
        }
        let other = format!(
            "this is not the leader: its certificate has the fingerprint {found}, and the Lease names {}; another \
             replica or another program answers at this address",
            self.fingerprint
        );
        Err(CertificateError::Other(rustls::OtherError(Arc::from(Box::<
            dyn std::error::Error + Send + Sync,
        >::from(other))))
        .into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use axum::{Router, http::HeaderMap, routing::get};
    use http::Request;
    use parking_lot::Mutex;
    use rackhand_transport::WebTls;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::serve::https::Https;

    /// Creates a CA; its certificate is `ca.crt` in the directory.
    fn authority(dir: &Path) -> Issuer<'static, KeyPair> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        std::fs::write(dir.join("ca.crt"), ca).unwrap();
        Issuer::new(params, key)
    }

    /// A kubeconfig whose cluster is not verified; the controller is verified all the same.
    fn kubeconfig(dir: &Path) -> PathBuf {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": {
                "server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true,
            }}],
            "users": [{ "name": "u", "user": { "token": "s3cret" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        let path = dir.join("kubeconfig");
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    #[tokio::test]
    async fn controller_is_verified_by_the_given_ca_before_a_token_is_sent() {
        ring::default_provider().install_default().ok();
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [right, wrong] = [dirs[0].path(), dirs[1].path()];
        let issuer = authority(right);
        authority(wrong);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(right.join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(right.join("tls.key"), key.serialize_pem()).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("https://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let https = Https {
            name: "test",
            listener,
            tls: Arc::new(WebTls::in_dir(right).unwrap()),
        };
        let shown = Arc::<Mutex<Vec<String>>>::default();
        let seen = shown.clone();
        let app = Router::new().route(
            "/here",
            get(async move |headers: HeaderMap| {
                let token = headers.get("authorization").map(|t| t.to_str().unwrap());
                seen.lock().push(token.unwrap_or_default().to_owned());
                "found"
            }),
        );
        let cancel = CancellationToken::new();
        let serving = tokio::spawn(https.run(app, cancel.clone()));

        let kubeconfig = kubeconfig(right);
        let ask = async |ca: &Path| {
            let address = ControllerAddress {
                url: url.clone(),
                trust: ControllerTrust::Ca(ca.join("ca.crt")),
            };
            let client = controller_client(Some(&kubeconfig), &address)
                .await
                .unwrap();
            let request = Request::get("/here").body(Vec::new()).unwrap();
            let answer = client.request_text(request).await;
            answer.map_err(|e| crate::store::api::words(&e))
        };
        let refused = ask(wrong).await.unwrap_err();
        assert!(refused.contains("invalid peer certificate"), "{refused}");
        assert!(shown.lock().is_empty(), "nothing is sent to it");
        assert_eq!(ask(right).await.as_deref(), Ok("found"));
        assert_eq!(*shown.lock(), ["Bearer s3cret"]);
        cancel.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn client_certificate_that_cannot_be_used_is_named() {
        ring::default_provider().install_default().ok();
        let dir = tempfile::tempdir().unwrap();
        authority(dir.path());
        let path = kubeconfig(dir.path());
        let mut config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let unusable = k8s_openapi::ByteString(b"no certificate".to_vec());
        config["users"][0]["user"] =
            json!({ "client-certificate-data": unusable, "client-key-data": unusable });
        std::fs::write(&path, config.to_string()).unwrap();
        let of_lease = ControllerTrust::Lease {
            namespace: "ns".into(),
            name: "lease".into(),
        };
        for trust in [ControllerTrust::Ca(dir.path().join("ca.crt")), of_lease] {
            let address = ControllerAddress {
                url: Uri::from_static("https://127.0.0.1:1"),
                trust,
            };
            let made = controller_client(Some(&path), &address).await;
            let error = made.map(drop).unwrap_err().to_string();
            let named =
                "the client certificate cannot be used (client-certificate-data in the kubeconfig";
            assert!(error.contains(named), "{error}");
        }
    }
}
