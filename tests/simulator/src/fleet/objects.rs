//! The objects of a fleet, as Cluster API, CAPM3 and Kubernetes would have made them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Check, Fleet, Host, HostId, Link, etcd, rack_name};
use crate::{
    api::{
        NODE_LEASES, Resource,
        resource::{
            BARE_METAL_HOSTS, CLUSTERS, LEASES, MACHINE_HEALTH_CHECKS, MACHINES, METAL3_MACHINES,
            METAL3_REMEDIATION_TEMPLATES, NAMESPACES, NODE_HEALTH_CHECKS, NODES,
            OPENSHIFT_HEALTH_CHECKS, OPENSHIFT_MACHINES, POWER_POLICIES,
            POWER_REMEDIATION_TEMPLATES, RACK_AGENTS, SECRETS,
        },
    },
    breakage::Breakage,
    kernel::{World, wall_clock},
};

/// Where the Machines lie.
pub const NAMESPACE: &str = "metal3";
/// The name of the cluster, and how the names of several begin.
pub const CLUSTER: &str = "demo";
/// The annotation of a Node whose host must not be remediated, by the PowerPolicy.
pub(crate) const FROZEN: &str = "simulator.example/frozen";
/// Where the controllers' Lease lies.
pub const SYSTEM: &str = "rackhand-system";

impl World {
    /// Writes everything that is there at the start.
    pub fn write_objects(&mut self) {
        let now = self.second();
        for namespace in ["kube-system", "default", NAMESPACE, SYSTEM, NODE_LEASES] {
            self.write(NAMESPACES, "", json!({ "metadata": { "name": namespace } }));
        }
        let clusters: BTreeSet<_> = self.fleet.hosts.iter().map(|host| host.cluster).collect();
        for of in clusters {
            self.write(CLUSTERS, NAMESPACE, cluster(of, &now));
            self.write(
                SECRETS,
                NAMESPACE,
                json!({
                    "metadata": { "name": format!("{}-kubeconfig", cluster_name(of)) },
                    "stringData": { "value": kubeconfig(of) },
                }),
            );
        }
        for host in self.fleet.hosts.clone() {
            for (resource, namespace, object) in host_objects(&host, &now) {
                self.write(resource, namespace, object);
            }
            self.label_member(&host);
        }
        let spec = self.fleet.spec.clone();
        for rack in 0..spec.racks.len() {
            for agent in spec.agents(rack) {
                let object = json!({
                    "metadata": { "name": agent },
                    "spec": { "rack": rack_name(rack), "endpoint": endpoint(&agent) },
                });
                self.write(RACK_AGENTS, "", object);
            }
        }
        for (resource, object) in templates() {
            self.write(resource, NAMESPACE, object);
        }
        for check in spec.checks {
            let hosts = self.fleet.hosts.iter().filter(|host| host.check == check);
            let pools: BTreeSet<_> = hosts
                .map(|host| (host.pool.clone(), host.cluster))
                .collect();
            let resource = match check {
                Check::Metal3 | Check::Power => MACHINE_HEALTH_CHECKS,
                Check::OpenShift => OPENSHIFT_HEALTH_CHECKS,
                Check::Node => {
                    let check = node_check(&self.fleet);
                    self.write(NODE_HEALTH_CHECKS, "", check);
                    continue;
                }
            };
            for (pool, cluster) in &pools {
                let object = machine_check(check, pool, *cluster, spec.max_unhealthy);
                self.write(resource, NAMESPACE, object);
            }
        }
        let is_absent = self.fleet.breakage == Some(Breakage::NoPolicy);
        if let Some(most) = spec.rack_budget.filter(|_| !is_absent) {
            self.write(POWER_POLICIES, "", power_policy(most));
        }
        self.api.take_changes();
    }

    /// The time, as objects have it.
    fn second(&self) -> String {
        let now = wall_clock(self.now());
        now.round(jiff::Unit::Second).unwrap_or(now).to_string()
    }

    /// Registers the Node of a host, which was deleted.
    pub(super) fn register_node(&mut self, id: HostId) {
        let host = self.fleet.host(id).clone();
        let node = node(&host, &self.second());
        self.write(NODES, "", node);
        self.label_member(&host);
    }

    /// k3s and RKE2 label the Nodes that run etcd; no kubelet may.
    fn label_member(&mut self, host: &Host) {
        if host.is_member && self.shows_roles() {
            self.api.modify(NODES, "", &host.name, |node| {
                node["metadata"]["labels"][etcd::ROLE] = "true".into();
            });
        }
    }

