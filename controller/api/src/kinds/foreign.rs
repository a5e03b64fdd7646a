//! Kinds of other projects that Rackhand only reads: Cluster, Machine,
//! Metal3Machine, BareMetalHost.
//!
//! Their CRDs are for clusters without those projects: for trying things out,
//! for tests, and for hosts that somebody else provisions. They take an
//! object's fields as they come, so that a manifest written for the real
//! project keeps all of them.
//!
//! Owns names, columns and the few fields that others rely on. It must never
//! refuse an object that the real project would take.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conditions::{CompatibleCondition, Deprecated, NewConditions};

/// Fields that are kept as they are written.
pub type Fields = BTreeMap<String, Value>;

/// A workload cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Cluster",
    namespaced,
    status = "CompatibleStatus",
    derive = "PartialEq",
    shortname = "cl",
    category = "cluster-api",
    doc = "A workload cluster. Takes every field of Cluster API's kind of this name, unchecked.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the cluster"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterSpec {
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}

/// A machine of a workload cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Machine",
    namespaced,
    status = "CompatibleStatus",
    derive = "PartialEq",
    shortname = "ma",
    category = "cluster-api",
    doc = "A machine of a workload cluster. Takes every field of Cluster API's kind of this \
           name, unchecked.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster"
    ),
    printcolumn(
        name = "NodeName",
        type_ = "string",
        json_path = ".status.nodeRef.name",
        description = "The machine's Node"
    ),
    printcolumn(
        name = "ProviderID",
        type_ = "string",
        json_path = ".spec.providerID",
        description = "The provider ID of the machine"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the machine"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.version",
        description = "The version of Kubernetes"
    )
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct MachineSpec {
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}

/// A machine's host, as CAPM3 sees it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3Machine",
    namespaced,
    status = "CompatibleStatus",
    derive = "PartialEq",
    shortname = "m3m",
    shortname = "m3machine",
    shortname = "m3machines",
    shortname = "metal3m",
    category = "cluster-api",
    doc = "The link from a Machine to its BareMetalHost, in the annotation \
           metal3.io/BareMetalHost. Takes every field of CAPM3's kind of this name, unchecked.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    ),
    printcolumn(
        name = "ProviderID",
        type_ = "string",
        json_path = ".spec.providerID",
        description = "The provider ID of the Node"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.ready",
        description = "Whether the host is provisioned"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        description = "Cluster"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the Metal3Machine"
    )
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Metal3MachineSpec {
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}

/// A physical host.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalHost",
    namespaced,
    status = "BareMetalHostStatus",
    derive = "PartialEq",
    shortname = "bmh",
    shortname = "bmhost",
    doc = "A physical host and how its BMC is reached. Takes every field of baremetal-operator's \
           kind of this name, unchecked.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.operationalStatus",
        description = "The operational status of the host",
        priority = 1
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.provisioning.state",
        description = "The provisioning state"
    ),
    printcolumn(
        name = "Consumer",
        type_ = "string",
        json_path = ".spec.consumerRef.name",
        description = "The object that uses the host"
    ),
    printcolumn(
        name = "BMC",
        type_ = "string",
        json_path = ".spec.bmc.address",
        description = "Address of the BMC",
        priority = 1
    ),
    printcolumn(
        name = "Online",
        type_ = "string",
        json_path = ".spec.online",
        description = "Whether the host should be on"
    ),
    printcolumn(
        name = "Error",
        type_ = "string",
        json_path = ".status.errorType",
        description = "The type of the last error"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct BareMetalHostSpec {
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}

/// What is known about a host, kept as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct BareMetalHostStatus {
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}

/// What is known about an object of Cluster API, kept as it is written. Only
/// the conditions have a form, so that several writers can share a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CompatibleStatus {
    /// Conditions: of the v1beta1 contract in v1beta1's shape, of the v1beta2
    /// contract in v1beta2's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<CompatibleCondition>,
    /// v1beta1: what belongs to the v1beta2 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<NewConditions>,
    /// v1beta2: what belongs to the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated>,
    /// Every other field of the kind, unchecked.
    #[serde(flatten)]
    #[schemars(skip)]
    pub fields: Fields,
}
