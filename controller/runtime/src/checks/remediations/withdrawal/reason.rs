//! The reason why a remediation is orphaned, from the index or from live reads.

use kube::api::DynamicObject;
use rackhand_api::{
    names::CAPI_PAUSED_ANNOTATION,
    views::{
        MachineHealthCheckView, MachineView, OpenShiftHealthCheckView, TemplateRef, ViewError,
        group_of,
    },
};
use rackhand_core::checks::machines::{CheckState, orphaned};

use super::{
    CreatedRemediation, Owner, WithdrawalReason,
    checks::{live_checks, state, state_of_openshift},
};
use crate::store::index::Index;

impl CreatedRemediation {
    /// Why the remediation is withdrawn. `check` is the state of the check that created it, `None` if that check
    /// is gone.
    fn reason(
        &self,
        index: &Index,
        check: Option<&CheckState>,
        machine: &MachineView,
    ) -> Option<WithdrawalReason> {
        if !self.owners.contains(&machine.meta.uid) {
            return None;
        }
        let maker = self.maker.uid.as_str();
        let (covered, machine_paused) = match self.owner {
            Owner::ClusterApi => {
                let makes = |view: &MachineHealthCheckView| {
                    self.is_from(view.remediation_template.as_ref())
                };
                let covered = live_checks(index, machine, makes).any(|uid| uid != maker);
                (covered, machine.meta.has_annotation(CAPI_PAUSED_ANNOTATION))
            }
            // A Machine of OpenShift has no pause of its own.
            Owner::OpenShift => (self.is_covered_in_openshift(maker, index, machine), false),
        };
        let orphan = orphaned(maker, check, covered, machine_paused)?;
        Some(WithdrawalReason(self.check(), orphan))
    }

    /// The state of the check that created the remediation, for its Machine, from the index; `None` if that check
    /// is gone.
    ///
    /// # Errors
    /// The check cannot be parsed.
    fn indexed_check(
        &self,
        index: &Index,
        machine: &MachineView,
    ) -> Result<Option<CheckState>, ViewError> {
        let key = self.check();
        match self.owner {
            Owner::ClusterApi => {
                let check = index.check(&key);
                let check = check.filter(|entry| self.is_made_by(&entry.object));
                let view = check.map(|entry| entry.view).transpose()?;
                Ok(view.map(|view| self.state(index, &view, machine)))
            }
            Owner::OpenShift => {
                let check = index.openshift_check(&key);
                let check = check.filter(|entry| self.is_made_by(&entry.object));
                let view = check.map(|entry| entry.view).transpose()?;
                Ok(view.map(|view| self.state_in_openshift(&view, machine)))
            }
        }
    }

    /// Like [`Self::indexed_check`], from a check that was read live.
    fn live_check(
        &self,
        index: &Index,
        check: Option<&DynamicObject>,
        machine: &MachineView,
    ) -> Result<Option<CheckState>, ViewError> {
        let Some(check) = check.filter(|check| self.is_made_by(check)) else {
            return Ok(None);
        };
        Ok(Some(match self.owner {
            Owner::ClusterApi => self.state(
                index,
                &MachineHealthCheckView::from_dynamic(check)?,
                machine,
            ),
            Owner::OpenShift => {
                self.state_in_openshift(&OpenShiftHealthCheckView::from_dynamic(check)?, machine)
            }
        }))
    }

    /// Whether exactly this check created the remediation, by its UID.
    fn is_made_by(&self, check: &DynamicObject) -> bool {
        check.metadata.uid.as_deref() == Some(&self.maker.uid)
    }

    fn state(
        &self,
        index: &Index,
        view: &MachineHealthCheckView,
        machine: &MachineView,
    ) -> CheckState {
        let makes = self.is_from(view.remediation_template.as_ref());
        state(index, view, machine, makes)
    }

    fn state_in_openshift(
        &self,
        view: &OpenShiftHealthCheckView,
        machine: &MachineView,
    ) -> CheckState {
        state_of_openshift(view, machine, self.is_made_by_openshift(view))
    }

    /// Whether this check of OpenShift creates such remediations.
    fn is_made_by_openshift(&self, view: &OpenShiftHealthCheckView) -> bool {
        let template = view.remediation_template.as_ref();
        if self.for_mark {
            template.is_none() && view.external_baremetal
        } else {
            self.is_from(template)
        }
    }

    /// Whether a check with this template creates such remediations.
    fn is_from(&self, template: Option<&TemplateRef>) -> bool {
        template.is_some_and(|t| {
            t.remediation_kind() == self.kind
                && group_of(&t.api_version) == group_of(&self.api_version)
        })
    }

    /// Whether another check of OpenShift would create the remediation.
    fn is_covered_in_openshift(&self, maker: &str, index: &Index, machine: &MachineView) -> bool {
        index
            .openshift_checks()
            .into_iter()
            .filter(|(key, _)| key.namespace == self.key.namespace)
            .filter_map(|(_, entry)| entry.view.ok())
            .map(|view| self.state_in_openshift(&view, machine))
            .any(|state| state.is_live() && state.makes && state.uid != maker)
    }

    /// Whether the index shows that the remediation is orphaned. The garbage collector deletes a remediation
    /// without its Machine; a check or a Machine that cannot be parsed is no reason.
    pub(in crate::checks) fn is_orphan_by_index(&self, index: &Index) -> bool {
        let machine = match self.owner {
            Owner::ClusterApi => index.machine(&self.key),
            Owner::OpenShift => index.openshift_machine(&self.key),
        };
        let Some(machine) = machine.and_then(|entry| entry.view.ok()) else {
            return false;
        };
        self.indexed_check(index, &machine)
            .is_ok_and(|check| self.reason(index, check.as_ref(), &machine).is_some())
    }

    /// Why live reads show that the remediation is orphaned, under the same conditions.
    pub(super) fn live_reason(
        &self,
        index: &Index,
        check: Option<&DynamicObject>,
        machine: Option<&DynamicObject>,
    ) -> Option<WithdrawalReason> {
        let machine = MachineView::from_dynamic(machine?).ok()?;
        let check = self.live_check(index, check, &machine).ok()?;
        self.reason(index, check.as_ref(), &machine)
    }
}