    fn write(&mut self, resource: Resource, namespace: &str, object: Value) {
        let status = object.get("status").cloned();
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.api.create(resource, namespace, object).ok();
        if let Some(status) = status {
            self.api.modify(resource, namespace, &name, |object| {
                object["status"] = status;
            });
        }
    }
}

/// Where an agent listens.
pub(crate) fn endpoint(agent: &str) -> String {
    format!("{agent}.agents:7443")
}

fn condition(kind: &str, now: &str) -> Value {
    json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" })
}

fn cluster_name(cluster: Option<usize>) -> String {
    cluster.map_or_else(
        || CLUSTER.to_owned(),
        |cluster| format!("{CLUSTER}-{cluster}"),
    )
}

/// What stands in place of a kubeconfig.
fn kubeconfig(cluster: Option<usize>) -> String {
    cluster.map_or_else(
        || "the cluster itself".to_owned(),
        |cluster| cluster.to_string(),
    )
}

/// The workload cluster of a kubeconfig, where there are several.
pub(crate) fn cluster_of_kubeconfig(text: &str) -> Option<usize> {
    text.parse().ok()
}

fn cluster(of: Option<usize>, now: &str) -> Value {
    json!({
        "metadata": { "name": cluster_name(of) },
        "spec": {},
        "status": {
            "phase": "Provisioned",
            "infrastructureReady": true,
            "controlPlaneReady": true,
            "conditions": [
                condition("InfrastructureReady", now),
                condition("ControlPlaneInitialized", now),
            ],
        },
    })
}

fn host_objects(host: &Host, now: &str) -> Vec<(Resource, &'static str, Value)> {
    let (name, rack) = (&host.name, rack_name(host.rack));
    let metal3 = host.link != Link::Inventory;
    let infrastructure = if metal3 {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine",
            "name": name,
        })
    } else {
        json!({ "apiVersion": "infrastructure.example/v1", "kind": "PlainMachine", "name": name })
    };
    let is_openshift = host.check == Check::OpenShift;
    let cluster = cluster_name(host.cluster);
    let mut machine = json!({
        "metadata": {
            "name": name,
            "labels": { "cluster.x-k8s.io/cluster-name": cluster, "pool": host.pool },
        },
        "spec": {
            "clusterName": cluster,
            "bootstrap": { "dataSecretName": "none" },
            "infrastructureRef": infrastructure,
            "providerID": format!("rackhand://{rack}/{name}"),
        },
        "status": {
            "phase": "Running",
            "infrastructureReady": true,
            "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": name },
        },
    });
    let lease = json!({
        "metadata": { "name": name },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now.replace('Z', ".000000Z") },
    });
    let mut objects = vec![(NODES, "", node(host, now)), (LEASES, NODE_LEASES, lease)];
    if is_openshift {
        machine["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "workers",
            "uid": "workers", "controller": true,
        }]);
        if metal3 {
            let host = format!("{NAMESPACE}/{name}");
            machine["metadata"]["annotations"] = json!({ "metal3.io/BareMetalHost": host });
        }
        objects.push((OPENSHIFT_MACHINES, NAMESPACE, machine));
    } else if metal3 || host.check != Check::Node {
        // A Node that its agent's inventory alone knows needs no Machine for medik8s.
        objects.push((MACHINES, NAMESPACE, machine));
    }
    if metal3 {
        objects.extend(metal3_objects(host, &rack));
    }
    objects
}

