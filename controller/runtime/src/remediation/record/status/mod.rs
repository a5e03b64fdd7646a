//! The status of a PowerRemediation, derived from the stored state.
//!
//! Pure. The status contains nothing that is not in the stored state.

use jiff::{SignedDuration, Timestamp};
use rackhand_api::{
    kinds::{
        conditions::{ConditionStatus, StatusCondition},
        power_record::{Attempt, PowerOffEvidence, PowerReading},
        power_remediation::{InPlace, PowerPhase, PowerRemediationStatus},
    },
    names::conditions::{
        BLOCKED, DRAIN_BLOCKED, FENCE_UNCONFIRMED, FENCED, OVERDUE, PROCESSING, SUCCEEDED,
    },
};
use rackhand_core::remediation::{
    AttemptRecord, OffEvidence, OutletUse, Reason, State, Step, TaintOwner, on_wall,
};
use serde_json::{Map, Value};

use crate::store::{clock::to_second, host_evidence::to_api};

/// Maximum number of readings in a status.
const READINGS: usize = 16;

/// Maximum number of outlets in a status.
const OUTLETS: usize = 16;

/// The inputs of a status.
pub(crate) struct Facts<'a> {
    pub(crate) state: Option<&'a State>,
    pub(crate) reason: &'a Reason,
    pub(crate) generation: Option<i64>,
    pub(crate) node: Option<&'a str>,
    /// Whether our hold key is on the BareMetalHost.
    pub(crate) held: bool,
    /// The deadline of the step.
    pub(crate) until: Option<Timestamp>,
    pub(crate) now: Timestamp,
    /// How far the wall clock, whose times a status contains, is ahead of the clock of the other times.
    pub(crate) ahead: SignedDuration,
}

impl Facts<'_> {
    /// A time as a status contains it.
    fn shown(&self, at: Timestamp) -> Timestamp {
        to_second(on_wall(at, self.ahead))
    }
}

/// The new status. Conditions that were set once stay, with the time of their last transition.
pub(crate) fn status(old: &PowerRemediationStatus, f: &Facts<'_>) -> PowerRemediationStatus {
    let state = f.state;
    let displayed = state.map(|s| s.on_wall(f.ahead));
    let displayed = displayed.as_ref();
    PowerRemediationStatus {
        observed_generation: f.generation,
        conditions: conditions(&old.conditions, f),
        phase: Some(phase(f)),
        node_name: f
            .node
            .or_else(|| {
                state
                    .and_then(|s| s.attempt.node.as_ref())
                    .map(|n| n.name.as_str())
            })
            .map(str::to_owned),
        step: Some(state.map_or(Step::Pending, |s| s.step)),
        step_since: displayed.map(|s| to_second(s.since)),
        step_until: f.until.map(|until| f.shown(until)),
        reason: Some(f.reason.label().into()),
        message: Some(f.reason.to_string()),
        attempts: displayed.map(attempts).unwrap_or_default(),
        power_off: displayed.and_then(|s| {
            Some(evidence(
                s.attempt.off.as_ref()?,
                s.attempt.outlets.as_deref(),
            ))
        }),
        evidence: displayed
            .and_then(|s| s.attempt.evidence.as_ref())
            .map(|e| to_api(e)),
        in_place: state.map(|s| in_place(s, f.held)).unwrap_or_default(),
        cursor: state.map_or_else(
            || old.cursor.clone(),
            |s| super::state_format::encode(s).ok(),
        ),
    }
}

/// A merge patch of the parts of a status that report a stored state that cannot be parsed. The
/// other parts are not changed.
pub(crate) fn unreadable(
    there: &Value,
    reason: &Reason,
    now: Timestamp,
    ahead: SignedDuration,
) -> Value {
    let list = there.get("conditions").cloned().unwrap_or_default();
    let old: Vec<StatusCondition> = serde_json::from_value(list).unwrap_or_default();
    let facts = Facts {
        state: None,
        reason,
        generation: there
            .get("observedGeneration")
            .and_then(serde_json::Value::as_i64),
        node: None,
        held: false,
        until: None,
        now,
        ahead,
    };
    serde_json::json!({
        "reason": reason.label(),
        "message": reason.to_string(),
        "conditions": conditions(&old, &facts),
    })
}

