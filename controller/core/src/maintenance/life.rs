//! The decision: what is recorded next, and what is done after that.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    LED_LIT_FOR, LeaseMark, MachineMark, MaintenanceFacts, MaintenancePhase, MaintenanceRecord,
    Mark, RemediationSeen, Stage,
};
use crate::remediation::Reason;

/// Why a maintenance is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub enum MaintenanceReason {
    /// It has just been created.
    Started,
    /// No host can be found for it.
    TargetNotFound,
    /// Another controller's health check would act on the host.
    CheckWouldAct,
    /// Another holder has medik8s' Lease of the Node.
    NodeLeaseHeld,
    /// Its remediation waits.
    RemediationWaits,
    /// Its remediation is made anew.
    MadeAnew,
    /// The marks are being set by which health checks leave the host alone.
    SettingMarks,
    /// A mark cannot be set, so nothing is evicted or switched.
    MarkRefused,
    /// The Node is cordoned, and its pods leave.
    Evicting,
    /// The host is switched off, and what is left moves.
    PoweringOff,
    /// The host can be worked on.
    Parked,
    /// It was deleted.
    Deleted,
    /// Its time is over.
    TimeOver,
    /// Somebody has deleted its remediation.
    RemediationDeleted,
    /// Its remediation has failed.
    RemediationFailed,
    /// Its remediation is gone, and has left its taint on the Node.
    TaintLeft,
}

impl MaintenanceReason {
    /// The reason as one word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Started => "Started",
            Self::TargetNotFound => "TargetNotFound",
            Self::CheckWouldAct => "CheckWouldAct",
            Self::NodeLeaseHeld => "NodeLeaseHeld",
            Self::RemediationWaits => "RemediationWaits",
            Self::MadeAnew => "MadeAnew",
            Self::SettingMarks => "SettingMarks",
            Self::MarkRefused => "MarkRefused",
            Self::Evicting => "Evicting",
            Self::PoweringOff => "PoweringOff",
            Self::Parked => "Parked",
            Self::Deleted => "Deleted",
            Self::TimeOver => "TimeOver",
            Self::RemediationDeleted => "RemediationDeleted",
            Self::RemediationFailed => "RemediationFailed",
            Self::TaintLeft => "TaintLeft",
        }
    }
}

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MaintenanceAction {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Take our finalizer off the object.
    RemoveFinalizer,
    /// Create the remediation.
    CreateRemediation,
    /// Delete the remediation.
    DeleteRemediation,
    /// Change the strategy of the remediation to that of the spec.
    UpdateRemediation,
    /// Set or renew a mark.
    Set(Mark),
    /// Take a mark back.
    TakeBack(Mark),
}

/// What is recorded, and what is done once it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceDecision {
    /// The phase that people see.
    pub phase: MaintenancePhase,
    /// Why, as one word.
    pub reason: MaintenanceReason,
    /// What happens, to which host, and what is next.
    pub message: String,
    /// What is recorded before anything is done.
    pub record: MaintenanceRecord,
    /// What may be in place after what is done.
    pub in_place: Vec<Mark>,
    /// Until when the locator LED may be lit after what is done.
    pub led_until: Option<Timestamp>,
    /// When the maintenance ends, as far as that is known.
    pub ends: Option<Timestamp>,
    /// What is done. The order is that of the list; each is idempotent.
    pub actions: Vec<MaintenanceAction>,
}

/// Decides about one maintenance.
pub fn decide(f: &MaintenanceFacts, now: Timestamp) -> MaintenanceDecision {
    match why_it_ends(f, now) {
        Some((reason, message)) => end(f, reason, &message, now),
        None => live(f, now),
    }
}

/// When the maintenance ends by its time.
fn ends(f: &MaintenanceFacts) -> Option<Timestamp> {
    let parked = f.record.parked_since;
    let lasts = parked
        .zip(f.wanted.duration)
        .map(|(since, lasts)| since.checked_add(lasts).unwrap_or(Timestamp::MAX));
    [f.wanted.until, lasts].into_iter().flatten().min()
}

