//! The kinds that are served.

use serde_json::{Value, json};

use super::serving::Serving;

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Whether the status is written at a path of its own.
    pub status: bool,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Resource {
    Resource {
        group,
        version,
        plural,
        kind,
        namespaced: true,
        status: true,
    }
}

impl Resource {
    const fn cluster_wide(mut self) -> Self {
        self.namespaced = false;
        self
    }

    const fn without_status(mut self) -> Self {
        self.status = false;
        self
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether a change of its spec counts in `metadata.generation`: of those here, the kinds that are
    /// not Kubernetes' own.
    pub(super) fn has_generation(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }
}

/// Nodes.
pub const NODES: Resource = kind("", "v1", "nodes", "Node").cluster_wide();
/// Pods.
pub const PODS: Resource = kind("", "v1", "pods", "Pod");
/// Namespaces.
pub const NAMESPACES: Resource = kind("", "v1", "namespaces", "Namespace").cluster_wide();
/// Secrets.
pub const SECRETS: Resource = kind("", "v1", "secrets", "Secret").without_status();
/// Leases.
pub const LEASES: Resource = kind("coordination.k8s.io", "v1", "leases", "Lease").without_status();
/// VolumeAttachments.
pub const VOLUME_ATTACHMENTS: Resource = kind(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
)
.cluster_wide();
/// Clusters of Cluster API.
pub const CLUSTERS: Resource = kind(CAPI, "v1beta1", "clusters", "Cluster");
/// Machines of Cluster API.
pub const MACHINES: Resource = kind(CAPI, "v1beta1", "machines", "Machine");
/// Health checks of Cluster API.
pub const MACHINE_HEALTH_CHECKS: Resource =
    kind(CAPI, "v1beta1", "machinehealthchecks", "MachineHealthCheck");
/// Machines of OpenShift's machine API.
pub const OPENSHIFT_MACHINES: Resource = kind(OPENSHIFT, "v1beta1", "machines", "Machine");
/// Health checks of OpenShift.
pub const OPENSHIFT_HEALTH_CHECKS: Resource = kind(
    OPENSHIFT,
    "v1beta1",
    "machinehealthchecks",
    "MachineHealthCheck",
);
/// Machines of CAPM3.
pub const METAL3_MACHINES: Resource = kind(CAPM3, "v1beta1", "metal3machines", "Metal3Machine");
/// Remediations of CAPM3.
pub const METAL3_REMEDIATIONS: Resource =
    kind(CAPM3, "v1beta1", "metal3remediations", "Metal3Remediation");
/// Templates of remediations of CAPM3.
pub const METAL3_REMEDIATION_TEMPLATES: Resource = kind(
    CAPM3,
    "v1beta1",
    "metal3remediationtemplates",
    "Metal3RemediationTemplate",
);
/// Hosts of Metal3.
pub const BARE_METAL_HOSTS: Resource =
    kind("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost");
/// Our remediations.
pub const POWER_REMEDIATIONS: Resource =
    kind(OURS, "v1alpha1", "powerremediations", "PowerRemediation");
/// Templates of our remediations.
pub const POWER_REMEDIATION_TEMPLATES: Resource = kind(
    OURS,
    "v1alpha1",
    "powerremediationtemplates",
    "PowerRemediationTemplate",
);
/// Health checks of medik8s.
pub const NODE_HEALTH_CHECKS: Resource = kind(
    "remediation.medik8s.io",
    "v1alpha1",
    "nodehealthchecks",
    "NodeHealthCheck",
)
.cluster_wide();
/// Histories of hosts.
pub const HOST_HISTORIES: Resource =
    kind(OURS, "v1alpha1", "hosthistories", "HostHistory").cluster_wide();
/// What is recorded about remediations.
pub const REMEDIATION_STATES: Resource =
    kind(OURS, "v1alpha1", "remediationstates", "RemediationState")
        .cluster_wide()
        .without_status();
/// Planned work on hosts.
pub const HOST_MAINTENANCES: Resource =
    kind(OURS, "v1alpha1", "hostmaintenances", "HostMaintenance");
/// Budgets of pods.
pub const POD_DISRUPTION_BUDGETS: Resource = kind(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
);
/// Rackhand's power policies, which have no namespace.
pub const POWER_POLICIES: Resource =
    kind(OURS, "v1alpha1", "powerpolicies", "PowerPolicy").cluster_wide();
/// Labels of Nodes that make remediations.
pub const REMEDIATION_TRIGGERS: Resource = kind(
    OURS,
    "v1alpha1",
    "remediationtriggers",
    "RemediationTrigger",
);
/// Agents.
pub const RACK_AGENTS: Resource = kind(OURS, "v1alpha1", "rackagents", "RackAgent").cluster_wide();

/// Events.
pub const EVENTS: Resource = kind("events.k8s.io", "v1", "events", "Event").without_status();
const CAPI: &str = "cluster.x-k8s.io";
const CAPM3: &str = "infrastructure.cluster.x-k8s.io";
const OPENSHIFT: &str = "machine.openshift.io";
const OURS: &str = "rackhand.dev";

/// Every kind that is served.
pub const RESOURCES: [Resource; 29] = [
    HOST_MAINTENANCES,
    REMEDIATION_TRIGGERS,
    NODES,
    NAMESPACES,
    PODS,
    SECRETS,
    LEASES,
    VOLUME_ATTACHMENTS,
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
    .cluster_wide(),
    CLUSTERS,
    MACHINES,
    MACHINE_HEALTH_CHECKS,
    // The preferred version of its group, which has none of the other kinds.
    kind(
        OPENSHIFT,
        "v1",
        "controlplanemachinesets",
        "ControlPlaneMachineSet",
    ),
    OPENSHIFT_MACHINES,
    OPENSHIFT_HEALTH_CHECKS,
    // Of another provider, in the preferred version of the shared group.
    kind(CAPM3, "v1beta2", "awsmachines", "AWSMachine"),
    METAL3_MACHINES,
    METAL3_REMEDIATIONS,
    METAL3_REMEDIATION_TEMPLATES,
    BARE_METAL_HOSTS,
    POWER_REMEDIATIONS,
    POWER_REMEDIATION_TEMPLATES,
    POWER_POLICIES,
    RACK_AGENTS,
    HOST_HISTORIES,
    REMEDIATION_STATES,
    NODE_HEALTH_CHECKS,
];

pub(super) fn find(wanted: impl Fn(&Resource) -> bool) -> Option<Resource> {
    RESOURCES.into_iter().find(wanted)
}

/// The versions of a group that are served, the preferred one first: a stable one before a beta.
fn versions(group: &str, serving: &Serving) -> Vec<&'static str> {
    let here = RESOURCES
        .iter()
        .filter(|r| r.group == group && serving.serves(r));
    let mut versions: Vec<&str> = here.map(|r| r.version).collect();
    versions.sort_unstable_by_key(|version| {
        let stability = ["alpha", "beta"].map(|word| version.contains(word));
        (stability, std::cmp::Reverse(*version))
    });
    versions.dedup();
    versions
}

