//! What differs between the dialects of MachineHealthCheck: how a Machine is counted, when the limit allows
//! remediation, and what is done about a Machine. The verdict is the same in all.

use std::fmt::Debug;

use super::{
    Action, Check, Counts, FleetCounts, HealthConditionWrite, LimitStatus, MachineFacts, Target,
    Verdict, action, health_condition,
    limit_status::{allowance, refusal},
};

/// The rules of one check.
pub trait DialectRules: Clone + PartialEq {
    /// The facts about a Machine that the rules use.
    type Machine: Clone + Debug + PartialEq + AsRef<MachineFacts> + AsMut<MachineFacts>;
    /// An action for a Machine.
    type Action: Clone + Debug + PartialEq;

    /// The rules that all dialects share.
    fn common(&self) -> &Check;

    /// How a Machine counts.
    fn counts(&self, target: &Target<Self::Machine>, verdict: &Verdict) -> Counts;

    /// How many more Machines may fail before remediation stops; `None`: remediation is not allowed.
    fn allowance(&self, tally: &FleetCounts) -> Option<u32>;

    /// Why remediation is not allowed. `names`: the Machines that count against the limit, in order.
    fn refusal<'a>(&self, tally: &FleetCounts, names: impl IntoIterator<Item = &'a str>) -> String;

    /// The `HealthCheckSucceeded` that must be written to a Machine, if any.
    fn condition(_: &Self::Machine, _: &Verdict) -> Option<HealthConditionWrite> {
        None
    }

    /// Whether a Machine is under remediation without a remediation object.
    fn is_marked(&self, _: &Self::Machine) -> bool {
        false
    }

    /// The action for a Machine, if any. `open`: the limit allows remediation.
    fn action(
        &self,
        target: &Target<Self::Machine>,
        verdict: &Verdict,
        open: bool,
    ) -> Option<Self::Action>;
}

/// Whether the limit forbids remediation if all of `expected` members fail. If not, a burst need not settle (F13).
pub fn can_close<P: DialectRules>(rules: &P, expected: u32) -> bool {
    let all = FleetCounts {
        expected,
        unhealthy: expected,
        not_healthy: expected,
        ..FleetCounts::default()
    };
    rules.allowance(&all).is_none()
}

// === impl LimitStatus ===

impl LimitStatus {
    /// Compares the counts with the limit of a check. `names` are the machines that count, in order.
    pub fn new<'a, P: DialectRules>(
        rules: &P,
        tally: &FleetCounts,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let allowance = rules.allowance(tally);
        Self {
            open: allowance.is_some(),
            expected: tally.expected,
            not_healthy: tally.not_healthy,
            remediations_allowed: allowance.unwrap_or(0),
            message: match allowance {
                Some(_) => String::new(),
                None => rules.refusal(tally, names),
            },
        }
    }
}

// === impl Check ===

impl DialectRules for Check {
    type Machine = MachineFacts;
    type Action = Action;

    fn common(&self) -> &Check {
        self
    }

    fn counts(&self, target: &Target, verdict: &Verdict) -> Counts {
        Counts::of(verdict, &target.remediation)
    }

    fn allowance(&self, tally: &FleetCounts) -> Option<u32> {
        allowance(self.limit, tally)
    }

    fn refusal<'a>(&self, tally: &FleetCounts, names: impl IntoIterator<Item = &'a str>) -> String {
        refusal(self.limit, tally, names)
    }

    fn condition(machine: &MachineFacts, verdict: &Verdict) -> Option<HealthConditionWrite> {
        health_condition(machine, verdict)
    }

    fn action(&self, target: &Target, verdict: &Verdict, open: bool) -> Option<Action> {
        action(self, target, verdict, open)
    }
}
