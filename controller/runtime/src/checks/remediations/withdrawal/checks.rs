//! Health checks that concern the remediation of one Machine.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rackhand_api::{
    names::{
        CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION, MADE_BY_ANNOTATION,
        MEDIK8S_TEMPLATE_NAME_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, kinds,
    },
    views::{ConditionCheck, MachineHealthCheckView, MachineView, Meta, OpenShiftHealthCheckView},
};
use rackhand_core::checks::machines::CheckState;

use super::creator::Creator;
use crate::{
    checks::ownership::paused,
    store::{index::Index, object::Key},
};

/// Whether a live check evaluates a Machine, in any controller.
pub(crate) fn is_judged(index: &Index, machine: &MachineView) -> bool {
    live_checks(index, machine, |_| true).next().is_some()
}

/// The conditions, by type and status, that make a Node unhealthy by the check that created a remediation.
/// `None` if no check created it, or if that check is gone.
pub(crate) fn checked_conditions(
    index: &Index,
    remediation: &Meta,
    namespace: &str,
) -> Option<BTreeSet<(String, String)>> {
    let mut owners = remediation.owners.iter();
    let node_check = owners.find(|owner| owner.kind == kinds::NODE_HEALTH_CHECK);
    let rules = match node_check {
        Some(owner) => {
            let entry = index.node_check(&Key::new("", &owner.name))?;
            let view = entry.view.ok().filter(|view| view.meta.uid == owner.uid)?;
            view.unhealthy_conditions.clone().unwrap_or_default()
        }
        None => {
            let maker = Creator::read(remediation.annotations.get(MADE_BY_ANNOTATION)?)?;
            let key = Key::new(namespace, &maker.check);
            let of_openshift = index.openshift_check(&key).and_then(|e| e.view.ok());
            let of_openshift = of_openshift.filter(|view| view.meta.uid == maker.uid);
            let of_cluster_api = index.check(&key).and_then(|e| e.view.ok());
            let of_cluster_api = of_cluster_api.filter(|view| view.meta.uid == maker.uid);
            let rules = of_openshift.map(|view| view.node_checks.clone());
            rules.or_else(|| of_cluster_api.map(|view| view.node_checks.clone()))?
        }
    };
    let rule = |rule: ConditionCheck| (rule.condition_type, rule.status);
    Some(rules.into_iter().map(rule).collect())
}

/// When the NodeHealthCheck that made a remediation gives it up for the next template; `None`: its template has no time
/// limit, or the check is not known.
pub(crate) fn given_up_at(index: &Index, remediation: &Meta) -> Option<Timestamp> {
    let mut owners = remediation.owners.iter();
    let owner = owners.find(|owner| owner.kind == kinds::NODE_HEALTH_CHECK)?;
    let entry = index.node_check(&Key::new("", &owner.name))?;
    let view = entry.view.ok().filter(|view| view.meta.uid == owner.uid)?;
    let template = remediation
        .annotations
        .get(MEDIK8S_TEMPLATE_NAME_ANNOTATION);
    let mut steps = view.escalation.iter().filter(|step| match template {
        Some(name) => step.template.name == *name,
        None => view.escalation.len() == 1,
    });
    let step = steps.next()?;
    remediation.created?.checked_add(step.timeout).ok()
}

/// The UIDs of the live checks of a Machine that create this kind of remediations.
pub(super) fn live_checks<'a>(
    index: &'a Index,
    machine: &'a MachineView,
    makes: impl Fn(&MachineHealthCheckView) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    let checks = index.checks_in(&namespace).into_iter();
    let states = checks
        .filter_map(|entry| entry.view.ok())
        .map(move |view| state(index, &view, machine, makes(&view)));
    states
        .filter(|state| state.is_live() && state.makes)
        .map(|state| state.uid)
}

/// The state of a check for one Machine.
pub(super) fn state(
    index: &Index,
    view: &MachineHealthCheckView,
    machine: &MachineView,
    makes: bool,
) -> CheckState {
    let labels = &machine.meta.labels;
    let cluster = view.cluster_name.as_deref().unwrap_or_default();
    let namespace = view.meta.namespace.clone().unwrap_or_default();
    let found = index.cluster(&Key::new(namespace, cluster));
    let selects = labels.get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
        && view.selector.matches(labels)
        && !machine.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION);
    CheckState {
        uid: view.meta.uid.clone(),
        deleting: view.meta.is_deleting(),
        paused: paused(&view.meta),
        cluster_active: found
            .and_then(|e| e.view.ok())
            .is_some_and(|c| !c.is_paused()),
        dry_run: view.meta.is_annotated_true(DRY_RUN_ANNOTATION),
        selects,
        makes,
    }
}

/// The state of a check of OpenShift, which names no Cluster, for one Machine.
pub(super) fn state_of_openshift(
    view: &OpenShiftHealthCheckView,
    machine: &MachineView,
    makes: bool,
) -> CheckState {
    CheckState {
        uid: view.meta.uid.clone(),
        deleting: view.meta.is_deleting(),
        paused: paused(&view.meta),
        cluster_active: true,
        dry_run: view.meta.is_annotated_true(DRY_RUN_ANNOTATION),
        selects: view.selector.matches(&machine.meta.labels),
        makes,
    }
}
