//! Execution of a check's actions for one Node, one after another.
//!
//! Invariant: a remediation is deleted by its UID, so that a remediation of another owner is never deleted.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_api::{
    names::{
        MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION, MEDIK8S_HEALTHY_DELAY_ANNOTATION,
        MEDIK8S_OLD_ANNOTATION, MEDIK8S_OLD_VALUE, MEDIK8S_TIMED_OUT_ANNOTATION,
    },
    views::NodeTemplateRef,
};
use rackhand_core::checks::nodes::{Action, Check, Disabled, HeldLease, RemediationId, Step};
use serde_json::{Value, json};

use super::{
    leases::{NodeLease, Taken, held},
    rules::template,
    templates,
};
use crate::{
    checks::{
        Context,
        remediations::lifecycle::{self, Deleted},
    },
    clusters::ask_guard,
    store::{
        api::{ApiError, call, optional},
        clock::whole_seconds,
        object::{Key, Kind, api},
    },
};

/// Actions for one Node of a check.
pub(super) struct ActionBatch {
    pub(super) context: Arc<Context>,
    pub(super) check: Arc<Check>,
    pub(super) references: Arc<[NodeTemplateRef]>,
    pub(super) node: String,
    /// The UID of the Node; empty if the Node is gone.
    pub(super) uid: String,
    /// The Machine of OpenShift that the Node belongs to.
    pub(super) machine: Option<Key>,
    /// Whether the cluster runs OpenShift.
    pub(super) openshift: bool,
}

/// The result of a batch of actions.
#[derive(Debug, Default)]
pub(in crate::checks) struct BatchOutcome {
    /// Current versions of remediations.
    pub(super) seen: Vec<DynamicObject>,
    /// Remediations that no longer exist.
    pub(super) gone: Vec<RemediationId>,
    /// The created remediation.
    pub(super) created: Option<RemediationId>,
    /// The current Lease of the Node; `Some(None)` if it no longer exists.
    pub(super) lease: Option<Option<HeldLease>>,
    /// The pause before the next attempt and the cause, if no remediation was created.
    pub(super) refused: Option<(Duration, String)>,
    /// Why the templates can no longer be used.
    pub(super) disabled: Option<Disabled>,
}

/// Pause after OpenShift's etcd guard has refused or could not be read.
const GUARDED: Duration = Duration::from_secs(60);
/// Pause after a Lease could not be taken.
const LEASED: Duration = Duration::from_secs(60);
/// Pause after the API server has rejected a remediation.
const REFUSED: Duration = Duration::from_secs(10);

