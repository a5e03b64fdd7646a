//! The flow of OpenShift's `external-baremetal` for one Machine (docs/reference/openshift.md, The check).
//!
//! Owns the order of its steps. Must never begin where OpenShift's own controller acts, or may act.

use super::super::OpenShiftMachine;

/// Progress of the remediation of a Machine under `external-baremetal`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalProgress {
    /// There is no remediation.
    None,
    /// The external remediation has neither succeeded nor failed.
    Running,
    /// The host was power-cycled and the Node is back.
    Succeeded,
    /// The remediation has no attempt left.
    Failed,
    /// The remediation ended before anything was done to the host.
    Aborted,
}

/// The controller that carries out the mark of `external-baremetal`. OpenShift's own Machine controller
/// for bare metal does so wherever it runs; two controllers would switch one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MarkCarrier {
    /// Rackhand carries out the mark.
    Rackhand,
    /// OpenShift's own Machine controller carries out the mark.
    OpenShift,
    /// It is unknown whether that controller runs (the cause), so Rackhand does not act.
    Unknown(String),
}

/// The next step of the flow of `external-baremetal` for one Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalStep {
    /// Nothing has to be done for the Machine now.
    Nothing,
    /// Create the remediation by which the host is fenced and power-cycled.
    Create,
    /// Remove `host.metal3.io/external-remediation` from the Machine, before the remediation is deleted: in
    /// the opposite order, a crash between the two would begin a second power cycle.
    Unmark,
    /// Delete the remediation: the mark is gone.
    Withdraw,
    /// Delete the Machine, so that its owner has the host provisioned anew.
    DeleteMachine,
    /// An operator has to act: the Machine cannot be replaced.
    Blocked,
}

/// The next step for a Machine that carries, or has carried, the mark of `external-baremetal`.
///
/// `reprovisionable`: the host is not externally provisioned. A Machine is deleted only as OpenShift's
/// own actuator does it: with a controller that replaces it, and never a master.
pub fn external_step(
    machine: &OpenShiftMachine,
    carried: &ExternalProgress,
    reprovisionable: bool,
) -> ExternalStep {
    match (machine.external_remediation, carried) {
        (false, ExternalProgress::None) => ExternalStep::Nothing,
        (false, _) => ExternalStep::Withdraw,
        (true, _) if machine.facts.deleting => ExternalStep::Nothing,
        (true, ExternalProgress::None) => ExternalStep::Create,
        (true, ExternalProgress::Running) => ExternalStep::Nothing,
        (true, ExternalProgress::Succeeded) => ExternalStep::Unmark,
        (true, ExternalProgress::Failed)
            if reprovisionable && machine.controlled && !machine.facts.control_plane =>
        {
            ExternalStep::DeleteMachine
        }
        (true, ExternalProgress::Failed | ExternalProgress::Aborted) => ExternalStep::Blocked,
    }
}

/// The controller that carries out a mark. `installed`: whether OpenShift's own Machine controllers are
/// in this cluster, or why that is unknown; `begun`: the Machine has fields that only they write.
pub fn mark_carrier(installed: Result<bool, String>, begun: bool) -> MarkCarrier {
    match installed {
        _ if begun => MarkCarrier::OpenShift,
        Ok(true) => MarkCarrier::OpenShift,
        Ok(false) => MarkCarrier::Rackhand,
        Err(why) => MarkCarrier::Unknown(why),
    }
}
