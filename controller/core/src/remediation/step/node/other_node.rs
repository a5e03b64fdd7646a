//! Stops for another Node that runs on the host (F14).
//!
//! Invariant: once the kubelet of another Node was seen to run on the host, only the deletion of that Node or a
//! person's word lets the host be switched off for this one. If that Node fails later, its own health check decides.

use jiff::Timestamp;

use super::super::{
    super::{NodeLife, OtherNode, OtherNodes, Reason, State, Step, WorkloadView},
    Command, Decision, Next, StepContext, after,
    confirm::LEASE_POLL,
    evidence::LatestReading,
    power::off::SETTLE,
};

/// Whether another Node prevents the host from being switched off, or its Node from being tainted.
pub(in crate::remediation::step) enum OtherNodeVerdict {
    /// No other Node is known to run there.
    None,
    /// Another Node runs there, or may be the Node of a Machine without one.
    Runs {
        name: String,
        /// Whether its kubelet runs now.
        alive: bool,
        reason: Reason,
    },
    /// The Lease of this Node has not been watched for long enough.
    Undecided { name: String, until: Timestamp },
    /// The Nodes could not be compared although the workload cluster answers.
    Unknown(String),
}

impl StepContext<'_> {
    fn overrides_other_node(&self) -> bool {
        self.o.object.override_other_node.as_deref() == Some(self.o.object.uid.as_str())
    }

    /// The verdict by the comparison of this observation and by what was seen before.
    pub(in crate::remediation::step) fn other_node(&self, s: &State) -> OtherNodeVerdict {
        if self.overrides_other_node() {
            return OtherNodeVerdict::None;
        }
        let others = self.o.other_nodes.known();
        let remembered = s.other_node.as_ref();
        let unlinked = self.o.workload == WorkloadView::NotJoined && s.attempt.node.is_none();
        let undecided = |node: &&OtherNode| matches!(node.life, NodeLife::Undecided { .. });
        let found = others
            .iter()
            .find(|node| node.is_alive())
            .or_else(|| others.iter().find(|node| remembered == Some(&node.name)))
            .or_else(|| others.iter().find(|node| unlinked && !undecided(node)));
        if let Some(node) = found {
            return OtherNodeVerdict::Runs {
                name: node.name.clone(),
                alive: node.is_alive(),
                reason: Reason::OtherNodeOnHost(self.describe(s, node)),
            };
        }
        if let Some(at) = self.o.other_nodes.decided_at()
            && let Some(node) = others.iter().find(undecided)
        {
            let name = node.name.clone();
            let until = at.max(after(self.now, LEASE_POLL));
            return OtherNodeVerdict::Undecided { name, until };
        }
        match (&self.o.other_nodes, remembered) {
            (OtherNodes::Compared(_), _) | (OtherNodes::NotCompared, None) => {
                OtherNodeVerdict::None
            }
            (_, Some(name)) => OtherNodeVerdict::Runs {
                name: name.clone(),
                alive: false,
                reason: Reason::OtherNodeOnHost(format!(
                    "node {name} ran on it when the workload cluster was last read"
                )),
            },
            (OtherNodes::Failed { why }, None) => OtherNodeVerdict::Unknown(why.clone()),
        }
    }

    fn describe(&self, s: &State, other: &OtherNode) -> String {
        let life = match other.life {
            NodeLife::Ready => "is Ready",
            NodeLife::Renewing => "renews its Lease",
            NodeLife::Undecided { .. } | NodeLife::Silent | NodeLife::NotReady => {
                "is not Ready now"
            }
        };
        let OtherNode { name, shares, .. } = other;
        let has = format!("node {name} has {shares} of this host and {life}");
        let mine = match (&self.o.workload, &s.attempt.node) {
            (WorkloadView::Present(node), _) => &node.name,
            (WorkloadView::Missing { name }, _) => name,
            (_, Some(node)) => &node.name,
            (_, None) => return self.describe_unlinked(other, &has),
        };
        match other.is_alive() {
            true => format!(
                "{has}, so the host runs under that name, and node {mine} is stale. Delete node {mine}"
            ),
            false => format!(
                "{has}, but has run on this host, and node {mine} is stale. Delete node {mine}; what becomes \
                 of node {name} is decided by its own health check"
            ),
        }
    }

    /// For a Machine without a Node.
    fn describe_unlinked(&self, other: &OtherNode, has: &str) -> String {
        let or_none = |id: &str| match id {
            "" => "none".to_owned(),
            id => id.to_owned(),
        };
        let machine = self.o.machine.as_ref().map_or("", |m| &m.provider_id);
        let (here, there) = (or_none(&other.provider_id), or_none(machine));
        let name = &other.name;
        let alive = match other.is_alive() {
            true => String::new(),
            false => {
                format!(", and its pods would be left on it. Delete node {name} if it is stale")
            }
        };
        format!(
            "{has}, so it may be the Node of this Machine, which has no nodeRef because the providerID of the \
             Node is {here} and that of the Machine is {there}{alive}. Register the kubelet with the \
             providerID of the Machine, or name node {name} in the inventory entry of this host"
        )
    }

    /// Waits, before anything was begun, while another Node runs on the host.
    pub(in crate::remediation::step) fn stopped_by_other_node(
        &self,
        s: &State,
    ) -> Option<Decision> {
        let OtherNodeVerdict::Runs { name, reason, .. } = self.other_node(s) else {
            return None;
        };
        let mut s = s.clone();
        if s.other_node.as_ref() == Some(&name) {
            return Some(self.recheck(s, reason));
        }
        self.remember(&mut s, name);
        Some(self.write(s, reason))
    }

    /// Whether the stale Node of a remediation that names it was deleted while its host runs under another name.
    pub(in crate::remediation::step) fn stale_node_deleted(&self, s: &State) -> bool {
        let is_missing = matches!(self.o.workload, WorkloadView::Missing { .. });
        self.o.object.by_node
            && is_missing
            && matches!(
                self.other_node(s),
                OtherNodeVerdict::Runs { alive: true, .. }
            )
    }

    /// Returns to waiting, or waits, before the hold is set or the first power-off of an attempt is sent. A Machine
    /// without a Node is compared by the identity that its BMC reports, so that is read first.
    pub(in crate::remediation::step) fn check_other_node_before_hold(
        &self,
        s: &State,
    ) -> Option<Decision> {
        let reads_identity = self.o.workload == WorkloadView::NotJoined
            && s.attempt.node.is_none()
            && self.bmc_down().is_none()
            && matches!(self.power_now(s), LatestReading::NotRead);
        if reads_identity {
            return Some(self.act(s.clone(), Reason::Working, Command::ReadPower));
        }
        match self.other_node(s) {
            OtherNodeVerdict::None => None,
            OtherNodeVerdict::Runs { name, reason, .. } => {
                Some(self.return_to_waiting(s, name, reason))
            }
            OtherNodeVerdict::Undecided { name, until } => {
                Some(self.wait(s.clone(), Reason::CheckingOtherNode(name), until))
            }
            OtherNodeVerdict::Unknown(why) => {
                Some(self.recheck(s.clone(), Reason::WorkloadUnreachable(why)))
            }
        }
    }

    /// Hands back the hold, then waits. Nothing was sent.
    fn return_to_waiting(&self, s: &State, name: String, reason: Reason) -> Decision {
        let mut s = s.clone();
        if self.holds() || self.hold_may_arrive(&s) {
            return self.act(s, reason, Command::RemoveHold);
        }
        self.remember(&mut s, name);
        // The Machine may name another Node by then.
        s.attempt.node = None;
        let step = match s.attempts.is_empty() {
            true => Step::Pending,
            false => Step::Retrying,
        };
        self.to(s, step, reason)
    }

    /// The decision before a power-off is begun. While pods are moved the host has to be off, whoever runs on it.
    pub(in crate::remediation::step) fn check_other_node_before_off(
        &self,
        s: &State,
    ) -> Option<Decision> {
        if s.attempt.taint.is_some() {
            return None;
        }
        let is_off = |command: &Command| matches!(command, Command::PowerOff { .. });
        let is_first = s.tries == 0
            && s.power_off_repeats == 0
            && s.attempt.outlets.is_none()
            && !self.o.completed.iter().any(is_off);
        if is_first {
            return self.check_other_node_before_hold(s);
        }
        match self.other_node(s) {
            OtherNodeVerdict::None => None,
            OtherNodeVerdict::Runs { name, reason, .. } => {
                let mut d = self.return_to_other_node(s.clone(), name, reason);
                // A command that was sent may take effect at any moment.
                d.state.retry_at = Some(after(self.now, SETTLE));
                Some(d)
            }
            OtherNodeVerdict::Undecided { name, until } => {
                Some(self.wait(s.clone(), Reason::CheckingOtherNode(name), until))
            }
            OtherNodeVerdict::Unknown(why) => {
                Some(self.recheck(s.clone(), Reason::WorkloadUnreachable(why)))
            }
        }
    }

    /// Switches a host on that was, or may have been, switched off while another Node ran on it.
    fn return_to_other_node(&self, mut s: State, name: String, reason: Reason) -> Decision {
        self.remember(&mut s, name);
        s.attempt.end_reason = Some(reason.clone());
        self.power_on_next(s, reason)
    }

    /// The decision after the confirmed off, before the taint, or before the host of a Machine without a Node is
    /// switched on without a drain.
    pub(in crate::remediation::step) fn check_other_node_after_off(
        &self,
        s: &State,
    ) -> Option<Decision> {
        let mut s = s.clone();
        match self.other_node(&s) {
            OtherNodeVerdict::None => None,
            OtherNodeVerdict::Runs {
                name,
                alive: true,
                reason,
            } if s.attempt.taint.is_none() => Some(self.return_to_other_node(s, name, reason)),
            OtherNodeVerdict::Runs { name, reason, .. } => {
                if s.other_node.as_ref() == Some(&name) {
                    return Some(self.monitor_hold(s, reason, None));
                }
                self.remember(&mut s, name);
                Some(self.write(s, reason))
            }
            OtherNodeVerdict::Undecided { name, until } => {
                let reason = Reason::CheckingOtherNode(name);
                let mut d = self.monitor_hold(s, reason, Some(LEASE_POLL));
                if let Next::Wait(next) = d.next {
                    d.next = Next::Wait(next.min(until));
                }
                Some(d)
            }
            OtherNodeVerdict::Unknown(why) => Some(self.deferred(s, &why)),
        }
    }

    /// Ends the boot of a host that is back under another name, or whose boot time is `over`.
    pub(in crate::remediation::step) fn boots_as_other_node(
        &self,
        s: &State,
        over: bool,
    ) -> Option<Decision> {
        let OtherNodeVerdict::Runs {
            name,
            alive,
            reason,
        } = self.other_node(s)
        else {
            return None;
        };
        // A Node that has just joined gets its nodeRef within seconds.
        let has_node = s.attempt.node.is_some();
        let is_back = alive && has_node;
        if !over && !is_back {
            return None;
        }
        let mut s = s.clone();
        self.remember(&mut s, name);
        s.attempt.end_reason = Some(reason.clone());
        Some(self.to(s, Step::Restoring, reason))
    }

    /// Records that a Node ran on the host. If the remediated Node is not Ready now and is Ready later, because it was
    /// linked to its Machine meanwhile, the remediation may be obsolete.
    fn remember(&self, s: &mut State, name: String) {
        s.other_node = Some(name);
        s.node_was_down |= !self.node().is_some_and(|node| node.ready);
    }
}
