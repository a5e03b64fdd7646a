//! The verdict on one machine.
//!
//! Owns the rules for one machine (docs/reference/cluster-api.md, The verdict). Must never depend on
//! another machine or on the limit.

pub(super) mod future_cause;
pub(super) mod timeline;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, Condition, ConditionRule, FutureCause, MachineFacts, NodeView, deadline,
};

/// Why a machine is unhealthy, or will be. Condition, Event, log and command line all use its Display.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `cluster.x-k8s.io/remediate-machine` is set.
    RemediateAnnotation,
    /// `status.failureReason` or `failureMessage` is set.
    MachineFailure {
        /// Reason and message, joined.
        message: String,
    },
    /// The Node of the nodeRef does not exist.
    NodeDeleted {
        /// Name of the Node.
        name: String,
    },
    /// No Node has joined within the startup timeout.
    NodeStartupTimeout {
        /// The startup timeout.
        timeout: Duration,
    },
    /// A rule on a Machine condition has matched for too long.
    MachineCondition {
        /// Condition type.
        type_: String,
        /// Condition status.
        status: String,
        /// The condition's reason.
        reason: String,
        /// The rule's timeout.
        timeout: Duration,
    },
    /// A rule on a Node condition has matched for too long.
    NodeCondition {
        /// Condition type.
        type_: String,
        /// Condition status.
        status: String,
        /// The condition's reason.
        reason: String,
        /// The rule's timeout.
        timeout: Duration,
    },
}

/// Why a machine is no target of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// The annotation `cluster.x-k8s.io/paused` is set.
    Paused,
    /// The annotation `cluster.x-k8s.io/skip-remediation` is set.
    SkipRemediation,
    /// A HostMaintenance works on the host of a Machine of OpenShift, which knows no such annotation.
    Maintenance,
}

/// Why the health of a machine is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// The workload cluster cannot be queried.
    WorkloadUnreachable {
        /// The reason, as a clause for messages.
        why: String,
    },
    /// The watch does not show the Node, and no live read has confirmed that it is gone (F12).
    NodeUnconfirmed {
        /// The name in the nodeRef.
        name: String,
    },
    /// The Cluster's infrastructure is not ready.
    InfrastructureNotReady,
    /// The control plane is not initialized, and the machine is a worker.
    ControlPlaneNotInitialized,
    /// The machine has no Node, and no startup timeout is set.
    NoNode,
    /// The machine is being deleted.
    Deleting,
}

/// The verdict on one machine at one time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The machine is not a target.
    Skipped(SkipReason),
    /// The Node exists and no rule matches.
    Healthy,
    /// No rule was applied, and the Node exists. Such a machine counts as healthy, as in Cluster API;
    /// nothing else follows from the verdict.
    NotEvaluated(UnknownReason),
    /// A rule matches but not for long enough yet, or the Node has not joined yet.
    Suspect {
        /// The earliest time at which the verdict may become Unhealthy.
        until: Timestamp,
        /// The causes that will have made the machine unhealthy then.
        causes: Vec<Cause>,
        /// Whether only the startup timeout runs, so that the machine is still starting.
        starting: bool,
    },
    /// The machine needs remediation.
    Unhealthy {
        /// Every failed rule, machine rules first.
        causes: Vec<Cause>,
    },
    /// The health is unknown. Such a machine is never remediated and never counts as healthy.
    Unknown(UnknownReason),
}

/// A verdict, and until when it holds if nothing but time changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// The verdict on the machine now.
    pub verdict: Verdict,
    /// When the verdict changes by time alone. Also set for an unhealthy machine when one more rule
    /// is about to fail, because its condition lists all failed rules.
    pub changes_at: Option<Timestamp>,
    /// Causes whose recorded time is in the future, in the order of the rules. Their timeouts begin only
    /// then.
    pub ahead: Vec<FutureCause>,
}

