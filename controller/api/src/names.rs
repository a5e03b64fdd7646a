//! Every name that is agreed with users, with Kubernetes or with a
//! neighbouring project: groups, annotations, labels, finalizers, the taint.
//!
//! This module owns the spelling, once. It must never hold behaviour: what an
//! annotation does is decided where it is read.

/// Our own API group.
pub const GROUP: &str = "rackhand.dev";
/// The version of our own API group.
pub const VERSION: &str = "v1alpha1";
/// Group and version of our own kinds.
pub const API_VERSION: &str = "rackhand.dev/v1alpha1";

/// Groups of the kinds that belong to other projects.
pub mod groups {
    /// Cluster API's core group: Cluster, Machine, MachineHealthCheck.
    pub const CLUSTER_API: &str = "cluster.x-k8s.io";
    /// Cluster API's infrastructure group: CAPM3's kinds.
    pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
    /// Cluster API's control-plane group: KubeadmControlPlane.
    pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
    /// baremetal-operator's group: BareMetalHost.
    pub const METAL3: &str = "metal3.io";
    /// OpenShift's Machine API group.
    pub const OPENSHIFT_MACHINE: &str = "machine.openshift.io";
    /// OpenShift's group of the cluster's own settings: ClusterVersion, Infrastructure.
    pub const OPENSHIFT_CONFIG: &str = "config.openshift.io";
    /// medik8s' group: NodeHealthCheck.
    pub const MEDIK8S: &str = "remediation.medik8s.io";
}

/// Kinds by name, as they stand in `kind:`.
pub mod kinds {
    /// Cluster API's Cluster.
    pub const CLUSTER: &str = "Cluster";
    /// Cluster API's (and OpenShift's) Machine.
    pub const MACHINE: &str = "Machine";
    /// Cluster API's (and OpenShift's) MachineHealthCheck.
    pub const MACHINE_HEALTH_CHECK: &str = "MachineHealthCheck";
    /// OpenShift's ClusterVersion.
    pub const CLUSTER_VERSION: &str = "ClusterVersion";
    /// OpenShift's Infrastructure.
    pub const INFRASTRUCTURE: &str = "Infrastructure";
    /// medik8s' NodeHealthCheck.
    pub const NODE_HEALTH_CHECK: &str = "NodeHealthCheck";
    /// CAPM3's Metal3Machine.
    pub const METAL3_MACHINE: &str = "Metal3Machine";
    /// CAPM3's Metal3Remediation.
    pub const METAL3_REMEDIATION: &str = "Metal3Remediation";
    /// CAPM3's Metal3RemediationTemplate.
    pub const METAL3_REMEDIATION_TEMPLATE: &str = "Metal3RemediationTemplate";
    /// baremetal-operator's BareMetalHost.
    pub const BARE_METAL_HOST: &str = "BareMetalHost";
    /// Our PowerRemediation.
    pub const POWER_REMEDIATION: &str = "PowerRemediation";
    /// Our PowerRemediationTemplate.
    pub const POWER_REMEDIATION_TEMPLATE: &str = "PowerRemediationTemplate";
    /// PowerPolicy of our own group.
    pub const POWER_POLICY: &str = "PowerPolicy";
    /// HostMaintenance of our own group.
    pub const HOST_MAINTENANCE: &str = "HostMaintenance";
    /// HostHistory of our own group.
    pub const HOST_HISTORY: &str = "HostHistory";
    /// RemediationState of our own group.
    pub const REMEDIATION_STATE: &str = "RemediationState";
    /// Our RemediationTrigger.
    pub const REMEDIATION_TRIGGER: &str = "RemediationTrigger";
    /// Our RackAgent.
    pub const RACK_AGENT: &str = "RackAgent";
    /// What a template's kind ends with; the remediation's kind is the rest.
    pub const TEMPLATE_SUFFIX: &str = "Template";
}

// ---- ours -------------------------------------------------------------------

