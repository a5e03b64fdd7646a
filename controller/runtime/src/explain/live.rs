//! Reads of a live cluster that explanations of all checks need.
//!
//! Must never write.

use jiff::Timestamp;
use kube::{
    Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};

use super::words::span;
use crate::{api::call, object::api};

/// A kind of Kubernetes itself.
pub(super) fn builtin(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// An object of a list, or of a GET, does not always name its kind.
pub(super) fn named(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types.get_or_insert_with(|| TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    object
}

/// The objects of a kind.
pub(super) async fn listed(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
) -> Result<Vec<DynamicObject>, String> {
    let objects = api(client, resource, namespace);
    let listed = call(&resource.kind, objects.list(&ListParams::default())).await;
    let items = listed.map_err(|error| error.to_string())?.items.into_iter();
    Ok(items.map(|object| named(object, resource)).collect())
}

/// A CRD.
pub(super) async fn crd(client: &Client, name: &str) -> Result<DynamicObject, String> {
    let resource = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds = api(client, &resource, "");
    let found = call(format!("CRD {name}"), crds.get(name)).await;
    found
        .map(|crd| named(crd, &resource))
        .map_err(|error| error.to_string())
}

/// That another time was asked for than that of the objects.
pub(super) fn other_time(at: Timestamp, now: Timestamp) -> String {
    let apart = span(at.duration_since(now).unsigned_abs());
    let side = if at < now { "ago" } else { "ahead" };
    format!("asked for a time {apart} {side}, with the objects as they are now")
}
