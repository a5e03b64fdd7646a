//! Breakages: faults that are put around the real step function on purpose, to show that the checker
//! finds each.
//!
//! None of them changes the step function. Each distorts what it sees, what it decides, what is written
//! of that, or what is carried out.

use std::time::Duration;

use rackhand_core::remediation::{
    Command, Decision, Drain, Next, Observation, OperationOutcome, OperationView, OtherNodes,
    OutletStage, PowerState, PowerView, Shell, State, Step, Taint, TaintOwner, WorkloadView,
    operation_id,
};

use crate::{
    remediation::{
        actions::Fault,
        judge::is_end,
        observe::bound_pod,
        setting::Setting,
        world::{
            UID, World,
            operation::{Op, is_interrupt, reading},
            outlets::outlet_reading,
        },
    },
    time::NOW,
};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the description says it")]
pub enum Breakage {
    TaintDuringPowerOff,
    SilenceIsOff,
    PoweringOffIsOff,
    OffBeforeCommand,
    RefusalCounts,
    UidNotPinned,
    HoldNotSet,
    HoldLossUnseen,
    ActBeforeWrite,
    DrainUnchecked,
    HoldRemovedEarly,
    NewIdWhileRunning,
    CancelIgnored,
    ReleaseSkipped,
    TaintLeft,
    HoldLeft,
    ConfirmationKept,
    JournalBelieved,
    TriesForgotten,
    DrainNeverEnds,
    FinalizerKept,
    TermIgnored,
    ObjectVersionIgnored,
    NodeVersionIgnored,
    HostVersionIgnored,
    LateHoldTaken,
    PodsDeletedEarly,
    PodsUnguarded,
    OutdatedIgnored,
    OutletsWhileBmcRuns,
    OutletsAfterMismatch,
    OneOutletIsOff,
    OutletsForgotten,
    SiblingUnread,
    SiblingNotHeld,
    FailedCutCounts,
    OutletsOfFormerLeader,
    OutletsOutdated,
    OutletsNotFound,
    LeftOutletsForgotten,
    InterruptOfFormerLeader,
    InterruptRepeated,
    InterruptNotCancelled,
    MismatchLeftOff,
    OtherNodesIgnored,
    HandedBackEarly,
    OwnerBypassed,
    LeaseIsReport,
    KeptBegins,
    KeptEnds,
    KeptPowersOff,
    KeptPowersOn,
    KeptTaints,
    EvidenceIsReading,
    ChangedUntainted,
    TaintUnrecorded,
    HoldUnrecorded,
    UpdateUnread,
    CordonLeft,
    ForeignUncordoned,
    ForeignCordonTaken,
    WaitIgnored,
    AbortIgnored,
    BudgetOverruled,
    EvictionUnguarded,
    DeadAwaited,
    ParkedCut,
    LeftOnCut,
    ReadyAgainCut,
}

