//! Messages of the view of a MachineHealthCheck of OpenShift.

use super::{
    machines::{Dialect, MachineEntry},
    messages::{condition_rule, startup_rule},
};
use crate::checks::machines::{
    ExternalStep, MarkCarrier, OpenShiftAction, OpenShiftCheck, OpenShiftMachine, Verdict,
};

/// The annotation that marks a Machine for `external-baremetal`.
const MARK: &str = "host.metal3.io/external-remediation";
/// Kind of the remediations of `external-baremetal`.
const KIND: &str = "PowerRemediation";

/// The step that is due for a marked Machine.
#[derive(Debug, Clone)]
pub struct MarkStep<'a> {
    /// Name of the Machine.
    pub machine: &'a str,
    /// Kind and name of its owner.
    pub owner: Option<&'a str>,
    /// The step that is due.
    pub step: ExternalStep,
    /// The controller that carries out the mark.
    pub carrier: MarkCarrier,
}

// === impl MarkStep ===

impl MarkStep<'_> {
    /// What the step does; `None` for [`ExternalStep::Nothing`].
    pub fn message(&self) -> Option<String> {
        let name = self.machine;
        Some(match (self.step, &self.carrier) {
            (ExternalStep::Nothing, _) => return None,
            (ExternalStep::DeleteMachine, _) => delete_message(name, self.owner),
            (ExternalStep::Create, MarkCarrier::Rackhand) => {
                format!("creates {KIND} {name}: its host is power-cycled")
            }
            (ExternalStep::Create, MarkCarrier::OpenShift) => {
                format!("leaves the host of Machine {name} to OpenShift's own Machine controller")
            }
            (ExternalStep::Create, MarkCarrier::Unknown(why)) => format!(
                "does not begin with the host of Machine {name} before it is known whether \
                 OpenShift's own Machine controller does: {why}"
            ),
            (ExternalStep::Unmark, _) => {
                format!("removes {MARK} from Machine {name}: its host came back")
            }
            (ExternalStep::Withdraw, _) => {
                format!("deletes {KIND} {name}: the mark is gone")
            }
            (ExternalStep::Blocked, _) => format!(
                "reports on Machine {name} that a person is needed: its host did not come back, and \
                 it cannot be replaced"
            ),
        })
    }
}

impl Dialect for OpenShiftCheck {
    fn rules(&self) -> Vec<String> {
        let node = self.common.node_conditions.iter();
        ["phase Failed at once".to_owned()]
            .into_iter()
            .chain(node.map(|rule| condition_rule("Node", rule)))
            .chain([startup_rule(self.common.startup_timeout)])
            .collect()
    }

    fn action_message(action: &OpenShiftAction, kind: &str, owner: Option<&str>) -> String {
        match action {
            OpenShiftAction::CreateRemediation { machine, .. } => {
                format!("creates {kind} {machine}")
            }
            OpenShiftAction::DeleteRemediation { machine } => {
                format!("deletes {kind} {machine}: the machine is healthy again")
            }
            OpenShiftAction::ReportForeignRemediation { machine, owner } => {
                format!("reports on Machine {machine} that {kind} {machine} belongs to {owner}")
            }
            OpenShiftAction::MarkExternal { machine } => {
                format!("puts {MARK} on Machine {machine}: its host is to be power-cycled")
            }
            OpenShiftAction::DeleteMachine { machine, .. } => delete_message(machine, owner),
            OpenShiftAction::SkipNoController { machine } => {
                format!(
                    "reports on Machine {machine} that it has no controller that would replace it"
                )
            }
        }
    }

    fn idle_message(
        &self,
        entry: &MachineEntry<OpenShiftMachine>,
        verdict: &Verdict,
        remediation: Option<&str>,
    ) -> String {
        let is_marked = entry.target.machine.external_remediation;
        match (verdict, remediation) {
            (Verdict::Unhealthy { .. }, Some(remediation)) if is_marked => {
                format!("waits for {remediation}")
            }
            (Verdict::Unhealthy { .. }, None) if is_marked => "nothing more: it is marked".into(),
            _ => "nothing".into(),
        }
    }
}

fn delete_message(machine: &str, owner: Option<&str>) -> String {
    let owner = owner.unwrap_or("its owner");
    format!("deletes Machine {machine}: {owner} replaces it")
}
