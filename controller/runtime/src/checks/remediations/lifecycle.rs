//! Creation and deletion of remediations.
//!
//! Invariant: a remediation of another Machine is never changed.

use kube::{
    api::{DeleteParams, DynamicObject, PostParams, Preconditions},
    core::TypeMeta,
};
use rackhand_api::{
    names::{
        CAUSE_ANNOTATION, CLONED_FROM_GROUPKIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION,
        CLUSTER_NAME_LABEL, DIAGNOSTIC_INTERRUPT_ANNOTATION, EVICT_ANNOTATION,
        EVIDENCE_TIMEOUT_ANNOTATION, MADE_BY_ANNOTATION, NODE_ACTION_ANNOTATION,
        OPENSHIFT_CLONED_FROM_GROUPKIND_ANNOTATION, OPENSHIFT_CLONED_FROM_NAME_ANNOTATION,
        POD_DELETION_ANNOTATION, groups, kinds, remediation_kind,
    },
    views::{MachineView, RemediationTemplateView, TemplateRef, group_of},
};
pub(in crate::checks) use rackhand_core::checks::dispatch::EffectOutcome;
use serde_json::{Map, Value, json};

use super::{
    template::{Read, Unusable, text},
    withdrawal::made_by,
};
use crate::{
    checks::Context,
    store::{
        api::{ApiError, optional},
        index::Entry,
        object::{Key, Kind, api},
    },
};

/// The kind of a remediation that this controller carries out and watches.
pub(in crate::checks) fn is_ours(kind: &str, api_version: &str) -> Option<Kind> {
    let group = group_of(api_version);
    Kind::REMEDIATIONS
        .into_iter()
        .find(|known| known.kind() == kind && known.group() == group)
}

/// The check that creates a remediation, and why.
pub(in crate::checks) struct Maker<'a> {
    pub(in crate::checks) check: &'a Key,
    pub(in crate::checks) uid: &'a str,
    /// Why the Machine is unhealthy, for people.
    pub(in crate::checks) cause: Option<&'a str>,
}

/// Creates the remediation of a Machine of Cluster API or OpenShift, as known now.
pub(in crate::checks) async fn create(
    context: &Context,
    maker: &Maker<'_>,
    machine: &Key,
    known: Option<Entry<MachineView>>,
    uid: &str,
    read: Read,
) -> Result<EffectOutcome, ApiError> {
    let gone = || ApiError::other(machine.to_string(), "the Machine is gone");
    let entry = known.ok_or_else(gone)?;
    let failed = |unusable: Unusable| {
        let Unusable { reason, why } = &unusable;
        context.events.send(&entry.object, true, reason, why);
        Ok(EffectOutcome::RemediationNotCreated(unusable))
    };
    let template = match read {
        Ok(template) => template,
        Err(unusable) => return failed(unusable),
    };
    let view = entry.view.as_ref().map_err(|_| gone())?;
    if view.meta.uid != uid {
        return Err(gone());
    }
    let check = maker.check;
    let mut body = remediation_body(&template.reference, &template.template, view, maker);
    context.ownership.mark(&mut body);
    let remediations = api(&context.client, &template.resource, &check.namespace);
    let what = format!("{} {}/{}", template.kind, check.namespace, machine.name);
    let made = context
        .writer
        .write("create_request", what, move || async move {
            remediations.create(&PostParams::default(), &body).await
        })
        .await;
    match made {
        Ok(object) => {
            if let Some(kind) = is_ours(&template.kind, &template.api_version) {
                context.index.apply(kind, object);
            }
            Ok(EffectOutcome::RemediationCreated)
        }
        // Created by the previous leader, and not observed yet.
        Err(error) if error.is_conflict() => Ok(EffectOutcome::RemediationCreated),
        Err(error) if matches!(error.label(), "invalid" | "forbidden") => failed(Unusable {
            reason: "RemediationRequestCreationFailed",
            why: error.to_string(),
        }),
        Err(error) => Err(error),
    }
}

