//! Carries out what a plan asks for: requests made and unmade.
//!
//! Must never touch a request that belongs to another Machine.

use std::{collections::BTreeMap, sync::Arc};

use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
};
use rackhand_api::{
    names::{
        CLONED_FROM_GROUPKIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
        NODE_ACTION_ANNOTATION, kinds, request_kind,
    },
    views::{MachineHealthCheckView, MachineView, Meta, RemediationTemplateView, TemplateRef},
};
use rackhand_core::health::Action;
use serde_json::{Map, Value, json};

use super::Context;
use crate::{
    api::{ApiError, call, optional},
    index::Entry,
    object::{Key, Kind, api, pinned},
};

/// What came of an action, for the Machine's conditions.
pub(super) enum Acted {
    /// The request was made.
    Requested,
    /// It could not be: the reason of `ExternallyRemediated` and why.
    NotRequested { reason: &'static str, why: String },
    /// The request was deleted.
    Withdrawn,
    /// The owner shall remediate.
    ForOwner,
}

type Owners = Vec<(String, String, String)>;

/// The kind of requests that are carried out here, and so are watched.
pub(super) fn carried_out(kind: &str, api_version: &str) -> Option<Kind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Kind::REQUESTS
        .into_iter()
        .find(|known| known.kind() == kind && known.group() == group)
}

/// Requests of a kind that is not watched, by name: their owners, and whether they are going.
pub(super) async fn other_requests(
    context: &Context,
    template: &TemplateRef,
    namespace: &str,
) -> Result<BTreeMap<String, (Owners, bool)>, ApiError> {
    let what = format!("{} of {}", template.request_kind(), template.api_version);
    let Ok(resource) = pinned(
        &context.client,
        &template.api_version,
        template.request_kind(),
    )
    .await
    else {
        return Ok(BTreeMap::new());
    };
    let requests = api(&context.client, &resource, namespace);
    let listed = optional(call(what, requests.list(&ListParams::default())).await)?;
    Ok(listed
        .into_iter()
        .flatten()
        .map(|object| {
            let meta = Meta::of(&object);
            let owners: Owners = meta
                .owners
                .iter()
                .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
                .collect();
            (meta.name.clone(), (owners, meta.is_deleting()))
        })
        .collect())
}

pub(super) async fn act(
    context: &Context,
    check: &Key,
    view: &MachineHealthCheckView,
    action: &Action,
    machine: Option<&(Entry<MachineView>, Arc<MachineView>)>,
) -> Result<Acted, ApiError> {
    let Some((entry, machine)) = machine else {
        return Err(ApiError::other(action.machine(), "the Machine is gone"));
    };
    match (action, &view.remediation_template) {
        (Action::CreateRequest { .. }, Some(template)) => {
            let made = create(context, check, template, machine).await;
            if let Ok(Acted::NotRequested { reason, why }) = &made {
                context.events.send(&entry.object, true, reason, why);
            }
            made
        }
        (Action::DeleteRequest { .. }, Some(template)) => {
            delete(context, check, template, machine).await
        }
        (Action::ReportForeignRequest { owner, .. }, _) => Ok(Acted::NotRequested {
            reason: "RemediationRequestCreationFailed",
            why: format!("a request of this name exists and belongs to {owner}; delete it"),
        }),
        (Action::MarkOwnerRemediated { .. }, _) => Ok(Acted::ForOwner),
        (_, None) => Err(ApiError::other(check.to_string(), "it names no template")),
    }
}

