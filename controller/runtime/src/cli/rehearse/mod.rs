//! `rehearse`: replays a recorded history through health checks and power policies in virtual time.
//!
//! Owns the objects as they were at each moment of the history. Must never contact a cluster or an agent; every
//! decision is that of [`rackhand_core::rehearsal`].

mod audit;
mod history;
mod prometheus;
mod recording;
mod rules;
mod timeline;
mod trace;

use std::time::Duration;

use rackhand_core::{
    limits::power_policy::PowerPolicy,
    rehearsal::{Difference, Rehearsal, RehearsalReport, compare},
};
use serde::Serialize;

use crate::serve::explain::ExplainError;
use history::History;
use rules::{CheckSelector, Rules};
use timeline::Timeline;

pub use recording::{RecordError, record};

/// The inputs of a rehearsal. Each text has a name, for error messages.
#[derive(Debug, Clone, Default)]
pub struct RehearsalInput {
    /// MachineHealthChecks of Cluster API and OpenShift, Clusters, NodeHealthChecks, PowerPolicies, and earlier
    /// HostHistories, in YAML.
    pub files: Vec<(String, String)>,
    /// The same for a second rehearsal, with which the first one is compared.
    pub compared: Vec<(String, String)>,
    /// The history: recordings, audit logs, answers of Prometheus, or failure traces.
    pub history: Vec<(String, String)>,
    /// How long each remediation is assumed to take.
    pub takes: Duration,
    /// Updates of firmware that are assumed.
    pub updates: Vec<AssumedUpdate>,
}

/// An update of firmware that is assumed, because a history contains none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssumedUpdate {
    /// Name of the Node of its host.
    pub node: String,
    /// When it begins.
    pub from: jiff::Timestamp,
    /// When it ends; `None`: it hangs.
    pub to: Option<jiff::Timestamp>,
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
    /// The differences between the two rehearsals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Assumptions and omissions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Rehearses a history.
///
/// # Errors
/// A text cannot be parsed, the files hold no check, or the history is empty.
pub fn rehearse(input: &RehearsalInput) -> Result<Rehearsed, ExplainError> {
    let history = History::read(&input.history)?;
    let mut notes = Vec::new();
    let report = rehearse_with(&input.files, &history, input, &mut notes)?;
    let mut rehearsed = Rehearsed {
        report,
        compared: None,
        differences: Vec::new(),
        notes,
    };
    if !input.compared.is_empty() {
        let notes = &mut rehearsed.notes;
        let other = rehearse_with(&input.compared, &history, input, notes)?;
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
    input: &RehearsalInput,
    notes: &mut Vec<String>,
) -> Result<RehearsalReport, ExplainError> {
    let rules = Rules::read(files, notes)?;
    notes.extend(missing_machines(&rules, history));
    let checks = rules
        .checks
        .iter()
        .map(|check| check.rules.clone())
        .collect();
    let policies: Vec<PowerPolicy> = rules.policies.iter().map(|p| p.policy.clone()).collect();
    notes.extend(missing_updates(&policies, &input.updates));
    let mut rehearsal = Rehearsal::new(checks, policies, input.takes, history.start);
    for update in &input.updates {
        rehearsal.assume_update(&update.node, update.from, update.to);
    }
    rules.remember(&mut rehearsal, history.start);
    let mut timeline = Timeline::new(&rules, history, rehearsal);
    for event in &history.events {
        timeline.apply(event, notes);
    }
    Ok(timeline.finish(history.end))
}

/// Notes about policies whose rules about updates of firmware have nothing to apply to.
fn missing_updates(policies: &[PowerPolicy], updates: &[AssumedUpdate]) -> Vec<String> {
    let with_rules = policies
        .iter()
        .filter(|policy| policy.firmware_update.is_some());
    let with_rules = with_rules.filter(|_| updates.is_empty());
    let note = |policy: &PowerPolicy| {
        format!(
            "PowerPolicy {}: a history contains no updates of firmware, so spec.firmwareUpdate holds nothing; \
             --assume-update says when one runs",
            policy.name
        )
    };
    with_rules.map(note).collect()
}

/// Notes about checks of Machines that the history does not contain.
fn missing_machines(rules: &Rules, history: &History) -> Vec<String> {
    let lacks = |check: &rules::FileCheck| match &check.selects {
        CheckSelector::Machines { .. } => !history.has_machines,
        CheckSelector::OpenShift { .. } => !history.has_openshift_machines,
        CheckSelector::Nodes(_) => false,
    };
    let lacking = rules.checks.iter().filter(|check| lacks(check));
    let note = |check: &rules::FileCheck| {
        format!(
            "the history contains no Machines for {}: each Node counts as a Machine that the check selects",
            check.rules.name
        )
    };
    lacking.map(note).collect()
}

#[cfg(test)]
mod tests;
