//! The rights that the shipped manifests grant to the controller.
//!
//! A test compares the list with the manifests.

/// A role of the manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// ClusterRole `rackhand-controller`.
    Controller,
    /// Role `rackhand-leader-election`, in the namespace of the controller.
    LeaderElection,
    /// ClusterRole `rackhand-metrics-auth`.
    MetricsAuth,
    /// ClusterRole `rackhand-secrets`, bound in each namespace with clusters or hosts.
    Secrets,
    /// ClusterRole `rackhand-nodes`, and the Role of that name in kube-node-lease.
    Nodes,
    /// ClusterRole `rackhand-etcd-guard`.
    EtcdGuard,
    /// ClusterRole and Role `rackhand-node-health-checks`.
    NodeHealthChecks,
    /// ClusterRole `rackhand-openshift`.
    OpenShift,
}

/// When a role is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Every installation needs it.
    Always,
    /// In each namespace with Clusters or BareMetalHosts.
    InNamespaces,
    /// Where checks of OpenShift or of Nodes are evaluated.
    NodesOfThisCluster,
    /// Where NodeHealthChecks are evaluated.
    NodeHealthChecks,
    /// Where MachineHealthChecks of OpenShift are evaluated.
    OpenShift,
}

impl Role {
    /// Its name in the manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "rackhand-controller",
            Self::LeaderElection => "rackhand-leader-election",
            Self::MetricsAuth => "rackhand-metrics-auth",
            Self::Secrets => "rackhand-secrets",
            Self::Nodes => "rackhand-nodes",
            Self::EtcdGuard => "rackhand-etcd-guard",
            Self::NodeHealthChecks => "rackhand-node-health-checks",
            Self::OpenShift => "rackhand-openshift",
        }
    }

    /// When it is needed.
    pub fn need(self) -> Need {
        match self {
            Self::Controller | Self::LeaderElection | Self::MetricsAuth => Need::Always,
            Self::Secrets => Need::InNamespaces,
            Self::Nodes | Self::EtcdGuard => Need::NodesOfThisCluster,
            Self::NodeHealthChecks => Need::NodeHealthChecks,
            Self::OpenShift => Need::OpenShift,
        }
    }

    /// How it is installed.
    pub(super) fn remedy(self, namespace: Option<&str>, account: &str) -> String {
        match self {
            Self::Controller | Self::LeaderElection | Self::MetricsAuth => {
                "kubectl apply -k deploy/kustomize/base, or upgrade the Helm release".to_owned()
            }
            Self::Secrets => {
                let account = account.trim_start_matches("system:serviceaccount:");
                format!(
                    "kubectl create rolebinding rackhand-secrets --namespace {} --clusterrole \
                     rackhand-secrets --serviceaccount {account}; with Helm, access.secretNamespaces",
                    namespace.unwrap_or("NAMESPACE")
                )
            }
            Self::Nodes | Self::EtcdGuard => {
                "kubectl apply -k deploy/kustomize/nodes; with Helm, access.nodes=true".to_owned()
            }
            Self::NodeHealthChecks => "kubectl apply -k deploy/kustomize/node-health-checks; with \
                                       Helm, access.nodeHealthChecks=true"
                .to_owned(),
            Self::OpenShift => {
                "kubectl apply -k deploy/kustomize/openshift; with Helm, access.openshift=true"
                    .to_owned()
            }
        }
    }
}

/// Some verbs on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The role that grants it.
    pub role: Role,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    /// Verbs of RBAC that are granted.
    pub verbs: &'static [&'static str],
    /// Names of the objects; empty for all.
    pub names: &'static [&'static str],
    /// The namespace of a Role; `None` for a ClusterRole. The controller's own namespace is
    /// [`OWN_NAMESPACE`].
    pub namespace: Option<&'static str>,
}

/// The namespace of the controller in the manifests.
pub const OWN_NAMESPACE: &str = "rackhand-system";

const fn right(
    role: Role,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
) -> Right {
    Right {
        role,
        group,
        resource,
        verbs,
        names: &[],
        namespace: None,
    }
}

impl Right {
    const fn named(mut self, names: &'static [&'static str]) -> Self {
        self.names = names;
        self
    }

    const fn within(mut self, namespace: &'static str) -> Self {
        self.namespace = Some(namespace);
        self
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const LIST: &[&str] = &["list", "watch"];
/// `attribute` is a verb of the shipped admission policy: what only Rackhand writes on a remediation.
const REMEDIATIONS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "patch",
    "delete",
    "attribute",
];

