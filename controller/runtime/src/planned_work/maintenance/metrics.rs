//! How many maintenances there are.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use rackhand_core::maintenance::MaintenancePhase;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    phase: String,
}

const PHASES: [MaintenancePhase; 7] = [
    MaintenancePhase::Pending,
    MaintenancePhase::Evicting,
    MaintenancePhase::PoweringOff,
    MaintenancePhase::Parked,
    MaintenancePhase::Ending,
    MaintenancePhase::Ended,
    MaintenancePhase::Failed,
];

/// The metrics of maintenances.
#[derive(Clone, Default)]
pub(crate) struct MaintenanceMetrics {
    by_phase: Family<Labels, Gauge>,
}

impl MaintenanceMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "rackhand_host_maintenances",
            "HostMaintenances by phase",
            metrics.by_phase.clone(),
        );
        metrics.set(std::iter::empty());
        metrics
    }

    /// Counts the phases anew.
    pub(super) fn set(&self, phases: impl Iterator<Item = MaintenancePhase>) {
        let all: Vec<MaintenancePhase> = phases.collect();
        for phase in PHASES {
            let count = all.iter().filter(|seen| **seen == phase).count();
            let labels = Labels {
                phase: format!("{phase:?}"),
            };
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.by_phase.get_or_create(&labels).set(count);
        }
    }
}
