//! The members of etcd: hosts with the role of etcd and none of the control plane, as dedicated servers of RKE2 and
//! k3s, and a person who overrules their quorum where nothing can be lost.

use std::time::Duration;

use serde_json::Value;

use super::{Check, Fleet, Host, HostId, NAMESPACE, Os, Power};
use crate::{api::resource::NODES, breakage::Breakage, kernel::World};

/// How many members there are.
const MEMBERS: usize = 3;
/// The label of their Nodes.
pub(super) const ROLE: &str = "node-role.kubernetes.io/etcd";
/// The annotation by which a person overrules the quorum.
const OVERRIDE: &str = "rackhand.dev/override-quorum";
/// How long after a member has failed its Node may still be Ready.
const NOTICED: Duration = Duration::from_secs(300);
/// How often a person looks at remediations that wait for the quorum.
const LOOK: Duration = Duration::from_secs(600);

/// Makes one host in each of three racks a member, where Cluster API's checks have hosts in so many.
pub(super) fn choose_members(hosts: &mut [Host]) {
    let mut chosen: Vec<usize> = Vec::new();
    let mut racks: Vec<usize> = Vec::new();
    for (place, host) in hosts.iter().enumerate() {
        let is_checked = matches!(host.check, Check::Metal3 | Check::Power);
        if is_checked && !racks.contains(&host.rack) && chosen.len() < MEMBERS {
            racks.push(host.rack);
            chosen.push(place);
        }
    }
    if chosen.len() == MEMBERS {
        for (place, host) in hosts.iter_mut().enumerate() {
            host.is_member = chosen.contains(&place);
        }
    }
}

/// Whether the etcd of a member runs: a kubelet that hangs does not end it.
fn runs_etcd(host: &Host) -> bool {
    host.power == Power::On && matches!(host.os, Os::Running | Os::Hung)
}

impl Fleet {
    /// The members of etcd.
    pub(crate) fn members(&self) -> impl Iterator<Item = HostId> + '_ {
        self.ids().filter(|id| self.host(*id).is_member)
    }

    fn other_members(&self, id: HostId) -> impl Iterator<Item = &Host> {
        let others = self.members().filter(move |other| *other != id);
        others.map(|other| self.host(other))
    }
}

impl World {
    /// F6: no two members are off at one time by remediations, and none is switched off whose etcd the majority
    /// needs, unless a person has overruled that. `id` is about to lose its power.
    pub(crate) fn judge_quorum(&mut self, id: HostId) {
        let now = self.now();
        let host = self.fleet.host(id);
        if !host.is_member || self.remediations_of(&host.name).next().is_none() {
            return;
        }
        let (name, runs) = (host.name.clone(), runs_etcd(host));
        let off: Vec<String> = self
            .fleet
            .other_members(id)
            .filter(|other| other.is_switched_off && other.power != Power::On)
            .map(|other| other.name.clone())
            .collect();
        // What failed a moment ago may still be Ready.
        let recent = |at: Duration| now.saturating_sub(at) < NOTICED;
        let is_ready = |name: &str| {
            let node = self.api.get(NODES, "", name);
            node.is_some_and(|node| node["status"]["conditions"][0]["status"] == "True")
        };
        let counts = |other: &&Host| {
            runs_etcd(other) || other.failed_at.is_some_and(recent) || is_ready(&other.name)
        };
        let others = self.fleet.other_members(id).filter(counts).count();
        let costs = runs && others < MEMBERS / 2 + 1 && !self.is_overruled(&name);
        self.fleet.host_mut(id).is_switched_off = true;
        if !off.is_empty() {
            self.violate(format!(
                "F6: {name} is switched off while {} is off, and both are members of etcd",
                off.join(" and ")
            ));
        }
        if costs {
            self.violate(format!(
                "F6: {name} is switched off, and etcd has no majority with {others} others"
            ));
        }
    }

    fn is_overruled(&self, host: &str) -> bool {
        let mut all = self.remediations_of(host);
        all.any(|(_, object)| object["metadata"]["annotations"][OVERRIDE].is_string())
    }

    /// A person looks from time to time at the remediations of members that wait for the quorum, and overrules it
    /// where that costs nothing: etcd of the member does not run, or the others have the majority without it.
    pub(crate) fn start_person(&mut self) {
        self.after(LOOK, |world| {
            let members: Vec<HostId> = world.fleet.members().collect();
            for id in members {
                let others = world.fleet.other_members(id);
                let others = others.filter(|other| runs_etcd(other)).count();
                let runs = runs_etcd(world.fleet.host(id));
                if !runs || others > MEMBERS / 2 || others == 0 {
                    world.overrule(id);
                }
            }
            world.start_person();
        });
    }

    fn overrule(&mut self, id: HostId) {
        let host = self.fleet.host(id).name.clone();
        let waits = |object: &Value| {
            let state = object["metadata"]["annotations"]["rackhand.dev/state"].as_str();
            object["status"]["reason"] == "ControlPlaneQuorum"
                || state.is_some_and(|state| state.contains("\"ControlPlaneQuorum\""))
        };
        let waiting = self
            .remediations_of(&host)
            .filter(|(_, object)| waits(object));
        let waiting: Vec<_> = waiting
            .filter_map(|(resource, object)| {
                let metadata = &object["metadata"];
                let name = metadata["name"].as_str()?.to_owned();
                Some((resource, name, metadata["uid"].clone()))
            })
            .collect();
        for (resource, name, uid) in waiting {
            self.log(format_args!("a person overrules the quorum for {host}"));
            self.api.modify(resource, NAMESPACE, &name, |object| {
                object["metadata"]["annotations"][OVERRIDE] = uid;
            });
        }
        self.settle_changes();
    }

    /// Whether Nodes show that they run etcd.
    pub(super) fn shows_roles(&self) -> bool {
        self.fleet.breakage != Some(Breakage::NoEtcdRole)
    }
}
