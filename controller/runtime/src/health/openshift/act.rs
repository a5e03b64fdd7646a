//! Carries out what a look asks for, for one Machine.
//!
//! Must never touch a Machine that came after the one that was judged.

use std::sync::Arc;

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use rackhand_api::{
    names::{GROUP, OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION, kinds},
    views::{MachineView, OpenShiftHealthCheckView},
};
use rackhand_core::health::{ExternalStep, MarkCarrier, OpenShiftAction, OpenShiftCheck};
use serde_json::{Value, json};

use super::{
    super::{
        Context,
        actions::{self, Acted},
        queue::Item,
        recipe::{self, Unusable},
        withdrawal::made_by,
    },
    external,
};
use crate::{
    api::{ApiError, optional, words},
    index::Entry,
    object::{Key, Kind, api},
};

/// What is done about a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// What the plan asks for.
    Plan(OpenShiftAction),
    /// A step of its mark, with the Machine's UID, and the request's, where there is one.
    Mark(ExternalStep, String, Option<String>),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done.
    Done,
    /// The request could not be made.
    NotRequested(Unusable),
    /// It is for OpenShift's own controller to do.
    LeftToOpenShift,
}

/// One thing to do, with all that it takes.
pub(super) struct Job {
    pub(super) context: Arc<Context>,
    pub(super) item: Item,
    pub(super) act: Act,
    pub(super) view: Arc<OpenShiftHealthCheckView>,
    pub(super) rules: OpenShiftCheck,
    /// The UID of the request, where one is to be deleted.
    pub(super) request: Option<String>,
}

impl Job {
    pub(super) async fn run(self) -> Result<Outcome, ApiError> {
        let (context, key) = (&self.context, self.item.key());
        match &self.act {
            Act::Plan(OpenShiftAction::CreateRequest { uid, .. }) => self.create(&key, uid).await,
            Act::Plan(OpenShiftAction::DeleteRequest { .. }) => {
                if let (Some(template), Some(uid)) = (&self.view.remediation_template, self.request)
                {
                    actions::delete(context, template, &key, uid).await?;
                }
                Ok(Outcome::Done)
            }
            Act::Plan(OpenShiftAction::MarkExternal { .. }) => self.mark(&key).await,
            Act::Plan(OpenShiftAction::DeleteMachine { uid, .. })
            | Act::Mark(ExternalStep::DeleteMachine, uid, _) => {
                self.delete_machine(&key, uid).await
            }
            Act::Mark(ExternalStep::Request, uid, _) => self.request_for_mark(&key, uid).await,
            Act::Mark(ExternalStep::Unmark, uid, _) => {
                let machine = self.machine(&key, uid)?;
                self.annotate(&machine, Value::Null).await
            }
            Act::Mark(ExternalStep::Withdraw, _, Some(request)) => {
                self.withdraw(&key, request).await
            }
            // Only said, and not done.
            Act::Plan(
                OpenShiftAction::SkipNoController { .. }
                | OpenShiftAction::ReportForeignRequest { .. },
            )
            | Act::Mark(..) => Ok(Outcome::Done),
        }
    }

    /// The Machine as it is known now, if it is still the one that was judged.
    fn machine(&self, key: &Key, uid: &str) -> Result<Entry<MachineView>, ApiError> {
        let known = self.context.index.openshift_machine(key);
        known
            .filter(|entry| entry.object.metadata.uid.as_deref() == Some(uid))
            .ok_or_else(|| ApiError::other(format!("Machine {key}"), "it is gone"))
    }

    async fn create(&self, key: &Key, uid: &str) -> Result<Outcome, ApiError> {
        let (context, check) = (&self.context, &self.item.check);
        let Some(template) = self.view.remediation_template.clone() else {
            return Ok(Outcome::Done);
        };
        let read = recipe::read(context, &check.namespace, template).await?;
        let known = context.index.openshift_machine(key);
        let maker = &self.view.meta.uid;
        let acted = actions::create(context, check, maker, key, known, uid, read).await?;
        Ok(match acted {
            Acted::NotRequested(unusable) => Outcome::NotRequested(unusable),
            _ => Outcome::Done,
        })
    }