impl Breakage {
    /// Every breakage.
    pub const ALL: [Self; 69] = [
        Self::TaintDuringPowerOff,
        Self::SilenceIsOff,
        Self::PoweringOffIsOff,
        Self::OffBeforeCommand,
        Self::RefusalCounts,
        Self::UidNotPinned,
        Self::HoldNotSet,
        Self::HoldLossUnseen,
        Self::ActBeforeWrite,
        Self::DrainUnchecked,
        Self::HoldRemovedEarly,
        Self::NewIdWhileRunning,
        Self::CancelIgnored,
        Self::ReleaseSkipped,
        Self::TaintLeft,
        Self::HoldLeft,
        Self::ConfirmationKept,
        Self::JournalBelieved,
        Self::TriesForgotten,
        Self::DrainNeverEnds,
        Self::FinalizerKept,
        Self::TermIgnored,
        Self::ObjectVersionIgnored,
        Self::NodeVersionIgnored,
        Self::HostVersionIgnored,
        Self::LateHoldTaken,
        Self::PodsDeletedEarly,
        Self::PodsUnguarded,
        Self::OutdatedIgnored,
        Self::OutletsWhileBmcRuns,
        Self::OutletsAfterMismatch,
        Self::OneOutletIsOff,
        Self::OutletsForgotten,
        Self::SiblingUnread,
        Self::SiblingNotHeld,
        Self::FailedCutCounts,
        Self::OutletsOfFormerLeader,
        Self::OutletsOutdated,
        Self::OutletsNotFound,
        Self::LeftOutletsForgotten,
        Self::InterruptOfFormerLeader,
        Self::InterruptRepeated,
        Self::InterruptNotCancelled,
        Self::MismatchLeftOff,
        Self::OtherNodesIgnored,
        Self::HandedBackEarly,
        Self::OwnerBypassed,
        Self::LeaseIsReport,
        Self::KeptBegins,
        Self::KeptEnds,
        Self::KeptPowersOff,
        Self::KeptPowersOn,
        Self::KeptTaints,
        Self::EvidenceIsReading,
        Self::ChangedUntainted,
        Self::TaintUnrecorded,
        Self::HoldUnrecorded,
        Self::UpdateUnread,
        Self::CordonLeft,
        Self::ForeignUncordoned,
        Self::ForeignCordonTaken,
        Self::WaitIgnored,
        Self::AbortIgnored,
        Self::BudgetOverruled,
        Self::EvictionUnguarded,
        Self::DeadAwaited,
        Self::ParkedCut,
        Self::LeftOnCut,
        Self::ReadyAgainCut,
    ];

