//! Ownership of health checks: which checks this controller evaluates (docs/health-checks.md).
//!
//! Invariant: by default, two controllers never act on one check.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use kube::{
    Api, Client,
    api::{DynamicObject, ObjectMeta},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, CRD_LABEL, CRD_LABEL_VALUE, EVALUATE_ANNOTATION, PAUSED_ANNOTATION,
        WATCH_FILTER_LABEL,
    },
    views::Meta,
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::HealthChecks,
    store::{
        api::{ApiError, call, optional},
        watch::pause,
    },
};

/// The CRD of Cluster API's checks.
pub(crate) const CLUSTER_API_CRD: &str = "machinehealthchecks.cluster.x-k8s.io";
/// The CRD of OpenShift's checks.
pub(crate) const OPENSHIFT_CRD: &str = "machinehealthchecks.machine.openshift.io";
/// The CRD of NodeHealthChecks.
pub(crate) const NODE_CHECK_CRD: &str = "nodehealthchecks.remediation.medik8s.io";
/// Interval of reads of the CRD, which changes with an installation.
const LOOK: Duration = Duration::from_secs(60);

/// Ownership of one kind of checks.
pub(crate) struct Ownership {
    mode: HealthChecks,
    watch_filter: Option<String>,
    crd: &'static str,
    our_crd: AtomicBool,
}

impl Ownership {
    pub(crate) fn new(mode: HealthChecks, watch_filter: Option<&str>) -> Self {
        Self {
            watch_filter: watch_filter.map(str::to_owned),
            ..Self::knowing(mode, false)
        }
    }

    /// Restricts the ownership to checks with this value of the label `cluster.x-k8s.io/watch-filter`.
    pub(crate) fn filtered(self, watch_filter: Option<&str>) -> Self {
        Self {
            watch_filter: watch_filter.map(str::to_owned),
            ..self
        }
    }

    /// Adds the label of this shard to a remediation, so that only the controller of the shard works on it.
    pub(crate) fn mark(&self, remediation: &mut DynamicObject) {
        if let Some(filter) = &self.watch_filter {
            let labels = remediation.metadata.labels.get_or_insert_default();
            labels.insert(WATCH_FILTER_LABEL.to_owned(), filter.clone());
        }
    }

    /// Ownership of OpenShift's MachineHealthChecks.
    pub(crate) fn of_openshift(mode: HealthChecks) -> Self {
        Self {
            crd: OPENSHIFT_CRD,
            ..Self::knowing(mode, false)
        }
    }

    /// Ownership of NodeHealthChecks.
    pub(crate) fn of_nodes(mode: HealthChecks) -> Self {
        Self {
            crd: NODE_CHECK_CRD,
            ..Self::knowing(mode, false)
        }
    }

    /// Ownership with a known owner of the CRD.
    pub(crate) fn knowing(mode: HealthChecks, our_crd: bool) -> Self {
        Self {
            mode,
            watch_filter: None,
            crd: CLUSTER_API_CRD,
            our_crd: AtomicBool::new(our_crd),
        }
    }

