//! Records every version of the watched objects, in order, with its arrival time.
//!
//! Polling cannot prove that something never happened; a watch can. It never writes.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{TAINT, wait_until};

type Watched = (&'static str, &'static str, &'static str);

/// Watched kinds in a cluster with Machines.
const KINDS: [Watched; 6] = [
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    (
        "infrastructure.cluster.x-k8s.io",
        "v1beta1",
        "Metal3Remediation",
    ),
    ("metal3.io", "v1alpha1", "BareMetalHost"),
    ("cluster.x-k8s.io", "v1beta1", "Machine"),
    ("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck"),
];

/// Watched kinds in a cluster without Machines.
const OF_NODES: [Watched; 4] = [
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    ("rackhand.dev", "v1alpha1", "PowerRemediation"),
    ("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck"),
];

/// Timeout of the arrival of a version.
const ARRIVAL: Duration = Duration::from_secs(20);

/// One version of one object.
#[derive(Debug, Clone)]
pub struct Record {
    /// Arrival time, which is no earlier than the write.
    pub at: Instant,
    /// Kind of the object.
    pub kind: &'static str,
    /// Name of the object.
    pub name: String,
    /// Whether the object was deleted.
    pub gone: bool,
    /// The object.
    pub object: Value,
}

impl Record {
    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Whether condition Ready is True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let conditions = self.object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
    }

    fn version(&self) -> u64 {
        let version = self.object["metadata"]["resourceVersion"].as_str();
        version.and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    fn tainted(&self) -> bool {
        let taints = self.object["spec"]["taints"].as_array();
        taints.is_some_and(|list| list.iter().any(|t| t["key"] == TAINT))
    }
}

/// All recorded versions.
pub struct Recorder {
    records: Arc<Mutex<Vec<Record>>>,
    client: Client,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts to record, until it is dropped.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        Self::of_kinds(client, &KINDS)
    }

    /// Starts to record in a cluster without Machines, with a NodeHealthCheck.
    #[must_use]
    pub fn of_nodes(client: &Client) -> Self {
        Self::of_kinds(client, &OF_NODES)
    }

    fn of_kinds(client: &Client, kinds: &[Watched]) -> Self {
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for &(group, version, kind) in kinds {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            tasks.spawn(watch(api, kind, records.clone()));
        }
        Self {
            records,
            client: client.clone(),
            _tasks: tasks,
        }
    }

    /// Every version of every object of a kind, in the order in which they were written.
    #[must_use]
    pub fn all(&self, kind: &str) -> Vec<Record> {
        let records = self.records.lock();
        records.iter().filter(|r| r.kind == kind).cloned().collect()
    }

    /// Every version of an object, oldest first.
    #[must_use]
    pub fn of(&self, kind: &str, name: &str) -> Vec<Record> {
        let records = self.records.lock();
        let mine = records
            .iter()
            .filter(|r| r.kind == kind && r.name == name)
            .cloned();
        mine.collect()
    }

    /// Waits until the newest version of a Node was recorded, so that no earlier version is missed.
    ///
    /// # Errors
    /// The Node does not exist, or the version does not arrive.
    pub async fn catch_up(&self, node: &str) -> Result<()> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let newest = nodes.get(node).await?.resource_version();
        let newest: u64 = newest.and_then(|v| v.parse().ok()).unwrap_or(0);
        wait_until("the recorder has seen the node", ARRIVAL, || async {
            let seen = self.of("Node", node).last().map_or(0, Record::version);
            Ok(if seen >= newest {
                Ok(())
            } else {
                Err(format!("version {seen} of {newest}"))
            })
        })
        .await
    }

    /// Changes of the out-of-service taint: time, and whether it is set.
    #[must_use]
    pub fn taints(&self, node: &str) -> Vec<(Instant, bool)> {
        let mut changes: Vec<(Instant, bool)> = Vec::new();
        for record in self.of("Node", node) {
            let now = record.tainted() && !record.gone;
            if changes.last().is_some_and(|(_, was)| *was) != now {
                changes.push((record.at, now));
            }
        }
        changes
    }

    /// The steps of a Machine's remediations in order, each with the time of its first observation.
    #[must_use]
    pub fn steps(&self, machine: &str) -> Vec<(Instant, String)> {
        let mut steps: Vec<(Instant, String)> = Vec::new();
        for record in self.of("Metal3Remediation", machine) {
            let Some(text) = record.annotation("rackhand.dev/state") else {
                continue;
            };
            let state: Value = serde_json::from_str(text).unwrap_or_default();
            let step = state["state"]["step"].as_str().unwrap_or_default();
            if steps.last().map(|(_, last)| last.as_str()) != Some(step) {
                steps.push((record.at, step.to_owned()));
            }
        }
        steps
    }

    /// All reasons of a Machine's remediations in order.
    #[must_use]
    pub fn reasons(&self, machine: &str) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        for record in self.of("Metal3Remediation", machine) {
            let text = record.annotation("rackhand.dev/state").unwrap_or_default();
            let state: Value = serde_json::from_str(text).unwrap_or_default();
            let reason = state["reason"].as_str().unwrap_or_default().to_owned();
            if reasons.last() != Some(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    /// Changes of annotations of a BareMetalHost with this prefix: time, and whether one is set.
    #[must_use]
    pub fn holds(&self, host: &str, prefix: &str) -> Vec<(Instant, bool)> {
        let mut changes: Vec<(Instant, bool)> = Vec::new();
        for record in self.of("BareMetalHost", host) {
            let annotations = record.object["metadata"]["annotations"].as_object();
            let now = annotations.is_some_and(|all| all.keys().any(|k| k.starts_with(prefix)));
            if changes.last().is_some_and(|(_, was)| *was) != now {
                changes.push((record.at, now));
            }
        }
        changes
    }
}

async fn watch(api: Api<DynamicObject>, kind: &'static str, records: Arc<Mutex<Vec<Record>>>) {
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let record = Record {
            at: Instant::now(),
            kind,
            name: object.name_any(),
            gone,
            object: serde_json::to_value(&object).unwrap_or_default(),
        };
        records.lock().push(record);
    }
}
