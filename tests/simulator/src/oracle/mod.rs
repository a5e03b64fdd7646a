//! What is judged, by what really happened to hosts and pods.

mod disturbances;
mod records;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use disturbances::Disturbances;
use records::RepeatedRecords;

use crate::{
    api::{
        Change, ChangeKind, Resource,
        resource::{
            BARE_METAL_HOSTS, EVENTS, HOST_MAINTENANCES, METAL3_REMEDIATIONS, NODES, PODS,
            POWER_REMEDIATIONS, REMEDIATION_STATES, VOLUME_ATTACHMENTS,
        },
    },
    fleet::is_by_check,
    fleet::{Check, HostId, NAMESPACE, OUT_OF_SERVICE, Os, Power, has_taint},
    habits::feeds,
    kernel::World,
};

/// Longer than it takes an agent from the question for updates to its command.
const ASKED_WITHIN: Duration = Duration::from_secs(60);
/// Longer than a command is on its way to its BMC.
const IN_FLIGHT: Duration = Duration::from_secs(1);
/// How long after its remediation is gone a command that was under way may still reach a host.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// How long after everything works a host that must stay off may be on (F3): the interval of readings
/// (`hold_watch`), and the power-off with its confirmation.
const SWITCHED_OFF_AGAIN: Duration = Duration::from_secs(60);

/// How long after a taint the holds of its host are asked for.
const HOLDS: Duration = Duration::from_secs(2);

/// How long a request may be on its way, or its sender be suspended, after it was decided on.
const SENT: Duration = Duration::from_secs(150);

/// What has been counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests to BMCs.
    pub bmc_calls: u64,
    /// Requests to PDUs.
    pub pdu_calls: u64,
    /// Commands that BMCs and PDUs took.
    pub commands: u64,
    /// Power-offs of hosts by their BMCs, for agents and Ironic.
    pub power_offs: u64,
    /// Hosts that lost their power by their outlets.
    pub outlet_cuts: u64,
    /// Remediations that were created.
    pub remediations: u64,
    /// Remediations that are gone.
    pub ended: u64,
    /// Taints that were set.
    pub taints: u64,
    /// Pods that Rackhand deleted.
    pub pod_deletions: u64,
    /// Pods that were evicted.
    pub evictions: u64,
    /// Evictions that a budget forbade.
    pub blocked_evictions: u64,
    /// Maintenances that people have begun.
    pub maintenances: u64,
    /// Hosts that could be worked on.
    pub parked: u64,
    /// Evictions that were resumed because a Node was Ready again before anything was sent.
    pub resumed: u64,
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
    /// Until when faults act.
    pub(crate) disturbed: Disturbances,
    /// When the last remediation of each host was gone.
    gone: BTreeMap<String, Duration>,
    /// How many remediations there are by each check.
    live: BTreeMap<Check, usize>,
    /// The records of each remediation in its present try.
    repeated: BTreeMap<String, RepeatedRecords>,
}

impl World {
    pub(crate) fn violate(&mut self, what: String) {
        self.log(format_args!("VIOLATION: {what}"));
        let at = self.now();
        self.fleet.oracle.violations.push(Violation { at, what });
    }

