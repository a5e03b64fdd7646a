//! Conversion of a check of OpenShift and its Machines into facts of the core.

use rackhand_api::{
    names::{
        BARE_METAL_HOST_ANNOTATION, MAINTENANCE_ANNOTATION,
        OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION, OPENSHIFT_MACHINE_ROLE_LABEL,
    },
    views::{MachineView, OpenShiftHealthCheckView},
};
use rackhand_core::checks::machines::{
    Claim, DialectRules as _, ExternalStep, Limit, MachineFacts, MachineRemediation,
    OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy, SkipReason, Verdict, external_step,
};
use rackhand_core::values::int_or_percent::IntOrPercent;

use super::external_remediation::Mark;
use crate::{
    checks::facts as shared,
    store::{index::Index, object::Key},
};

/// The phase of a Machine that has failed permanently.
const FAILED: &str = "Failed";
const MASTER: &str = "master";

/// The claim of a check for one of its Machines, by which the acting check is chosen.
pub(super) fn claim(
    check: &OpenShiftHealthCheckView,
    rules: &OpenShiftCheck,
    dry_run: bool,
    remediation: &MachineRemediation,
    machine: &MachineView,
) -> Claim {
    Claim {
        created: check.meta.created,
        name: check.meta.name.clone(),
        able: !dry_run,
        has_remediation: rules.is_marked(&self::machine(machine))
            || matches!(
                remediation,
                MachineRemediation::Open | MachineRemediation::Deleting
            ),
    }
}

/// The next step of the external remediation of a Machine.
pub(super) fn mark_step(
    view: &MachineView,
    mark: &Mark,
    verdict: Option<&Verdict>,
    reprovisionable: bool,
) -> ExternalStep {
    let healthy = verdict == Some(&Verdict::Healthy);
    match external_step(&machine(view), &mark.carried(healthy), reprovisionable) {
        // A remediation of another owner is not withdrawn, and one that is being deleted needs no withdrawal.
        ExternalStep::Withdraw if !mark.is_withdrawable() => ExternalStep::Nothing,
        step => step,
    }
}

/// Whether the host of a Machine can be provisioned again.
pub(super) fn reprovisionable(index: &Index, view: &MachineView) -> bool {
    let named = view.meta.annotations.get(BARE_METAL_HOST_ANNOTATION);
    let host = named.and_then(|name| index.host(&Key::parse(name)));
    host.and_then(|entry| entry.view.ok())
        .is_some_and(|host| !host.externally_provisioned)
}

pub(super) fn rules(view: &OpenShiftHealthCheckView) -> OpenShiftCheck {
    let startup = view
        .node_startup_timeout
        .unwrap_or(shared::DEFAULT_STARTUP_TIMEOUT);
    OpenShiftCheck::new(
        (!startup.is_zero()).then_some(startup),
        view.node_checks.iter().map(shared::rule).collect(),
        match view.max_unhealthy {
            Ok(Some(limit)) => Limit::AtMost(limit.without_negative_percentage()),
            Ok(None) => Limit::AtMost(IntOrPercent::Percent(100)),
            Err(_) => Limit::Unreadable,
        },
        match (&view.remediation_template, view.external_baremetal) {
            (Some(_), _) => OpenShiftStrategy::Template,
            (None, true) => OpenShiftStrategy::ExternalBaremetal,
            (None, false) => OpenShiftStrategy::Delete,
        },
    )
}

pub(super) fn machine(view: &MachineView) -> OpenShiftMachine {
    let meta = &view.meta;
    let words = [&view.failure_reason, &view.failure_message];
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let why = if words.is_empty() {
        format!("phase {FAILED}")
    } else {
        words.join(": ")
    };
    let role = meta.labels.get(OPENSHIFT_MACHINE_ROLE_LABEL);
    OpenShiftMachine {
        facts: MachineFacts {
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            starting_since: view.last_updated,
            deleting: meta.is_deleting(),
            control_plane: role.is_some_and(|role| role == MASTER),
            skipped: meta
                .has_annotation(MAINTENANCE_ANNOTATION)
                .then_some(SkipReason::Maintenance),
            remediate_annotation: false,
            conditions: Vec::new(),
            infrastructure_ready: None,
            failure: (view.phase.as_deref() == Some(FAILED)).then_some(why),
            health_condition: None,
            owner_remediated: None,
            awaits_owner: false,
        },
        controlled: meta.owners.iter().any(|owner| owner.controller),
        external_remediation: meta.has_annotation(OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION),
    }
}