/// On a health check of a kind that another controller evaluates too: with the value `true`, Rackhand
/// evaluates it.
pub const EVALUATE_ANNOTATION: &str = "rackhand.dev/evaluate";
/// Pauses our work on the object that carries it; any value counts.
pub const PAUSED_ANNOTATION: &str = "rackhand.dev/paused";
/// On a remediation: what made it, as `MachineHealthCheck/<name>/<UID>`, `RemediationTrigger/<name>/<UID>` or
/// `HostMaintenance/<name>/<UID>`. A remediation that its maker no longer needs is withdrawn.
pub const MADE_BY_ANNOTATION: &str = "rackhand.dev/made-by";
/// On a remediation of a HostMaintenance: the Machine that it is for, as `<apiVersion>/<name>/<UID>`. It is for that
/// Machine also once that is gone, and the garbage collector has removed the ownerReference.
pub const MACHINE_OF_REMEDIATION_ANNOTATION: &str = "rackhand.dev/machine";
/// On a Machine whose annotation `cluster.x-k8s.io/skip-remediation` a HostMaintenance has set: the UID of that
/// HostMaintenance.
pub const MAINTENANCE_ANNOTATION: &str = "rackhand.dev/maintenance";
/// Our finalizer on a HostMaintenance: something that it has set may be in place.
pub const MAINTENANCE_FINALIZER: &str = "rackhand.dev/maintenance";
/// On a remediation that Rackhand made: why its machine was unhealthy, for people.
pub const CAUSE_ANNOTATION: &str = "rackhand.dev/cause";
/// On a remediation of a trigger: the UID of the Node that had the label.
pub const NODE_UID_ANNOTATION: &str = "rackhand.dev/node-uid";
/// On a remediation of a trigger: when its label was answered, after which the cooldown begins.
pub const LABEL_ANSWERED_ANNOTATION: &str = "rackhand.dev/label-answered";
/// On a health check: with the value `true` it is evaluated and its findings are shown, but nothing is
/// remediated.
pub const DRY_RUN_ANNOTATION: &str = "rackhand.dev/dry-run";
/// On a remediation, with its UID as the value: a person confirms that the
/// host is off, where no BMC can.
pub const CONFIRM_FENCED_ANNOTATION: &str = "rackhand.dev/confirm-fenced";
/// On a remediation, with its UID as the value: a person lets it begin although etcd could lose its quorum,
/// where nothing can be lost. At most one member is remediated at a time all the same.
pub const OVERRIDE_QUORUM_ANNOTATION: &str = "rackhand.dev/override-quorum";
/// On a remediation, with its UID as the value: a person states that no other Node runs on its host, whatever the
/// identities of the Nodes say.
pub const OVERRIDE_OTHER_NODE_ANNOTATION: &str = "rackhand.dev/override-other-node";
/// On a remediation: its UID, by which a person takes the power of the host from baremetal-operator: Rackhand
/// switches the host on although baremetal-operator does not report its state.
pub const OVERRIDE_OWNER_ANNOTATION: &str = "rackhand.dev/override-owner";
/// On a remediation, with its UID as the value: a person approves it where a PowerPolicy requires
/// that, or holds it because of earlier attempts.
pub const APPROVED_ANNOTATION: &str = "rackhand.dev/approved";
/// On a Node or BareMetalHost: names of the PDUs that feed the host, separated by commas.
pub const PDUS_ANNOTATION: &str = "rackhand.dev/pdus";
/// On a Node or BareMetalHost: names of the switches that connect the host, separated by commas.
pub const SWITCHES_ANNOTATION: &str = "rackhand.dev/switches";
/// On a Metal3Remediation: a copy of its state, for people, as JSON. Nothing is decided from it.
pub const STATE_ANNOTATION: &str = "rackhand.dev/state";
/// On a Metal3Remediation whose recorded state cannot be parsed: why nothing is done.
pub const BLOCKED_ANNOTATION: &str = "rackhand.dev/blocked";
/// On a remediation (also from its template) or on a Cluster: what is done with the Node of a host that
/// is confirmed off, [`NODE_ACTION_DELETE`] or [`NODE_ACTION_TAINT`].
pub const NODE_ACTION_ANNOTATION: &str = "rackhand.dev/node-action";
/// Delete the Node, and restore its labels and annotations when it has registered again.
pub const NODE_ACTION_DELETE: &str = "delete-node";
/// Set the out-of-service taint, whatever the cluster's version.
pub const NODE_ACTION_TAINT: &str = "taint";
/// On a Metal3Remediation (also from its template) or on its Cluster: who deletes the pods of a host that
/// is confirmed off, [`POD_DELETION_IMMEDIATE`] or [`POD_DELETION_POD_GC`], which is the default.
pub const POD_DELETION_ANNOTATION: &str = "rackhand.dev/pod-deletion";
/// Rackhand deletes the pods.
pub const POD_DELETION_IMMEDIATE: &str = "Immediate";
/// The garbage collector of pods deletes the pods.
pub const POD_DELETION_POD_GC: &str = "PodGC";
/// On a Metal3Remediation (also from its template) or on its Cluster: with the value `true` the pods of a host that is
/// still on are evicted before it is switched off, as by a PowerRemediation.
pub const EVICT_ANNOTATION: &str = "rackhand.dev/evict";
/// On a Node that a remediation has cordoned: the UID of the remediation, which uncordons it.
pub const CORDONED_BY_ANNOTATION: &str = "rackhand.dev/cordoned-by";
/// On a Metal3Remediation (also from its template) or on its Cluster: how long its power-off may be delayed to
/// collect evidence, as a Go duration; 0s collects none.
pub const EVIDENCE_TIMEOUT_ANNOTATION: &str = "rackhand.dev/evidence-timeout";
/// On a Metal3Remediation (also from its template) or on its Cluster: with the value `true` the BMC sends a
/// diagnostic interrupt before the power-off.
pub const DIAGNOSTIC_INTERRUPT_ANNOTATION: &str = "rackhand.dev/diagnostic-interrupt";
/// On a NodeHealthCheck: how long a new Node may take until the first status
/// of its kubelet, as a Go duration. Without it no such time limit applies.
pub const NODE_STARTUP_TIMEOUT_ANNOTATION: &str = "rackhand.dev/node-startup-timeout";
/// On the leader's Lease: the flags that its decisions depend on, as JSON, for `explain`.
pub const SETTINGS_ANNOTATION: &str = "rackhand.dev/settings";
/// On the leader's Lease: the SHA-256 fingerprint of the certificate of its HTTPS server, as 64 hexadecimal
/// digits, by which `page` and `explain` verify it.
pub const SERVING_CERTIFICATE_ANNOTATION: &str = "rackhand.dev/serving-certificate";
/// Keeps a PowerRemediation until its taint and its hold are removed.
pub const POWER_REMEDIATION_FINALIZER: &str = "rackhand.dev/power-remediation";
/// On a BareMetalHost, with the value [`BMC_SYSTEM_UUID_NONE`]: the system UUID that its BMC reports identifies
/// nothing, and is not compared.
pub const BMC_SYSTEM_UUID_ANNOTATION: &str = "rackhand.dev/bmc-system-uuid";
/// The value of [`BMC_SYSTEM_UUID_ANNOTATION`].
pub const BMC_SYSTEM_UUID_NONE: &str = "none";
/// On a BareMetalHost (label or annotation): the rack whose agent serves it.
pub const RACK_LABEL: &str = "rackhand.dev/rack";
/// On a CRD that we shipped: health checks of that kind are ours to evaluate.
pub const CRD_LABEL: &str = "rackhand.dev/crd";
/// The only value of [`CRD_LABEL`].
pub const CRD_LABEL_VALUE: &str = "true";

