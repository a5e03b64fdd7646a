//! What people ask for beside failures: maintenances, labels, remediations of hosts that work, and budgets of pods that
//! forbid evictions; and the judgement of what becomes of it.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    Check, HostId, Link, NAMESPACE, Os, Power,
    kubelet::{WORKLOAD, text},
    rack_name,
};
use crate::{
    api::{
        Change, ChangeKind,
        resource::{
            HOST_MAINTENANCES, LEASES, MACHINES, NODES, OPENSHIFT_MACHINES, POD_DISRUPTION_BUDGETS,
            POWER_REMEDIATION_TEMPLATES, POWER_REMEDIATIONS, REMEDIATION_TRIGGERS,
        },
    },
    kernel::World,
};

/// The label that a trigger answers. No kubelet can set it.
pub(crate) const LABEL: &str = "node-restriction.kubernetes.io/remediate";
/// Its value that makes a remediation.
const WANTED: &str = "yes";
/// Its value after a failure.
const FAILED: &str = "failed";
/// The annotation of a remediation that a person has made: what is to become of pods that do not leave.
const BY_PERSON: &str = "simulator.example/by-person";
/// The annotation that says who has made a remediation.
const MADE_BY: &str = "rackhand.dev/made-by";
/// The budget of the workload.
const BUDGET: &str = "db";
/// Pods that the budget lets be away at one time.
const DISRUPTIONS: usize = 2;
/// Where medik8s' Leases of Nodes lie.
const MEDIK8S_LEASES: &str = "medik8s-leases";
/// How often a person looks at labels that say failed.
const LOOK: Duration = Duration::from_secs(120);
/// How long a health check may still act on what it decided before it was told to leave a host alone.
const DECIDED: Duration = Duration::from_secs(150);

/// What people have planned.
#[derive(Debug, Default)]
pub(crate) struct PlannedWork {
    /// Counts names.
    number: u64,
    /// Since when health checks are to leave hosts alone, by each maintenance of one.
    left_alone: BTreeMap<HostId, BTreeMap<String, Duration>>,
    /// When Nodes were cordoned by Rackhand.
    cordons: BTreeMap<HostId, Vec<Duration>>,
}

/// What the name of a second maintenance of a host ends with.
const SECOND: &str = "-again";
/// The annotation of a Node that Rackhand has cordoned.
const CORDONED_BY: &str = "rackhand.dev/cordoned-by";
/// Cordons of one Node in so much time, whoever removes them. A remediation that begins meanwhile may set one more.
const CORDONS: (usize, Duration) = (8, Duration::from_secs(60));

/// The host that a maintenance is named by.
fn host_of_maintenance(name: &str) -> &str {
    name.strip_suffix(SECOND).unwrap_or(name)
}

/// Whether a health check has made a remediation.
pub(crate) fn is_by_check(remediation: &Value) -> bool {
    let annotations = &remediation["metadata"]["annotations"];
    let by = annotations[MADE_BY].as_str().unwrap_or_default();
    let is_planned = ["HostMaintenance", "RemediationTrigger"]
        .iter()
        .any(|kind| by.starts_with(kind));
    !is_planned && annotations[BY_PERSON].is_null()
}

/// Whether a remediation empties a host that somebody works on while it is on.
fn is_left_on(remediation: &Value) -> bool {
    let by = &remediation["metadata"]["annotations"][MADE_BY];
    let is_planned = by
        .as_str()
        .is_some_and(|by| by.starts_with("HostMaintenance"));
    is_planned && remediation["spec"]["strategy"]["type"] == "Evict"
}

impl World {
    /// Writes the trigger and the budget of the pods, and starts the person who looks after them.
    pub(crate) fn start_planned_work(&mut self) {
        let trigger = json!({
            "metadata": { "name": "person" },
            "spec": {
                "label": LABEL, "value": WANTED, "failedValue": FAILED, "cooldownSeconds": 60,
                "templateRef": {
                    "apiVersion": POWER_REMEDIATION_TEMPLATES.api_version(),
                    "kind": POWER_REMEDIATION_TEMPLATES.kind, "name": "reboot",
                },
            },
        });
        self.api
            .create(REMEDIATION_TRIGGERS, NAMESPACE, trigger)
            .ok();
        let wanted = self.fleet.spec.pods.saturating_sub(DISRUPTIONS);
        let budget = json!({
            "metadata": { "name": BUDGET },
            "spec": { "minAvailable": wanted, "selector": { "matchLabels": { "app": "db" } } },
            "status": { "desiredHealthy": wanted },
        });
        self.api
            .create(POD_DISRUPTION_BUDGETS, WORKLOAD, budget)
            .ok();
        self.api.take_changes();
        self.look_after_labels();
    }

