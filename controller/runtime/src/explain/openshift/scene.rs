//! From objects to what a plan of a check of OpenShift looks at.
//!
//! Uses the functions that the evaluation uses. What is not there to look at is assumed, and said.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{
        DRY_RUN_ANNOTATION, OPENSHIFT_MACHINE_API_NAMESPACE, OPENSHIFT_MACHINE_CONTROLLERS, kinds,
    },
    views::OpenShiftHealthCheckView,
};
use rackhand_core::health::{Claim, acting};

use super::{
    super::{
        ExplainError,
        group::CheckGroup,
        health_overlap,
        health_scene::{Surroundings, missing_nodes, standing},
    },
    OpenShiftScene,
};
use crate::{
    checks::{OpenShiftFleet, Ownership, openshift_rules},
    config::Config,
    object::Key,
};

const GROUP: CheckGroup = CheckGroup::OpenShift;

/// Puts together what a plan looks at.
pub(in super::super) fn scene(
    check: &Key,
    around: &Surroundings,
    config: &Config,
) -> Result<OpenShiftScene, ExplainError> {
    let name = format!("MachineHealthCheck {check} of {}", GROUP.name());
    let object = around
        .seen
        .get(GROUP.name(), kinds::MACHINE_HEALTH_CHECK, check)
        .ok_or_else(|| ExplainError::Request(format!("there is no {name}")))?;
    let view = OpenShiftHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!(
            "{name} is not evaluated, since it does not read: {error}"
        ))
    })?;
    let mut notes = around.notes.clone();
    let (mine, not_acting) = standing(GROUP, &view.meta, around, config, &mut notes);
    let mut fleet = around.seen.select_openshift(&view, &check.namespace);
    notes.extend(fleet.unread.iter().map(|why| format!("left out: {why}")));
    if around.from_files {
        let nodes = fleet.machines.iter_mut().map(|m| &mut m.target.node);
        missing_nodes(nodes, around, &mut notes);
    }
    let acted_for = if not_acting.is_empty() {
        acted_for(&view, check, around, &mine, &fleet)
    } else {
        BTreeMap::new()
    };
    notes.extend(health_overlap::words(&acted_for));
    Ok(OpenShiftScene {
        check: check.clone(),
        rules: openshift_rules(&view),
        view,
        fleet,
        acted_for,
        controllers: controllers(around),
        not_acting,
        notes,
    })
}

/// Whether OpenShift's own Machine controllers run.
fn controllers(around: &Surroundings) -> Result<bool, String> {
    if let Some(known) = &around.controllers {
        return known.clone();
    }
    let named = |object: &&DynamicObject| {
        object.name_any() == OPENSHIFT_MACHINE_CONTROLLERS
            && object.namespace().as_deref() == Some(OPENSHIFT_MACHINE_API_NAMESPACE)
    };
    match around.seen.of("apps", "Deployment").find(named) {
        Some(_) => Ok(true),
        None => Err(format!(
            "the files hold no Deployment {OPENSHIFT_MACHINE_API_NAMESPACE}/\
             {OPENSHIFT_MACHINE_CONTROLLERS}, which a cluster may have or not"
        )),
    }
}

/// The check that acts, by machine.
fn acted_for(
    check: &OpenShiftHealthCheckView,
    key: &Key,
    around: &Surroundings,
    mine: &Ownership,
    fleet: &OpenShiftFleet,
) -> BTreeMap<String, String> {
    let others = others(key, around, mine);
    let mut found = BTreeMap::new();
    for machine in &fleet.machines {
        let claim = |check: &OpenShiftHealthCheckView| -> Claim {
            let dry_run = check.meta.is_annotated_true(DRY_RUN_ANNOTATION);
            let seen = &around.seen;
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
fn others(key: &Key, around: &Surroundings, mine: &Ownership) -> Vec<OpenShiftHealthCheckView> {
    let objects = around.seen.of(GROUP.name(), kinds::MACHINE_HEALTH_CHECK);
    let other = |object: &&DynamicObject| {
        let other = Key::of(object);
        other.namespace == key.namespace && other.name != key.name
    };
    let fits = |view: &OpenShiftHealthCheckView| {
        let meta = &view.meta;
        mine.evaluates(meta) && !meta.is_deleting() && !mine.paused(meta)
    };
    objects
        .filter(other)
        .filter_map(|object| OpenShiftHealthCheckView::from_dynamic(object).ok())
        .filter(fits)
        .collect()
}