// ---- Kubernetes -------------------------------------------------------------

/// Kubernetes' recommended label for the program that manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "rackhand";
/// The out-of-service taint's key: pods are force-deleted and volumes detached.
pub const OUT_OF_SERVICE_TAINT_KEY: &str = "node.kubernetes.io/out-of-service";
/// The value that Kubernetes documents for that taint; matching ignores it.
pub const OUT_OF_SERVICE_TAINT_VALUE: &str = "nodeshutdown";
/// The effect that we and CAPM3 use.
pub const OUT_OF_SERVICE_TAINT_EFFECT: &str = "NoExecute";
/// On a control-plane Node; any value counts.
pub const NODE_ROLE_CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// On a control-plane Node of an older Kubernetes or of OpenShift; any value counts.
pub const NODE_ROLE_MASTER_LABEL: &str = "node-role.kubernetes.io/master";
/// On a Node of RKE2 or k3s that runs etcd, with or without the rest of the control plane; any value counts.
pub const NODE_ROLE_ETCD_LABEL: &str = "node-role.kubernetes.io/etcd";
/// On the third Node of an OpenShift with two masters, which runs a member of etcd; any value counts.
pub const NODE_ROLE_ARBITER_LABEL: &str = "node-role.kubernetes.io/arbiter";
/// Where kubelets keep their Leases.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

