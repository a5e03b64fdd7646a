//! What differs between the dialects of MachineHealthCheck for a [`super::Fleet`].
//!
//! Owns that list: how a Machine is judged and counted, when the limit is open, and what is done about
//! the Machine.

use std::fmt::Debug;

use jiff::Timestamp;

use super::{
    Action, Check, ClusterFacts, Condition, ConditionRule, Counts, FleetCounts,
    HealthConditionWrite, Judgement, LimitStatus, MachineFacts, NodeView, Target, Verdict, action,
    health_condition, judge,
};

/// The rules of one check.
pub trait Policy: Clone + PartialEq {
    /// What the rules look at in a Machine.
    type Machine: Clone + Debug + PartialEq;
    /// One thing to do about a Machine.
    type Action: Clone + Debug + PartialEq;

    /// `metadata.name` of a Machine.
    fn name(machine: &Self::Machine) -> &str;

    /// `metadata.uid` of a Machine.
    fn uid(machine: &Self::Machine) -> &str;

    /// The conditions of a Machine that [`Self::machine_rules`] look at.
    fn conditions(machine: &mut Self::Machine) -> Option<&mut Vec<Condition>>;

    /// The check is paused: nothing is wanted.
    fn is_paused(&self) -> bool;

    /// The rules on conditions of Nodes.
    fn node_rules(&self) -> &[ConditionRule];

    /// The rules on conditions of Machines.
    fn machine_rules(&self) -> &[ConditionRule];

    /// Judges one Machine.
    fn judge(
        &self,
        cluster: &ClusterFacts,
        machine: &Self::Machine,
        node: &NodeView,
        now: Timestamp,
    ) -> Judgement;

    /// How a Machine counts.
    fn counts(&self, target: &Target<Self::Machine>, verdict: &Verdict) -> Counts;

    /// The state of the limit, in words too. `names`: the Machines that count against it, in order.
    fn gate<'a>(
        &self,
        tally: &FleetCounts,
        names: impl IntoIterator<Item = &'a str>,
    ) -> LimitStatus;

    /// The limit allows remediation.
    fn is_open(&self, tally: &FleetCounts) -> bool;

    /// Whether the limit forbids remediation once all of `expected` members fail. Where it does not, a
    /// burst need not be waited for (F13).
    fn can_close(&self, expected: u32) -> bool;

    /// The `HealthCheckSucceeded` that a Machine should carry, if it must be written.
    fn condition(&self, machine: &Self::Machine, verdict: &Verdict)
    -> Option<HealthConditionWrite>;

    /// What to do about a Machine, where the limit is `open` or is not.
    fn action(
        &self,
        target: &Target<Self::Machine>,
        verdict: &Verdict,
        open: bool,
    ) -> Option<Self::Action>;
}

// === impl Check ===

impl Policy for Check {
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
        Counts::of(verdict, &target.request)
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