impl ActionBatch {
    fn lease(&self) -> NodeLease<'_> {
        NodeLease {
            context: &self.context,
            node: &self.node,
            uid: &self.uid,
            check: &self.check.name,
        }
    }

    /// Takes or renews the Lease. Returns the other holder, if there is one.
    async fn take_lease(
        &self,
        lasts: Duration,
        anew: bool,
        outcome: &mut BatchOutcome,
    ) -> Result<Option<String>, ApiError> {
        match self.lease().take(lasts, anew).await? {
            Taken::Ours(lease) => {
                outcome.lease = Some(Some(held(&lease)));
                Ok(None)
            }
            Taken::Refused(holder, lease) => {
                outcome.lease = lease.map(|lease| Some(held(&lease)));
                Ok(Some(holder))
            }
        }
    }

    /// Carries out the actions in order until the first failure.
    pub(super) async fn run(&self, actions: Vec<Action>) -> (BatchOutcome, Result<(), ApiError>) {
        let mut outcome = BatchOutcome::default();
        for action in actions {
            if let Err(error) = self.one(action, &mut outcome).await {
                return (outcome, Err(error));
            }
        }
        (outcome, Ok(()))
    }

    async fn one(&self, action: Action, outcome: &mut BatchOutcome) -> Result<(), ApiError> {
        match action {
            Action::Create {
                step,
                control_plane,
                lease,
                anew,
                asks_guard,
                ..
            } => {
                if let Some(why) = self.guard_refuses(asks_guard).await {
                    outcome.refused = Some((GUARDED, why));
                    return Ok(());
                }
                self.create(&step, control_plane, (lease, anew), outcome)
                    .await
            }
            Action::Delete {
                remediation, uid, ..
            } => self.delete(remediation, uid, outcome).await,
            Action::Delay {
                remediation, since, ..
            } => {
                let since = since.map(whole_seconds);
                let key = MEDIK8S_HEALTHY_DELAY_ANNOTATION;
                self.annotate(remediation, key, since, outcome).await
            }
            Action::TimeOut {
                remediation, at, ..
            } => {
                let at = Some(whole_seconds(at));
                let key = MEDIK8S_TIMED_OUT_ANNOTATION;
                self.annotate(remediation, key, at, outcome).await
            }
            Action::TellOld { remediation, .. } => {
                self.context
                    .metrics
                    .nodes
                    .count_old(&self.node, &remediation);
                let flag = Some(MEDIK8S_OLD_VALUE.to_owned());
                self.annotate(remediation, MEDIK8S_OLD_ANNOTATION, flag, outcome)
                    .await
            }
            Action::RenewLease { lease, .. } => {
                // A Lease that another holder took over meanwhile is left alone, and the remediation
                // continues.
                self.take_lease(lease, false, outcome).await.map(drop)
            }
            Action::ReleaseLease { .. } => {
                self.lease().release().await?;
                outcome.lease = Some(None);
                Ok(())
            }
            Action::Unconfirm { .. } => self.unconfirm().await,
        }
    }

    /// Why OpenShift's etcd guard refuses the power-off, if it applies and refuses.
    async fn guard_refuses(&self, asks_guard: bool) -> Option<String> {
        if !(asks_guard && self.openshift) {
            return None;
        }
        match ask_guard(self.context.client.clone(), &self.node).await {
            Ok(guard) => guard.refuses(),
            Err(why) => Some(format!("cannot query the etcd guard: {why}")),
        }
    }

    /// The ownerReference to the Machine, if a remediation in this namespace can have one.
    async fn machine_owner(&self, namespace: &str) -> Result<Option<Value>, ApiError> {
        let Some(key) = self.machine.as_ref().filter(|m| m.namespace == namespace) else {
            return Ok(None);
        };
        let (client, kind) = (&self.context.client, Kind::OpenShiftMachine);
        let served = self.context.served.find(client, kind.group(), kind.kind());
        let Ok(Some(resource)) = served.await else {
            return Ok(None);
        };
        let machines = api(&self.context.client, &resource, namespace);
        let what = format!("Machine {key}");
        let found = optional(call(&what, machines.get(&key.name)).await)?;
        Ok(found.and_then(|machine| machine.metadata.uid).map(|uid| {
            json!({
                "apiVersion": resource.api_version, "kind": resource.kind, "name": key.name,
                "uid": uid,
            })
        }))
    }

    async fn create(
        &self,
        step: &Step,
        control_plane: bool,
        (lease, anew): (Duration, bool),
        outcome: &mut BatchOutcome,
    ) -> Result<(), ApiError> {
        let of = &step.template;
        let Some(reference) = self.references.iter().find(|r| template(r) == *of) else {
            return Ok(());
        };
        let found =
            match templates::one(&self.context, &self.check, reference, self.openshift).await? {
                Ok(found) => found,
                Err(disabled) => {
                    outcome.disabled = Some(disabled);
                    return Ok(());
                }
            };
        let machine = self.machine_owner(&of.namespace).await?;
        if let Some(holder) = self.take_lease(lease, anew, outcome).await? {
            outcome.refused = Some((LEASED, format!("its Lease is held by {holder}")));
            return Ok(());
        }
        let mut body = found.remediation(&self.check, of, &self.node, control_plane, machine);
        self.context.ownership.mark(&mut body);
        let name = body.metadata.name.clone().unwrap_or_default();
        let what = format!("{} {}/{name}", of.remediation_kind, of.namespace);
        let remediations = api(&self.context.client, &found.resource, &of.namespace);
        let create = {
            let remediations = remediations.clone();
            move || async move { remediations.create(&PostParams::default(), &body).await }
        };
        let writer = &self.context.writer;
        match writer.write("create_request", &what, create).await {
            Ok(made) => {
                outcome.created = Some(super::facts::remediation_id(&made));
                outcome.seen.push(made);
            }
            // Created by a call whose response was lost, by the previous leader, or by another client.
            Err(error) if error.is_conflict() => {
                let found = optional(call(&what, remediations.get(&name)).await)?;
                outcome.seen.extend(found);
            }
            Err(error) if matches!(error.label(), "invalid" | "forbidden" | "not_found") => {
                outcome.refused = Some((REFUSED, error.to_string()));
                self.lease().release().await?;
                outcome.lease = Some(None);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn delete(
        &self,
        remediation: RemediationId,
        uid: String,
        outcome: &mut BatchOutcome,
    ) -> Result<(), ApiError> {
        let (version, kind) = (&remediation.api_version, &remediation.kind);
        let key = Key::new(&*remediation.namespace, &*remediation.name);
        match lifecycle::delete(&self.context, version, kind, &key, uid).await? {
            Deleted::Left(object) => outcome.seen.push(*object),
            Deleted::Gone => outcome.gone.push(remediation),
            Deleted::Replaced => {}
        }
        Ok(())
    }

    async fn annotate(
        &self,
        remediation: RemediationId,
        key: &'static str,
        value: Option<String>,
        outcome: &mut BatchOutcome,
    ) -> Result<(), ApiError> {
        let what = format!(
            "{} {}/{}",
            remediation.kind, remediation.namespace, remediation.name
        );
        let found = self
            .context
            .served
            .resource_of(
                &self.context.client,
                &remediation.api_version,
                &remediation.kind,
            )
            .await?;
        let Some(resource) = found else {
            return Ok(());
        };
        let remediations = api(&self.context.client, &resource, &remediation.namespace);
        let patch = annotation(key, value.as_deref());
        let patch = move || async move {
            let params = PatchParams::default();
            remediations
                .patch(&remediation.name, &params, &Patch::Merge(patch))
                .await
        };
        let writer = &self.context.writer;
        let patched = writer.write("annotate_request", what, patch).await;
        outcome.seen.extend(optional(patched)?);
        Ok(())
    }

    async fn unconfirm(&self) -> Result<(), ApiError> {
        let nodes: Api<Node> = Api::all(self.context.client.clone());
        let patch = annotation(MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION, None);
        let (name, what) = (self.node.clone(), format!("Node {}", self.node));
        let patch = move || async move {
            let params = PatchParams::default();
            nodes.patch(&name, &params, &Patch::Merge(patch)).await
        };
        let writer = &self.context.writer;
        optional(writer.write("annotate_node", what, patch).await).map(drop)
    }
}

fn annotation(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}
