//! The templates of a check: whether each can be used, and what remediations are made from it.
//!
//! Must never be asked for in silence: one that cannot be used disables its check, and says why.

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
use rackhand_core::nodes::{Check, Disabled, Template};
use serde_json::{Map, Value, json};

use super::{Context, rules::template};
use crate::{
    api::{ApiError, call, optional},
    object::{Key, api},
};

/// A template that can be used.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    /// Where its remediations are served.
    pub(super) resource: ApiResource,
    /// Its `spec.template`.
    body: Map<String, Value>,
    /// Several of one kind may be there for one Node, so their names say more than its name.
    several: bool,
}

/// Reads every template of a check. Returns why the check is disabled, if it is.
///
/// # Errors
/// The API server did not answer; anything else is an answer.
pub(super) async fn look(
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

/// Reads one of them. `openshift`: this cluster is of OpenShift, where Metal3's remediations are
/// carried out in one namespace only.
pub(super) async fn one(
    context: &Context,
    check: &Check,
    reference: &NodeTemplateRef,
    openshift: bool,
) -> Result<Result<Recipe, Disabled>, ApiError> {
    let missing = |message| Ok(Err(not_found(message)));
    let (version, kind) = (&reference.api_version, &reference.kind);
    let what = name_of(reference);
    if let Some(disabled) = misnamed(reference, openshift) {
        return Ok(Err(disabled));
    }
    let Some(resource) = context
        .served
        .resource_of(&context.client, version, kind)
        .await?
    else {
        return missing(format!("{what}: {kind} of {version} is not served"));
    };
    let templates = api(&context.client, &resource, &reference.namespace);
    let found = match call(&what, templates.get(&reference.name)).await {
        // So it answers for a kind with namespaces that is asked for without.
        Err(error) if error.is_not_found() && reference.namespace.is_empty() => {
            return missing(format!("{what} does not exist; it may lack a namespace"));
        }
        Err(error) if error.label() == "forbidden" => return missing(error.to_string()),
        found => optional(found)?,
    };
    let Some(found) = found else {
        return missing(format!("{what} does not exist"));
    };
    let (body, several) = match usable(check, reference, &found) {
        Ok(usable) => usable,
        Err(disabled) => return Ok(Err(disabled)),
    };
    let request = reference.request_kind();
    Ok(
        match context
            .served
            .resource_of(&context.client, version, request)
            .await?
        {
            Some(resource) => Ok(Recipe {
                resource,
                body,
                several,
            }),
            None => Err(not_found(format!("{request} of {version} is not served"))),
        },
    )
}

/// A template, for people.
pub(crate) fn name_of(reference: &NodeTemplateRef) -> String {
    let key = Key::new(&reference.namespace, &reference.name);
    format!("{} {key}", reference.kind)
}

/// It is not there.
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

/// What is wrong with a reference, whatever it refers to.
pub(crate) fn misnamed(reference: &NodeTemplateRef, openshift: bool) -> Option<Disabled> {
    let what = name_of(reference);
    if reference.request_kind() == reference.kind {
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

/// What remediations are made of, and whether several may be there for one Node.
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
    let shared = check.shares_a_kind(&template(reference));
    // Ours are told apart by the Node's annotation, whatever they are called.
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

/// The spec that remediations get from a `spec.template`: its inner `spec` or, where it has none, itself.
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

/// FNV-1a: the name of a remediation must be the same after a restart.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

// === impl Recipe ===

impl Recipe {
    /// The remediation of a Node (docs/reference/medik8s.md, Remediation of one Node). Its name follows from Node and template,
    /// so that it is never made twice.
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
                kind: of.request_kind.clone(),
            }),
            metadata: serde_json::from_value(metadata).unwrap_or_default(),
            data: Value::Object(data),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use rackhand_core::nodes::{Delay, Limit, Step};

    use super::*;

    fn of() -> Template {
        Template {
            api_version: "x.y/v1".into(),
            request_kind: "XRemediation".into(),
            namespace: "ns".into(),
            name: "t".into(),
        }
    }

    fn check() -> Check {
        Check {
            name: "c".into(),
            uid: "cu".into(),
            conditions: vec![],
            limit: Limit::OLDER,
            storm_cooldown: None,
            steps: vec![Step {
                template: of(),
                timeout: None,
            }],
            delay: Delay::None,
            pauses: vec![],
            startup_timeout: None,
            spares_terminating: false,
        }
    }

    fn recipe(several: bool) -> Recipe {
        let gvk = GroupVersionKind::gvk("x.y", "v1", "XRemediation");
        let body = json!({
            "metadata": { "labels": { "a": "b" } }, "spec": { "how": "well" }, "ignored": 1,
        });
        Recipe {
            resource: ApiResource::from_gvk(&gvk),
            body: body.as_object().unwrap().clone(),
            several,
        }
    }

    #[test]
    fn a_remediation_is_a_copy_of_the_template_owned_by_the_check() {
        let made = recipe(false).remediation(&check(), &of(), "n1", true, None);
        assert_eq!(
            serde_json::to_value(made).unwrap(),
            json!({
                "apiVersion": "x.y/v1",
                "kind": "XRemediation",
                "metadata": {
                    "name": "n1",
                    "namespace": "ns",
                    "annotations": {
                        "remediation.medik8s.io/node-name": "n1",
                        "remediation.medik8s.io/template-name": "t",
                    },
                    "labels": {
                        "a": "b",
                        "app.kubernetes.io/part-of": "node-healthcheck-controller",
                        "remediation.medik8s.io/isControlPlaneNode": "",
                    },
                    "ownerReferences": [{
                        "apiVersion": "remediation.medik8s.io/v1alpha1",
                        "kind": "NodeHealthCheck",
                        "name": "c",
                        "uid": "cu",
                        "controller": false,
                    }],
                },
                "spec": { "how": "well" },
            })
        );
    }

    #[test]
    fn a_template_without_an_inner_spec_is_the_spec_itself() {
        let made = |template: Value| {
            let recipe = Recipe {
                body: template.as_object().unwrap().clone(),
                ..recipe(false)
            };
            let made = recipe.remediation(&check(), &of(), "n1", false, None);
            serde_json::to_value(made).unwrap()
        };
        let bare = made(json!({ "size": 42, "metadata": { "labels": { "a": "b" } } }));
        assert_eq!(bare["spec"], json!({ "size": 42 }));
        assert_eq!(bare["metadata"]["labels"]["a"], "b");
        assert_eq!(made(json!({ "spec": {}, "size": 42 }))["spec"], json!({}));
        assert_eq!(made(json!({})).get("spec"), None);
    }

    #[test]
    fn a_template_of_the_wrong_shape_is_invalid() {
        let usable = |template: Value| {
            let object = json!({ "metadata": { "name": "t" }, "spec": { "template": template } });
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let reference = NodeTemplateRef {
                api_version: "x.y/v1".into(),
                kind: "XRemediationTemplate".into(),
                namespace: "ns".into(),
                name: "t".into(),
            };
            usable(&check(), &reference, &object)
        };
        for wrong in [json!("x"), json!([]), json!(null), json!({ "spec": "x" })] {
            let why = usable(wrong.clone()).unwrap_err();
            assert_eq!(why.reason, "RemediationTemplateInvalid", "{wrong}");
        }
        assert!(usable(json!({ "size": 42 })).is_ok());
        assert!(usable(json!({})).is_ok());
    }

    #[test]
    fn on_openshift_the_machine_owns_it_too() {
        let machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m", "uid": "mu",
        });
        let made = recipe(false).remediation(&check(), &of(), "n1", false, Some(machine));
        let owners = made.metadata.owner_references.unwrap();
        assert_eq!(owners.len(), 2);
        assert_eq!(
            (owners[0].uid.as_str(), owners[1].uid.as_str()),
            ("cu", "mu")
        );
        assert_ne!(owners[1].controller, Some(true));
    }

    #[test]
    fn metal3s_template_has_its_place_on_openshift() {
        let at = |kind: &str, namespace: &str| NodeTemplateRef {
            kind: kind.into(),
            namespace: namespace.into(),
            ..NodeTemplateRef::default()
        };
        let of_metal3 = at("Metal3RemediationTemplate", "default");
        let wrong = misnamed(&of_metal3, true).unwrap();
        assert_eq!(wrong.reason, "RemediationTemplateInvalid");
        assert!(wrong.message.contains("openshift-machine-api"));
        assert_eq!(
            misnamed(&of_metal3, false),
            None,
            "elsewhere it may lie anywhere"
        );
        let placed = at("Metal3RemediationTemplate", "openshift-machine-api");
        assert_eq!(misnamed(&placed, true), None);
        assert_eq!(misnamed(&at("XRemediationTemplate", "default"), true), None);
        assert!(misnamed(&at("XRemediation", "default"), false).is_some());
    }

    #[test]
    fn several_of_a_kind_need_the_annotation_but_for_ours() {
        let twice = |of: Template| {
            let step = Step {
                template: of,
                timeout: None,
            };
            Check {
                steps: vec![step.clone(), step],
                ..check()
            }
        };
        let reference = |version: &str| NodeTemplateRef {
            api_version: version.into(),
            kind: "XRemediationTemplate".into(),
            namespace: "ns".into(),
            name: "t".into(),
        };
        let object = |annotations: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": { "name": "t", "annotations": annotations },
                "spec": { "template": { "spec": {} } },
            }))
            .unwrap()
        };
        let foreign = reference("x.y/v1");
        let of = |reference| template(&reference);
        let shared = twice(of(foreign.clone()));
        let refused = usable(&shared, &foreign, &object(json!({}))).unwrap_err();
        assert!(
            refused.message.contains("multiple-templates-support"),
            "{}",
            refused.message
        );
        let supports = json!({ MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION: "" });
        assert!(usable(&shared, &foreign, &object(supports)).unwrap().1);
        let ours = reference("rackhand.dev/v1alpha1");
        let shared = twice(of(ours.clone()));
        assert!(usable(&shared, &ours, &object(json!({}))).unwrap().1);
        assert!(!usable(&check(), &foreign, &object(json!({}))).unwrap().1);
        let empty: DynamicObject = serde_json::from_value(json!({ "metadata": {} })).unwrap();
        assert!(usable(&check(), &foreign, &empty).is_err());
    }

    #[test]
    fn where_several_may_be_there_each_template_has_a_name_of_its_own_for_ever() {
        let name = |template: &str| {
            let of = Template {
                name: template.into(),
                ..of()
            };
            let made = recipe(true).remediation(&check(), &of, "n1", false, None);
            made.metadata.name.unwrap()
        };
        assert_eq!(name("quick"), name("quick"));
        assert_ne!(name("quick"), name("full"));
        assert!(name("quick").starts_with("n1-"));
    }
}
