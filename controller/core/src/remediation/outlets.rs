//! The outlets of the PDUs that feed a host: the second way to cut its power.
//!
//! They are used only after the BMC could not prove off in the same attempt, and only together. What
//! was done to them is part of the stored state, so that they are switched on again on every path (F9).

use serde::{Deserialize, Serialize};

use super::{OffEvidence, PowerState, PowerView, State, Step};

/// Value of [`PowerReading::protocol`](super::PowerReading::protocol) of a reading of all outlets of a host.
pub const OUTLETS_PROTOCOL: &str = "outlets";

/// What switches the power of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PowerDevice {
    /// The BMC.
    Bmc,
    /// All outlets of the PDUs that feed the host, together.
    Outlets,
}

/// What was done to the outlets in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutletStage {
    /// The next power-off is through them, or they have been confirmed off.
    Off,
    /// They could not be confirmed off, and some may be off. The next power-off is through the BMC.
    Unproven,
    /// The BMC reported on while they were off, so they do not feed the host, or not alone. They are not
    /// used again in this attempt.
    Refuted,
    /// They are being switched on again.
    On,
    /// They were confirmed on after that.
    Restored,
}

/// The use of the outlets in an attempt. Written before the first command to them (F2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutletUse {
    /// All outlets of the host, for messages, as `PDU/outlet`.
    pub outlets: Vec<String>,
    /// Why the BMC could not confirm off, as a clause for messages.
    pub because: String,
    /// What was done to them.
    pub stage: OutletStage,
}

impl OutletUse {
    /// Whether some of them may be off.
    pub fn may_be_off(&self) -> bool {
        self.stage != OutletStage::Restored
    }

    /// The outlets, for messages.
    pub fn names(&self) -> String {
        self.outlets.join(", ")
    }
}

impl State {
    /// What carries out the operation of the current step.
    pub fn device(&self) -> PowerDevice {
        let stage = self.attempt.outlets.as_deref().map(|used| used.stage);
        match (self.step, stage) {
            (Step::PoweringOff | Step::AwaitingConfirmation, Some(OutletStage::Off))
            | (Step::PoweringOn | Step::Aborting, Some(OutletStage::On)) => PowerDevice::Outlets,
            _ => PowerDevice::Bmc,
        }
    }

    /// Whether the outlets are read, not only the BMC, to see that the host stays off (F3).
    pub fn reads_outlets(&self) -> bool {
        matches!(self.attempt.off, Some(OffEvidence::Outlets { .. })) && self.outlets_may_be_off()
    }

    /// Whether outlets were, or may have been, switched off in this attempt, and not on again.
    pub fn outlets_may_be_off(&self) -> bool {
        self.attempt
            .outlets
            .as_deref()
            .is_some_and(OutletUse::may_be_off)
    }

    /// The next power-on is through the outlets, if they may be off.
    pub(super) fn restore_outlets(&mut self) {
        if let Some(used) = self
            .attempt
            .outlets
            .as_deref_mut()
            .filter(|used| used.may_be_off())
        {
            used.stage = OutletStage::On;
        }
    }

    /// Records what was done to the outlets.
    pub(super) fn set_outlets(&mut self, stage: OutletStage) {
        if let Some(used) = &mut self.attempt.outlets {
            used.stage = stage;
        }
    }
}

impl PowerView {
    /// The state of a host whose outlets were switched off. `bmc`: what its BMC answered meanwhile, if it
    /// did. A BMC that reports on contradicts the outlets; its silence does not, because it has no power.
    #[must_use]
    pub fn of_outlets(outlets: Self, bmc: Option<Self>) -> Self {
        let is_on = |view: &Self| {
            let state = view.result.as_ref().map(|reading| reading.state);
            matches!(state, Ok(PowerState::On | PowerState::PoweringOn))
        };
        if let Some(bmc) = bmc.filter(is_on) {
            return bmc;
        }
        let is_other =
            |view: &Self| matches!(&view.result, Ok(r) if r.protocol != OUTLETS_PROTOCOL);
        if is_other(&outlets) {
            let why = "the agent did not read the outlets; update rackhand-agent";
            return Self {
                result: Err(why.into()),
                ..outlets
            };
        }
        outlets
    }
}