    /// A person takes labels away that say failed.
    fn look_after_labels(&mut self) {
        self.after(LOOK, World::look_after_labels);
        if self.api.away {
            return;
        }
        let is_failed = |node: &Value| node["metadata"]["labels"][LABEL] == FAILED;
        let nodes = self.api.list(NODES).filter(|node| is_failed(node));
        let nodes: Vec<String> = nodes.map(|node| text(node, "name")).collect();
        for node in nodes {
            self.set_label(&node, None);
        }
    }

    fn set_label(&mut self, node: &str, value: Option<&str>) {
        self.api.modify(NODES, "", node, |node| {
            let labels = node["metadata"]["labels"].as_object_mut();
            match (labels, value) {
                (Some(labels), Some(value)) => drop(labels.insert(LABEL.to_owned(), value.into())),
                (Some(labels), None) => drop(labels.remove(LABEL)),
                (None, Some(value)) => node["metadata"]["labels"] = json!({ LABEL: value }),
                (None, None) => {}
            }
        });
        self.settle_changes();
    }

    /// A person puts the label on the Node of a host. Whether that was possible.
    pub(crate) fn put_label(&mut self, id: HostId) -> bool {
        let name = self.fleet.host(id).name.clone();
        let node = self.api.get(NODES, "", &name);
        let is_free = node.is_some_and(|node| node["metadata"]["labels"][LABEL].is_null());
        if is_free {
            self.set_label(&name, Some(WANTED));
        }
        is_free
    }

    /// A person takes the label away again. Whether it was there.
    pub(crate) fn take_label(&mut self, id: HostId) -> bool {
        let name = self.fleet.host(id).name.clone();
        let node = self.api.get(NODES, "", &name);
        let is_there = node.is_some_and(|node| node["metadata"]["labels"][LABEL] == WANTED);
        if is_there {
            self.set_label(&name, None);
        }
        is_there
    }

    /// Whether nobody has planned anything in the rack of a host.
    pub(crate) fn is_unplanned(&self, id: HostId) -> bool {
        let rack = self.fleet.host(id).rack;
        let mut here = self
            .fleet
            .ids()
            .filter(|id| self.fleet.host(*id).rack == rack);
        here.all(|id| {
            let host = self.fleet.host(id);
            let node = self.api.get(NODES, "", &host.name);
            let has_label = node.is_some_and(|node| !node["metadata"]["labels"][LABEL].is_null());
            let mut remediations = self.remediations_of(&host.name);
            let mut maintenances = self.api.list(HOST_MAINTENANCES);
            !has_label
                && remediations.all(|(_, object)| is_by_check(object))
                && maintenances
                    .all(|object| host_of_maintenance(&text(object, "name")) != host.name)
        })
    }

    /// Another person plans work on a host on which somebody plans some already; `None`: nobody does.
    pub(crate) fn begin_second_maintenance(&mut self, lasts: Duration) -> Option<String> {
        let names: Vec<String> = (self.api.list(HOST_MAINTENANCES))
            .map(|object| text(object, "name"))
            .collect();
        let is_free = |name: &&String| {
            let second = format!("{name}{SECOND}");
            !name.ends_with(SECOND) && !names.contains(&second)
        };
        let of = names.iter().find(is_free)?;
        let id = self.fleet.find(of)?;
        Some(self.begin_named(id, format!("{of}{SECOND}"), lasts))
    }

    /// A host whose Node Rackhand keeps cordoned while it works, by chance.
    pub(crate) fn any_emptied_host(&mut self) -> Option<HostId> {
        let is_emptied = |id: &HostId| {
            let host = self.fleet.host(*id);
            let node = self.api.get(NODES, "", &host.name);
            host.os == Os::Running
                && node.is_some_and(|node| {
                    node["spec"]["unschedulable"] == true
                        && !node["metadata"]["annotations"][CORDONED_BY].is_null()
                })
        };
        let all: Vec<HostId> = self.fleet.ids().filter(is_emptied).collect();
        match all.len() {
            0 => None,
            count => all.get(self.rng.usize(..count)).copied(),
        }
    }

    /// Somebody uncordons the Node of a host whenever it is cordoned.
    pub(crate) fn uncordon_until(&mut self, id: HostId, until: Duration) {
        if !self.api.away {
            let name = self.fleet.host(id).name.clone();
            self.api.modify(NODES, "", &name, |node| {
                if let Some(spec) = node["spec"].as_object_mut() {
                    spec.remove("unschedulable");
                }
            });
            self.settle_changes();
        }
        let pause = self.between(Duration::from_millis(200), Duration::from_secs(5));
        if self.now() + pause < until {
            self.after(pause, move |world| world.uncordon_until(id, until));
        }
    }

