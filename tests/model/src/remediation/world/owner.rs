//! baremetal-operator and Ironic, which own the power of a host (F16).
//!
//! Both may do nothing for any time: a stopped owner is one whose turn does not come. Ironic forces a host back
//! to the state that it has stored; on a held host only to off, because the power-on of a held host is
//! [`crate::remediation::actions::Fault::Button`].

use rackhand_core::remediation::{PowerDevice, RemediationOutcome, State};

use crate::remediation::{
    judge::Wrong,
    world::{Power, World},
};

/// What the owner has stored and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The power state in Ironic's database: on.
    pub stored: bool,
    /// `status.poweredOn`, copied when baremetal-operator last looked.
    pub reported: bool,
    /// The value of our hold key was changed since it was set.
    pub renewed: bool,
}

impl Owner {
    /// The owner of a host that is on.
    pub fn new() -> Self {
        Self {
            stored: true,
            reported: true,
            renewed: false,
        }
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// Whether the owner wants the host on.
    fn wants_on(&self) -> bool {
        self.hold == Some(false)
    }

    fn owner_reaches_bmc(&self) -> bool {
        self.hold.is_some() && !self.bmc.silent && !self.bmc.lying
    }

    /// Whether a look of baremetal-operator changes anything.
    pub(crate) fn can_operate(&self) -> bool {
        let owner = self.owner;
        let requests = owner.stored != self.wants_on() && self.owner_reaches_bmc();
        self.hold.is_some() && (owner.reported != owner.stored || requests)
    }

    /// baremetal-operator copies Ironic's state and requests what the BareMetalHost asks for. Ironic records a state
    /// that is reached already.
    pub(crate) fn operates(&mut self) {
        self.owner.reported = self.owner.stored;
        if self.owner_reaches_bmc() && self.owner.stored != self.wants_on() {
            self.owner.stored = self.wants_on();
            self.switch(self.owner.stored);
        }
    }

    /// Whether Ironic forces the host to its stored state.
    pub(crate) fn can_force(&self) -> bool {
        let differs = match self.host.power {
            Power::On | Power::GoingOn(_) => !self.owner.stored,
            Power::Off => self.owner.stored && self.wants_on(),
            Power::GoingOff(_) => false,
        };
        self.owner_reaches_bmc() && differs
    }

    /// Ironic forces the host to its stored state.
    pub(crate) fn forces(&mut self) {
        self.switch(self.owner.stored);
    }

    /// F16: the agent switches on only a host that Ironic has as on.
    pub(crate) fn judge_owner(&mut self, device: PowerDevice) {
        if self.hold.is_some() && device == PowerDevice::Bmc && !self.owner.stored {
            self.broken(Wrong::BehindOwner);
        }
    }

    /// F16: a host that is back is not switched off again by Ironic, with nobody watching.
    pub(crate) fn judge_undone(&mut self, outcome: RemediationOutcome, state: Option<&State>) {
        let told = state.is_some_and(|s| s.attempt.handover.unreported.is_some());
        let succeeded = outcome == RemediationOutcome::Succeeded;
        if self.hold.is_some() && succeeded && !self.owner.stored && !told {
            self.broken(Wrong::Undone);
        }
    }
}
