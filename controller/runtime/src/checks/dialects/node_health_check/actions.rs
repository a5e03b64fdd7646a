//! Carries out what a check wants for one Node, one action after another.
//!
//! Must never touch a remediation of somebody else: each is named by its UID where it is deleted.

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
use rackhand_core::nodes::{Action, Check, Disabled, HeldLease, RequestId, Step};
use serde_json::{Value, json};

use super::{
    leases::{NodeLease, Taken, held},
    rules::template,
    templates,
};
use crate::{
    checks::{
        Context,
        requests::{self, Deleted},
    },
    clusters::ask_guard,
    store::{
        api::{ApiError, call, optional},
        clock::whole_seconds,
        object::{Key, Kind, api},
    },
};

/// The check, and the Node that is acted for.
pub(super) struct ActionBatch {
    pub(super) context: Arc<Context>,
    pub(super) check: Arc<Check>,
    pub(super) references: Arc<[NodeTemplateRef]>,
    pub(super) node: String,
    /// The Node's UID; empty where it is gone.
    pub(super) uid: String,
    /// The Machine of OpenShift that it is.
    pub(super) machine: Option<Key>,
    /// This cluster is of OpenShift.
    pub(super) openshift: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(in crate::checks) struct Outcome {
    /// Remediations as they are now.
    pub(super) seen: Vec<DynamicObject>,
    /// Remediations that are gone.
    pub(super) gone: Vec<RequestId>,
    /// One was made.
    pub(super) created: Option<RequestId>,
    /// The Lease of the Node as it reads now; `Some(None)`: it is gone.
    pub(super) lease: Option<Option<HeldLease>>,
    /// Why nothing was made, and when to try again.
    pub(super) refused: Option<(Duration, String)>,
    /// Its templates cannot be used any more.
    pub(super) disabled: Option<Disabled>,
}

/// After OpenShift's guard of etcd said no, or nothing.
const GUARDED: Duration = Duration::from_secs(60);
/// After a Lease was refused.
const LEASED: Duration = Duration::from_secs(60);
/// After the API server refused a remediation.
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

    /// Takes or renews the Lease. Returns who else holds it, if somebody does.
    async fn take_lease(
        &self,
        lasts: Duration,
        anew: bool,
        outcome: &mut Outcome,
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

    /// Carries them out in their order; the first that fails ends it.
    pub(super) async fn run(&self, actions: Vec<Action>) -> (Outcome, Result<(), ApiError>) {
        let mut outcome = Outcome::default();
        for action in actions {
            if let Err(error) = self.one(action, &mut outcome).await {
                return (outcome, Err(error));
            }
        }
        (outcome, Ok(()))
    }

    async fn one(&self, action: Action, outcome: &mut Outcome) -> Result<(), ApiError> {
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
            Action::Delete { request, uid, .. } => self.delete(request, uid, outcome).await,
            Action::Delay { request, since, .. } => {
                let since = since.map(whole_seconds);
                let key = MEDIK8S_HEALTHY_DELAY_ANNOTATION;
                self.annotate(request, key, since, outcome).await
            }
            Action::TimeOut { request, at, .. } => {
                let at = Some(whole_seconds(at));
                let key = MEDIK8S_TIMED_OUT_ANNOTATION;
                self.annotate(request, key, at, outcome).await
            }
            Action::TellOld { request, .. } => {
                self.context.metrics.nodes.count_old(&self.node, &request);
                let flag = Some(MEDIK8S_OLD_VALUE.to_owned());
                self.annotate(request, MEDIK8S_OLD_ANNOTATION, flag, outcome)
                    .await
            }
            Action::RenewLease { lease, .. } => {
                // Whoever took it over meanwhile keeps it; ours runs on until it is taken away.
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

    /// What OpenShift's guard of etcd says against it, where it has a say.
    async fn guard_refuses(&self, asks_guard: bool) -> Option<String> {
        if !(asks_guard && self.openshift) {
            return None;
        }
        match ask_guard(self.context.client.clone(), &self.node).await {
            Ok(guard) => guard.refuses(),
            Err(why) => Some(format!("cannot query the etcd guard: {why}")),
        }
    }

    /// The reference to its Machine, where a remediation in this namespace can have one.
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
        outcome: &mut Outcome,
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
        let what = format!("{} {}/{name}", of.request_kind, of.namespace);
        let requests = api(&self.context.client, &found.resource, &of.namespace);
        let create = {
            let requests = requests.clone();
            move || async move { requests.create(&PostParams::default(), &body).await }
        };
        let writer = &self.context.writer;
        match writer.write("create_request", &what, create).await {
            Ok(made) => {
                outcome.created = Some(super::facts::request_id(&made));
                outcome.seen.push(made);
            }
            // Made by a call without an answer, by the leader before us, or by somebody else.
            Err(error) if error.is_conflict() => {
                let found = optional(call(&what, requests.get(&name)).await)?;
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
        request: RequestId,
        uid: String,
        outcome: &mut Outcome,
    ) -> Result<(), ApiError> {
        let (version, kind) = (&request.api_version, &request.kind);
        let key = Key::new(&*request.namespace, &*request.name);
        match requests::delete(&self.context, version, kind, &key, uid).await? {
            Deleted::Left(object) => outcome.seen.push(*object),
            Deleted::Gone => outcome.gone.push(request),
            Deleted::Replaced => {}
        }
        Ok(())
    }

    async fn annotate(
        &self,
        request: RequestId,
        key: &'static str,
        value: Option<String>,
        outcome: &mut Outcome,
    ) -> Result<(), ApiError> {
        let what = format!("{} {}/{}", request.kind, request.namespace, request.name);
        let found = self
            .context
            .served
            .resource_of(&self.context.client, &request.api_version, &request.kind)
            .await?;
        let Some(resource) = found else {
            return Ok(());
        };
        let requests = api(&self.context.client, &resource, &request.namespace);
        let patch = annotation(key, value.as_deref());
        let patch = move || async move {
            let params = PatchParams::default();
            requests
                .patch(&request.name, &params, &Patch::Merge(patch))
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