    async fn mark(&self, key: &Key) -> Result<Outcome, ApiError> {
        let known = self.context.index.openshift_machine(key);
        let machine = known.ok_or_else(|| ApiError::other(key.to_string(), "it is gone"))?;
        let done = self.annotate(&machine, "".into()).await;
        let events = &self.context.events;
        match &done {
            Ok(_) => {
                let check = &self.item.check;
                let message =
                    format!("Requesting external remediation for MachineHealthCheck {check}");
                events.send(&machine.object, false, "ExternalAnnotationAdded", &message);
            }
            Err(error) => {
                let why = error.to_string();
                events.send(&machine.object, true, "ExternalAnnotationFailed", &why);
            }
        }
        done
    }

    /// Sets the mark or, with null, takes it off; only on the version of the Machine that was seen.
    async fn annotate(
        &self,
        machine: &Entry<MachineView>,
        value: Value,
    ) -> Result<Outcome, ApiError> {
        annotate(&self.context, &machine.object, value).await?;
        Ok(Outcome::Done)
    }

    async fn delete_machine(&self, key: &Key, uid: &str) -> Result<Outcome, ApiError> {
        let context = &self.context;
        let machine = self.machine(key, uid)?;
        let check = &self.item.check;
        match self.delete(Kind::OpenShiftMachine, key, uid).await {
            Ok(()) => {
                context.metrics.mapi().deleted(check);
                let message = format!("Machine {key} was deleted for MachineHealthCheck {check}");
                context
                    .events
                    .send(&machine.object, false, "MachineDeleted", &message);
                Ok(Outcome::Done)
            }
            Err(error) => {
                let why = error.to_string();
                context
                    .events
                    .send(&machine.object, true, "MachineDeletionFailed", &why);
                Err(error)
            }
        }
    }

    /// Deletes the object of that name and UID: the one that was seen, not one that came after it.
    async fn delete(&self, kind: Kind, key: &Key, uid: &str) -> Result<(), ApiError> {
        let objects = self.api(kind, key)?;
        let only = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let (name, what) = (key.name.clone(), format!("{} {key}", kind.kind()));
        let operation = if kind == Kind::OpenShiftMachine {
            "delete_machine"
        } else {
            "delete_request"
        };
        let deleted = self
            .context
            .writer
            .write(operation, what, move || async move {
                let deleted = objects.delete(&name, &only).await?;
                Ok(deleted.left())
            })
            .await;
        match optional(deleted)? {
            // Somebody's finalizer holds it.
            Some(Some(object)) => self.context.index.apply(kind, object),
            _ => self.context.index.delete(kind, key),
        }
        Ok(())
    }

