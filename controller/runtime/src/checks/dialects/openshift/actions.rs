//! Execution of the actions on a Machine that only checks of OpenShift have.
//!
//! Invariant: an action changes only the Machine with the evaluated UID, never a later Machine of the same name.

use std::sync::Arc;

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use rackhand_api::{
    names::{GROUP, OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION, kinds},
    views::MachineView,
};
use rackhand_core::checks::machines::{ExternalStep, MarkCarrier};
use serde_json::{Value, json};

use super::{OpenShift, external_remediation};
use crate::{
    checks::{
        Context,
        machines::dialect::{Effect, Job},
        remediations::{lifecycle::EffectOutcome, withdrawal::made_by},
    },
    store::{
        api::{ApiError, optional, words},
        index::Entry,
        object::{Key, Kind, api},
    },
};

/// Actions on a Machine besides remediations from a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Set the annotation that requests external remediation.
    Mark,
    /// Remove the annotation from the Machine with this UID.
    Unmark { uid: String },
    /// Create the remediation that the annotation requests.
    CreateForMark { uid: String },
    /// Delete the remediation with this UID, because the annotation is gone.
    Withdraw { remediation: String },
    /// Delete the Machine with this UID.
    DeleteMachine {
        uid: String,
        /// Whether the verdict causes the deletion, and not a failed external remediation.
        after_verdict: bool,
    },
}

// === impl Extra ===

impl Extra {
    /// The action for a step of an external remediation; `None` if there is none.
    pub(super) fn of_step(
        step: ExternalStep,
        machine: &Arc<MachineView>,
        remediation: Option<String>,
    ) -> Option<Self> {
        let uid = machine.meta.uid.clone();
        match step {
            ExternalStep::Create => Some(Self::CreateForMark { uid }),
            ExternalStep::Unmark => Some(Self::Unmark { uid }),
            ExternalStep::Withdraw => remediation.map(|remediation| Self::Withdraw { remediation }),
            ExternalStep::DeleteMachine => Some(Self::DeleteMachine {
                uid,
                after_verdict: false,
            }),
            ExternalStep::Nothing | ExternalStep::Blocked => None,
        }
    }

    /// The effect that this action is.
    pub(super) fn effect(self) -> Effect<Self> {
        Effect::Extra {
            hands_over: matches!(
                self,
                Self::Mark
                    | Self::DeleteMachine {
                        after_verdict: true,
                        ..
                    }
            ),
            creates: matches!(self, Self::CreateForMark { .. }),
            action: self,
        }
    }
}

// === impl Job ===

impl Job<OpenShift> {
    pub(super) async fn run(self) -> Result<EffectOutcome, ApiError> {
        let key = &self.machine;
        match &self.action {
            Extra::Mark => self.mark(key).await?,
            Extra::Unmark { uid } => {
                let machine = self.machine(key, uid)?;
                annotate(&self.context, &machine.object, Value::Null).await?;
            }
            Extra::CreateForMark { uid } => return self.create_for_mark(key, uid).await,
            Extra::Withdraw { remediation } => {
                self.delete(Kind::PowerRemediation, key, remediation)
                    .await?;
            }
            Extra::DeleteMachine { uid, .. } => self.delete_machine(key, uid).await?,
        }
        Ok(EffectOutcome::Done)
    }

    /// The Machine in the index, if it still has the UID that was evaluated.
    fn machine(&self, key: &Key, uid: &str) -> Result<Entry<MachineView>, ApiError> {
        let known = self.context.index.openshift_machine(key);
        known
            .filter(|entry| entry.object.metadata.uid.as_deref() == Some(uid))
            .ok_or_else(|| ApiError::other(format!("Machine {key}"), "it is gone"))
    }

    async fn mark(&self, key: &Key) -> Result<(), ApiError> {
        let known = self.context.index.openshift_machine(key);
        let machine = known.ok_or_else(|| ApiError::other(key.to_string(), "it is gone"))?;
        let done = annotate(&self.context, &machine.object, "".into()).await;
        let events = &self.context.events;
        match &done {
            Ok(()) => {
                let check = &self.check;
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

    async fn delete_machine(&self, key: &Key, uid: &str) -> Result<(), ApiError> {
        let context = &self.context;
        let machine = self.machine(key, uid)?;
        let check = &self.check;
        match self.delete(Kind::OpenShiftMachine, key, uid).await {
            Ok(()) => {
                context.metrics.openshift.count_deletion(check);
                let message = format!("Machine {key} was deleted for MachineHealthCheck {check}");
                context
                    .events
                    .send(&machine.object, false, "MachineDeleted", &message);
                Ok(())
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

    /// Deletes the object with this name and UID, never a later one of the same name.
    async fn delete(&self, kind: Kind, key: &Key, uid: &str) -> Result<(), ApiError> {
        let objects = objects(&self.context, kind, key)?;
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
            // A finalizer keeps the object.
            Some(Some(object)) => self.context.index.apply(kind, object),
            _ => self.context.index.delete(kind, key),
        }
        Ok(())
    }

    async fn create_for_mark(&self, key: &Key, uid: &str) -> Result<EffectOutcome, ApiError> {
        let context = &self.context;
        let entry = self.machine(key, uid)?;
        let unread = |error: &_| ApiError::other(key.to_string(), error);
        let machine = entry.view.as_ref().map_err(unread)?;
        match external_remediation::carrier(context, machine).await {
            MarkCarrier::Rackhand => {}
            MarkCarrier::OpenShift => {
                let message = "The host of this Machine is left to OpenShift's own Machine controller, \
                               which acts on the same annotation; Rackhand does not touch it";
                let reason = "LeftToOpenShift";
                context.events.send(&entry.object, false, reason, message);
                return Ok(EffectOutcome::LeftToOthers);
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
        let remediations = api(&context.client, &resource, &key.namespace);
        let made_by = made_by(&self.check.name, &self.maker);
        let body = external_remediation::remediation_object(
            machine,
            self.rules.common.startup_timeout,
            &made_by,
        );
        let made = context
            .writer
            .write("create_request", what, move || async move {
                remediations.create(&PostParams::default(), &body).await
            })
            .await;
        match made {
            Ok(object) => context.index.apply(Kind::PowerRemediation, object),
            // Created by the previous leader, and not observed yet.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(EffectOutcome::Done)
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

/// Sets the annotation of a Machine or, with null, removes it, if the Machine still has the observed version.
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

/// Removes the annotation from a Machine that has it.
pub(in crate::checks) async fn unmark(
    context: &Context,
    machine: &DynamicObject,
) -> Result<(), ApiError> {
    let annotations = machine.metadata.annotations.as_ref();
    if annotations.is_some_and(|a| a.contains_key(OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION)) {
        annotate(context, machine, Value::Null).await?;
    }
    Ok(())
}
