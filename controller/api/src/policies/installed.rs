//! Whether the policies that are installed are those of this version.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::BoundPolicy;

impl BoundPolicy {
    /// Whether an installed policy has this content, apart from defaults that the API server has added.
    #[must_use]
    pub fn is_policy(&self, installed: &ValidatingAdmissionPolicy) -> bool {
        let mut spec = installed.spec.clone().unwrap_or_default();
        spec.audit_annotations = not_empty(spec.audit_annotations);
        spec.match_conditions = not_empty(spec.match_conditions);
        spec.match_constraints = spec.match_constraints.map(without_defaults);
        Some(spec) == self.policy.spec
    }

    /// Whether an installed binding has this content, apart from defaults that the API server has added.
    #[must_use]
    pub fn is_binding(&self, installed: &ValidatingAdmissionPolicyBinding) -> bool {
        let mut spec = installed.spec.clone().unwrap_or_default();
        spec.match_resources = spec
            .match_resources
            .map(without_defaults)
            .filter(|resources| *resources != MatchResources::default());
        Some(spec) == self.binding.spec
    }
}

fn without_defaults(mut resources: MatchResources) -> MatchResources {
    let selects_all = |selector: &LabelSelector| *selector == LabelSelector::default();
    resources.namespace_selector = resources.namespace_selector.filter(|s| !selects_all(s));
    resources.object_selector = resources.object_selector.filter(|s| !selects_all(s));
    resources.exclude_resource_rules = not_empty(resources.exclude_resource_rules);
    for rule in resources.resource_rules.iter_mut().flatten() {
        rule.scope = rule.scope.take().filter(|scope| scope != "*");
        rule.resource_names = not_empty(rule.resource_names.take());
    }
    resources
}

fn not_empty<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}