    async fn request_for_mark(&self, key: &Key, uid: &str) -> Result<Outcome, ApiError> {
        let context = &self.context;
        let entry = self.machine(key, uid)?;
        let unread = |error: &_| ApiError::other(key.to_string(), error);
        let machine = entry.view.as_ref().map_err(unread)?;
        match external::carrier(context, machine).await {
            MarkCarrier::Rackhand => {}
            MarkCarrier::OpenShift => {
                let message = "The host of this Machine is left to OpenShift's own Machine controller, \
                               which acts on the same annotation; Rackhand does not touch it";
                let reason = "LeftToOpenShift";
                context.events.send(&entry.object, false, reason, message);
                return Ok(Outcome::LeftToOpenShift);
            }
            MarkCarrier::Unknown(why) => return Err(ApiError::other(key.to_string(), why)),
        }
        let served = &context.served;
        let found = served.find(&context.client, GROUP, kinds::POWER_REMEDIATION);
        let what = format!("PowerRemediation {key}");
        let resource = found
            .await
            .map_err(|error| ApiError::other(&what, words(&error)))?
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let requests = api(&context.client, &resource, &key.namespace);
        let made_by = made_by(&self.item.check.name, &self.view.meta.uid);
        let body = external::request(machine, self.rules.startup_timeout, &made_by);
        let made = context
            .writer
            .write("create_request", what, move || async move {
                requests.create(&PostParams::default(), &body).await
            })
            .await;
        match made {
            Ok(object) => context.index.apply(Kind::PowerRemediation, object),
            // Made a moment ago by the leader before us, and not seen yet.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(Outcome::Done)
    }

    async fn withdraw(&self, key: &Key, uid: &str) -> Result<Outcome, ApiError> {
        self.delete(Kind::PowerRemediation, key, uid).await?;
        Ok(Outcome::Done)
    }

    fn api(&self, kind: Kind, key: &Key) -> Result<Api<DynamicObject>, ApiError> {
        objects(&self.context, kind, key)
    }
}

fn objects(context: &Context, kind: Kind, key: &Key) -> Result<Api<DynamicObject>, ApiError> {
    let what = format!("{} {key}", kind.kind());
    let resource = context
        .served
        .known(kind)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    Ok(api(&context.client, &resource, &key.namespace))
}

/// Sets the mark of a Machine or, with null, takes it off; only on the version that was seen.
async fn annotate(
    context: &Context,
    machine: &DynamicObject,
    value: Value,
) -> Result<(), ApiError> {
    let metadata = &machine.metadata;
    let body = json!({ "metadata": {
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "annotations": { OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION: value },
    }});
    let key = Key::of(machine);
    let machines = objects(context, Kind::OpenShiftMachine, &key)?;
    let what = format!("annotations of Machine {key}");
    let patched = context
        .writer
        .write("machine_metadata", what, move || async move {
            let params = PatchParams::default();
            machines
                .patch(&key.name, &params, &Patch::Merge(body))
                .await
        })
        .await?;
    context.index.apply(Kind::OpenShiftMachine, patched);
    Ok(())
}

/// Takes the mark off a Machine that carries it.
pub(in crate::health) async fn unmark(
    context: &Context,
    machine: &DynamicObject,
) -> Result<(), ApiError> {
    let annotations = machine.metadata.annotations.as_ref();
    if annotations.is_some_and(|a| a.contains_key(OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION)) {
        annotate(context, machine, Value::Null).await?;
    }
    Ok(())
}

// === impl Act ===

impl Act {
    /// It is more than words.
    pub(super) fn is_done(&self) -> bool {
        !matches!(
            self,
            Self::Plan(
                OpenShiftAction::SkipNoController { .. }
                    | OpenShiftAction::ReportForeignRequest { .. }
            ) | Self::Mark(ExternalStep::Blocked | ExternalStep::Nothing, ..)
        )
    }

    /// Somebody else's request keeps this one from being made.
    pub(super) fn in_the_way(&self) -> Option<Unusable> {
        let Self::Plan(OpenShiftAction::ReportForeignRequest { machine, owner }) = self else {
            return None;
        };
        Some(Unusable {
            reason: "RemediationRequestCreationFailed",
            why: format!("a request {machine} exists and belongs to {owner}; delete it"),
        })
    }

    /// It hands an unhealthy Machine over, as the limit allows.
    pub(super) fn hands_over(&self) -> bool {
        matches!(
            self,
            Self::Plan(
                OpenShiftAction::CreateRequest { .. }
                    | OpenShiftAction::MarkExternal { .. }
                    | OpenShiftAction::DeleteMachine { .. }
            )
        )
    }

    /// A request may be there from when it is begun.
    pub(super) fn creates(&self) -> bool {
        matches!(
            self,
            Self::Plan(OpenShiftAction::CreateRequest { .. })
                | Self::Mark(ExternalStep::Request, ..)
        )
    }
}
