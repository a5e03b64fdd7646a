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

    /// Ironic forces the host to the state that it has stored; then baremetal-operator looks. A held host is not
    /// forced on here: somebody who presses its button stands for that.
    fn sync_power(&mut self, id: HostId) {
        self.after(SYNC, move |world| world.sync_power(id));
        let host = self.fleet.host(id);
        let is_held = self.asks_for(&host.name.clone()).is_some_and(|on| !on);
        let host = self.fleet.host(id);
        let forced = match host.power {
            _ if host.link != Link::Managed => None,
            Power::On if !host.stored_on => Some(PowerCommand::Off),
            Power::Off if host.stored_on && !is_held => Some(PowerCommand::On),
            _ => None,
        };
        if let Some(command) = forced {
            self.ask_bmc(id, Asker::Ironic, Request::Command(command), None);
        }
        self.enforce(id);
    }

    /// Whether a BareMetalHost asks for on; `None` if it cannot be read now.
    fn asks_for(&self, name: &str) -> Option<bool> {
        let found = self.api.get(BARE_METAL_HOSTS, NAMESPACE, name);
        let found = found.filter(|_| !self.api.away)?;
        let held = found["metadata"]["annotations"].as_object();
        let held = held.is_some_and(|all| all.keys().any(|key| key.starts_with(REBOOT)));
        Some(!held)
    }

    /// baremetal-operator copies the state that Ironic has stored, and requests the one that the BareMetalHost
    /// asks for. Ironic only records one that is reached already.
    fn enforce(&mut self, id: HostId) {
        let host = self.fleet.host(id);
        if host.link != Link::Managed {
            return;
        }
        let (power, name, stored) = (host.power, host.name.clone(), host.stored_on);
        let is_dead = host.bmc.dead;
        let Some(on) = self.asks_for(&name) else {
            return;
        };
        self.report_power(&name, stored);
        if stored == on || is_dead {
            return;
        }
        self.fleet.host_mut(id).stored_on = on;
        let command = match power {
            Power::On if !on => Some(PowerCommand::Off),
            Power::Off if on => Some(PowerCommand::On),
            _ => None,
        };
        if let Some(command) = command {
            self.ask_bmc(id, Asker::Ironic, Request::Command(command), None);
        }
        // It looks again soon while power changes.
        let time = self.between(Duration::from_secs(3), Duration::from_secs(12));
        self.after(time, move |world| world.enforce(id));
    }

    fn report_power(&mut self, name: &str, stored: bool) {
        let found = self.api.get(BARE_METAL_HOSTS, NAMESPACE, name);
        if found.is_some_and(|found| found["status"]["poweredOn"] != stored) {
            self.api
                .modify(BARE_METAL_HOSTS, NAMESPACE, name, |object| {
                    object["status"]["poweredOn"] = stored.into();
                });
        }
    }
}
