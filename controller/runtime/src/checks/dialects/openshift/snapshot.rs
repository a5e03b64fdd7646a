//! The fleet of a check of OpenShift, from given objects, for explanations.
//!
//! Pure: decides nothing, and reads neither an API nor the index.

use kube::api::DynamicObject;
use rackhand_api::{
    names::{BARE_METAL_HOST_ANNOTATION, GROUP, groups, kinds},
    views::{BareMetalHostView, MachineView, OpenShiftHealthCheckView},
};
use rackhand_core::checks::machines::{
    Claim, ExternalStep, MachineRemediation, OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy,
    OpenShiftTarget, Verdict,
};

use super::{external_remediation, facts};
use crate::{checks::FleetObjects, store::object::Key};

/// One selected Machine.
pub(crate) struct MachineSeen {
    pub(crate) view: MachineView,
    pub(crate) target: OpenShiftTarget,
    /// Whether OpenShift's own Machine controller has begun to remediate the host.
    pub(crate) begun: bool,
    mark: external_remediation::Mark,
    reprovisionable: bool,
}

/// The selected Machines, ordered by name.
#[derive(Default)]
pub(crate) struct OpenShiftFleet {
    pub(crate) machines: Vec<MachineSeen>,
    /// Machines that cannot be parsed, with the cause; they are left out.
    pub(crate) unread: Vec<String>,
}

/// The rules of a check, ignoring pauses.
pub(crate) fn openshift_rules(view: &OpenShiftHealthCheckView) -> OpenShiftCheck {
    facts::rules(view)
}

/// The facts of a Machine.
pub(crate) fn openshift_machine(view: &MachineView) -> OpenShiftMachine {
    facts::machine(view)
}

// === impl FleetObjects ===

impl FleetObjects {
    /// The Machines that a check of OpenShift selects, with Node and remediation.
    pub(crate) fn select_openshift(
        &self,
        view: &OpenShiftHealthCheckView,
        namespace: &str,
    ) -> OpenShiftFleet {
        let rules = facts::rules(view);
        let mut found = OpenShiftFleet::default();
        for object in self.of(groups::OPENSHIFT_MACHINE, kinds::MACHINE) {
            if Key::of(object).namespace != namespace {
                continue;
            }
            let machine = match MachineView::from_dynamic(object) {
                Ok(machine) => machine,
                Err(error) => {
                    found.unread.push(error.to_string());
                    continue;
                }
            };
            if !view.selector.matches(&machine.meta.labels) {
                continue;
            }
            let key = Key::new(namespace, &machine.meta.name);
            let remediation = self.get(GROUP, kinds::POWER_REMEDIATION, &key);
            found.machines.push(MachineSeen {
                target: OpenShiftTarget {
                    machine: facts::machine(&machine),
                    node: self.node(machine.node_name.as_deref()),
                    remediation: self.remediation_of_openshift(view, &rules, &machine, namespace),
                },
                begun: external_remediation::begun(&machine),
                mark: external_remediation::read(remediation, &machine.meta.uid),
                reprovisionable: self.reprovisionable(&machine),
                view: machine,
            });
        }
        found
            .machines
            .sort_by(|a, b| a.view.meta.name.cmp(&b.view.meta.name));
        found
    }

    /// The claim of a check for one of its Machines, by which the acting check is chosen.
    pub(crate) fn claim_of_openshift(
        &self,
        check: &OpenShiftHealthCheckView,
        dry_run: bool,
        machine: &MachineView,
        namespace: &str,
    ) -> Claim {
        let rules = facts::rules(check);
        let remediation = self.remediation_of_openshift(check, &rules, machine, namespace);
        facts::claim(check, &rules, dry_run, &remediation, machine)
    }

    fn remediation_of_openshift(
        &self,
        view: &OpenShiftHealthCheckView,
        rules: &OpenShiftCheck,
        machine: &MachineView,
        namespace: &str,
    ) -> MachineRemediation {
        match (rules.strategy, &view.remediation_template) {
            (OpenShiftStrategy::Template, Some(template)) => {
                self.remediation(template, machine, namespace)
            }
            (OpenShiftStrategy::ExternalBaremetal, _) => {
                self.remediation_of(GROUP, kinds::POWER_REMEDIATION, machine, namespace)
            }
            _ => MachineRemediation::None,
        }
    }

    /// Whether the host of a Machine can be provisioned again.
    fn reprovisionable(&self, machine: &MachineView) -> bool {
        let named = machine.meta.annotations.get(BARE_METAL_HOST_ANNOTATION);
        let host: Option<&DynamicObject> = named.and_then(|name| {
            let key = Key::parse(name);
            self.get(groups::METAL3, kinds::BARE_METAL_HOST, &key)
        });
        host.and_then(|object| BareMetalHostView::from_dynamic(object).ok())
            .is_some_and(|host| !host.externally_provisioned)
    }
}

// === impl MachineSeen ===

impl MachineSeen {
    /// The next step of the external remediation.
    pub(crate) fn mark_step(&self, verdict: &Verdict) -> ExternalStep {
        facts::mark_step(&self.view, &self.mark, Some(verdict), self.reprovisionable)
    }
}