    /// Reads the CRD once.
    pub(crate) async fn refresh(&self, client: &Client) {
        let crd = self.crd;
        match is_our_crd(client, crd).await {
            Ok(ours) => {
                if self.our_crd.swap(ours, Ordering::Relaxed) != ours {
                    tracing::info!(ours, "read the owner of CRD {crd}");
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the owner of the CRD"),
        }
    }

    /// Reads the CRD periodically until `cancel`.
    pub(crate) async fn keep_looking(&self, client: Client, cancel: CancellationToken) {
        while !pause(&cancel, LOOK).await {
            self.refresh(&client).await;
        }
    }

    /// Whether this controller evaluates the check.
    pub(crate) fn evaluates(&self, check: &Meta) -> bool {
        evaluates(self.mode, self.our_crd.load(Ordering::Relaxed), check)
            && passes(self.watch_filter.as_deref(), check)
    }

    /// Whether the evaluation of the check is paused. If the controller of its project runs too, the pause of
    /// that project keeps only *that* controller off.
    pub(crate) fn paused(&self, check: &Meta) -> bool {
        paused(check)
    }

    /// Whether the controller of its project is kept off this check by its pause. That controller still sets
    /// the condition `Paused`, so this controller does not, because the two would overwrite each other
    /// endlessly.
    pub(crate) fn is_shared(check: &Meta) -> bool {
        check.has_annotation(CAPI_PAUSED_ANNOTATION) && check.is_annotated_true(EVALUATE_ANNOTATION)
    }
}

/// See [`Ownership::paused`].
pub(crate) fn paused(check: &Meta) -> bool {
    check.has_annotation(PAUSED_ANNOTATION)
        || (check.has_annotation(CAPI_PAUSED_ANNOTATION) && !Ownership::is_shared(check))
}

/// Whether Rackhand has installed a CRD.
///
/// # Errors
/// The API server did not answer.
pub(crate) async fn is_our_crd(client: &Client, crd: &str) -> Result<bool, ApiError> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let found = optional(call(format!("CRD {crd}"), crds.get(crd)).await)?;
    Ok(found.is_some_and(|crd| carries_our_label(&crd.metadata)))
}

/// Whether a CRD has the label of Rackhand.
pub(crate) fn carries_our_label(crd: &ObjectMeta) -> bool {
    let label = crd.labels.as_ref().and_then(|labels| labels.get(CRD_LABEL));
    label.is_some_and(|value| value == CRD_LABEL_VALUE)
}

/// Whether this controller evaluates a check, by the mode and the owner of its CRD.
pub(crate) fn evaluates(mode: HealthChecks, our_crd: bool, check: &Meta) -> bool {
    let annotated = check.is_annotated_true(EVALUATE_ANNOTATION);
    match mode {
        HealthChecks::None => false,
        HealthChecks::All => true,
        HealthChecks::Annotated => annotated,
        HealthChecks::Auto => annotated || our_crd,
    }
}

/// Whether a check or a remediation has the label value `filter`. Without a filter all pass, including objects
/// labelled for another controller, as in Cluster API's manager.
pub(crate) fn passes(filter: Option<&str>, check: &Meta) -> bool {
    filter.is_none_or(|filter| {
        let label = check.labels.get(WATCH_FILTER_LABEL);
        label.is_some_and(|value| value == filter)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(annotations: &Value) -> Meta {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "c", "annotations": annotations },
        }))
        .unwrap();
        Meta::of(&object)
    }

    #[test]
    fn auto_mode_evaluates_checks_of_own_crd_or_with_annotation() {
        let (plain, annotated) = (
            check(&json!({})),
            check(&json!({ EVALUATE_ANNOTATION: "true" })),
        );
        for (mode, our_crd, plain_is, annotated_is) in [
            (HealthChecks::Auto, true, true, true),
            (HealthChecks::Auto, false, false, true),
            (HealthChecks::Annotated, true, false, true),
            (HealthChecks::None, true, false, false),
            (HealthChecks::All, false, true, true),
        ] {
            let ownership = Ownership::knowing(mode, our_crd);
            assert_eq!(ownership.evaluates(&plain), plain_is, "{mode:?} {our_crd}");
            assert_eq!(
                ownership.evaluates(&annotated),
                annotated_is,
                "{mode:?} {our_crd}"
            );
        }
        let no = check(&json!({ EVALUATE_ANNOTATION: "false" }));
        assert!(!Ownership::knowing(HealthChecks::Auto, false).evaluates(&no));
    }

    #[test]
    fn watch_filter_selects_only_labelled_checks() {
        let labelled = |labels: &Value| {
            let object: DynamicObject = serde_json::from_value(json!({
                "metadata": { "name": "c", "labels": labels },
            }))
            .unwrap();
            Meta::of(&object)
        };
        let blue = labelled(&json!({ WATCH_FILTER_LABEL: "blue" }));
        let plain = labelled(&json!({}));
        for (filter, blue_is, plain_is) in [
            (None, true, true),
            (Some("blue"), true, false),
            (Some("green"), false, false),
        ] {
            let ownership = Ownership::new(HealthChecks::All, filter);
            assert_eq!(ownership.evaluates(&blue), blue_is, "{filter:?}");
            assert_eq!(ownership.evaluates(&plain), plain_is, "{filter:?}");
        }
        for ownership in [
            Ownership::of_openshift(HealthChecks::All),
            Ownership::of_nodes(HealthChecks::All),
        ] {
            assert!(ownership.evaluates(&plain));
            let ownership = ownership.filtered(Some("blue"));
            assert!(ownership.evaluates(&blue) && !ownership.evaluates(&plain));
        }
    }

    #[test]
    fn cluster_api_paused_annotation_pauses_check_without_evaluate_annotation() {
        let ownership = Ownership::knowing(HealthChecks::Auto, false);
        assert!(!ownership.paused(&check(&json!({}))));
        assert!(ownership.paused(&check(&json!({ PAUSED_ANNOTATION: "" }))));
        assert!(ownership.paused(&check(&json!({ CAPI_PAUSED_ANNOTATION: "" }))));
        let beside = json!({ CAPI_PAUSED_ANNOTATION: "", EVALUATE_ANNOTATION: "true" });
        assert!(!ownership.paused(&check(&beside)));
    }
}
