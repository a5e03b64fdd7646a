//! The last live reading of the Node, and which decisions may rest on it.
//!
//! A live reading costs two calls, and most decisions of a remediation are about the BMC. Between live readings the
//! watch tells whether the Node has changed. A watch may lag or break without knowing it, so it proves neither that
//! a Node is absent (F12) nor that it is unchanged: what rests on the Node as evidence is decided again on a live
//! reading before anything is written or done.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    Attempt, Command, Decision, LATEST_READING_AGE, Mode, Next, NodeFacts, State, Step,
    WorkloadView,
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
    /// Whether it was read after the operation of the recorded state had ended.
    pub after_end: bool,
}

/// The reading of the Node on which a decision may be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needed {
    /// Any: it does not rest on the Node.
    Kept,
    /// One as old as a reading of the BMC may be that proves off.
    Recent,
    /// That of the present observation.
    Live,
}

impl NodeReading {
    /// Records what the present observation has read live. `after_end`: after the operation had ended.
    pub(super) fn read(&mut self, workload: &WorkloadView, asked: Timestamp, after_end: bool) {
        self.kept = match workload {
            WorkloadView::Present(node) => Some(KeptReading {
                node: node.clone(),
                asked,
                is_live: true,
                after_end,
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
    pub fn suffices(&self, state: Option<&State>, decision: &Decision, now: Timestamp) -> bool {
        let Some(kept) = self.kept.as_ref().filter(|kept| !kept.is_live) else {
            return true;
        };
        match needed(state, decision) {
            Needed::Kept => true,
            Needed::Recent => age(kept.asked, now).is_some_and(|age| age < LATEST_READING_AGE),
            Needed::Live => false,
        }
    }

    /// Whether a Lease of this reading may be pinned as that after the power-off. One that was kept is read again for
    /// that.
    pub(super) fn is_read_after_end(&self) -> bool {
        let mut kept = self.kept.iter();
        kept.all(|kept| !kept.is_live || kept.after_end)
    }
}

/// `None` for a time in the future: the clock was set back since.
fn age(asked: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(asked)).ok()
}

/// How long a reading may be kept in a step.
fn longest(step: Step) -> Duration {
    match step {
        // Its pods are listed with each observation, and the Node belongs to them.
        Step::Evicting => LATEST_READING_AGE,
        // The end of the drain rests on a younger one, and so does each deletion of pods.
        Step::ConfirmingOff | Step::Tainting | Step::Draining => KEPT_WHILE_OFF,
        Step::Pending
        | Step::Evicted
        | Step::Holding
        | Step::ShuttingDown
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

/// Which reading of the Node and its Lease a decision rests on. What is not known to do with less rests on a live one.
fn needed(state: Option<&State>, decision: &Decision) -> Needed {
    // How it has ended was decided before, on a live reading.
    let has_ended = state.is_some_and(|s| s.step.is_terminal());
    match &decision.next {
        Next::Wait(_) => Needed::Kept,
        Next::Done(_) | Next::Do(_) if has_ended => Needed::Kept,
        Next::Done(_) => Needed::Live,
        Next::Do(command) => needed_by_command(state, command),
        Next::Write => state.map_or(Needed::Live, |before| {
            needed_by_write(before, &decision.state)
        }),
    }
}

fn needed_by_command(state: Option<&State>, command: &Command) -> Needed {
    match command {
        // They neither switch anything nor release what is held.
        Command::AddFinalizer
        | Command::RenewHold
        | Command::BlockMove
        | Command::Cancel { .. }
        | Command::CollectEvidence { interrupt: None }
        | Command::CollectBootLog
        | Command::ReadUpdates
        | Command::ReadPower => Needed::Kept,
        // baremetal-operator has switched the host off since the hold, which was set on a live reading.
        Command::PowerOff { .. } if state.is_some_and(|s| s.mode == Mode::Cooperative) => {
            Needed::Recent
        }
        // The drain, the end of the boot or of the remediation was decided before. The API server refuses to remove the
        // taint from a Node that has changed since it was read.
        Command::PowerOn { .. }
        | Command::Release
        | Command::RemoveHold
        | Command::UnblockMove
        | Command::UnblockHost
        | Command::RemoveTaint
        | Command::Uncordon { .. }
        // The Node is read live immediately before each of these pods is deleted or evicted.
        | Command::EvictPods { .. }
        | Command::DeletePods { .. } => Needed::Recent,
        // baremetal-operator switches off what has our hold key.
        Command::AddHold
        | Command::RemoveOrphanedHolds { .. }
        | Command::CollectEvidence { interrupt: Some(_) }
        | Command::SoftOff { .. }
        | Command::PowerOff { .. }
        | Command::AddTaint
        | Command::Cordon { .. }
        | Command::BackUpNode
        | Command::DeleteNode { .. }
        | Command::RestoreNode
        | Command::EndMachineRequest
        | Command::Escalate { .. }
        | Command::RemoveFinalizer(_) => Needed::Live,
    }
}

/// What a write needs by what it concludes from the Node.
fn needed_by_write(before: &State, after: &State) -> Needed {
    let is_of_power = matches!(
        (before.step, after.step),
        // The power-off, the taint, the drain and the removal of the taint are decided on readings of their own.
        (Step::Holding, Step::PoweringOff)
            | (Step::PoweringOff, Step::ConfirmingOff)
            | (Step::ConfirmingOff, Step::Tainting | Step::Draining)
            | (Step::Tainting, Step::Draining)
            | (Step::PoweringOn, Step::Booting | Step::Restoring)
            | (Step::Booting, Step::Restoring)
    );
    let is_beginning = matches!(
        (before.step, after.step),
        (
            Step::Pending | Step::Retrying,
            Step::Holding | Step::Evicting
        )
    );
    let is_drained = (before.step, after.step) == (Step::Draining, Step::PoweringOn);
    if before.step != after.step && !is_of_power {
        return match is_beginning || is_drained {
            true => Needed::Recent,
            false => Needed::Live,
        };
    }
    // A new proof of off makes the Lease void that was pinned with the former one.
    let is_proven_anew = after.step == Step::ConfirmingOff && before.step != after.step;
    let pinned_lease = match is_proven_anew {
        true => None,
        false => before.attempt.lease_at_off.clone(),
    };
    if after.attempt.lease_at_off != pinned_lease {
        return Needed::Live;
    }
    // What is known of the operation, the BMC, the owner of the power and the object is not of the Node.
    let unconcluded = State {
        step: after.step,
        since: after.since,
        tries: after.tries,
        unsent: after.unsent,
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
    // The taint that is recorded as ours before it is set, for example.
    match unconcluded == *after {
        true => Needed::Kept,
        false => Needed::Recent,
    }
}

#[cfg(test)]
mod tests;