fn why_it_ends(f: &MaintenanceFacts, now: Timestamp) -> Option<(MaintenanceReason, String)> {
    if let Some(reason) = f.record.ending {
        return Some((reason, f.record.ending_message.clone()));
    }
    if f.deleting {
        let message = "the maintenance was deleted".to_owned();
        return Some((MaintenanceReason::Deleted, message));
    }
    if let Some(end) = ends(f).filter(|end| *end <= now) {
        let message = if f.record.begun {
            format!("its time was over at {end}")
        } else {
            format!("its time was over at {end}, before it could begin")
        };
        return Some((MaintenanceReason::TimeOver, message));
    }
    let name = &f.remediation_name;
    match &f.remediation {
        RemediationSeen::Absent if f.record.begun => Some((
            MaintenanceReason::RemediationDeleted,
            format!("somebody has deleted PowerRemediation {name}"),
        )),
        RemediationSeen::Present {
            deleting: true,
            stage,
            ..
        } if f.record.begun
            || !matches!(stage, Stage::Waiting | Stage::Ready | Stage::Recovered) =>
        {
            Some((
                MaintenanceReason::RemediationDeleted,
                format!("somebody has deleted PowerRemediation {name}"),
            ))
        }
        RemediationSeen::Present {
            stage: Stage::Failed,
            reason,
            message,
            ..
        } => Some((
            MaintenanceReason::RemediationFailed,
            format!("PowerRemediation {name} has failed: {message} ({reason})"),
        )),
        _ => None,
    }
}

/// The decision about a maintenance that is wanted.
fn live(f: &MaintenanceFacts, now: Timestamp) -> MaintenanceDecision {
    use MaintenanceAction as A;
    let mut d = MaintenanceDecision {
        phase: MaintenancePhase::Pending,
        reason: MaintenanceReason::Started,
        message: "the maintenance has just been created".to_owned(),
        record: f.record.clone(),
        in_place: Vec::new(),
        led_until: f.led.until.filter(|_| f.led.may_be_lit(now)),
        ends: ends(f),
        actions: Vec::new(),
    };
    if !f.finalizer {
        d.actions.push(A::AddFinalizer);
        return d;
    }
    let name = &f.remediation_name;
    match &f.remediation {
        RemediationSeen::Unknown { why } => {
            d.reason = MaintenanceReason::RemediationWaits;
            d.message = format!("PowerRemediation {name} cannot be read: {why}");
        }
        RemediationSeen::Absent => {
            unmark(f, &mut d);
            if let Some((reason, message)) = not_yet(f) {
                (d.reason, d.message) = (reason, message);
            } else {
                d.actions.push(A::CreateRemediation);
                d.in_place.push(Mark::Remediation);
            }
        }
        RemediationSeen::Present {
            deleting: false,
            stage: Stage::Ready,
            ..
        } if !f.record.begun => {
            d.in_place.push(Mark::Remediation);
            ready(f, &mut d, now);
        }
        RemediationSeen::Present {
            deleting,
            stage: stage @ (Stage::Waiting | Stage::Ready | Stage::Recovered),
            reason,
            message,
            ..
        } if !f.record.begun => {
            d.in_place.push(Mark::Remediation);
            unmark(f, &mut d);
            let ended = *stage == Stage::Recovered;
            d.reason = match ended || *deleting {
                true => MaintenanceReason::MadeAnew,
                false => MaintenanceReason::RemediationWaits,
            };
            d.message = match ended || *deleting {
                true => {
                    format!("PowerRemediation {name} has ended before it began, and is made anew")
                }
                false => format!(
                    "nothing is switched yet: PowerRemediation {name}: {message} ({reason})"
                ),
            };
            if ended && !deleting {
                d.actions.push(A::DeleteRemediation);
            }
        }
        RemediationSeen::Present {
            stage,
            reason,
            message,
            ..
        } => {
            begun(f, (*stage, reason, message), &mut d, now);
        }
    }
    if let RemediationSeen::Present {
        outdated: true,
        deleting: false,
        ..
    } = f.remediation
    {
        d.actions.push(A::UpdateRemediation);
    }
    keep_marks(f, &mut d);
    d
}

/// Why the remediation is not made yet.
fn not_yet(f: &MaintenanceFacts) -> Option<(MaintenanceReason, String)> {
    if let Err(why) = &f.target {
        return Some((MaintenanceReason::TargetNotFound, why.clone()));
    }
    if let Some(why) = &f.refused {
        return Some((MaintenanceReason::CheckWouldAct, why.clone()));
    }
    match &f.lease {
        LeaseMark::Theirs { holder } => Some((
            MaintenanceReason::NodeLeaseHeld,
            format!(
                "{holder} works on the Node, by its Lease in medik8s-leases; the maintenance begins once that has ended"
            ),
        )),
        LeaseMark::Unread { why } => Some((
            MaintenanceReason::NodeLeaseHeld,
            format!("the Lease of the Node cannot be read: {why}"),
        )),
        LeaseMark::NotUsed | LeaseMark::Free | LeaseMark::Ours { .. } => None,
    }
}