/// The verdict on one machine (docs/reference/cluster-api.md, The verdict). See [`judge`].
pub fn verdict(
    check: &Check,
    cluster: &ClusterFacts,
    machine: &MachineFacts,
    node: &NodeView,
    now: Timestamp,
) -> Verdict {
    judge(check, cluster, machine, node, now).verdict
}

/// Evaluates one machine by docs/reference/cluster-api.md, The verdict, with these differences:
///
/// - A deadline fires at its time (`<=`), not a second later, and keeps fractions of a second.
/// - `status.failureReason` and `failureMessage` count where a Machine still has them, regardless of the
///   state of the Cluster, as they did in Cluster API up to v1.10.
/// - A machine that was not evaluated counts as in Cluster API (docs/reference/cluster-api.md, Q4), but
///   differs from a healthy one: no remediation is withdrawn because of it, and no False condition becomes
///   True.
/// - An unreachable workload cluster hides the Node, and whether there is one: causes and timeouts that
///   the management cluster alone shows still count, the startup timeout does not.
/// - A recorded time in the future is used, as there, and also reported.
pub fn judge(
    check: &Check,
    cluster: &ClusterFacts,
    machine: &MachineFacts,
    node: &NodeView,
    now: Timestamp,
) -> Judgement {
    if let Some(reason) = machine.skipped {
        return Judgement::settled(Verdict::Skipped(reason));
    }
    if machine.remediate_annotation {
        let causes = vec![Cause::RemediateAnnotation];
        return Judgement::settled(Verdict::Unhealthy { causes });
    }

    let mut findings = Findings::new(now);
    if let Some(message) = &machine.failure {
        findings.failed.push(Cause::MachineFailure {
            message: message.clone(),
        });
    }
    if let Some(reason) = not_evaluated(cluster, machine) {
        // Cluster API reads Nodes only once the control plane is initialized.
        let counted =
            matches!(node, NodeView::Present(_)) && cluster.control_plane_initialized.is_some();
        return findings.conclude(
            machine,
            if counted {
                Verdict::NotEvaluated(reason)
            } else {
                Verdict::Unknown(reason)
            },
        );
    }

    findings.match_rules(
        &check.machine_conditions,
        &machine.conditions,
        machine_condition,
    );
    let otherwise = match node {
        NodeView::Missing { name } => {
            findings
                .failed
                .push(Cause::NodeDeleted { name: name.clone() });
            Verdict::Unknown(UnknownReason::NoNode)
        }
        NodeView::Unconfirmed { name } => {
            Verdict::Unknown(UnknownReason::NodeUnconfirmed { name: name.clone() })
        }
        NodeView::Unreachable { why, joined } if !may_be_starting(cluster, *joined) => {
            Verdict::Unknown(UnknownReason::WorkloadUnreachable { why: why.clone() })
        }
        NodeView::NotJoined | NodeView::Unreachable { .. } => {
            if let Some(timeout) = check.startup_timeout.filter(|timeout| !timeout.is_zero()) {
                findings.time(
                    Cause::NodeStartupTimeout { timeout },
                    startup_began(cluster, machine, now),
                    timeout,
                );
            }
            Verdict::Unknown(UnknownReason::NoNode)
        }
        NodeView::Present(node) => {
            findings.match_rules(&check.node_conditions, &node.conditions, node_condition);
            Verdict::Healthy
        }
    };
    findings.conclude(machine, otherwise)
}

/// Why no rule is applied (docs/reference/cluster-api.md, The verdict).
fn not_evaluated(cluster: &ClusterFacts, machine: &MachineFacts) -> Option<UnknownReason> {
    if cluster.control_plane_initialized.is_none() && !machine.control_plane {
        Some(UnknownReason::ControlPlaneNotInitialized)
    } else if cluster.infrastructure_ready.is_none() {
        Some(UnknownReason::InfrastructureNotReady)
    } else {
        None
    }
}

/// Whether the startup timeout runs although the workload cluster cannot be queried: only before its
/// control plane is initialized, when there is no API yet that could know a Node
/// (docs/reference/cluster-api.md, Evaluation). That is how a first control-plane machine that never starts is found.
pub(super) fn may_be_starting(cluster: &ClusterFacts, joined: bool) -> bool {
    !joined && cluster.control_plane_initialized.is_none()
}

