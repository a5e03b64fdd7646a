//! A stand-in for CAPM3 as Cluster API's infrastructure provider: assigns a free host to every Metal3Machine.
//!
//! It never assigns a host with an unhealthy annotation in either form, and never switches power, because a
//! host runs its Node already.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{NAMESPACE, Stage};

const LINK: &str = "metal3.io/BareMetalHost";
const UNHEALTHY: [&str; 2] = ["capi.metal3.io/unhealthy", "capm3.metal3.io/unhealthy"];
const POLL: Duration = Duration::from_millis(200);

/// A running provider; dropping it stops it.
pub struct Provider {
    _task: JoinSet<()>,
}

impl Stage {
    /// Starts the provider for all hosts of the stage, which must have BareMetalHosts.
    #[must_use]
    pub fn start_provider(&self) -> Provider {
        let racks = self.config.racks.iter();
        let hosts = racks.flat_map(|rack| rack.hosts.iter().map(|host| (host, &rack.name)));
        let ids = hosts.map(|(host, rack)| (host.clone(), format!("rackhand://{rack}/{host}")));
        let work = Work {
            machines: self.metal3_machines(),
            hosts: self.bare_metal_hosts(),
            ids: ids.collect(),
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                if let Err(error) = work.turn().await {
                    tracing::debug!(error = format!("{error:#}"), "provider");
                }
                tokio::time::sleep(POLL).await;
            }
        });
        Provider { _task: task }
    }

    /// API of the Metal3Machines.
    #[must_use]
    pub fn metal3_machines(&self) -> Api<DynamicObject> {
        self.api(
            "infrastructure.cluster.x-k8s.io",
            "v1beta2",
            "Metal3Machine",
        )
    }
}

struct Work {
    machines: Api<DynamicObject>,
    hosts: Api<DynamicObject>,
    /// Hosts with their providerIDs.
    ids: Vec<(String, String)>,
}

impl Work {
    async fn turn(&self) -> Result<()> {
        let machines = self.machines.list(&ListParams::default()).await?.items;
        let names: BTreeSet<String> = machines.iter().map(ResourceExt::name_any).collect();
        let hosts = self.hosts.list(&ListParams::default()).await?.items;
        let mut free = Vec::new();
        for host in &hosts {
            match host.data["spec"]["consumerRef"]["name"].as_str() {
                Some(consumer) if !names.contains(consumer) => self.release(host).await?,
                Some(_) => {}
                None if is_marked(host) => {}
                None => free.push(host.name_any()),
            }
        }
        free.sort();
        let waiting = machines.iter().filter(|machine| {
            let linked = machine.annotations().contains_key(LINK);
            !linked && machine.metadata.deletion_timestamp.is_none()
        });
        for (machine, host) in waiting.zip(free) {
            self.take(&machine.name_any(), &host).await?;
        }
        Ok(())
    }

    async fn take(&self, machine: &str, host: &str) -> Result<()> {
        let id = self.ids.iter().find(|(name, _)| name == host);
        let id = id.map(|(_, id)| id.as_str()).unwrap_or_default();
        let consumer = json!({ "spec": { "consumerRef": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "Metal3Machine",
            "name": machine,
            "namespace": NAMESPACE,
        }}});
        patch(&self.hosts, host, consumer, false).await?;
        let state = json!({ "status": { "provisioning": { "state": "provisioned" } } });
        patch(&self.hosts, host, state, true).await?;
        let provisioned = json!({ "status": {
            "ready": true,
            "initialization": { "provisioned": true },
        }});
        patch(&self.machines, machine, provisioned, true).await?;
        let linked = json!({
            "metadata": { "annotations": { LINK: format!("{NAMESPACE}/{host}") } },
            "spec": { "providerID": id },
        });
        patch(&self.machines, machine, linked, false).await
    }

    async fn release(&self, host: &DynamicObject) -> Result<()> {
        let free = json!({ "spec": { "consumerRef": null } });
        patch(&self.hosts, &host.name_any(), free, false).await?;
        let state = json!({ "status": { "provisioning": { "state": "available" } } });
        patch(&self.hosts, &host.name_any(), state, true).await
    }
}

fn is_marked(host: &DynamicObject) -> bool {
    UNHEALTHY
        .iter()
        .any(|mark| host.annotations().contains_key(*mark))
}

async fn patch(api: &Api<DynamicObject>, name: &str, body: Value, status: bool) -> Result<()> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(body));
    if status {
        api.patch_status(name, &params, &patch).await?;
    } else {
        api.patch(name, &params, &patch).await?;
    }
    Ok(())
}
