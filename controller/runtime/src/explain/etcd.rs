//! OpenShift's guard of etcd, in an explanation.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rackhand_core::remediation::EtcdGuard;

use super::scene::Workload;
use crate::{
    index::Index,
    remediation::{OPENSHIFT_ETCD, Target, guard, has_guard},
};

/// OpenShift's guard of etcd, where it has a say about this Node.
pub(super) fn guard_of(
    index: &Index,
    workload: &Workload,
    target: &Target,
    assumed: &mut Vec<String>,
) -> Option<Result<EtcdGuard, String>> {
    if workload.guard.is_some() || !has_guard(index, target) {
        return workload.guard.clone();
    }
    if workload.budgets.is_empty() {
        assumed.push(format!(
            "the guard of etcd (PodDisruptionBudget in {OPENSHIFT_ETCD}) allows it: it was not there \
             to look at"
        ));
        return None;
    }
    let pods = workload.pods.as_deref().unwrap_or_default().iter();
    let guards: Vec<Pod> = pods
        .filter(|pod| pod.namespace().as_deref() == Some(OPENSHIFT_ETCD))
        .filter(|pod| pod.labels().get("app").is_some_and(|app| app == "guard"))
        .cloned()
        .collect();
    let name = target.node.as_deref().unwrap_or_default();
    Some(Ok(guard(name, &workload.budgets, &guards)))
}

/// The same for a person.
pub(super) fn words(guard: Result<EtcdGuard, String>) -> String {
    match guard {
        Ok(guard) if guard.budgets == 1 => format!(
            "its guard allows {} disruption(s) now; the member of this node is {}",
            guard.allowed,
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
        Err(why) => format!("its guard cannot be asked: {why}"),
    }
}
