//! Identity of the Node: whether the Node of this name is the one that the evidence of off covers
//! (F5).
//!
//! Invariant: a name alone never identifies a machine.

use rackhand_identity::{IdentityMatch, compare_serials, compare_system_uuids};

use super::{
    super::{NodeFacts, OffEvidence, PinnedNode, PowerReading, Reason, State, Step},
    Decision, StepContext,
    fenced::FENCED_WATCH,
};

impl StepContext<'_> {
    /// The decision if this Node is not covered by the evidence of off; `None` if it is the Node whose
    /// UID was pinned with the evidence and no identity contradicts that.
    pub(super) fn check_node(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if let Some(d) = self.check_machine(s, node) {
            return Some(d);
        }
        if is_pinned(s, node) {
            return None;
        }
        // The Lease of the new Node must not be renewed either. The evidence of off remains valid.
        let mut s = s.clone();
        s.lease_at_off = None;
        s.drained = None;
        let reason = Reason::NodeReplaced(node.name.clone());
        Some(self.to(s, Step::ConfirmingOff, reason))
    }

    /// Waits if the Node runs on another machine than the one that was switched off: it is not
    /// tainted, and the host is not switched on for it.
    pub(super) fn check_machine(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        let why =
            contradiction_with_pinned(s, node).or_else(|| self.identity_contradiction(s, node))?;
        let reason = Reason::NodeMismatch(why);
        // The wait may last for days, and such a Node is not tainted, so readings need not be
        // frequent.
        Some(self.monitor_power(s.clone(), reason, FENCED_WATCH, None))
    }

    /// A contradiction between the identity that the BMC reported and that of the Node or the
    /// BareMetalHost.
    fn identity_contradiction(&self, s: &State, node: &NodeFacts) -> Option<String> {
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

    /// Pins UID and Lease of the Node with the evidence of off.
    pub(super) fn pin_node(&self, s: &mut State, node: &NodeFacts) {
        let unproven = s.node.as_ref().is_some_and(|mark| {
            let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
            let replaced = mark.uid != node.uid && same != IdentityMatch::Same;
            replaced || mark.uid == node.uid && mark.unproven
        });
        s.node = Some(PinnedNode {
            unproven,
            ..PinnedNode::of(node)
        });
        let renewed = node.lease.as_ref().map(|l| l.renewed.clone());
        s.lease_at_off = Some(renewed.unwrap_or_default());
    }
}

/// Whether UID and Lease of this Node were pinned with the current evidence.
pub(super) fn is_pinned(s: &State, node: &NodeFacts) -> bool {
    let mark = s.node.as_ref().filter(|_| s.lease_at_off.is_some());
    mark.is_some_and(|mark| mark.uid == node.uid)
}

/// Whether the Node was registered under this name after the power-off had begun, on a machine that
/// nothing identifies.
pub(super) fn is_unproven(s: &State) -> bool {
    s.node.as_ref().is_some_and(|mark| mark.unproven)
}

/// A contradiction between the Node and the machine that it was on when the attempt began.
pub(super) fn contradiction_with_pinned(s: &State, node: &NodeFacts) -> Option<String> {
    let mark = s.node.as_ref()?;
    let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
    (same == IdentityMatch::Different).then(|| {
        format!(
            "node {} was registered anew by another machine: its system UUID is {}, and that of the \
             host is {}. Remove that Node, or give the other machine another name; or delete this object: \
             the host is then switched on again",
            node.name, node.system_uuid, mark.system_uuid
        )
    })
}
