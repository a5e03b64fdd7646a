//! The templates of a check: whether each is usable, and the remediations that are created from it.
//!
//! An unusable template disables its check with a stated cause.

use kube::{
    api::DynamicObject,
    core::{ApiResource, TypeMeta},
};
use rackhand_api::{
    names::{
        GROUP, MEDIK8S_CONTROL_PLANE_LABEL, MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION,
        MEDIK8S_NODE_NAME_ANNOTATION, MEDIK8S_PART_OF, MEDIK8S_PART_OF_LABEL,
        MEDIK8S_TEMPLATE_NAME_ANNOTATION, OPENSHIFT_MACHINE_API_NAMESPACE, groups, kinds,
    },
    views::{Meta, NodeTemplateRef},
};
use rackhand_core::checks::nodes::{Check, Disabled, Template};
use serde_json::{Map, Value, json};

use super::rules::template as template_of;
use crate::{
    checks::{Context, remediations::template},
    store::{api::ApiError, object::Key},
};

/// A template from which remediations can be created.
#[derive(Debug, Clone)]
pub(super) struct NodeTemplate {
    /// The API resource of its remediations.
    pub(super) resource: ApiResource,
    /// The `spec.template` of the object.
    body: Map<String, Value>,
    /// Whether several remediations of one kind may exist for a Node. Their names then contain more than the name
    /// of the Node.
    several: bool,
}

/// Reads every template of a check. Returns why the check is disabled, if it is.
///
/// # Errors
/// The API server did not answer.
pub(super) async fn evaluate_templates(
    context: &Context,
    check: &Check,
    references: &[NodeTemplateRef],
    openshift: bool,
) -> Result<Option<Disabled>, ApiError> {
    for reference in references {
        if let Err(disabled) = one(context, check, reference, openshift).await? {
            return Ok(Some(disabled));
        }
    }
    Ok(None)
}

/// Reads one template. `openshift` tells whether the cluster runs OpenShift, where Metal3's remediations are
/// carried out in one namespace only.
pub(super) async fn one(
    context: &Context,
    check: &Check,
    reference: &NodeTemplateRef,
    openshift: bool,
) -> Result<Result<NodeTemplate, Disabled>, ApiError> {
    let missing = |message| Ok(Err(not_found(message)));
    if let Some(disabled) = misnamed(reference, openshift) {
        return Ok(Err(disabled));
    }
    let key = Key::new(&reference.namespace, &reference.name);
    let version = &reference.api_version;
    let found = match template::find(context, version, &reference.kind, &key).await {
        Err(error) if error.label() == "forbidden" => return missing(error.to_string()),
        found => found?,
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => return missing(why),
    };
    let (body, several) = match usable(check, reference, &found) {
        Ok(usable) => usable,
        Err(disabled) => return Ok(Err(disabled)),
    };
    let resource = template::find_kind(context, version, reference.remediation_kind()).await?;
    Ok(match resource {
        Ok(resource) => Ok(NodeTemplate {
            resource,
            body,
            several,
        }),
        Err(why) => Err(not_found(why)),
    })
}

/// The name of a template, for messages.
pub(crate) fn name_of(reference: &NodeTemplateRef) -> String {
    let key = Key::new(&reference.namespace, &reference.name);
    format!("{} {key}", reference.kind)
}

/// The cause that a template does not exist.
pub(crate) fn not_found(message: String) -> Disabled {
    Disabled {
        reason: "RemediationTemplateNotFound",
        message,
    }
}

fn invalid(message: String) -> Disabled {
    Disabled {
        reason: "RemediationTemplateInvalid",
        message,
    }
}

/// Why a reference is invalid, regardless of the object.
pub(crate) fn misnamed(reference: &NodeTemplateRef, openshift: bool) -> Option<Disabled> {
    let what = name_of(reference);
    if reference.remediation_kind() == reference.kind {
        return Some(invalid(format!(
            "the kind of {what} does not end with \"Template\""
        )));
    }
    let misplaced = openshift
        && reference.kind == kinds::METAL3_REMEDIATION_TEMPLATE
        && reference.namespace != OPENSHIFT_MACHINE_API_NAMESPACE;
    misplaced.then(|| {
        invalid(format!(
            "{what} has to be in namespace {OPENSHIFT_MACHINE_API_NAMESPACE}"
        ))
    })
}

