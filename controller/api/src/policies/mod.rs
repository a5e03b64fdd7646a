//! The admission policies that we ship, put together from the CRDs.
//!
//! A ValidatingAdmissionPolicy checks a health check as our CRDs do, for clusters in which other
//! projects' CRDs are installed and no webhook of theirs runs. It also checks what no CRD can: rules
//! that depend on metadata or on the operation. The rules come from the schemas in [`crate::kinds`] and
//! so are the same in the CRDs and here. `hack/codegen` writes the files under
//! `deploy/kustomize/admission`.
//!
//! Must never use a CEL function that Kubernetes 1.30 lacks, the first version with these policies.

mod cel;
mod in_use;
mod installed;
mod persons;
mod schema;
mod warnings;

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{CustomResourceExt, api::ObjectMeta};

use crate::kinds::machine_health_check::MachineHealthCheck;
use crate::kinds::node_health_check::NodeHealthCheck;
use crate::kinds::remediation_trigger::RemediationTrigger;
use crate::names;
use cel::Check;

/// A policy with the binding that puts it into effect.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPolicy {
    /// The rules, and the objects that they apply to.
    pub policy: ValidatingAdmissionPolicy,
    /// The action on a failure: deny or warn.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// The policies of each kind, by the name of the file that they are written to.
#[must_use]
pub fn files() -> BTreeMap<&'static str, Vec<BoundPolicy>> {
    BTreeMap::from([
        ("machine-health-checks.yaml", machine_health_checks()),
        ("node-health-checks.yaml", node_health_checks()),
        ("remediation-triggers.yaml", remediation_triggers()),
    ])
}

/// The policy that asks who may let a person's word count, by the name of its file.
#[must_use]
pub fn persons() -> BTreeMap<&'static str, Vec<BoundPolicy>> {
    BTreeMap::from([(
        "remediations.yaml",
        vec![persons::policy(), persons::maintenances()],
    )])
}

/// The policies for Cluster API's MachineHealthChecks.
#[must_use]
pub fn machine_health_checks() -> Vec<BoundPolicy> {
    let kind = Kind {
        crd: MachineHealthCheck::crd(),
        versions: &["v1beta1", "v1beta2"],
    };
    vec![
        kind.rules(Vec::new()),
        kind.warnings(&warnings::machine_health_check()),
    ]
}

/// The policies for medik8s' NodeHealthChecks.
#[must_use]
pub fn node_health_checks() -> Vec<BoundPolicy> {
    let kind = Kind {
        crd: NodeHealthCheck::crd(),
        versions: &["v1alpha1"],
    };
    vec![
        kind.rules(vec![startup_timeout()]),
        kind.in_use(),
        kind.warnings(&warnings::node_health_check()),
    ]
}

/// The policy for RemediationTriggers. Their CRD is always ours, so it refuses what is invalid, and the policy only
/// warns.
#[must_use]
pub fn remediation_triggers() -> Vec<BoundPolicy> {
    let kind = Kind {
        crd: RemediationTrigger::crd(),
        versions: &["v1alpha1"],
    };
    vec![kind.warnings(&warnings::remediation_trigger())]
}

/// The value of our annotation of a NodeHealthCheck must be a duration. This cannot be a rule of the
/// CRD, whose rules do not see annotations.
fn startup_timeout() -> Check {
    let key = names::NODE_STARTUP_TIMEOUT_ANNOTATION;
    let pattern = crate::validation::GO_DURATION;
    let field = format!("metadata.annotations[{key}]");
    let value = format!("object.metadata.annotations['{key}']");
    Check {
        fails: format!(
            "has(object.metadata.annotations) && '{key}' in object.metadata.annotations && \
             !({value}.matches(r'{}') && {})",
            pattern.regex,
            crate::validation::SHORT_DURATION
                .rule
                .replace("self", &value),
        ),
        message: format!(
            "{} + {value} + {}",
            cel::text(&format!("{field}: Invalid value: \"")),
            cel::text(&format!("\": {}", pattern.message)),
        ),
        field,
    }
}

/// A kind of health check.
struct Kind {
    crd: CustomResourceDefinition,
    /// Every version of the kind: an object is checked in the version in which it is written. The API
    /// server converts an object of any other version to one of these.
    versions: &'static [&'static str],
}

impl Kind {
    fn resource(&self) -> &str {
        &self.crd.spec.names.plural
    }

    fn spec_schema(&self) -> Option<&JSONSchemaProps> {
        let version = self.crd.spec.versions.first()?;
        let root = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        root.properties.as_ref()?.get("spec")
    }

