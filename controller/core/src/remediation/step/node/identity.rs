//! Identity of the Node: whether the Node of this name is the one that the evidence of off covers
//! (F5).
//!
//! Invariant: a name alone never identifies a machine.

use jiff::Timestamp;
use rackhand_identity::{IdentityMatch, compare_serials, compare_system_uuids};

use super::super::{
    super::{
        HostRef, NodeFacts, OffEvidence, PinnedNode, PowerReading, Reason, RefusedEntry, State,
        Step, Taint,
    },
    Decision, StepContext,
    fenced::FENCED_WATCH,
};

impl StepContext<'_> {
    /// The decision if this Node is not covered by the evidence of off; `None` if it is the Node whose
    /// UID was pinned with the evidence and no identity contradicts that.
    pub(in crate::remediation::step) fn check_node(
        &self,
        s: &State,
        node: &NodeFacts,
    ) -> Option<Decision> {
        if let Some(d) = self.check_machine(s, node) {
            return Some(d);
        }
        if is_pinned(s, node) {
            return None;
        }
        // The Lease of the new Node must not be renewed either. The evidence of off remains valid.
        let mut s = s.clone();
        s.attempt.lease_at_off = None;
        s.attempt.drained = None;
        let reason = Reason::NodeReplaced(node.name.clone());
        Some(self.to(s, Step::ConfirmingOff, reason))
    }

    /// The decision if the Node runs on another machine than the one that was switched off, see
    /// [`Self::check_identity`].
    pub(in crate::remediation::step) fn check_machine(
        &self,
        s: &State,
        node: &NodeFacts,
    ) -> Option<Decision> {
        match contradiction_with_pinned(s, node) {
            // The name has moved to another machine, for which nothing is switched.
            Some(why) => Some(self.mismatch(s, why)),
            None => self.check_identity(s, Some(node)),
        }
    }

    /// The decision if the BMC reported another identity than that of the Node or the BareMetalHost: nothing is
    /// tainted. The wrong host was switched off, and is switched on again, unless the Node registered after the
    /// off: its name has moved to another machine then, for which nothing is switched.
    pub(in crate::remediation::step) fn check_identity(
        &self,
        s: &State,
        node: Option<&NodeFacts>,
    ) -> Option<Decision> {
        let (why, registered) = match self.contradiction_with_host(s) {
            Some(why) => (why, None),
            None => (self.contradiction_with_node(s, node?)?, node?.created),
        };
        if !self.is_undone(s, registered) {
            let why = format!(
                "{why}. The host stays off. Correct the BMC address of the host, then delete this object: \
                 the host is switched on again"
            );
            return Some(self.mismatch(s, why));
        }
        let why = format!(
            "{why}. Another host was switched off, and is switched on again. Correct the BMC address of \
             this host, then delete this object"
        );
        Some(self.abort(s.clone(), Reason::NodeMismatch(why)))
    }

    /// Keeps the host off. The wait may last for days, and such a Node is not tainted, so readings need not be
    /// frequent.
    fn mismatch(&self, s: &State, why: String) -> Decision {
        self.monitor_power(s.clone(), Reason::NodeMismatch(why), FENCED_WATCH, None)
    }

    /// Whether a contradiction undoes the power-off: it is not with a Node that registered after it, nothing is
    /// tainted, and the BMC that took the command is the one that answers now.
    fn is_undone(&self, s: &State, registered: Option<Timestamp>) -> bool {
        let Some(OffEvidence::Bmc { at, .. }) = &s.attempt.off else {
            // A person, or the outlets, switched off what no identity shows.
            return false;
        };
        let tainted =
            s.attempt.taint.is_some() || self.node().is_some_and(|n| n.taint != Taint::Absent);
        let mut reported = self.reported(s);
        let first = reported.next().map_or("", |r| r.identity.as_str());
        let same =
            |r: &PowerReading| compare_system_uuids(&r.identity, first) != IdentityMatch::Different;
        !tainted && registered.is_none_or(|registered| registered <= *at) && reported.all(same)
    }

    /// The readings that prove off, and the latest one.
    fn reported<'s>(&'s self, s: &'s State) -> impl Iterator<Item = &'s PowerReading> {
        let proof: &[PowerReading] = match &s.attempt.off {
            Some(OffEvidence::Bmc { readings, .. }) => readings,
            _ => &[],
        };
        let latest = self.o.power.as_ref().and_then(|v| v.result.as_ref().ok());
        proof.iter().chain(latest)
    }

    /// A contradiction between the system that the BMC reported and that of the Node.
    fn contradiction_with_node(&self, s: &State, node: &NodeFacts) -> Option<String> {
        let (name, uuid) = (&node.name, &node.system_uuid);
        let other =
            |r: &&PowerReading| compare_system_uuids(&r.identity, uuid) == IdentityMatch::Different;
        let r = self.reported(s).find(other)?;
        Some(format!(
            "the BMC {} reports system {}, and node {name} runs on {uuid}",
            r.bmc, r.identity
        ))
    }

    /// A contradiction between the serial number that the BMC reported and that of the BareMetalHost.
    fn contradiction_with_host(&self, s: &State) -> Option<String> {
        let serial = self.o.bmh.as_ref()?.serial.as_deref()?;
        let other =
            |r: &&PowerReading| compare_serials(&r.identity, serial) == IdentityMatch::Different;
        let r = self.reported(s).find(other)?;
        Some(format!(
            "the BMC {} reports serial number {}, and the BareMetalHost has {serial}",
            r.bmc, r.identity
        ))
    }

    /// Records that the current entry of the host leads to another system. The entry may be corrected while the
    /// attempt ends, which takes several decisions: the first one counts.
    pub(in crate::remediation::step) fn with_refused_entry(
        &self,
        mut s: State,
        reason: Reason,
    ) -> State {
        if s.refused_entry.is_some() {
            return s;
        }
        s.refused_entry = s.host.clone().map(|host| {
            Box::new(RefusedEntry {
                host,
                identity: self.o.host_identity.clone(),
                reason,
            })
        });
        s
    }

    /// Why this entry of the host is not tried again; `None` if it is another one than was refused.
    pub(in crate::remediation::step) fn refused_entry(
        &self,
        s: &State,
        host: &HostRef,
    ) -> Option<Reason> {
        let refused = s.refused_entry.as_deref()?;
        let identities = refused.identity.as_ref().zip(self.o.host_identity.as_ref());
        let is_same = refused.host == *host && identities.is_none_or(|(then, now)| then == now);
        is_same.then(|| refused.reason.clone())
    }

    /// Pins UID and Lease of the Node with the evidence of off.
    pub(in crate::remediation::step) fn pin_node(&self, s: &mut State, node: &NodeFacts) {
        let unproven = s.attempt.node.as_ref().is_some_and(|mark| {
            let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
            let replaced = mark.uid != node.uid && same != IdentityMatch::Same;
            replaced || mark.uid == node.uid && mark.unproven
        });
        s.attempt.node = Some(PinnedNode {
            unproven,
            ..PinnedNode::of(node)
        });
        let renewed = node.lease.as_ref().map(|l| l.renewed.clone());
        s.attempt.lease_at_off = Some(renewed.unwrap_or_default());
    }
}

