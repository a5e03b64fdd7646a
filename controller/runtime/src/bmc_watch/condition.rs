//! The Node condition [`FENCING_UNAVAILABLE`].

use k8s_openapi::api::core::v1::Node;
use rackhand_api::names::conditions::FENCING_UNAVAILABLE;
use rackhand_core::{
    fleet::bmc_health::{Unavailable, UnavailableCause},
    fleet::bmc_identity::IDENTITY_REMEDY,
};

use super::{BmcWatch, Watched};
use crate::leader::{
    node_conditions::{self, NewCondition},
    writer::Lane,
};

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
    let condition = NewCondition {
        condition_type: FENCING_UNAVAILABLE,
        status,
        reason,
        message: &message,
    };
    let writer = watch.writer.on(Lane::Reports);
    let Some(client) = watch.workloads.client(cluster) else {
        return;
    };
    let parts = (&writer, client, &*watch.index);
    let written = node_conditions::write(parts, (cluster, name), FIELD_MANAGER, &condition).await;
    if let Err(error) = written {
        tracing::warn!(%error, "the condition is tried again with the next reading");
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
