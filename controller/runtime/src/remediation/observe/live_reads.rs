//! Live reads of objects that the index lacks (F12).
//!
//! An object that a remediation depends on and that is not in the index is read from the API server
//! before a decision, and added to the index. It is absent only if the API server lacks it too.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::names::{
    CLUSTER_NAMESPACE_ANNOTATION, MACHINE_ANNOTATION, conditions::HEALTH_CHECK_SUCCEEDED,
};
use rackhand_core::remediation::{Decision, State};

use crate::{
    checks::is_judged,
    hosts::{Target, consumer_of, find_machine, named_bmh, resolves_host},
    remediation::{observe::Scope, scope::Memory},
    store::{
        api::ApiError,
        object::{Key, Kind},
        remediation::RemediationObject,
    },
};

/// Reads the Machine, its Cluster and the chosen BareMetalHost. Without the Machine a
/// remediation is not escalated, without the Cluster a pause is not known, and without the
/// BareMetalHost baremetal-operator is not told to keep the host off (F2).
pub(super) async fn read_absent(
    scope: &Scope,
    view: &RemediationObject,
    state: Option<&State>,
) -> Result<(), ApiError> {
    let index = &scope.context.index;
    let namespace = &scope.id.key.namespace;
    if let Some(owner) = view.machine() {
        let key = Key::new(namespace, &owner.name);
        let found = index.machine(&key);
        let is_owner = found
            .as_ref()
            .is_some_and(|e| e.object.uid().as_ref() == Some(&owner.uid));
        // The host of a Machine without a Node is switched without a taint.
        let has_node = state.is_some_and(|s| s.attempt.node.is_some())
            || found
                .and_then(|e| e.view.ok())
                .is_some_and(|m| m.node_name.is_some());
        if !is_owner || !has_node {
            scope.context.reader.read(Kind::Machine, &key).await?;
        }
    }
    let target = crate::hosts::target(index, &scope.id.key, view, state);
    if let Some(cluster) = &target.cluster
        && *cluster != Key::local()
        && index.cluster(cluster).is_none()
    {
        scope.context.reader.read(Kind::Cluster, cluster).await?;
    }
    if let Some(bmh) = state.and_then(|s| s.host.as_ref()?.bmh.as_deref()) {
        let key = Key::parse(bmh);
        if index.host(&key).is_none() {
            scope.context.reader.read(Kind::BareMetalHost, &key).await?;
        }
    }
    Ok(())
}

/// Reads what a Node names: its Machine and, before a host is chosen, its BareMetalHost.
pub(super) async fn read_absent_of_node(
    scope: &Scope,
    target: &Target,
    state: Option<&State>,
) -> Result<(), ApiError> {
    let index = &scope.context.index;
    let Some(name) = target.node.as_ref().filter(|_| target.by_node) else {
        return Ok(());
    };
    let Some(node) = index.node(&Key::local(), name) else {
        return Ok(());
    };
    let annotation = |key: &str| node.annotations().get(key).filter(|v| !v.is_empty());
    if let (Some(machine), Some(namespace)) = (
        annotation(MACHINE_ANNOTATION),
        annotation(CLUSTER_NAMESPACE_ANNOTATION),
    ) && target.machine.is_none()
    {
        scope
            .context
            .reader
            .read(Kind::Machine, &Key::new(namespace, machine))
            .await?;
    }
    if target.machine.is_none() && resolves_host(target, state) {
        read_named_host(scope, &node).await?;
    }
    Ok(())
}

/// Reads the BareMetalHost that a Node names, and what consumes it: a kubelet may write what names it, so
/// that only the consumer decides.
async fn read_named_host(scope: &Scope, node: &Node) -> Result<(), ApiError> {
    let index = &scope.context.index;
    let Some(named) = named_bmh(index, node) else {
        return Ok(());
    };
    let [key] = named.as_slice() else {
        let namespace = scope
            .context
            .config
            .namespace
            .as_deref()
            .unwrap_or_default();
        return match named.is_empty() {
            true => {
                scope
                    .context
                    .reader
                    .list(Kind::BareMetalHost, namespace)
                    .await
            }
            // Several match, so that none is chosen.
            false => Ok(()),
        };
    };
    scope.context.reader.read(Kind::BareMetalHost, key).await?;
    let bmh = index.host(key).and_then(|entry| entry.view.ok());
    let Some((kind, consumer)) = bmh.and_then(|bmh| consumer_of(key, &bmh)) else {
        return Ok(());
    };
    scope.context.reader.read(kind, &consumer).await?;
    let metal3_machine = match kind {
        Kind::Metal3Machine => index.metal3_machine(&consumer),
        _ => None,
    };
    let view = metal3_machine.and_then(|entry| entry.view.ok());
    if let Some(owner) = view.as_ref().and_then(|view| view.machine()) {
        let machine = Key::new(&consumer.namespace, &owner.name);
        scope.context.reader.read(Kind::Machine, &machine).await?;
    }
    Ok(())
}

/// Looks up the Machine of a Node that does not name one, before its absence counts: the
/// remediation is about to begin or has ended. Returns whether there is one.
pub(in crate::remediation) async fn find_unnamed_machine(
    scope: &Scope,
    memory: &mut Memory,
    target: &Target,
    decision: &Decision,
) -> Result<bool, ApiError> {
    let sought = memory.shell.seeks_machine(decision);
    if !target.by_node || target.machine.is_some() || !sought {
        return Ok(false);
    }
    let Some(name) = &target.node else {
        return Ok(false);
    };
    let node = scope.context.index.node(&Key::local(), name);
    // A Node with the annotation names its Machine, which was read by name.
    let tied = node.is_some_and(|n| {
        !n.annotations().contains_key(MACHINE_ANNOTATION)
            && n.spec.as_ref().is_some_and(|s| s.provider_id.is_some())
    });
    if !tied {
        return Ok(false);
    }
    let namespace = scope.context.config.namespace.clone().unwrap_or_default();
    scope.context.reader.list(Kind::Machine, &namespace).await?;
    memory.shell.sought_machine(decision);
    let mut again = Target {
        machine: None,
        cluster: target.cluster.clone(),
        node: target.node.clone(),
        by_node: true,
        openshift: None,
    };
    find_machine(&scope.context.index, &mut again);
    Ok(again.machine.is_some())
}

/// Reads the health checks if none is known that evaluates the Machine: the condition of a
/// check that is gone does not count.
pub(super) async fn read_absent_check(scope: &Scope, target: &Target) -> Result<(), ApiError> {
    let machine = target
        .machine()
        .filter(|_| !target.by_node && target.openshift.is_none());
    let Some(machine) = machine else {
        return Ok(());
    };
    let unhealthy = machine
        .condition(HEALTH_CHECK_SUCCEEDED)
        .is_some_and(|c| !c.is_true());
    if !unhealthy || is_judged(&scope.context.index, machine) {
        return Ok(());
    }
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    scope
        .context
        .reader
        .list(Kind::MachineHealthCheck, &namespace)
        .await
}

/// Whether the Cluster of the target is paused by a live read, which the index did not show. A move pauses it
/// before it copies anything, and looks for what makes it wait before that.
pub(in crate::remediation) async fn finds_pause(
    scope: &Scope,
    target: &Target,
) -> Result<bool, ApiError> {
    let Some(cluster) = target.cluster.as_ref().filter(|c| **c != Key::local()) else {
        return Ok(false);
    };
    scope.context.reader.cluster(cluster).await?;
    let entry = scope.context.index.cluster(cluster);
    let view = entry.and_then(|entry| entry.view.ok());
    Ok(view.is_some_and(|cluster| cluster.is_paused()))
}