/// Whether UID and Lease of this Node were pinned with the current evidence.
pub(in crate::remediation::step) fn is_pinned(s: &State, node: &NodeFacts) -> bool {
    let mark = s
        .attempt
        .node
        .as_ref()
        .filter(|_| s.attempt.lease_at_off.is_some());
    mark.is_some_and(|mark| mark.uid == node.uid)
}

/// Whether the Node was registered under this name after the power-off had begun, on a machine that
/// nothing identifies.
pub(in crate::remediation::step) fn is_unproven(s: &State) -> bool {
    s.attempt.node.as_ref().is_some_and(|mark| mark.unproven)
}

/// A contradiction between the Node and the machine that it was on when the attempt began.
pub(in crate::remediation::step) fn contradiction_with_pinned(
    s: &State,
    node: &NodeFacts,
) -> Option<String> {
    let mark = s.attempt.node.as_ref()?;
    let same = compare_system_uuids(&mark.system_uuid, &node.system_uuid);
    (same == IdentityMatch::Different).then(|| {
        format!(
            "node {} was registered anew by another machine: its system UUID is {}, and that of the \
             host, which stays off, is {}. Remove that Node, or give the other machine another name; or delete this object: \
             the host is then switched on again",
            node.name, node.system_uuid, mark.system_uuid
        )
    })
}
