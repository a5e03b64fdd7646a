//! What is judged, by what really happened to hosts and pods.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api::{
        Change, ChangeKind,
        resource::{
            BARE_METAL_HOSTS, METAL3_REMEDIATIONS, NODES, PODS, POWER_REMEDIATIONS,
            VOLUME_ATTACHMENTS,
        },
    },
    fleet::{HostId, NAMESPACE, OUT_OF_SERVICE, Os, Power, has_taint},
    kernel::World,
};

/// How long after its remediation is gone a command that was under way may still reach a host.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// What has been counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests to BMCs.
    pub bmc_calls: u64,
    /// Commands that BMCs took.
    pub commands: u64,
    /// Power-offs of hosts by agents and Ironic.
    pub power_offs: u64,
    /// Remediations that were created.
    pub remediations: u64,
    /// Remediations that are gone.
    pub ended: u64,
    /// Taints that were set.
    pub taints: u64,
    /// Faults, by name.
    pub faults: BTreeMap<String, u64>,
    /// How long hosts were away until their Nodes were Ready again.
    pub recoveries: Vec<Duration>,
}

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// What.
    pub what: String,
}

/// What has been judged so far.
#[derive(Debug, Default)]
pub struct Oracle {
    /// What has been counted.
    pub counts: Counts,
    /// The rules that did not hold.
    pub violations: Vec<Violation>,
    /// When the last remediation of each host was gone.
    gone: BTreeMap<String, Duration>,
    /// The most remediations that the limit allows at one time.
    pub(crate) limit: usize,
}

impl World {
    pub(crate) fn violate(&mut self, what: String) {
        self.log(format_args!("VIOLATION: {what}"));
        let at = self.now();
        self.fleet.oracle.violations.push(Violation { at, what });
    }

    /// No pod runs on two hosts: judged when its container starts.
    pub(crate) fn judge_containers(&mut self, pod: &str) {
        let ids = self.fleet.ids();
        let on: Vec<String> = ids
            .map(|id| self.fleet.host(id))
            .filter(|host| host.containers.contains_key(pod))
            .map(|host| host.name.clone())
            .collect();
        if on.len() > 1 {
            self.violate(format!(
                "pod {pod} and its volume are in use on {}",
                on.join(" and ")
            ));
        }
    }

