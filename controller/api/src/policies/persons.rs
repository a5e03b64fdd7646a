//! Who may let a person's word count: the annotations of a remediation that approve it, confirm its power-off or
//! overrule a check of it (F15). Whoever may write a remediation may not therefore do this.

use super::{Spec, bind, condition, variable};
use crate::names::{
    APPROVED_ANNOTATION, CONFIRM_FENCED_ANNOTATION, GROUP, OVERRIDE_OTHER_NODE_ANNOTATION,
    OVERRIDE_OWNER_ANNOTATION, OVERRIDE_QUORUM_ANNOTATION, groups,
};
use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, Validation};

/// The verb on a remediation that each annotation needs.
const VERBS: [(&str, &str); 5] = [
    (APPROVED_ANNOTATION, "approve"),
    (CONFIRM_FENCED_ANNOTATION, "confirm"),
    (OVERRIDE_OTHER_NODE_ANNOTATION, "confirm"),
    (OVERRIDE_OWNER_ANNOTATION, "confirm"),
    (OVERRIDE_QUORUM_ANNOTATION, "confirm"),
];

pub(super) fn policy() -> super::BoundPolicy {
    let annotations = |object: &str| {
        format!(
            "{object} != null && has({object}.metadata.annotations) ? {object}.metadata.annotations : {{}}"
        )
    };
    let spec = Spec {
        operations: &["CREATE", "UPDATE"],
        failure_policy: "Fail",
        action: "Deny",
        conditions: vec![condition(
            "is-not-being-deleted",
            "!has(object.metadata.deletionTimestamp)",
        )],
        variables: vec![
            variable("annotations", &annotations("object")),
            variable("before", &annotations("oldObject")),
        ],
        validations: VERBS.iter().map(|(key, verb)| asks(key, verb)).collect(),
    };
    let rule = |group: &str, versions: &[&str], resource: &str| NamedRuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(versions.iter().map(|&v| v.to_owned()).collect()),
        resources: Some(vec![resource.to_owned()]),
        ..NamedRuleWithOperations::default()
    };
    let rules = vec![
        rule(
            groups::INFRASTRUCTURE,
            &["v1beta1", "v1beta2"],
            "metal3remediations",
        ),
        rule(GROUP, &["v1alpha1"], "powerremediations"),
    ];
    bind(format!("remediations.{GROUP}"), rules, spec)
}

/// The annotation may be set, or set to another value, only by who has the verb; anybody may remove it.
fn asks(key: &str, verb: &str) -> Validation {
    Validation {
        expression: format!(
            "!('{key}' in variables.annotations) || \
             ('{key}' in variables.before && variables.before['{key}'] == variables.annotations['{key}']) || \
             authorizer.requestResource.check('{verb}').allowed()"
        ),
        message: Some(format!(
            "metadata.annotations[{key}]: only an account with the verb {verb} on this remediation may set it \
             (docs/security.md)"
        )),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    }
}
