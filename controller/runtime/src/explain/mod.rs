//! `explain`: where a remediation stands, or what a health check finds, why, until when and what comes
//! next, from the objects alone.
//!
//! Owns reading the objects and the words. Must never decide: `rackhand_core` does, by the function
//! that runs in production. Must never write, nor ask an agent or a BMC: what only they know is
//! assumed, and the answer says so.

mod agents;
mod etcd;
mod file;
mod gather;
mod group;
mod health;
mod health_file;
mod health_live;
mod health_overlap;
mod health_scene;
mod health_table;
mod health_words;
mod live;
mod nodes;
mod nodes_file;
mod nodes_live;
mod nodes_scene;
mod nodes_table;
mod nodes_words;
mod openshift;
mod scene;
mod settings;
mod sheet;
mod whose;
mod words;

use std::fmt;

use jiff::Timestamp;
use rackhand_core::remediation::{Next, step};
use serde::Serialize;

pub use file::explain_file;
pub use gather::explain_cluster;
pub use group::CheckGroup;
pub use health::{
    CauseExplanation, CheckExplanation, LimitExplanation, MachineExplanation, NextVerdict,
};
pub use health_file::explain_check_files;
pub use health_live::explain_check_cluster;
pub use nodes::{
    NextOfNodes, NodeExplanation, NodesExplanation, NodesLimit, StepExplanation, StormExplanation,
};
pub use nodes_file::explain_nodes_files;
pub use nodes_live::explain_nodes_cluster;
pub use settings::{ShownSettings, settings_of_cluster, settings_of_files};

use crate::object::Kind;

/// Which kind of request is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Our own.
    PowerRemediation,
    /// CAPM3's.
    Metal3Remediation,
}

impl RequestKind {
    fn kind(self) -> Kind {
        match self {
            Self::PowerRemediation => Kind::PowerRemediation,
            Self::Metal3Remediation => Kind::Metal3Remediation,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The file is not what it should be.
    #[error("{0}")]
    File(String),
    /// Nothing fits, or more than one thing does.
    #[error("{0}")]
    Request(String),
    /// The cluster cannot be asked.
    #[error("{0}")]
    Cluster(String),
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    /// `write`, `do`, `wait` or `nothing`.
    pub what: &'static str,
    /// In words.
    pub words: String,
    /// When to look again at the latest, for a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `Kind namespace/name`.
    pub request: String,
    /// UID of the request: what a confirmation by a person has to name.
    pub uid: String,
    /// The strategy, and what follows when no attempt is left.
    pub strategy: String,
    /// Present step.
    pub step: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the time of the step is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// It is over.
    pub overdue: bool,
    /// From 1.
    pub attempt: u32,
    /// How many there are.
    pub attempts: u32,
    /// Why it stands there, as one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// It cannot go on by itself.
    pub blocked: bool,
    /// What the controller wrote last, where it is not what can be seen here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// What the controller does next.
    pub next: NextStep,
    /// What follows after that, if all goes well.
    pub then: String,
    /// Machine, Node, host and what is on them, by name.
    pub seen: Vec<(String, String)>,
    /// Earlier attempts, and the proof of the present one.
    pub history: Vec<String>,
    /// What only an agent or a BMC knows and was taken as given, and what was not there to look at.
    pub assumed: Vec<String>,
    /// Whose settings it goes by, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// When this was asked.
    pub now: Timestamp,
}

/// An explanation; a person reads it as it is displayed.
pub trait Told: Serialize + fmt::Display + Sized {
    /// The same for a program.
    fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The same as YAML.
    fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_default()
    }
}

impl Told for Explanation {}
impl Told for CheckExplanation {}
impl Told for NodesExplanation {}

/// Decides, and says what was decided.
fn explain(scene: &scene::Scene, now: Timestamp) -> Explanation {
    let state = scene.state.as_ref();
    let o = &scene.observation;
    let decision = step(o, state, now);
    let policy = o.request.policy.as_ref().ok();
    let until = state.and_then(|s| o.step_until(s));
    let next = match &decision.next {
        Next::Write => NextStep {
            what: "write",
            words: words::transition(state, &decision.state),
            at: None,
        },
        Next::Do(command) => NextStep {
            what: "do",
            words: words::command(command),
            at: None,
        },
        Next::Wait(at) => NextStep {
            what: "wait",
            words: "waits until something changes".into(),
            at: Some(*at),
        },
        Next::Done(outcome) => NextStep {
            what: "nothing",
            words: words::outcome(*outcome).into(),
            at: None,
        },
    };
    let message = decision.reason.to_string();
    let recorded = scene.recorded.clone().filter(|said| *said != message);
    Explanation {
        request: scene.request.clone(),
        uid: o.request.uid.clone(),
        strategy: words::strategy(policy),
        step: state.map_or("Pending", |s| s.step.label()).into(),
        since: state.map(|s| s.since),
        until,
        overdue: until.is_some_and(|until| until <= now),
        attempt: state.map_or(1, |s| s.attempt),
        attempts: policy.map_or(1, |p| p.retry_limit.saturating_add(1)),
        reason: decision.reason.label().into(),
        message,
        blocked: decision.reason.is_blocked(),
        recorded,
        next,
        then: words::then(state, policy).into(),
        seen: scene.seen.clone(),
        history: words::history(state),
        assumed: scene.assumed.clone(),
        settings: String::new(),
        now,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        words::text(self, f)
    }
}

#[cfg(test)]
mod health_tests;
#[cfg(test)]
mod nodes_tests;
#[cfg(test)]
mod tests;
