//! Health checks of Nodes: the rules of medik8s' NodeHealthCheck.
//!
//! Owns: what makes a Node unhealthy, when a check may act, which template comes next, and the status of
//! a check. Where a mistake of the original is listed (docs/reference/medik8s.md, Evaluation), the rule
//! here differs and has a test of its own. Must never act, or let two Nodes of a control plane be
//! remediated at one time.
//!
//! ```text
//! Node -> classify -> Class -> counters -> threshold -> storm --+
//!                       |                                       v
//!                       +--> one Node: healthy, or template, lease, timeout -> Action
//! ```
//!
//! [`plan`] evaluates all Nodes. [`Fleet`] stores classes, counters and deadlines, and evaluates only the
//! Node of an event. Both end in the same decision about the few Nodes that are unhealthy or remediated,
//! so an event costs O(log n) and the number of those.

mod check_status;
mod class;
mod decide;
mod facts;
mod fleet;
mod lease;
mod mhc_conflict;
mod node_remediation;
mod plan;
mod quorum;
mod rules;
mod storm;
mod threshold;

pub use crate::checks::machines::ConditionRule;
pub use check_status::{Entry, Flag, NodeCheckStatus, Phase, Tried};
pub use class::{Cause, CauseDeadline, Class, classify, onsets};
pub use decide::{Action, Disabled, Event, Finished, Outside, Plan};
pub use facts::{Exclusion, NodeFacts, NodeRemediation, RemediationId};
pub use fleet::Fleet;
pub use lease::{HeldLease, LeaseStep, lease_holder, lease_step};
pub use mhc_conflict::{
    MachineCheck, MachineChecks, MhcConflict, mhc_conflict, unknown_topology, unsupported,
};
pub use plan::plan;
pub use rules::{Check, Delay, Limit, Step, Template};
pub use threshold::{LimitError, can_close, fewest_healthy};

#[cfg(test)]
mod tests;
