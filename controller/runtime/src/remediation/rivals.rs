//! Who else wants this host, Machine, Node or control plane (F6).

use jiff::Timestamp;
use rackhand_api::{names::CAPM3_HOLD_ANNOTATION_PREFIX, views::Metal3RemediationView};
use rackhand_core::remediation::{
    Active, BareMetalHostFacts, Because, ControlPlane, HostRef, State, Step, conflict,
};

use super::{engine::Engine, observe::Place};
use crate::{cluster::ready, object::Key};

impl Engine {
    /// F6, and a rival controller on this very object.
    pub(super) fn right_of_way(
        &self,
        view: &Metal3RemediationView,
        place: &Place,
        host: Option<&HostRef>,
        bmh: Option<&BareMetalHostFacts>,
        state: Option<&State>,
    ) -> Option<Because> {
        let machine = place.machine.as_ref().and_then(|e| e.view.as_ref().ok());
        let cluster = place.cluster.as_ref();
        let control_plane = machine.is_some_and(|m| m.is_control_plane());
        let me = Active {
            name: format!("Metal3Remediation {}", self.key),
            uid: self.uid.clone(),
            created: view.meta.created.unwrap_or(Timestamp::MAX),
            begun: state.is_some_and(|s| s.step != Step::Pending),
            machine: machine.map(|m| format!("{}/{}", self.key.namespace, m.meta.name)),
            node: cluster
                .zip(place.node.as_ref())
                .map(|(c, n)| format!("{c}/{n}")),
            bmc: host.map(|h| h.bmc.clone()),
            control_plane_of: cluster.filter(|_| control_plane).map(ToString::to_string),
        };
        let others: Vec<Active> = {
            let mut active = self.context.active.lock();
            if state.is_some_and(|s| s.step.is_terminal()) {
                active.remove(&self.uid);
            } else {
                active.insert(self.uid.clone(), me.clone());
            }
            active.values().cloned().collect()
        };
        let rival = format!("{CAPM3_HOLD_ANNOTATION_PREFIX}{}", self.uid);
        if bmh.is_some_and(|b| b.foreign_holds.contains(&rival)) {
            return Some(Because::RivalController(rival));
        }
        let quorum = (control_plane && cluster.is_some())
            .then(|| self.control_plane(cluster, &me))
            .flatten();
        conflict(&me, &others, quorum)
    }

    fn control_plane(&self, cluster: Option<&Key>, me: &Active) -> Option<ControlPlane> {
        let cluster = cluster?;
        let mut total = 0_u32;
        let mut healthy_others = 0_u32;
        for entry in self.context.index.machines_in(&self.key.namespace) {
            let Ok(machine) = entry.view else { continue };
            if machine.cluster_name.as_deref() != Some(&cluster.name) || !machine.is_control_plane()
            {
                continue;
            }
            total = total.saturating_add(1);
            let name = format!("{}/{}", self.key.namespace, machine.meta.name);
            let node = machine
                .node_name
                .as_ref()
                .and_then(|n| self.context.index.node(cluster, n));
            if me.machine.as_ref() != Some(&name) && node.is_some_and(|n| ready(&n) == Some("True"))
            {
                healthy_others = healthy_others.saturating_add(1);
            }
        }
        Some(ControlPlane {
            total,
            healthy_others,
        })
    }
}
