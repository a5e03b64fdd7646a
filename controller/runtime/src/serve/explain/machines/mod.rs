//! The view of a check of Machines, from a snapshot.

mod cluster_api;
mod openshift;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rackhand_api::{
    names::{CAPI_PAUSED_ANNOTATION, EVALUATE_ANNOTATION, PAUSED_ANNOTATION, WATCH_FILTER_LABEL},
    views::{Condition, MachineView, Meta, OwnerRef, TemplateRef},
};
use rackhand_core::{
    checks::machines::NodeView,
    explanation::{CheckView, RecordedCondition, explain_machines},
};

use super::{
    ExplainError,
    group::CheckGroup,
    ownership::{CrdOwnership, deleted, dry_run},
    snapshot::Snapshot,
};
use crate::{
    checks::{Ownership, acting_message, passes},
    config::Config,
    store::object::Key,
};

/// Explains a check of the snapshot.
pub(super) fn view(
    group: CheckGroup,
    check: &Key,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    Ok(match group {
        CheckGroup::ClusterApi => {
            explain_machines(&cluster_api::facts(check, snapshot, config)?, now)
        }
        CheckGroup::OpenShift => {
            explain_machines(&openshift::facts(check, snapshot, config, now)?, now)
        }
    })
}

/// Why Rackhand does not act on a check, by the check and its CRD.
pub(super) fn not_acting(
    group: CheckGroup,
    meta: &Meta,
    snapshot: &Snapshot,
    config: &Config,
    notes: &mut Vec<String>,
) -> (Ownership, Vec<String>) {
    let mode = config.health_checks;
    let crd = CrdOwnership::find(group.crd(), snapshot.seen.objects.iter());
    notes.extend(crd.assumed(mode, meta));
    let ownership = Ownership::knowing(mode, crd.is_ours());
    let mut why: Vec<String> = crd.not_evaluated(mode, meta).into_iter().collect();
    if let Some(filter) = config.watch_filter.as_deref()
        && !passes(Some(filter), meta)
    {
        why.push(format!(
            "the check does not carry the label {WATCH_FILTER_LABEL}={filter} (--watch-filter)"
        ));
    }
    if let Some(only) = config
        .namespace
        .as_deref()
        .filter(|only| Some(*only) != meta.namespace.as_deref())
    {
        why.push(format!(
            "Rackhand watches only namespace {only} (--namespace)"
        ));
    }
    why.extend(deleted(meta));
    if ownership.paused(meta) {
        for annotation in [PAUSED_ANNOTATION, CAPI_PAUSED_ANNOTATION] {
            if meta.has_annotation(annotation) {
                why.push(format!(
                    "the check is paused by its annotation {annotation}"
                ));
            }
        }
    }
    why.extend(dry_run(meta));
    let fights = meta.is_annotated_true(EVALUATE_ANNOTATION)
        && crd.ours == Some(false)
        && !meta.has_annotation(CAPI_PAUSED_ANNOTATION);
    if fights && why.is_empty() {
        notes.push(format!(
            "{}'s own controller acts on this check too: give it the annotation \
             {CAPI_PAUSED_ANNOTATION}, which keeps that one off and not Rackhand",
            group.project()
        ));
    }
    (ownership, why)
}

/// A Node that is not in the files is unknown, not gone.
pub(super) fn missing_nodes<'a>(
    nodes: impl Iterator<Item = &'a mut NodeView>,
    snapshot: &Snapshot,
    notes: &mut Vec<String>,
) {
    let mut missing = 0;
    for node in nodes {
        if let NodeView::Missing { name } = node {
            missing += 1;
            *node = NodeView::Unreachable {
                why: format!("Node {name} is not in the files"),
                joined: true,
            };
        }
    }
    if missing > 0 && snapshot.seen.nodes.is_empty() {
        notes.push(
            "the files hold no Node: add `kubectl get nodes -o yaml` of the workload cluster"
                .into(),
        );
    } else if missing > 0 {
        notes.push(format!(
            "{missing} of the Machines name a Node that is not in the files; in a cluster such a Node \
             is gone, which makes its Machine unhealthy at once"
        ));
    }
}

/// Lists the existing checks, for an error message.
pub(super) fn existing(found: &[(CheckGroup, Key)]) -> String {
    if found.is_empty() {
        return "there are none".into();
    }
    let several = CheckGroup::ALL
        .iter()
        .all(|group| found.iter().any(|(of, _)| of == group));
    let names: Vec<String> = found
        .iter()
        .map(
            |(group, key)| match *group == CheckGroup::ClusterApi && !several {
                true => key.to_string(),
                false => format!("{key} of {}", group.name()),
            },
        )
        .collect();
    format!("there are: {}", names.join(", "))
}

/// The error that both groups have a check of this name.
pub(super) fn ambiguous(key: &Key) -> ExplainError {
    let [one, other] = CheckGroup::ALL.map(CheckGroup::name);
    ExplainError::Request(format!(
        "there is a MachineHealthCheck {key} of {one} and one of {other}; say which by --group={one} \
         or --group={other}"
    ))
}

/// How a template remediates.
fn from_template(template: &TemplateRef) -> String {
    format!(
        "a {} from {} {} ({})",
        template.remediation_kind(),
        template.kind,
        template.name,
        template.api_version
    )
}

/// Kind and name of the owner that replaces a Machine.
fn owner(machine: &MachineView) -> Option<String> {
    let controller = |o: &&OwnerRef| o.controller;
    let owner = machine.meta.owners.iter().find(controller)?;
    Some(format!("{} {}", owner.kind, owner.name))
}

fn recorded(condition: Option<&Condition>) -> Option<RecordedCondition> {
    condition.map(|c| RecordedCondition {
        type_: c.condition_type.clone(),
        status: c.status.clone(),
        reason: c.reason.clone().unwrap_or_default(),
        message: c.message.clone().unwrap_or_default(),
    })
}

/// The messages of the checks that act in place of this one.
fn acting_messages(acted_for: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_check: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (machine, check) in acted_for {
        by_check.entry(check).or_default().push(machine);
    }
    let messages = by_check
        .iter()
        .map(|(check, machines)| acting_message(check, machines));
    messages.collect()
}
