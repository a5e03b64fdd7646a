//! How the entry of a remediation is merged into the history of its host.
//!
//! Pure. To merge an entry again changes nothing, so it may be written again after a crash.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rackhand_api::{
    kinds::{
        host_evidence::HostEvidence,
        host_history::{
            EVIDENCE, HostHistoryStatus, HostRemediation, HostStep, REMEDIATIONS, STEPS, TEXT,
        },
        power_record::Attempt,
    },
    names::is_name_part,
};
use sha2::{Digest, Sha256};

use super::shared_cause::merged_cause;
use crate::store::{
    object::{Key, Kind},
    remediation::RemediationId,
};

/// Characters that a name of an object may have.
const NAME: usize = 253;

/// The outcome of a remediation that is gone and whose end nobody recorded.
const UNRECORDED: &str = "unrecorded";

pub(crate) fn shortened(text: &str) -> String {
    if text.chars().count() <= TEXT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(TEXT - 3).collect();
    format!("{kept}...")
}

/// The steps in the order of their times, the latest ones if there are too many.
pub(crate) fn steps(all: impl IntoIterator<Item = HostStep>) -> Vec<HostStep> {
    let all: BTreeSet<HostStep> = all.into_iter().collect();
    let surplus = all.len().saturating_sub(STEPS);
    all.into_iter().skip(surplus).collect()
}

/// Whether a remediation has begun to act on its host, or has finished.
pub(crate) fn is_worth_recording(entry: &HostRemediation) -> bool {
    entry.outcome.is_some() || !entry.attempts.is_empty()
}

/// Merges what is newly known of a remediation into the history of its host.
pub(crate) fn merge(status: &HostHistoryStatus, entry: &HostRemediation) -> HostHistoryStatus {
    let mut merged = status.clone();
    if let Some(known) = merged.remediations.iter_mut().find(|r| r.uid == entry.uid) {
        *known = update(known, entry);
        return merged;
    }
    let oldest = merged.remediations.last();
    let full = merged.remediations.len() >= REMEDIATIONS;
    if full && oldest.is_some_and(|oldest| entry.created_at <= oldest.created_at) {
        // It was listed and counted before.
        return merged;
    }
    merged.total = merged.total.saturating_add(1);
    merged.remediations.push(entry.clone());
    merged
        .remediations
        .sort_by(|a, b| (b.created_at, &b.uid).cmp(&(a.created_at, &a.uid)));
    merged.remediations.truncate(REMEDIATIONS);
    merged
}

/// What is known of one remediation from both: the new entry counts, except that an outcome, a cause and
/// what only the known entry has are kept.
pub(crate) fn update(known: &HostRemediation, new: &HostRemediation) -> HostRemediation {
    let both = known.steps.iter().chain(&new.steps).cloned();
    // The controller that carries it out knows better than one that found it gone.
    let is_open = known.outcome.as_deref().is_none_or(|o| o == UNRECORDED);
    let end = if is_open && new.outcome.is_some() {
        new
    } else {
        known
    };
    let or = |new: &Option<String>, known: &Option<String>| new.clone().or_else(|| known.clone());
    HostRemediation {
        cluster: or(&new.cluster, &known.cluster),
        node: or(&new.node, &known.node),
        requested_by: or(&known.requested_by, &new.requested_by),
        cause: or(&known.cause, &new.cause),
        shared_cause: match (&known.shared_cause, &new.shared_cause) {
            (known, Some(new)) => Some(merged_cause(known.as_ref(), new.clone())),
            (known, None) => known.clone(),
        },
        steps: steps(both),
        attempts: merged_attempts(&known.attempts, &new.attempts),
        power_off: new.power_off.clone().or_else(|| known.power_off.clone()),
        evidence: merged_evidence(&known.evidence, &new.evidence),
        finished_at: end.finished_at,
        outcome: end.outcome.clone(),
        reason: end.reason.clone(),
        message: if is_open {
            new.message.clone()
        } else {
            known.message.clone()
        },
        ..known.clone()
    }
}

/// That of the first and of the latest attempt.
fn merged_evidence(known: &[HostEvidence], new: &[HostEvidence]) -> Vec<HostEvidence> {
    let only_known = known.iter().filter(|evidence| {
        let attempt = evidence.attempt;
        new.iter().all(|other| other.attempt != attempt)
    });
    let mut all: Vec<HostEvidence> = only_known.chain(new).cloned().collect();
    all.sort_by_key(|evidence| evidence.attempt);
    while all.len() > EVIDENCE {
        all.remove(1);
    }
    all
}

fn merged_attempts(known: &[Attempt], new: &[Attempt]) -> Vec<Attempt> {
    let only_known = known.iter().filter(|attempt| {
        let number = attempt.number;
        new.iter().all(|other| other.number != number)
    });
    let mut all: Vec<Attempt> = only_known.chain(new).cloned().collect();
    all.sort_by_key(|attempt| attempt.number);
    let surplus = all.len().saturating_sub(REMEDIATIONS);
    all.drain(..surplus);
    all
}

/// Name of the object of a host. A host whose names cannot stand in it as they are gets a hash of them.
pub(crate) fn object_name(rack: &str, host: &str) -> String {
    let plain = format!("{rack}.{host}");
    if is_name_part(rack) && is_name_part(host) && plain.len() <= NAME {
        return plain;
    }
    let digest = Sha256::digest(format!("{rack}\n{host}"));
    let hash: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let safe: String = plain
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(NAME - hash.len() - 1)
        .collect();
    format!("{}.{hash}", safe.trim_matches('-'))
        .trim_start_matches('.')
        .to_owned()
}

/// An entry whose remediation is gone although nobody recorded its outcome.
pub(crate) fn unrecorded(entry: &HostRemediation, now: Timestamp) -> HostRemediation {
    let last = entry.steps.last().map_or(now, |step| step.at);
    HostRemediation {
        outcome: Some(UNRECORDED.to_owned()),
        reason: Some("ControllerEnded".to_owned()),
        finished_at: Some(last),
        ..entry.clone()
    }
}

/// The remediation object of an entry.
pub(crate) fn remediation_id(entry: &HostRemediation) -> Option<RemediationId> {
    let kind = Kind::REMEDIATIONS
        .into_iter()
        .find(|k| k.kind() == entry.kind)?;
    let key = Key::new(&*entry.namespace, &*entry.name);
    Some(RemediationId::new(kind, key))
}

#[cfg(test)]
mod tests;