    fn remediations_of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Value> {
        let all = [METAL3_REMEDIATIONS, POWER_REMEDIATIONS].into_iter();
        all.flat_map(|resource| self.api.list(resource))
            .map(|object| &**object)
            .filter(move |object| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners.is_some_and(|owners| owners.iter().any(|owner| owner["name"] == host))
            })
    }

    /// F2: a host is switched off only while there is a remediation of it, and its hold where it has a
    /// BareMetalHost.
    pub(crate) fn judge_power_off(&mut self, id: HostId, by: &str) {
        let host = self.fleet.host(id);
        if host.power != Power::On {
            return;
        }
        let name = host.name.clone();
        let works = host.os == Os::Running;
        self.fleet.oracle.counts.power_offs += 1;
        let now = self.now();
        let live = self.remediations_of(&name).next().is_some();
        let recent = self.fleet.oracle.gone.get(&name);
        let recent = recent.is_some_and(|gone| now.saturating_sub(*gone) < UNDER_WAY);
        if !live && !recent {
            let state = if works { "works" } else { "does not work" };
            self.violate(format!(
                "F2: {name}, which {state}, is switched off by {by} without a remediation"
            ));
        }
    }

    /// F4: a host is switched on only once it is drained, or its taint is gone.
    pub(crate) fn judge_power_on(&mut self, id: HostId, by: &str) {
        let name = self.fleet.host(id).name.clone();
        let node = self.api.get(NODES, "", &name);
        if self.fleet.host(id).power != Power::Off || !node.is_some_and(|node| tainted(&node)) {
            return;
        }
        let on_node = |object: &Value| object["spec"]["nodeName"] == *name;
        let pods = self.api.list(PODS).filter(|pod| on_node(pod)).count();
        let volumes = self
            .api
            .list(VOLUME_ATTACHMENTS)
            .filter(|va| on_node(va))
            .count();
        if pods + volumes > 0 {
            self.violate(format!(
                "F4: {name} is switched on by {by} while it is tainted and {pods} pods and {volumes} \
                 volumes are left"
            ));
        }
    }

    /// Judges what is written.
    pub(crate) fn judge_change(&mut self, change: &Change) {
        let name = change.object["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        if change.resource == NODES {
            let before = change.before.as_ref().is_some_and(|before| tainted(before));
            if tainted(&change.object) && !before {
                self.judge_taint(name);
            }
            let ready = |object: &Value| object["status"]["conditions"][0]["status"] == "True";
            let was_ready = change.before.as_ref().is_some_and(|before| ready(before));
            if ready(&change.object) && !was_ready {
                self.count_recovery(name);
            }
        } else if [METAL3_REMEDIATIONS, POWER_REMEDIATIONS].contains(&change.resource) {
            let owner = change.object["metadata"]["ownerReferences"][0]["name"].as_str();
            let (owner, now) = (owner.unwrap_or_default().to_owned(), self.now());
            match change.kind {
                ChangeKind::Added => {
                    self.log(format_args!("remediation of {owner} begins"));
                    self.fleet.oracle.counts.remediations += 1;
                    self.judge_limit();
                }
                ChangeKind::Deleted => {
                    self.log(format_args!("remediation of {owner} is gone"));
                    self.fleet.oracle.counts.ended += 1;
                    self.fleet.oracle.gone.insert(owner, now);
                }
                ChangeKind::Modified => {}
            }
        }
    }

    /// F1: a Node is tainted only while its host is off.
    fn judge_taint(&mut self, name: &str) {
        self.fleet.oracle.counts.taints += 1;
        let name = name.to_owned();
        self.log(format_args!("node {name} is tainted"));
        let Some(host) = self.fleet.find(&name).map(|id| self.fleet.host(id)) else {
            return;
        };
        if host.power != Power::Off {
            let containers = host.containers.len();
            let state = format!(
                "power {:?}, OS {:?}, {containers} containers",
                host.power, host.os
            );
            self.violate(format!(
                "F1: {name} is tainted while it is not off: {state}"
            ));
        }
    }

    /// F10: no more remediations at one time than the limit allows.
    fn judge_limit(&mut self) {
        let live = self.api.list(METAL3_REMEDIATIONS).count();
        let limit = self.fleet.oracle.limit;
        if live > limit {
            self.violate(format!(
                "F10: {live} remediations at one time, and the limit is {limit}"
            ));
        }
    }

    fn count_recovery(&mut self, name: &str) {
        let now = self.now();
        if let Some(id) = self.fleet.find(name)
            && let Some(failed) = self.fleet.host_mut(id).failed_at.take()
        {
            self.fleet.oracle.counts.recoveries.push(now - failed);
        }
    }

    /// What is not as it was at the start, by host: judged once everything was healed for long enough
    /// (F9, L1).
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for id in self.fleet.ids() {
            let host = self.fleet.host(id);
            let name = &host.name;
            let mut here = Vec::new();
            if host.os != Os::Running {
                here.push(format!("power {:?}, OS {:?}", host.power, host.os));
            }
            let node = self.api.get(NODES, "", name);
            let ready = |node: &Value| node["status"]["conditions"][0]["status"] == "True";
            if !node.as_ref().is_some_and(|node| ready(node)) {
                here.push("not Ready".to_owned());
            }
            if node.is_some_and(|node| tainted(&node)) {
                here.push("tainted".to_owned());
            }
            let found = self.api.get(BARE_METAL_HOSTS, NAMESPACE, name);
            let annotations = found.map(|host| host["metadata"]["annotations"].clone());
            if annotations.is_some_and(|a| a.to_string().contains("rackhand")) {
                here.push("an annotation of ours on its BareMetalHost".to_owned());
            }
            for object in self.remediations_of(name) {
                let status = &object["status"];
                let state = &object["metadata"]["annotations"]["rackhand.dev/state"];
                here.push(format!("a remediation: {status} {state}"));
            }
            if !here.is_empty() {
                left.push(format!("{name}: {}", here.join(", ")));
            }
        }
        let running: usize = self
            .fleet
            .ids()
            .map(|id| self.fleet.host(id).containers.len())
            .sum();
        if running < self.fleet.spec.pods {
            left.push(format!("{running} of {} pods run", self.fleet.spec.pods));
        }
        left
    }
}

fn tainted(node: &Value) -> bool {
    has_taint(node, OUT_OF_SERVICE)
}
