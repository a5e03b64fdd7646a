//! For which machines of a check another check acts.
//!
//! Must never choose: `rackhand_core::health::acting` does, as in the evaluation.

use std::collections::BTreeMap;

use rackhand_api::{
    names::{DRY_RUN_ANNOTATION, groups, kinds},
    views::{MachineHealthCheckView, MachineView},
};
use rackhand_core::health::{Claim, RequestView, Target, acting};

use super::{health::under_way, health_scene::Surroundings};
use crate::{
    checks::{Ownership, acting_message},
    object::Key,
};

/// The check that acts, by machine.
pub(super) fn acted_for(
    check: &MachineHealthCheckView,
    cluster: &Key,
    around: &Surroundings,
    mine: &Ownership,
    fleet: &[(MachineView, Target)],
) -> BTreeMap<String, String> {
    let others = others(check, cluster, around, mine);
    let mut found = BTreeMap::new();
    for (machine, target) in fleet {
        let mut names = vec![check.meta.name.as_str()];
        let mut claims = vec![claim(check, mine, &target.request)];
        for other in others
            .iter()
            .filter(|o| o.selector.matches(&machine.meta.labels))
        {
            let template = other.remediation_template.as_ref();
            let request = template.map_or(RequestView::None, |template| {
                around.seen.request(template, machine, &cluster.namespace)
            });
            names.push(other.meta.name.as_str());
            claims.push(claim(other, mine, &request));
        }
        let acts = acting(&claims).and_then(|target| names.get(target));
        if let Some(acts) = acts.filter(|name| **name != check.meta.name) {
            found.insert(machine.meta.name.clone(), (*acts).to_owned());
        }
    }
    found
}

/// What the check itself says of it.
pub(super) fn words(acted_for: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_check: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (machine, check) in acted_for {
        by_check.entry(check).or_default().push(machine);
    }
    let told = by_check
        .iter()
        .map(|(check, machines)| acting_message(check, machines));
    told.collect()
}

fn claim(check: &MachineHealthCheckView, mine: &Ownership, request: &RequestView) -> Claim {
    let meta = &check.meta;
    Claim {
        created: meta.created,
        name: meta.name.clone(),
        able: !mine.paused(meta) && !meta.is_annotated_true(DRY_RUN_ANNOTATION),
        requested: under_way(request),
    }
}

/// The other checks of the same Cluster that are evaluated.
fn others(
    check: &MachineHealthCheckView,
    cluster: &Key,
    around: &Surroundings,
    mine: &Ownership,
) -> Vec<MachineHealthCheckView> {
    let objects = around
        .seen
        .of(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK);
    let fits = |other: &MachineHealthCheckView| {
        other.meta.name != check.meta.name
            && other.meta.namespace.as_deref() == Some(&cluster.namespace)
            && other.cluster_name.as_deref() == Some(&cluster.name)
            && mine.evaluates(&other.meta)
            && !other.meta.is_deleting()
    };
    objects
        .filter_map(|object| MachineHealthCheckView::from_dynamic(object).ok())
        .filter(fits)
        .collect()
}