// ---- Cluster API ------------------------------------------------------------

/// Pauses a Cluster API object; any value counts.
pub const CAPI_PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// On a Machine: no health check may touch it; any value counts.
pub const SKIP_REMEDIATION_ANNOTATION: &str = "cluster.x-k8s.io/skip-remediation";
/// On a Machine: it counts as unhealthy at once, whatever its conditions; any value counts.
pub const REMEDIATE_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/remediate-machine";
/// On a Machine: its owner updates it in place; any value counts.
pub const UPDATE_IN_PROGRESS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
/// On a remediation: the name of the template it was made from.
pub const CLONED_FROM_NAME_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-name";
/// On a remediation: `Kind.group` of that template.
pub const CLONED_FROM_GROUPKIND_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-groupkind";
/// On a Node: the name of its Machine.
pub const MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/machine";
/// On a Node: the namespace of its Machine and Cluster.
pub const CLUSTER_NAMESPACE_ANNOTATION: &str = "cluster.x-k8s.io/cluster-namespace";
/// The cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// On a Machine: presence marks a control-plane Machine.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// On a Machine that Rancher made: it runs etcd; any value counts.
pub const RANCHER_ETCD_ROLE_LABEL: &str = "rke.cattle.io/etcd-role";
/// Selects which of several Cluster API managers handles an object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// On a CRD: which of its versions implement Cluster API's v1beta1 contract.
pub const CONTRACT_V1BETA1_LABEL: &str = "cluster.x-k8s.io/v1beta1";
/// On a CRD: which of its versions implement Cluster API's v1beta2 contract.
pub const CONTRACT_V1BETA2_LABEL: &str = "cluster.x-k8s.io/v1beta2";
/// Joins a ClusterRole to the rights of Cluster API's own manager.
pub const CAPI_AGGREGATE_LABEL: &str = "cluster.x-k8s.io/aggregate-to-manager";
/// On a CRD: `clusterctl move` considers its objects, and moves what belongs to a Cluster through its owners.
pub const CLUSTERCTL_LABEL: &str = "clusterctl.cluster.x-k8s.io";
/// On a CRD: `clusterctl move` moves all objects of the namespace, also those without an owner.
pub const CLUSTERCTL_MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";
/// While it is on an object, `clusterctl move` waits; any value counts. Ours is that of [`move_block`].
pub const BLOCK_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// What our value of [`BLOCK_MOVE_ANNOTATION`] begins with.
pub const MOVE_BLOCK_PREFIX: &str = "rackhand-";
/// On an object that `clusterctl move` has copied and deletes; it is then the only annotation.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// The suffix that follows a cluster's name in the name of its kubeconfig Secret.
pub const KUBECONFIG_SECRET_SUFFIX: &str = "-kubeconfig";
/// The key of the kubeconfig in that Secret.
pub const KUBECONFIG_SECRET_KEY: &str = "value";

// ---- OpenShift --------------------------------------------------------------

/// On a remediation made for OpenShift: the template's name.
pub const OPENSHIFT_CLONED_FROM_NAME_ANNOTATION: &str = "machine.openshift.io/cloned-from-name";
/// On a remediation made for OpenShift: `Kind.group` of the template.
pub const OPENSHIFT_CLONED_FROM_GROUPKIND_ANNOTATION: &str =
    "machine.openshift.io/cloned-from-groupkind";
/// On an OpenShift Machine: requests a power cycle by OpenShift's own controller.
pub const OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION: &str = "host.metal3.io/external-remediation";
/// On an OpenShift MachineHealthCheck: which built-in remediation strategy applies.
pub const OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION: &str =
    "machine.openshift.io/remediation-strategy";
/// The value of [`OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION`] with which hosts are power-cycled.
pub const OPENSHIFT_EXTERNAL_BAREMETAL: &str = "external-baremetal";
/// On an OpenShift Machine: OpenShift's own controller has switched its host off.
pub const OPENSHIFT_POWERED_OFF_ANNOTATION: &str =
    "remediation.metal3.io/powered-off-for-remediation";
