//! RackAgent: where an agent is, and what it says of itself.
//!
//! Owns its schema. It must never carry a credential: what an agent may do is
//! decided by certificates, on both sides.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::StatusCondition;

/// Which rack an agent serves, and where it listens.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "RackAgent",
    status = "RackAgentStatus",
    derive = "PartialEq",
    category = "rackhand",
    doc = "An agent that switches the hosts of one rack on and off. Several agents may serve one \
           rack.",
    printcolumn(
        name = "Rack",
        type_ = "string",
        json_path = ".spec.rack",
        description = "The rack that it serves"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.endpoint",
        description = "The address that it listens on"
    ),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Connected")].status"#,
        description = "Whether the controller has a connection to it"
    ),
    printcolumn(
        name = "Hosts",
        type_ = "integer",
        json_path = ".status.hosts",
        description = "Number of hosts in its inventory"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RackAgentSpec {
    /// The rack that the agent serves. Its certificate must name the same rack.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$")
    )]
    pub rack: String,
    /// The address that the agent listens on, as host:port; an IPv6 address is
    /// in brackets.
    #[schemars(
        length(min = 3, max = 261),
        regex(
            pattern = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?):[0-9]{1,5}$"
        )
    )]
    pub endpoint: String,
    /// Networks, in CIDR form, whose BMCs it reaches for hosts that its own inventory does not name.
    /// A BareMetalHost goes to the agent whose network holds its BMC, to the rack in its label
    /// rackhand.dev/rack, or to the only agent there is. Where label and networks contradict each
    /// other, the host is not switched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 3, max = 43)))]
    pub bmc_networks: Vec<String>,
    /// Names of the Nodes for which the inventories of the rack count: each one name, or the
    /// beginning of names with `*` behind it. Entries of its agents for other Nodes are ignored, and
    /// so are entries for these Nodes in the inventories of racks that do not name them. Empty: the
    /// rack may list any Node that nothing binds to another rack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1024),
        inner(length(min = 1, max = 253), regex(pattern = r"^[-.a-z0-9]*\*?$"))
    )]
    pub nodes: Vec<String>,
}

/// What the controller knows about an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RackAgentStatus {
    /// Connected: whether the controller has a connection to the agent, and
    /// why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// The rack that the agent's certificate names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// How many hosts the agent knows from its own inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub hosts: Option<i32>,
    /// Number of these hosts whose BMC certificate the agent does not check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub insecure_hosts: Option<i32>,
    /// The highest term of a controller's leadership that the agent has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub term: Option<i64>,
    /// When the agent last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_seen: Option<Timestamp>,
    /// The journals that the agent has reported, the last one last. An agent
    /// that reports one of them with a lower generation has an older copy of
    /// it, whose content is no evidence of what did not happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub journals: Vec<SeenJournal>,
}

/// A journal of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenJournal {
    /// The ID of the journal's instance.
    #[schemars(length(max = 64))]
    pub instance: String,
    /// The generation of the journal: how often it had been written when it was
    /// last reported.
    #[schemars(range(min = 0))]
    pub generation: i64,
}