/// The `spec.template` of a template, and whether several remediations of its kind may exist for one Node.
pub(crate) fn usable(
    check: &Check,
    reference: &NodeTemplateRef,
    found: &DynamicObject,
) -> Result<(Map<String, Value>, bool), Disabled> {
    let what = name_of(reference);
    let body = found.data.pointer("/spec/template").cloned();
    let Some(Value::Object(body)) = body else {
        return Err(invalid(format!(
            "{what} has no spec.template that is an object"
        )));
    };
    if body.get("spec").is_some_and(|spec| !spec.is_object()) {
        return Err(invalid(format!(
            "spec.template.spec of {what} is not an object"
        )));
    }
    let several = Meta::of(found).has_annotation(MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION);
    let shared = check.shares_a_kind(&template_of(reference));
    // Rackhand's remediations are identified by the annotation with the name of the Node.
    let ours = reference.group() == GROUP;
    if shared && !several && !ours {
        return Err(invalid(format!(
            "{} stands in several steps, and {what} lacks the annotation \
             {MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION}",
            reference.kind
        )));
    }
    Ok((body, several || shared))
}

/// The spec of remediations from a `spec.template`: its inner `spec` or, if it has none, the template itself.
fn spec_of(body: &Map<String, Value>) -> Option<Value> {
    if let Some(spec) = body.get("spec") {
        return Some(spec.clone());
    }
    let mut rest = body.clone();
    for field in ["apiVersion", "kind", "metadata"] {
        rest.remove(field);
    }
    (!rest.is_empty()).then_some(Value::Object(rest))
}

/// FNV-1a, because the name of a remediation must be the same after a restart.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

// === impl NodeTemplate ===

impl NodeTemplate {
    /// The remediation of a Node (docs/reference/medik8s.md, Remediation of one Node). Its name is derived
    /// from Node and template, so that it is created at most once.
    pub(super) fn remediation(
        &self,
        check: &Check,
        of: &Template,
        node: &str,
        control_plane: bool,
        machine: Option<Value>,
    ) -> DynamicObject {
        let map = |field: &str| -> Map<String, Value> {
            let found = self.body.get("metadata").and_then(|m| m.get(field));
            found
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        let (mut annotations, mut labels) = (map("annotations"), map("labels"));
        annotations.insert(MEDIK8S_NODE_NAME_ANNOTATION.into(), node.into());
        annotations.insert(
            MEDIK8S_TEMPLATE_NAME_ANNOTATION.into(),
            of.name.clone().into(),
        );
        labels.insert(MEDIK8S_PART_OF_LABEL.into(), MEDIK8S_PART_OF.into());
        if control_plane {
            labels.insert(MEDIK8S_CONTROL_PLANE_LABEL.into(), "".into());
        }
        let name = if self.several {
            format!("{node}-{:08x}", digest(&of.name))
        } else {
            node.to_owned()
        };
        let namespace = Some(of.namespace.as_str()).filter(|n| !n.is_empty());
        let check = json!({
            "apiVersion": format!("{}/v1alpha1", groups::MEDIK8S),
            "kind": kinds::NODE_HEALTH_CHECK,
            "name": check.name,
            "uid": check.uid,
            "controller": false,
        });
        let owners: Vec<Value> = [check].into_iter().chain(machine).collect();
        let metadata = json!({
            "name": name,
            "namespace": namespace,
            "annotations": annotations,
            "labels": labels,
            "ownerReferences": owners,
        });
        let mut data = Map::new();
        if let Some(spec) = spec_of(&self.body) {
            data.insert("spec".to_owned(), spec);
        }
        DynamicObject {
            types: Some(TypeMeta {
                api_version: of.api_version.clone(),
                kind: of.remediation_kind.clone(),
            }),
            metadata: serde_json::from_value(metadata).unwrap_or_default(),
            data: Value::Object(data),
        }
    }
}

#[cfg(test)]
mod tests;