/// On an OpenShift Machine: until when that controller waits for its Node.
pub const OPENSHIFT_POWER_ON_TIMEOUT_ANNOTATION: &str =
    "remediation.metal3.io/power-on-will-timeout-at";
/// Where OpenShift's Machine controllers run.
pub const OPENSHIFT_MACHINE_API_NAMESPACE: &str = "openshift-machine-api";
/// The Deployment of OpenShift's Machine controllers.
pub const OPENSHIFT_MACHINE_CONTROLLERS: &str = "machine-api-controllers";
/// On an OpenShift Machine: `master` or `worker`.
pub const OPENSHIFT_MACHINE_ROLE_LABEL: &str = "machine.openshift.io/cluster-api-machine-role";
/// On an OpenShift Node: the name of the MachineConfig that it runs with.
pub const OPENSHIFT_CURRENT_CONFIG_ANNOTATION: &str =
    "machineconfiguration.openshift.io/currentConfig";
/// On an OpenShift Node: the name of the MachineConfig that it is being updated to.
pub const OPENSHIFT_DESIRED_CONFIG_ANNOTATION: &str =
    "machineconfiguration.openshift.io/desiredConfig";
/// On an OpenShift Node: `namespace/name` of its Machine.
pub const OPENSHIFT_MACHINE_ANNOTATION: &str = "machine.openshift.io/machine";

// ---- Metal3 -----------------------------------------------------------------

/// On a Metal3Machine: `namespace/name` of its BareMetalHost.
pub const BARE_METAL_HOST_ANNOTATION: &str = "metal3.io/BareMetalHost";
/// On a Node: the UID of its BareMetalHost.
pub const METAL3_UUID_LABEL: &str = "metal3.io/uuid";
/// A BareMetalHost that carries it is rebooted once.
pub const REBOOT_ANNOTATION: &str = "reboot.metal3.io";
/// The prefix of every hold key: baremetal-operator keeps the host off while one is set.
pub const REBOOT_ANNOTATION_PREFIX: &str = "reboot.metal3.io/";
/// Our hold keys: this, then the remediation's UID.
pub const HOLD_ANNOTATION_PREFIX: &str = "reboot.metal3.io/rackhand-";
/// CAPM3's hold keys: this, then the Metal3Remediation's UID.
pub const CAPM3_HOLD_ANNOTATION_PREFIX: &str = "reboot.metal3.io/metal3-remediation-";
/// The value of our hold key: power off at once, without a shutdown of the operating system.
pub const HOLD_ANNOTATION_VALUE: &str = r#"{"mode":"hard"}"#;
/// The same, by which baremetal-operator asks the operating system to shut down first.
pub const SOFT_HOLD_ANNOTATION_VALUE: &str = r#"{"mode":"soft"}"#;
/// The field in the value of our hold key that says when the value was last changed. baremetal-operator ignores
/// fields that it does not know.
pub const HOLD_RENEWED_FIELD: &str = "renewed";
/// On a BareMetalHost, for a short time: the UID of the remediation whose hold key is no longer set.
pub const HOLD_WITHDRAWN_ANNOTATION: &str = "rackhand.dev/hold-withdrawn";
/// baremetal-operator does not reconcile a host that carries it; Ironic still does.
pub const BMH_PAUSED_ANNOTATION: &str = "baremetalhost.metal3.io/paused";
/// A host that carries it is removed from Ironic.
pub const BMH_DETACHED_ANNOTATION: &str = "baremetalhost.metal3.io/detached";
/// Marks a host as unhealthy, as CAPM3 before v1.13 reads it.
pub const UNHEALTHY_V1BETA1_ANNOTATION: &str = "capi.metal3.io/unhealthy";
/// Marks a host as unhealthy, as CAPM3 since v1.13 reads it.
pub const UNHEALTHY_ANNOTATION: &str = "capm3.metal3.io/unhealthy";
/// The value of [`UNHEALTHY_ANNOTATION`].
pub const UNHEALTHY_VALUE: &str = "capm3/UnhealthyNode";
/// CAPM3's finalizer on a Metal3Remediation.
pub const METAL3_REMEDIATION_FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
/// On a Secret that holds BMC credentials: set by baremetal-operator.
pub const BMC_SECRET_LABEL: &str = "environment.metal3.io";
/// The value of [`BMC_SECRET_LABEL`].
pub const BMC_SECRET_LABEL_VALUE: &str = "baremetal";
/// The user's key in a BMC credentials Secret.
pub const BMC_SECRET_USERNAME: &str = "username";
/// The password's key in a BMC credentials Secret.
pub const BMC_SECRET_PASSWORD: &str = "password";

