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

use kube::ResourceExt;
use rackhand_api::{
    names::{groups, kinds},
    views::{ClusterView, MachineHealthCheckView},
};
use rackhand_core::rehearsal::{Difference, Rehearsal, RehearsalReport, RehearsedCheck, compare};
use serde::Serialize;

use super::explain::{ExplainError, assumed_cluster, documents};
use crate::{
    checks::{FleetObjects, cluster_facts, rules},
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
    /// MachineHealthChecks of Cluster API, Clusters and PowerPolicies, in YAML.
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
    let rehearsed = Rules::read(files, notes)?;
    let checks = rehearsed.checks.iter().map(|(view, cluster, facts)| {
        notes.extend(facts.is_none().then(|| {
            format!(
                "Cluster {cluster} is not in the files: it is assumed to be ready, initialized and not paused"
            )
        }));
        RehearsedCheck {
            name: Key::new(view.meta.namespace.clone().unwrap_or_default(), &view.meta.name)
                .to_string(),
            rules: rules(view),
            cluster: facts.clone().unwrap_or_else(assumed_cluster),
        }
    });
    let checks: Vec<RehearsedCheck> = checks.collect();
    let policies = rehearsed
        .policies
        .iter()
        .map(|p| p.policy.clone())
        .collect();
    let rehearsal = Rehearsal::new(checks, policies, takes, history.start);
    let mut timeline = Timeline::new(&rehearsed, history.has_machines, rehearsal);
    for event in &history.events {
        timeline.apply(event, notes);
    }
    Ok(timeline.finish(history.end))
}

/// The checks and policies of the files.
struct Rules {
    /// Each with its Cluster, and the facts of that if it is in the files.
    checks: Vec<(
        MachineHealthCheckView,
        Key,
        Option<rackhand_core::health::ClusterFacts>,
    )>,
    policies: Vec<StoredPolicy>,
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
            let view = MachineHealthCheckView::from_dynamic(object).map_err(|error| {
                ExplainError::File(format!("MachineHealthCheck {}: {error}", Key::of(object)))
            })?;
            let cluster = Key::new(
                Key::of(object).namespace,
                view.cluster_name.clone().unwrap_or_default(),
            );
            let found = seen.get(groups::CLUSTER_API, kinds::CLUSTER, &cluster);
            let facts = match found.map(ClusterView::from_dynamic).transpose() {
                Ok(view) => view.map(|view| cluster_facts(&view)),
                Err(error) => {
                    return Err(ExplainError::File(format!("Cluster {cluster}: {error}")));
                }
            };
            checks.push((view, cluster, facts));
        }
        if checks.is_empty() {
            return Err(ExplainError::Request(
                "the files hold no MachineHealthCheck of cluster.x-k8s.io; checks of OpenShift and \
                 medik8s cannot be rehearsed"
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

/// A note about the objects that a rehearsal does not use.
fn ignored(seen: &FleetObjects) -> Option<String> {
    let used = [
        kinds::MACHINE_HEALTH_CHECK,
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
