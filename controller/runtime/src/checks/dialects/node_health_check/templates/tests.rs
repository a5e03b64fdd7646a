//! Remediations that are created from templates, and templates that cannot be used.

use kube::core::GroupVersionKind;
use rackhand_core::checks::nodes::{Delay, Limit, Step};

use super::*;

fn of() -> Template {
    Template {
        api_version: "x.y/v1".into(),
        remediation_kind: "XRemediation".into(),
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

fn mk_template(several: bool) -> NodeTemplate {
    let gvk = GroupVersionKind::gvk("x.y", "v1", "XRemediation");
    let body = json!({
        "metadata": { "labels": { "a": "b" } }, "spec": { "how": "well" }, "ignored": 1,
    });
    NodeTemplate {
        resource: ApiResource::from_gvk(&gvk),
        body: body.as_object().unwrap().clone(),
        several,
    }
}

#[test]
fn remediation_copies_template_and_is_owned_by_check() {
    let made = mk_template(false).remediation(&check(), &of(), "n1", true, None);
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
fn template_without_inner_spec_becomes_the_spec() {
    let made = |template: Value| {
        let template = NodeTemplate {
            body: template.as_object().unwrap().clone(),
            ..mk_template(false)
        };
        let made = template.remediation(&check(), &of(), "n1", false, None);
        serde_json::to_value(made).unwrap()
    };
    let bare = made(json!({ "size": 42, "metadata": { "labels": { "a": "b" } } }));
    assert_eq!(bare["spec"], json!({ "size": 42 }));
    assert_eq!(bare["metadata"]["labels"]["a"], "b");
    assert_eq!(made(json!({ "spec": {}, "size": 42 }))["spec"], json!({}));
    assert_eq!(made(json!({})).get("spec"), None);
}

#[test]
fn malformed_template_is_invalid() {
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
fn remediation_on_openshift_is_also_owned_by_machine() {
    let machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m", "uid": "mu",
    });
    let made = mk_template(false).remediation(&check(), &of(), "n1", false, Some(machine));
    let owners = made.metadata.owner_references.unwrap();
    assert_eq!(owners.len(), 2);
    assert_eq!(
        (owners[0].uid.as_str(), owners[1].uid.as_str()),
        ("cu", "mu")
    );
    assert_ne!(owners[1].controller, Some(true));
}

#[test]
fn metal3_template_on_openshift_must_be_in_machine_api_namespace() {
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
        "outside OpenShift any namespace is valid"
    );
    let placed = at("Metal3RemediationTemplate", "openshift-machine-api");
    assert_eq!(misnamed(&placed, true), None);
    assert_eq!(misnamed(&at("XRemediationTemplate", "default"), true), None);
    assert!(misnamed(&at("XRemediation", "default"), false).is_some());
}

#[test]
fn several_templates_of_one_foreign_kind_require_annotation() {
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
    let of = |reference| template_of(&reference);
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
fn remediation_names_of_one_kind_are_stable_and_distinct_per_template() {
    let name = |template: &str| {
        let of = Template {
            name: template.into(),
            ..of()
        };
        let made = mk_template(true).remediation(&check(), &of, "n1", false, None);
        made.metadata.name.unwrap()
    };
    assert_eq!(name("quick"), name("quick"));
    assert_ne!(name("quick"), name("full"));
    assert!(name("quick").starts_with("n1-"));
}
