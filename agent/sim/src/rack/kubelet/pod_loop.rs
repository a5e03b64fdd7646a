//! The pod loop of a host: watches the pods that are bound to it, starts and stops their processes,
//! and updates the API.
//!
//! Owns: one boot's state of its pods. Must never: end or panic: a failed call is retried later.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher::watcher};
use tokio::time::Instant;

use super::pods::{self, PodAction, Running};
use super::{backoff, call, is_status};
use crate::rack::host::SimHost;
use crate::rack::process::{PodIdentity, StopReason};

/// Duration of stopping the processes of a pod.
const TERMINATION_TAKES: Duration = Duration::from_millis(50);

struct Entry {
    pod: Pod,
    identity: PodIdentity,
    running: Option<Running>,
    /// Time of its next processing; `None` if only a new version of the pod triggers it.
    due: Option<Instant>,
    failures: u32,
    seen: bool,
}

struct Worker<'a> {
    host: &'a SimHost,
    client: &'a kube::Client,
    boot_id: &'a str,
    pods: BTreeMap<String, Entry>,
    next_ip: u8,
}

/// Watches the pods of this host and processes them.
pub(super) async fn run_pods(host: &SimHost, node: &str, client: &kube::Client, boot_id: &str) {
    let api: Api<Pod> = Api::all(client.clone());
    let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut worker = Worker {
        host,
        client,
        boot_id,
        pods: BTreeMap::new(),
        next_ip: 1,
    };
    loop {
        let due = worker.next_due();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => worker.take(event),
                Some(Err(error)) => tracing::debug!(node = host.name(), %error, "watch of pods"),
                None => return,
            },
            () = wait => worker.process_due().await,
        }
    }
}

impl Worker<'_> {
    fn next_due(&self) -> Option<Instant> {
        self.pods.values().filter_map(|entry| entry.due).min()
    }

    /// Handles an event of the watch.
    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.pods.values_mut().for_each(|entry| entry.seen = false),
            Event::InitApply(pod) | Event::Apply(pod) => self.put(pod),
            Event::Delete(pod) => {
                if let Some(identity) = pods::identity(&pod) {
                    self.vanished(&identity.uid);
                }
            }
            Event::InitDone => {
                let unseen = self.pods.iter().filter(|(_, entry)| !entry.seen);
                let unseen: Vec<_> = unseen.map(|(uid, _)| uid.clone()).collect();
                for uid in unseen {
                    self.vanished(&uid);
                }
            }
        }
    }

    fn put(&mut self, pod: Pod) {
        let Some(identity) = pods::identity(&pod) else {
            return;
        };
        let entry = self
            .pods
            .entry(identity.uid.clone())
            .or_insert_with(|| Entry {
                pod: Pod::default(),
                identity,
                running: None,
                due: None,
                failures: 0,
                seen: true,
            });
        entry.pod = pod;
        entry.seen = true;
        let now = Instant::now();
        entry.due = match pods::decide(&entry.pod, entry.running.is_some()) {
            PodAction::Nothing => None,
            // A termination in progress keeps its time.
            PodAction::Terminate => {
                let takes = TERMINATION_TAKES;
                Some(entry.due.unwrap_or(now + grace(&entry.pod, takes)))
            }
            _ => Some(now),
        };
    }

    /// The pod was removed from the API: its processes are stopped.
    fn vanished(&mut self, uid: &str) {
        if let Some(entry) = self.pods.remove(uid) {
            self.host
                .stop_process(self.boot_id, &entry.identity, StopReason::Vanished);
        }
    }

    /// Processes every pod that is due.
    async fn process_due(&mut self) {
        let now = Instant::now();
        let due = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
        let due: Vec<_> = due.map(|(uid, _)| uid.clone()).collect();
        for uid in due {
            let Some(mut entry) = self.pods.remove(&uid) else {
                continue;
            };
            entry.due = None;
            match self.process_pod(&mut entry).await {
                Ok(true) => entry.failures = 0,
                Ok(false) => continue,
                Err(error) => {
                    entry.failures += 1;
                    entry.due = Some(Instant::now() + backoff(entry.failures));
                    let (node, pod) = (self.host.name(), &entry.identity.name);
                    tracing::debug!(node, pod, error = format!("{error:#}"), "pod not seen to");
                }
            }
            self.pods.insert(uid, entry);
        }
    }

    /// Processes a pod; `false` if it is no longer relevant.
    async fn process_pod(&mut self, entry: &mut Entry) -> Result<bool> {
        let identity = entry.identity.clone();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &identity.namespace);
        match pods::decide(&entry.pod, entry.running.is_some()) {
            PodAction::Nothing => Ok(true),
            PodAction::Start => {
                if self.host.start_process(self.boot_id, identity) {
                    entry.running = Some(self.new_running());
                    self.report(&api, entry).await?;
                }
                Ok(true)
            }
            PodAction::Report => {
                self.report(&api, entry).await?;
                Ok(true)
            }
            PodAction::Terminate => {
                // The processes end first: only then may the pod be removed from the API.
                self.host
                    .stop_process(self.boot_id, &identity, StopReason::Deleted);
                entry.running = None;
                self.remove(&api, &identity).await
            }
            PodAction::Remove => self.remove(&api, &identity).await,
        }
    }

    fn new_running(&mut self) -> Running {
        let [a, b, c] = self.host.config().pod_network();
        self.next_ip = if self.next_ip >= 254 {
            2
        } else {
            self.next_ip + 1
        };
        Running {
            since: Timestamp::now(),
            ip: format!("{a}.{b}.{c}.{}", self.next_ip),
            host_ip: super::node::ADDRESS.to_owned(),
            boot_id: self.boot_id.to_owned(),
        }
    }

    async fn report(&self, api: &Api<Pod>, entry: &Entry) -> Result<()> {
        let Some(running) = &entry.running else {
            return Ok(());
        };
        let patch = Patch::Strategic(pods::status(&entry.pod, running, Timestamp::now()));
        let params = PatchParams::default();
        let patched = api.patch_status(&entry.identity.name, &params, &patch);
        match call("posting a pod's status", patched).await {
            // Deleted, or replaced by another pod of the same name: the watch will report it.
            Err(error) if is_status(&error, &[404, 409]) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn remove(&self, api: &Api<Pod>, identity: &PodIdentity) -> Result<bool> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(identity.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match call("removing a pod", api.delete(&identity.name, &params)).await {
            Err(error) if !is_status(&error, &[404, 409]) => Err(error),
            _ => Ok(false),
        }
    }
}

/// Duration of a termination: at most the pod's grace period.
fn grace(pod: &Pod, takes: Duration) -> Duration {
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
    takes.min(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}