// ---- medik8s ----------------------------------------------------------------

/// On a remediation: the Node it is for; without it the name is the Node's.
pub const MEDIK8S_NODE_NAME_ANNOTATION: &str = "remediation.medik8s.io/node-name";
/// On a remediation: the template it was made from.
pub const MEDIK8S_TEMPLATE_NAME_ANNOTATION: &str = "remediation.medik8s.io/template-name";
/// On a remediation: the health check requests that no further attempt begins.
pub const MEDIK8S_TIMED_OUT_ANNOTATION: &str = "remediation.medik8s.io/nhc-timed-out";
/// On a template: one health check may use several templates of its kind.
pub const MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION: &str =
    "remediation.medik8s.io/multiple-templates-support";
/// On a Node: value `true` excludes it from remediation.
pub const MEDIK8S_EXCLUDE_LABEL: &str = "remediation.medik8s.io/exclude-from-remediation";
/// On a Node: a person confirms that it is healthy, which ends the healthy delay.
pub const MEDIK8S_CONFIRMED_HEALTHY_ANNOTATION: &str =
    "remediation.medik8s.io/manually-confirmed-healthy";
/// On a remediation: since when its Node is healthy again, while a delay runs.
pub const MEDIK8S_HEALTHY_DELAY_ANNOTATION: &str = "remediation.medik8s.io/healthy-delay";
/// On a remediation: the warning that it is very old has been given.
pub const MEDIK8S_OLD_ANNOTATION: &str = "nodehealthcheck.medik8s.io/old-remediation-cr-flag";
/// The value of [`MEDIK8S_OLD_ANNOTATION`].
pub const MEDIK8S_OLD_VALUE: &str = "flagon";
/// On a remediation: its Node is part of the control plane.
pub const MEDIK8S_CONTROL_PLANE_LABEL: &str = "remediation.medik8s.io/isControlPlaneNode";
/// On a remediation that a NodeHealthCheck created.
pub const MEDIK8S_PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// The value of [`MEDIK8S_PART_OF_LABEL`].
pub const MEDIK8S_PART_OF: &str = "node-healthcheck-controller";
/// The namespace of the Leases by which medik8s' operators coordinate work on a Node.
pub const MEDIK8S_LEASE_NAMESPACE: &str = "medik8s-leases";
/// Joins a ClusterRole to the rights of medik8s' health check.
pub const MEDIK8S_AGGREGATE_LABEL: &str = "rbac.ext-remediation/aggregate-to-ext-remediation";

