//! Whether Ironic will switch a host off that is on (F16).
//!
//! Ironic forces a host to the power state that it has stored, and baremetal-operator reports that state. Somebody may
//! have switched the host on behind its back: a person, or a remediation that ended without a word of its owner.

use crate::remediation::PowerState;

/// Readings, one after the other, before it is reported: `status.poweredOn` is late by a poll of
/// baremetal-operator.
const READINGS: u32 = 2;

/// What baremetal-operator says about the power of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnerReport {
    /// `status.poweredOn`.
    pub powered_on: Option<bool>,
    /// `spec.online`, and no annotation keeps the host off.
    pub wants_on: bool,
    /// The host is provisioned, and not detached from Ironic.
    pub owns: bool,
}

/// How often one after the other a host was read on while its owner has it as off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnerDifference {
    readings: u32,
}

impl OwnerDifference {
    /// Records a reading. Returns whether it begins or ends to be reported.
    pub fn record(&mut self, power: PowerState, owner: OwnerReport) -> bool {
        let before = self.is_reported();
        let differs = power == PowerState::On
            && owner.owns
            && owner.wants_on
            && owner.powered_on == Some(false);
        self.readings = match differs {
            true => self.readings.saturating_add(1),
            false => 0,
        };
        before != self.is_reported()
    }

    /// Whether the host will be switched off as soon as Ironic synchronises its power.
    #[must_use]
    pub fn is_reported(self) -> bool {
        self.readings >= READINGS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_host_that_is_on_while_its_owner_has_it_as_off_is_reported_after_two_readings() {
        let off = OwnerReport {
            powered_on: Some(false),
            wants_on: true,
            owns: true,
        };
        let mut seen = OwnerDifference::default();
        assert!(!seen.record(PowerState::On, off) && !seen.is_reported());
        assert!(seen.record(PowerState::On, off) && seen.is_reported());
        assert!(!seen.record(PowerState::On, off), "it is reported once");
        let on = OwnerReport {
            powered_on: Some(true),
            ..off
        };
        assert!(seen.record(PowerState::On, on) && !seen.is_reported());
    }

    #[test]
    fn host_that_its_owner_keeps_off_or_does_not_own_is_not_reported() {
        let off = OwnerReport {
            powered_on: Some(false),
            wants_on: true,
            owns: true,
        };
        let held = OwnerReport {
            wants_on: false,
            ..off
        };
        let detached = OwnerReport { owns: false, ..off };
        let unknown = OwnerReport {
            powered_on: None,
            ..off
        };
        for (power, owner) in [
            (PowerState::Off, off),
            (PowerState::Unknown, off),
            (PowerState::On, held),
            (PowerState::On, detached),
            (PowerState::On, unknown),
        ] {
            let mut seen = OwnerDifference::default();
            for _ in 0..3 {
                assert!(!seen.record(power, owner), "{power:?} {owner:?}");
            }
        }
    }
}
