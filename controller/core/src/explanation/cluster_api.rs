//! Messages of the view of a MachineHealthCheck of Cluster API.

use super::{
    machines::{Dialect, MachineEntry},
    messages::{condition_rule, startup_rule},
};
use crate::checks::machines::{Action, Check, MachineFacts, Verdict};

impl Dialect for Check {
    fn rules(&self) -> Vec<String> {
        let machine = self.machine_conditions.iter();
        let node = self.node_conditions.iter();
        machine
            .map(|rule| condition_rule("Machine", rule))
            .chain(node.map(|rule| condition_rule("Node", rule)))
            .chain([startup_rule(self.startup_timeout)])
            .collect()
    }

    fn action_message(action: &Action, kind: &str, owner: Option<&str>) -> String {
        match action {
            Action::CreateRemediation { machine, .. } => format!("creates {kind} {machine}"),
            Action::DeleteRemediation { machine } => {
                format!("deletes {kind} {machine}: the machine is healthy again")
            }
            Action::MarkOwnerRemediated { machine } => {
                let owner = owner_name(owner);
                format!("hands Machine {machine} to {owner}: sets OwnerRemediated=False")
            }
            Action::UnmarkOwnerRemediated { machine } => format!(
                "removes OwnerRemediated from Machine {machine}: the machine is healthy again"
            ),
            Action::ReportForeignRemediation { machine, owner } => {
                format!("reports on Machine {machine} that {kind} {machine} belongs to {owner}")
            }
        }
    }

    fn idle_message(
        &self,
        entry: &MachineEntry<MachineFacts>,
        verdict: &Verdict,
        _: Option<&str>,
    ) -> String {
        match verdict {
            Verdict::Unhealthy { .. } if !self.external => {
                let owner = owner_name(entry.owner.as_deref());
                format!("nothing more: it was handed to {owner}")
            }
            _ => "nothing".into(),
        }
    }
}

fn owner_name(owner: Option<&str>) -> &str {
    owner.unwrap_or("nobody, because it has no owner that replaces it")
}
