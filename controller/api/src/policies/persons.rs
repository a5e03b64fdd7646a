//! Who may set the annotations of a remediation that decide something (F15): those by which a person approves it,
//! confirms its power-off or overrules a check of it, and those that only Rackhand writes. Whoever may write a
//! remediation may not therefore do this.
//!
//! An object that is being deleted is checked as well: a finalizer keeps it, and its host is still switched. Its
//! finalizers can be removed, because annotations that do not change pass.

use super::{Spec, bind, variable};
use crate::names::{
    APPROVED_ANNOTATION, BLOCKED_ANNOTATION, CAUSE_ANNOTATION, CONFIRM_FENCED_ANNOTATION, GROUP,
    LABEL_ANSWERED_ANNOTATION, MACHINE_OF_REMEDIATION_ANNOTATION, MADE_BY_ANNOTATION,
    NODE_UID_ANNOTATION, OVERRIDE_OTHER_NODE_ANNOTATION, OVERRIDE_OWNER_ANNOTATION,
    OVERRIDE_QUORUM_ANNOTATION, STATE_ANNOTATION, groups,
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

/// The verb that the controller has, and whoever restores or moves remediations with what Rackhand wrote on them.
const ATTRIBUTE: &str = "attribute";

/// What only Rackhand writes on a remediation.
const MARKS: [&str; 7] = [
    MADE_BY_ANNOTATION,
    MACHINE_OF_REMEDIATION_ANNOTATION,
    NODE_UID_ANNOTATION,
    LABEL_ANSWERED_ANNOTATION,
    CAUSE_ANNOTATION,
    STATE_ANNOTATION,
    BLOCKED_ANNOTATION,
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
        conditions: Vec::new(),
        variables: vec![
            variable("annotations", &annotations("object")),
            variable("before", &annotations("oldObject")),
        ],
        validations: validations(),
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

/// Who may say in whose name planned work is done: each in the own name.
pub(super) fn maintenances() -> super::BoundPolicy {
    let by = "has(object.spec.requestedBy) ? object.spec.requestedBy : ''";
    let before =
        "oldObject != null && has(oldObject.spec.requestedBy) ? oldObject.spec.requestedBy : ''";
    let spec = Spec {
        operations: &["CREATE", "UPDATE"],
        failure_policy: "Fail",
        action: "Deny",
        conditions: Vec::new(),
        variables: vec![variable("by", by), variable("before", before)],
        validations: vec![Validation {
            expression: format!(
                "variables.by == variables.before || variables.by == '' || \
                 variables.by == request.userInfo.username || \
                 authorizer.requestResource.check('{ATTRIBUTE}').allowed()"
            ),
            message: Some(format!(
                "spec.requestedBy: must be the name of the user who writes it; only an account with the verb \
                 {ATTRIBUTE} on this maintenance may name another (docs/security.md)"
            )),
            reason: Some("Forbidden".to_owned()),
            ..Validation::default()
        }],
    };
    let rule = NamedRuleWithOperations {
        api_groups: Some(vec![GROUP.to_owned()]),
        api_versions: Some(vec!["v1alpha1".to_owned()]),
        resources: Some(vec!["hostmaintenances".to_owned()]),
        ..NamedRuleWithOperations::default()
    };
    bind(format!("hostmaintenances.{GROUP}"), vec![rule], spec)
}

fn validations() -> Vec<Validation> {
    let words = VERBS.iter().map(|(key, verb)| may_set(key, verb));
    let marks = MARKS.iter().map(|key| may_set(key, ATTRIBUTE));
    let mut all: Vec<Validation> = words.chain(marks).collect();
    // Without it, no health check withdraws the remediation.
    all.push(may_remove(MADE_BY_ANNOTATION, ATTRIBUTE));
    // Without it, the remediation of a Machine that is gone is one of a Node.
    all.push(may_remove(MACHINE_OF_REMEDIATION_ANNOTATION, ATTRIBUTE));
    all
}

/// The annotation may be set, or set to another value, only by who has the verb.
fn may_set(key: &str, verb: &str) -> Validation {
    requires(
        verb,
        &format!(
            "!('{key}' in variables.annotations) || \
             ('{key}' in variables.before && variables.before['{key}'] == variables.annotations['{key}'])"
        ),
        &format!(
            "metadata.annotations[{key}]: only an account with the verb {verb} on this remediation may set it"
        ),
    )
}

/// The annotation may be removed only by who has the verb.
fn may_remove(key: &str, verb: &str) -> Validation {
    requires(
        verb,
        &format!("!('{key}' in variables.before) || '{key}' in variables.annotations"),
        &format!(
            "metadata.annotations[{key}]: only an account with the verb {verb} on this remediation may remove it"
        ),
    )
}

/// Where `unless` does not hold, the caller must have the verb on the remediation.
fn requires(verb: &str, unless: &str, message: &str) -> Validation {
    Validation {
        expression: format!("{unless} || authorizer.requestResource.check('{verb}').allowed()"),
        message: Some(format!("{message} (docs/security.md)")),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    }
}
