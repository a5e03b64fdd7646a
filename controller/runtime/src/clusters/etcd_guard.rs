//! OpenShift's guard of etcd: a PodDisruptionBudget, and a guard pod on each Node of the control plane.

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{Api, Client, api::ListParams};
use rackhand_core::limits::concurrency::EtcdGuard;

use crate::store::api::call;

/// A label of every Node of OpenShift.
pub(crate) const OPENSHIFT_NODE_LABEL: &str = "node.openshift.io/os_id";
/// The namespace of OpenShift's etcd.
pub(crate) const OPENSHIFT_ETCD: &str = "openshift-etcd";
/// Selects the guard pods of OpenShift's etcd.
const GUARD_PODS: &str = "app=guard";

/// OpenShift's guard of etcd for a Node that it applies to.
///
/// # Errors
/// The API server does not answer.
pub(crate) async fn ask_guard(client: Client, node: &str) -> Result<EtcdGuard, String> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), OPENSHIFT_ETCD);
    let pods: Api<Pod> = Api::namespaced(client, OPENSHIFT_ETCD);
    let (every, guards) = (
        ListParams::default(),
        ListParams::default().labels(GUARD_PODS),
    );
    let (budgets, pods) = tokio::join!(
        call("PodDisruptionBudgets of etcd", budgets.list(&every)),
        call("guard pods of etcd", pods.list(&guards)),
    );
    match (budgets, pods) {
        (Ok(budgets), Ok(pods)) => Ok(guard(node, &budgets.items, &pods.items)),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

/// Computes the state of the guard from its objects.
pub(crate) fn guard(node: &str, budgets: &[PodDisruptionBudget], pods: &[Pod]) -> EtcdGuard {
    let status = budgets.first().and_then(|b| b.status.as_ref());
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
        let found = conditions
            .into_iter()
            .flatten()
            .find(|c| c.type_ == "Ready");
        found.is_some_and(|c| c.status != "False")
    };
    let here = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
    EtcdGuard {
        budgets: budgets.len(),
        allowed: status.map_or(0, |s| s.disruptions_allowed),
        member_ready: pods.iter().find(here).is_some_and(ready),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn f6_openshift_etcd_guard_is_read_like_medik8s() {
        let budget = |allowed: i32| -> PodDisruptionBudget {
            serde_json::from_value(json!({
                "metadata": { "name": "etcd-guard-pdb" },
                "status": {
                    "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2,
                    "expectedPods": 3,
                },
            }))
            .unwrap()
        };
        let pod = |node: &str, ready: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": { "name": format!("etcd-guard-{node}") },
                "spec": { "nodeName": node, "containers": [] },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap()
        };
        let pods = [pod("a", "False"), pod("b", "Unknown")];
        let seen = guard("a", &[budget(1)], &pods);
        assert_eq!(
            (seen.budgets, seen.allowed, seen.member_ready),
            (1, 1, false)
        );
        assert!(guard("b", &[budget(0)], &pods).member_ready);
        assert!(!guard("x", &[], &pods).member_ready);
        assert_eq!(guard("x", &[budget(0), budget(1)], &pods).budgets, 2);
    }
}
