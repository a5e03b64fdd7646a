//! The last live reading of the Node, and which decisions may rest on it.
//!
//! A live reading costs two calls, and most decisions of a remediation are about the BMC. Between live readings the
//! watch tells whether the Node has changed. A watch may lag or break without knowing it, so it proves neither that
//! a Node is absent (F12) nor that it is unchanged: what rests on the Node as evidence is decided again on a live
//! reading before anything is written or done.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    Attempt, Command, Decision, LATEST_READING_AGE, Next, NodeFacts, State, Step, WorkloadView,
};

/// Maximum age of a reading that a wait shows, where the Lease may show that another host was switched off (F5).
const KEPT_WHILE_OFF: Duration = Duration::from_secs(10);
/// The same elsewhere. A cluster that cannot be read is reported within a minute (F12).
const KEPT: Duration = Duration::from_secs(30);

/// What is known of the Node between live readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeReading {
    /// The last live reading that found the Node. What finds none is not kept.
    pub kept: Option<KeptReading>,
}

/// A live reading of a Node that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeptReading {
    /// The Node and its Lease.
    pub node: NodeFacts,
    /// The time before it was read.
    pub asked: Timestamp,
    /// Whether the present observation has read it.
    pub is_live: bool,
}

impl NodeReading {
    /// Records what the present observation has read live.
    pub fn read(&mut self, workload: &WorkloadView, asked: Timestamp) {
        self.kept = match workload {
            WorkloadView::Present(node) => Some(KeptReading {
                node: node.clone(),
                asked,
                is_live: true,
            }),
            _ => None,
        };
    }

    /// Records the answer to a change of ours, which has the Node as it is now without its Lease.
    pub fn changed(&mut self, node: NodeFacts) {
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.node.uid == node.uid) {
            let lease = kept.node.lease.take();
            kept.node = NodeFacts { lease, ..node };
        }
    }

    /// Makes the next observation read the Node.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    /// The kept reading, if an observation may use it instead of a live one. `seen`: the Node of this name as the
    /// watch shows it.
    pub fn standing(
        &mut self,
        seen: Option<&NodeFacts>,
        state: Option<&State>,
        now: Timestamp,
    ) -> Option<NodeFacts> {
        let kept = self.kept.as_mut()?;
        let longest = longest(state?.step);
        let is_recent = age(kept.asked, now).is_some_and(|age| age < longest);
        if !is_recent || !seen.is_some_and(|seen| is_same(seen, &kept.node)) {
            return None;
        }
        kept.is_live = false;
        Some(kept.node.clone())
    }

    /// Whether a decision may be carried out on the reading that it was made on. Otherwise the Node has to be read
    /// live, and it is decided again.
    #[must_use]
    pub fn suffices(&self, state: Option<&State>, decision: &Decision) -> bool {
        let is_kept = self.kept.as_ref().is_some_and(|kept| !kept.is_live);
        !is_kept || !rests_on_node(state, decision)
    }
}

/// `None` for a time in the future: the clock was set back since.
fn age(asked: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(asked)).ok()
}

/// How long a reading may be kept in a step.
fn longest(step: Step) -> Duration {
    match step {
        // Its pods are listed with each observation, and the Node belongs to them (F4).
        Step::Draining => LATEST_READING_AGE,
        Step::ConfirmingOff | Step::Tainting => KEPT_WHILE_OFF,
        Step::Pending
        | Step::Holding
        | Step::PoweringOff
        | Step::AwaitingConfirmation
        | Step::Fenced
        | Step::PoweringOn
        | Step::Booting
        | Step::Restoring
        | Step::Retrying
        | Step::Aborting
        | Step::Succeeded
        | Step::Escalated
        | Step::Blocked => KEPT,
    }
}

/// Whether the watch shows the Node as it was read. The Lease and the managers of its fields are not watched.
fn is_same(seen: &NodeFacts, read: &NodeFacts) -> bool {
    let seen = NodeFacts {
        lease: read.lease.clone(),
        tainted_by_rackhand: read.tainted_by_rackhand,
        ..seen.clone()
    };
    seen == *read
}

/// Whether a decision rests on the Node or its Lease as evidence. What is not known to be without them does.
fn rests_on_node(state: Option<&State>, decision: &Decision) -> bool {
    // How it has ended was decided before, on a live reading.
    let has_ended = state.is_some_and(|s| s.step.is_terminal());
    match &decision.next {
        Next::Wait(_) => false,
        Next::Done(_) => !has_ended,
        Next::Do(command) => !has_ended && command_rests_on_node(command),
        Next::Write => state.is_none_or(|before| write_rests_on_node(before, &decision.state)),
    }
}

fn command_rests_on_node(command: &Command) -> bool {
    match command {
        // They neither switch anything nor release what is held.
        Command::AddFinalizer
        | Command::RenewHold
        | Command::BlockMove
        | Command::Cancel { .. }
        | Command::CollectEvidence { interrupt: None }
        | Command::CollectBootLog
        | Command::ReadPower => false,
        // baremetal-operator switches off what has our hold key, and on what has lost it.
        Command::AddHold
        | Command::RemoveHold
        | Command::RemoveOrphanedHolds { .. }
        | Command::UnblockMove
        | Command::CollectEvidence { interrupt: Some(_) }
        | Command::PowerOff { .. }
        | Command::PowerOn { .. }
        | Command::Release
        | Command::AddTaint
        | Command::RemoveTaint
        | Command::DeletePods { .. }
        | Command::BackUpNode
        | Command::DeleteNode { .. }
        | Command::RestoreNode
        | Command::EndMachineRequest
        | Command::Escalate { .. }
        | Command::RemoveFinalizer(_) => true,
    }
}

/// Whether a write records anything that was concluded from the Node.
fn write_rests_on_node(before: &State, after: &State) -> bool {
    let is_of_power = matches!(
        (before.step, after.step),
        // The power-off, the taint, the drain and the removal of the taint are decided on live readings of their own.
        (Step::Holding, Step::PoweringOff)
            | (Step::PoweringOff, Step::ConfirmingOff)
            | (Step::ConfirmingOff, Step::Tainting)
            | (Step::Tainting, Step::Draining)
            | (Step::PoweringOn, Step::Booting)
            | (Step::Booting, Step::Restoring)
    );
    if before.step != after.step && !is_of_power {
        return true;
    }
    // A new proof of off makes the Lease void that was pinned with the former one.
    let is_proven_anew = after.step == Step::ConfirmingOff && before.step != after.step;
    let pinned_lease = match is_proven_anew {
        true => None,
        false => before.attempt.lease_at_off.clone(),
    };
    // What is known of the operation, the BMC, the owner of the power and the object is not of the Node.
    let unconcluded = State {
        step: after.step,
        since: after.since,
        tries: after.tries,
        retry_at: after.retry_at,
        failure: after.failure.clone(),
        finalizer: after.finalizer,
        agent_holds: after.agent_holds,
        pinned: after.pinned.clone(),
        confirmation_used: after.confirmation_used,
        policy: after.policy.clone(),
        counted: after.counted.clone(),
        cluster: after.cluster.clone(),
        attempt: Attempt {
            off: after.attempt.off.clone(),
            lease_at_off: pinned_lease,
            outlets: after.attempt.outlets.clone(),
            evidence: after.attempt.evidence.clone(),
            on: after.attempt.on,
            handover: after.attempt.handover.clone(),
            ..before.attempt.clone()
        },
        ..before.clone()
    };
    unconcluded != *after
}

#[cfg(test)]
mod tests;