/// Whether every mark is in place by which health checks leave the host alone, whoever has set it.
fn is_marked(f: &MaintenanceFacts, now: Timestamp) -> bool {
    f.lease.is_in_place(now) && f.machine != MachineMark::Absent
}

/// Sets and renews the marks. That they are in place is recorded once they were seen.
fn set_marks(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    use MaintenanceAction as A;
    d.record.marked = is_marked(f, now);
    if f.machine == MachineMark::Absent {
        d.actions.push(A::Set(Mark::SkipRemediation));
        d.in_place.push(Mark::SkipRemediation);
    }
    if f.lease.due(now) {
        d.actions.push(A::Set(Mark::Lease));
        d.in_place.push(Mark::Lease);
    }
}

/// Takes the marks back of a maintenance that waits again: a host that fails meanwhile is remediated by its check.
fn unmark(f: &MaintenanceFacts, d: &mut MaintenanceDecision) {
    d.record.marked = false;
    let marks = left_marks(f).into_iter();
    d.actions.extend(marks.map(MaintenanceAction::TakeBack));
}

/// The remediation could begin: the marks are set, and it begins once they are.
fn ready(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    if let Some((reason, message)) = not_yet(f) {
        unmark(f, d);
        (d.reason, d.message) = (reason, message);
        return;
    }
    set_marks(f, d, now);
    (d.reason, d.message) = match (&f.mark_refused, d.record.marked) {
        (Some(why), false) => (MaintenanceReason::MarkRefused, refused_mark(why)),
        _ => (
            MaintenanceReason::SettingMarks,
            "health checks are told to leave the host alone, then the work begins".to_owned(),
        ),
    };
}

fn refused_mark(why: &str) -> String {
    format!(
        "nothing is evicted or switched, because a health check could act on the host: its mark cannot be set: {why}"
    )
}

/// The remediation has begun: the marks are kept.
fn begun(
    f: &MaintenanceFacts,
    (stage, reason, message): (Stage, &str, &str),
    d: &mut MaintenanceDecision,
    now: Timestamp,
) {
    let name = &f.remediation_name;
    d.record.begun = true;
    d.in_place.push(Mark::Remediation);
    set_marks(f, d, now);
    match stage {
        Stage::Evicting => {
            (d.phase, d.reason) = (MaintenancePhase::Evicting, MaintenanceReason::Evicting);
            d.message = format!("the pods leave: PowerRemediation {name}: {message} ({reason})");
        }
        Stage::Parked | Stage::Emptied => {
            (d.phase, d.reason) = (MaintenancePhase::Parked, MaintenanceReason::Parked);
            d.record.parked_since = Some(f.record.parked_since.unwrap_or(now));
            let state = match stage {
                Stage::Parked => "the host is confirmed off, and is kept off".to_owned(),
                _ if reason == Reason::Evicted.label() => {
                    "the Node is cordoned and empty, and the host is left on".to_owned()
                }
                // Pods are left, which the message names.
                _ => format!(
                    "the Node is cordoned, and the host is left on; PowerRemediation {name}: {message} ({reason})"
                ),
            };
            let ended = ends(&MaintenanceFacts {
                record: d.record.clone(),
                ..f.clone()
            });
            d.ends = ended;
            let until = ended.map_or_else(String::new, |at| format!("; it ends by itself at {at}"));
            d.message = format!(
                "{state}: work on it, then delete this HostMaintenance, and the host comes back{until}"
            );
            led(f, d, now);
        }
        // It is given up, and takes back what it has done.
        Stage::Returning | Stage::Failed => {
            (d.phase, d.reason) = (
                MaintenancePhase::Ending,
                MaintenanceReason::RemediationFailed,
            );
            d.message = format!("PowerRemediation {name} is given up: {message} ({reason})");
        }
        Stage::Waiting | Stage::Ready | Stage::Working | Stage::Recovered => {
            (d.phase, d.reason) = (
                MaintenancePhase::PoweringOff,
                MaintenanceReason::PoweringOff,
            );
            d.message = format!("PowerRemediation {name}: {message} ({reason})");
        }
    }
    if let Some(why) = f.mark_refused.as_ref().filter(|_| !d.record.marked) {
        if matches!(stage, Stage::Waiting | Stage::Ready | Stage::Evicting) {
            (d.reason, d.message) = (MaintenanceReason::MarkRefused, refused_mark(why));
        } else {
            let warning = format!("; a health check may act on it: its mark cannot be set: {why}");
            d.message.push_str(&warning);
        }
    }
}

