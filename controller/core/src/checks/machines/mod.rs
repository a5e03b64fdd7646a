//! Health checks of Machines: verdict per machine, action per verdict.
//!
//! Owns: the rules of Cluster API's MachineHealthCheck (v1beta1 and v1beta2 in one model), and the
//! differences of OpenShift's.
//! Must never act, or count a machine of unknown health as healthy.
//!
//! ```text
//! facts + rules -> judge -> Judgement -> FleetCounts -> LimitStatus ----+
//!                              |                           v
//!                              +--> HealthConditionWrite, Action
//! ```
//!
//! Each is a function of one machine ([`judge`], [`health_condition`], [`action`]) or a counter ([`FleetCounts`]).
//! [`Fleet`] stores their results and evaluates again only the machine of an event. The tests compare it with an
//! evaluation of the whole fleet.

mod action;
mod condition;
mod dialect_rules;
mod facts;
mod fleet;
mod limit_status;
mod messages;
mod openshift;
mod orphan;
mod overlap;
mod rules;
mod verdict;

pub use action::{Action, CheckStatus, action};
pub use condition::{HealthConditionWrite, health_condition};
pub use dialect_rules::{DialectRules, can_close};
pub use facts::{
    ClusterFacts, Condition, LONG_AGO, MachineFacts, MachineRemediation, NodeFacts, NodeView,
    Target,
};
pub use fleet::{Fleet, FleetChanges, PendingAction};
pub use limit_status::{Counts, FleetCounts, LimitStatus, counts_against_limit};
pub use messages::clock_skew;
pub use openshift::external::{
    ExternalProgress, ExternalStep, MarkCarrier, external_step, mark_carrier,
};
pub use openshift::{
    OpenShiftAction, OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy, OpenShiftTarget,
    counts_as_healthy, most_unhealthy, openshift_action, ready_cluster,
};
pub use orphan::{CheckState, Orphan, orphaned};
pub use overlap::{Claim, acting};
pub(crate) use rules::deadline;
pub use rules::{Check, ConditionRule, Limit};
pub use verdict::future_cause::{CLOCK_TOLERANCE, FutureCause};
pub use verdict::timeline::{Onset, onsets};
pub use verdict::{Cause, Judgement, SkipReason, UnknownReason, Verdict, judge, verdict};

#[cfg(test)]
mod tests;
