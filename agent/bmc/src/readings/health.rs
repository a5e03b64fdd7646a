//! Health of a whole host.

use super::Severity;

/// Health of the host with all its components, as the BMC reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HealthRollup {
    /// [`Severity::Unknown`]: not reported.
    pub severity: Severity,
}