async fn create(
    context: &Context,
    check: &Key,
    reference: &TemplateRef,
    machine: &MachineView,
) -> Result<Acted, ApiError> {
    let not_found = |why: String| {
        Ok(Acted::NotRequested {
            reason: "RemediationTemplateNotFound",
            why,
        })
    };
    let name = format!("{} {}/{}", reference.kind, check.namespace, reference.name);
    let resource = match pinned(&context.client, &reference.api_version, &reference.kind).await {
        Ok(resource) => resource,
        Err(error) => {
            let why = crate::api::words(&error);
            return not_found(format!(
                "{name}: {} is not served: {why}",
                reference.api_version
            ));
        }
    };
    let templates = api(&context.client, &resource, &check.namespace);
    let found = match optional(call(&name, templates.get(&reference.name)).await) {
        Ok(Some(found)) => found,
        Ok(None) => return not_found(format!("{name} does not exist")),
        Err(error) => return Err(error),
    };
    let template = match RemediationTemplateView::from_dynamic(&found) {
        Ok(template) => template,
        Err(error) => return not_found(error.to_string()),
    };
    let body = request_body(reference, &template, machine, check);
    let kind = body
        .types
        .as_ref()
        .map(|t| t.kind.clone())
        .unwrap_or_default();
    let version = body
        .types
        .as_ref()
        .map(|t| t.api_version.clone())
        .unwrap_or_default();
    let failed = |why: String| {
        Ok(Acted::NotRequested {
            reason: "RemediationRequestCreationFailed",
            why,
        })
    };
    let resource = match pinned(&context.client, &version, &kind).await {
        Ok(resource) => resource,
        Err(error) => {
            return failed(format!(
                "{kind} of {version} is not served: {}",
                crate::api::words(&error)
            ));
        }
    };
    let requests = api(&context.client, &resource, &check.namespace);
    let what = format!("{kind} {}/{}", check.namespace, machine.meta.name);
    let made = context
        .writer
        .write("create_request", what, move || async move {
            requests.create(&PostParams::default(), &body).await
        })
        .await;
    match made {
        Ok(object) => {
            if let Some(kind) = carried_out(&kind, &version) {
                context.index.apply(kind, object);
            }
            Ok(Acted::Requested)
        }
        // Made a moment ago by the leader before us, and not seen yet.
        Err(error) if error.is_conflict() => Ok(Acted::Requested),
        Err(error) if matches!(error.label(), "invalid" | "forbidden") => failed(error.to_string()),
        Err(error) => Err(error),
    }
}

/// The request as machinehealthcheck.md 2.6 has it.
fn request_body(
    reference: &TemplateRef,
    template: &RemediationTemplateView,
    machine: &MachineView,
    check: &Key,
) -> DynamicObject {
    let of_template = template.meta.annotations.get(NODE_ACTION_ANNOTATION);
    let template = &template.template;
    let mut body = template.clone();
    let text = |body: &Map<String, Value>, field: &str| {
        body.get(field).and_then(Value::as_str).map(str::to_owned)
    };
    let api_version = text(&body, "apiVersion").unwrap_or_else(|| reference.api_version.clone());
    let kind = text(&body, "kind").unwrap_or_else(|| request_kind(&reference.kind).to_owned());
    let map = |field: &str| -> Map<String, Value> {
        let found = template
            .get("metadata")
            .and_then(|m| m.get(field))
            .and_then(Value::as_object);
        found.cloned().unwrap_or_default()
    };
    let (mut annotations, mut labels) = (map("annotations"), map("labels"));
    // CAPM3's schema has no place for it in what a request is a copy of.
    if let Some(action) = of_template {
        annotations
            .entry(NODE_ACTION_ANNOTATION)
            .or_insert_with(|| action.clone().into());
    }
    let group = reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    annotations.insert(
        CLONED_FROM_NAME_ANNOTATION.into(),
        reference.name.clone().into(),
    );
    annotations.insert(
        CLONED_FROM_GROUPKIND_ANNOTATION.into(),
        format!("{}.{group}", reference.kind).into(),
    );
    if let Some(cluster) = &machine.cluster_name {
        labels.insert(CLUSTER_NAME_LABEL.into(), cluster.clone().into());
    }
    let owner = machine.meta.api_version.clone().unwrap_or_default();
    let metadata = json!({
        "name": machine.meta.name,
        "namespace": check.namespace,
        "annotations": annotations,
        "labels": labels,
        "ownerReferences": [{
            "apiVersion": owner,
            "kind": kinds::MACHINE,
            "name": machine.meta.name,
            "uid": machine.meta.uid,
        }],
    });
    for field in ["apiVersion", "kind", "metadata"] {
        body.remove(field);
    }
    DynamicObject {
        types: Some(kube::core::TypeMeta { api_version, kind }),
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: Value::Object(body),
    }
}

