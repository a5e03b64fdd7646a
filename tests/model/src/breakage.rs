//! Breakages: faults that are put around the real step function on purpose, to show that the checker
//! finds each.
//!
//! None of them changes the step function. Each distorts what it sees, what it decides, what is written
//! of that, or what is carried out.

use rackhand_core::remediation::{Command, Decision, Drain, Next, Observation, State, Step};

use crate::world::World;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the description says it")]
pub enum Breakage {
    TaintDuringPowerOff,
    DrainUnchecked,
    ReleaseSkipped,
}

impl Breakage {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::TaintDuringPowerOff,
        Self::DrainUnchecked,
        Self::ReleaseSkipped,
    ];

    /// What is done wrong.
    pub fn description(self) -> &'static str {
        match self {
            Self::TaintDuringPowerOff => "the taint is set while the power-off still runs",
            Self::DrainUnchecked => "the drain counts as finished at once",
            Self::ReleaseSkipped => "the hold in the agent's journal is not released",
        }
    }

    /// Distorts what the controller sees.
    pub fn observation(self, o: &mut Observation, _: &World) {
        if self == Self::DrainUnchecked {
            o.drain = o.drain.as_ref().map(|_| Drain::default());
        }
    }

    /// Distorts what it decides.
    pub fn decision(self, d: &mut Decision, _: &Observation, _: &World) {
        if self == Self::TaintDuringPowerOff
            && d.state.step == Step::PoweringOff
            && matches!(d.next, Next::Wait(_))
        {
            d.next = Next::Do(Command::AddTaint);
        }
    }

    /// Distorts what is written.
    pub fn write(self, _: &mut State) {}

    /// Whether a command counts as carried out although nothing was done.
    pub fn skips(self, command: &Command) -> bool {
        self == Self::ReleaseSkipped && matches!(command, Command::Release)
    }

    /// Whether the check immediately before the taint is left out as well. It refuses a taint without a
    /// proof, whatever was decided.
    pub fn is_unguarded(self) -> bool {
        self == Self::TaintDuringPowerOff
    }
}
