//! The view of a remediation.

mod messages;
mod observed;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use observed::observed;

use crate::remediation::{Next, Observation, Reason, State, on_wall, step};

/// Everything that the view of a remediation is computed from.
#[derive(Debug, Clone)]
pub struct RemediationFacts {
    /// Kind, namespace and name.
    pub remediation: String,
    /// What is observed.
    pub observation: Observation,
    /// The stored state.
    pub state: Option<State>,
    /// Why it has no turn yet although nothing else keeps it from beginning.
    pub awaits_turn: Option<Reason>,
    /// The message that the controller wrote last.
    pub recorded: Option<String>,
    /// `namespace/name` of the Machine.
    pub machine: Option<String>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStepView {
    /// `write`, `do`, `wait` or `nothing`.
    pub what: String,
    /// What the controller does next, in a clause without a subject.
    pub message: String,
    /// When a wait ends at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Which step a remediation is in, why, until when, and what comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemediationView {
    /// `Kind namespace/name`.
    #[serde(rename = "request")]
    pub remediation: String,
    /// UID of the object, which a confirmation by a person has to name.
    pub uid: String,
    /// The strategy, and what follows when no attempt is left.
    pub strategy: String,
    /// Name of the step, like `Draining`.
    pub step: String,
    /// When the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The deadline of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the deadline has passed.
    pub overdue: bool,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Number of attempts.
    pub attempts: u32,
    /// The reason of the step, as in the condition.
    pub reason: String,
    /// The message of the reason.
    pub message: String,
    /// Whether it cannot go on by itself.
    pub blocked: bool,
    /// The message that the controller wrote last, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// What the controller does next.
    pub next: NextStepView,
    /// What follows after that, if all goes well.
    pub then: String,
    /// Machine, Node, host and what is on them, by name.
    pub seen: Vec<(String, String)>,
    /// Earlier attempts, and the evidence of the present one.
    pub history: Vec<String>,
    /// The time that this view is computed for.
    pub now: Timestamp,
}

/// Decides the next step for `now`, and explains the decision. `now` is of the clock of the decisions; the times of
/// the view are of the wall clock, which is `ahead` of it.
pub fn explain_remediation(
    facts: &RemediationFacts,
    now: Timestamp,
    ahead: SignedDuration,
) -> RemediationView {
    let state = facts.state.as_ref();
    let o = &Observation {
        wall_ahead: ahead,
        ..facts.observation.clone()
    };
    let mut decision = step(o, state, now);
    if let Some(reason) = &facts.awaits_turn {
        decision.reason = reason.clone();
    }
    let policy = o.policy(state);
    let until = state.and_then(|s| o.step_until(s));
    let shown = state.map(|s| s.on_wall(ahead));
    let next = match &decision.next {
        _ if facts.awaits_turn.is_some() => NextStepView {
            what: "wait".into(),
            message: "waits for its turn".into(),
            at: None,
        },
        Next::Write => NextStepView {
            what: "write".into(),
            message: messages::transition_message(state, &decision.state),
            at: None,
        },
        Next::Do(command) => NextStepView {
            what: "do".into(),
            message: messages::command_message(command),
            at: None,
        },
        Next::Wait(at) => NextStepView {
            what: "wait".into(),
            message: "waits until something changes".into(),
            at: Some(on_wall(*at, ahead)),
        },
        Next::Done(outcome) => NextStepView {
            what: "nothing".into(),
            message: messages::outcome_message(*outcome).into(),
            at: None,
        },
    };
    let message = decision.reason.to_string();
    let recorded = facts.recorded.clone().filter(|text| *text != message);
    RemediationView {
        remediation: facts.remediation.clone(),
        uid: o.object.uid.clone(),
        strategy: messages::strategy(policy),
        step: state.map_or("Pending", |s| s.step.label()).into(),
        since: shown.as_ref().map(|s| s.since),
        until: until.map(|until| on_wall(until, ahead)),
        overdue: until.is_some_and(|until| until <= now),
        attempt: state.map_or(1, |s| s.attempt.number),
        attempts: policy.map_or(1, |p| p.retry_limit.saturating_add(1)),
        reason: decision.reason.label().into(),
        message,
        blocked: decision.reason.is_blocked(),
        recorded,
        next,
        then: messages::following_steps(state, policy).into(),
        seen: observed(facts.machine.as_deref(), o),
        history: messages::history(shown.as_ref()),
        now: on_wall(now, ahead),
    }
}
