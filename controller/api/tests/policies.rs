//! The files under `deploy/kustomize/admission` match the schemas and contain
//! every rule of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rackhand_api::policies::{self, BoundPolicy};
use rackhand_api::{crds, names};

mod render;

fn all() -> Vec<BoundPolicy> {
    policies::files().into_values().flatten().collect()
}

fn spec(policy: &BoundPolicy) -> &ValidatingAdmissionPolicySpec {
    policy.policy.spec.as_ref().unwrap()
}

/// Every CEL rule in a schema.
fn rules(schema: &JSONSchemaProps, found: &mut Vec<String>) {
    let here = schema.x_kubernetes_validations.iter().flatten();
    found.extend(here.map(|rule| rule.rule.clone()));
    for property in schema.properties.iter().flatten() {
        rules(property.1, found);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        rules(item, found);
    }
}

#[test]
fn policy_files_match_the_schemas() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize");
    for (folder, policies) in [
        ("admission", policies::files()),
        ("persons", policies::persons()),
    ] {
        are_current(&folders.join(folder), &policies);
    }
}

fn are_current(folder: &Path, policies: &BTreeMap<&'static str, Vec<BoundPolicy>>) {
    for (name, text) in render::policies(policies).unwrap() {
        let path = folder.join(&name);
        let found = fs::read_to_string(&path).unwrap();
        assert!(
            found == text,
            "{} differs from the schemas: run hack/codegen",
            path.display()
        );
        let kustomization = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        assert!(kustomization.contains(&name), "{name} is not applied");
    }
}

#[test]
fn every_schema_rule_is_in_its_policy() {
    for (crd, policies) in [
        (
            "machinehealthchecks.cluster.x-k8s.io",
            policies::machine_health_checks(),
        ),
        (
            "nodehealthchecks.remediation.medik8s.io",
            policies::node_health_checks(),
        ),
    ] {
        let all = crds::all();
        let crd = all
            .iter()
            .find(|found| found.metadata.name.as_deref() == Some(crd))
            .unwrap();
        let version = crd.spec.versions[0].schema.as_ref().unwrap();
        let root = version.open_api_v3_schema.as_ref().unwrap();
        let mut expected = Vec::new();
        rules(&root.properties.as_ref().unwrap()["spec"], &mut expected);
        assert!(expected.len() > 5, "{expected:?}");
        let variables = spec(&policies[0]).variables.as_ref().unwrap();
        for rule in expected {
            let mut expressions = variables.iter().map(|variable| &variable.expression);
            assert!(expressions.any(|text| text.contains(&rule)), "{rule}");
        }
    }
}

#[test]
fn every_pattern_has_a_message() {
    for policy in all() {
        for variable in spec(&policy).variables.iter().flatten() {
            // The message for a pattern that has no sentence of its own.
            assert!(
                !variable.expression.contains("should match"),
                "{variable:?}"
            );
        }
    }
}

#[test]
fn variables_refer_only_to_earlier_variables() {
    for policy in all() {
        let mut known: Vec<&str> = Vec::new();
        let variables = spec(&policy).variables.as_deref().unwrap();
        for variable in variables {
            for used in variable.expression.split("variables.").skip(1) {
                let name = used.split(|c: char| !c.is_ascii_alphanumeric()).next();
                assert!(known.contains(&name.unwrap()), "{variable:?}");
            }
            assert!(!known.contains(&variable.name.as_str()), "{variable:?}");
            known.push(&variable.name);
        }
    }
}

#[test]
fn each_policy_is_bound_with_its_action_and_failure_policy() {
    for BoundPolicy { policy, binding } in all() {
        let name = policy.metadata.name.clone().unwrap();
        assert!(name.ends_with(&format!(".{}", names::GROUP)), "{name}");
        let bound = binding.spec.unwrap();
        assert_eq!(bound.policy_name.as_ref(), Some(&name));
        let warns = name.contains("-warnings.");
        let (action, failure) = match warns {
            true => ("Warn", "Ignore"),
            false => ("Deny", "Fail"),
        };
        assert_eq!(bound.validation_actions.unwrap(), [action], "{name}");
        let spec = policy.spec.unwrap();
        assert_eq!(spec.failure_policy.as_deref(), Some(failure), "{name}");
        let constraints = spec.match_constraints.unwrap();
        assert_eq!(constraints.match_policy.as_deref(), Some("Equivalent"));
        // An expression that cannot be evaluated must not leave an empty message.
        let validations = spec.validations.unwrap();
        assert!(validations.iter().all(|v| v.message.is_some()), "{name}");
    }
}

/// An installed policy of another version, or one that somebody has changed, is told from ours.
#[test]
fn installed_policy_is_compared_without_defaults_of_the_api_server() {
    for shipped in policies::persons().into_values().flatten() {
        let mut installed = shipped.clone();
        let spec = installed.policy.spec.as_mut().unwrap();
        let constraints = spec.match_constraints.as_mut().unwrap();
        constraints.namespace_selector = Some(LabelSelector::default());
        constraints.object_selector = Some(LabelSelector::default());
        for rule in constraints.resource_rules.as_mut().unwrap() {
            rule.scope = Some("*".to_owned());
        }
        assert!(shipped.is_policy(&installed.policy));
        assert!(shipped.is_binding(&installed.binding));

        let spec = installed.policy.spec.as_mut().unwrap();
        spec.validations.as_mut().unwrap().pop();
        assert!(!shipped.is_policy(&installed.policy));
        let spec = installed.binding.spec.as_mut().unwrap();
        spec.validation_actions = Some(vec!["Audit".to_owned()]);
        assert!(!shipped.is_binding(&installed.binding));
    }
}

#[test]
fn f15_words_of_persons_are_checked_on_every_write() {
    for shipped in policies::persons().into_values().flatten() {
        let spec = spec(&shipped);
        assert_eq!(spec.match_conditions, None, "no object is exempt");
    }
}
