//! Which remediations exist, by live lists (F12).

use std::collections::{BTreeMap, BTreeSet};

use kube::{Client, ResourceExt, api::ListParams};
use rackhand_api::names::{METAL3_REMEDIATION_FINALIZER, POWER_REMEDIATION_FINALIZER};

use super::{
    api::{ApiError, words},
    object::{Kind, Served, api, list_pages},
};

/// Our finalizer on remediations of this kind.
pub(crate) fn finalizer(kind: Kind) -> &'static str {
    if kind == Kind::PowerRemediation {
        POWER_REMEDIATION_FINALIZER
    } else {
        METAL3_REMEDIATION_FINALIZER
    }
}

/// Whether our finalizer is among those of a remediation of this kind.
pub(crate) fn has_finalizer(kind: Kind, finalizers: &[String]) -> bool {
    finalizers.iter().any(|held| held == finalizer(kind))
}

/// Remediations by UID, and whether our finalizer is on them; of all namespaces, if `namespace` is empty.
///
/// # Errors
/// A kind cannot be listed. PowerRemediation is a kind that is always installed: where it is not served, the API
/// server shows less than there is.
pub(crate) async fn list_remediations(
    client: &Client,
    served: &Served,
    namespace: &str,
) -> Result<BTreeMap<String, bool>, ApiError> {
    let mut existing = BTreeMap::new();
    let every = ListParams::default();
    for kind in Kind::REMEDIATIONS {
        let found = served.find(client, kind.group(), kind.kind()).await;
        let found = found.map_err(|e| ApiError::other(kind.kind(), words(&e)))?;
        let Some(resource) = found else {
            if kind == Kind::PowerRemediation {
                return Err(ApiError::other(kind.kind(), "the kind is not served"));
            }
            continue;
        };
        let objects = api(client, &resource, namespace);
        let read = |params: ListParams| {
            let objects = objects.clone();
            async move { objects.list_metadata(&params).await }
        };
        for object in list_pages(kind.kind(), &every, read).await? {
            let finalizer = has_finalizer(kind, object.finalizers());
            existing.extend(object.uid().map(|uid| (uid, finalizer)));
        }
    }
    Ok(existing)
}

/// The UIDs that no remediation of any kind and namespace has.
///
/// # Errors
/// A kind cannot be listed.
pub(crate) async fn find_gone(
    client: &Client,
    served: &Served,
    mut uids: BTreeSet<String>,
) -> Result<BTreeSet<String>, ApiError> {
    if !uids.is_empty() {
        let existing = list_remediations(client, served, "").await?;
        uids.retain(|uid| !existing.contains_key(uid));
    }
    Ok(uids)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::store::fake_api::{self, FakeRequest, failure};

    /// The UIDs that are taken for gone where Rackhand's own kinds are served, or not.
    async fn gone(with_ours: bool) -> Result<BTreeSet<String>, ApiError> {
        let client = fake_api::client(move |asked: FakeRequest| async move {
            let group = |name: &str| {
                let version =
                    json!({ "groupVersion": format!("{name}/v1alpha1"), "version": "v1alpha1" });
                json!({ "name": name, "versions": [version], "preferredVersion": version })
            };
            let answer = match asked.path.as_str() {
                "/apis" if with_ours => json!({ "groups": [group("rackhand.dev")] }),
                "/apis" => json!({ "groups": [group("apps")] }),
                "/apis/rackhand.dev/v1alpha1" => json!({
                    "groupVersion": "rackhand.dev/v1alpha1",
                    "resources": [{
                        "name": "powerremediations", "singularName": "", "namespaced": true,
                        "kind": "PowerRemediation", "verbs": ["list"],
                    }],
                }),
                "/apis/rackhand.dev/v1alpha1/powerremediations" => json!({
                    "metadata": {}, "items": [{ "metadata": { "name": "m", "namespace": "ns", "uid": "here" } }],
                }),
                "/readyz" => json!("ok"),
                _ => return failure(StatusCode::NOT_FOUND),
            };
            (StatusCode::OK, answer)
        });
        let uids = ["here", "gone"].map(str::to_owned).into();
        find_gone(&client, &Served::default(), uids).await
    }

    #[tokio::test]
    async fn f12_nothing_is_gone_while_the_kinds_of_rackhand_are_not_served() {
        assert_eq!(
            gone(true).await.unwrap(),
            BTreeSet::from(["gone".to_owned()])
        );
        let error = gone(false).await.unwrap_err();
        assert!(error.to_string().contains("not served"), "{error}");
    }
}
