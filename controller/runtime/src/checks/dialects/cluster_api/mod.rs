//! MachineHealthChecks of Cluster API.

pub(in crate::checks) mod facts;
mod machine_status;
mod status;
#[cfg(test)]
mod table;

use kube::api::DynamicObject;
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION},
    views::{MachineView, Meta},
};
use rackhand_core::checks::machines::{Action, Check, MachineFacts};

use crate::{
    checks::{
        Context,
        machines::{
            dialect::{
                Effect, Job, MachineDialect, MachineStatus, PendingActionOf, Spec, Summary, Unread,
            },
            remediation_source::RemediationSource,
        },
        remediations::{lifecycle::EffectOutcome, withdrawal::Owner},
    },
    store::{
        api::ApiError,
        object::{Key, Kind},
    },
};

/// The dialect of Cluster API.
pub(crate) struct ClusterApi;

impl MachineDialect for ClusterApi {
    type Rules = Check;
    type Extra = std::convert::Infallible;

    const CHECK: Kind = Kind::MachineHealthCheck;
    const MACHINE: Kind = Kind::Machine;
    const FEEDS: &'static [Kind] = &[Kind::MachineHealthCheck, Kind::Cluster, Kind::Machine];
    const OWNER: Owner = Owner::ClusterApi;
    const WRITES_MACHINES: bool = true;
    const RESYNCS_MACHINES: bool = false;
    const WATCHES_OWN_NODES: bool = false;

    fn cluster_of(_: &Context, key: &Key, check: &DynamicObject) -> Option<Key> {
        let name = status::cluster_name(check)?;
        Some(Key::new(&key.namespace, name))
    }

    fn read(context: &Context, key: &Key) -> Result<Spec<Self>, Unread> {
        let entry = context.index.check(key).ok_or(Unread::NotEvaluated)?;
        let meta = Meta::of(&entry.object);
        if !context.ownership.evaluates(&meta) || meta.is_deleting() {
            return Err(Unread::NotEvaluated);
        }
        let view = entry
            .view
            .map_err(|error| Unread::Invalid("InvalidSpec", error.to_string()))?;
        let name = view.cluster_name.clone().unwrap_or_default();
        let cluster = Key::new(&key.namespace, name);
        let Some(found) = context.index.cluster(&cluster) else {
            let message = format!("Cluster {cluster} does not exist");
            return Err(Unread::Invalid("ClusterNotFound", message));
        };
        let found = found
            .view
            .map_err(|error| Unread::Invalid("InvalidCluster", error.to_string()))?;
        let source = RemediationSource::of(&key.namespace, view.remediation_template.as_ref());
        let paused = context.ownership.paused(&meta) || found.is_paused();
        Ok(Spec {
            rules: facts::check(&view, paused),
            cluster_facts: facts::cluster(&found),
            dry_run: meta.is_annotated_true(DRY_RUN_ANNOTATION),
            // A Machine of another Cluster is never selected.
            selector: view.selector.clone().and(CLUSTER_NAME_LABEL, &cluster.name),
            template: view.remediation_template.clone(),
            meta,
            cluster,
            source,
        })
    }

    fn facts(view: &MachineView) -> MachineFacts {
        facts::machine(view)
    }

    fn effect(
        _: &Context,
        _: &Spec<Self>,
        _: &Key,
        wanted: &PendingActionOf<'_, Self>,
    ) -> Option<Effect<Self::Extra>> {
        Some(match wanted.action.clone()? {
            Action::CreateRemediation { uid, .. } => Effect::CreateRemediation { uid },
            Action::DeleteRemediation { .. } => Effect::DeleteRemediation,
            Action::ReportForeignRemediation { owner, .. } => {
                Effect::ReportForeignRemediation { owner }
            }
            Action::MarkOwnerRemediated { .. } => Effect::Report(EffectOutcome::OwnerMarked),
            Action::UnmarkOwnerRemediated { .. } => Effect::Report(EffectOutcome::OwnerUnmarked),
        })
    }

    async fn perform(job: Job<Self>) -> Result<EffectOutcome, ApiError> {
        match job.action {}
    }

    async fn write_machine(
        context: &Context,
        check: &Key,
        machine: &Key,
        status: &MachineStatus,
    ) -> Result<(), ApiError> {
        machine_status::write(context, check, machine, status).await
    }

    async fn write_status(context: &Context, key: &Key, summary: &Summary) -> Result<(), ApiError> {
        status::check_status(context, key, summary).await
    }

    async fn report_invalid(
        context: &Context,
        key: &Key,
        reason: &'static str,
        message: &str,
    ) -> Result<(), ApiError> {
        match context.index.check(key) {
            Some(entry) => status::report_invalid(context, &entry.object, reason, message).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
