//! Facts about a check of Cluster API.

use std::collections::BTreeMap;

use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, DRY_RUN_ANNOTATION,
        conditions::{HEALTH_CHECK_SUCCEEDED, REMEDIATION_ALLOWED},
        groups, kinds,
    },
    views::{ClusterView, MachineHealthCheckView, MachineView},
};
use rackhand_core::{
    checks::machines::{
        Check, Claim, ClusterFacts, MachineFacts, MachineRemediation, Target, acting, ready_cluster,
    },
    explanation::{MachineCheckFacts, MachineEntry},
};

use super::{acting_messages, from_template, missing_nodes, not_acting, owner, recorded};
use crate::{
    checks::{Ownership, cluster_facts, rules},
    config::Config,
    serve::explain::{CheckGroup, ExplainError, snapshot::Snapshot},
    store::object::Key,
};

/// Collects the facts of the view.
pub(super) fn facts(
    check: &Key,
    snapshot: &Snapshot,
    config: &Config,
) -> Result<MachineCheckFacts<Check>, ExplainError> {
    let name = format!("MachineHealthCheck {check}");
    let object = snapshot
        .seen
        .get(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK, check)
        .ok_or_else(|| ExplainError::Request(format!("there is no {name}")))?;
    let view = MachineHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!("{name} is not evaluated: cannot parse it: {error}"))
    })?;
    let mut notes = snapshot.notes.clone();
    let cluster_key = Key::new(
        &check.namespace,
        view.cluster_name.clone().unwrap_or_default(),
    );
    let group = CheckGroup::ClusterApi;
    let (ownership, mut not_acting) = not_acting(group, &view.meta, snapshot, config, &mut notes);
    let cluster_facts = cluster(&cluster_key, snapshot, &mut not_acting, &mut notes)?;
    let mut found = snapshot.seen.select(&view, &cluster_key);
    notes.extend(found.unread.iter().map(|why| format!("left out: {why}")));
    if snapshot.from_files {
        let nodes = found.targets.iter_mut().map(|(_, target)| &mut target.node);
        missing_nodes(nodes, snapshot, &mut notes);
    }
    let acted_for = if not_acting.is_empty() {
        acted_for(&view, &cluster_key, snapshot, &ownership, &found.targets)
    } else {
        BTreeMap::new()
    };
    notes.extend(acting_messages(&acted_for));
    let template = view.remediation_template.as_ref();
    Ok(MachineCheckFacts {
        check: name,
        cluster: Some(format!("Cluster {cluster_key}")),
        rules: rules(&view),
        cluster_facts,
        machines: found.targets.into_iter().map(entry).collect(),
        remediation: template.map_or_else(
            || "its owner, which replaces it (no template is named)".into(),
            from_template,
        ),
        remediation_kind: template
            .map_or("remediation", |t| t.remediation_kind())
            .into(),
        limit_is_default: view.max_unhealthy.is_none() && view.unhealthy_range.is_none(),
        limit_error: None,
        recorded: recorded(view.condition(REMEDIATION_ALLOWED)),
        mark_steps: BTreeMap::new(),
        acted_for,
        not_acting,
        notes,
    })
}

fn entry((machine, target): (MachineView, Target)) -> MachineEntry<MachineFacts> {
    let condition = machine.condition(HEALTH_CHECK_SUCCEEDED);
    let status = condition.and_then(|c| match (c.is_true(), c.is_false()) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    });
    MachineEntry {
        node: machine.node_name.clone(),
        owner: owner(&machine),
        deleted: machine.meta.deleted,
        created: target.machine.starting_since,
        health_condition: status.zip(condition.and_then(|c| c.last_transition)),
        target,
    }
}

fn cluster(
    key: &Key,
    snapshot: &Snapshot,
    not_acting: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Result<ClusterFacts, ExplainError> {
    let assumed = ready_cluster();
    let cluster = snapshot.seen.get(groups::CLUSTER_API, kinds::CLUSTER, key);
    let Some(cluster) = cluster else {
        if snapshot.from_files {
            notes.push(format!(
                "Cluster {key} is not in the files: it is assumed to be ready, initialized and not paused"
            ));
        } else {
            not_acting.push(format!("Cluster {key} does not exist"));
        }
        return Ok(assumed);
    };
    let view = ClusterView::from_dynamic(cluster)
        .map_err(|error| ExplainError::Request(error.to_string()))?;
    not_acting.extend(paused(&view, key));
    Ok(ClusterFacts {
        paused: false,
        ..cluster_facts(&view)
    })
}

fn paused(view: &ClusterView, key: &Key) -> Vec<String> {
    let mut why = Vec::new();
    if view.paused {
        why.push(format!("Cluster {key} is paused (spec.paused)"));
    }
    if view.meta.has_annotation(CAPI_PAUSED_ANNOTATION) {
        why.push(format!(
            "Cluster {key} is paused by its annotation {CAPI_PAUSED_ANNOTATION}"
        ));
    }
    why
}

/// The acting check of each Machine.
fn acted_for(
    check: &MachineHealthCheckView,
    cluster: &Key,
    snapshot: &Snapshot,
    ownership: &Ownership,
    fleet: &[(MachineView, Target)],
) -> BTreeMap<String, String> {
    let others = others(check, cluster, snapshot, ownership);
    let mut found = BTreeMap::new();
    for (machine, target) in fleet {
        let mut names = vec![check.meta.name.as_str()];
        let mut claims = vec![claim(check, ownership, &target.remediation)];
        for other in others
            .iter()
            .filter(|o| o.selector.matches(&machine.meta.labels))
        {
            let template = other.remediation_template.as_ref();
            let remediation = template.map_or(MachineRemediation::None, |template| {
                snapshot
                    .seen
                    .remediation(template, machine, &cluster.namespace)
            });
            names.push(other.meta.name.as_str());
            claims.push(claim(other, ownership, &remediation));
        }
        let acts = acting(&claims).and_then(|target| names.get(target));
        if let Some(acts) = acts.filter(|name| **name != check.meta.name) {
            found.insert(machine.meta.name.clone(), (*acts).to_owned());
        }
    }
    found
}

fn claim(
    check: &MachineHealthCheckView,
    ownership: &Ownership,
    remediation: &MachineRemediation,
) -> Claim {
    let meta = &check.meta;
    Claim {
        created: meta.created,
        name: meta.name.clone(),
        able: !ownership.paused(meta) && !meta.is_annotated_true(DRY_RUN_ANNOTATION),
        has_remediation: matches!(
            remediation,
            MachineRemediation::Open | MachineRemediation::Deleting
        ),
    }
}

/// The other checks of the same Cluster that are evaluated.
fn others(
    check: &MachineHealthCheckView,
    cluster: &Key,
    snapshot: &Snapshot,
    ownership: &Ownership,
) -> Vec<MachineHealthCheckView> {
    let objects = snapshot
        .seen
        .of(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK);
    let fits = |other: &MachineHealthCheckView| {
        other.meta.name != check.meta.name
            && other.meta.namespace.as_deref() == Some(&cluster.namespace)
            && other.cluster_name.as_deref() == Some(&cluster.name)
            && ownership.evaluates(&other.meta)
            && !other.meta.is_deleting()
    };
    objects
        .filter_map(|object| MachineHealthCheckView::from_dynamic(object).ok())
        .filter(fits)
        .collect()
}