    /// Counts a cordon of Rackhand: against somebody who removes it each time, it does not fight.
    pub(crate) fn judge_cordon(&mut self, change: &Change) {
        let is_ours = |node: &Value| {
            node["spec"]["unschedulable"] == true
                && !node["metadata"]["annotations"][CORDONED_BY].is_null()
        };
        let was_ours = change.before.as_ref().is_some_and(|before| is_ours(before));
        let Some(id) = self.fleet.find(&text(&change.object, "name")) else {
            return;
        };
        if was_ours || !is_ours(&change.object) {
            return;
        }
        let (now, (most, within)) = (self.now(), CORDONS);
        let times = self.fleet.planned.cordons.entry(id).or_default();
        times.retain(|at| now.saturating_sub(*at) < within);
        times.push(now);
        let times = times.len();
        if times > most {
            let name = self.fleet.host(id).name.clone();
            self.violate(format!(
                "cordon: {name} is cordoned {times} times in a minute"
            ));
        }
    }

    /// A person plans work on a host. It ends after `lasts`, by the person or by itself.
    pub(crate) fn begin_maintenance(&mut self, id: HostId, lasts: Duration) -> String {
        let name = self.fleet.host(id).name.clone();
        self.begin_named(id, name, lasts)
    }

    fn begin_named(&mut self, id: HostId, object_name: String, lasts: Duration) -> String {
        let host = self.fleet.host(id);
        let (name, check, rack) = (host.name.clone(), host.check, rack_name(host.rack));
        let has_machine = host.link != Link::Inventory || check != Check::Node;
        let policy = self.any_policy();
        let mut spec = json!({
            "reason": "a DIMM is changed",
            "powerOff": self.rng.u8(..5) > 0,
            "locatorLED": self.rng.bool(),
            "softOffSeconds": if self.rng.bool() { 60 } else { 0 },
            "eviction": { "seconds": self.rng.u64(0..=200), "whenNotFinished": policy },
        });
        match self.rng.u8(..3) {
            0 if has_machine => spec["machine"] = name.into(),
            1 => spec["node"] = name.into(),
            _ => spec["host"] = format!("{rack}/{name}").into(),
        }
        let seconds = lasts.as_secs().max(1);
        if self.rng.u8(..3) == 0 {
            spec["durationSeconds"] = self.rng.u64(1..=seconds).into();
        }
        let what = format!("{object_name}, {policy}, {}", spec["powerOff"]);
        let object = json!({ "metadata": { "name": object_name }, "spec": spec });
        self.api.create(HOST_MAINTENANCES, NAMESPACE, object).ok();
        self.fleet.oracle.counts.maintenances += 1;
        self.settle_changes();
        self.after(lasts, move |world| world.end_maintenance(&object_name));
        what
    }

