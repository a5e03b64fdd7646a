//! The controllers of Kubernetes that matter to a failed node: its lifecycle, eviction by taints, garbage
//! collection of pods, attachment of volumes, and who makes and schedules the workload.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Host, HostId,
    kubelet::{WORKLOAD, attachment, text},
};
use crate::{
    api::{
        Change, ChangeKind, Resource,
        resource::{NODES, PODS, VOLUME_ATTACHMENTS},
    },
    breakage::Breakage,
    kernel::World,
};

/// How often Leases are looked at.
const MONITOR: Duration = Duration::from_secs(5);
/// After how long without a renewal a Node is Unknown.
const GRACE: Duration = Duration::from_secs(40);
/// How long pods tolerate an unreachable Node.
const TOLERATION: Duration = Duration::from_secs(300);
/// Of a hundred Nodes, how many are late when pods are evicted no more, as the network may be to blame.
const DISRUPTED: usize = 55;
/// How often pods are collected.
const COLLECTION: Duration = Duration::from_secs(20);

/// How many hosts are considered for a pod.
const CANDIDATES: usize = 50;
/// How long a Node is gone until its pods are collected.
const QUARANTINE: Duration = Duration::from_secs(40);

pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Whether a Node has a taint of this key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
}

fn is_ready(node: &Value) -> bool {
    node["status"]["conditions"][0]["status"] == "True"
}

impl World {
    /// Starts what acts again and again.
    pub(crate) fn start_cluster(&mut self) {
        self.monitor_nodes();
        self.collect_pods();
        for pod in 0..self.fleet.spec.pods {
            self.schedule_pod(format!("db-{pod}"));
        }
    }

    fn monitor_nodes(&mut self) {
        self.after(MONITOR, World::monitor_nodes);
        let now = self.now();
        if self.api.away {
            // Nobody could renew: Leases count anew once the API is back.
            self.fleet.quiet_until = now + GRACE;
            return;
        }
        if now < self.fleet.quiet_until {
            return;
        }
        let is_late = |host: &Host| now.saturating_sub(host.renewed) >= GRACE;
        let late = self.fleet.hosts.iter().filter(|host| is_late(host)).count();
        let disrupted = late > 2 && late * 100 >= DISRUPTED * self.fleet.hosts.len();
        for id in self.fleet.ids() {
            let host = self.fleet.host(id);
            let late = is_late(host);
            if !late && !host.unreachable {
                continue;
            }
            let name = host.name.clone();
            self.fleet.host_mut(id).unreachable = true;
            let Some(node) = self.api.get(NODES, "", &name) else {
                continue;
            };
            let tainted = has_taint(&node, UNREACHABLE);
            if late && is_ready(&node) {
                self.log(format_args!("node {name} is Unknown"));
                self.set_ready(&name, "Unknown", "NodeStatusUnknown");
            }
            if late && !tainted && !disrupted {
                self.change_taints(&name, |taints| {
                    for effect in ["NoSchedule", "NoExecute"] {
                        taints.push(json!({ "key": UNREACHABLE, "effect": effect }));
                    }
                });
                self.after(TOLERATION, move |world| world.evict_tolerating(id));
            } else if !late && is_ready(&node) {
                if tainted {
                    self.change_taints(&name, |taints| taints.retain(|t| t["key"] != UNREACHABLE));
                }
                self.fleet.host_mut(id).unreachable = false;
            }
        }
        self.settle_changes();
    }

    fn change_taints(&mut self, node: &str, change: impl FnOnce(&mut Vec<Value>)) {
        self.api.modify(NODES, "", node, |node| {
            let taints = &mut node["spec"]["taints"];
            let mut list = taints.as_array().cloned().unwrap_or_default();
            change(&mut list);
            *taints = list.into();
        });
    }

    fn evict_tolerating(&mut self, id: HostId) {
        let name = self.fleet.host(id).name.clone();
        let node = self.api.get(NODES, "", &name);
        let still = node.is_some_and(|node| has_taint(&node, UNREACHABLE));
        if still {
            self.evict(&name);
        }
    }

