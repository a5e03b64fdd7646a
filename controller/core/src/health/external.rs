//! The flow of OpenShift's `external-baremetal` for one Machine (docs/reference/openshift.md, The check).
//!
//! Owns the order of its steps. Must never begin where OpenShift's own controller does, or may.

use super::OpenShiftMachine;

/// How far the request of a Machine under `external-baremetal` is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalProgress {
    /// There is none.
    None,
    /// It is being carried out.
    Running,
    /// The host was power-cycled and the Node is back.
    Succeeded,
    /// No attempt is left.
    Failed,
    /// It ended before anything was done to the host.
    Aborted,
}

/// Who carries out the mark of `external-baremetal`. OpenShift's own Machine controller for bare metal
/// does so wherever it runs; two would switch one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MarkCarrier {
    /// Rackhand.
    Rackhand,
    /// OpenShift's own Machine controller.
    OpenShift,
    /// It is not known whether that one runs (why), so nobody is taken to be the one.
    Unknown(String),
}

/// The next step of the flow of `external-baremetal` for one Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalStep {
    /// Nothing.
    Nothing,
    /// Ask for the host to be fenced and power-cycled.
    Request,
    /// Take `host.metal3.io/external-remediation` off the Machine. Only then is the request deleted:
    /// the other way round a crash between the two would begin a second power cycle.
    Unmark,
    /// Delete the request: the mark is gone.
    Withdraw,
    /// Delete the Machine, so that its owner has the host provisioned anew.
    DeleteMachine,
    /// A person has to look: the Machine cannot be replaced.
    Blocked,
}

/// Carries the mark of `external-baremetal` through: fence, power cycle, recovery, and the mark away.
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
        (true, _) if machine.deleting => ExternalStep::Nothing,
        (true, ExternalProgress::None) => ExternalStep::Request,
        (true, ExternalProgress::Running) => ExternalStep::Nothing,
        (true, ExternalProgress::Succeeded) => ExternalStep::Unmark,
        (true, ExternalProgress::Failed)
            if reprovisionable && machine.controlled && !machine.master =>
        {
            ExternalStep::DeleteMachine
        }
        (true, ExternalProgress::Failed | ExternalProgress::Aborted) => ExternalStep::Blocked,
    }
}

/// Who carries out a mark. `installed`: whether OpenShift's own Machine controllers are in this
/// cluster, or why that cannot be seen; `begun`: the Machine carries what only they write.
pub fn mark_carrier(installed: Result<bool, String>, begun: bool) -> MarkCarrier {
    match installed {
        _ if begun => MarkCarrier::OpenShift,
        Ok(true) => MarkCarrier::OpenShift,
        Ok(false) => MarkCarrier::Rackhand,
        Err(why) => MarkCarrier::Unknown(why),
    }
}
