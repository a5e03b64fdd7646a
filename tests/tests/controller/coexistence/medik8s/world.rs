//! The stage of these tests.

use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::stage::{Recorder, Stage};
use serde_json::Value;

pub(super) const NODE_NAME: &str = "remediation.medik8s.io/node-name";
pub(super) const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

pub(super) struct World {
    pub(super) stage: Stage,
    pub(super) recorder: Recorder,
    /// A client with the rights of medik8s' operator.
    pub(super) operator: Client,
}

impl World {
    pub(super) fn checks(&self) -> Api<DynamicObject> {
        let resource = resource("remediation.medik8s.io/v1alpha1", "NodeHealthCheck");
        Api::all_with(self.stage.client.clone(), &resource)
    }
}

pub(super) fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap();
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

pub(super) fn condition<'a>(object: &'a DynamicObject, name: &str) -> &'a str {
    condition_of(&object.data, name)
}

pub(super) fn condition_of<'a>(object: &'a Value, name: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == name);
    found.and_then(|c| c["status"].as_str()).unwrap_or("none")
}

pub(super) fn no_finalizer(object: &DynamicObject) -> bool {
    object
        .metadata
        .finalizers
        .as_ref()
        .is_none_or(Vec::is_empty)
}
