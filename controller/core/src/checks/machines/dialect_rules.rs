//! The interface of a dialect of MachineHealthCheck to a [`super::Fleet`]: how a Machine is evaluated and
//! counted, when the limit allows remediation, and which action follows.

use std::fmt::Debug;

use jiff::Timestamp;

use super::{
    Action, Check, ClusterFacts, Condition, ConditionRule, Counts, FleetCounts,
    HealthConditionWrite, Judgement, LimitStatus, MachineFacts, NodeView, Target, Verdict, action,
    health_condition, judge,
};

/// The rules of one check.
pub trait DialectRules: Clone + PartialEq {
    /// The facts about a Machine that the rules use.
    type Machine: Clone + Debug + PartialEq;
    /// An action for a Machine.
    type Action: Clone + Debug + PartialEq;

    /// `metadata.name` of a Machine.
    fn name(machine: &Self::Machine) -> &str;

    /// `metadata.uid` of a Machine.
    fn uid(machine: &Self::Machine) -> &str;

    /// The conditions of a Machine to which [`Self::machine_rules`] apply.
    fn conditions(machine: &mut Self::Machine) -> Option<&mut Vec<Condition>>;

    /// Whether the check is paused, so that nothing is due.
    fn is_paused(&self) -> bool;

    /// The rules on conditions of Nodes.
    fn node_rules(&self) -> &[ConditionRule];

    /// The rules on conditions of Machines.
    fn machine_rules(&self) -> &[ConditionRule];

    /// Evaluates one Machine.
    fn judge(
        &self,
        cluster: &ClusterFacts,
        machine: &Self::Machine,
        node: &NodeView,
        now: Timestamp,
    ) -> Judgement;

    /// How a Machine counts.
    fn counts(&self, target: &Target<Self::Machine>, verdict: &Verdict) -> Counts;

    /// The state of the limit with its message. `names`: the Machines that count against it, in order.
    fn gate<'a>(
        &self,
        tally: &FleetCounts,
        names: impl IntoIterator<Item = &'a str>,
    ) -> LimitStatus;

    /// Whether the limit allows remediation.
    fn is_open(&self, tally: &FleetCounts) -> bool;

    /// Whether the limit forbids remediation if all of `expected` members fail. If not, a burst need not
    /// settle (F13).
    fn can_close(&self, expected: u32) -> bool;

    /// The `HealthCheckSucceeded` that must be written to a Machine, if any.
    fn condition(&self, machine: &Self::Machine, verdict: &Verdict)
    -> Option<HealthConditionWrite>;

    /// The action for a Machine, if any. `open`: the limit allows remediation.
    fn action(
        &self,
        target: &Target<Self::Machine>,
        verdict: &Verdict,
        open: bool,
    ) -> Option<Self::Action>;
}

// === impl Check ===

impl DialectRules for Check {
    type Machine = MachineFacts;
    type Action = Action;

    fn name(machine: &MachineFacts) -> &str {
        &machine.name
    }

    fn uid(machine: &MachineFacts) -> &str {
        &machine.uid
    }

    fn conditions(machine: &mut MachineFacts) -> Option<&mut Vec<Condition>> {
        Some(&mut machine.conditions)
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn node_rules(&self) -> &[ConditionRule] {
        &self.node_conditions
    }

    fn machine_rules(&self) -> &[ConditionRule] {
        &self.machine_conditions
    }

    fn judge(
        &self,
        cluster: &ClusterFacts,
        machine: &MachineFacts,
        node: &NodeView,
        now: Timestamp,
    ) -> Judgement {
        judge(self, cluster, machine, node, now)
    }

    fn counts(&self, target: &Target, verdict: &Verdict) -> Counts {
        Counts::of(verdict, &target.remediation)
    }

    fn gate<'a>(
        &self,
        tally: &FleetCounts,
        names: impl IntoIterator<Item = &'a str>,
    ) -> LimitStatus {
        LimitStatus::new(self, tally, names)
    }

    fn is_open(&self, tally: &FleetCounts) -> bool {
        LimitStatus::is_open(self, tally)
    }

    fn can_close(&self, expected: u32) -> bool {
        expected > 0 && self.limit.allowance(expected, expected).is_none()
    }

    fn condition(&self, machine: &MachineFacts, verdict: &Verdict) -> Option<HealthConditionWrite> {
        health_condition(machine, verdict)
    }

    fn action(&self, target: &Target, verdict: &Verdict, open: bool) -> Option<Action> {
        action(self, target, verdict, open)
    }
}
