//! Assumptions that do not hold, on purpose: a test lets one of them fail, and the oracle must report it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    fleet::{HostId, Os, pdu::PDUS},
    kernel::World,
};

/// A part of the world that is broken on purpose, so that the oracle must report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Breakage {
    /// BMCs report off, whatever they were told and did.
    LyingBmcs,
    /// A host comes on once its Node is tainted, and from then on its BMC takes commands and does nothing.
    OnUnderTaint,
    /// The BMCs of the first two hosts are exchanged. Each reports the identity of the host that it switches,
    /// by which Rackhand notices it.
    ExchangedBmcs,
    /// As before, but each reports the identity that is expected of it.
    ForgedIdentities,
    /// The agents of a rack lose their journals once a Node of it is tainted.
    LostHolds,
    /// There is no PowerPolicy, although remediations are judged by one.
    NoPolicy,
    /// The outlets of the first hosts, whose BMCs are dead, report off and feed on, and no PDU measures that.
    LyingPdus,
    /// The first hosts are being flashed, and their BMCs report no update.
    UpdatesUnseen,
    /// The Nodes that run etcd, and nothing else of a control plane, do not show it, and two of three lose their
    /// kubelets.
    NoEtcdRole,
    /// Somebody works on the first host, and no health check is told.
    NotTold,
    /// Somebody lets the remediation of the first host go on although its pods were to be waited for.
    PolicyChanged,
}

impl Breakage {
    /// How many hosts hang at the start.
    fn hung(self) -> usize {
        match self {
            // The second one is healthy, and must stay on.
            Self::ExchangedBmcs | Self::ForgedIdentities | Self::NotTold => 1,
            Self::PolicyChanged => 0,
            _ => 3,
        }
    }

    /// The host that is reached at the address of another one.
    pub(crate) fn reached(self, address: HostId) -> HostId {
        let first = [HostId::at(0), HostId::at(1)];
        match self {
            Self::ExchangedBmcs | Self::ForgedIdentities if address == first[0] => first[1],
            Self::ExchangedBmcs | Self::ForgedIdentities if address == first[1] => first[0],
            _ => address,
        }
    }

    /// Whether volumes stay attached, so that a Node is not drained before the rule is broken.
    pub(crate) fn keeps_volumes(self) -> bool {
        matches!(self, Self::OnUnderTaint | Self::LostHolds)
    }
}

impl World {
    /// Some hosts hang, so that they are remediated.
    pub(crate) fn begin_breakage(&mut self, breakage: Breakage) {
        match breakage {
            Breakage::NotTold => self.work_untold(HostId::at(0)),
            Breakage::PolicyChanged => self.remediate_against(HostId::at(0)),
            _ => {}
        }
        let hung: Vec<HostId> = match breakage {
            Breakage::NoEtcdRole => self.fleet.members().take(2).collect(),
            _ => self.fleet.ids().take(breakage.hung()).collect(),
        };
        for id in hung {
            self.fail_os(id, Os::Hung);
            if breakage == Breakage::UpdatesUnseen {
                let flash = (Duration::ZERO, Duration::from_secs(3600));
                self.fleet.host_mut(id).bmc.flash = Some(flash);
            }
            if breakage == Breakage::LyingPdus {
                self.fleet.host_mut(id).bmc.dead = true;
                for pdu in 0..PDUS.len() {
                    self.set_outlet(id, pdu, "nobody", |outlet| outlet.welded = true);
                }
            }
        }
    }

    /// Breaks what is broken under a taint.
    pub(crate) fn break_under_taint(&mut self, id: HostId) {
        match self.fleet.breakage {
            Some(Breakage::OnUnderTaint) => {
                self.fleet.host_mut(id).bmc.ignores_until = Duration::MAX;
                self.give_power(id, "itself");
                // It does not get as far as its kubelet.
                let host = self.fleet.host_mut(id);
                host.os = Os::Panicked;
                host.epoch += 1;
            }
            Some(Breakage::LostHolds) => self.lose_journals(self.fleet.host(id).rack),
            _ => {}
        }
    }
}
