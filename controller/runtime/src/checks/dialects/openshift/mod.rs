//! MachineHealthChecks of OpenShift. Their Machines and Nodes are in the management cluster.

pub(super) mod actions;
pub(super) mod external_remediation;
pub(super) mod facts;
mod metrics;
mod snapshot;
mod status;

use kube::api::DynamicObject;
use rackhand_api::{
    names::DRY_RUN_ANNOTATION,
    views::{MachineView, Meta},
};
use rackhand_core::checks::machines::{
    ExternalStep, OpenShiftAction, OpenShiftCheck, OpenShiftMachine, OpenShiftStrategy, Verdict,
    ready_cluster,
};

pub(in crate::checks) use actions::unmark;
pub(crate) use external_remediation::controllers as openshift_controllers;
pub(in crate::checks) use metrics::OpenShiftMetrics;
pub(crate) use snapshot::{MachineSeen, OpenShiftFleet, openshift_machine, openshift_rules};

use crate::{
    checks::{
        Context,
        machines::{
            dialect::{Effect, Job, MachineDialect, PendingActionOf, Spec, Summary, Unread},
            remediation_source::RemediationSource,
        },
        remediations::{lifecycle::EffectOutcome, template::Unusable, withdrawal::Owner},
    },
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
    },
};
use actions::Extra;

/// The dialect of OpenShift.
pub(crate) struct OpenShift;

/// Whether a change may concern a check of OpenShift.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(Kind::OpenShiftMachine | Kind::OpenShiftCheck, _) => true,
        Change::Object(kind, _) => Kind::REMEDIATIONS.contains(kind),
        Change::Node(cluster, _) | Change::Workload(cluster) => *cluster == Key::local(),
        Change::Agent(_) => false,
    }
}

impl MachineDialect for OpenShift {
    type Rules = OpenShiftCheck;
    type Extra = Extra;

    const CHECK: Kind = Kind::OpenShiftCheck;
    const MACHINE: Kind = Kind::OpenShiftMachine;
    const FEEDS: &'static [Kind] = &[Kind::OpenShiftCheck, Kind::OpenShiftMachine];
    const OWNER: Owner = Owner::OpenShift;
    /// Changes of BareMetalHosts and of installed CRDs cause no event here.
    const RESYNCS_MACHINES: bool = true;
    const WRITES_MACHINES: bool = false;
    const WATCHES_OWN_NODES: bool = true;

    fn cluster_of(context: &Context, _: &Key, check: &DynamicObject) -> Option<Key> {
        let meta = Meta::of(check);
        let ours = context.ownership.evaluates(&meta) && !meta.is_deleting();
        ours.then(Key::local)
    }

    fn read(context: &Context, key: &Key) -> Result<Spec<Self>, Unread> {
        let entry = context.index.openshift_check(key);
        let entry = entry.ok_or(Unread::NotEvaluated)?;
        let meta = Meta::of(&entry.object);
        let ownership = &context.ownership;
        // A paused check is left alone, including its status.
        if !ownership.evaluates(&meta) || meta.is_deleting() || ownership.paused(&meta) {
            return Err(Unread::NotEvaluated);
        }
        let view = entry
            .view
            .map_err(|error| Unread::Invalid("InvalidSpec", error.to_string()))?;
        let rules = facts::rules(&view);
        let source = match rules.strategy {
            OpenShiftStrategy::Template => {
                RemediationSource::of(&key.namespace, view.remediation_template.as_ref())
            }
            // A Machine counts until the remediation of its annotation is gone (F10).
            OpenShiftStrategy::ExternalBaremetal => {
                RemediationSource::Index(Kind::PowerRemediation)
            }
            OpenShiftStrategy::Delete => RemediationSource::Nowhere,
        };
        Ok(Spec {
            rules,
            cluster_facts: ready_cluster(),
            dry_run: meta.is_annotated_true(DRY_RUN_ANNOTATION),
            cluster: Key::local(),
            selector: view.selector.clone(),
            template: view.remediation_template.clone(),
            meta,
            source,
        })
    }

