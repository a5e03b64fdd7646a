//! Conditions of a check besides its limit: pause, failed creation of remediations, overlap with other
//! checks, and clock skew.
//!
//! Pure. A condition that another controller writes on the same check is never written, because the two
//! controllers would trigger each other endlessly.

use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, PAUSED_ANNOTATION,
        conditions::{
            CLOCK_SKEW, EXTERNAL_REMEDIATION_REQUEST_AVAILABLE,
            EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE, OVERLAPPING, PAUSED, STALE_VIEW,
        },
    },
    views::{ClusterView, Meta},
};

use super::ownership::Ownership;
use crate::store::conditions::NewCondition;

/// The reason of `ExternallyRemediated` if the template does not exist.
const TEMPLATE_NOT_FOUND: &str = "RemediationTemplateNotFound";

/// Reason and Event of a check with Machines that another check acts for.
const OTHER_ACTS: &str = "OtherCheckActs";

/// Reason and Event of a check that evaluates a condition whose lastTransitionTime is in the future.
const IN_FUTURE: &str = "ConditionInFuture";

/// Reason and Event of a check whose fleet cannot be read live.
const NOT_READ: &str = "LiveReadFailed";

/// The message of the condition `StaleView`.
pub(super) fn stale_view(why: &str) -> String {
    format!("Unhealthy machines are not remediated until a live read of the fleet succeeds: {why}")
}

/// Messages of conditions that are set while they apply and removed after that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notices {
    /// Which other checks act for Machines of this check.
    pub(super) overlapping: Option<String>,
    /// Which transition times are in the future.
    pub(super) ahead: Option<String>,
    /// Why due Machines are not remediated: the view of the fleet is not complete (F13).
    pub(super) stale: Option<String>,
}

// === impl Notices ===

impl Notices {
    /// The conditions to set.
    pub(super) fn conditions(&self) -> Vec<NewCondition<'_>> {
        self.each().filter_map(|(_, said)| said).collect()
    }

    /// The types of conditions that no longer apply and that the check `carries`.
    pub(super) fn resolved(&self, carries: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let silent = self.each().filter(|(_, said)| said.is_none());
        silent
            .map(|(type_, _)| type_)
            .filter(|t| carries(t))
            .collect()
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, Option<NewCondition<'_>>)> {
        let all = [
            (OVERLAPPING, OTHER_ACTS, &self.overlapping),
            (CLOCK_SKEW, IN_FUTURE, &self.ahead),
            (STALE_VIEW, NOT_READ, &self.stale),
        ];
        all.into_iter().map(|(type_, reason, words)| {
            let said = words.as_deref().map(|message| NewCondition {
                type_,
                status: "True",
                reason,
                message,
                severity: None,
            });
            (type_, said)
        })
    }
}

/// The causes of a pause, as a message; empty if the check is not paused.
pub(super) fn pauses(check: &Meta, cluster: &ClusterView) -> String {
    let mut why = Vec::new();
    if cluster.paused {
        why.push("Cluster spec.paused is true".to_owned());
    }
    if cluster.meta.has_annotation(CAPI_PAUSED_ANNOTATION) {
        why.push(format!(
            "Cluster has the annotation {CAPI_PAUSED_ANNOTATION}"
        ));
    }
    for annotation in [CAPI_PAUSED_ANNOTATION, PAUSED_ANNOTATION] {
        if check.has_annotation(annotation) {
            why.push(format!(
                "MachineHealthCheck has the annotation {annotation}"
            ));
        }
    }
    why.join(", ")
}

/// The condition `Paused` (docs/reference/cluster-api.md, Conditions and Events). `None` if Cluster API's own
/// controller is kept off the check by its own annotation, because it then sets this condition itself.
pub(super) fn paused<'a>(check: &Meta, paused: bool, why: &'a str) -> Option<NewCondition<'a>> {
    (!Ownership::is_shared(check)).then_some(NewCondition {
        type_: PAUSED,
        status: if paused { "True" } else { "False" },
        reason: if paused { "Paused" } else { "NotPaused" },
        message: if paused { why } else { "" },
        severity: None,
    })
}

