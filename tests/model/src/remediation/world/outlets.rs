//! The outlets that feed the host, each of its own PDU.
//!
//! The host loses its power, and its BMC with it, when both are off, and boots by its restore policy when one
//! is on again. An operation switches one outlet at a time, so that it may be left half done. Both outlets may also
//! feed another host, which has the restore policy "last state" and which an operator switches through the agent.

use rackhand_agent_core::ledger::SiblingPower;
use rackhand_core::remediation::{OUTLETS_PROTOCOL, PowerReading, PowerState, State};

use crate::remediation::{
    judge::Wrong,
    world::{
        Power, World,
        operation::{End, reading},
    },
};

/// What is wrong with the BMC from the beginning, so that the outlets are needed, or must not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It does not answer, and never will.
    Dead,
    /// It does not answer before it is healed.
    Silent,
    /// It belongs to another system (F5).
    OtherSystem,
}

/// The outlets of a host that is fed by two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outlets {
    /// Whether each is on.
    pub on: [bool; 2],
    /// The PDU of the second one does not answer.
    pub silent: bool,
    /// What is wrong with the BMC.
    pub bmc: Failure,
    /// Another host that both outlets feed: whether its BMC has it on; `None`: they feed no other host.
    pub sibling: Option<bool>,
    /// The BMC of that host does not answer although it has power.
    pub sibling_silent: bool,
}

impl Outlets {
    /// Both on, of PDUs that answer.
    pub fn new(bmc: Failure) -> Self {
        Self {
            on: [true; 2],
            silent: false,
            bmc,
            sibling: None,
            sibling_silent: false,
        }
    }

    /// Whether the host has power.
    pub fn feeds(&self) -> bool {
        self.on.contains(&true)
    }

    /// What the agent reads of them together; `None`: a PDU does not answer, which is not off.
    pub fn read(&self) -> Option<PowerState> {
        match self.on {
            _ if self.silent => None,
            [false, false] => Some(PowerState::Off),
            [true, true] => Some(PowerState::On),
            // Neither on nor off.
            _ => Some(PowerState::Unknown),
        }
    }
}

/// Whether an operation is one of the outlets.
pub fn is_of_outlets(id: &str) -> bool {
    id.contains("/outlets-")
}

/// A reading of the outlets.
pub fn outlet_reading(state: PowerState, since_start_ms: u64) -> PowerReading {
    PowerReading {
        protocol: OUTLETS_PROTOCOL.into(),
        ..reading(state, since_start_ms)
    }
}

impl World {
    /// Whether the outlets feed the host, or nothing is known of outlets.
    pub fn is_fed(&self) -> bool {
        self.outlets.is_none_or(|outlets| outlets.feeds())
    }

    /// What the agent reads for an operation: the outlets, or the BMC.
    pub fn read_by(&self, operation: &str) -> Option<PowerState> {
        if is_of_outlets(operation) {
            self.outlets.and_then(|outlets| outlets.read())
        } else {
            self.read_bmc()
        }
    }

    /// The same world where the outlets also feed another host, which is on or off.
    #[must_use]
    pub fn shared_with_sibling(mut self, on: bool) -> Self {
        if let Some(outlets) = &mut self.outlets {
            outlets.sibling = Some(on);
        }
        self
    }

    /// What is read of the other host that the outlets feed; `None`: they feed none.
    pub(crate) fn read_sibling(&self) -> Option<SiblingPower> {
        let outlets = self.outlets?;
        Some(match outlets.sibling? {
            _ if !outlets.feeds() || outlets.sibling_silent => {
                SiblingPower::Unread("no answer".into())
            }
            true => SiblingPower::NotOff("on".into()),
            false => SiblingPower::Off,
        })
    }

    /// An operator switches the other host by its BMC, if the agent accepts it.
    pub(crate) fn switch_sibling(&mut self, on: bool) {
        if self.read_sibling().is_none() {
            return;
        }
        let accepted = self.agent.accepts_sibling(on);
        if let Some(outlets) = &mut self.outlets
            && accepted
            && outlets.feeds()
        {
            outlets.sibling = outlets.sibling.map(|_| on);
        }
    }

    /// Somebody switches the other host on by its button, and its BMC stops answering.
    pub(crate) fn sibling_is_lost(&mut self) {
        if let Some(outlets) = &mut self.outlets
            && outlets.feeds()
        {
            outlets.sibling = outlets.sibling.map(|_| true);
            outlets.sibling_silent = true;
        }
    }

    /// The BMC of the other host answers again.
    pub(crate) fn sibling_answers(&mut self) {
        if let Some(outlets) = &mut self.outlets {
            outlets.sibling_silent = false;
        }
    }

    /// Switches the next outlet that is not as wanted. Returns whether all of them accepted: none is left.
    pub(crate) fn switch_outlet(&mut self, on: bool) -> bool {
        let Some(outlets) = self.outlets.as_mut().filter(|outlets| !outlets.silent) else {
            return false;
        };
        let fed = outlets.feeds();
        if let Some(outlet) = outlets.on.iter_mut().find(|outlet| **outlet != on) {
            *outlet = on;
        }
        let feeds = outlets.feeds();
        if fed && !feeds && outlets.sibling == Some(true) {
            self.broken(Wrong::Sibling);
        }
        match (fed, feeds) {
            (true, false) => self.cut(),
            (false, true) => self.powered(),
            _ => {}
        }
        self.outlets.is_some_and(|outlets| outlets.on == [on; 2])
    }

    /// The same world with outlets, and a BMC that fails.
    #[must_use]
    pub fn fed_by_outlets(mut self, bmc: Failure) -> Self {
        self.outlets = Some(Outlets::new(bmc));
        self.bmc.silent = bmc != Failure::OtherSystem;
        self.was_silent = self.bmc.silent;
        self
    }

    /// Whether the BMC never answers.
    pub(crate) fn has_dead_bmc(&self) -> bool {
        self.outlets.is_some_and(|o| o.bmc == Failure::Dead)
    }

    /// A PDU stops answering, or answers again.
    pub(crate) fn pdu_is_silent(&mut self, silent: bool) {
        if let Some(outlets) = &mut self.outlets {
            outlets.silent = silent;
        }
    }

    /// Somebody switches the first outlet on.
    pub(crate) fn outlet_button(&mut self) {
        let fed = self.is_fed();
        if let Some(outlets) = &mut self.outlets {
            outlets.on[0] = true;
        }
        if !fed && self.host.power == Power::Off {
            self.powered();
        }
    }

    /// The outlets are switched off only after the BMC could not prove off in this attempt, with the state
    /// saying so, and never after a mismatch of identities (F5).
    pub(crate) fn judge_outlets_off(&mut self, state: &State) {
        let ends = || {
            let bmc = self.agent.ledger.operations.values();
            let bmc = bmc.filter(|op| !is_of_outlets(&op.id));
            bmc.filter_map(|op| op.outcome.as_ref())
        };
        let is = |end: End| {
            ends().any(|outcome| {
                *outcome == rackhand_agent_core::ledger::RecordedOutcome::Reported(end)
            })
        };
        if is(End::Mismatch) {
            self.broken(Wrong::Identity);
        } else if state.attempt.outlets.is_none()
            || !is(End::Unconfirmed) && self.agent.journal == 0
        {
            self.broken(Wrong::Outlets);
        }
    }

    /// F9: no outlet is left off at the end.
    pub(crate) fn judge_outlets_left(&mut self) {
        if self.outlets.is_some_and(|outlets| outlets.on != [true; 2]) && !self.has_left_hold() {
            self.broken(Wrong::OutletsLeft);
        }
    }
}