/// Condition types that more than one project reads.
pub mod conditions {
    /// On a RemediationTrigger: whether labels make remediations now.
    pub const ACTIVE: &str = "Active";
    /// On a RemediationTrigger: whether kubelets cannot set its label.
    pub const LABEL_RESTRICTED: &str = "LabelRestricted";
    /// On a RemediationTrigger: whether another one acts on a Node that has its label.
    pub const CONFLICT: &str = "Conflict";
    /// On a PowerPolicy: whether it can be applied.
    pub const VALID: &str = "Valid";
    /// On a Machine: whether its health checks find it healthy.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// On a Machine: False while its owner is to remediate it, with the progress as the reason.
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    /// On a Machine: its owner updates it in place.
    pub const UPDATING: &str = "Updating";
    /// On a Machine: an external remediation was requested.
    pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
    /// On a Cluster or Machine: its infrastructure exists.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// On a Cluster: its API server has answered at least once.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    /// On a MachineHealthCheck: its limit allows remediations.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// On a MachineHealthCheck: another one acts for machines that it selects too.
    pub const OVERLAPPING: &str = "Overlapping";
    /// On a MachineHealthCheck: a condition that it checks has a transition time in the future.
    pub const CLOCK_SKEW: &str = "ClockSkew";
    /// On a health check: a live read of the objects that it checks fails, and nothing is remediated.
    pub const STALE_VIEW: &str = "StaleView";
    /// On a Cluster API object: it is paused, and by what.
    pub const PAUSED: &str = "Paused";
    /// On a MachineHealthCheck, v1beta1 list: its template was found.
    pub const EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE: &str =
        "ExternalRemediationTemplateAvailable";
    /// On a MachineHealthCheck, v1beta1 list: its remediations can be created.
    pub const EXTERNAL_REMEDIATION_REQUEST_AVAILABLE: &str = "ExternalRemediationRequestAvailable";
    /// On a remediation (medik8s' contract): it is in progress.
    pub const PROCESSING: &str = "Processing";
    /// On a remediation (medik8s' contract): how it ended.
    pub const SUCCEEDED: &str = "Succeeded";
    /// On a remediation (medik8s' contract): its Node will not come back.
    pub const PERMANENT_NODE_DELETION_EXPECTED: &str = "PermanentNodeDeletionExpected";
    /// On a Machine of a kubeadm control plane: its etcd member is healthy.
    pub const ETCD_MEMBER_HEALTHY: &str = "EtcdMemberHealthy";
    /// On a HostMaintenance: the host can be worked on.
    pub const PARKED: &str = "Parked";
    /// On a PowerRemediation: the host is confirmed off and is kept off.
    pub const FENCED: &str = "Fenced";
    /// On a PowerRemediation: nobody has confirmed that the host is off.
    pub const FENCE_UNCONFIRMED: &str = "FenceUnconfirmed";
    /// On a PowerRemediation: pods or volume attachments stay on the Node.
    pub const DRAIN_BLOCKED: &str = "DrainBlocked";
    /// On a PowerRemediation: it cannot continue until the cause in its message is gone.
    pub const BLOCKED: &str = "Blocked";
    /// On a PowerRemediation: the current step takes longer than its timeout.
    pub const OVERDUE: &str = "Overdue";
    /// On a Node: its BMC does not answer between remediations, so that it could not be fenced.
    pub const FENCING_UNAVAILABLE: &str = "FencingUnavailable";
    /// On a RackAgent: the controller has a live connection to it.
    pub const CONNECTED: &str = "Connected";
}

/// The hold key of the remediation with this UID, as it stands on a
/// BareMetalHost.
#[must_use]
pub fn hold_annotation(remediation_uid: &str) -> String {
    format!("{HOLD_ANNOTATION_PREFIX}{remediation_uid}")
}

/// The value of [`BLOCK_MOVE_ANNOTATION`] by the remediation with this UID.
#[must_use]
pub fn move_block(remediation_uid: &str) -> String {
    format!("{MOVE_BLOCK_PREFIX}{remediation_uid}")
}

/// The kind of the remediation that a template of kind `template_kind` makes:
/// the kind without its suffix `Template`.
#[must_use]
pub fn remediation_kind(template_kind: &str) -> &str {
    template_kind
        .strip_suffix(kinds::TEMPLATE_SUFFIX)
        .unwrap_or(template_kind)
}

/// The name of the Secret that holds a workload cluster's kubeconfig.
#[must_use]
pub fn kubeconfig_secret(cluster_name: &str) -> String {
    format!("{cluster_name}{KUBECONFIG_SECRET_SUFFIX}")
}

// ---- names of objects ---------------------------------------------------------

/// Whether an object whose name is a DNS subdomain, such as a Node, may have this name. Any other one would lead a
/// request to another path.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_name_part)
}

/// Whether this may stand between two dots of such a name.
#[must_use]
pub fn is_name_part(part: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !part.is_empty()
        && part.chars().all(is_allowed)
        && !part.starts_with('-')
        && !part.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::is_object_name;

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        for name in ["n7", "node-7.rack-a.example.org", "0", &"a".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../../pods",
            "n7/status",
            "n7?x=y",
            "n7%2f",
            " n7",
            "N7",
            "n_7",
            "-n7",
            "n7.",
            "n\u{e9}",
            &"a".repeat(254),
        ] {
            assert!(!is_object_name(name), "{name}");
        }
    }
}
