//! Kubelets: their Leases, their Nodes' status, and the containers that they start and stop.

use std::time::Duration;

use serde_json::{Value, json};

use super::HostId;
use crate::{
    api::resource::{NODES, PODS, VOLUME_ATTACHMENTS},
    kernel::{World, wall_clock},
};

/// How often a kubelet renews its Lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// The longest time from the first renewal of a boot to the first status, as measured on busy hosts. Until then the API
/// shows the status of before.
const LATEST_STATUS: Duration = Duration::from_secs(33);
/// How long a Node is not Ready after its first status of a boot. A kubelet looks at its container runtime first.
const STARTING: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Where the workload runs.
pub(super) const WORKLOAD: &str = "default";

impl World {
    /// A kubelet has started: it reports its Node, and starts what the API has for it.
    pub(crate) fn start_kubelet(&mut self, id: HostId) {
        let epoch = self.fleet.host(id).epoch;
        let reports = self.now() + self.between(Duration::ZERO, LATEST_STATUS);
        self.fleet.host_mut(id).reports_from = reports;
        self.renew_lease(id, epoch);
        self.after(reports - self.now(), move |world| {
            if world.fleet.host(id).epoch == epoch {
                world.report_status(id);
                world.settle_changes();
            }
        });
    }

    /// Registers the Node of a host whose kubelet has started, if there is none.
    fn register(&mut self, id: HostId) {
        let host = self.fleet.host_mut(id);
        if std::mem::replace(&mut host.registered, true) {
            return;
        }
        let name = host.name.clone();
        if self.api.get(NODES, "", &name).is_none() {
            self.log(format_args!("node {name} is registered anew"));
            self.register_node(id);
            self.report_boot(id);
        }
    }

    fn renew_lease(&mut self, id: HostId, epoch: u64) {
        let host = self.fleet.host(id);
        if host.epoch != epoch || !host.kubelet_works() {
            return;
        }
        let (name, now) = (host.name.clone(), self.now());
        self.after(RENEWAL, move |world| world.renew_lease(id, epoch));
        if self.api.away {
            return;
        }
        self.register(id);
        self.fleet.host_mut(id).renewed = now;
        self.api.renew_lease(&name);
        self.report_status(id);
        self.settle_changes();
        self.sync_pods(id);
    }

    /// Reports a new boot as not Ready, and from some time later on the Node as Ready where it is not.
    fn report_status(&mut self, id: HostId) {
        let host = self.fleet.host(id);
        if self.now() < host.reports_from || self.api.away || !host.kubelet_works() {
            return;
        }
        let (name, ready_from, boot) = (host.name.clone(), host.ready_from, host.boot_id());
        let Some(node) = self.api.get(NODES, "", &name) else {
            return;
        };
        let is_known = node["status"]["nodeInfo"]["bootID"] == *boot;
        let is_ready = node["status"]["conditions"][0]["status"] == "True";
        if !is_known {
            self.report_boot(id);
        } else if self.now() >= ready_from {
            self.count_recovery(id);
            if !is_ready {
                self.set_ready(&name, "True", "KubeletReady");
                self.log(format_args!("node {name} is Ready"));
            }
        }
    }

    /// Reports a boot as not Ready, and looks again once it is.
    fn report_boot(&mut self, id: HostId) {
        let starting = self.between(STARTING.0, STARTING.1);
        let ready_from = self.now() + starting;
        let host = self.fleet.host_mut(id);
        host.ready_from = ready_from;
        let (name, epoch, boot) = (host.name.clone(), host.epoch, host.boot_id());
        self.set_ready(&name, "False", "KubeletNotReady");
        self.api.modify(NODES, "", &name, |node| {
            node["status"]["nodeInfo"]["bootID"] = boot.into();
        });
        self.log(format_args!("node {name} reports its boot"));
        self.after(starting, move |world| {
            if world.fleet.host(id).epoch == epoch {
                world.report_status(id);
                world.settle_changes();
            }
        });
    }

