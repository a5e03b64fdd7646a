//! Warnings of values of health checks and triggers that are accepted but probably not intended.

use k8s_openapi::api::admissionregistration::v1::Variable;

use super::cel::Check;
use super::variable;
use crate::names;
use crate::validation::{GO_DURATION, PERCENTAGE, RANGE};

/// Warnings, with the variables that they use.
pub(super) struct Warnings {
    pub(super) variables: Vec<Variable>,
    /// Checks whose condition `fails` holds where the warning is due.
    pub(super) checks: Vec<Check>,
}

fn warning(field: &str, due: &str, message: &str) -> Check {
    Check {
        field: field.to_owned(),
        fails: due.to_owned(),
        message: message.to_owned(),
    }
}

/// The first of these fields that is there, in a list; an empty list where none is.
fn first_of(paths: &[&str]) -> String {
    let mut expression = String::new();
    for path in paths {
        let mut value = "variables.spec".to_owned();
        let mut guards = Vec::new();
        for name in path.split('.') {
            value.push('.');
            value.push_str(name);
            guards.push(format!("has({value})"));
        }
        expression.push_str(&format!("{} ? [{value}]\n: ", guards.join(" && ")));
    }
    expression + "[]"
}

/// The warnings for a MachineHealthCheck. Each value is in the field of v1beta2 or in that of v1beta1.
pub(super) fn machine_health_check() -> Warnings {
    let range = RANGE.regex;
    let bound =
        |index: usize| format!("int(self.substring(1, self.size() - 1).split('-')[{index}])");
    let empty = |list: &str| format!("(!has({list}) || {list}.size() == 0)");
    Warnings {
        variables: vec![
            variable("spec", "has(object.spec) ? object.spec : {}"),
            variable(
                "range",
                &first_of(&["remediation.triggerIf.unhealthyInRange", "unhealthyRange"]),
            ),
            variable(
                "limit",
                &first_of(&[
                    "remediation.triggerIf.unhealthyLessThanOrEqualTo",
                    "maxUnhealthy",
                ]),
            ),
            variable(
                "checks",
                "has(variables.spec.checks) ? variables.spec.checks : {}",
            ),
        ],
        checks: vec![
            warning(
                "unhealthyRange",
                &format!(
                    "variables.range.exists(self, self.matches(r'{range}') && {} < {})",
                    bound(1),
                    bound(0)
                ),
                "'the range ' + variables.range[0] + ' ends before it begins: nothing is evaluated \
                 until it is corrected'",
            ),
            warning(
                "maxUnhealthy",
                &format!(
                    "variables.range.size() == 0 && variables.limit.exists(self, type(self) == string \
                     ? self.matches(r'{}') && int(self.substring(0, self.size() - 1)) <= 0 : self <= 0)",
                    PERCENTAGE.regex
                ),
                "'with a limit of ' + string(variables.limit[0]) + ' this check only observes: nothing \
                 is ever remediated'",
            ),
            warning(
                "nodeStartupTimeout",
                &format!(
                    "(has(variables.checks.nodeStartupTimeoutSeconds)\n\
                     ? variables.checks.nodeStartupTimeoutSeconds == 0\n\
                     : has(variables.spec.nodeStartupTimeout) && \
                     variables.spec.nodeStartupTimeout.matches(r'{}') && \
                     duration(variables.spec.nodeStartupTimeout) == duration('0s'))\n\
                     && {} && {}\n&& {} && {}",
                    GO_DURATION.regex,
                    empty("variables.spec.unhealthyConditions"),
                    empty("variables.spec.unhealthyMachineConditions"),
                    empty("variables.checks.unhealthyNodeConditions"),
                    empty("variables.checks.unhealthyMachineConditions"),
                ),
                "'without conditions and without a startup timeout only a deleted Node makes a Machine \
                 unhealthy'",
            ),
        ],
    }
}

/// The warnings for a NodeHealthCheck.
pub(super) fn node_health_check() -> Warnings {
    let observes = |field: &str, limit: &str| {
        format!(
            "'spec.{field}: with ' + string({limit}) + ' this check only observes: nothing is ever \
             remediated'"
        )
    };
    let (min, max) = ("variables.spec.minHealthy", "variables.spec.maxUnhealthy");
    let cooldown = "variables.spec.stormCooldownDuration";
    Warnings {
        variables: vec![
            variable("spec", "has(object.spec) ? object.spec : {}"),
            // Several remediations of a kind for one Node are possible only where an annotation of their
            // templates allows it; with PowerRemediations they always are.
            variable(
                "templates",
                &format!(
                    "(has(variables.spec.escalatingRemediations) ? \
                     variables.spec.escalatingRemediations : [])\n\
                     .filter(step, has(step.remediationTemplate) && \
                     has(step.remediationTemplate.kind) && has(step.remediationTemplate.apiVersion))\n\
                     .map(step, step.remediationTemplate)\n\
                     .filter(template, !template.apiVersion.startsWith('{}/'))\n\
                     .map(template, template.kind + '.' + template.apiVersion.split('/')[0])",
                    names::GROUP
                ),
            ),
            variable(
                "repeated",
                "variables.templates.filter(kind, variables.templates.indexOf(kind) != \
                 variables.templates.lastIndexOf(kind))",
            ),
        ],
        checks: vec![
            warning(
                "minHealthy",
                &format!("has({min}) && {min} == '100%'"),
                &observes("minHealthy", min),
            ),
            warning(
                "maxUnhealthy",
                &format!(
                    "!has({min}) && has({max}) && ({max} == 0 || {max} == '0%' || {max} == '0')"
                ),
                &observes("maxUnhealthy", max),
            ),
            warning(
                "escalatingRemediations",
                "variables.repeated.size() > 0",
                &format!(
                    "'spec.escalatingRemediations: ' + variables.repeated[0].split('.')[0] + ' is in \
                     several steps: each of these templates must carry the annotation {}, without \
                     which the {} is disabled'",
                    names::MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION,
                    names::kinds::NODE_HEALTH_CHECK
                ),
            ),
            warning(
                "stormCooldownDuration",
                &format!(
                    "has({cooldown}) && {cooldown}.matches(r'{}') && duration({cooldown}) == \
                     duration('0s')",
                    GO_DURATION.regex
                ),
                "'spec.stormCooldownDuration: 0 is no cooldown at all'",
            ),
        ],
    }
}

/// The warning for a RemediationTrigger: a label that kubelets may set on their own Nodes.
pub(super) fn remediation_trigger() -> Warnings {
    let allowed = "variables.spec.allowUnrestrictedLabel";
    let label = "variables.spec.label";
    Warnings {
        variables: vec![variable("spec", "has(object.spec) ? object.spec : {}")],
        checks: vec![warning(
            "label",
            &format!(
                "!(has({allowed}) && {allowed}) && has({label}) && \
                 !{label}.matches(r'^([^/]*[.])?node-restriction[.]kubernetes[.]io/')"
            ),
            "'spec.label: every kubelet can set ' + variables.spec.label + ' on its own Node; use a label \
             under node-restriction.kubernetes.io/, or set allowUnrestrictedLabel'",
        )],
    }
}
