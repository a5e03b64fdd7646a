//! The health checks, and the controllers that evaluate them.

use kube::api::DynamicObject;
use rackhand_api::{
    names::{CAPI_PAUSED_ANNOTATION, DRY_RUN_ANNOTATION, remediation_kind},
    views::Meta,
};
use rackhand_core::preflight::{CheckFacts, CheckKind};
use serde_json::Value;

use super::Gatherer;
use crate::{
    checks::{
        CLUSTER_API_CRD, NODE_CHECK_CRD, OPENSHIFT_CRD, evaluates, is_our_crd, passes, paused,
    },
    store::{
        index::Entry,
        object::{Key, Kind},
    },
};

impl Gatherer<'_> {
    pub(super) async fn checks(&self) -> Vec<CheckFacts> {
        let mut all = Vec::new();
        let ours = self.is_ours(CLUSTER_API_CRD).await;
        for key in self.index.keys(Kind::MachineHealthCheck) {
            let Some(entry) = self.index.check(&key) else {
                continue;
            };
            let template = entry
                .view
                .as_ref()
                .ok()
                .and_then(|v| v.remediation_template.clone());
            let kinds = template.into_iter().map(|template| template.kind);
            all.push(self.check(CheckKind::ClusterApi, &key, &entry, ours, kinds));
        }
        let ours = self.is_ours(OPENSHIFT_CRD).await;
        for (key, entry) in self.index.openshift_checks() {
            let template = entry
                .view
                .as_ref()
                .ok()
                .and_then(|v| v.remediation_template.clone());
            let kinds = template.into_iter().map(|template| template.kind);
            all.push(self.check(CheckKind::OpenShift, &key, &entry, ours, kinds));
        }
        let ours = self.is_ours(NODE_CHECK_CRD).await;
        for key in self.index.keys(Kind::NodeHealthCheck) {
            let Some(entry) = self.index.node_check(&key) else {
                continue;
            };
            let view = entry.view.as_ref().ok();
            let kinds = view.into_iter().flat_map(|view| {
                let steps = view.escalation.iter().map(|step| &step.template);
                let all = view.template.iter().chain(steps);
                all.map(|template| template.kind.clone())
                    .collect::<Vec<_>>()
            });
            all.push(self.check(CheckKind::Medik8s, &key, &entry, ours, kinds));
        }
        all
    }

    async fn is_ours(&self, crd: &str) -> bool {
        is_our_crd(&self.client, crd).await.unwrap_or(false)
    }

    fn check<V>(
        &self,
        kind: CheckKind,
        key: &Key,
        entry: &Entry<V>,
        our_crd: bool,
        templates: impl Iterator<Item = String>,
    ) -> CheckFacts {
        let meta = Meta::of(&entry.object);
        let filter = self.config.watch_filter.as_deref();
        let mut remediations: Vec<String> = templates
            .map(|kind| remediation_kind(&kind).to_owned())
            .collect();
        remediations.sort();
        remediations.dedup();
        CheckFacts {
            kind,
            name: key.to_string(),
            ours: evaluates(self.config.health_checks, our_crd, &meta) && passes(filter, &meta),
            idle: idle(&meta, &entry.object),
            kept_off: is_kept_off(kind, &meta),
            remediations,
            unreadable: entry.view.as_ref().err().map(ToString::to_string),
        }
    }
}

/// Why Rackhand evaluates the check and does not act.
fn idle(meta: &Meta, object: &DynamicObject) -> Option<String> {
    if paused(meta) {
        return Some("it is paused".to_owned());
    }
    let requests = object.data.pointer("/spec/pauseRequests");
    if requests
        .and_then(Value::as_array)
        .is_some_and(|r| !r.is_empty())
    {
        return Some("it is paused by spec.pauseRequests".to_owned());
    }
    let dry = meta.is_annotated_true(DRY_RUN_ANNOTATION);
    dry.then(|| format!("it carries {DRY_RUN_ANNOTATION}=\"true\""))
}

/// Whether the controller of its project leaves this one check alone. medik8s' operator has no such setting.
fn is_kept_off(kind: CheckKind, meta: &Meta) -> bool {
    match kind {
        CheckKind::ClusterApi | CheckKind::OpenShift => meta.has_annotation(CAPI_PAUSED_ANNOTATION),
        CheckKind::Medik8s => false,
    }
}

#[cfg(test)]
mod tests {
    use rackhand_api::names::PAUSED_ANNOTATION;
    use serde_json::json;

    use super::*;

    fn object(annotations: &Value, spec: &Value) -> DynamicObject {
        let object = json!({
            "metadata": { "name": "c", "annotations": annotations }, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_check_is_left_alone_by_the_pause_of_its_project() {
        let of =
            |kind, annotations| is_kept_off(kind, &Meta::of(&object(&annotations, &json!({}))));
        let pause = || json!({ CAPI_PAUSED_ANNOTATION: "" });
        assert!(of(CheckKind::ClusterApi, pause()) && of(CheckKind::OpenShift, pause()));
        assert!(!of(CheckKind::Medik8s, pause()));
        assert!(!of(CheckKind::ClusterApi, json!({ PAUSED_ANNOTATION: "" })));
    }

    #[test]
    fn a_paused_check_or_a_dry_run_does_not_act() {
        let of = |annotations: Value, spec: Value| {
            let object = object(&annotations, &spec);
            idle(&Meta::of(&object), &object)
        };
        assert_eq!(of(json!({}), json!({})), None);
        assert!(of(json!({ PAUSED_ANNOTATION: "" }), json!({})).is_some());
        assert!(of(json!({ DRY_RUN_ANNOTATION: "true" }), json!({})).is_some());
        assert_eq!(of(json!({ DRY_RUN_ANNOTATION: "false" }), json!({})), None);
        assert!(of(json!({}), json!({ "pauseRequests": ["upgrade"] })).is_some());
        // Where the controller of its project runs too, the pause keeps only that controller off.
        let shared = json!({ CAPI_PAUSED_ANNOTATION: "", "rackhand.dev/evaluate": "true" });
        assert_eq!(of(shared, json!({})), None);
    }
}