    /// The breakage in words, as reports print it.
    pub fn description(self) -> &'static str {
        match self {
            Self::TaintDuringPowerOff => "the taint is set while the power-off still runs",
            Self::SilenceIsOff => "a BMC that does not answer counts as off",
            Self::PoweringOffIsOff => "PoweringOff counts as off",
            Self::OffBeforeCommand => "off counts before the BMC took a power-off",
            Self::RefusalCounts => "a power-off that is refused as already off counts as taken",
            Self::UidNotPinned => "a Node of the same name counts as the pinned one",
            Self::HoldNotSet => "the hold counts as set although it is not",
            Self::HoldLossUnseen => "a hold that is removed is not noticed",
            Self::ActBeforeWrite => "the power-off is begun before it is written",
            Self::DrainUnchecked => "the drain counts as finished at once",
            Self::HoldRemovedEarly => "the hold is removed while the node is drained",
            Self::NewIdWhileRunning => "a power-off is begun anew while one runs",
            Self::CancelIgnored => "an operation counts as cancelled at once",
            Self::ReleaseSkipped => "the hold in the agent's journal is not released",
            Self::TaintLeft => "the taint counts as removed although it is not",
            Self::HoldLeft => "the hold counts as removed although it is not",
            Self::ConfirmationKept => "a confirmation from before it was asked for counts",
            Self::JournalBelieved => "an empty journal proves that nothing was begun",
            Self::TriesForgotten => "a failed operation's id is used again",
            Self::DrainNeverEnds => "the drain never counts as finished",
            Self::FinalizerKept => "the finalizer is not removed",
            Self::TermIgnored => "the agent takes a command of a former leader",
            Self::ObjectVersionIgnored => "a former leader's state replaces a newer one",
            Self::NodeVersionIgnored => "a former leader's taint is set on a changed Node",
            Self::HostVersionIgnored => "a former leader's hold is set on a changed BareMetalHost",
            Self::PodsDeletedEarly => "pods are deleted while the power-off still runs",
            Self::PodsUnguarded => "the Node is not read again before its pods are deleted",
            Self::OutdatedIgnored => "a restored state is not compared with the journals",
            Self::OutletsWhileBmcRuns => "outlets are cut while the BMC may still act",
            Self::OutletsAfterMismatch => "outlets are cut although the BMC is of another host",
            Self::OneOutletIsOff => "one of two outlets off counts as off",
            Self::OutletsForgotten => "outlets count as on again although they are not",
            Self::SiblingUnread => "the other host of shared outlets counts as off",
            Self::SiblingNotHeld => "the other host of shared outlets is not held",
            Self::FailedCutCounts => "a cut of shared outlets that failed counts as one",
            Self::OutletsOfFormerLeader => "outlets are switched for a former leader",
            Self::OutletsOutdated => "a restored state cuts outlets that are on again",
            Self::OutletsNotFound => "outlets that only the journal knows are not returned",
            Self::LeftOutletsForgotten => "a hold that is left is released with outlets off",
            Self::InterruptOfFormerLeader => "an interrupt of a former leader is taken",
            Self::InterruptRepeated => "a new leader interrupts the host again",
            Self::InterruptNotCancelled => "an interrupt counts as cancelled at once",
            Self::MismatchLeftOff => "a mismatch leaves the other host off",
            Self::OtherNodesIgnored => "other Nodes on the host are not looked for",
            Self::HandedBackEarly => "our hold goes before the owner reports the host off",
            Self::OwnerBypassed => "the agent switches on a host that Ironic has as off",
            Self::LeaseIsReport => "a renewed Lease counts as a report of the Node",
            Self::KeptBegins => "a remediation begins on a Node that was read long before",
            Self::KeptEnds => "a remediation ends on a Node that was read before",
            Self::KeptPowersOff => "the first power-off rests on a Node that was read before",
            Self::KeptPowersOn => "the host is switched on by a Node that was read long before",
            Self::ChangedUntainted => "the taint is removed from a Node that has changed since",
            Self::KeptTaints => "the taint is set on a Node that was read long before",
            Self::EvidenceIsReading => {
                "the readings that prove off count as the one before the taint"
            }
            Self::TaintUnrecorded => "the taint is set with the write that records it as ours",
            Self::HoldUnrecorded => "the hold is set with the write that takes the host",
            Self::UpdateUnread => "the agent does not read the updates before its power-off",
            Self::LateHoldTaken => "a hold on its way is not refused after the withdrawal",
            Self::CordonLeft => "the cordon counts as removed although it is not",
            Self::ForeignUncordoned => "the cordon of somebody else is removed",
            Self::ForeignCordonTaken => "a Node that somebody has cordoned is cordoned again",
            Self::WaitIgnored => "a host is off although its pods are waited for",
            Self::AbortIgnored => "a host is off although its pods have not left",
            Self::BudgetOverruled => "a pod is deleted where its eviction is forbidden",
            Self::EvictionUnguarded => "the Node is not read again before an eviction",
            Self::DeadAwaited => "the pods of a host that has failed are waited for",
            Self::ParkedCut => "a parked host is cut",
            Self::LeftOnCut => "a host that is to stay on is cut before it is parked",
            Self::ReadyAgainCut => "a host whose Node is Ready again is cut all the same",
        }
    }

    /// The smallest world in which it can be found.
    pub fn setting(self) -> Setting {
        let (cooperative, faults): (bool, &[Fault]) = match self {
            Self::SilenceIsOff | Self::TriesForgotten => (false, &[Fault::Silent]),
            Self::OffBeforeCommand => (false, &[Fault::BmcReset]),
            Self::RefusalCounts => (false, &[Fault::BmcResetAtOff]),
            Self::UidNotPinned | Self::PodsUnguarded => (false, &[Fault::NodeReplaced]),
            Self::HoldLossUnseen => (true, &[Fault::HoldRemoved]),
            Self::OtherNodesIgnored => (false, &[Fault::Renamed]),
            Self::LeaseIsReport => (false, &[Fault::Recovers]),
            // A beginning waits for the claim of a new leader.
            Self::KeptBegins => (false, &[Fault::Crash, Fault::Delay, Fault::Recovers]),
            Self::KeptTaints | Self::KeptEnds | Self::KeptPowersOff | Self::ChangedUntainted => {
                (false, &[Fault::NodeReplaced])
            }
            // A power-on waits for the claim of a new leader.
            Self::KeptPowersOn => (false, &[Fault::Crash, Fault::Delay, Fault::NodeReplaced]),
            Self::TaintUnrecorded => (false, &[Fault::Deleted]),
            // Its readings have waited at the agent for a new leader.
            Self::EvidenceIsReading => (false, &[Fault::Crash, Fault::Delay, Fault::Button]),
            Self::HoldUnrecorded => (true, &[Fault::Crash, Fault::Deleted]),
            Self::UpdateUnread => (false, &[Fault::FlashBegins]),
            Self::ForeignUncordoned | Self::ForeignCordonTaken => (false, &[Fault::Cordoned]),
            Self::EvictionUnguarded => (false, &[Fault::NodeReplaced]),
            Self::DeadAwaited | Self::ParkedCut | Self::LeftOnCut => (false, &[Fault::Hangs]),
            Self::ReadyAgainCut => (false, &[Fault::Hangs, Fault::Recovers]),
            Self::CancelIgnored => (false, &[Fault::Deleted]),
            Self::ConfirmationKept => (false, &[Fault::EarlyConfirmation, Fault::Silent]),
            Self::JournalBelieved => (false, &[Fault::Deleted, Fault::JournalWiped]),
            Self::HoldNotSet
            | Self::HoldRemovedEarly
            | Self::ReleaseSkipped
            | Self::HoldLeft
            | Self::HandedBackEarly
            | Self::OwnerBypassed => (true, &[]),
            Self::NodeVersionIgnored => (true, &[Fault::Deposed, Fault::NodeReplaced]),
            Self::TermIgnored
            | Self::ObjectVersionIgnored
            | Self::HostVersionIgnored
            | Self::LateHoldTaken => (true, &[Fault::Deposed, Fault::Deleted]),
            Self::OutdatedIgnored | Self::OutletsOutdated => (false, &[Fault::Restored]),
            Self::OutletsNotFound | Self::LeftOutletsForgotten => {
                (false, &[Fault::OutletOn, Fault::Restored])
            }
            Self::OutletsOfFormerLeader | Self::InterruptOfFormerLeader => {
                (false, &[Fault::Deposed, Fault::Deleted])
            }
            Self::InterruptRepeated => (false, &[Fault::Crash]),
            Self::InterruptNotCancelled => (false, &[Fault::AnswerLost, Fault::Deleted]),
            Self::OneOutletIsOff => (false, &[Fault::PduSilent]),
            Self::SiblingNotHeld => (false, &[Fault::SiblingOn]),
            Self::FailedCutCounts => (false, &[Fault::PduSilent, Fault::SiblingLost]),
            _ => (false, &[]),
        };
        let budget = u8::try_from(faults.len()).unwrap_or(u8::MAX);
        let world = if self == Self::MismatchLeftOff {
            Setting::other_host(budget)
        } else if self.is_of_evictions() {
            Setting::evictions(budget)
        } else if self == Self::UpdateUnread {
            Setting::updates(budget)
        } else if matches!(self, Self::LeaseIsReport | Self::KeptBegins) {
            Setting::late_status(budget)
        } else if self == Self::OutletsOfFormerLeader {
            Setting::outlet_leaders(budget)
        } else if matches!(
            self,
            Self::OutletsOutdated | Self::OutletsNotFound | Self::LeftOutletsForgotten
        ) {
            Setting::outlet_restored(budget)
        } else if matches!(
            self,
            Self::InterruptOfFormerLeader | Self::InterruptRepeated | Self::InterruptNotCancelled
        ) {
            Setting::interrupt(budget)
        } else if self.is_of_outlets() {
            Setting::outlets(budget)
        } else if faults.contains(&Fault::Deposed) {
            Setting::leaders(budget)
        } else if faults.contains(&Fault::Restored) {
            Setting::restored(budget)
        } else if cooperative {
            Setting::cooperative(budget)
        } else {
            Setting::direct(budget)
        };
        Setting {
            faults: faults.to_vec(),
            breakage: Some(self),
            ..world
        }
    }

    /// Whether an agent takes the commands of a leader whose term has passed.
    pub fn takes_former_leaders(self) -> bool {
        matches!(
            self,
            Self::TermIgnored | Self::OutletsOfFormerLeader | Self::InterruptOfFormerLeader
        )
    }

    /// Whether it needs a host that is fed by outlets.
    fn is_of_outlets(self) -> bool {
        matches!(
            self,
            Self::OutletsWhileBmcRuns
                | Self::OutletsAfterMismatch
                | Self::OneOutletIsOff
                | Self::OutletsForgotten
                | Self::SiblingUnread
                | Self::SiblingNotHeld
                | Self::FailedCutCounts
        )
    }

    /// Distorts the observation of the controller.
    pub fn observation(self, o: &mut Observation, w: &World) {
        let state = w.object.state.as_ref();
        let step = state.map_or(Step::Pending, |s| s.step);
        let says = w.read_bmc();
        let op = state
            .and_then(|s| operation_id(UID, s))
            .and_then(|id| w.agent.op(&id));
        match self {
            Self::DrainUnchecked => o.drain = o.drain.as_ref().map(|_| Drain::default()),
            Self::DrainNeverEnds => {
                if let Some(drain) = &mut o.drain {
                    let mut pod = bound_pod(w);
                    pod.is_terminating = false;
                    drain.pods = vec![pod];
                }
            }
            Self::SilenceIsOff => {
                off_if(o, op, Op::is_unconfirmed);
                o.silent_since = None;
                if let Some(view) = &mut o.power
                    && view.result.is_err()
                {
                    view.result = Ok(reading(PowerState::Off, 0));
                }
            }
            Self::PoweringOffIsOff => {
                off_if(o, op, |_| says == Some(PowerState::PoweringOff));
                if let Some(view) = &mut o.power
                    && let Ok(r) = &mut view.result
                    && r.state == PowerState::PoweringOff
                {
                    r.state = PowerState::Off;
                }
            }
            Self::OffBeforeCommand => off_if(o, op, |_| says == Some(PowerState::Off)),
            Self::UidNotPinned => {
                if let (WorkloadView::Present(node), Some(pinned)) =
                    (&mut o.workload, state.and_then(|s| s.attempt.node.as_ref()))
                {
                    node.uid.clone_from(&pinned.uid);
                }
            }
            Self::HoldNotSet | Self::HoldLossUnseen => {
                let sees = self == Self::HoldNotSet || step != Step::Pending;
                let before = matches!(
                    step,
                    Step::Holding
                        | Step::PoweringOff
                        | Step::ConfirmingOff
                        | Step::Tainting
                        | Step::Draining
                );
                let set = self == Self::HoldNotSet || step != Step::Holding;
                if let Some(bmh) = &mut o.bmh
                    && sees
                    && before
                    && set
                {
                    bmh.our_hold = true;
                }
            }
            Self::HoldLeft => {
                let from = matches!(step, Step::PoweringOn | Step::Booting | Step::Restoring);
                if let Some(bmh) = &mut o.bmh
                    && (from || step.is_terminal())
                {
                    bmh.our_hold = false;
                }
            }
            Self::TaintLeft => {
                if let WorkloadView::Present(node) = &mut o.workload
                    && matches!(step, Step::Booting | Step::Restoring)
                {
                    node.taint = Taint::Absent;
                }
            }
            Self::CancelIgnored
                if o.object.deleting && o.operation == Some(OperationView::Running) =>
            {
                o.operation = Some(OperationView::Finished {
                    outcome: OperationOutcome::Cancelled,
                    commands_sent: 0,
                });
            }
            Self::OutdatedIgnored | Self::OutletsOutdated => o.journal.is_outdated = false,
            Self::OtherNodesIgnored => o.other_nodes = OtherNodes::Compared(Vec::new()),
            Self::HandedBackEarly | Self::OwnerBypassed if step == Step::PoweringOn => {
                if let Some(bmh) = &mut o.bmh {
                    match (self, bmh.our_hold) {
                        (Self::HandedBackEarly, true) => bmh.powered_on = Some(false),
                        (Self::OwnerBypassed, false) => bmh.powered_on = Some(true),
                        _ => {}
                    }
                }
            }
            Self::LeaseIsReport if step == Step::Booting => {
                let pinned = state.and_then(|s| s.attempt.lease_at_off.as_ref());
                if let WorkloadView::Present(node) = &mut o.workload
                    && pinned.is_some_and(|pinned| *pinned != w.node.lease.to_string())
                {
                    node.boot_id = format!("boot-{}", w.host.boots);
                }
            }
            _ if self.is_of_evictions() => self.eviction_seen(o, step, w),
            Self::OutletsNotFound => o.journal.outlets_off_in = None,
            Self::InterruptNotCancelled => {
                let interrupts = w.agent.runs.iter().filter(|run| is_interrupt(&run.id));
                let cancels = interrupts.map(|run| Command::Cancel { id: run.id.clone() });
                o.completed.extend(cancels);
            }
            Self::OutletsWhileBmcRuns if o.operation == Some(OperationView::Running) => {
                o.operation = op.filter(|op| !op.outlets).map(|_| unconfirmed());
            }
            Self::OutletsAfterMismatch => {
                if let Some(OperationView::Finished {
                    outcome: OperationOutcome::IdentityMismatch { .. },
                    ..
                }) = &o.operation
                {
                    o.operation = Some(unconfirmed());
                }
            }
            Self::OneOutletIsOff => {
                let one = w.outlets.is_some_and(|outlets| outlets.on.contains(&false));
                off_if(o, op, |op| op.outlets && op.end.is_some() && one);
                o.silent_since = None;
                if let Some(view) = &mut o.power
                    && one
                    && !matches!(&view.result, Ok(r) if r.state == PowerState::On)
                {
                    view.result = Ok(outlet_reading(PowerState::Off, 0));
                }
            }
            Self::JournalBelieved => {
                for id in [&mut o.agent_id, &mut o.answered].into_iter().flatten() {
                    id.journal = "journal-0".into();
                }
            }
            _ => {}
        }
    }

    /// Distorts what the process remembers.
    pub fn memory(self, shell: &mut Shell) {
        let step = shell.state.as_ref().map(|s| s.step);
        let is_confirmed = shell.operation.as_ref().is_some_and(|tracked| {
            matches!(
                tracked.view,
                Some(OperationView::Finished {
                    outcome: OperationOutcome::Confirmed { .. },
                    ..
                })
            )
        });
        let counts = match step {
            Some(Step::PoweringOff) => is_confirmed,
            Some(Step::ConfirmingOff | Step::Tainting | Step::Draining) => true,
            _ => false,
        };
        // What counts as the end of the power-off is followed by the reading that any end is followed by.
        if self == Self::PoweringOffIsOff && step == Some(Step::PoweringOff) {
            shell.is_read_after_end = shell.power.is_some();
        }
        if self == Self::EvidenceIsReading && counts {
            shell.power = Some(PowerView {
                asked: NOW,
                answered: NOW,
                lease: None,
                result: Ok(reading(PowerState::Off, 0)),
            });
            shell.is_read_after_end = step == Some(Step::PoweringOff);
        }
    }

    /// Changes the decision as this breakage does.
    pub fn decision(self, d: &mut Decision, o: &Observation, w: &World) {
        let waits = matches!(d.next, Next::Wait(_));
        let step = w.object.state.as_ref().map(|s| s.step);
        match self {
            Self::TaintDuringPowerOff if step == Some(Step::PoweringOff) && waits => {
                d.next = Next::Do(Command::AddTaint);
            }
            Self::PodsDeletedEarly if step == Some(Step::PoweringOff) && waits => {
                d.next = Next::Do(Command::DeletePods {
                    node: format!("uid-{}", w.node.uid),
                    pods: vec![bound_pod(w).id],
                });
            }
            Self::HoldRemovedEarly if step == Some(Step::Draining) && waits => {
                d.next = Next::Do(Command::RemoveHold);
            }
            Self::NewIdWhileRunning
                if step == Some(Step::PoweringOff)
                    && waits
                    && o.operation == Some(OperationView::Running) =>
            {
                d.state.tries += 1;
                d.next = Next::Write;
            }
            Self::InterruptRepeated => {
                if let Next::Do(Command::CollectEvidence {
                    interrupt: Some(interrupt),
                }) = &mut d.next
                {
                    interrupt.id = format!("{}/{}", interrupt.id, w.sent.term);
                }
            }
            Self::ActBeforeWrite
                if step == Some(Step::Holding) && d.state.step == Step::PoweringOff =>
            {
                d.next = Next::Do(Command::PowerOff {
                    id: operation_id(UID, &d.state).unwrap_or_default(),
                    device: d.state.device(),
                    command_after: Duration::ZERO,
                    system_uuid: String::new(),
                    serial: String::new(),
                    during_update: true,
                });
            }
            Self::TaintUnrecorded
                if d.next == Next::Write
                    && !w.object.state.as_ref().is_some_and(is_taint_ours)
                    && is_taint_ours(&d.state) =>
            {
                d.next = Next::Do(Command::AddTaint);
            }
            Self::HoldUnrecorded
                if d.next == Next::Write
                    && matches!(step, None | Some(Step::Pending))
                    && d.state.step == Step::Holding =>
            {
                d.next = Next::Do(Command::AddHold);
            }
            Self::AbortIgnored
                if step == Some(Step::Evicting) && d.state.step == Step::Aborting =>
            {
                d.state.step = Step::Holding;
                d.state.attempt.end_reason = None;
                // As if they had left.
                if let Some(eviction) = &mut d.state.attempt.eviction {
                    eviction.finished = true;
                }
            }
            Self::MismatchLeftOff if step == Some(Step::Aborting) => {
                if let Next::Do(Command::PowerOn { .. }) = d.next {
                    d.state.step = Step::Blocked;
                    d.next = Next::Write;
                }
            }
            _ => {}
        }
    }

    /// Whether a decision that rests on the Node is carried out on a reading that was kept.
    pub fn keeps_reading(self, d: &Decision) -> bool {
        match self {
            Self::KeptBegins => d.state.step == Step::Holding,
            Self::KeptEnds => d.next == Next::Write && is_end(d.state.step),
            Self::KeptPowersOff => matches!(d.next, Next::Do(Command::PowerOff { .. })),
            Self::KeptPowersOn => matches!(d.next, Next::Do(Command::PowerOn { .. })),
            Self::KeptTaints => matches!(d.state.step, Step::Tainting | Step::Draining),
            _ => false,
        }
    }

    /// Distorts the state that is written.
    pub fn write(self, state: &mut State) {
        match self {
            Self::ConfirmationKept => state.confirmation_used = false,
            Self::TriesForgotten => state.tries = 0,
            Self::OutletsForgotten => {
                if let Some(used) = &mut state.attempt.outlets
                    && used.stage == OutletStage::On
                {
                    used.stage = OutletStage::Restored;
                }
            }
            _ => {}
        }
    }

    /// Whether a command counts as carried out although nothing was done.
    pub fn skips(self, command: &Command) -> bool {
        match self {
            Self::ReleaseSkipped => matches!(command, Command::Release),
            Self::FinalizerKept => matches!(command, Command::RemoveFinalizer(_)),
            _ => false,
        }
    }

    /// Whether the checks immediately before the deletion of pods are left out as well.
    pub fn deletes_unguarded(self) -> bool {
        matches!(self, Self::PodsDeletedEarly | Self::PodsUnguarded) || self.is_unguarded()
    }

    /// Whether the check immediately before the taint is left out as well. It refuses a taint without a
    /// proof, whatever was decided.
    pub fn is_unguarded(self) -> bool {
        matches!(
            self,
            Self::TaintDuringPowerOff
                | Self::SilenceIsOff
                | Self::PoweringOffIsOff
                | Self::OneOutletIsOff
        )
    }
}

fn is_taint_ours(state: &State) -> bool {
    state.attempt.taint == Some(TaintOwner::Us)
}

fn unconfirmed() -> OperationView {
    OperationView::Finished {
        outcome: OperationOutcome::Unconfirmed {
            why: "the BMC did not report it in time".into(),
        },
        commands_sent: 0,
    }
}

/// Reports a power-off as confirmed, with perfect evidence.
fn off_if(o: &mut Observation, op: Option<Op>, condition: impl Fn(&Op) -> bool) {
    let Some(op) = op.filter(|op| !op.on && condition(op)) else {
        return;
    };
    let op = Op { sent: true, ..op };
    o.operation = Some(OperationView::Finished {
        outcome: op.confirmed(),
        commands_sent: 1,
    });
}