/// The response at `/apis`.
pub(super) fn group_list(serving: &Serving) -> Value {
    let mut groups: Vec<&str> = RESOURCES.iter().map(|r| r.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|group| !group.is_empty());
    let groups = groups.into_iter().filter_map(|group| {
        let versions: Vec<Value> = versions(group, serving)
            .into_iter()
            .map(|v| json!({ "groupVersion": format!("{group}/{v}"), "version": v }))
            .collect();
        let preferred = versions.first()?.clone();
        Some(json!({ "name": group, "versions": versions, "preferredVersion": preferred }))
    });
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>() })
}

/// The response at `/apis/GROUP/VERSION`; `None`: there is no such group.
pub(super) fn resource_list(group: &str, version: &str, serving: &Serving) -> Option<Value> {
    let here = |r: &&Resource| r.group == group && r.version == version && serving.serves(r);
    let found: Vec<&Resource> = RESOURCES.iter().filter(here).collect();
    let api_version = found.first()?.api_version();
    let mut list = Vec::new();
    for r in found {
        let verbs = [
            "delete", "get", "list", "patch", "create", "update", "watch",
        ];
        let entry = |name: String, verbs: &[&str]| {
            json!({
                "name": name, "singularName": r.kind.to_lowercase(), "namespaced": r.namespaced,
                "kind": r.kind, "verbs": verbs,
            })
        };
        list.push(entry(r.plural.to_owned(), &verbs));
        if r.status {
            list.push(entry(
                format!("{}/status", r.plural),
                &["get", "patch", "update"],
            ));
        }
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": list,
    }))
}