/// A Node, as the kubelet of a host registers it, and as its cluster knows it.
fn node(host: &Host, now: &str) -> Value {
    let (name, rack) = (&host.name, rack_name(host.rack));
    let annotations = match host.check {
        // OpenShift's controller links the Node with its Machine.
        Check::OpenShift => {
            json!({ "machine.openshift.io/machine": format!("{NAMESPACE}/{name}") })
        }
        _ => json!({}),
    };
    // Where the name of a Node is given to its kubelet, its label is the name that the host has itself.
    let hostname = match host.rack % 3 {
        0 => format!("{name}.hall"),
        _ => name.clone(),
    };
    let labels = json!({ "pool": host.pool, "kubernetes.io/hostname": hostname });
    json!({
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": { "providerID": format!("rackhand://{rack}/{name}") },
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
            "nodeInfo": {
                "bootID": host.boot_id(), "systemUUID": host.system_uuid(),
                "machineID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                "kubeletVersion": "v1.34.0", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    })
}

fn metal3_objects(host: &Host, rack: &str) -> Vec<(Resource, &'static str, Value)> {
    let name = &host.name;
    let detached = host.link == Link::Detached;
    let annotations = if detached {
        json!({ "baremetalhost.metal3.io/detached": "" })
    } else {
        json!({})
    };
    let metal3_machine = json!({
        "metadata": {
            "name": name,
            "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{name}") },
        },
        "spec": {},
    });
    let secret = json!({
        "metadata": { "name": format!("{name}-bmc") },
        "stringData": { "username": "admin", "password": "secret" },
    });
    let is_openshift = host.check == Check::OpenShift;
    let consumer = if is_openshift {
        (OPENSHIFT_MACHINES.api_version(), OPENSHIFT_MACHINES.kind)
    } else {
        (METAL3_MACHINES.api_version(), METAL3_MACHINES.kind)
    };
    let host = json!({
        "metadata": {
            "name": name, "annotations": annotations, "labels": { "rackhand.dev/rack": rack },
        },
        "spec": {
            "online": true,
            "bmc": {
                "address": bmc_url(host),
                "credentialsName": format!("{name}-bmc"),
                "disableCertificateVerification": true,
            },
            "consumerRef": {
                "apiVersion": consumer.0, "kind": consumer.1, "name": name, "namespace": NAMESPACE,
            },
        },
        "status": {
            "operationalStatus": if detached { "detached" } else { "OK" },
            "poweredOn": true, "errorCount": 0, "errorMessage": "", "hardwareProfile": "unknown",
            "provisioning": { "state": "provisioned", "ID": "" },
        },
    });
    let mut objects = vec![
        (SECRETS, NAMESPACE, secret),
        (BARE_METAL_HOSTS, NAMESPACE, host),
    ];
    if !is_openshift {
        objects.insert(0, (METAL3_MACHINES, NAMESPACE, metal3_machine));
    }
    objects
}

/// The address of a host's BMC, as an inventory or a BareMetalHost has it.
pub(crate) fn bmc_url(host: &Host) -> String {
    format!("redfish://{}/redfish/v1/Systems/1", host.bmc_address())
}

/// The templates of remediations: attempts without end, as nobody replaces a host here.
fn templates() -> [(Resource, Value); 2] {
    let template = |strategy: Value| {
        json!({
            "metadata": { "name": "reboot" },
            "spec": { "template": { "spec": { "strategy": strategy } } },
        })
    };
    let of_metal3 = json!({ "type": "Reboot", "retryLimit": 1000, "timeout": "600s" });
    let ours = json!({ "type": "Reboot", "retryLimit": 100 });
    [
        (METAL3_REMEDIATION_TEMPLATES, template(of_metal3)),
        (POWER_REMEDIATION_TEMPLATES, template(ours)),
    ]
}

fn template_of(check: Check) -> Value {
    let resource = match check {
        Check::Metal3 => METAL3_REMEDIATION_TEMPLATES,
        Check::Power | Check::Node | Check::OpenShift => POWER_REMEDIATION_TEMPLATES,
    };
    json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "namespace": NAMESPACE, "name": "reboot",
    })
}

/// A health check of Cluster API or OpenShift.
fn machine_check(check: Check, pool: &str, cluster: Option<usize>, max_unhealthy: usize) -> Value {
    let mut object = json!({
        "metadata": { "name": pool },
        "spec": {
            "maxUnhealthy": format!("{max_unhealthy}%"),
            "nodeStartupTimeout": "0s",
            "selector": { "matchLabels": { "pool": pool } },
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "60s" },
                { "type": "Ready", "status": "False", "timeout": "60s" },
            ],
            "remediationTemplate": template_of(check),
        },
    });
    if check != Check::OpenShift {
        object["spec"]["clusterName"] = cluster_name(cluster).into();
    }
    object
}

/// A policy for all hosts: so many remediations at one time in a rack, and none of a frozen Node.
fn power_policy(most_in_rack: usize) -> Value {
    json!({
        "metadata": { "name": "racks" },
        "spec": {
            "budgets": [{ "per": "Rack", "maxConcurrent": most_in_rack }],
            "freezeAnnotations": [FROZEN],
        },
    })
}

/// A health check of medik8s.
fn node_check(fleet: &Fleet) -> Value {
    let healthy = fleet.count(Check::Node) - fleet.limit(Check::Node);
    json!({
        "metadata": { "name": Check::Node.name() },
        "spec": {
            "minHealthy": healthy,
            "selector": { "matchLabels": { "pool": Check::Node.name() } },
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "duration": "60s" },
                { "type": "Ready", "status": "False", "duration": "60s" },
            ],
            "remediationTemplate": template_of(Check::Node),
        },
    })
}