/// The v1beta1 condition of the template or the remediations after a creation failed with this reason and
/// message, and the types of conditions that the check `carries` and that no longer apply. Upstream never
/// removes the latter (docs/reference/cluster-api.md, Q9).
pub(super) fn external<'a>(
    carries: impl Fn(&str) -> bool,
    failed: Option<(&str, &'a str)>,
) -> (Option<NewCondition<'a>>, Vec<&'static str>) {
    let complaint = failed.map(|(reason, why)| {
        let (type_, reason) = if reason == TEMPLATE_NOT_FOUND {
            (
                EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE,
                "ExternalRemediationTemplateNotFound",
            )
        } else {
            (
                EXTERNAL_REMEDIATION_REQUEST_AVAILABLE,
                "ExternalRemediationRequestCreationFailed",
            )
        };
        NewCondition {
            type_,
            status: "False",
            reason,
            message: why,
            severity: Some("Error"),
        }
    });
    let holds = complaint.as_ref().map(|c| c.type_);
    let gone = [
        EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE,
        EXTERNAL_REMEDIATION_REQUEST_AVAILABLE,
    ]
    .into_iter()
    .filter(|t| holds != Some(*t) && carries(t))
    .collect();
    (complaint, gone)
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use rackhand_api::{names::EVALUATE_ANNOTATION, views::MachineHealthCheckView};
    use serde_json::{Value, json};

    use super::*;

    fn object(value: &Value) -> DynamicObject {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn check(annotations: &Value, conditions: &Value) -> MachineHealthCheckView {
        MachineHealthCheckView::from_dynamic(&object(&json!({
            "metadata": { "name": "c", "annotations": annotations },
            "status": { "conditions": conditions },
        })))
        .unwrap()
    }

    fn cluster(spec: &Value, annotations: &Value) -> ClusterView {
        ClusterView::from_dynamic(&object(&json!({
            "metadata": { "name": "k", "annotations": annotations }, "spec": spec,
        })))
        .unwrap()
    }

    #[test]
    fn pause_message_names_every_cause() {
        let paused = json!({ CAPI_PAUSED_ANNOTATION: "" });
        let why = pauses(
            &check(&json!({ PAUSED_ANNOTATION: "" }), &json!([])).meta,
            &cluster(&json!({ "paused": true }), &paused),
        );
        assert_eq!(
            why,
            "Cluster spec.paused is true, Cluster has the annotation cluster.x-k8s.io/paused, \
             MachineHealthCheck has the annotation rackhand.dev/paused"
        );
        let none = pauses(
            &check(&json!({}), &json!([])).meta,
            &cluster(&json!({}), &json!({})),
        );
        assert_eq!(none, "");
    }

    #[test]
    fn notice_conditions_are_removed_once_resolved() {
        let asides = |shared: Option<&str>, ahead: Option<&str>, stale: Option<&str>| Notices {
            overlapping: shared.map(str::to_owned),
            ahead: ahead.map(str::to_owned),
            stale: stale.map(str::to_owned),
        };
        let both = asides(Some("who"), Some("when"), Some("why"));
        let said = both.conditions();
        let said: Vec<_> = said
            .iter()
            .map(|c| (c.type_, c.status, c.reason, c.message))
            .collect();
        assert_eq!(
            said,
            [
                ("Overlapping", "True", "OtherCheckActs", "who"),
                ("ClockSkew", "True", "ConditionInFuture", "when"),
                ("StaleView", "True", "LiveReadFailed", "why"),
            ]
        );
        assert!(both.resolved(|_| true).is_empty());
        let one = asides(Some("who"), None, None);
        assert_eq!(one.conditions().len(), 1);
        assert_eq!(one.resolved(|_| true), ["ClockSkew", "StaleView"]);
        assert!(Notices::default().resolved(|_| false).is_empty());
    }

    #[test]
    fn paused_condition_is_left_to_cluster_api_controller_where_it_runs() {
        let meta = |annotations: &Value| check(annotations, &json!([])).meta;
        let plain = meta(&json!({}));
        let said = paused(&plain, true, "because").unwrap();
        assert_eq!(
            (said.status, said.reason, said.message),
            ("True", "Paused", "because")
        );
        let said = paused(&plain, false, "").unwrap();
        assert_eq!((said.status, said.reason), ("False", "NotPaused"));
        let beside = json!({ CAPI_PAUSED_ANNOTATION: "", EVALUATE_ANNOTATION: "true" });
        assert_eq!(paused(&meta(&beside), false, ""), None);
        let alone = json!({ CAPI_PAUSED_ANNOTATION: "" });
        assert!(paused(&meta(&alone), true, "x").is_some());
    }

    #[test]
    fn q9_failed_remediation_creation_sets_and_clears_v1beta1_conditions() {
        let complaint = |reason: &'static str| {
            let view = check(&json!({}), &json!([]));
            let carries = |t: &str| view.condition(t).is_some();
            let (said, gone) = external(carries, Some((reason, "why")));
            assert!(gone.is_empty());
            let said = said.unwrap();
            assert_eq!(
                (said.status, said.severity, said.message),
                ("False", Some("Error"), "why")
            );
            (said.type_, said.reason)
        };
        assert_eq!(
            complaint("RemediationTemplateNotFound"),
            (
                "ExternalRemediationTemplateAvailable",
                "ExternalRemediationTemplateNotFound"
            )
        );
        assert_eq!(
            complaint("RemediationRequestCreationFailed"),
            (
                "ExternalRemediationRequestAvailable",
                "ExternalRemediationRequestCreationFailed"
            )
        );
        let both = check(
            &json!({}),
            &json!([
                { "type": "ExternalRemediationTemplateAvailable", "status": "False" },
                { "type": "ExternalRemediationRequestAvailable", "status": "False" },
            ]),
        );
        let carries = |t: &str| both.condition(t).is_some();
        let (said, gone) = external(carries, None);
        assert!(said.is_none());
        assert_eq!(gone.len(), 2);
        let (_, gone) = external(carries, Some(("RemediationTemplateNotFound", "why")));
        assert_eq!(gone, ["ExternalRemediationRequestAvailable"]);
    }
}
