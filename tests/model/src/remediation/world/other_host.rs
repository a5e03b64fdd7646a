//! Another host, to which the address of our BMC leads (F5). The workload API is away at first, so that the identity
//! that the BMC reports is compared with the Node only after the power-off.

use rackhand_core::remediation::{OperationOutcome, OperationView, PowerReading, PowerState};

use crate::remediation::{
    judge::Wrong,
    world::{
        World,
        outlets::{Failure, Outlets},
    },
};

/// What the BMC reports, which is not the system UUID of our Node.
const SYSTEM: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";

/// The other host, and the workload API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherHost {
    /// Its power is on.
    pub on: bool,
    /// The workload API does not answer.
    pub away: bool,
}

impl World {
    /// The same world where the BMC switches another host, and the workload API is away.
    #[must_use]
    pub fn of_another_host(mut self) -> Self {
        self.other = Some(OtherHost {
            on: true,
            away: true,
        });
        self
    }

    /// Whether the workload API is away.
    pub(crate) fn is_workload_away(&self) -> bool {
        self.other.is_some_and(|other| other.away)
    }

    /// The workload API answers again.
    pub(crate) fn workload_answers(&mut self) {
        if let Some(other) = &mut self.other {
            other.away = false;
        }
    }

    /// Whether the address of the BMC leads to another system.
    pub(crate) fn has_wrong_bmc(&self) -> bool {
        let is_other = |outlets: Outlets| outlets.bmc == Failure::OtherSystem;
        self.other.is_some() || self.outlets.is_some_and(is_other)
    }

    /// What the BMC of the other host reports; `None`: it is ours.
    pub(crate) fn read_other(&self) -> Option<PowerState> {
        Some(match self.other?.on {
            true => PowerState::On,
            false => PowerState::Off,
        })
    }

    /// Puts the identity that the BMC reports into a reading.
    pub(crate) fn identified(&self, mut reading: PowerReading) -> PowerReading {
        if self.other.is_some() {
            reading.identity = SYSTEM.into();
        }
        reading
    }

    /// The same for the readings of an operation.
    pub(crate) fn identified_view(&self, mut view: OperationView) -> OperationView {
        if let OperationView::Finished {
            outcome: OperationOutcome::Confirmed { readings, .. },
            ..
        } = &mut view
        {
            for reading in readings {
                *reading = self.identified(reading.clone());
            }
        }
        view
    }

    /// F5: the other host is not left off at the end, unless its BMC was silent.
    pub(crate) fn judge_other_host(&mut self) {
        if self.other.is_some_and(|other| !other.on) && !self.was_silent {
            self.broken(Wrong::OtherLeftOff);
        }
    }
}