    /// Sets the condition Ready of a Node.
    pub(super) fn set_ready(&mut self, name: &str, status: &str, reason: &str) {
        let now = wall_clock(self.now());
        let at = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
        self.api.modify(NODES, "", name, |node| {
            let condition = &mut node["status"]["conditions"][0];
            if condition["status"] != status {
                *condition = json!({
                    "type": "Ready", "status": status, "reason": reason, "message": "",
                    "lastHeartbeatTime": at, "lastTransitionTime": at,
                });
            }
        });
    }

    /// Starts and stops containers by the pods that the API has for a host.
    pub(super) fn sync_pods(&mut self, id: HostId) {
        let host = self.fleet.host(id);
        if !host.kubelet_works() || self.api.away {
            return;
        }
        let (name, epoch) = (host.name.clone(), host.epoch);
        let pods = self.api.bound_to(PODS, &name);
        let mine: Vec<(String, String, bool)> = pods
            .map(|pod| {
                let ends = !pod["metadata"]["deletionTimestamp"].is_null();
                (text(pod, "name"), text(pod, "uid"), ends)
            })
            .collect();
        let host = self.fleet.host(id);
        let running = host.containers.clone();
        for (pod, uid) in &running {
            if !mine.iter().any(|(_, u, ends)| u == uid && !ends) {
                let (pod, uid) = (pod.clone(), uid.clone());
                let time = self.between(Duration::from_millis(200), Duration::from_secs(8));
                self.after(time, move |world| {
                    world.stop_container(id, epoch, &pod, &uid);
                });
            }
        }
        for (pod, uid, ends) in mine {
            let runs = running.get(&pod) == Some(&uid);
            let attached = self
                .api
                .get(VOLUME_ATTACHMENTS, "", &attachment(&pod, &name));
            if ends && !runs {
                self.remove_pod(&pod, &uid);
            } else if !ends && !runs && attached.is_some() {
                let time = self.between(Duration::from_millis(300), Duration::from_secs(4));
                self.after(time, move |world| {
                    world.start_container(id, epoch, &pod, &uid);
                });
            }
        }
    }

    fn start_container(&mut self, id: HostId, epoch: u64, pod: &str, uid: &str) {
        let host = self.fleet.host(id);
        let name = host.name.clone();
        if host.epoch != epoch || !host.kubelet_works() || host.containers.contains_key(pod) {
            return;
        }
        // What a kubelet knows of the API may be old; a pod that is there no longer is not started.
        let found = self.api.get(PODS, WORKLOAD, pod);
        let wanted = found.is_some_and(|found| {
            text(&found, "uid") == uid
                && found["metadata"]["deletionTimestamp"].is_null()
                && found["spec"]["nodeName"] == *name
        });
        if !wanted {
            return;
        }
        let host = self.fleet.host_mut(id);
        host.containers.insert(pod.to_owned(), uid.to_owned());
        let started = self.fleet.started_on.entry(pod.to_owned());
        started.or_default().insert(id);
        self.judge_containers(pod);
        self.api.modify(PODS, WORKLOAD, pod, |pod| {
            pod["status"]["phase"] = "Running".into();
        });
        self.settle_changes();
    }

    fn stop_container(&mut self, id: HostId, epoch: u64, pod: &str, uid: &str) {
        let host = self.fleet.host_mut(id);
        if host.epoch != epoch || !host.kubelet_works() {
            return;
        }
        if host
            .containers
            .get(pod)
            .is_some_and(|running| running == uid)
        {
            host.containers.remove(pod);
        }
        self.remove_pod(pod, uid);
    }

    /// A pod that has ended is removed from the API.
    fn remove_pod(&mut self, pod: &str, uid: &str) {
        let now = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } });
        self.api.delete(PODS, WORKLOAD, pod, &now).ok();
        self.settle_changes();
    }
}

/// The name of the VolumeAttachment of a pod's volume at a host.
pub(super) fn attachment(pod: &str, host: &str) -> String {
    format!("csi-{pod}-{host}")
}

/// A field of an object's metadata.
pub(super) fn text(object: &Value, field: &str) -> String {
    object["metadata"][field]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