fn phase(f: &Facts<'_>) -> PowerPhase {
    let Some(state) = f.state else {
        return PowerPhase::Pending;
    };
    let was_off = state.attempt.off.is_some() || state.attempts.iter().any(|a| a.off.is_some());
    match state.step {
        Step::Pending => PowerPhase::Pending,
        Step::Succeeded => PowerPhase::Succeeded,
        Step::Fenced if state.failed().is_none() => PowerPhase::Succeeded,
        Step::Evicted => PowerPhase::Succeeded,
        Step::Blocked if !was_off => PowerPhase::Aborted,
        Step::Fenced | Step::Escalated | Step::Blocked => PowerPhase::Failed,
        _ if f.reason.is_blocked() => PowerPhase::Waiting,
        _ => PowerPhase::Running,
    }
}

fn conditions(old: &[StatusCondition], f: &Facts<'_>) -> Vec<StatusCondition> {
    let step = f.state.map_or(Step::Pending, |s| s.step);
    let phase = phase(f);
    let ended = matches!(
        phase,
        PowerPhase::Succeeded | PowerPhase::Failed | PowerPhase::Aborted
    );
    let succeeded = match phase {
        PowerPhase::Succeeded => ConditionStatus::True,
        PowerPhase::Failed | PowerPhase::Aborted => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let is_off = f.state.is_some_and(|s| {
        s.attempt.off.is_some() && s.attempt.on.is_none() && !s.step.is_terminal()
    });
    let unconfirmed =
        step == Step::AwaitingConfirmation || matches!(f.reason, Reason::FenceUnconfirmed(_));
    let drain = matches!(
        f.reason,
        Reason::DrainBlocked(_)
            | Reason::DrainGivenUp(_)
            | Reason::EvictionBlocked(_)
            | Reason::EvictionWaits(_)
    );
    // A host that was emptied is kept so, and something may be left on it after all.
    let is_open = !ended || step == Step::Evicted;
    let overdue = !ended && f.until.is_some_and(|until| until <= f.now);
    let holds = |yes: bool| {
        if yes {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        }
    };
    let mut list = vec![
        (PROCESSING, holds(!ended)),
        (SUCCEEDED, succeeded),
        (FENCED, holds(is_off)),
    ];
    for (name, yes) in [
        (BLOCKED, is_open && f.reason.is_blocked()),
        (FENCE_UNCONFIRMED, unconfirmed),
        (DRAIN_BLOCKED, drain),
        (OVERDUE, overdue),
    ] {
        if yes || old.iter().any(|c| c.condition_type == name) {
            list.push((name, holds(yes)));
        }
    }
    let same = |name: &str, status| {
        old.iter()
            .find(|c| c.condition_type == name && c.status == status)
            .map(|c| c.last_transition_time)
    };
    list.into_iter()
        .map(|(name, status)| StatusCondition {
            condition_type: name.into(),
            status,
            reason: f.reason.label().into(),
            message: f.reason.to_string(),
            last_transition_time: same(name, status).unwrap_or_else(|| f.shown(f.now)),
            observed_generation: f.generation,
        })
        .collect()
}

pub(in crate::remediation) fn attempts(state: &State) -> Vec<Attempt> {
    let mut list: Vec<Attempt> = state.attempts.iter().map(ended).collect();
    if !state.is_recorded() && state.step != Step::Pending {
        let number = number(state.attempt.number);
        list.retain(|a| a.number != number);
        list.push(Attempt {
            number,
            started_at: to_second(state.attempt.started),
            powered_off_at: state.attempt.off.as_ref().map(|off| to_second(off.at())),
            drained_at: state.attempt.drained.map(to_second),
            pods_evicted: (state.attempt.eviction.as_ref())
                .and_then(|eviction| count(eviction.evicted)),
            evicted_pod_names: (state.attempt.eviction.as_ref())
                .map_or_else(Vec::new, |eviction| eviction.pods.clone()),
            pods_deleted: count(state.attempt.pods_deleted),
            deleted_pod_names: state.attempt.deleted_pods.clone(),
            powered_on_at: state.attempt.on.map(to_second),
            finished_at: None,
            failed_step: None,
            reason: None,
            message: None,
        });
    }
    list
}

fn number(attempt: u32) -> i32 {
    i32::try_from(attempt.max(1)).unwrap_or(i32::MAX)
}

fn count(pods: u32) -> Option<i32> {
    (pods > 0).then(|| i32::try_from(pods).unwrap_or(i32::MAX))
}

fn ended(record: &AttemptRecord) -> Attempt {
    let failed = record.reason != Reason::Recovered;
    Attempt {
        number: number(record.number),
        started_at: to_second(record.started),
        powered_off_at: record.off.map(to_second),
        drained_at: record.drained.map(to_second),
        pods_evicted: count(record.pods_evicted),
        evicted_pod_names: record.evicted_pods.clone(),
        pods_deleted: count(record.pods_deleted),
        deleted_pod_names: record.deleted_pods.clone(),
        powered_on_at: record.on.map(to_second),
        finished_at: Some(to_second(record.ended)),
        failed_step: record.step.filter(|_| failed),
        reason: Some(record.reason.label().into()),
        message: Some(record.reason.to_string()),
    }
}

pub(in crate::remediation) fn evidence(
    off: &OffEvidence,
    used: Option<&OutletUse>,
) -> PowerOffEvidence {
    let used = used.filter(|_| matches!(off, OffEvidence::Outlets { .. }));
    let readings = match off {
        OffEvidence::Bmc { readings, .. } | OffEvidence::Outlets { readings, .. } => {
            readings.as_slice()
        }
        OffEvidence::Person { .. } => &[],
    };
    PowerOffEvidence {
        confirmed_at: Some(to_second(off.at())),
        outlets: used.map_or_else(Vec::new, |used| {
            used.outlets.iter().take(OUTLETS).cloned().collect()
        }),
        bmc_failure: used.map(|used| used.because.clone()),
        readings: readings
            .iter()
            .rev()
            .take(READINGS)
            .rev()
            .map(|r| PowerReading {
                read_at: r.at,
                protocol: r.protocol.clone(),
                state: r.raw.clone(),
                identity: Some(r.identity.clone()).filter(|i| !i.is_empty()),
                agent: None,
            })
            .collect(),
    }
}

/// What the remediation has put in place, by intent: an action is recorded before it is carried out and must
/// be undone even if it was not.
fn in_place(state: &State, held: bool) -> Vec<InPlace> {
    let mut list = Vec::new();
    if held {
        list.push(InPlace::Hold);
    }
    if state.step.is_terminal() {
        return list;
    }
    let shuts_down = state.step == Step::ShuttingDown;
    if state.agent_holds || shuts_down || state.attempt.off.is_some() && state.attempt.on.is_none()
    {
        list.push(InPlace::PowerOff);
    }
    if state.attempt.taint == Some(TaintOwner::Us) {
        list.push(InPlace::Taint);
    }
    if state.cordoned.is_some() {
        list.push(InPlace::Cordon);
    }
    list
}

/// A JSON merge patch (RFC 7386) from `old` to `new`; removed fields are set to null.
pub(crate) fn merge_diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, value) in after {
        match before.get(key) {
            Some(same) if same == value => {}
            Some(was) => {
                patch.insert(key.clone(), merge_diff(was, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests;
