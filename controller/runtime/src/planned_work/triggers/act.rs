//! Carries out one decision about a Node.
//!
//! Invariants: a remediation is made only after a live read has shown the label, and a label changes only in the
//! version of the Node that was read; a remediation is deleted by its UID, and only if this trigger has made it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::TypeMeta,
};
use rackhand_api::{
    kinds::remediation_trigger::{AnsweredLabel, TriggerOutcome},
    names::LABEL_ANSWERED_ANNOTATION,
    views::MachineView,
};
use rackhand_core::triggers::{Answer, Decision, NodeLabel, Stage};
use serde_json::{Value, json};

use super::{
    Triggers,
    observe::{Made, NodeOfTrigger, TriggerView, Watched},
    template,
};
use crate::store::{
    api::{ApiError, call, optional},
    clock::whole_seconds,
    index::Entry,
    object::{Key, Kind, api},
    remediation::RemediationId,
};

/// A Node that a deed is about.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) trigger: Watched,
    pub(super) node: String,
    pub(super) uid: String,
    pub(super) id: RemediationId,
}

/// One write, with the reads that it depends on.
pub(super) enum Deed {
    Create(Subject, Option<Entry<MachineView>>),
    Answer(Subject, Answer, Option<Box<Made>>),
    Record(Subject, Box<Made>),
    Delete {
        /// `None`: the trigger is gone.
        trigger: Option<Watched>,
        /// The Node that was not seen, by its cluster; `None`: it was seen, or does not matter.
        node: Option<(Key, String)>,
        made: Box<Made>,
    },
}

impl Deed {
    /// What is to be done for a Node.
    pub(super) fn of(view: &TriggerView, of: &NodeOfTrigger, decision: &Decision) -> Option<Self> {
        let subject = Subject {
            trigger: view.trigger.clone(),
            node: of.node.name.clone(),
            uid: of.uid.clone(),
            id: of.id.clone(),
        };
        let made = of.made.clone().map(Box::new);
        match decision {
            Decision::Nothing | Decision::Wait(_) => None,
            Decision::Create => Some(Self::Create(subject, of.machine.clone())),
            Decision::Answer(answer) => Some(Self::Answer(subject, *answer, made)),
            Decision::Record => Some(Self::Record(subject, made?)),
            Decision::Delete => Some(Self::Delete {
                trigger: Some(view.trigger.clone()),
                node: None,
                made: made?,
            }),
        }
    }

    /// The remediation, for the log.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Create(subject, _) | Self::Answer(subject, ..) | Self::Record(subject, _) => {
                subject.id.to_string()
            }
            Self::Delete { made, .. } => made.id.to_string(),
        }
    }
}

pub(super) async fn carry_out(triggers: &Triggers, deed: Deed) -> Result<(), ApiError> {
    match deed {
        Deed::Create(subject, machine) => create(triggers, &subject, machine).await,
        Deed::Answer(subject, how, made) => answer(triggers, &subject, how, made).await,
        Deed::Record(subject, made) => record(triggers, &subject, &made).await,
        Deed::Delete {
            trigger,
            node,
            made,
        } => {
            if is_orphan(triggers, trigger.as_ref(), node.as_ref(), &made).await? {
                delete(triggers, &made).await?;
            }
            Ok(())
        }
    }
}

/// The Node as it is now; `None` if it is gone, or another one has its name.
async fn live_node(triggers: &Triggers, subject: &Subject) -> Result<Option<Node>, ApiError> {
    read_node(
        triggers,
        &subject.trigger.cluster,
        &subject.node,
        &subject.uid,
    )
    .await
}

async fn read_node(
    triggers: &Triggers,
    cluster: &Key,
    name: &str,
    uid: &str,
) -> Result<Option<Node>, ApiError> {
    let what = format!("Node {name} of cluster {cluster}");
    let Some(nodes) = triggers.nodes(cluster) else {
        return Err(ApiError::other(what, "the cluster is not connected"));
    };
    let node = optional(call(what, nodes.get(name)).await)?;
    if let Some(node) = &node {
        triggers.index.apply_node(cluster, node.clone());
    }
    Ok(node.filter(|node| node.metadata.uid.as_deref() == Some(uid)))
}

fn label_of(trigger: &Watched, node: &Node) -> NodeLabel {
    trigger.label(node.labels().get(&trigger.spec.label).map(String::as_str))
}

