//! The objects of a fleet, as Cluster API, CAPM3 and Kubernetes would have made them.

use serde_json::{Value, json};

use super::{FleetSpec, Host, Link, kubelet::NODE_LEASES, rack_name};
use crate::{
    api::{
        Resource,
        resource::{
            BARE_METAL_HOSTS, CLUSTERS, LEASES, MACHINE_HEALTH_CHECKS, MACHINES, METAL3_MACHINES,
            METAL3_REMEDIATION_TEMPLATES, NAMESPACES, NODES, RACK_AGENTS, SECRETS,
        },
    },
    kernel::{World, wall_clock},
};

/// Where the Machines lie.
pub const NAMESPACE: &str = "metal3";
/// The name of the cluster.
pub const CLUSTER: &str = "demo";
/// Where the controllers' Lease lies.
pub const SYSTEM: &str = "rackhand-system";

impl World {
    /// Writes everything that is there at the start.
    pub(crate) fn write_objects(&mut self) {
        let now = wall_clock(self.now());
        let now = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
        for namespace in ["kube-system", "default", NAMESPACE, SYSTEM, NODE_LEASES] {
            self.write(NAMESPACES, "", json!({ "metadata": { "name": namespace } }));
        }
        let spec = self.fleet.spec.clone();
        self.write(CLUSTERS, NAMESPACE, cluster(&now));
        self.write(
            SECRETS,
            NAMESPACE,
            json!({
                "metadata": { "name": format!("{CLUSTER}-kubeconfig") },
                "stringData": { "value": "the cluster itself" },
            }),
        );
        for host in self.fleet.hosts.clone() {
            for (resource, namespace, object) in host_objects(&host, &now) {
                self.write(resource, namespace, object);
            }
        }
        for rack in 0..spec.racks.len() {
            let rack = rack_name(rack);
            let object = json!({
                "metadata": { "name": rack },
                "spec": { "rack": rack, "endpoint": endpoint(&rack) },
            });
            self.write(RACK_AGENTS, "", object);
        }
        self.write(METAL3_REMEDIATION_TEMPLATES, NAMESPACE, template());
        self.write(MACHINE_HEALTH_CHECKS, NAMESPACE, check(&spec));
        self.api.take_changes();
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

/// Where the agent of a rack listens.
pub(crate) fn endpoint(rack: &str) -> String {
    format!("{rack}.agents:7443")
}

fn condition(kind: &str, now: &str) -> Value {
    json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" })
}

fn cluster(now: &str) -> Value {
    json!({
        "metadata": { "name": CLUSTER },
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
    let machine = json!({
        "metadata": {
            "name": name,
            "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER, "nodepool": "worker" },
        },
        "spec": {
            "clusterName": CLUSTER,
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
    let node = json!({
        "metadata": { "name": name },
        "spec": { "providerID": format!("rackhand://{rack}/{name}") },
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
            "nodeInfo": {
                "bootID": "boot-1", "systemUUID": host.system_uuid(), "machineID": "",
                "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                "kubeletVersion": "v1.34.0", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    });
    let lease = json!({
        "metadata": { "name": name },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now.replace('Z', ".000000Z") },
    });
    let mut objects = vec![
        (NODES, "", node),
        (LEASES, NODE_LEASES, lease),
        (MACHINES, NAMESPACE, machine),
    ];
    if metal3 {
        objects.extend(metal3_objects(host, &rack));
    }
    objects
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
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine",
                "name": name, "namespace": NAMESPACE,
            },
        },
        "status": {
            "operationalStatus": if detached { "detached" } else { "OK" },
            "poweredOn": true, "errorCount": 0, "errorMessage": "", "hardwareProfile": "unknown",
            "provisioning": { "state": "provisioned", "ID": "" },
        },
    });
    vec![
        (METAL3_MACHINES, NAMESPACE, metal3_machine),
        (SECRETS, NAMESPACE, secret),
        (BARE_METAL_HOSTS, NAMESPACE, host),
    ]
}

/// The address of a host's BMC, as an inventory or a BareMetalHost has it.
pub(crate) fn bmc_url(host: &Host) -> String {
    format!("redfish://{}/redfish/v1/Systems/1", host.bmc_address())
}

fn template() -> Value {
    json!({
        "metadata": { "name": "reboot" },
        "spec": { "template": { "spec": { "strategy": {
            "type": "Reboot", "retryLimit": 1000, "timeout": "600s",
        }}}},
    })
}

fn check(spec: &FleetSpec) -> Value {
    json!({
        "metadata": { "name": "workers" },
        "spec": {
            "clusterName": CLUSTER,
            "maxUnhealthy": spec.max_unhealthy,
            "nodeStartupTimeout": "0s",
            "selector": { "matchLabels": { "nodepool": "worker" } },
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "60s" },
                { "type": "Ready", "status": "False", "timeout": "60s" },
            ],
            "remediationTemplate": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3RemediationTemplate", "name": "reboot",
            },
        },
    })
}
