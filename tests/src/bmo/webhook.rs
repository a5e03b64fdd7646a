//! The validating webhook of baremetal-operator, which the API server calls for each BareMetalHost that is created or
//! updated (not for its status), with failurePolicy Fail: while baremetal-operator is away, nobody can set or remove
//! an annotation. By the marker `kubebuilder:webhook` in its `internal/webhooks/metal3.io/v1alpha1`, see B17 in
//! docs/reference/baremetal-operator.md.
//!
//! It runs in the process of baremetal-operator, so it answers while that reconciles nothing, and refuses connections
//! while that is stopped. Each stand-in registers its own, for its own hosts.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Result;
use axum::{Json, Router, routing::post};
use base64::Engine as _;
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client, api::DeleteParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::host::REBOOT;
use crate::{
    cluster::apply,
    pki::{CertSpec, Pki},
    process::free_port,
};

const PATH: &str = "/validate-metal3-io-v1alpha1-baremetalhost";
/// Pause before a port that is not free yet is taken again.
const PAUSE: Duration = Duration::from_millis(50);

/// A registered webhook. Dropping it leaves the registration, so that the hosts cannot be changed any more.
pub struct Webhook {
    name: String,
    address: SocketAddr,
    tls: TlsAcceptor,
    configurations: Api<ValidatingWebhookConfiguration>,
    serving: Mutex<Option<JoinSet<()>>>,
}

impl Webhook {
    /// Registers the webhook for these hosts and serves it.
    ///
    /// # Errors
    /// The API server refuses it, or no certificate can be issued.
    pub async fn register(client: &Client, pki: &Pki, hosts: &[&str]) -> Result<Self> {
        let first = hosts.first().copied().unwrap_or_default();
        let name = format!("baremetal-operator-validating-webhook-configuration-{first}");
        let files = pki.issue(&CertSpec::server(format!("bmo-webhook-{first}")))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let ca = base64::engine::general_purpose::STANDARD.encode(std::fs::read(&files.ca)?);
        let webhook = Self {
            address,
            tls: TlsAcceptor::from(files.server_config()?),
            configurations: Api::all(client.clone()),
            serving: Mutex::default(),
            name,
        };
        webhook.start();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": webhook.name },
            "webhooks": [{
                "name": "baremetalhost.metal3.io",
                "clientConfig": { "url": format!("https://{address}{PATH}"), "caBundle": ca },
                "rules": [{
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": ["metal3.io"],
                    "apiVersions": ["v1alpha1"],
                    "resources": ["baremetalhosts"],
                }],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "matchConditions": [{
                    "name": "own-hosts",
                    "expression": format!("request.name in {}", json!(hosts)),
                }],
            }],
        });
        apply(client, configuration).await?;
        Ok(webhook)
    }

    /// Removes the registration, as a person does where baremetal-operator is to stay away.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn unregister(&self) -> Result<()> {
        let params = DeleteParams::default();
        self.configurations.delete(&self.name, &params).await?;
        Ok(())
    }

    /// Answers, if it does not.
    pub fn start(&self) {
        let mut serving = self.serving.lock();
        if serving.is_none() {
            let mut tasks = JoinSet::new();
            tasks.spawn(serve(self.address, self.tls.clone()));
            *serving = Some(tasks);
        }
    }

    /// Refuses connections, and ends those that are open.
    pub fn stop(&self) {
        *self.serving.lock() = None;
    }
}

async fn serve(address: SocketAddr, tls: TlsAcceptor) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::debug!(%address, %error, "the webhook cannot have its port yet");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(tls.clone(), stream))),
                Err(error) => tracing::debug!(%error, "the webhook cannot accept"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(tls: TlsAcceptor, stream: TcpStream) {
    let app = Router::new().route(
        PATH,
        post(|Json(review): Json<Value>| async move { answer(&review) }),
    );
    let served = async {
        let stream = tls.accept(stream).await?;
        let service = TowerToHyperService::new(app);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        anyhow::Ok(connection.await?)
    };
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection of the webhook ended");
    }
}

fn answer(review: &Value) -> Json<Value> {
    let request = &review["request"];
    let judged = judge(&request["object"]);
    let mut response = json!({ "uid": request["uid"], "allowed": judged.is_ok() });
    if let Err(message) = judged {
        response["status"] = json!({ "message": message, "code": 403 });
    }
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    }))
}

/// What the webhook says about the annotations and fields that concern power.
pub(super) fn judge(host: &Value) -> Result<(), String> {
    let annotations = host["metadata"]["annotations"].as_object();
    for (key, value) in annotations.into_iter().flatten() {
        let is_reboot = key.strip_prefix(REBOOT);
        let value = value.as_str().unwrap_or_default();
        if is_reboot.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
            || value.is_empty()
        {
            continue;
        }
        let read: Value = serde_json::from_str(value)
            .map_err(|error| format!("failed to unmarshal the data from {REBOOT}: {error}"))?;
        let mode = &read["mode"];
        if !mode.is_null() && !["hard", "soft", ""].iter().any(|known| mode == known) {
            return Err(format!("invalid mode in the {REBOOT} annotation"));
        }
    }
    let spec = &host["spec"];
    match spec["disablePowerOff"] == true && spec["online"] == false {
        true => Err("a host cannot be offline and have its power-off disabled".into()),
        false => Ok(()),
    }
}
