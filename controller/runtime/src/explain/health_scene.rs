//! From objects to what a plan looks at, and who acts on the check.
//!
//! Uses the functions that the evaluation uses. What is not there to look at is assumed, and said.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, EVALUATE_ANNOTATION, PAUSED_ANNOTATION, WATCH_FILTER_LABEL, groups,
        kinds,
    },
    views::{ClusterView, MachineHealthCheckView, Meta},
};
use rackhand_core::health::{ClusterFacts, NodeView};

use super::{
    ExplainError,
    group::CheckGroup,
    health::{CheckExplanation, CheckScene, explain_check},
    health_overlap::{self, acted_for},
    openshift,
    whose::{Whose, deleted, dry_run},
};
use crate::{
    checks::{Ownership, Seen, cluster_facts, passes, rules},
    config::Config,
    object::Key,
};

/// What there is to look at.
#[derive(Default)]
pub(super) struct Surroundings {
    /// The objects come from files, where any of them may be left out.
    pub(super) from_files: bool,
    pub(super) seen: Seen,
    /// Whether OpenShift's own Machine controllers run, or why that is not known.
    pub(super) controllers: Option<Result<bool, String>>,
    /// What else is to be said.
    pub(super) notes: Vec<String>,
}

/// Puts together what a plan looks at.
fn scene(check: &Key, around: &Surroundings, config: &Config) -> Result<CheckScene, ExplainError> {
    let name = format!("MachineHealthCheck {check}");
    let object = around
        .seen
        .get(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK, check)
        .ok_or_else(|| ExplainError::Request(format!("there is no {name}")))?;
    let view = MachineHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!(
            "{name} is not evaluated, since it does not read: {error}"
        ))
    })?;
    let mut notes = around.notes.clone();
    let cluster = Key::new(
        &check.namespace,
        view.cluster_name.clone().unwrap_or_default(),
    );
    let group = CheckGroup::ClusterApi;
    let (mine, mut not_acting) = standing(group, &view.meta, around, config, &mut notes);
    let facts = facts(&cluster, around, &mut not_acting, &mut notes)?;
    let mut found = around.seen.select(&view, &cluster);
    notes.extend(found.unread.iter().map(|why| format!("left out: {why}")));
    if around.from_files {
        let nodes = found.targets.iter_mut().map(|(_, target)| &mut target.node);
        missing_nodes(nodes, around, &mut notes);
    }
    let acted_for = if not_acting.is_empty() {
        acted_for(&view, &cluster, around, &mine, &found.targets)
    } else {
        BTreeMap::new()
    };
    notes.extend(health_overlap::words(&acted_for));
    Ok(CheckScene {
        acted_for,
        check: check.clone(),
        cluster,
        rules: rules(&view),
        view,
        facts,
        fleet: found.targets,
        not_acting,
        notes,
    })
}

/// Why Rackhand does not act on a check, by what the check and its CRD say.
pub(super) fn standing(
    group: CheckGroup,
    meta: &Meta,
    around: &Surroundings,
    config: &Config,
    notes: &mut Vec<String>,
) -> (Ownership, Vec<String>) {
    let mode = config.health_checks;
    let whose = Whose::look(group.crd(), around.seen.objects.iter());
    notes.extend(whose.assumed(mode, meta));
    let mine = Ownership::knowing(mode, whose.is_ours());
    let mut why: Vec<String> = whose.not_evaluated(mode, meta).into_iter().collect();
    if let Some(filter) = config.watch_filter.as_deref()
        && group == CheckGroup::ClusterApi
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
            "Rackhand looks at namespace {only} only (--namespace)"
        ));
    }
    why.extend(deleted(meta));
    if mine.paused(meta) {
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
        && whose.ours == Some(false)
        && !meta.has_annotation(CAPI_PAUSED_ANNOTATION);
    if fights && why.is_empty() {
        notes.push(format!(
            "{}'s own controller acts on this check too: give it the annotation \
             {CAPI_PAUSED_ANNOTATION}, which keeps that one off and not Rackhand",
            group.project()
        ));
    }
    (mine, why)
}

fn facts(
    key: &Key,
    around: &Surroundings,
    not_acting: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Result<ClusterFacts, ExplainError> {
    let assumed = ClusterFacts {
        paused: false,
        infrastructure_ready: Some(Timestamp::MIN),
        control_plane_initialized: Some(Timestamp::MIN),
    };
    let cluster = around.seen.get(groups::CLUSTER_API, kinds::CLUSTER, key);
    let Some(cluster) = cluster else {
        if around.from_files {
            notes.push(format!(
                "Cluster {key} is not in the files: it is taken for ready, initialized and not paused"
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

/// A Node that a file does not hold is one of which nothing is known, not one that is gone.
pub(super) fn missing_nodes<'a>(
    nodes: impl Iterator<Item = &'a mut NodeView>,
    around: &Surroundings,
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
    if missing > 0 && around.seen.nodes.is_empty() {
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

/// What the checks that are there are called, for somebody who named none of them.
pub(super) fn which(found: &[(CheckGroup, Key)]) -> String {
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

/// That a name alone does not say which check is meant.
pub(super) fn several(key: &Key) -> ExplainError {
    let [one, other] = CheckGroup::ALL.map(CheckGroup::name);
    ExplainError::Request(format!(
        "there is a MachineHealthCheck {key} of {one} and one of {other}; say which by --group={one} \
         or --group={other}"
    ))
}

/// Puts together what there is and explains it.
pub(super) fn explain_in(
    group: CheckGroup,
    check: &Key,
    around: &Surroundings,
    config: &Config,
    now: Timestamp,
) -> Result<CheckExplanation, ExplainError> {
    Ok(match group {
        CheckGroup::ClusterApi => explain_check(&scene(check, around, config)?, now),
        CheckGroup::OpenShift => openshift::explain(&openshift::scene(check, around, config)?, now),
    })
}
