//! The words of an explanation of a check of OpenShift.

use std::fmt::Write as _;

use rackhand_api::{
    names::{OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION as MARK, kinds},
    views::{MachineView, OpenShiftHealthCheckView, OwnerRef},
};
use rackhand_core::health::{
    ExternalStep, IntOrPercent, Limit, MarkCarrier, OpenShiftAction, OpenShiftCheck, OpenShiftPlan,
    OpenShiftStrategy, OpenShiftTarget, Verdict, mark_carrier, most_unhealthy,
};

use super::{
    super::{
        health::MachineExplanation,
        health_words::held_up,
        health_words::{self as shared, compared, counted, request_words, rule, startup, written},
    },
    OpenShiftScene,
};
use crate::checks::{Due, MachineSeen};

/// What makes a machine unhealthy, one rule each.
pub(super) fn rules(check: &OpenShiftCheck) -> Vec<String> {
    let node = check.node_conditions.iter().map(|r| rule("Node", r));
    ["phase Failed at once".to_owned()]
        .into_iter()
        .chain(node)
        .chain([startup(check.startup_timeout)])
        .collect()
}

/// Who brings an unhealthy machine back.
pub(super) fn remediation(view: &OpenShiftHealthCheckView, check: &OpenShiftCheck) -> String {
    match (check.strategy, &view.remediation_template) {
        (OpenShiftStrategy::Template, Some(template)) => shared::from_template(template),
        (OpenShiftStrategy::ExternalBaremetal, _) => {
            format!("a power cycle of its host (external-baremetal), asked for by {MARK}")
        }
        _ => "deleting the Machine, which its owner replaces (no template is named)".into(),
    }
}

/// The kind of the requests.
fn kind(scene: &OpenShiftScene) -> &str {
    match &scene.view.remediation_template {
        Some(template) => template.request_kind(),
        None => kinds::POWER_REMEDIATION,
    }
}

pub(super) fn request(scene: &OpenShiftScene, target: &OpenShiftTarget) -> Option<String> {
    request_words(&target.request, kind(scene), &target.machine.name)
}

fn owner(view: &MachineView) -> String {
    let controller = |o: &&OwnerRef| o.controller;
    match view.meta.owners.iter().find(controller) {
        Some(owner) => format!("{} {}", owner.kind, owner.name),
        None => "its owner".into(),
    }
}

/// What is due for a machine.
pub(super) fn due(scene: &OpenShiftScene, seen: &MachineSeen, due: &Due) -> String {
    let name = &seen.view.meta.name;
    match due {
        Due::Plan(OpenShiftAction::DeleteMachine { .. })
        | Due::Mark(ExternalStep::DeleteMachine) => {
            format!("deletes Machine {name}: {} replaces it", owner(&seen.view))
        }
        Due::Plan(action) => self::action(action, kind(scene)),
        Due::Mark(ExternalStep::Request) => {
            match mark_carrier(scene.controllers.clone(), seen.begun) {
                MarkCarrier::Rackhand => format!(
                    "creates {} {name}: its host is power-cycled",
                    kinds::POWER_REMEDIATION
                ),
                MarkCarrier::OpenShift => format!(
                    "leaves the host of Machine {name} to OpenShift's own Machine controller"
                ),
                MarkCarrier::Unknown(why) => format!(
                    "does not begin with the host of Machine {name} before it is known whether \
                     OpenShift's own Machine controller does: {why}"
                ),
            }
        }
        Due::Mark(ExternalStep::Unmark) => {
            format!("takes {MARK} off Machine {name}: its host came back")
        }
        Due::Mark(ExternalStep::Withdraw) => {
            format!(
                "deletes {} {name}: the mark is gone",
                kinds::POWER_REMEDIATION
            )
        }
        Due::Mark(ExternalStep::Blocked) => format!(
            "says on Machine {name} that a person has to look: its host did not come back, and it \
             cannot be replaced"
        ),
        Due::Mark(ExternalStep::Nothing) => "nothing".into(),
    }
}

fn action(action: &OpenShiftAction, kind: &str) -> String {
    match action {
        OpenShiftAction::CreateRequest { machine, .. } => format!("creates {kind} {machine}"),
        OpenShiftAction::DeleteRequest { machine } => {
            format!("deletes {kind} {machine}: the machine is healthy again")
        }
        OpenShiftAction::ReportForeignRequest { machine, owner } => {
            format!("says on Machine {machine} that {kind} {machine} belongs to {owner}")
        }
        OpenShiftAction::MarkExternal { machine } => {
            format!("puts {MARK} on Machine {machine}: its host is to be power-cycled")
        }
        OpenShiftAction::DeleteMachine { machine, .. } => format!("deletes Machine {machine}"),
        OpenShiftAction::SkipNoController { machine } => {
            format!("says on Machine {machine} that it has no controller that would replace it")
        }
    }
}

/// What is done about one machine now, or why nothing is.
pub(super) fn does(
    scene: &OpenShiftScene,
    seen: &MachineSeen,
    verdict: &Verdict,
    due: Option<&Due>,
    open: bool,
) -> String {
    if let Some(due) = due {
        return self::due(scene, seen, due);
    }
    let target = &seen.target;
    if let Some(other) = scene.acted_for.get(&seen.view.meta.name) {
        return format!("nothing: MachineHealthCheck {other} acts for it");
    }
    if let Some(why) = held_up(verdict, &target.request, target.machine.deleting, open) {
        return why.into();
    }
    match verdict {
        Verdict::Unhealthy { .. } if target.machine.external_remediation => {
            match request(scene, target) {
                Some(other) => format!("waits for {other}"),
                None => "nothing more: it is marked".into(),
            }
        }
        _ => "nothing".into(),
    }
}

/// The arithmetic of the limit, as a person would do it.
pub(super) fn limit(
    view: &OpenShiftHealthCheckView,
    check: &OpenShiftCheck,
    planned: &OpenShiftPlan,
    machines: &[MachineExplanation],
) -> String {
    let n = planned.expected.saturating_sub(planned.healthy);
    let mut text = counted(planned.expected, n, machines);
    match (
        check.max_unhealthy,
        most_unhealthy(check.max_unhealthy, planned.expected),
    ) {
        (Some(limit), Some(most)) => {
            let unset = view.max_unhealthy == Ok(None);
            let limit = written(Limit::AtMost(limit), planned.expected, unset);
            let _ = write!(text, " {limit}. ");
            let most = Limit::AtMost(IntOrPercent::Int(most.into()));
            let more = planned.remediations_allowed;
            text.push_str(&compared(most, planned.expected, n, more));
        }
        _ => {
            let why = view.max_unhealthy.as_ref().err();
            let why = why.map_or("spec.maxUnhealthy does not read", String::as_str);
            let _ = write!(text, " {why}: remediation is NOT allowed.");
        }
    }
    text
}

/// What changes between now and the next time at which a verdict changes by itself.
pub(super) fn next(
    machines: &[String],
    now: &OpenShiftPlan,
    later: &OpenShiftPlan,
    scene: &OpenShiftScene,
) -> String {
    let actions: Vec<String> = later
        .actions
        .iter()
        .filter(|a| !now.actions.contains(a))
        .map(|a| action(a, kind(scene)))
        .collect();
    let turned = shared::turned(machines, &now.verdicts, &later.verdicts);
    shared::changes(&turned, (now.open, later.open), &actions)
}
