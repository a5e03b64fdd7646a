//! A client of the controller's HTTPS server, as the user of a kubeconfig.
//!
//! Owns: the verification of the controller's certificate. Must never: send a token before that verification.

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

use crate::store::api::{call, connection_of, optional};

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

/// A client of the controller at an address, with the token or the client certificate of the kubeconfig.
///
/// # Errors
/// The kubeconfig cannot be used, or nothing tells which certificate the controller has.
pub(crate) async fn controller_client(
    kubeconfig: Option<&std::path::Path>,
    address: &ControllerAddress,
) -> Result<Client, String> {
    let mut connection = connection_of(kubeconfig).await.map_err(|e| e.to_string())?;
    if address.url.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return Err("the address of a controller begins with https://".to_owned());
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
            return Client::try_from(connection).map_err(|e| e.to_string());
        }
        ControllerTrust::Lease { namespace, name } => {
            let cluster = Client::try_from(of_cluster).map_err(|e| e.to_string())?;
            leader_certificate(cluster, namespace, name).await?
        }
    };
    // Replaced before the first connection.
    connection.accept_invalid_certs = true;
    let mut tls = connection
        .rustls_client_config()
        .map_err(|e| e.to_string())?;
    tls.dangerous()
        .set_certificate_verifier(Arc::new(Pinned::new(leader)));
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .build();
    let service = ServiceBuilder::new()
        .layer(connection.base_uri_layer())
        .option_layer(connection.auth_layer().map_err(|e| e.to_string())?)
        .map_err(tower::BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(https));
    Ok(Client::new(service, connection.default_namespace))
}

/// The fingerprint of the leader's certificate.
async fn leader_certificate(
    cluster: Client,
    namespace: &str,
    name: &str,
) -> Result<String, String> {
    let what = format!("Lease {namespace}/{name}");
    let leases: Api<Lease> = Api::namespaced(cluster, namespace);
    let lease = optional(call(&what, leases.get(name)).await).map_err(|e| e.to_string())?;
    let lease = lease.ok_or_else(|| format!("{what} does not exist, so no controller leads"))?;
    let found = lease.annotations().get(SERVING_CERTIFICATE_ANNOTATION);
    found.cloned().ok_or_else(|| {
        format!(
            "{what} does not carry {SERVING_CERTIFICATE_ANNOTATION}, by which the certificate of the leader is \
             verified: name its CA with --controller-ca, or check that the controller runs with --metrics-address"
        )
    })
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
