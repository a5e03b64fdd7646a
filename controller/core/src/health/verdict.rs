//! The verdict on one machine.
//!
//! Owns the rules for one machine (docs/reference/cluster-api.md, The verdict). Must never look at another machine or at the limit.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Check, ClusterFacts, Condition, ConditionRule, FutureCause, MachineFacts, NodeView, deadline,
};

/// Why a machine is unhealthy, or will be. Its Display is the one wording of it: condition, event,
/// log and CLI say the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `cluster.x-k8s.io/remediate-machine` is set.
    RemediateAnnotation,
    /// `status.failureReason` or `failureMessage` is set.
    MachineFailure {
        /// The two, joined.
        message: String,
    },
    /// The Node of the nodeRef is gone.
    NodeDeleted {
        /// Name of the Node.
        name: String,
    },
    /// No Node within the startup timeout.
    NodeStartupTimeout {
        /// The timeout.
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

/// Why a machine is left out altogether.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// `cluster.x-k8s.io/paused`.
    Paused,
    /// `cluster.x-k8s.io/skip-remediation`.
    SkipRemediation,
}

/// Why nothing can be said about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// The workload cluster cannot be asked.
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
    /// The control plane is not initialized and this is a worker.
    ControlPlaneNotInitialized,
    /// It has no Node, and no timeout runs (startup timeout off).
    NoNode,
    /// It is being deleted.
    Deleting,
}

/// The verdict on one machine at one time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Not a target.
    Skipped(SkipReason),
    /// A Node is there and no rule matches.
    Healthy,
    /// No rule was applied, and the Node is there. Cluster API counts such a machine as healthy, and
    /// so does this check; nothing else follows from it.
    NotEvaluated(UnknownReason),
    /// A rule matches but not for long enough yet, or its Node has not joined yet.
    Suspect {
        /// The earliest time at which the verdict may become Unhealthy.
        until: Timestamp,
        /// What will have made it so.
        causes: Vec<Cause>,
        /// Only the startup timeout runs: a machine that is still starting.
        starting: bool,
    },
    /// To be remediated.
    Unhealthy {
        /// Every failing rule, machine rules first.
        causes: Vec<Cause>,
    },
    /// Cannot be judged. Never acted on, never called healthy.
    Unknown(UnknownReason),
}

/// A verdict, and until when it holds if nothing but time changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// When the verdict changes by itself. Also set for an unhealthy machine of which one more rule
    /// is about to fail: its condition lists all of them.
    pub changes_at: Option<Timestamp>,
    /// What is said to hold since a time that lies ahead, in the order of the rules. Its timeout begins
    /// only then.
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

/// Judges one machine by docs/reference/cluster-api.md, The verdict, with these differences:
///
/// - A deadline fires at its instant (`<=`), not a second later, and keeps fractions of a second.
/// - `status.failureReason` and `failureMessage` count, wherever a Machine still carries them, and
///   before the state of the cluster is asked, as they did in Cluster API up to v1.10.
/// - What was not evaluated is counted as Cluster API counts it (docs/reference/cluster-api.md, Q4), and is still told apart from
///   healthy: no request is withdrawn because of it, and no False condition becomes True.
/// - An unreachable workload cluster hides the Node, and whether there is one: causes and timers that
///   the management cluster alone shows still count, the startup timeout does not.
/// - A time that lies ahead is believed, as there, and told of.
pub fn judge(
    check: &Check,
    cluster: &ClusterFacts,
    machine: &MachineFacts,
    node: &NodeView,
    now: Timestamp,
) -> Judgement {
    if machine.paused {
        return Judgement::settled(Verdict::Skipped(SkipReason::Paused));
    }
    if machine.skip_remediation {
        return Judgement::settled(Verdict::Skipped(SkipReason::SkipRemediation));
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
                    startup_began(cluster, machine),
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

/// Why the rules are not applied at all (docs/reference/cluster-api.md, The verdict).
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

/// Since when the startup timeout runs (docs/reference/cluster-api.md, The verdict).
fn startup_began(cluster: &ClusterFacts, machine: &MachineFacts) -> Timestamp {
    [
        cluster.control_plane_initialized,
        cluster.infrastructure_ready,
        machine.infrastructure_ready,
    ]
    .into_iter()
    .flatten()
    .fold(machine.created, Timestamp::max)
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
    fn settled(verdict: Verdict) -> Self {
        Self {
            verdict,
            changes_at: None,
            ahead: Vec::new(),
        }
    }

    /// Until when all of it holds if nothing but time changes: the verdict, and what lies ahead.
    pub fn holds_until(&self) -> Option<Timestamp> {
        let ends = self.ahead.iter().map(FutureCause::ends);
        ends.chain(self.changes_at).min()
    }
}

/// What the rules found, in their order: those that fail and those whose time still runs.
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

    /// Takes a cause that counts once it has held for as long as `timeout`.
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

    /// Applies rules to conditions. An absent condition matches no rule, not even one for
    /// `Unknown`; one that does not say since when it holds cannot time out.
    fn match_rules(
        &mut self,
        rules: &[ConditionRule],
        conditions: &[Condition],
        cause: fn(&ConditionRule, &Condition) -> Cause,
    ) {
        for rule in rules {
            if let Some(condition) = rule.matching(conditions)
                && let Some(since) = condition.last_transition
            {
                self.time(cause(rule, condition), since, rule.timeout);
            }
        }
    }

    /// The verdict: what failed, else what runs, else `otherwise`.
    fn conclude(self, machine: &MachineFacts, otherwise: Verdict) -> Judgement {
        let verdict = if !self.failed.is_empty() {
            Verdict::Unhealthy {
                causes: self.failed,
            }
        } else if let Some(until) = self.next {
            // A machine on its way out is not coming up, so it gets no benefit of the doubt.
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
