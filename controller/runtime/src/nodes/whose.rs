//! Which checks are ours to evaluate (design: 6).
//!
//! Must never let medik8s' own operator and us act on one check by default.

use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use rackhand_api::{
    names::{CRD_LABEL, CRD_LABEL_VALUE, EVALUATE_ANNOTATION},
    views::Meta,
};

use crate::{
    api::{ApiError, call, optional},
    config::HealthChecks,
};

const CRD: &str = "nodehealthchecks.remediation.medik8s.io";

/// Whether the CRD of the kind is the one that we ship.
pub(super) async fn is_our_crd(client: &Client) -> Result<bool, ApiError> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let crd = optional(call(format!("CRD {CRD}"), crds.get(CRD)).await)?;
    Ok(crd
        .and_then(|c| c.metadata.labels)
        .is_some_and(|l| l.get(CRD_LABEL).map(String::as_str) == Some(CRD_LABEL_VALUE)))
}

/// Whether we evaluate this check.
pub(super) fn evaluates(mode: HealthChecks, our_crd: bool, check: &Meta) -> bool {
    let annotated = check.is_annotated_true(EVALUATE_ANNOTATION);
    match mode {
        HealthChecks::None => false,
        HealthChecks::All => true,
        HealthChecks::Annotated => annotated,
        HealthChecks::Auto => annotated || our_crd,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beside_medik8s_only_a_check_that_says_so_is_ours() {
        let meta = |annotations: &serde_json::Value| {
            let object: DynamicObject = serde_json::from_value(json!({
                "metadata": { "name": "c", "annotations": annotations },
            }))
            .unwrap();
            Meta::of(&object)
        };
        let (plain, annotated) = (
            meta(&json!({})),
            meta(&json!({ EVALUATE_ANNOTATION: "true" })),
        );
        for (mode, ours, plain_is, annotated_is) in [
            (HealthChecks::Auto, true, true, true),
            (HealthChecks::Auto, false, false, true),
            (HealthChecks::Annotated, true, false, true),
            (HealthChecks::None, true, false, false),
            (HealthChecks::All, false, true, true),
        ] {
            assert_eq!(evaluates(mode, ours, &plain), plain_is, "{mode:?} {ours}");
            assert_eq!(
                evaluates(mode, ours, &annotated),
                annotated_is,
                "{mode:?} {ours}"
            );
        }
    }
}
