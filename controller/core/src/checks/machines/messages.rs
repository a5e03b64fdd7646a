//! Messages of verdicts, causes and reasons.
//!
//! Owns the one Display, label and reason of each of them; must never decide anything.

use std::fmt;

use super::{Cause, FutureCause, SkipReason, UnknownReason, Verdict};
use crate::values::duration::go_duration;

/// How many machines the message about clock skew names; the others are only counted.
const NAMED: usize = 5;

// === impl Cause ===

impl Cause {
    /// Every [`Cause::label`].
    pub const LABELS: [&'static str; 6] = [
        "remediate_annotation",
        "machine_failure",
        "node_deleted",
        "node_startup_timeout",
        "machine_condition",
        "node_condition",
    ];

    /// A short, stable name, for metric labels.
    pub fn label(&self) -> &'static str {
        match self {
            Self::RemediateAnnotation => "remediate_annotation",
            Self::MachineFailure { .. } => "machine_failure",
            Self::NodeDeleted { .. } => "node_deleted",
            Self::NodeStartupTimeout { .. } => "node_startup_timeout",
            Self::MachineCondition { .. } => "machine_condition",
            Self::NodeCondition { .. } => "node_condition",
        }
    }

    /// The reason of `HealthCheckSucceeded` in the v1beta2 contract (docs/reference/cluster-api.md, Conditions and Events).
    /// That contract has none of its own for a failed Machine.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RemediateAnnotation => "HasRemediateAnnotation",
            Self::MachineFailure { .. } | Self::MachineCondition { .. } => "UnhealthyMachine",
            Self::NodeDeleted { .. } => "NodeDeleted",
            Self::NodeStartupTimeout { .. } => "NodeStartupTimeout",
            Self::NodeCondition { .. } => "UnhealthyNode",
        }
    }

    /// The reason of `HealthCheckSucceeded` in the v1beta1 contract (docs/reference/cluster-api.md, Conditions and Events).
    pub fn reason_v1beta1(&self) -> &'static str {
        match self {
            Self::RemediateAnnotation => "HasRemediateMachineAnnotation",
            Self::MachineFailure { .. } => "MachineHasFailure",
            Self::MachineCondition { .. } => "UnhealthyMachine",
            Self::NodeDeleted { .. } => "NodeNotFound",
            Self::NodeStartupTimeout { .. } => "NodeStartupTimeout",
            Self::NodeCondition { .. } => "UnhealthyNode",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemediateAnnotation => {
                f.write_str("Machine is marked with annotation cluster.x-k8s.io/remediate-machine")
            }
            Self::MachineFailure { message } => write!(f, "Machine has failed: {message}"),
            Self::NodeDeleted { name } => write!(f, "Node {name} has been deleted"),
            Self::NodeStartupTimeout { timeout } => {
                write!(f, "Node did not join within {}", go_duration(*timeout))
            }
            Self::MachineCondition {
                type_,
                status,
                reason,
                timeout,
            } => {
                let timeout = go_duration(*timeout);
                write!(f, "Condition {type_} on Machine is {status}")?;
                write!(f, "{} for {timeout} or longer", ReasonSuffix(reason))
            }
            Self::NodeCondition {
                type_,
                status,
                reason,
                timeout,
            } => {
                let timeout = go_duration(*timeout);
                write!(f, "Condition {type_} on Node is {status}")?;
                write!(f, "{} for {timeout} or longer", ReasonSuffix(reason))
            }
        }
    }
}

/// A condition's reason in parentheses; nothing if it has none.
struct ReasonSuffix<'a>(&'a str);

impl fmt::Display for ReasonSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            reason => write!(f, " ({reason})"),
        }
    }
}

// === impl SkipReason ===

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused => "annotation cluster.x-k8s.io/paused is set",
            Self::SkipRemediation => "annotation cluster.x-k8s.io/skip-remediation is set",
            Self::Maintenance => "a HostMaintenance works on its host",
        })
    }
}

// === impl UnknownReason ===

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkloadUnreachable { why } => {
                write!(f, "cannot query the workload cluster: {why}")
            }
            Self::NodeUnconfirmed { name } => write!(
                f,
                "the watch does not show Node {name}, and a live read has not confirmed that it is gone"
            ),
            Self::InfrastructureNotReady => {
                f.write_str("the infrastructure of the Cluster is not ready")
            }
            Self::ControlPlaneNotInitialized => {
                f.write_str("the control plane of the Cluster is not initialized")
            }
            Self::NoNode => f.write_str("no Node has joined, and there is no startup timeout"),
            Self::Deleting => f.write_str("the Machine is being deleted"),
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// A short, stable name, for metric labels.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Skipped(_) => "skipped",
            Self::Healthy => "healthy",
            Self::NotEvaluated(_) => "not_evaluated",
            Self::Suspect { .. } => "suspect",
            Self::Unhealthy { .. } => "unhealthy",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether the machine is one of the check's targets; a skipped machine is not.
    pub fn is_target(&self) -> bool {
        !matches!(self, Self::Skipped(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Healthy => f.write_str("healthy"),
            Self::NotEvaluated(reason) => write!(f, "not evaluated: {reason}"),
            Self::Suspect { until, causes, .. } => {
                write!(f, "suspect until {until}: {}", joined(causes))
            }
            Self::Unhealthy { causes } => write!(f, "unhealthy: {}", joined(causes)),
            Self::Unknown(reason) => write!(f, "unknown: {reason}"),
        }
    }
}

/// Joins causes in one line.
pub(super) fn joined(causes: &[Cause]) -> String {
    causes
        .iter()
        .map(Cause::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

// === impl FutureCause ===

impl fmt::Display for FutureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since;
        match &self.cause {
            Cause::NodeCondition { type_, status, .. } => {
                write!(f, "{type_}={status} on Node since {since}")
            }
            Cause::MachineCondition { type_, status, .. } => {
                write!(f, "{type_}={status} on Machine since {since}")
            }
            Cause::NodeStartupTimeout { .. } => write!(f, "starting since {since}"),
            other => write!(f, "{other}, since {since}"),
        }
    }
}

/// The message about recorded times in the future, for machines in the order of their names; `None`:
/// there are none. The message does not depend on the present time, so that it is not written again and
/// again.
pub fn clock_skew<'a, N, A>(
    machines: impl IntoIterator<Item = (&'a N, &'a A), IntoIter: ExactSizeIterator>,
) -> Option<String>
where
    N: AsRef<str> + ?Sized + 'a,
    A: AsRef<[FutureCause]> + ?Sized + 'a,
{
    let machines = machines.into_iter();
    let more = match machines.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = machines
        .take(NAMED)
        .map(|(name, ahead)| format!("{} ({})", name.as_ref(), once_each(ahead.as_ref())))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "A time in the future is recorded for {}{more}; their timeouts begin only then. Compare \
             the clock of the component that recorded it (kubelet, API server or controller manager) \
             with the clock of Rackhand",
            named.join(", ")
        )
    })
}

/// The causes in one line, each text once: several rules may name one condition.
fn once_each(ahead: &[FutureCause]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in ahead.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}