const OURS: &str = "rackhand.dev";
const CAPI: &str = "cluster.x-k8s.io";
const CAPM3: &str = "infrastructure.cluster.x-k8s.io";
const OPENSHIFT: &str = "machine.openshift.io";
const MEDIK8S: &str = "remediation.medik8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// All rights that the shipped manifests grant.
pub const RIGHTS: &[Right] = &[
    right(Role::Controller, OURS, "rackagents", LIST),
    right(Role::Controller, OURS, "remediationtriggers", READ),
    right(
        Role::Controller,
        OURS,
        "remediationtriggers/status",
        &["patch"],
    ),
    right(Role::Controller, OURS, "powerpolicies", LIST),
    right(Role::Controller, OURS, "powerpolicies/status", &["patch"]),
    right(Role::Controller, OURS, "powerremediationtemplates", READ),
    right(Role::Controller, OURS, "powerremediations", REMEDIATIONS),
    right(Role::Controller, OURS, "rackagents/status", &["patch"]),
    right(
        Role::Controller,
        OURS,
        "powerremediations/status",
        &["patch"],
    ),
    right(
        Role::Controller,
        OURS,
        "hostmaintenances",
        &["get", "list", "watch", "patch"],
    ),
    right(
        Role::Controller,
        OURS,
        "hostmaintenances/status",
        &["patch"],
    ),
    right(Role::Controller, OURS, "hosthistories/status", &["patch"]),
    right(
        Role::Controller,
        OURS,
        "hosthistories",
        &["get", "list", "create"],
    ),
    right(
        Role::Controller,
        OURS,
        "remediationstates",
        &["get", "list", "watch", "create", "update", "delete"],
    ),
    right(
        Role::Controller,
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["get"],
    )
    .named(&[
        "machinehealthchecks.cluster.x-k8s.io",
        "machinehealthchecks.machine.openshift.io",
        "nodehealthchecks.remediation.medik8s.io",
    ]),
    right(
        Role::Controller,
        ADMISSION,
        "validatingadmissionpolicies",
        &["get"],
    )
    .named(&["remediations.rackhand.dev"]),
    right(
        Role::Controller,
        ADMISSION,
        "validatingadmissionpolicybindings",
        &["get"],
    )
    .named(&["remediations.rackhand.dev"]),
    right(Role::Controller, CAPI, "clusters", READ),
    right(
        Role::Controller,
        CAPI,
        "machines",
        &["get", "list", "watch", "patch"],
    ),
    right(
        Role::Controller,
        CAPI,
        "machinehealthchecks",
        &["get", "list", "watch", "patch"],
    ),
    right(Role::Controller, CAPI, "machines/status", &["patch"]),
    right(
        Role::Controller,
        CAPI,
        "machinehealthchecks/status",
        &["patch"],
    ),
    right(Role::Controller, OPENSHIFT, "machines", READ),
    right(Role::Controller, OPENSHIFT, "machinehealthchecks", READ),
    right(Role::Controller, MEDIK8S, "nodehealthchecks", READ),
    right(
        Role::Controller,
        MEDIK8S,
        "nodehealthchecks/status",
        &["patch"],
    ),
    right(Role::Controller, CAPM3, "metal3remediations", REMEDIATIONS),
    right(
        Role::Controller,
        CAPM3,
        "metal3remediations/status",
        &["patch"],
    ),
    right(
        Role::Controller,
        CAPM3,
        "metal3remediationtemplates",
        &["get"],
    ),
    right(Role::Controller, CAPM3, "metal3machines", READ),
    right(
        Role::Controller,
        "metal3.io",
        "baremetalhosts",
        &["get", "list", "watch", "patch"],
    ),
    right(Role::Controller, "events.k8s.io", "events", &["create"]),
    right(Role::Controller, "", "namespaces", &["get"]).named(&["kube-system"]),
    right(
        Role::LeaderElection,
        "coordination.k8s.io",
        "leases",
        &["create"],
    )
    .within(OWN_NAMESPACE),
    right(
        Role::LeaderElection,
        "coordination.k8s.io",
        "leases",
        &["get", "update"],
    )
    .named(&["rackhand-controller"])
    .within(OWN_NAMESPACE),
    right(
        Role::MetricsAuth,
        "authentication.k8s.io",
        "tokenreviews",
        &["create"],
    ),
    right(
        Role::MetricsAuth,
        "authorization.k8s.io",
        "subjectaccessreviews",
        &["create"],
    ),
    right(Role::MetricsAuth, "", "configmaps", &["get"])
        .named(&["extension-apiserver-authentication"]),
    right(Role::Secrets, "", "secrets", &["get"]),
    right(Role::Nodes, "", "nodes", &["get", "list", "watch", "patch"]),
    right(Role::Nodes, "", "nodes/status", &["patch"]),
    right(Role::Nodes, "", "pods", &["list", "delete"]),
    right(Role::Nodes, "", "pods/eviction", &["create"]),
    right(
        Role::Nodes,
        "storage.k8s.io",
        "volumeattachments",
        &["list"],
    ),
    right(Role::Nodes, "", "persistentvolumes", &["get"]),
    right(Role::Nodes, OPENSHIFT, "machines", &["get"]),
    right(
        Role::Nodes,
        "coordination.k8s.io",
        "leases",
        &["get", "list"],
    )
    .within("kube-node-lease"),
    right(Role::EtcdGuard, "policy", "poddisruptionbudgets", &["list"]),
    right(
        Role::NodeHealthChecks,
        "coordination.k8s.io",
        "leases",
        &["get", "list", "watch", "create", "update", "delete"],
    )
    .within("medik8s-leases"),
    right(
        Role::NodeHealthChecks,
        "config.openshift.io",
        "clusterversions",
        LIST,
    ),
    right(
        Role::NodeHealthChecks,
        "config.openshift.io",
        "infrastructures",
        LIST,
    ),
    right(
        Role::OpenShift,
        OPENSHIFT,
        "machinehealthchecks/status",
        &["patch"],
    ),
    right(Role::OpenShift, OPENSHIFT, "machines", &["patch", "delete"]),
    right(Role::OpenShift, "apps", "deployments", &["get"]).named(&["machine-api-controllers"]),
];
