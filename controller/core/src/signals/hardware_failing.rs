//! `rackhand.dev/HardwareFailing`: a defect that stops hosts, by what the BMC or baremetal-operator reports.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    ConditionStatus::{self, False, True},
    SignalCondition, after, bounded,
};

/// How long a defect must be reported without an interruption before it counts.
const FAILING_AFTER: Duration = Duration::from_secs(60);
/// How long a host must be reported without a defect before the condition goes away.
const WELL_AFTER: Duration = Duration::from_secs(600);

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HardwareDefectKind {
    /// A temperature at which the host switches itself off.
    ThermalTrip,
    /// Memory errors that could not be corrected.
    UncorrectableMemory,
    /// The health rollup of the system is critical.
    HealthCritical,
    /// A power supply has failed, and no other one would take its place.
    PowerRedundancyLost,
}

impl HardwareDefectKind {
    /// The reason of the condition.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::ThermalTrip => "ThermalTrip",
            Self::UncorrectableMemory => "UncorrectableMemoryError",
            Self::HealthCritical => "HealthCritical",
            Self::PowerRedundancyLost => "PowerRedundancyLost",
        }
    }
}

/// A defect that an agent reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HardwareDefect {
    /// What fails; the worst one is named.
    pub kind: HardwareDefectKind,
    /// The entry or the property that says so, as the BMC wrote it.
    pub entry: String,
}

/// The conditions `Healthy` and `Manageable` of a BareMetalHost; `None` where baremetal-operator sets none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BareMetalHostReport {
    /// Whether the hardware is healthy.
    pub healthy: Option<bool>,
    /// Whether its BMC can be reached.
    pub manageable: Option<bool>,
    /// Message of the condition `Healthy`.
    pub message: String,
}

impl BareMetalHostReport {
    /// Whether it shows a defect. What it had read of a BMC that it does not reach any more shows nothing.
    fn is_failing(&self) -> bool {
        self.healthy == Some(false) && self.manageable != Some(false)
    }
}

/// Since when a host has been reported with a defect, or without one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HardwareHealth {
    failing_since: Option<Timestamp>,
    well_since: Option<Timestamp>,
}

/// The condition to publish; `None` leaves what is published. `reported`: `None` while the BMC cannot be read, which
/// neither begins nor ends anything.
pub fn hardware_failing(
    health: &mut HardwareHealth,
    host: &str,
    reported: Option<&[HardwareDefect]>,
    owner: &BareMetalHostReport,
    published: Option<ConditionStatus>,
    now: Timestamp,
) -> Option<SignalCondition> {
    let worst = reported.unwrap_or_default().iter().min();
    let is_failing = worst.is_some() || owner.is_failing();
    if !is_failing && reported.is_none() && owner.healthy != Some(true) {
        return None;
    }
    if is_failing {
        health.well_since = None;
        let since = *health.failing_since.get_or_insert(now);
        if published == Some(True) || after(since, FAILING_AFTER) > now {
            return None;
        }
        let (reason, entry) = match worst {
            Some(defect) => (defect.kind.label(), bounded(&defect.entry)),
            None => (
                "BareMetalHostUnhealthy",
                format!(
                    "condition Healthy of its BareMetalHost: {}",
                    bounded(&owner.message)
                ),
            ),
        };
        let message = format!(
            "the hardware of host {host} fails: {entry}; move its workload and have it repaired"
        );
        return Some(SignalCondition::new(True, reason, message));
    }
    health.failing_since = None;
    let since = *health.well_since.get_or_insert(now);
    if published != Some(True) || after(since, WELL_AFTER) > now {
        return None;
    }
    let message = format!(
        "the BMC of host {host} has reported no defect for {}",
        super::span(since, now)
    );
    Some(SignalCondition::new(False, "HardwareHealthy", message))
}