/// When the startup timeout began (docs/reference/cluster-api.md, The verdict).
fn startup_began(cluster: &ClusterFacts, machine: &MachineFacts, now: Timestamp) -> Timestamp {
    [
        cluster.control_plane_initialized,
        cluster.infrastructure_ready,
        machine.infrastructure_ready,
    ]
    .into_iter()
    .flatten()
    .fold(machine.starting_since.unwrap_or(now), Timestamp::max)
}

fn machine_condition(rule: &ConditionRule, condition: &Condition) -> Cause {
    Cause::MachineCondition {
        type_: rule.type_.clone(),
        status: rule.status.clone(),
        reason: condition.reason.clone(),
        timeout: rule.timeout,
    }
}

fn node_condition(rule: &ConditionRule, condition: &Condition) -> Cause {
    Cause::NodeCondition {
        type_: rule.type_.clone(),
        status: rule.status.clone(),
        reason: condition.reason.clone(),
        timeout: rule.timeout,
    }
}

// === impl Judgement ===

impl Judgement {
    pub(super) fn settled(verdict: Verdict) -> Self {
        Self {
            verdict,
            changes_at: None,
            ahead: Vec::new(),
        }
    }

    /// Until when the judgement holds if nothing but time changes.
    pub fn holds_until(&self) -> Option<Timestamp> {
        let ends = self.ahead.iter().map(FutureCause::ends);
        ends.chain(self.changes_at).min()
    }
}

/// The matching rules in their order: first all failed rules, then all whose timeout still runs.
struct Findings {
    now: Timestamp,
    failed: Vec<Cause>,
    running: Vec<Cause>,
    next: Option<Timestamp>,
    ahead: Vec<FutureCause>,
}

// === impl Findings ===

impl Findings {
    fn new(now: Timestamp) -> Self {
        Self {
            now,
            failed: Vec::new(),
            running: Vec::new(),
            next: None,
            ahead: Vec::new(),
        }
    }

    /// Adds a cause that counts once it has held for `timeout`.
    fn time(&mut self, cause: Cause, since: Timestamp, timeout: Duration) {
        if FutureCause::is(since, self.now) {
            let cause = cause.clone();
            self.ahead.push(FutureCause { cause, since });
        }
        let deadline = deadline(since, timeout);
        if deadline <= self.now {
            self.failed.push(cause);
        } else {
            self.running.push(cause);
            self.next = Some(self.next.map_or(deadline, |next| next.min(deadline)));
        }
    }

    /// Applies rules to conditions. An absent condition matches no rule, not even one for `Unknown`; a
    /// condition without a transition time has matched since [`Condition::since`].
    fn match_rules(
        &mut self,
        rules: &[ConditionRule],
        conditions: &[Condition],
        cause: fn(&ConditionRule, &Condition) -> Cause,
    ) {
        for rule in rules {
            if let Some(condition) = rule.matching(conditions) {
                self.time(cause(rule, condition), condition.since(), rule.timeout);
            }
        }
    }

    /// The verdict: Unhealthy if a rule has failed, else Suspect if one runs, else `otherwise`.
    fn conclude(self, machine: &MachineFacts, otherwise: Verdict) -> Judgement {
        let verdict = if !self.failed.is_empty() {
            Verdict::Unhealthy {
                causes: self.failed,
            }
        } else if let Some(until) = self.next {
            // A machine that is being deleted is not starting.
            let starting = !machine.deleting
                && self
                    .running
                    .iter()
                    .all(|cause| matches!(cause, Cause::NodeStartupTimeout { .. }));
            Verdict::Suspect {
                until,
                causes: self.running,
                starting,
            }
        } else if machine.deleting {
            Verdict::Unknown(UnknownReason::Deleting)
        } else {
            otherwise
        };
        Judgement {
            verdict,
            changes_at: self.next,
            ahead: self.ahead,
        }
    }
}
