//! Facts about a check of OpenShift.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{
        DRY_RUN_ANNOTATION, OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION,
        OPENSHIFT_MACHINE_API_NAMESPACE, OPENSHIFT_MACHINE_CONTROLLERS,
        conditions::REMEDIATION_ALLOWED, kinds,
    },
    views::OpenShiftHealthCheckView,
};
use rackhand_core::{
    checks::machines::{
        Claim, OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy, acting, judge, mark_carrier,
        ready_cluster,
    },
    explanation::{MachineCheckFacts, MachineEntry, MarkStep},
};

use super::{acting_messages, from_template, missing_nodes, not_acting, owner, recorded};
use crate::{
    checks::{MachineSeen, OpenShiftFleet, Ownership, openshift_rules},
    config::Config,
    serve::explain::{CheckGroup, ExplainError, snapshot::Snapshot},
    store::object::Key,
};

const GROUP: CheckGroup = CheckGroup::OpenShift;

/// Collects the facts of the view.
pub(super) fn facts(
    check: &Key,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<MachineCheckFacts<OpenShiftCheck>, ExplainError> {
    let name = format!("MachineHealthCheck {check} of {}", GROUP.name());
    let object = snapshot
        .seen
        .get(GROUP.name(), kinds::MACHINE_HEALTH_CHECK, check)
        .ok_or_else(|| ExplainError::Request(format!("there is no {name}")))?;
    let view = OpenShiftHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!("{name} is not evaluated: cannot parse it: {error}"))
    })?;
    let mut notes = snapshot.notes.clone();
    let (ownership, not_acting) = not_acting(GROUP, &view.meta, snapshot, config, &mut notes);
    let mut fleet = snapshot.seen.select_openshift(&view, &check.namespace);
    notes.extend(fleet.unread.iter().map(|why| format!("left out: {why}")));
    if snapshot.from_files {
        let nodes = fleet.machines.iter_mut().map(|m| &mut m.target.node);
        missing_nodes(nodes, snapshot, &mut notes);
    }
    let acted_for = if not_acting.is_empty() {
        acted_for(&view, check, snapshot, &ownership, &fleet)
    } else {
        BTreeMap::new()
    };
    notes.extend(acting_messages(&acted_for));
    let rules = openshift_rules(&view);
    let template = view.remediation_template.as_ref();
    Ok(MachineCheckFacts {
        check: format!("MachineHealthCheck.machine.openshift.io {check}"),
        cluster: None,
        cluster_facts: ready_cluster(),
        mark_steps: mark_steps(&rules, &fleet, &controllers(snapshot), now),
        machines: fleet.machines.into_iter().map(entry).collect(),
        remediation: match (rules.strategy, template) {
            (OpenShiftStrategy::Template, Some(template)) => from_template(template),
            (OpenShiftStrategy::ExternalBaremetal, _) => format!(
                "a power cycle of its host (external-baremetal), requested by \
                 {OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION}"
            ),
            _ => "deleting the Machine, which its owner replaces (no template is named)".into(),
        },
        rules,
        remediation_kind: template
            .map_or(kinds::POWER_REMEDIATION, |t| t.remediation_kind())
            .into(),
        limit_is_default: view.max_unhealthy == Ok(None),
        limit_error: view.max_unhealthy.clone().err(),
        recorded: recorded(view.condition(REMEDIATION_ALLOWED)),
        acted_for,
        not_acting,
        notes,
    })
}

fn entry(machine: MachineSeen) -> MachineEntry<OpenShiftMachine> {
    let MachineSeen { view, target, .. } = machine;
    MachineEntry {
        owner: owner(&view),
        deleted: view.meta.deleted,
        node: view.node_name,
        created: None,
        health_condition: None,
        target,
    }
}

/// The due steps of external remediations, by Machine.
fn mark_steps(
    rules: &OpenShiftCheck,
    fleet: &OpenShiftFleet,
    controllers: &Result<bool, String>,
    now: Timestamp,
) -> BTreeMap<String, String> {
    if rules.strategy != OpenShiftStrategy::ExternalBaremetal {
        return BTreeMap::new();
    }
    let step = |seen: &MachineSeen| {
        let (machine, node) = (&seen.target.machine, &seen.target.node);
        let (facts, cluster) = (&machine.facts, ready_cluster());
        let verdict = judge(&rules.common, &cluster, facts, node, now).verdict;
        let message = MarkStep {
            machine: &facts.name,
            owner: owner(&seen.view).as_deref(),
            step: seen.mark_step(&verdict),
            carrier: mark_carrier(controllers.clone(), seen.begun),
        }
        .message()?;
        Some((facts.name.clone(), message))
    };
    fleet.machines.iter().filter_map(step).collect()
}

/// Whether OpenShift's own Machine controllers run.
fn controllers(snapshot: &Snapshot) -> Result<bool, String> {
    if let Some(known) = &snapshot.controllers {
        return known.clone();
    }
    let named = |object: &&DynamicObject| {
        object.name_any() == OPENSHIFT_MACHINE_CONTROLLERS
            && object.namespace().as_deref() == Some(OPENSHIFT_MACHINE_API_NAMESPACE)
    };
    match snapshot.seen.of("apps", "Deployment").find(named) {
        Some(_) => Ok(true),
        None => Err(format!(
            "the files hold no Deployment {OPENSHIFT_MACHINE_API_NAMESPACE}/\
             {OPENSHIFT_MACHINE_CONTROLLERS}, which a cluster may have or not"
        )),
    }
}

/// The acting check of each Machine.
fn acted_for(
    check: &OpenShiftHealthCheckView,
    key: &Key,
    snapshot: &Snapshot,
    ownership: &Ownership,
    fleet: &OpenShiftFleet,
) -> BTreeMap<String, String> {
    let others = others(key, snapshot, ownership);
    let mut found = BTreeMap::new();
    for machine in &fleet.machines {
        let claim = |check: &OpenShiftHealthCheckView| -> Claim {
            let dry_run = check.meta.is_annotated_true(DRY_RUN_ANNOTATION);
            let seen = &snapshot.seen;
            seen.claim_of_openshift(check, dry_run, &machine.view, &key.namespace)
        };
        let selects = |o: &&OpenShiftHealthCheckView| o.selector.matches(&machine.view.meta.labels);
        let claims: Vec<Claim> = [check]
            .into_iter()
            .chain(others.iter().filter(selects))
            .map(claim)
            .collect();
        let acts = acting(&claims).and_then(|target| claims.get(target));
        if let Some(acts) = acts.filter(|claim| claim.name != check.meta.name) {
            found.insert(machine.view.meta.name.clone(), acts.name.clone());
        }
    }
    found
}

/// The other checks of the namespace that are evaluated.
fn others(key: &Key, snapshot: &Snapshot, ownership: &Ownership) -> Vec<OpenShiftHealthCheckView> {
    let objects = snapshot.seen.of(GROUP.name(), kinds::MACHINE_HEALTH_CHECK);
    let other = |object: &&DynamicObject| {
        let other = Key::of(object);
        other.namespace == key.namespace && other.name != key.name
    };
    let fits = |view: &OpenShiftHealthCheckView| {
        let meta = &view.meta;
        ownership.evaluates(meta) && !meta.is_deleting() && !ownership.paused(meta)
    };
    objects
        .filter(other)
        .filter_map(|object| OpenShiftHealthCheckView::from_dynamic(object).ok())
        .filter(fits)
        .collect()
}
