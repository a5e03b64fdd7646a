//! baremetal-operator and Ironic: they enforce the power that a BareMetalHost asks for.

use std::time::Duration;

use rackhand_bmc::PowerCommand;

use super::{
    HostId, Link, Power,
    bmc::{Asker, Request},
    kubelet::text,
    objects::NAMESPACE,
};
use crate::{
    api::{Change, ChangeKind, resource::BARE_METAL_HOSTS},
    kernel::World,
};

/// How often Ironic compares power with what is wanted.
const SYNC: Duration = Duration::from_secs(60);
const REBOOT: &str = "reboot.metal3.io";

impl World {
    /// Starts baremetal-operator.
    pub(crate) fn start_metal3(&mut self) {
        for id in self.fleet.ids() {
            if self.fleet.host(id).link == Link::Managed {
                let time = self.between(Duration::ZERO, SYNC);
                self.after(time, move |world| world.sync_power(id));
            }
        }
    }

    /// A BareMetalHost has changed: it is looked at soon.
    pub(super) fn observe_metal3(&mut self, change: &Change) {
        if change.resource != BARE_METAL_HOSTS || change.kind == ChangeKind::Deleted {
            return;
        }
        let Some(id) = self.fleet.find(&text(&change.object, "name")) else {
            return;
        };
        let annotations = |object: &serde_json::Value| object["metadata"]["annotations"].clone();
        let before = change.before.as_ref().map(|before| annotations(before));
        if before != Some(annotations(&change.object)) {
            let time = self.between(Duration::from_millis(200), Duration::from_secs(10));
            self.after(time, move |world| world.enforce(id));
        }
    }

    fn sync_power(&mut self, id: HostId) {
        self.after(SYNC, move |world| world.sync_power(id));
        self.enforce(id);
    }

    /// Sends what brings a host to the power that is wanted.
    fn enforce(&mut self, id: HostId) {
        let host = self.fleet.host(id);
        let (power, name) = (host.power, host.name.clone());
        let found = self.api.get(BARE_METAL_HOSTS, NAMESPACE, &name);
        let Some(found) = found.filter(|_| !self.api.away) else {
            return;
        };
        let is_detached = host.link != Link::Managed;
        let held = found["metadata"]["annotations"].as_object();
        let held = held.is_some_and(|all| all.keys().any(|key| key.starts_with(REBOOT)));
        let command = match power {
            _ if is_detached => return,
            Power::On if held => PowerCommand::Off,
            Power::Off if !held => PowerCommand::On,
            _ => return,
        };
        self.ask_bmc(id, Asker::Ironic, Request::Command(command), None);
        // Where it had no effect, it is tried again.
        let time = self.between(Duration::from_secs(15), Duration::from_secs(40));
        self.after(time, move |world| world.enforce(id));
    }
}