async fn create(
    triggers: &Triggers,
    subject: &Subject,
    machine: Option<Entry<MachineView>>,
) -> Result<(), ApiError> {
    let trigger = &subject.trigger;
    let Some(node) = live_node(triggers, subject).await? else {
        return Ok(());
    };
    if label_of(trigger, &node) != NodeLabel::Set || node.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let Some(found) = triggers.memory.lock().templates.get(&trigger.key) else {
        return Ok(());
    };
    let filter = triggers.watch_filter.as_deref();
    let body = template::remediation(subject, &found, machine.as_ref(), filter);
    let remediations = api(&triggers.client, &found.resource, &subject.id.key.namespace);
    let place = (trigger.key.clone(), subject.uid.clone());
    let what = subject.id.to_string();
    let post = {
        let remediations = remediations.clone();
        move || async move { remediations.create(&PostParams::default(), &body).await }
    };
    let object = match triggers.writer.write("create_triggered", &what, post).await {
        Ok(object) => {
            triggers.metrics.count_made();
            let message = format!("Node {} has the label: {what} is made", subject.node);
            tell(triggers, subject, false, "RemediationCreated", &message);
            object
        }
        // Made by a call whose response was lost, or by the previous leader.
        Err(error) if error.is_conflict() => {
            match optional(call(&what, remediations.get(&subject.id.key.name)).await)? {
                Some(object) => object,
                None => return Ok(()),
            }
        }
        Err(error) if matches!(error.label(), "invalid" | "forbidden" | "not_found") => {
            let message = error.to_string();
            tell(triggers, subject, true, "RemediationNotCreated", &message);
            let refused = (tokio::time::Instant::now(), message);
            triggers.memory.lock().refused.insert(place, refused);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let id = subject.id.clone();
    triggers.index.apply(id.kind, object.clone());
    if Made::of(&triggers.index, id.clone(), object.into()).is_some() {
        triggers.memory.lock().unanswered.insert(place, id);
    }
    Ok(())
}

async fn answer(
    triggers: &Triggers,
    subject: &Subject,
    how: Answer,
    made: Option<Box<Made>>,
) -> Result<(), ApiError> {
    let trigger = &subject.trigger;
    let place = (trigger.key.clone(), subject.uid.clone());
    if made.is_none() && exists(triggers, &subject.id).await? {
        return Ok(());
    }
    let Some(node) = live_node(triggers, subject).await? else {
        return Ok(());
    };
    let before = label_of(trigger, &node);
    let value = match (how, before) {
        (Answer::Remove, NodeLabel::Set) => Value::Null,
        (Answer::Fail, NodeLabel::Set | NodeLabel::Absent) => {
            trigger.spec.failed_value.clone().into()
        }
        // It has changed since: that is decided anew.
        _ => return Ok(()),
    };
    let Some(nodes) = triggers.nodes(&trigger.cluster) else {
        return Ok(());
    };
    let body = json!({ "metadata": {
        "uid": subject.uid,
        "resourceVersion": node.metadata.resource_version,
        "labels": { (trigger.spec.label.as_str()): value },
    }});
    let what = format!(
        "label of Node {} of cluster {}",
        subject.node, trigger.cluster
    );
    let patched = patch_node(triggers, nodes, &subject.node, body, what).await;
    let patched = match patched {
        // The Node has changed since it was read, or is gone.
        Err(error) if error.is_conflict() || error.is_not_found() => return Ok(()),
        patched => patched?,
    };
    triggers.index.apply_node(&trigger.cluster, patched);
    let (key, node) = (&trigger.spec.label, &subject.node);
    match how {
        Answer::Remove => {
            let message = format!("Node {node} is back: its label {key} is removed");
            tell(triggers, subject, false, "LabelRemoved", &message);
        }
        Answer::Fail => {
            let failed = &trigger.spec.failed_value;
            let message = format!(
                "the remediation of Node {node} has failed or was aborted: its label {key} is now {failed}"
            );
            tell(triggers, subject, true, "LabelFailed", &message);
        }
    }
    match made.filter(|made| made.object.metadata.deletion_timestamp.is_none()) {
        // At once: a label that is put back from now on is a new one.
        Some(made) => mark_answered(triggers, subject, &made).await,
        // Of one that somebody deletes, nothing is recorded.
        None => {
            triggers.memory.lock().unanswered.remove(&place);
            ended(triggers, subject, TriggerOutcome::Failed);
            Ok(())
        }
    }
}

async fn patch_node(
    triggers: &Triggers,
    nodes: Api<Node>,
    name: &str,
    body: Value,
    what: String,
) -> Result<Node, ApiError> {
    let name = name.to_owned();
    let patch = move || async move {
        let params = PatchParams::default();
        nodes.patch(&name, &params, &Patch::Merge(body)).await
    };
    triggers.writer.write("answer_label", what, patch).await
}

/// Records that the label is answered. That it is not set now is read live.
async fn record(triggers: &Triggers, subject: &Subject, made: &Made) -> Result<(), ApiError> {
    let Some(stage) = made.stage() else {
        return Ok(());
    };
    let node = live_node(triggers, subject).await?;
    let is_set = node.is_some_and(|node| label_of(&subject.trigger, &node) == NodeLabel::Set);
    // One that has not begun may be withdrawn although the label is there: the Machine must be left alone.
    if is_set && stage != Stage::NotBegun {
        return Ok(());
    }
    mark_answered(triggers, subject, made).await
}

/// Marks the remediation, counts its end and notes it for the status.
async fn mark_answered(
    triggers: &Triggers,
    subject: &Subject,
    made: &Made,
) -> Result<(), ApiError> {
    let Some(stage) = made.stage() else {
        return Ok(());
    };
    let at = whole_seconds(Timestamp::now());
    let body = json!({ "metadata": {
        "uid": made.object.metadata.uid,
        "annotations": { (LABEL_ANSWERED_ANNOTATION): at },
    }});
    let Some(remediations) = remediations(triggers, &made.id).await? else {
        return Ok(());
    };
    let name = made.id.key.name.clone();
    let patch = move || async move {
        let params = PatchParams::default();
        remediations
            .patch(&name, &params, &Patch::Merge(body))
            .await
    };
    let what = made.id.to_string();
    let written = triggers.writer.write("record_answer", what, patch).await;
    match written {
        Err(error) if error.is_conflict() || error.is_not_found() => return Ok(()),
        written => triggers.index.apply(made.id.kind, written?),
    }
    let outcome = match stage {
        Stage::NotBegun | Stage::Begun => TriggerOutcome::Withdrawn,
        Stage::Succeeded | Stage::KeptOff => TriggerOutcome::Succeeded,
        Stage::Failed | Stage::FailedOff => TriggerOutcome::Failed,
    };
    if outcome == TriggerOutcome::Withdrawn {
        let message = format!(
            "the label of Node {} was taken away, or it must be left alone: {} is withdrawn",
            subject.node, made.id
        );
        tell(triggers, subject, false, "RemediationWithdrawn", &message);
    }
    ended(triggers, subject, outcome);
    Ok(())
}

/// Counts an end, and notes it for the status.
fn ended(triggers: &Triggers, subject: &Subject, outcome: TriggerOutcome) {
    triggers.metrics.count_ended(outcome);
    let answered = AnsweredLabel {
        node: subject.node.clone(),
        remediation: subject.id.key.name.clone(),
        outcome,
        at: Timestamp::now(),
    };
    let mut memory = triggers.memory.lock();
    let key = subject.trigger.key.clone();
    memory.ended.entry(key).or_default().push(answered);
}

/// Whether a remediation is still to be deleted: what the index does not show is read live (F12).
async fn is_orphan(
    triggers: &Triggers,
    trigger: Option<&Watched>,
    node: Option<&(Key, String)>,
    made: &Made,
) -> Result<bool, ApiError> {
    if let Some((cluster, name)) = node {
        return Ok(read_node(triggers, cluster, name, &made.node_uid)
            .await?
            .is_none());
    }
    if trigger.is_some() {
        return Ok(true);
    }
    let Some(resource) = triggers.served.known(Kind::RemediationTrigger) else {
        return Ok(false);
    };
    let key = made.trigger_key();
    let objects = api(&triggers.client, &resource, &key.namespace);
    let what = format!("RemediationTrigger {key}");
    let found = optional(call(what, objects.get(&key.name)).await)?;
    Ok(found.is_none())
}

async fn delete(triggers: &Triggers, made: &Made) -> Result<(), ApiError> {
    let Some(remediations) = remediations(triggers, &made.id).await? else {
        return Ok(());
    };
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: made.object.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = made.id.key.name.clone();
    let delete = move || async move {
        let deleted = remediations.delete(&name, &only).await;
        deleted.map(|answer| answer.left())
    };
    let what = made.id.to_string();
    let deleted = triggers
        .writer
        .write("delete_triggered", what, delete)
        .await;
    match optional(deleted) {
        Ok(Some(Some(object))) => triggers.index.apply(made.id.kind, object),
        Ok(_) => triggers.index.delete(made.id.kind, &made.id.key),
        // Another object has its name.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn exists(triggers: &Triggers, id: &RemediationId) -> Result<bool, ApiError> {
    let Some(remediations) = remediations(triggers, id).await? else {
        return Ok(false);
    };
    let found = optional(call(id.to_string(), remediations.get(&id.key.name)).await)?;
    let is_there = found.is_some();
    if let Some(object) = found {
        triggers.index.apply(id.kind, object);
    }
    Ok(is_there)
}

async fn remediations(
    triggers: &Triggers,
    id: &RemediationId,
) -> Result<Option<Api<DynamicObject>>, ApiError> {
    let kind = id.kind;
    let found = triggers
        .served
        .find(&triggers.client, kind.group(), kind.kind())
        .await;
    let resource = found.map_err(|error| ApiError::other(kind.kind(), error))?;
    Ok(resource.map(|resource| api(&triggers.client, &resource, &id.key.namespace)))
}

/// An Event about the trigger, and about the Node where it is in the cluster of the controller.
fn tell(triggers: &Triggers, subject: &Subject, warning: bool, reason: &str, message: &str) {
    let trigger = &subject.trigger;
    triggers
        .events
        .send(&trigger.object, warning, reason, message);
    if trigger.cluster != Key::local() {
        return;
    }
    let node = DynamicObject {
        types: Some(TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(subject.node.clone()),
            uid: Some(subject.uid.clone()),
            ..ObjectMeta::default()
        },
        data: Value::Null,
    };
    triggers.events.send(&node, warning, reason, message);
}
