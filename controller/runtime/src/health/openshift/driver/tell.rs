//! What is said of a look: numbers, Events, the status of the check.

use jiff::Timestamp;
use rackhand_core::health::{ExternalStep, OpenShiftAction, Verdict};

use super::{Done, Driver, UnderWay};
use crate::{
    health::{
        openshift::{
            act::Act,
            look::{Look, Spec},
            status::{self, Shown},
        },
        recipe::Unusable,
        shown::Asides,
    },
    object::Key,
};

impl Driver {
    /// Numbers and Events.
    pub(super) fn tell(&self, key: &Key, spec: &Spec, looked: &Look, asides: &Asides) {
        let (context, plan) = (&self.context, &looked.plan);
        let causes = looked.causes();
        let metrics = &context.metrics;
        metrics.check(key, &looked.tally(), plan.open, causes.into_iter());
        metrics.mapi().check(key, plan.expected, plan.open);
        if spec.dry_run {
            for (machine, act) in &looked.acts {
                tracing::info!(check = %key, machine = &**machine, ?act, "dry run: not done");
            }
            return;
        }
        let events = &context.events;
        for said in asides.said() {
            events.send(&spec.object, true, said.reason, said.message);
        }
        if !plan.open {
            events.send(&spec.object, true, "RemediationRestricted", &plan.message);
        }
        let say = |machine: &str, warning: bool, reason: &str, message: &str| {
            let key = Key::new(&key.namespace, machine);
            if let Some(entry) = context.index.openshift_machine(&key) {
                context.events.send(&entry.object, warning, reason, message);
            }
        };
        for (machine, verdict) in &plan.verdicts {
            if let Verdict::Unhealthy { causes } = verdict {
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                let message = format!("MachineHealthCheck {key}: {}", causes.join("; "));
                say(machine, false, "DetectedUnhealthy", &message);
            }
        }
        for (machine, act) in &looked.acts {
            match act {
                Act::Plan(OpenShiftAction::SkipNoController { .. }) => {
                    let message = "Machine has no controller that would replace it; not remediated";
                    say(machine, false, "SkippedNoController", message);
                }
                Act::Plan(OpenShiftAction::ReportForeignRequest { .. }) => {
                    if let Some(Unusable { reason, why }) = act.in_the_way() {
                        say(machine, true, reason, &why);
                    }
                }
                Act::Mark(ExternalStep::Blocked, ..) => {
                    let message = "Its host did not come back, and the Machine cannot be replaced by \
                                   itself: see its PowerRemediation, and take the annotation \
                                   host.metal3.io/external-remediation off when it is settled";
                    say(machine, true, "CannotBeRemediated", message);
                }
                _ => {}
            }
        }
    }

    /// Writes the status where it says something else.
    pub(super) fn show(
        &mut self,
        key: &Key,
        spec: &Spec,
        looked: &Look,
        asides: Asides,
        now: Timestamp,
    ) {
        if spec.dry_run {
            return;
        }
        let plan = &looked.plan;
        let failed = self
            .unmade
            .iter()
            .find(|(item, _)| item.check == *key && looked.acts.contains_key(&item.machine));
        let failed = failed.map(|(_, why)| why.clone());
        let foreign = || looked.acts.values().find_map(Act::in_the_way);
        let shown = Shown {
            expected: plan.expected,
            healthy: plan.healthy,
            allowed: plan.remediations_allowed,
            open: plan.open,
            message: plan.message.clone(),
            failed: failed.or_else(foreign),
            asides,
        };
        if let Some(body) = status::patch(&spec.object, &spec.view, &shown, now) {
            self.write(key, body);
        }
    }

    pub(super) fn write(&mut self, key: &Key, body: serde_json::Value) {
        if self.later.contains_key(key) || !self.writing.insert(key.clone()) {
            return;
        }
        let (context, check) = (self.context.clone(), key.clone());
        let task = async move {
            let written = status::write(&context, &check, body).await;
            Done::Status(check, written)
        };
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, UnderWay::Status(key.clone()));
    }
}
