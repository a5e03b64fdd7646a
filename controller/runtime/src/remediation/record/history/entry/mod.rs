//! The entry of a remediation in the history of its host. Pure.

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    kinds::host_history::{HostHistorySpec, HostRemediation, HostSharedCause, HostStep},
    names::{CAUSE_ANNOTATION, MADE_BY_ANNOTATION, kinds},
};
use rackhand_core::{overview::TimelineEntry, remediation::State};

use super::super::status::{attempts, evidence};
use crate::{
    history::entry::{shortened, steps},
    store::{clock::to_second, host_evidence::to_api, remediation::RemediationId},
};

/// Readings of the BMC that are kept of the evidence.
const READINGS: usize = 4;

/// What an entry is made from.
pub(super) struct EntryFacts<'a> {
    pub(super) id: &'a RemediationId,
    /// The remediation object, as last seen.
    pub(super) object: &'a DynamicObject,
    pub(super) state: &'a State,
    /// The steps that this process has seen.
    pub(super) timeline: &'a [TimelineEntry],
    /// Why its Node is unhealthy, where no health check has recorded it.
    pub(super) node_cause: Option<String>,
    /// What failed together with its host.
    pub(super) shared_cause: Option<HostSharedCause>,
    /// RemediationOutcome and reason.
    pub(super) outcome: Option<(&'static str, &'static str)>,
    pub(super) now: Timestamp,
}

/// The host of a remediation and its entry; `None` if its host is not known.
pub(super) fn entry(facts: &EntryFacts<'_>) -> Option<(HostHistorySpec, HostRemediation)> {
    let EntryFacts { object, state, .. } = *facts;
    let host = state.host.as_ref()?;
    let metadata = &object.metadata;
    let annotation = |name: &str| {
        let annotations = metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    };
    let created = metadata.creation_timestamp.as_ref().map(|t| t.0);
    let mut attempts = attempts(state);
    for attempt in &mut attempts {
        attempt.message = attempt.message.as_deref().map(shortened);
    }
    let message = state.failure.clone().or_else(|| {
        let failed = state.attempt.end_reason.as_ref();
        failed.map(ToString::to_string)
    });
    // A remediation that ended under an earlier leader ended when it entered its last step.
    let finished = if state.step.is_terminal() {
        state.since
    } else {
        facts.now
    };
    let spec = HostHistorySpec {
        rack: host.rack.clone(),
        host: host.host.clone(),
    };
    let entry = HostRemediation {
        uid: metadata.uid.clone()?,
        kind: facts.id.kind.kind().to_owned(),
        namespace: facts.id.key.namespace.clone(),
        name: facts.id.key.name.clone(),
        cluster: state.cluster.clone(),
        node: state.attempt.node.as_ref().map(|node| node.name.clone()),
        requested_by: annotation(MADE_BY_ANNOTATION)
            .and_then(check_of)
            .or_else(|| owner(object)),
        cause: annotation(CAUSE_ANNOTATION)
            .map(str::to_owned)
            .or_else(|| facts.node_cause.clone())
            .map(|cause| shortened(&cause)),
        shared_cause: facts.shared_cause.clone(),
        created_at: to_second(created.unwrap_or(state.attempt.started)),
        steps: steps(facts.timeline.iter().map(|entry| HostStep {
            at: to_second(entry.at),
            step: entry.step.clone(),
        })),
        attempts,
        power_off: state.attempt.off.as_ref().map(|off| {
            let mut off = evidence(off, state.attempt.outlets.as_deref());
            let surplus = off.readings.len().saturating_sub(READINGS);
            off.readings.drain(..surplus);
            off
        }),
        evidence: state.attempt.evidence.iter().map(|e| to_api(e)).collect(),
        finished_at: facts.outcome.map(|_| to_second(finished)),
        outcome: facts.outcome.map(|(outcome, _)| outcome.to_owned()),
        reason: facts.outcome.map(|(_, reason)| reason.to_owned()),
        message: message.as_deref().map(shortened),
    };
    Some((spec, entry))
}

/// The check that `made-by` names.
fn check_of(made_by: &str) -> Option<String> {
    let (check, _) = made_by.rsplit_once('/')?;
    Some(check.replacen('/', " ", 1))
}

/// The owner that is no Machine: a NodeHealthCheck, or whoever else created the object.
fn owner(object: &DynamicObject) -> Option<String> {
    let owners = object.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.kind != kinds::MACHINE)?;
    Some(format!("{} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests;