    /// Deletes the pods of a Node, as its taint demands; their kubelet has the last word.
    fn evict(&mut self, node: &str) {
        if self.api.away {
            let node = node.to_owned();
            self.after(Duration::from_secs(5), move |world| world.evict(&node));
            return;
        }
        for (pod, _) in self.pods_of(node) {
            self.api.delete(PODS, WORKLOAD, &pod, &json!({})).ok();
        }
        self.settle_changes();
    }

    fn pods_of(&self, node: &str) -> Vec<(String, bool)> {
        let pods = self.api.bound_to(PODS, node);
        pods.map(|pod| {
            let ends = !pod["metadata"]["deletionTimestamp"].is_null();
            (text(pod, "name"), ends)
        })
        .collect()
    }

    /// The collection of pods: those that end on a Node that is out of service and not Ready are removed
    /// without their kubelet.
    fn collect_pods(&mut self) {
        self.after(COLLECTION, World::collect_pods);
        if self.api.away {
            return;
        }
        let nodes = self.api.list(NODES);
        let out: Vec<String> = nodes
            .filter(|node| has_taint(node, OUT_OF_SERVICE) && !is_ready(node))
            .map(|node| text(node, "name"))
            .collect();
        self.collect_orphans();
        for node in out {
            for (pod, ends) in self.pods_of(&node) {
                if ends {
                    let force = json!({ "gracePeriodSeconds": 0 });
                    self.api.delete(PODS, WORKLOAD, &pod, &force).ok();
                }
            }
        }
        self.settle_changes();
    }

    /// Pods whose Node has been gone for a while are removed.
    fn collect_orphans(&mut self) {
        let now = self.now();
        let missing = |world: &World, node: &str| world.api.get(NODES, "", node).is_none();
        let names: Vec<String> = self.fleet.hosts.iter().map(|h| h.name.clone()).collect();
        for name in names {
            if !missing(self, &name) {
                self.fleet.missing.remove(&name);
                continue;
            }
            let since = *self.fleet.missing.entry(name.clone()).or_insert(now);
            if now.saturating_sub(since) < QUARANTINE {
                continue;
            }
            for (pod, _) in self.pods_of(&name) {
                let force = json!({ "gracePeriodSeconds": 0 });
                self.api.delete(PODS, WORKLOAD, &pod, &force).ok();
            }
        }
    }