/// Lights the locator LED of a host that can be worked on, or puts it out where it is not wanted any more.
fn led(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    let mark = Mark::LocatorLED;
    if !f.wanted.locator_led {
        let lit = f.led.may_be_lit(now);
        d.actions
            .extend(lit.then_some(MaintenanceAction::TakeBack(mark)));
    } else if f.led.due(now) {
        d.actions.push(MaintenanceAction::Set(mark));
        d.led_until = Some(now.checked_add(LED_LIT_FOR).unwrap_or(Timestamp::MAX));
    }
}

/// Adds what is in place already.
fn keep_marks(f: &MaintenanceFacts, d: &mut MaintenanceDecision) {
    if f.machine == MachineMark::Ours {
        d.in_place.push(Mark::SkipRemediation);
    }
    if matches!(f.lease, LeaseMark::Ours { .. }) {
        d.in_place.push(Mark::Lease);
    }
    if d.led_until.is_some() {
        d.in_place.push(Mark::LocatorLED);
    }
    d.in_place.sort_unstable();
    d.in_place.dedup();
}

/// The decision about a maintenance that ends: first the remediation with all that it has set, which brings the host
/// back, then the marks, so that no check acts on a host that boots; last the finalizer.
fn end(
    f: &MaintenanceFacts,
    reason: MaintenanceReason,
    why: &str,
    now: Timestamp,
) -> MaintenanceDecision {
    use MaintenanceAction as A;
    let failed = reason == MaintenanceReason::RemediationFailed;
    let mut d = MaintenanceDecision {
        phase: MaintenancePhase::Ending,
        reason,
        message: why.to_owned(),
        record: MaintenanceRecord {
            ending: Some(reason),
            ending_message: why.to_owned(),
            marked: f.record.marked && f.remediation != RemediationSeen::Absent,
            ..f.record.clone()
        },
        in_place: Vec::new(),
        led_until: f.led.until.filter(|_| f.led.may_be_lit(now)),
        ends: ends(f),
        actions: Vec::new(),
    };
    if f.record.over {
        return nothing_left(f, d, failed);
    }
    let name = &f.remediation_name;
    match &f.remediation {
        RemediationSeen::Unknown { why: unread } => {
            d.message = format!("{why}; PowerRemediation {name} cannot be read: {unread}");
        }
        RemediationSeen::Present {
            deleting,
            reason,
            message,
            ..
        } => {
            d.in_place.push(Mark::Remediation);
            if !deleting {
                d.actions.push(A::DeleteRemediation);
            }
            if matches!(f.lease, LeaseMark::Ours { .. }) && f.lease.due(now) {
                d.actions.push(A::Set(Mark::Lease));
            }
            d.message = format!(
                "{why}; the host comes back: PowerRemediation {name}: {message} ({reason})"
            );
        }
        RemediationSeen::Absent => {
            let left = left(f, now);
            let on_node = f.left_on_node.as_ref().filter(|_| f.record.begun);
            match (left.is_empty(), on_node) {
                (true, None) => return nothing_left(f, d, failed),
                (true, Some(what)) => {
                    d.reason = MaintenanceReason::TaintLeft;
                    d.message = format!("{why}; PowerRemediation {name} is gone, and {what}");
                    return d;
                }
                (false, _) => {}
            }
            let names: Vec<String> = left.iter().map(|mark| format!("{mark:?}")).collect();
            d.message = format!("{why}; to be taken back: {}", names.join(", "));
            d.actions.extend(left.into_iter().map(A::TakeBack));
        }
    }
    keep_marks(f, &mut d);
    d
}

/// What is taken back once the remediation is gone.
fn left(f: &MaintenanceFacts, now: Timestamp) -> Vec<Mark> {
    let mut left = left_marks(f);
    if f.led.may_be_lit(now) {
        left.push(Mark::LocatorLED);
    }
    left
}

/// The marks of this maintenance that health checks heed.
fn left_marks(f: &MaintenanceFacts) -> Vec<Mark> {
    let mut left = Vec::new();
    if f.machine == MachineMark::Ours {
        left.push(Mark::SkipRemediation);
    }
    if matches!(f.lease, LeaseMark::Ours { .. }) {
        left.push(Mark::Lease);
    }
    left
}

fn nothing_left(
    f: &MaintenanceFacts,
    mut d: MaintenanceDecision,
    failed: bool,
) -> MaintenanceDecision {
    d.record.over = true;
    d.phase = match failed {
        true => MaintenancePhase::Failed,
        false => MaintenancePhase::Ended,
    };
    d.led_until = None;
    d.message = format!("{}; nothing of it is left", d.record.ending_message);
    let release = f.finalizer.then_some(MaintenanceAction::RemoveFinalizer);
    d.actions.extend(release);
    d
}
