//! Explanations: what a health check or a remediation does, and why, as one serialisable view.
//!
//! A view is computed by the functions that decide in production ([`crate::checks::machines`], [`crate::checks::nodes`],
//! [`crate::remediation`]). `explain`, the endpoint of the leader and files all give this view; its
//! `Display` is the text for a terminal. The dialects of health checks differ only in its data.

mod check;
mod cluster_api;
mod evidence;
mod machines;
mod messages;
mod nodes;
mod openshift;
mod remediation;
mod table;

pub use check::{
    CauseView, CheckView, LimitView, NextChangeView, StormView, TargetRemediation, TargetView,
};
pub use evidence::evidence_lines;
pub use machines::{MachineCheckFacts, MachineEntry, RecordedCondition, explain_machines};
pub use nodes::{NodeCheckFacts, explain_nodes};
pub use openshift::MarkStep;
pub use remediation::{NextStepView, RemediationFacts, RemediationView, explain_remediation};