/// The remediation as Cluster API and OpenShift create it (docs/reference/cluster-api.md, Remediation;
/// docs/reference/openshift.md, The check).
fn remediation_body(
    reference: &TemplateRef,
    template: &RemediationTemplateView,
    machine: &MachineView,
    maker: &Maker<'_>,
) -> DynamicObject {
    let of_template = &template.meta.annotations;
    let template = &template.template;
    let mut body = template.clone();
    let api_version = text(&body, "apiVersion").unwrap_or_else(|| reference.api_version.clone());
    let kind = text(&body, "kind").unwrap_or_else(|| remediation_kind(&reference.kind).to_owned());
    let map = |field: &str| -> Map<String, Value> {
        let found = template
            .get("metadata")
            .and_then(|m| m.get(field))
            .and_then(Value::as_object);
        found.cloned().unwrap_or_default()
    };
    let (mut annotations, mut labels) = (map("annotations"), map("labels"));
    // CAPM3's template schema has no fields for them.
    for key in [
        NODE_ACTION_ANNOTATION,
        POD_DELETION_ANNOTATION,
        EVICT_ANNOTATION,
        EVIDENCE_TIMEOUT_ANNOTATION,
        DIAGNOSTIC_INTERRUPT_ANNOTATION,
    ] {
        if let Some(value) = of_template.get(key) {
            annotations
                .entry(key)
                .or_insert_with(|| value.clone().into());
        }
    }
    let owner = machine.meta.api_version.clone().unwrap_or_default();
    let (from_name, from_kind) = if group_of(&owner) == groups::OPENSHIFT_MACHINE {
        (
            OPENSHIFT_CLONED_FROM_NAME_ANNOTATION,
            OPENSHIFT_CLONED_FROM_GROUPKIND_ANNOTATION,
        )
    } else {
        (
            CLONED_FROM_NAME_ANNOTATION,
            CLONED_FROM_GROUPKIND_ANNOTATION,
        )
    };
    let group = group_of(&reference.api_version);
    annotations.insert(from_name.into(), reference.name.clone().into());
    annotations.insert(
        MADE_BY_ANNOTATION.into(),
        made_by(&maker.check.name, maker.uid).into(),
    );
    if let Some(cause) = maker.cause {
        annotations.insert(CAUSE_ANNOTATION.into(), cause.into());
    }
    annotations.insert(
        from_kind.into(),
        format!("{}.{group}", reference.kind).into(),
    );
    if let Some(cluster) = &machine.cluster_name {
        labels.insert(CLUSTER_NAME_LABEL.into(), cluster.clone().into());
    }
    let metadata = json!({
        "name": machine.meta.name,
        "namespace": maker.check.namespace,
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
        types: Some(TypeMeta { api_version, kind }),
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: Value::Object(body),
    }
}

/// The result of a deletion.
pub(in crate::checks) enum Deleted {
    /// The remediation is gone.
    Gone,
    /// A finalizer of its remediator keeps it.
    Left(Box<DynamicObject>),
    /// Another object has its name.
    Replaced,
}

/// Deletes the remediation with this name and UID, never a later one of the same name.
pub(in crate::checks) async fn delete(
    context: &Context,
    api_version: &str,
    kind: &str,
    remediation: &Key,
    uid: String,
) -> Result<Deleted, ApiError> {
    let what = format!("{kind} {remediation}");
    let served = &context.served;
    let found = served.resource_of(&context.client, api_version, kind);
    let Some(resource) = found.await? else {
        return Ok(Deleted::Gone);
    };
    let remediations = api(&context.client, &resource, &remediation.namespace);
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = remediation.name.clone();
    let delete = move || async move {
        let deleted = remediations.delete(&name, &only).await;
        deleted.map(|answer| answer.left())
    };
    let writer = &context.writer;
    match optional(writer.write("delete_request", what, delete).await) {
        Ok(Some(Some(object))) => Ok(Deleted::Left(Box::new(object))),
        Ok(_) => Ok(Deleted::Gone),
        Err(error) if error.is_conflict() => Ok(Deleted::Replaced),
        Err(error) => Err(error),
    }
}

/// Deletes the remediation of a Machine, and applies the response to the index.
pub(in crate::checks) async fn delete_of_machine(
    context: &Context,
    api_version: &str,
    kind: &str,
    remediation: &Key,
    uid: String,
) -> Result<EffectOutcome, ApiError> {
    let deleted = delete(context, api_version, kind, remediation, uid).await?;
    match (deleted, is_ours(kind, api_version)) {
        (Deleted::Left(object), Some(kind)) => context.index.apply(kind, *object),
        (Deleted::Gone, Some(kind)) => context.index.delete(kind, remediation),
        _ => {}
    }
    Ok(EffectOutcome::RemediationDeleted)
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
    fn only_watched_remediation_kinds_are_read_from_index() {
        let ours = is_ours("PowerRemediation", "rackhand.dev/v1alpha1");
        assert_eq!(ours, Some(Kind::PowerRemediation));
        let capm3 = is_ours(
            "Metal3Remediation",
            "infrastructure.cluster.x-k8s.io/v1beta2",
        );
        assert_eq!(capm3, Some(Kind::Metal3Remediation));
        assert_eq!(is_ours("PowerRemediation", "other.dev/v1"), None);
    }

    fn maker<'a>(check: &'a Key, cause: Option<&'a str>) -> Maker<'a> {
        let uid = "cu";
        Maker { check, uid, cause }
    }

    fn reference() -> TemplateRef {
        TemplateRef {
            api_version: "infrastructure.cluster.x-k8s.io/v1beta1".into(),
            kind: "Metal3RemediationTemplate".into(),
            name: "t".into(),
        }
    }

    #[test]
    fn remediation_copies_template_and_is_owned_by_machine() {
        let template = json!({
            "metadata": { "labels": { "a": "b" }, "name": "ignored", "finalizers": ["ignored"] },
            "spec": { "strategy": { "type": "Reboot" } },
        });
        let template = self::template(&template);
        let body = remediation_body(
            &reference(),
            &template,
            &machine(),
            &maker(
                &Key::new("ns", "check"),
                Some("Node condition Ready is False"),
            ),
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
                        "rackhand.dev/cause": "Node condition Ready is False",
                        "rackhand.dev/made-by": "MachineHealthCheck/check/cu",
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
    fn remediation_of_openshift_machine_has_openshift_annotations() {
        let mut machine = machine();
        machine.meta.api_version = Some("machine.openshift.io/v1beta1".into());
        machine.cluster_name = None;
        let template = template(&json!({ "spec": {} }));
        let key = Key::new("ns", "check");
        let maker = maker(&key, None);
        let body = remediation_body(&reference(), &template, &machine, &maker);
        let metadata = serde_json::to_value(&body.metadata).unwrap();
        assert_eq!(
            metadata["annotations"],
            json!({
                "machine.openshift.io/cloned-from-name": "t",
                "rackhand.dev/made-by": "MachineHealthCheck/check/cu",
                "rackhand.dev/node-action": "taint",
                "machine.openshift.io/cloned-from-groupkind":
                    "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io",
            })
        );
        assert_eq!(
            metadata["ownerReferences"],
            json!([{
                "apiVersion": "machine.openshift.io/v1beta1",
                "kind": "Machine",
                "name": "m1",
                "uid": "u1",
            }])
        );
        assert_eq!(metadata.get("labels"), Some(&json!({})));
    }

    #[test]
    fn template_may_set_kind_of_remediation() {
        let template = template(&json!({ "apiVersion": "x.y/v1", "kind": "Other" }));
        let body = remediation_body(
            &reference(),
            &template,
            &machine(),
            &maker(
                &Key::new("ns", "check"),
                Some("Node condition Ready is False"),
            ),
        );
        let types = body.types.unwrap();
        assert_eq!(
            (types.api_version.as_str(), types.kind.as_str()),
            ("x.y/v1", "Other")
        );
    }
}