    /// Acts on a change of an object.
    pub(crate) fn observe(&mut self, change: &Change) {
        self.judge_change(change);
        let soon =
            |world: &mut World| world.between(Duration::from_millis(50), Duration::from_secs(2));
        let is = |resource: Resource| change.resource == resource;
        let name = text(&change.object, "name");
        let node = change.object["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default();
        if is(PODS) && change.kind == ChangeKind::Deleted {
            let (pod, node) = (name, node.to_owned());
            let time = soon(self);
            self.after(time, {
                let pod = pod.clone();
                move |world| world.schedule_pod(pod)
            });
            let time = soon(self);
            self.after(time, move |world| world.detach(&pod, &node));
        } else if is(PODS) {
            let time = soon(self);
            let host = self.fleet.find(node);
            self.after(time, move |world| {
                world.attach(&name);
                if let Some(host) = host {
                    world.sync_pods(host);
                }
            });
        } else if is(VOLUME_ATTACHMENTS) {
            let node = change.object["spec"]["nodeName"]
                .as_str()
                .unwrap_or_default();
            let volume = change.object["spec"]["source"]["persistentVolumeName"].as_str();
            let (pod, host) = (volume.unwrap_or_default().to_owned(), self.fleet.find(node));
            let time = soon(self);
            self.after(time, move |world| {
                world.attach(&pod);
                if let Some(host) = host {
                    world.sync_pods(host);
                }
            });
        } else if is(NODES) {
            let tainted = |object: &Value| has_taint(object, OUT_OF_SERVICE);
            let before = change.before.as_ref().is_some_and(|before| tainted(before));
            if tainted(&change.object) && !before {
                let time = soon(self);
                self.after(time, move |world| world.evict(&name));
            }
        } else {
            self.observe_metal3(change);
        }
    }

    /// Makes a pod of the workload that is not there, on the Node with the fewest.
    fn schedule_pod(&mut self, pod: String) {
        if self.api.get(PODS, WORKLOAD, &pod).is_some() {
            return;
        }
        let best = self
            .candidates(&pod)
            .into_iter()
            .filter_map(|id| self.api.get(NODES, "", &self.fleet.host(id).name))
            .filter(|node| {
                let tainted = has_taint(node, OUT_OF_SERVICE) || has_taint(node, UNREACHABLE);
                let cordoned = node["spec"]["unschedulable"] == true;
                is_ready(node) && !tainted && !cordoned
            })
            .map(|node| text(&node, "name"))
            .map(|node| (self.api.bound_to(PODS, &node).count(), node))
            .min();
        let Some((_, node)) = best.filter(|_| !self.api.away) else {
            self.after(Duration::from_secs(5), move |world| world.schedule_pod(pod));
            return;
        };
        let object = json!({
            "metadata": { "name": pod, "labels": { "app": "db" } },
            "spec": { "nodeName": node, "containers": [{ "name": "db", "image": "db" }] },
            "status": { "phase": "Pending" },
        });
        self.api.create(PODS, WORKLOAD, object).ok();
        self.settle_changes();
    }

    /// The hosts that are considered for a pod: all of its cluster, or some of very many.
    fn candidates(&mut self, pod: &str) -> Vec<HostId> {
        let here = self.fleet.hosts_for(pod);
        if here.len() <= CANDIDATES {
            return here.map(HostId).collect();
        }
        (0..CANDIDATES)
            .map(|_| HostId(self.rng.usize(here.clone())))
            .collect()
    }

    /// Attaches a pod's volume to its host, once it is attached to no other.
    fn attach(&mut self, pod: &str) {
        if self.api.away {
            let pod = pod.to_owned();
            self.after(Duration::from_secs(5), move |world| world.attach(&pod));
            return;
        }
        let Some(found) = self.api.get(PODS, WORKLOAD, pod) else {
            return;
        };
        let node = found["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let ends = !found["metadata"]["deletionTimestamp"].is_null();
        let busy = self.api.is_attached(pod);
        if ends || busy {
            return;
        }
        let object = json!({
            "metadata": { "name": attachment(pod, &node) },
            "spec": {
                "attacher": "csi.example", "nodeName": node,
                "source": { "persistentVolumeName": pod },
            },
            "status": { "attached": true },
        });
        self.api.create(VOLUME_ATTACHMENTS, "", object).ok();
        self.settle_changes();
    }

    /// Detaches the volume of a pod that is gone, once its host works or is out of service. Kubernetes'
    /// detachment by force after six minutes is not simulated: with it a volume may be written by two
    /// hosts, whoever fences.
    fn detach(&mut self, pod: &str, host: &str) {
        let node = self.api.get(NODES, "", host);
        let free = node.is_none_or(|node| is_ready(&node) || has_taint(&node, OUT_OF_SERVICE));
        if self.fleet.breakage.is_some_and(Breakage::keeps_volumes) {
            return;
        }
        let retry = if self.api.away {
            Duration::from_secs(5)
        } else if free {
            let name = attachment(pod, host);
            self.api
                .delete(VOLUME_ATTACHMENTS, "", &name, &json!({}))
                .ok();
            self.settle_changes();
            return;
        } else {
            Duration::from_secs(10)
        };
        let (pod, host) = (pod.to_owned(), host.to_owned());
        self.after(retry, move |world| world.detach(&pod, &host));
    }
}