async fn delete(
    context: &Context,
    check: &Key,
    reference: &TemplateRef,
    machine: &MachineView,
) -> Result<Acted, ApiError> {
    let kind = reference.request_kind().to_owned();
    let name = machine.meta.name.clone();
    let what = format!("{kind} {}/{name}", check.namespace);
    let resource = pinned(&context.client, &reference.api_version, &kind)
        .await
        .map_err(|e| ApiError::other(&what, crate::api::words(&e)))?;
    let requests = api(&context.client, &resource, &check.namespace);
    let Some(found) = optional(call(&what, requests.get(&name)).await)? else {
        return Ok(Acted::Withdrawn);
    };
    // The one that was seen, not one that came after it.
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let deleted = context
        .writer
        .write("delete_request", what, move || async move {
            requests.delete(&name, &only).await.map(drop)
        })
        .await;
    match optional(deleted) {
        Ok(_) => Ok(Acted::Withdrawn),
        Err(error) if error.is_conflict() => Ok(Acted::Withdrawn),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> MachineView {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": { "name": "m1", "namespace": "ns", "uid": "u1" },
            "spec": { "clusterName": "c1" },
        }))
        .unwrap();
        MachineView::from_dynamic(&object).unwrap()
    }

    fn template(template: &Value) -> RemediationTemplateView {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "t", "annotations": { "rackhand.dev/node-action": "taint" } },
            "spec": { "template": template },
        }))
        .unwrap();
        RemediationTemplateView::from_dynamic(&object).unwrap()
    }

    #[test]
    fn only_kinds_that_are_watched_are_taken_from_the_index() {
        let ours = carried_out("PowerRemediation", "rackhand.dev/v1alpha1");
        assert_eq!(ours, Some(Kind::PowerRemediation));
        let capm3 = carried_out(
            "Metal3Remediation",
            "infrastructure.cluster.x-k8s.io/v1beta2",
        );
        assert_eq!(capm3, Some(Kind::Metal3Remediation));
        assert_eq!(carried_out("PowerRemediation", "other.dev/v1"), None);
    }

    fn reference() -> TemplateRef {
        TemplateRef {
            api_version: "infrastructure.cluster.x-k8s.io/v1beta1".into(),
            kind: "Metal3RemediationTemplate".into(),
            name: "t".into(),
        }
    }

    #[test]
    fn a_request_is_a_copy_of_the_template_owned_by_the_machine() {
        let template = json!({
            "metadata": { "labels": { "a": "b" }, "name": "ignored", "finalizers": ["ignored"] },
            "spec": { "strategy": { "type": "Reboot" } },
        });
        let template = self::template(&template);
        let body = request_body(
            &reference(),
            &template,
            &machine(),
            &Key::new("ns", "check"),
        );
        let body = serde_json::to_value(body).unwrap();
        assert_eq!(
            body,
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3Remediation",
                "metadata": {
                    "name": "m1",
                    "namespace": "ns",
                    "labels": { "a": "b", "cluster.x-k8s.io/cluster-name": "c1" },
                    "annotations": {
                        "cluster.x-k8s.io/cloned-from-name": "t",
                        "rackhand.dev/node-action": "taint",
                        "cluster.x-k8s.io/cloned-from-groupkind":
                            "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io",
                    },
                    "ownerReferences": [{
                        "apiVersion": "cluster.x-k8s.io/v1beta1",
                        "kind": "Machine",
                        "name": "m1",
                        "uid": "u1",
                    }],
                },
                "spec": { "strategy": { "type": "Reboot" } },
            })
        );
    }

    #[test]
    fn a_template_may_name_the_kind_of_its_requests() {
        let template = template(&json!({ "apiVersion": "x.y/v1", "kind": "Other" }));
        let body = request_body(
            &reference(),
            &template,
            &machine(),
            &Key::new("ns", "check"),
        );
        let types = body.types.unwrap();
        assert_eq!(
            (types.api_version.as_str(), types.kind.as_str()),
            ("x.y/v1", "Other")
        );
    }
}