    /// The policy with the rules of the CRD's schema and the checks in `more`.
    fn rules(&self, more: Vec<Check>) -> BoundPolicy {
        let schema = self.spec_schema().map(schema::checks).unwrap_or_default();
        let mut fields: Vec<(String, Vec<Check>)> = Vec::new();
        for check in schema.checks.into_iter().chain(more) {
            match fields.iter_mut().find(|(field, _)| *field == check.field) {
                Some((_, checks)) => checks.push(check),
                None => fields.push((check.field.clone(), vec![check])),
            }
        }
        let mut variables = vec![
            variable("spec", "has(object.spec) ? object.spec : {}"),
            variable(
                "oldSpec",
                "oldObject != null && has(oldObject.spec) ? oldObject.spec : {}",
            ),
        ];
        variables.extend(schema.variables);
        let mut names = Vec::new();
        for (field, checks) in &fields {
            let name = format!("{}Problem", variable_name(field));
            variables.push(variable(&name, &cel::first_message(checks)));
            names.push(format!("variables.{name}"));
        }
        variables.push(variable(
            "problems",
            &format!("[\n{}\n].filter(problem, problem != '')", names.join(",\n")),
        ));
        let validation = Validation {
            expression: "variables.problems.size() == 0".to_owned(),
            message_expression: Some("variables.problems.join('; ')".to_owned()),
            message: Some("the spec is invalid".to_owned()),
            reason: Some("Invalid".to_owned()),
        };
        self.bound(
            "",
            Spec {
                operations: &["CREATE", "UPDATE"],
                failure_policy: "Fail",
                action: "Deny",
                conditions: judged_spec(),
                variables,
                validations: vec![validation],
            },
        )
    }

    /// The policy that warns of values that are accepted but probably not intended.
    fn warnings(&self, warnings: &warnings::Warnings) -> BoundPolicy {
        let validations = warnings.checks.iter().map(|check| Validation {
            expression: format!("!({})", check.fails),
            message_expression: Some(check.message.clone()),
            message: Some(format!("{} is hardly intended", check.field)),
            reason: None,
        });
        self.bound(
            "-warnings",
            Spec {
                operations: &["CREATE", "UPDATE"],
                failure_policy: "Ignore",
                action: "Warn",
                conditions: judged_spec(),
                variables: warnings.variables.clone(),
                validations: validations.collect(),
            },
        )
    }

    /// The policy that refuses some changes, and deletion, during a remediation.
    fn in_use(&self) -> BoundPolicy {
        self.bound(
            "-in-use",
            Spec {
                operations: &["UPDATE", "DELETE"],
                failure_policy: "Fail",
                action: "Deny",
                conditions: in_use::conditions(),
                variables: in_use::variables(),
                validations: in_use::validations(),
            },
        )
    }

    fn bound(&self, suffix: &str, spec: Spec) -> BoundPolicy {
        let owned = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
        let rule = NamedRuleWithOperations {
            api_groups: Some(vec![self.crd.spec.group.clone()]),
            api_versions: Some(owned(self.versions)),
            resources: Some(vec![self.resource().to_owned()]),
            ..NamedRuleWithOperations::default()
        };
        let name = format!("{}{suffix}.{}", self.resource(), names::GROUP);
        bind(name, vec![rule], spec)
    }
}

/// The policy with its binding. `rules`: the resources, to which the operations of the spec are added.
fn bind(name: String, mut rules: Vec<NamedRuleWithOperations>, spec: Spec) -> BoundPolicy {
    for rule in &mut rules {
        let operations = spec.operations.iter().map(|&one| one.to_owned());
        rule.operations = Some(operations.collect());
    }
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: Some(BTreeMap::from([(
            names::MANAGED_BY_LABEL.to_owned(),
            names::MANAGED_BY.to_owned(),
        )])),
        ..ObjectMeta::default()
    };
    let policy = ValidatingAdmissionPolicySpec {
        failure_policy: Some(spec.failure_policy.to_owned()),
        match_conditions: Some(spec.conditions).filter(|all| !all.is_empty()),
        match_constraints: Some(MatchResources {
            match_policy: Some("Equivalent".to_owned()),
            resource_rules: Some(rules),
            ..MatchResources::default()
        }),
        variables: Some(spec.variables),
        validations: Some(spec.validations),
        ..ValidatingAdmissionPolicySpec::default()
    };
    BoundPolicy {
        policy: ValidatingAdmissionPolicy {
            metadata: metadata.clone(),
            spec: Some(policy),
            status: None,
        },
        binding: ValidatingAdmissionPolicyBinding {
            metadata,
            spec: Some(ValidatingAdmissionPolicyBindingSpec {
                policy_name: Some(name),
                validation_actions: Some(vec![spec.action.to_owned()]),
                ..ValidatingAdmissionPolicyBindingSpec::default()
            }),
        },
    }
}

/// What differs from policy to policy.
struct Spec {
    operations: &'static [&'static str],
    failure_policy: &'static str,
    action: &'static str,
    conditions: Vec<MatchCondition>,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

/// A spec that is already stored is not checked again, so that the labels and annotations of an old check
/// can be changed. A check that is being deleted is not checked either: nothing is remediated by its spec any more.
fn judged_spec() -> Vec<MatchCondition> {
    vec![
        condition(
            "spec-is-new",
            "oldObject == null || has(object.spec) != has(oldObject.spec) || \
             (has(object.spec) && object.spec != oldObject.spec)",
        ),
        condition(
            "is-not-being-deleted",
            "!has(object.metadata.deletionTimestamp)",
        ),
    ]
}

fn condition(name: &str, expression: &str) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

fn variable(name: &str, expression: &str) -> Variable {
    Variable {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

/// The name of a field's variable: `selectorMatchLabels` for `spec.selector.matchLabels`.
fn variable_name(field: &str) -> String {
    let field = field.strip_prefix("spec.").unwrap_or(field);
    let words = field.split(|c: char| !c.is_ascii_alphanumeric());
    let mut name = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        match name.is_empty() {
            true => name.push_str(first),
            false => name.push_str(&first.to_ascii_uppercase()),
        }
        name.push_str(rest);
    }
    name
}