    fn any_policy(&mut self) -> &'static str {
        match self.rng.u8(..3) {
            0 => "Wait",
            1 => "Abort",
            _ => "Proceed",
        }
    }

    fn end_maintenance(&mut self, name: &str) {
        if self.api.away {
            let name = name.to_owned();
            return self.after(Duration::from_secs(5), move |world| {
                world.end_maintenance(&name);
            });
        }
        self.api
            .delete(HOST_MAINTENANCES, NAMESPACE, name, &Value::Null)
            .ok();
        self.settle_changes();
    }

    /// Somebody removes a maintenance with its finalizer. Whether there was one.
    pub(crate) fn force_maintenance(&mut self, id: HostId) -> bool {
        let name = self.fleet.host(id).name.clone();
        if self.api.get(HOST_MAINTENANCES, NAMESPACE, &name).is_none() {
            return false;
        }
        self.api
            .modify(HOST_MAINTENANCES, NAMESPACE, &name, |object| {
                object["metadata"]["finalizers"] = json!([]);
            });
        self.end_maintenance(&name);
        true
    }

    /// A person makes a remediation of a host that works, and deletes it after `lasts` if it is still there.
    pub(crate) fn remediate_by_hand(&mut self, id: HostId, lasts: Duration) -> String {
        self.fleet.planned.number += 1;
        let (number, policy) = (self.fleet.planned.number, self.any_policy());
        let host = self.fleet.host(id).name.clone();
        let name = format!("by-hand-{number}");
        let seconds = self.rng.u64(0..=200);
        let object = json!({
            "metadata": {
                "name": name,
                "annotations": { BY_PERSON: policy, "remediation.medik8s.io/node-name": host },
            },
            "spec": { "strategy": {
                "type": "Reboot", "retryLimit": 3, "evictionPolicy": policy,
                "timeouts": { "evictionSeconds": seconds },
            } },
        });
        self.api.create(POWER_REMEDIATIONS, NAMESPACE, object).ok();
        self.settle_changes();
        self.after(lasts, move |world| world.delete_by_hand(&name));
        format!("{host}, {policy}")
    }

    fn delete_by_hand(&mut self, name: &str) {
        if self.api.away {
            let name = name.to_owned();
            return self.after(Duration::from_secs(5), move |world| {
                world.delete_by_hand(&name);
            });
        }
        self.api
            .delete(POWER_REMEDIATIONS, NAMESPACE, name, &Value::Null)
            .ok();
        self.settle_changes();
    }

    /// Whoever owns the pods permits no disruption, or so many again.
    pub(crate) fn permit_disruptions(&mut self, are_permitted: bool) {
        let pods = self.fleet.spec.pods;
        let wanted = pods.saturating_sub(if are_permitted { DISRUPTIONS } else { 0 });
        self.api
            .modify(POD_DISRUPTION_BUDGETS, WORKLOAD, BUDGET, |budget| {
                if budget["spec"]["minAvailable"] != wanted {
                    budget["spec"]["minAvailable"] = wanted.into();
                    budget["status"] = json!({});
                }
            });
        self.settle_changes();
        let soon = self.between(Duration::from_millis(50), Duration::from_secs(2));
        self.after(soon, World::count_disruptions);
    }

    /// Kubernetes' controller of budgets has seen its change.
    fn count_disruptions(&mut self) {
        self.api
            .modify(POD_DISRUPTION_BUDGETS, WORKLOAD, BUDGET, |budget| {
                let wanted = budget["spec"]["minAvailable"].clone();
                budget["status"] = json!({ "desiredHealthy": wanted });
            });
        self.settle_changes();
    }

    /// People end all that they have planned.
    pub(crate) fn end_planned_work(&mut self) {
        self.permit_disruptions(true);
        let all = self.api.list(HOST_MAINTENANCES);
        let names: Vec<String> = all.map(|object| text(object, "name")).collect();
        for name in names {
            self.end_maintenance(&name);
        }
        let all = self.api.list(POWER_REMEDIATIONS);
        let by_hand = all.filter(|o| !o["metadata"]["annotations"][BY_PERSON].is_null());
        let names: Vec<String> = by_hand.map(|object| text(object, "name")).collect();
        for name in names {
            self.delete_by_hand(&name);
        }
    }

    /// Notes since when the checks have been told to leave a host alone.
    pub(crate) fn note_maintenance(&mut self, change: &Change) {
        if change.resource != HOST_MAINTENANCES {
            return;
        }
        let object = text(&change.object, "name");
        let Some(id) = self.fleet.find(host_of_maintenance(&object)) else {
            return;
        };
        let status = &change.object["status"];
        let phase = status["phase"].as_str().unwrap_or_default().to_owned();
        let before = change.before.as_ref();
        if before.is_some_and(|before| before["status"]["phase"] != *phase) {
            self.log(format_args!("maintenance {object} is {phase}"));
            self.fleet.oracle.counts.parked += u64::from(phase == "Parked");
        }
        let is_told = |mark: &Value| mark == "SkipRemediation" || mark == "Lease";
        let marks = status["inPlace"].as_array();
        let is_marked = marks.is_some_and(|marks| marks.iter().any(is_told));
        let works = ["Evicting", "PoweringOff", "Parked"].contains(&phase.as_str());
        let now = self.now();
        let left_alone = self.fleet.planned.left_alone.entry(id).or_default();
        if change.kind != ChangeKind::Deleted && is_marked && works {
            left_alone.entry(object).or_insert(now);
        } else {
            left_alone.remove(&object);
        }
        if left_alone.len() > 1 {
            let names: Vec<String> = left_alone.keys().cloned().collect();
            self.violate(format!(
                "maintenance: {} work on one host at one time",
                names.join(" and ")
            ));
        }
    }

    /// A host that somebody wants emptied and left on is not switched off for that, whatever becomes of its Node.
    pub(crate) fn judge_left_on(&mut self, name: &str, by: &str) {
        let remediations = self.remediations_of(name);
        let left_on: Vec<bool> = remediations.map(|(_, object)| is_left_on(object)).collect();
        if !left_on.is_empty() && !left_on.contains(&false) {
            self.violate(format!(
                "maintenance: {name} is switched off by {by}, and was to be left on"
            ));
        }
    }

    /// A health check makes no remediation of a host that it was told to leave alone.
    pub(crate) fn judge_left_alone(&mut self, name: &str) {
        let since = self.fleet.find(name).and_then(|id| {
            let all = self.fleet.planned.left_alone.get(&id)?;
            Some((id, *all.values().min()?))
        });
        let Some((id, since)) = since else {
            return;
        };
        let rack = self.fleet.host(id).rack;
        let since = since.max(self.fleet.oracle.disturbed.until(id, rack));
        if self.now().saturating_sub(since) > DECIDED {
            self.violate(format!(
                "maintenance: a health check makes a remediation of {name} while somebody works on it"
            ));
        }
    }

    /// A pod that its budget keeps, on a host that works, loses its power only where somebody has written that.
    pub(crate) fn judge_budgets(&mut self, id: HostId, by: &str) {
        let host = self.fleet.host(id);
        let (name, now) = (host.name.clone(), self.now());
        let has_worked = host
            .ready_since
            .is_none_or(|at| now.saturating_sub(at) > DECIDED);
        let works = host.os == Os::Running && host.power == Power::On && has_worked;
        let node = self.api.get(NODES, "", &name);
        let is_ready = node.is_some_and(|n| n["status"]["conditions"][0]["status"] == "True");
        let keeps = |object: &Value| {
            let by_person = object["metadata"]["annotations"][BY_PERSON].as_str();
            let policy = object["spec"]["strategy"]["evictionPolicy"].as_str();
            matches!(by_person.or(policy), Some("Wait" | "Abort"))
        };
        let all: Vec<bool> = (self.remediations_of(&name))
            .map(|(_, object)| keeps(object))
            .collect();
        let is_kept = !all.is_empty() && all.iter().all(|keeps| *keeps);
        // What was bound after the last list of pods is not known.
        let pods = self.fleet.host(id).containers.len();
        if works && is_ready && is_kept && pods > 0 {
            self.violate(format!(
                "budget: {name} is switched off by {by} with {pods} pods that were to leave before"
            ));
        }
    }

    /// Somebody works on a host, and no health check is told.
    pub(crate) fn work_untold(&mut self, id: HostId) {
        let untold = BTreeMap::from([("nobody".to_owned(), Duration::ZERO)]);
        self.fleet.planned.left_alone.insert(id, untold);
    }

    /// A remediation of a host whose pods are to be waited for, which says that they are not, and whose pods may not leave.
    pub(crate) fn remediate_against(&mut self, id: HostId) {
        self.permit_disruptions(false);
        let host = self.fleet.host(id).name.clone();
        let object = json!({
            "metadata": {
                "name": "by-hand",
                "annotations": { BY_PERSON: "Wait", "remediation.medik8s.io/node-name": host },
            },
            "spec": { "strategy": {
                "type": "Reboot", "evictionPolicy": "Proceed", "timeouts": { "evictionSeconds": 20 },
            } },
        });
        self.api.create(POWER_REMEDIATIONS, NAMESPACE, object).ok();
        self.settle_changes();
    }

    /// What is left of planned work at a host.
    pub(crate) fn planned_leftovers(&self, id: HostId) -> Vec<String> {
        let host = self.fleet.host(id);
        let name = &host.name;
        let mut left = Vec::new();
        let node = self.api.get(NODES, "", name);
        if node.is_some_and(|node| !node["metadata"]["labels"][LABEL].is_null()) {
            left.push("the label of a trigger".to_owned());
        }
        if host.is_lit {
            left.push("its locator LED is lit".to_owned());
        }
        for resource in [MACHINES, OPENSHIFT_MACHINES] {
            let machine = self.api.get(resource, NAMESPACE, name);
            let annotations = machine.map(|machine| machine["metadata"]["annotations"].to_string());
            let is_ours = |text: &String| text.contains("rackhand") || text.contains("skip-");
            if annotations.as_ref().is_some_and(is_ours) {
                left.push(format!(
                    "its Machine has {}",
                    annotations.unwrap_or_default()
                ));
            }
        }
        for name in [name.clone(), format!("{name}{SECOND}")] {
            if let Some(object) = self.api.get(HOST_MAINTENANCES, NAMESPACE, &name) {
                left.push(format!("maintenance {name}: {}", object["status"]));
            }
        }
        let lease = self.api.list(LEASES).find(|lease| {
            lease["metadata"]["namespace"] == MEDIK8S_LEASES
                && text(lease, "name").ends_with(name.as_str())
        });
        if lease.is_some_and(|lease| !lease["spec"]["holderIdentity"].is_null()) {
            left.push("medik8s' Lease of its Node".to_owned());
        }
        left
    }
}
