//! The Node condition [`FENCING_UNAVAILABLE`].

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_api::names::conditions::FENCING_UNAVAILABLE;
use rackhand_core::{
    fleet::bmc_health::{Unavailable, UnavailableCause},
    fleet::bmc_identity::IDENTITY_REMEDY,
};
use serde_json::json;

use super::{BmcWatch, Watched};
use crate::leader::writer::Lane;

/// Owns the condition in the Node's status, and no other part of the status.
const FIELD_MANAGER: &str = "rackhand-bmc-watch";

/// Writes the condition of the Node, unless it already has this reason.
pub(super) async fn report(watch: &BmcWatch, watched: &Watched, unavailable: Option<Unavailable>) {
    let Some((cluster, name)) = &watched.node else {
        return;
    };
    let Some(node) = watch.index.node(cluster, name) else {
        return;
    };
    let host = &watched.host.host;
    let reason = unavailable.as_ref().map(|why| why.cause.label());
    if reason_set(&node).as_deref() == reason {
        return;
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (status, reason, message) = match &unavailable {
        Some(Unavailable {
            since,
            message,
            cause: cause @ UnavailableCause::OtherSystem,
        }) => {
            tracing::warn!(host, rack = watched.host.rack, node = name, %since, message,
                "the BMC is that of another host");
            let message =
                format!("{message}. A remediation of this node would stop: {IDENTITY_REMEDY}");
            ("True", cause.label(), message)
        }
        Some(Unavailable {
            since,
            message,
            cause: cause @ UnavailableCause::NotReadable,
        }) => {
            tracing::warn!(host, rack = watched.host.rack, node = name, %since, message,
                "the BMC cannot fence its host");
            // An agent checks the hosts of its inventory; preflight has the credentials of the others.
            let check = match watched.bmh {
                None => format!("rackhand-agent host check {host}"),
                Some(_) => "kubectl rackhand preflight".to_owned(),
            };
            let message = format!(
                "BMC of host {host} of rack {}: {message}; a remediation of this node would wait \
                 for a person. `{check}` finds out why",
                watched.host.rack
            );
            ("True", cause.label(), message)
        }
        None => {
            tracing::info!(
                host,
                rack = watched.host.rack,
                node = name,
                "the BMC answers again, and is that of the host as far as is known"
            );
            let message = format!("the BMC of host {host} answers");
            ("False", "BMCAvailable", message)
        }
    };
    let body = json!({ "apiVersion": "v1", "kind": "Node", "status": { "conditions": [{
        "type": FENCING_UNAVAILABLE,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }] } });
    let Some(workload) = watch.workloads.get(cluster) else {
        return;
    };
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let (cluster, name) = (cluster.clone(), name.clone());
    let what = format!("condition {FENCING_UNAVAILABLE} of node {name} of cluster {cluster}");
    let written = watch
        .writer
        .on(Lane::Reports)
        .write("node condition", what, move || async move {
            let params = PatchParams::apply(FIELD_MANAGER).force();
            nodes
                .patch_status(&name, &params, &Patch::Apply(body))
                .await
        })
        .await;
    match written {
        Ok(node) => watch.index.apply_node(&cluster, node),
        Err(error) => tracing::warn!(%error, "the condition is tried again with the next reading"),
    }
}

/// The reason of the condition, if its status is True.
fn reason_set(node: &Node) -> Option<String> {
    let status = node.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    let set = conditions.find(|c| c.type_ == FENCING_UNAVAILABLE && c.status == "True")?;
    Some(set.reason.clone().unwrap_or_default())
}
