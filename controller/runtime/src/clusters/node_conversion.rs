//! Conversion of Nodes and Leases into the facts of the core.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::{Lease, LeaseSpec},
    core::v1::{Node, NodeCondition},
};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use rackhand_api::names::{
    NODE_LEASE_NAMESPACE, OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY,
    OUT_OF_SERVICE_TAINT_VALUE,
};
use rackhand_core::remediation::{LeaseFacts, LeaseRenewals, NodeFacts, NodeLife, Taint};

use super::cordon::cordon;
use crate::store::{
    api::{ApiError, FIELD_MANAGER, call, optional},
    object::Key,
};

/// The status of condition Ready.
pub(crate) fn ready(node: &Node) -> Option<&str> {
    condition_ready(node).map(|c| c.status.as_str())
}

fn condition_ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "Ready")
}

/// Status of all conditions except Ready, by type.
fn other_conditions(node: &Node) -> BTreeMap<String, String> {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let others = conditions.into_iter().flatten();
    others
        .filter(|c| c.type_ != "Ready")
        .map(|c| (c.type_.clone(), c.status.clone()))
        .collect()
}

fn taint(node: &Node) -> Taint {
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    let found = taints
        .into_iter()
        .flatten()
        .find(|t| t.key == OUT_OF_SERVICE_TAINT_KEY && t.effect == OUT_OF_SERVICE_TAINT_EFFECT);
    match found {
        None => Taint::Absent,
        Some(t) if t.value.as_deref() == Some(OUT_OF_SERVICE_TAINT_VALUE) => Taint::Ours,
        Some(_) => Taint::Other,
    }
}

/// Whether Rackhand was the last to change the taints of the Node, by its `metadata.managedFields`. Rackhand
/// changes taints only to set or to remove its own taint, so a Node that carries this taint has it from Rackhand.
#[must_use]
pub fn is_tainted_by_rackhand(node: &Node) -> bool {
    taint_managers(node).any(|manager| manager == FIELD_MANAGER)
}

/// Whether only Rackhand or kube-controller-manager was the last to change the taints of the Node. After
/// Rackhand has set its own taint, kube-controller-manager adds and removes taints about the state of a Node,
/// and never changes that one.
fn may_be_tainted_by_rackhand(node: &Node) -> bool {
    taint_managers(node)
        .all(|manager| [FIELD_MANAGER, "kube-controller-manager"].contains(&manager))
}

/// The field managers that were the last to change the taints of the Node.
fn taint_managers(node: &Node) -> impl Iterator<Item = &str> {
    let entries = node.metadata.managed_fields.iter().flatten();
    entries.filter_map(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let has_taints = fields.is_some_and(|fields| !fields["f:spec"]["f:taints"].is_null());
        has_taints.then(|| entry.manager.as_deref().unwrap_or_default())
    })
}

/// The facts of a Node.
pub(crate) fn node_facts(node: &Node, lease: Option<LeaseFacts>) -> NodeFacts {
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
    NodeFacts {
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        created: node.creation_timestamp().map(|created| created.0),
        boot_id: info.map(|i| i.boot_id.clone()).unwrap_or_default(),
        system_uuid: info.map(|i| i.system_uuid.clone()).unwrap_or_default(),
        ready: ready(node) == Some("True"),
        ready_since: condition_ready(node).and_then(|c| Some(c.last_transition_time.as_ref()?.0)),
        conditions: other_conditions(node),
        ready_unknown: ready(node) == Some("Unknown"),
        taint: taint(node),
        tainted_by_rackhand: may_be_tainted_by_rackhand(node),
        cordon: cordon(node),
        lease,
    }
}

/// The name of a Node that is unique among all clusters, for messages.
pub(crate) fn node_label(cluster: &Key, name: &str) -> String {
    if *cluster == Key::local() {
        name.to_owned()
    } else {
        format!("{name} of cluster {cluster}")
    }
}

fn duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds;
    let seconds = seconds.and_then(|s| u64::try_from(s).ok());
    Duration::from_secs(seconds.unwrap_or(40))
}

/// Whether the kubelet of a Node that is not Ready runs, by a comparison of its Lease with earlier reads. A
/// kubelet without a Lease does not run.
pub(super) async fn kubelet_life(
    client: &Client,
    node: &str,
    renewals: &Mutex<LeaseRenewals>,
    clock: impl Fn() -> Timestamp,
) -> Result<NodeLife, ApiError> {
    let Some((renewed, duration)) = renewal(client, node).await? else {
        return Ok(NodeLife::Silent);
    };
    let now = clock();
    Ok(renewals.lock().observe(node, &renewed, duration, now))
}

/// renewTime and duration of the Lease of a Node, by a live read; `None` if it has none.
async fn renewal(client: &Client, node: &str) -> Result<Option<(String, Duration)>, ApiError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
    let asked = call(
        format!("Lease {NODE_LEASE_NAMESPACE}/{node}"),
        leases.get(node),
    )
    .await;
    Ok(optional(asked)?.as_ref().and_then(lease_renewal))
}

/// renewTime and duration of the Lease of a Node.
pub(crate) fn lease_renewal(lease: &Lease) -> Option<(String, Duration)> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref().map(|t| t.0.to_string());
    Some((renewed.unwrap_or_default(), duration(spec)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn f9_taint_may_be_ours_unless_somebody_else_has_changed_the_taints_last() {
        let node = |manager: &str| -> Node {
            serde_json::from_value(json!({ "metadata": { "name": "n", "managedFields": [
                { "manager": "kubelet", "fieldsV1": { "f:status": {} } },
                { "manager": manager, "fieldsV1": { "f:spec": { "f:taints": {} } } },
            ]}}))
            .unwrap()
        };
        for (manager, is, may_be) in [
            (FIELD_MANAGER, true, true),
            ("kube-controller-manager", false, true),
            ("kubectl-taint", false, false),
        ] {
            let node = node(manager);
            assert_eq!(is_tainted_by_rackhand(&node), is, "{manager}");
            assert_eq!(may_be_tainted_by_rackhand(&node), may_be, "{manager}");
        }
    }
}
