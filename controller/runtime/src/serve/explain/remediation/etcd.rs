//! OpenShift's etcd guard in explanations.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rackhand_core::concurrency::EtcdGuard;

use super::Snapshot;
use crate::{
    clusters::{OPENSHIFT_ETCD, guard},
    hosts::Target,
    remediation::has_guard,
    store::index::Index,
};

/// The state of OpenShift's etcd guard, if it applies to this Node.
pub(super) fn guard_of(
    index: &Index,
    snapshot: &Snapshot,
    target: &Target,
    assumed: &mut Vec<String>,
) -> Option<Result<EtcdGuard, String>> {
    if snapshot.guard.is_some() || !has_guard(index, target) {
        return snapshot.guard.clone();
    }
    let budgets = snapshot.etcd_budgets();
    if budgets.is_empty() {
        assumed.push(format!(
            "the guard of etcd (PodDisruptionBudget in {OPENSHIFT_ETCD}) allows it, because it is not \
             known"
        ));
        return None;
    }
    let pods = snapshot.pods().unwrap_or_default();
    let guards: Vec<Pod> = pods
        .into_iter()
        .filter(|pod| pod.namespace().as_deref() == Some(OPENSHIFT_ETCD))
        .filter(|pod| pod.labels().get("app").is_some_and(|app| app == "guard"))
        .collect();
    let name = target.node.as_deref().unwrap_or_default();
    Some(Ok(guard(name, &budgets, &guards)))
}

/// The state of the guard in a sentence.
pub(super) fn message(guard: Result<EtcdGuard, String>) -> String {
    match guard {
        Ok(guard) if guard.budgets == 1 => format!(
            "its guard allows {} now; the member of this node is {}",
            disruptions(guard.allowed),
            if guard.member_ready {
                "ready"
            } else {
                "not ready"
            }
        ),
        Ok(guard) => format!(
            "{} PodDisruptionBudgets in {OPENSHIFT_ETCD}, one is expected",
            guard.budgets
        ),
        Err(why) => format!("its guard cannot be read: {why}"),
    }
}

fn disruptions(allowed: i32) -> String {
    match allowed {
        1 => "1 disruption".into(),
        n => format!("{n} disruptions"),
    }
}
