//! The PowerPolicy of a fleet: Nodes that are frozen, and the judgement of what it demands.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::{FROZEN, HostId};
use crate::{api::resource::NODES, kernel::World};

/// How long after a Node is frozen, and after the last fault, a remediation may still begin that was decided
/// before.
const DECIDED: Duration = Duration::from_secs(60);

/// What is known of the hosts that are remediated.
#[derive(Debug, Default)]
pub(crate) struct PolicyRecord {
    /// The hosts that were told to switch off by a remediation, and have not been on since.
    begun: BTreeSet<HostId>,
    /// Since when Nodes are frozen.
    frozen: BTreeMap<HostId, Duration>,
}

impl PolicyRecord {
    /// A host is on again, or its remediation is gone.
    pub(crate) fn end(&mut self, id: HostId) {
        self.begun.remove(&id);
    }
}

impl World {
    /// A person freezes a Node: its host must not be remediated.
    pub(crate) fn freeze(&mut self, id: HostId) {
        let (name, now) = (self.fleet.host(id).name.clone(), self.now());
        self.api.modify(NODES, "", &name, |node| {
            node["metadata"]["annotations"][FROZEN] = "".into();
        });
        self.fleet.policy.frozen.entry(id).or_insert(now);
        self.settle_changes();
    }

    /// Whether a Node is frozen.
    pub(crate) fn is_frozen(&self, id: HostId) -> bool {
        self.fleet.policy.frozen.contains_key(&id)
    }

    /// A Node is frozen no longer.
    pub(crate) fn unfreeze(&mut self, id: HostId) {
        if self.fleet.policy.frozen.remove(&id).is_none() {
            return;
        }
        let name = self.fleet.host(id).name.clone();
        self.api.modify(NODES, "", &name, |node| {
            if let Some(all) = node["metadata"]["annotations"].as_object_mut() {
                all.remove(FROZEN);
            }
        });
        self.settle_changes();
    }

    /// The PowerPolicy: when the first power-off of a remediation is sent, its Node is not frozen, and no
    /// more remediations of the rack are under way than the budget allows.
    pub(crate) fn judge_begin(&mut self, id: HostId) {
        let Some(most) = self.fleet.spec.rack_budget else {
            return;
        };
        if !self.is_under_way(id) || !self.fleet.policy.begun.insert(id) {
            return;
        }
        let (name, rack) = (self.fleet.host(id).name.clone(), self.fleet.host(id).rack);
        let is_annotated = |node: &Value| node["metadata"]["annotations"].get(FROZEN).is_some();
        let node = self.api.get(NODES, "", &name);
        if let Some(since) = self.fleet.policy.frozen.get(&id).copied()
            && node.is_some_and(|node| is_annotated(&node))
        {
            let since = since.max(self.fleet.oracle.disturbed.until(id, rack));
            if self.now().saturating_sub(since) > DECIDED {
                self.violate(format!(
                    "PowerPolicy: {name} is remediated while it is frozen"
                ));
            }
        }
        let begun = self.fleet.policy.begun.iter();
        let here = begun.filter(|other| self.fleet.host(**other).rack == rack);
        let under_way = here.filter(|other| self.is_under_way(**other)).count();
        if under_way > most {
            self.violate(format!(
                "PowerPolicy: {under_way} hosts of rack {rack} are remediated at one time, with {name}, and \
                 its budget is {most}"
            ));
        }
    }

    /// Whether a remediation of a host has not finished, and does not wait for its next attempt.
    fn is_under_way(&self, id: HostId) -> bool {
        const FINISHED: [&str; 4] = ["Succeeded", "Failed", "Aborted", "Deleting machine"];
        let mut all = self.remediations_of(&self.fleet.host(id).name);
        all.any(|(_, object)| {
            let phase = object["status"]["phase"].as_str();
            let state = object["metadata"]["annotations"]["rackhand.dev/state"].as_str();
            let retries = |text: &str| text.contains("Retrying");
            let pauses = object["status"]["step"].as_str().is_some_and(retries)
                || state.is_some_and(retries);
            !pauses && !phase.is_some_and(|phase| FINISHED.contains(&phase))
        })
    }
}
