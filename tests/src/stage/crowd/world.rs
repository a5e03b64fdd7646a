//! The objects of many hosts, and stand-ins for kubelets, the node lifecycle controller and PodGC.

use anyhow::{Context, Result};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

use super::super::{HostLink, RackSpec, Stage, TAINT, objects};
use crate::rack::{
    OsState, PowerState, SimHost,
    kubelet::node::{self, LEASE_NAMESPACE},
};

/// Number of images in the status of a Node, by kubelet's default.
const IMAGES: usize = 50;

/// Creates an object, and its status if it has one.
async fn make(client: &Client, namespace: &str, mut object: Value) -> Result<DynamicObject> {
    let status = object.get("status").cloned();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("no apiVersion and kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    };
    let name = object.name_any();
    let made = api.create(&PostParams::default(), &object).await;
    let made = made.with_context(|| format!("making {} {name}", types.kind))?;
    let Some(status) = status else {
        return Ok(made);
    };
    let body = Patch::Merge(json!({ "status": status }));
    api.patch_status(&name, &PatchParams::default(), &body)
        .await
        .with_context(|| format!("status of {} {name}", types.kind))
}

impl Stage {
    /// Creates Node, Lease and Machine, and BareMetalHost, Metal3Machine and Secret if the rack has them;
    /// returns the Machine's UID.
    pub(super) async fn write_one(&self, spec: &RackSpec, host: &str) -> Result<String> {
        let config = self.host(host)?.config().clone();
        let client = &self.client;
        let node = make(client, "", node::registration(&config)).await?;
        let lease = node::lease(&config, node.uid().as_deref(), Timestamp::now());
        make(client, LEASE_NAMESPACE, lease).await?;
        if spec.link != HostLink::Inventory {
            for mut object in self.host_objects(spec, host)? {
                if object["kind"] == "BareMetalHost" {
                    object["status"]["hardware"] = inspected();
                }
                make(client, super::NAMESPACE, object).await?;
            }
        }
        let machine = make(client, super::NAMESPACE, objects::machine(spec, host)).await?;
        machine.uid().context("a Machine without a UID")
    }
}

/// Hardware details of an inspected host, which are most of the size of a BareMetalHost.
fn inspected() -> Value {
    let flags: Vec<String> = (0..120).map(|i| format!("flag{i}")).collect();
    let nic = |i: usize| {
        json!({
            "name": format!("eth{i}"), "mac": format!("52:54:00:00:00:{i:02x}"),
            "ip": format!("192.0.2.{i}"), "model": "0x8086 0x1572", "speedGbps": 25,
            "vlanId": 0, "pxe": i == 0,
        })
    };
    let disk = |i: usize| {
        json!({
            "name": format!("/dev/disk/by-path/pci-0000:00:1f.2-ata-{i}"), "rotational": false,
            "sizeBytes": 1_920_383_410_176_u64, "vendor": "ATA", "model": "SIMULATED SSD",
            "serialNumber": format!("S{i:08}"), "wwn": format!("0x5002538f{i:08x}"),
            "hctl": "0:0:0:0", "type": "SSD",
        })
    };
    json!({
        "systemVendor": { "manufacturer": "Sim", "productName": "Sim", "serialNumber": "" },
        "firmware": { "bios": { "date": "01/01/2025", "vendor": "Sim", "version": "1.0" } },
        "ramMebibytes": 524_288,
        "nics": (0..6).map(nic).collect::<Vec<_>>(),
        "storage": (0..8).map(disk).collect::<Vec<_>>(),
        "cpu": { "arch": "x86_64", "model": "Sim", "clockMegahertz": 2600, "count": 64, "flags": flags },
        "hostname": "sim",
    })
}

/// A stand-in for a kubelet: at each boot it updates the status of its Node and renews its Lease once.
pub(super) async fn kubelet(host: SimHost, client: Client) {
    let mut changes = host.subscribe();
    let mut told = None;
    loop {
        let view = host.view();
        if view.os == OsState::Running && view.boot_id != told {
            let boot_id = view.boot_id.clone().unwrap_or_default();
            match tell(&host, &client, &boot_id).await {
                Ok(()) => told = view.boot_id,
                Err(error) => {
                    tracing::debug!(node = host.name(), %error, "not told");
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn tell(host: &SimHost, client: &Client, boot_id: &str) -> Result<()> {
    let config = host.config();
    let mut status = node::status(
        config,
        boot_id,
        node::Readiness::Ready,
        None,
        Timestamp::now(),
    );
    status["status"]["images"] = images();
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    let params = PatchParams::default();
    let renewal = Patch::Merge(node::lease_renewal(config, Timestamp::now()));
    leases.patch(&config.name, &params, &renewal).await?;
    nodes
        .patch_status(&config.name, &params, &Patch::Strategic(status))
        .await?;
    Ok(())
}

fn images() -> Value {
    let one = |i: usize| {
        json!({
            "names": [
                format!("registry.example.com/team-{i}/app@sha256:{i:064x}"),
                format!("registry.example.com/team-{i}/app:v1.{i}"),
            ],
            "sizeBytes": 123_456_789,
        })
    };
    (0..IMAGES).map(one).collect()
}

/// Sets condition Ready to Unknown, like the node lifecycle controller.
pub(super) async fn unknown(client: &Client, node: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let body = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": format!("{:.0}", Timestamp::now()),
    }]}});
    nodes
        .patch_status(node, &PatchParams::default(), &Patch::Strategic(body))
        .await?;
    Ok(())
}

/// Creates a pod that is bound to a Node and a volume that is attached to it.
pub(super) async fn bind_pod(client: &Client, node: &str) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("on-{node}") },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "c.invalid/c:1" }] },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.create(&PostParams::default(), &pod).await?;
    let volume: VolumeAttachment = serde_json::from_value(json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": format!("on-{node}") },
        "spec": {
            "attacher": "sim.csi.example.com",
            "nodeName": node,
            "source": { "persistentVolumeName": format!("pv-{node}") },
        },
    }))?;
    let volumes: Api<VolumeAttachment> = Api::all(client.clone());
    volumes.create(&PostParams::default(), &volume).await?;
    Ok(())
}

/// A stand-in for the taint manager, PodGC and the attach-detach controller: deletes pod and then volume of a
/// tainted Node. Calls `seen` for each tainted Node, with whether its host is off, which must stay so until
/// the pod is gone.
pub(super) async fn evict(client: Client, hosts: Vec<SimHost>, seen: impl Fn(&str, bool)) {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let volumes: Api<VolumeAttachment> = Api::all(client.clone());
    let find = |name: &str| hosts.iter().find(|host| host.name() == name);
    let mut tainted = std::collections::BTreeSet::new();
    let stream = watcher(nodes, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let gone = stream.filter_map(|node| {
        let new = node.ok().and_then(|node| {
            let name = node.name_any();
            let taints = node.spec.and_then(|s| s.taints).unwrap_or_default();
            if !taints.iter().any(|t| t.key == TAINT) {
                tainted.remove(&name);
                return None;
            }
            tainted.insert(name.clone()).then_some(name)
        });
        if let Some(name) = &new {
            let off = find(name).is_some_and(|host| host.real_power() == PowerState::Off);
            seen(name, off);
        }
        std::future::ready(new)
    });
    gone.for_each_concurrent(16, |name| {
        let (pods, volumes) = (pods.clone(), volumes.clone());
        async move {
            let (params, name) = (
                DeleteParams::default().grace_period(0),
                format!("on-{name}"),
            );
            pods.delete(&name, &params).await.ok();
            volumes.delete(&name, &params).await.ok();
        }
    })
    .await;
}
