//! Records every version of the watched objects, in order, with its arrival time.
//!
//! Polling cannot prove that something never happened; a watch can. It never writes.

use std::{pin::pin, sync::Arc, time::Instant};

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

use super::{LONG, TAINT, wait_until};

/// Group, version and kind.
type Watched = (&'static str, &'static str, &'static str);

/// Watched kinds in a cluster with Machines.
const KINDS: [Watched; 8] = [
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    (
        "infrastructure.cluster.x-k8s.io",
        "v1beta1",
        "Metal3Remediation",
    ),
    ("rackhand.dev", "v1alpha1", "PowerRemediation"),
    ("rackhand.dev", "v1alpha1", "RemediationState"),
    ("metal3.io", "v1alpha1", "BareMetalHost"),
    ("cluster.x-k8s.io", "v1beta1", "Machine"),
    ("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck"),
];

/// Machines of OpenShift, which are recorded as of the kind [`OPENSHIFT_MACHINE`].
const OF_OPENSHIFT: [Watched; 1] = [("machine.openshift.io", "v1beta1", "Machine")];

/// The kind of OpenShift's Machines in records, unlike that of Cluster API.
pub const OPENSHIFT_MACHINE: &str = "Machine.machine.openshift.io";

/// Watched kinds in a cluster without Machines.
const OF_NODES: [Watched; 4] = [
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    ("rackhand.dev", "v1alpha1", "PowerRemediation"),
    ("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck"),
];

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

    /// Whether the key of an annotation has this prefix.
    #[must_use]
    pub fn is_annotated(&self, prefix: &str) -> bool {
        let annotations = self.object["metadata"]["annotations"].as_object();
        annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(prefix)))
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

    /// `metadata.resourceVersion`, by which versions of different kinds are in the order of their writes.
    #[must_use]
    pub fn version(&self) -> u64 {
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
    tasks: JoinSet<()>,
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

    /// Starts to record in a cluster with Machines of OpenShift, too.
    #[must_use]
    pub fn of_openshift(client: &Client) -> Self {
        let mut this = Self::of_kinds(client, &KINDS);
        this.record(&OF_OPENSHIFT);
        this
    }

    fn of_kinds(client: &Client, kinds: &[Watched]) -> Self {
        let mut this = Self {
            records: Arc::default(),
            client: client.clone(),
            tasks: JoinSet::new(),
        };
        this.record(kinds);
        this
    }

    fn record(&mut self, kinds: &[Watched]) {
        for &(group, version, kind) in kinds {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let kind = match group {
                "machine.openshift.io" => OPENSHIFT_MACHINE,
                _ => kind,
            };
            self.tasks.spawn(watch(api, kind, self.records.clone()));
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

    /// Waits until a version of an object was recorded that is as wanted, and returns it. A state that passes by
    /// itself is found although the object has changed, or was deleted, since.
    ///
    /// # Errors
    /// No such version is recorded in time; the message contains the last one.
    pub async fn wait_version(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let records = self.of(kind, name);
            let found = records.iter().find(|r| !r.gone && wanted(&r.object));
            let last = || {
                records
                    .last()
                    .map_or_else(|| "nothing".to_owned(), |r| r.object.to_string())
            };
            Ok(found.map(|r| r.object.clone()).ok_or_else(last))
        })
        .await
    }

    /// Waits until a remediation of a Machine was created; returns its first version.
    ///
    /// # Errors
    /// None is created in time.
    pub async fn wait_created(&self, machine: &str) -> Result<Value> {
        let what = "a remediation is created";
        self.wait_version("Metal3Remediation", machine, what, |_| true)
            .await
    }

    /// Waits until a Machine's remediation has been at a step.
    ///
    /// # Errors
    /// It does not reach the step in time.
    pub async fn wait_passed(&self, machine: &str, step: &str) -> Result<()> {
        wait_until(&format!("{machine}: has been at {step}"), LONG, || async {
            let steps = self.steps(machine);
            let reached = steps.iter().any(|(_, seen)| seen == step);
            Ok(reached.then_some(()).ok_or_else(|| format!("{steps:?}")))
        })
        .await
    }

    /// Waits until the newest version of a Node was recorded, so that no earlier version is missed.
    ///
    /// # Errors
    /// The Node does not exist, or the version does not arrive.
    pub async fn catch_up(&self, node: &str) -> Result<()> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let newest = nodes.get(node).await?.resource_version();
        let newest: u64 = newest.and_then(|v| v.parse().ok()).unwrap_or(0);
        wait_until("the recorder has seen the node", LONG, || async {
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

    /// The steps of a Machine's remediations in order, as they are recorded, each with the time of its first observation.
    #[must_use]
    pub fn steps(&self, machine: &str) -> Vec<(Instant, String)> {
        let mut steps: Vec<(Instant, String)> = Vec::new();
        for record in self.all("RemediationState") {
            let spec = &record.object["spec"];
            let is_of = spec["kind"] == "Metal3Remediation" && spec["name"] == machine;
            let Some(step) = spec["state"]["step"]
                .as_str()
                .filter(|_| is_of && !record.gone)
            else {
                continue;
            };
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
            let now = record.is_annotated(prefix);
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
