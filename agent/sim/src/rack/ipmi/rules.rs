//! Faults of an IPMI BMC: an ordered list of rules, each with a target, an action and a count.
//!
//! Pure: decides on the fault of a packet, and counts down. Must never: affect the machine: a fault
//! changes what the BMC reports or accepts, not the real state.

use super::counters::Command;

/// Packets that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// RAKP message 1.
    Rakp1,
    Command(Command),
}

/// Action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drop the packet as if it had never arrived.
    Ignore,
    /// Process the packet, but lose the response.
    LoseAnswer,
    /// Report off until a power-off command was accepted, as a BMC does that has lost the state of
    /// a running host by its own reset.
    OffUntilCommanded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub on: Target,
    pub action: Action,
    /// Number of further packets that it applies to; `None`: no limit.
    pub remaining: Option<u32>,
}

impl Rule {
    /// A rule for all packets of this target.
    pub fn on(on: Target, action: Action) -> Self {
        Self {
            on,
            action,
            remaining: None,
        }
    }

    /// A rule for this command.
    pub fn command(command: Command, action: Action) -> Self {
        Self::on(Target::Command(command), action)
    }

    /// The same rule, for this many packets.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }
}

/// The rules, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet(Vec<Rule>);

impl RuleSet {
    pub(super) fn add(&mut self, rule: Rule) {
        self.0.push(rule);
    }

    /// Ends [`Action::OffUntilCommanded`] after an accepted power-off command.
    pub(super) fn power_off_taken(&mut self) {
        self.0
            .retain(|rule| rule.action != Action::OffUntilCommanded);
    }

    /// The action of the first rule for this target, which counts down.
    pub(super) fn decide(&mut self, arrived: Target) -> Option<Action> {
        let applies = |rule: &&mut Rule| rule.on == arrived && rule.remaining != Some(0);
        let rule = self.0.iter_mut().find(applies)?;
        rule.remaining = rule.remaining.map(|count| count.saturating_sub(1));
        Some(rule.action)
    }
}