    fn facts(view: &MachineView) -> OpenShiftMachine {
        facts::machine(view)
    }

    fn effect(
        context: &Context,
        spec: &Spec<Self>,
        machine: &Key,
        wanted: &PendingActionOf<'_, Self>,
    ) -> Option<Effect<Extra>> {
        let Some(action) = wanted.action.clone() else {
            let (step, view, mark) = next_step(context, spec, machine, wanted.verdict)?;
            return Extra::of_step(step, &view, mark.remediation).map(Extra::effect);
        };
        match action {
            OpenShiftAction::CreateRemediation { uid, .. } => {
                Some(Effect::CreateRemediation { uid })
            }
            OpenShiftAction::DeleteRemediation { .. } => Some(Effect::DeleteRemediation),
            OpenShiftAction::ReportForeignRemediation { owner, .. } => {
                Some(Effect::ReportForeignRemediation { owner })
            }
            OpenShiftAction::MarkExternal { .. } => Some(Extra::Mark.effect()),
            OpenShiftAction::DeleteMachine { uid, .. } => Some(
                Extra::DeleteMachine {
                    uid,
                    after_verdict: true,
                }
                .effect(),
            ),
            // Only an Event is sent.
            OpenShiftAction::SkipNoController { .. } => None,
        }
    }

    async fn perform(job: Job<Self>) -> Result<EffectOutcome, ApiError> {
        job.run().await
    }

    async fn write_status(context: &Context, key: &Key, summary: &Summary) -> Result<(), ApiError> {
        status::write(context, key, summary).await
    }

    async fn report_invalid(
        context: &Context,
        key: &Key,
        reason: &'static str,
        message: &str,
    ) -> Result<(), ApiError> {
        status::report_invalid(context, key, reason, message).await
    }

    fn announce(
        context: &Context,
        check: &Key,
        spec: &Spec<Self>,
        machine: &Key,
        wanted: &PendingActionOf<'_, Self>,
        acts: bool,
    ) {
        let send = |warning: bool, reason: &str, message: &str| {
            if let Some(entry) = context.index.openshift_machine(machine) {
                let events = &context.events;
                events.send(&entry.object, warning, reason, message);
            }
        };
        if let Verdict::Unhealthy { causes } = wanted.verdict {
            let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
            let message = format!("MachineHealthCheck {check}: {}", causes.join("; "));
            send(false, "DetectedUnhealthy", &message);
        }
        if !acts {
            return;
        }
        match &wanted.action {
            Some(OpenShiftAction::SkipNoController { .. }) => {
                let message = "Machine has no controller that would replace it; not remediated";
                send(false, "SkippedNoController", message);
            }
            Some(OpenShiftAction::ReportForeignRemediation { owner, .. }) => {
                let Unusable { reason, why } = Unusable::foreign(owner);
                send(true, reason, &why);
            }
            Some(_) => {}
            None => {
                let step = next_step(context, spec, machine, wanted.verdict);
                if step.is_some_and(|(step, ..)| step == ExternalStep::Blocked) {
                    let message = "Its host did not come back, and the Machine cannot be replaced by \
                                   itself: see its PowerRemediation, and take the annotation \
                                   host.metal3.io/external-remediation off when it is settled";
                    send(true, "CannotBeRemediated", message);
                }
            }
        }
    }
}

/// The next step of the external remediation of a Machine.
fn next_step(
    context: &Context,
    spec: &Spec<OpenShift>,
    machine: &Key,
    verdict: &Verdict,
) -> Option<(
    ExternalStep,
    std::sync::Arc<MachineView>,
    external_remediation::Mark,
)> {
    if spec.rules.strategy != OpenShiftStrategy::ExternalBaremetal {
        return None;
    }
    let index = &context.index;
    let view = index.openshift_machine(machine)?.view.ok()?;
    let mark = external_remediation::mark(index, machine, &view.meta.uid);
    let reprovisionable = facts::reprovisionable(index, &view);
    let step = facts::mark_step(&view, &mark, Some(verdict), reprovisionable);
    Some((step, view, mark))
}

#[cfg(test)]
mod tests;
