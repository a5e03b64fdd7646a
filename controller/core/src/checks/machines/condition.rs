//! The `HealthCheckSucceeded` condition of a Machine.
//!
//! Owns its status, reasons and messages in both contracts. Must never depend on the limit: the
//! condition shows the health of a machine, whether or not it may be remediated.

use std::fmt::Write;

use super::messages::joined;
use super::{Cause, MachineFacts, Verdict};

/// The `HealthCheckSucceeded` that a Machine should carry, in both contracts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HealthConditionWrite {
    /// Status of the condition; true for a healthy machine.
    pub succeeded: bool,
    /// Reason of the v1beta2 contract.
    pub reason: &'static str,
    /// Reason of the v1beta1 contract; empty when True.
    pub reason_v1beta1: &'static str,
    /// Message of the v1beta2 contract: a header and a bullet per failed rule.
    pub message: String,
    /// Message of the v1beta1 contract: the bullets joined by "; ".
    pub message_v1beta1: String,
}

/// The condition that must be written (docs/reference/cluster-api.md, Conditions and Events), if any.
///
/// A healthy machine gets True unless it is True already, with or without a remediation
/// (docs/reference/cluster-api.md, Q11 is not copied). A machine that was not evaluated gets True only
/// where it has no condition: a False that was written for a cause must not become True because the
/// Cluster is not ready for a moment, since its remediation would end halfway. An unhealthy machine
/// always gets False, because only the writer can compare the message. A machine that is suspect,
/// unknown or skipped keeps its condition.
pub fn health_condition(machine: &MachineFacts, verdict: &Verdict) -> Option<HealthConditionWrite> {
    match verdict {
        Verdict::Healthy if machine.health_condition != Some(true) => Some(succeeded()),
        Verdict::NotEvaluated(_) if machine.health_condition.is_none() => Some(succeeded()),
        Verdict::Unhealthy { causes } => failed(causes),
        _ => None,
    }
}

fn succeeded() -> HealthConditionWrite {
    HealthConditionWrite {
        succeeded: true,
        reason: "HealthCheckSucceeded",
        reason_v1beta1: "",
        message: String::new(),
        message_v1beta1: String::new(),
    }
}

/// The first cause determines the reason: machine causes precede node causes.
fn failed(causes: &[Cause]) -> Option<HealthConditionWrite> {
    let first = causes.first()?;
    let mut message = String::from("Health check failed:");
    for cause in causes {
        // Writing to a String cannot fail.
        let _ = write!(message, "\n  * {cause}");
    }
    let message_v1beta1 = match first {
        Cause::NodeDeleted { .. } => String::new(),
        _ => joined(causes),
    };
    Some(HealthConditionWrite {
        succeeded: false,
        reason: first.reason(),
        reason_v1beta1: first.reason_v1beta1(),
        message,
        message_v1beta1,
    })
}
