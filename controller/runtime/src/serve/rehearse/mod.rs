//! `rehearse`: replays a recorded history through health checks and power policies in virtual time.
//!
//! Owns the objects as they were at each moment of the history. Must never contact a cluster or an agent; every
//! decision is that of [`rackhand_core::rehearsal`].

mod audit;
mod history;
mod prometheus;
mod recording;
mod timeline;
mod trace;

use std::{collections::BTreeMap, time::Duration};

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{groups, kinds},
    views::{ClusterView, LabelSelector, MachineHealthCheckView, NodeHealthCheckView},
};
use rackhand_core::rehearsal::{
    CheckRules, Difference, Rehearsal, RehearsalReport, RehearsedCheck, compare,
};
use serde::Serialize;

use super::explain::{ExplainError, assumed_cluster, documents};
use crate::{
    checks::{FleetObjects, cluster_facts, nodes, rules},
    store::{
        object::{Key, Kind},
        power_policy::StoredPolicy,
    },
};
use history::History;
use timeline::Timeline;

pub use recording::{RecordError, record};

/// What is rehearsed. Each text has a name, for error messages.
#[derive(Debug, Clone, Default)]
pub struct RehearsalInput {
    /// MachineHealthChecks of Cluster API, Clusters, NodeHealthChecks and PowerPolicies, in YAML.
    pub files: Vec<(String, String)>,
    /// The same for a second rehearsal, with which the first one is compared.
    pub compared: Vec<(String, String)>,
    /// The history: recordings, audit logs, answers of Prometheus, or failure traces.
    pub history: Vec<(String, String)>,
    /// How long each remediation is assumed to take.
    pub takes: Duration,
}

/// The result of one or two rehearsals.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsed {
    /// What would have been done.
    #[serde(flatten)]
    pub report: RehearsalReport,
    /// What the second rehearsal would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<RehearsalReport>,
    /// What the two treat differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// What was assumed or left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Rehearses a history.
///
/// # Errors
/// A text cannot be parsed, the files hold no check, or the history is empty.
pub fn rehearse(input: &RehearsalInput) -> Result<Rehearsed, ExplainError> {
    let history = History::read(&input.history)?;
    let mut notes = history.notes.clone();
    let report = rehearse_with(&input.files, &history, input.takes, &mut notes)?;
    let mut rehearsed = Rehearsed {
        report,
        compared: None,
        differences: Vec::new(),
        notes,
    };
    if !input.compared.is_empty() {
        let notes = &mut rehearsed.notes;
        let other = rehearse_with(&input.compared, &history, input.takes, notes)?;
        rehearsed.differences = compare(&rehearsed.report, &other);
        rehearsed.compared = Some(other);
    }
    rehearsed.notes.sort();
    rehearsed.notes.dedup();
    Ok(rehearsed)
}

fn rehearse_with(
    files: &[(String, String)],
    history: &History,
    takes: Duration,
    notes: &mut Vec<String>,
) -> Result<RehearsalReport, ExplainError> {
    let rules = Rules::read(files, notes)?;
    let checks = rules
        .checks
        .iter()
        .map(|check| check.rules.clone())
        .collect();
    let policies = rules.policies.iter().map(|p| p.policy.clone()).collect();
    let rehearsal = Rehearsal::new(checks, policies, takes, history.start);
    let mut timeline = Timeline::new(&rules, history.has_machines, rehearsal);
    for event in &history.events {
        timeline.apply(event, notes);
    }
    Ok(timeline.finish(history.end))
}

/// The checks and policies of the files.
struct Rules {
    checks: Vec<FileCheck>,
    policies: Vec<StoredPolicy>,
}

/// A check of the files.
struct FileCheck {
    rules: RehearsedCheck,
    selects: CheckSelector,
}

/// What a check selects.
enum CheckSelector {
    /// Machines of a Cluster.
    Machines {
        cluster: Key,
        selector: LabelSelector,
    },
    /// Nodes.
    Nodes(LabelSelector),
}

impl Rules {
    fn read(files: &[(String, String)], notes: &mut Vec<String>) -> Result<Self, ExplainError> {
        let mut seen = FleetObjects::default();
        for (file, text) in files {
            let objects = documents(text);
            seen.objects
                .extend(objects.map_err(|error| ExplainError::File(format!("{file}: {error}")))?);
        }
        let mut checks = Vec::new();
        for object in seen.of(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK) {
            checks.push(machine_check(object, &seen, notes)?);
        }
        for object in seen.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK) {
            let name = object.name_any();
            let view = NodeHealthCheckView::from_dynamic(object)
                .map_err(|error| ExplainError::File(format!("NodeHealthCheck {name}: {error}")))?;
            checks.push(FileCheck {
                rules: RehearsedCheck {
                    name,
                    rules: CheckRules::Nodes(nodes::rules_of(&view, false)),
                },
                selects: CheckSelector::Nodes(view.selector),
            });
        }
        if checks.is_empty() {
            return Err(ExplainError::Request(
                "the files hold no MachineHealthCheck of cluster.x-k8s.io and no NodeHealthCheck of \
                 remediation.medik8s.io; checks of OpenShift cannot be rehearsed"
                    .into(),
            ));
        }
        let policy = Kind::PowerPolicy;
        let mut policies = Vec::new();
        for object in seen.of(policy.group(), policy.kind()) {
            let stored = StoredPolicy::read(object);
            let stored = stored.map_err(|error| ExplainError::File(error.to_string()))?;
            if let Some(why) = &stored.policy.invalid {
                notes.push(format!(
                    "PowerPolicy {} holds what it selects: {why}",
                    object.name_any()
                ));
            }
            policies.push(stored);
        }
        notes.extend(ignored(&seen));
        Ok(Self { checks, policies })
    }
}

fn machine_check(
    object: &DynamicObject,
    seen: &FleetObjects,
    notes: &mut Vec<String>,
) -> Result<FileCheck, ExplainError> {
    let key = Key::of(object);
    let view = MachineHealthCheckView::from_dynamic(object)
        .map_err(|error| ExplainError::File(format!("MachineHealthCheck {key}: {error}")))?;
    let cluster = Key::new(
        &key.namespace,
        view.cluster_name.clone().unwrap_or_default(),
    );
    let found = seen.get(groups::CLUSTER_API, kinds::CLUSTER, &cluster);
    let facts = match found.map(ClusterView::from_dynamic).transpose() {
        Ok(Some(view)) => cluster_facts(&view),
        Ok(None) => {
            notes.push(format!(
                "Cluster {cluster} is not in the files: it is assumed to be ready, initialized and not paused"
            ));
            assumed_cluster()
        }
        Err(error) => return Err(ExplainError::File(format!("Cluster {cluster}: {error}"))),
    };
    Ok(FileCheck {
        rules: RehearsedCheck {
            name: key.to_string(),
            rules: CheckRules::Machines(rules(&view), facts),
        },
        selects: CheckSelector::Machines {
            cluster,
            selector: view.selector,
        },
    })
}

/// A note about the objects that a rehearsal does not use.
fn ignored(seen: &FleetObjects) -> Option<String> {
    let used = [
        kinds::MACHINE_HEALTH_CHECK,
        kinds::NODE_HEALTH_CHECK,
        kinds::CLUSTER,
        Kind::PowerPolicy.kind(),
    ];
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &seen.objects {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        if !used.contains(&kind) {
            *others.entry(kind).or_default() += 1;
        }
    }
    let listed: Vec<String> = others
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    (!listed.is_empty()).then(|| format!("not used from the files: {}", listed.join(", ")))
}

#[cfg(test)]
mod tests;