    /// No pod runs on two hosts: judged when its container starts.
    pub(crate) fn judge_containers(&mut self, pod: &str) {
        let hosts = self.fleet.started_on.get(pod).into_iter().flatten();
        let on: Vec<String> = hosts
            .map(|id| self.fleet.host(*id))
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

    /// The remediations of a host, with their kinds.
    pub(crate) fn remediations_of<'a>(
        &'a self,
        host: &'a str,
    ) -> impl Iterator<Item = (Resource, &'a Arc<Value>)> {
        REMEDIATIONS.into_iter().flat_map(move |resource| {
            let objects = self.api.bound_to(resource, host);
            objects.map(move |object| (resource, object))
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
        if !recent {
            self.judge_left_on(&name, by);
        }
        self.judge_quorum(id);
        self.judge_budgets(id, by);
    }

    /// No agent switches a host off while its firmware is written, once its BMC could say so. What a BMC that fails did
    /// not say holds nothing up, nor does an update that begins between the question and the command; and a host
    /// whose workload has moved does not stay on (F3).
    pub(crate) fn judge_flash(&mut self, id: HostId, by: &str) {
        let now = self.now();
        let host = self.fleet.host(id);
        let asked_before = |(since, until): (Duration, Duration)| {
            now < until && now.saturating_sub(since) > ASKED_WITHIN
        };
        let has_failed = host.bmc.failed_at;
        let has_failed = has_failed.is_some_and(|at| now.saturating_sub(at) < ASKED_WITHIN);
        // An update that began with an answer to a command is asked for before the next one.
        let is_told = |(since, until): (Duration, Duration)| {
            host.bmc.is_flash_told && now < until && now.saturating_sub(since) > IN_FLIGHT
        };
        let flash = host.bmc.flash;
        let is_flashed = flash.is_some_and(asked_before) || flash.is_some_and(is_told);
        if host.power != Power::On || !is_flashed || has_failed {
            return;
        }
        let name = host.name.clone();
        let node = self.api.get(NODES, "", &name);
        if !node.is_some_and(|node| tainted(&node)) {
            self.violate(format!(
                "flash: {name} is switched off by {by} while its firmware is written"
            ));
        }
    }

    /// The pods and volumes that the API has at a host.
    fn bound_to(&self, host: &str) -> (usize, usize) {
        let count = |resource| self.api.bound_to(resource, host).count();
        (count(PODS), count(VOLUME_ATTACHMENTS))
    }

    /// Whether a host is tainted and not drained.
    pub(crate) fn must_stay_off(&self, id: HostId) -> bool {
        let name = &self.fleet.host(id).name;
        let node = self.api.get(NODES, "", name);
        node.is_some_and(|node| tainted(&node)) && self.bound_to(name) != (0, 0)
    }

    /// F5: a command goes to the host that it is meant for.
    pub(crate) fn judge_identity(&mut self, addressed: HostId, reached: HostId) {
        if addressed != reached {
            let name = |id| self.fleet.host(id).name.clone();
            let (addressed, reached) = (name(addressed), name(reached));
            self.violate(format!(
                "F5: a command for {addressed} is sent to the BMC of {reached}"
            ));
        }
    }

    /// F3: a host that gets power while it is tainted and not drained is switched off again, at the
    /// latest a while after all that concerns it works.
    pub(crate) fn judge_stays_off(&mut self, id: HostId, since: Duration) {
        let host = self.fleet.host(id);
        if host.power != Power::On || !self.must_stay_off(id) {
            return;
        }
        let (now, name) = (self.now(), host.name.clone());
        let since = since.max(self.fleet.oracle.disturbed.until(id, host.rack));
        if now.saturating_sub(since) > SWITCHED_OFF_AGAIN {
            self.violate(format!(
                "F3: {name} is on for {SWITCHED_OFF_AGAIN:?} while it is tainted and not drained"
            ));
            return;
        }
        self.after(Duration::from_secs(5), move |world| {
            world.judge_stays_off(id, since);
        });
    }

    /// F4: a host is switched on only once it is drained, or its taint is gone.
    pub(crate) fn judge_power_on(&mut self, id: HostId, by: &str) {
        let name = self.fleet.host(id).name.clone();
        let node = self.api.get(NODES, "", &name);
        if self.fleet.host(id).power != Power::Off || !node.is_some_and(|node| tainted(&node)) {
            return;
        }
        let (pods, volumes) = self.bound_to(&name);
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
            self.judge_cordon(change);
            let ready = |object: &Value| object["status"]["conditions"][0]["status"] == "True";
            let was_ready = change.before.as_ref().is_some_and(|before| ready(before));
            if ready(&change.object) && !was_ready {
                let now = self.now();
                if let Some(id) = self.fleet.find(name) {
                    self.fleet.host_mut(id).ready_since = Some(now);
                }
            }
        } else if change.resource == EVENTS {
            let is_resumed = change.object["reason"] == "EvictionResumed";
            self.fleet.oracle.counts.resumed += u64::from(is_resumed);
        } else if change.resource == REMEDIATION_STATES {
            self.judge_record(change);
        } else if change.resource == HOST_MAINTENANCES {
            self.note_maintenance(change);
        } else if REMEDIATIONS.contains(&change.resource) {
            let (owner, now) = (host_of(&change.object).to_owned(), self.now());
            match change.kind {
                ChangeKind::Added => {
                    self.log(format_args!("remediation of {owner} begins"));
                    self.fleet.oracle.counts.remediations += 1;
                    if is_by_check(&change.object) {
                        self.judge_limit(&owner);
                        self.judge_feeds(&owner);
                        self.judge_left_alone(&owner);
                    }
                }
                ChangeKind::Deleted => {
                    self.log(format_args!("remediation of {owner} is gone"));
                    self.fleet.oracle.counts.ended += 1;
                    if let Some(id) = self.fleet.find(&owner)
                        && is_by_check(&change.object)
                    {
                        let check = self.fleet.host(id).check;
                        let live = self.fleet.oracle.live.entry(check).or_default();
                        *live = live.saturating_sub(1);
                    }
                    if let Some(id) = self.fleet.find(&owner) {
                        self.fleet.policy.end(id);
                    }
                    self.fleet.oracle.gone.insert(owner, now);
                }
                ChangeKind::Modified => {}
            }
        }
    }

    /// F1: a pod is deleted by Rackhand only while its host is off and its Node is tainted.
    pub(crate) fn judge_pod_deletion(&mut self, name: &str) {
        self.fleet.oracle.counts.pod_deletions += 1;
        let is_off = |id| self.fleet.host(id).power == Power::Off;
        let off = self.fleet.find(name).is_some_and(is_off);
        let node = self.api.get(NODES, "", name);
        if !off || !node.is_some_and(|node| tainted(&node)) {
            self.violate(format!(
                "F1: a pod of {name} is deleted while that is not off and tainted"
            ));
        }
    }

    /// F1: a Node is tainted only while its host is off. F5: and only the Node that was there when the
    /// host was switched off, not a later one of its name.
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
            return;
        }
        let at_off = host.node_at_off.clone().unwrap_or_default();
        let node = self.api.get(NODES, "", &name);
        if node.is_some_and(|node| node["metadata"]["uid"] != *at_off) {
            self.violate(format!(
                "F5: {name} is tainted, and its Node is not the one of its power-off"
            ));
        }
        if let Some(id) = self.fleet.find(&name) {
            self.break_under_taint(id);
            self.after(HOLDS, move |world| world.judge_holds(id));
        }
    }

    /// F12: a health check that cannot read what it depends on makes no remediation.
    fn judge_feeds(&mut self, host: &str) {
        let Some(id) = self.fleet.find(host) else {
            return;
        };
        let (check, now) = (self.fleet.host(id).check, self.now());
        let unread = feeds(check).iter().find(|feed| {
            let since = self.api.serving.unreadable_since(feed);
            since.is_some_and(|since| now.saturating_sub(since) > SENT)
        });
        if let Some(feed) = unread {
            self.violate(format!(
                "F12: a remediation of {host} begins by check {}, which cannot read {}",
                check.name(),
                feed.plural
            ));
        }
    }

    /// F10: no more remediations at one time than the limit allows.
    fn judge_limit(&mut self, host: &str) {
        let found = self.fleet.find(host);
        let Some(check) = found.map(|id| self.fleet.host(id).check) else {
            self.violate(format!("a remediation is for {host:?}, which is no host"));
            return;
        };
        let live = self.fleet.oracle.live.entry(check).or_default();
        *live += 1;
        let live = *live;
        let limit = self.fleet.limit(check);
        if live > limit {
            self.violate(format!(
                "F10: {live} remediations at one time by check {}, and its limit is {limit}",
                check.name()
            ));
        }
    }

    /// The kubelet of a host reports its Node as Ready: if the host had failed, it is back, also where the
    /// Node has never become Unknown.
    pub(crate) fn count_recovery(&mut self, id: HostId) {
        let now = self.now();
        if let Some(failed) = self.fleet.host_mut(id).failed_at.take() {
            self.fleet.oracle.counts.recoveries.push(now - failed);
        }
    }

    /// What is not as it was at the start, by host: judged once everything was healed for long enough
    /// (F9, L1).
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = self.fleet.journals.leftovers();
        let mut remediations: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for object in REMEDIATIONS
            .into_iter()
            .flat_map(|kind| self.api.list(kind))
        {
            remediations
                .entry(host_of(object))
                .or_default()
                .push(object);
        }
        for id in self.fleet.ids() {
            let host = self.fleet.host(id);
            let name = &host.name;
            let mut here = Vec::new();
            if host.os != Os::Running {
                here.push(format!("power {:?}, OS {:?}", host.power, host.os));
            }
            let feeds = host.feeds.into_iter().flat_map(|feeds| feeds.outlets);
            if feeds.into_iter().any(|outlet| !outlet.on) {
                here.push("an outlet is off".to_owned());
            }
            let node = self.api.get(NODES, "", name);
            let ready = |node: &Value| node["status"]["conditions"][0]["status"] == "True";
            if !node.as_ref().is_some_and(|node| ready(node)) {
                here.push("not Ready".to_owned());
            }
            let marked = |node: &Value| {
                !node["metadata"]["annotations"]["rackhand.dev/cordoned-by"].is_null()
            };
            let is_cordoned = |node: &Value| marked(node) || node["spec"]["unschedulable"] == true;
            if node.as_ref().is_some_and(|node| is_cordoned(node)) {
                here.push("cordoned".to_owned());
            }
            if node.is_some_and(|node| tainted(&node)) {
                here.push("tainted".to_owned());
            }
            let found = self.api.get(BARE_METAL_HOSTS, NAMESPACE, name);
            let annotations = found.map(|host| host["metadata"]["annotations"].clone());
            if annotations.is_some_and(|a| a.to_string().contains("rackhand")) {
                here.push("an annotation of ours on its BareMetalHost".to_owned());
            }
            for object in remediations.get(name.as_str()).into_iter().flatten() {
                let status = &object["status"];
                let state = &object["metadata"]["annotations"]["rackhand.dev/state"];
                here.push(format!("a remediation: {status} {state}"));
            }
            here.extend(self.planned_leftovers(id));
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

/// The kinds of remediations.
pub(crate) const REMEDIATIONS: [Resource; 2] = [METAL3_REMEDIATIONS, POWER_REMEDIATIONS];

/// The host that a remediation is for: medik8s names it, otherwise its Machine has its name.
pub(crate) fn host_of(remediation: &Value) -> &str {
    let metadata = &remediation["metadata"];
    let named = metadata["annotations"]["remediation.medik8s.io/node-name"].as_str();
    let owners = metadata["ownerReferences"].as_array();
    let machine = || {
        let machine = owners?.iter().find(|owner| owner["kind"] == "Machine")?;
        machine["name"].as_str()
    };
    named.or_else(machine).unwrap_or_default()
}

fn tainted(node: &Value) -> bool {
    has_taint(node, OUT_OF_SERVICE)
}
