//! The CA of the client certificates that the API server accepts.
//!
//! The API server publishes this CA for other servers, such as the servers of aggregated APIs. Kubeconfigs of
//! kubeadm and of Cluster API have such a certificate and no token.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rackhand_transport::WebTls;
use tokio_util::sync::CancellationToken;

use crate::store::{
    api::{call, optional},
    watch::pause,
};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";
/// Interval of the reads. The rotation of a cluster's CA takes days.
const INTERVAL: Duration = Duration::from_secs(60);

/// Keeps the CA of a server up to date until `cancel`. A failed read leaves the CA unchanged.
pub(super) async fn follow(client: Client, tls: Arc<WebTls>, cancel: CancellationToken) {
    let mut said = None;
    loop {
        let problem = read(&client, &tls).await.err();
        if problem != said
            && let Some(problem) = &problem
        {
            tracing::warn!(
                problem,
                "callers with a client certificate and no token are refused"
            );
        }
        said = problem;
        if pause(&cancel, INTERVAL).await {
            return;
        }
    }
}

async fn read(client: &Client, tls: &WebTls) -> Result<(), String> {
    let what = format!("ConfigMap {NAMESPACE}/{NAME}");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = optional(call(&what, maps.get(NAME)).await)
        .map_err(|error| format!("{error}; the ClusterRole rackhand-metrics-auth allows it"))?;
    let ca = found.and_then(|map| map.data?.remove(KEY));
    let changed = tls
        .trust_clients(ca.as_deref().map(str::as_bytes))
        .map_err(|error| format!("{KEY} of {what}: {error}"))?;
    if changed && ca.is_some() {
        tracing::info!("callers may show the client certificate of their kubeconfig");
    }
    Ok(())
}
