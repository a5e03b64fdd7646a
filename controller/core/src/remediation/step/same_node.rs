//! Is the Node that stands under this name the one that the proof is about (F5)?
//!
//! Must never take a name for a machine.

use super::{
    super::{Because, NodeFacts, NodeMark, OffEvidence, PowerReading, State, Step},
    Cx, Decision,
    fenced::FENCED_WATCH,
};
use crate::identity::{IdentityMatch, compare_serials, compare_system_uuids};

impl Cx<'_> {
    /// What keeps this Node from being tainted, or from counting as the one that was; `None`: it is the
    /// Node whose UID was pinned with the proof, and no identity speaks against it.
    pub(super) fn other_node(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if let Some(d) = self.other_machine(s, node) {
            return Some(d);
        }
        if is_pinned(s, node) {
            return None;
        }
        // The Lease of this one has to stand still, too. The proof of off stays.
        let mut s = s.clone();
        s.lease_at_off = None;
        s.drained = None;
        let because = Because::NodeReplaced(node.name.clone());
        Some(self.to(s, Step::ConfirmingOff, because))
    }

    /// The Node runs on another machine than the one that was switched off. It is not tainted, and the
    /// host is not switched on for it.
    pub(super) fn other_machine(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        let why = contradiction_with_mark(s, node).or_else(|| self.contradiction(s, node))?;
        let because = Because::NodeMismatch(why);
        // It may last for days, and this Node is not tainted: nothing hangs on an early reading.
        Some(self.watch_power(s.clone(), because, FENCED_WATCH, None))
    }

    /// What the BMC has reported about itself, against the Node and the BareMetalHost.
    fn contradiction(&self, s: &State, node: &NodeFacts) -> Option<String> {
        let proof: &[PowerReading] = match &s.off {
            Some(OffEvidence::Bmc { readings, .. }) => readings,
            _ => &[],
        };
        let latest = self.o.power.as_ref().and_then(|v| v.result.as_ref().ok());
        let serial = self.o.bmh.as_ref().and_then(|b| b.serial.as_deref());
        proof.iter().chain(latest).find_map(|r| {
            let (reported, name) = (&r.identity, &node.name);
            if compare_system_uuids(reported, &node.system_uuid) == IdentityMatch::Different {
                let uuid = &node.system_uuid;
                return Some(format!(
                    "the BMC {} reports system {reported}, and node {name} runs on {uuid}. Correct the \
                     BMC address of the host, then delete this object: the host is switched on again",
                    r.bmc
                ));
            }
            let serial = serial?;
            (compare_serials(reported, serial) == IdentityMatch::Different).then(|| {
                format!(
                    "the BMC {} reports serial number {reported}, and the BareMetalHost has {serial}. \
                     Correct the BMC address of the host, then delete this object: the host is switched \
                     on again",
                    r.bmc
                )
            })
        })
    }

    /// Pins the Node with the proof.
    pub(super) fn pin_node(&self, s: &mut State, node: &NodeFacts) {
        let unproven = s.node.as_ref().is_some_and(|mark| {
            let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
            let replaced = mark.uid != node.uid && same != IdentityMatch::Same;
            replaced || mark.uid == node.uid && mark.unproven
        });
        s.node = Some(NodeMark {
            unproven,
            ..NodeMark::of(node)
        });
        let renewed = node.lease.as_ref().map(|l| l.renewed.clone());
        s.lease_at_off = Some(renewed.unwrap_or_default());
    }
}

/// Its UID and its Lease were pinned with the present proof.
pub(super) fn is_pinned(s: &State, node: &NodeFacts) -> bool {
    let mark = s.node.as_ref().filter(|_| s.lease_at_off.is_some());
    mark.is_some_and(|mark| mark.uid == node.uid)
}

/// It came under the name after the power-off was begun, and nothing tells which machine it is.
pub(super) fn is_unproven(s: &State) -> bool {
    s.node.as_ref().is_some_and(|mark| mark.unproven)
}

/// Another machine than the one that the Node was on when the attempt began.
pub(super) fn contradiction_with_mark(s: &State, node: &NodeFacts) -> Option<String> {
    let mark = s.node.as_ref()?;
    let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
    (same == IdentityMatch::Different).then(|| {
        format!(
            "node {} was registered anew by another machine: its system UUID is {}, and that of the \
             host is {}. Remove that Node, or give the other machine another name",
            node.name, node.system_uuid, mark.system_uuid
        )
    })
}
