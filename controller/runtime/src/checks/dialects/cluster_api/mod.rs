//! MachineHealthChecks of Cluster API.

pub(in crate::checks) mod facts;
mod machine_status;
mod status;
#[cfg(test)]
mod table;

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION, conditions::EXTERNALLY_REMEDIATED},
    views::{MachineHealthCheckView, MachineView, Meta, TemplateRef},
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
        index::{Entry, Index},
        object::{Key, Kind},
    },
};

/// The dialect of Cluster API.
pub(crate) struct ClusterApi;

impl MachineDialect for ClusterApi {
    type Rules = Check;
    type View = MachineHealthCheckView;
    type Extra = std::convert::Infallible;

    const CHECK: Kind = Kind::MachineHealthCheck;
    const MACHINE: Kind = Kind::Machine;
    const FEEDS: &'static [Kind] = &[Kind::MachineHealthCheck, Kind::Cluster, Kind::Machine];
    const OWNER: Owner = Owner::ClusterApi;
    const WRITES_MACHINES: bool = true;

    fn check(index: &Index, key: &Key) -> Option<Entry<MachineHealthCheckView>> {
        index.check(key)
    }

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
            view,
            meta,
            cluster,
            source,
        })
    }

    fn template(view: &MachineHealthCheckView) -> Option<&TemplateRef> {
        view.remediation_template.as_ref()
    }

    fn selects(spec: &Spec<Self>, labels: &BTreeMap<String, String>) -> bool {
        labels.get(CLUSTER_NAME_LABEL) == Some(&spec.cluster.name)
            && spec.view.selector.matches(labels)
    }

    fn selects_alike(one: &MachineHealthCheckView, other: &MachineHealthCheckView) -> bool {
        one.selector == other.selector
    }

    fn machine(index: &Index, key: &Key) -> Option<Entry<MachineView>> {
        index.machine(key)
    }

    fn selected_machine(index: &Index, spec: &Spec<Self>, key: &Key) -> Option<Entry<MachineView>> {
        index.select_machine(key, |labels| Self::selects(spec, labels))
    }

    fn machines_of_node(index: &Index, cluster: &Key, node: &str) -> Vec<Key> {
        index.machines_of_node(cluster, node)
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

    fn hands_over(extra: &Self::Extra) -> bool {
        match *extra {}
    }

    fn creates(extra: &Self::Extra) -> bool {
        match *extra {}
    }

    async fn perform(job: Job<Self>) -> Result<EffectOutcome, ApiError> {
        match job.extra {}
    }

    async fn write_machine(
        context: &Context,
        check: &Key,
        machine: &Key,
        status: &MachineStatus,
    ) -> Result<(), ApiError> {
        machine_status::write(context, check, machine, status).await
    }

    fn shows_stale(context: &Context, machine: &Key) -> bool {
        let index = &context.index;
        index.machine_mentions(machine, EXTERNALLY_REMEDIATED)
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
