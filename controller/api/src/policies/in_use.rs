//! What cannot change while a NodeHealthCheck remediates Nodes, as with medik8s' own webhook: neither
//! which Nodes it selects nor how it remediates them may change, and it cannot be deleted, which would
//! delete its remediations in the middle.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, Validation, Variable};

use super::{condition, variable};

/// The fields that cannot be changed.
const KEPT: [&str; 3] = ["selector", "remediationTemplate", "escalatingRemediations"];
/// How many Nodes a message names.
const NAMED: usize = 5;

const ENTRIES: &str = "oldObject.status.unhealthyNodes";
const REMEDIATED: &str = "has(node.remediations) && node.remediations.size() > 0";

/// The policy applies only while the stored status lists a remediation.
pub(super) fn conditions() -> Vec<MatchCondition> {
    vec![condition(
        "remediates",
        &format!("has(oldObject.status) && has({ENTRIES}) && {ENTRIES}.exists(node, {REMEDIATED})"),
    )]
}

pub(super) fn variables() -> Vec<Variable> {
    let field = |field: &&str| {
        let (new, old) = (
            format!("variables.spec.{field}"),
            format!("variables.oldSpec.{field}"),
        );
        format!("has({new}) == has({old}) && (!has({new}) || {new} == {old}) ? '' : 'spec.{field}'")
    };
    let fields: Vec<String> = KEPT.iter().map(field).collect();
    vec![
        variable(
            "spec",
            "object != null && has(object.spec) ? object.spec : {}",
        ),
        variable("oldSpec", "has(oldObject.spec) ? oldObject.spec : {}"),
        variable(
            "nodes",
            &format!("{ENTRIES}.filter(node, {REMEDIATED}).map(node, string(node.name))"),
        ),
        variable(
            "listed",
            &format!(
                "'Node ' + variables.nodes.filter(node, variables.nodes.indexOf(node) < {NAMED})\
                 .join(', ')\n+ (variables.nodes.size() > {NAMED} ? ' and ' + \
                 string(variables.nodes.size() - {NAMED}) + ' more' : '')"
            ),
        ),
        variable(
            "changed",
            &format!("[\n{}\n].filter(field, field != '')", fields.join(",\n")),
        ),
    ]
}

pub(super) fn validations() -> Vec<Validation> {
    vec![
        Validation {
            expression: "request.operation == 'DELETE' || has(object.metadata.deletionTimestamp) || \
                         variables.changed.size() == 0"
                .to_owned(),
            message_expression: Some(
                "variables.changed.join(', ') + ': Forbidden: cannot be changed while the check \
                 remediates ' + variables.listed + '; the limit, the conditions, healthyDelay and \
                 pauseRequests can'"
                    .to_owned(),
            ),
            message: Some("the check remediates Nodes: selector and templates cannot be changed".to_owned()),
            reason: Some("Invalid".to_owned()),
        },
        Validation {
            expression: "request.operation != 'DELETE'".to_owned(),
            message_expression: Some(
                "'cannot be deleted while it remediates ' + variables.listed + ': its remediations \
                 would be deleted in the middle; wait until the status lists none, or, if no \
                 controller runs any more, delete this policy first'"
                    .to_owned(),
            ),
            message: Some("the check remediates Nodes: it cannot be deleted".to_owned()),
            reason: Some("Forbidden".to_owned()),
        },
    ]
}
