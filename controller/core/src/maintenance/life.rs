//! The decision about a maintenance that is wanted, and when it ends.

use jiff::Timestamp;

use super::{
    Earlier, Ends, LED_LIT_FOR, LeaseMark, MachineMark, MaintenanceAction, MaintenanceDecision,
    MaintenanceFacts, MaintenancePhase, MaintenanceReason, MaintenanceWarning, Mark,
    RemediationSeen, Stage,
    ending::{blocked_warning, end, keep_marks, left_marks, leftovers, marks_left},
    words::own_fields,
};
use crate::{remediation::Reason, values::time::whole_second};

/// Decides about one maintenance.
pub fn decide(f: &MaintenanceFacts, now: Timestamp) -> MaintenanceDecision {
    let mut d = match why_it_ends(f, now) {
        Some((reason, message)) => end(f, reason, &message, now),
        None => live(f, now),
    };
    d.record.leased = d.in_place.contains(&Mark::Lease);
    d
}

/// When the maintenance ends by its time.
pub(super) fn ends(f: &MaintenanceFacts) -> Option<Timestamp> {
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
        return Some((MaintenanceReason::TimeOver, time_over(f, end)));
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
            || !matches!(
                stage,
                Stage::Unrecorded | Stage::Waiting | Stage::Ready | Stage::Recovered
            ) =>
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
            format!(
                "PowerRemediation {name} has failed: {} ({reason})",
                own_fields(message)
            ),
        )),
        _ => None,
    }
}

/// Whose time was over, and what had come of the work by then.
fn time_over(f: &MaintenanceFacts, end: Timestamp) -> String {
    let by = match (f.wanted.until == Some(end), f.wanted.duration) {
        (false, Some(lasts)) => {
            let seconds = lasts.as_secs();
            format!("{seconds} s after its host could be worked on, as spec.durationSeconds says")
        }
        _ => "as spec.until says".to_owned(),
    };
    let what = match (f.record.begun, f.record.parked_since) {
        (false, _) => "; it had not begun, and nothing was switched",
        (true, None) => "; its host could not be worked on before that",
        (true, Some(_)) => "",
    };
    format!("its time was over at {}, {by}{what}", whole_second(end))
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
        warnings: Vec::new(),
        actions: Vec::new(),
    };
    if !f.finalizer {
        d.actions.push(A::AddFinalizer);
        return d;
    }
    let is_back = is_back(f);
    d.record.begun &= !is_back;
    let is_begun = d.record.begun;
    let name = &f.remediation_name;
    match &f.remediation {
        RemediationSeen::Unknown { why } => {
            d.reason = MaintenanceReason::RemediationWaits;
            d.message = format!("PowerRemediation {name} cannot be read: {why}");
            d.in_place.push(Mark::Remediation);
        }
        RemediationSeen::Absent => {
            unmark(f, &mut d, now);
            // The next one would not know what the last one has left.
            let left = leftovers(f).map(|(reason, what)| {
                let message = format!("PowerRemediation {name} is gone, and {what}");
                (reason, message)
            });
            if let Some((reason, message)) = left.or_else(|| not_yet(f)) {
                (d.reason, d.message) = (reason, message);
            } else {
                d.actions.push(A::CreateRemediation);
                d.in_place.push(Mark::Remediation);
            }
        }
        // Nothing is done yet. A Machine that is made anew is another one, and needs another remediation.
        RemediationSeen::Present {
            deleting,
            stage: Stage::Waiting | Stage::Ready | Stage::Recovered,
            ..
        } if !f.record.begun && f.machine.is_gone() => {
            d.in_place.push(Mark::Remediation);
            unmark(f, &mut d, now);
            d.reason = MaintenanceReason::TargetNotFound;
            if let MachineMark::Gone { machine } = &f.machine {
                d.message = format!("Machine {machine} is gone, and nothing was switched");
            }
            if !deleting {
                d.actions.push(A::DeleteRemediation);
            }
        }
        // Nothing is done yet, and the remediation of the other one must not wait for this one.
        RemediationSeen::Present {
            deleting,
            stage: Stage::Unrecorded | Stage::Waiting | Stage::Ready | Stage::Recovered,
            ..
        } if !is_begun && f.earlier.is_some() => {
            d.in_place.push(Mark::Remediation);
            unmark(f, &mut d, now);
            if let Some(earlier) = &f.earlier {
                (d.reason, d.message) = queued(earlier);
            }
            if !deleting {
                d.actions.push(A::DeleteRemediation);
            }
        }
        RemediationSeen::Present {
            deleting: false,
            stage: Stage::Ready,
            ..
        } if !is_begun => {
            d.in_place.push(Mark::Remediation);
            ready(f, &mut d, now);
        }
        RemediationSeen::Present {
            deleting,
            stage: stage @ (Stage::Unrecorded | Stage::Waiting | Stage::Ready | Stage::Recovered),
            reason,
            message,
            ..
        } if !is_begun => {
            d.in_place.push(Mark::Remediation);
            unmark(f, &mut d, now);
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
                    "nothing is switched yet: PowerRemediation {name}: {} ({reason})",
                    own_fields(message)
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
            begun(f, (*stage, reason, &own_fields(message)), &mut d, now);
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
    keep_marks(f, &mut d, now);
    // A host that waits and is marked would not be remediated by its check.
    if d.phase == MaintenancePhase::Pending
        && let Some((reason, left)) = marks_left(f, &d, now)
    {
        d.reason = reason;
        d.message = format!("{}; {left}", d.message);
    }
    d
}

/// Whether a remediation that had begun waits again, or has ended while it did: a freeze, a pause or a quorum that would
/// be lost has taken it back, its cordon is removed, and nothing was switched.
fn is_back(f: &MaintenanceFacts) -> bool {
    matches!(
        f.remediation,
        RemediationSeen::Present {
            stage: Stage::Waiting | Stage::Ready | Stage::Recovered,
            ..
        }
    )
}

/// The maintenance of the same host that goes first, and what ends the wait for it.
fn queued(earlier: &Earlier) -> (MaintenanceReason, String) {
    let name = &earlier.name;
    let why = match earlier.has_begun {
        true => "has begun",
        false => "was created before",
    };
    let ends = match &earlier.ends {
        Ends::Already { reason } => {
            let (namespace, object) = name.split_once('/').unwrap_or(("", name));
            let message = format!(
                "HostMaintenance {name} of the same host ends already, and something of it is left ({reason}): this one \
                 begins after that. What it waits for is said by: kubectl rackhand explain maintenance {object} \
                 --namespace {namespace}"
            );
            return (MaintenanceReason::Queued, message);
        }
        Ends::ByDeletion => String::new(),
        Ends::At(at) => format!(" at {}, or", whole_second(*at)),
        Ends::After(time) => format!(" {} s after its host can be worked on, or", time.as_secs()),
    };
    let message = format!(
        "HostMaintenance {name} of the same host {why}: this one begins once that has ended:{ends} when somebody deletes \
         it. The host comes back in between"
    );
    (MaintenanceReason::Queued, message)
}

/// Why the remediation is not made yet.
fn not_yet(f: &MaintenanceFacts) -> Option<(MaintenanceReason, String)> {
    if let Err(why) = &f.target {
        return Some((MaintenanceReason::TargetNotFound, why.clone()));
    }
    if let Some(earlier) = &f.earlier {
        return Some(queued(earlier));
    }
    if let MachineMark::OfAnother { by } = &f.machine {
        return Some((MaintenanceReason::Queued, marked_by(by)));
    }
    if let Some(why) = &f.refused {
        return Some((MaintenanceReason::CheckWouldAct, why.clone()));
    }
    Some((MaintenanceReason::NodeLeaseHeld, lease_not_free(&f.lease)?))
}

fn marked_by(by: &str) -> String {
    format!(
        "the Machine has the mark of {by}: this maintenance begins once that is taken back, which takes up to a minute \
         where that one is gone. If that one is over, as after a restore of the Machine, remove the annotation \
         rackhand.dev/maintenance from the Machine"
    )
}

/// Why medik8s' Lease of the Node cannot be had, and what ends that.
fn lease_not_free(lease: &LeaseMark) -> Option<String> {
    match lease {
        LeaseMark::Theirs { holder, until } => Some(format!(
            "{holder} works on the Node, and has its Lease in medik8s-leases until {}; it may renew that. The maintenance \
             begins once {holder} has finished, or its Lease has expired",
            whole_second(*until)
        )),
        LeaseMark::Unread { why, .. } => {
            Some(format!("the Lease of the Node cannot be read: {why}"))
        }
        LeaseMark::NotUsed | LeaseMark::Free | LeaseMark::Ours { .. } => None,
    }
}

/// Whether every mark is in place by which health checks leave the host alone, whoever has set it.
fn is_marked(f: &MaintenanceFacts, now: Timestamp) -> bool {
    f.lease.is_in_place(now) && f.machine.is_in_place()
}

/// Why a mark is missing, as one word and as a sentence, if that is more than that it is about to be set.
fn why_unmarked(f: &MaintenanceFacts) -> Option<(&'static str, String)> {
    let refused = f.failed_marks.heeded();
    let refused = refused.map(|why| ("MarkRefused", format!("its mark cannot be set: {why}")));
    let of_another = || match &f.machine {
        MachineMark::OfAnother { by } => {
            Some(("MarkOfAnother", format!("the Machine has the mark of {by}")))
        }
        _ => None,
    };
    refused.or_else(of_another).or_else(|| lease_lost(&f.lease))
}

/// Why a maintenance for which the marks are set has not medik8s' Lease of the Node, and what becomes of that.
fn lease_lost(lease: &LeaseMark) -> Option<(&'static str, String)> {
    match lease {
        LeaseMark::Theirs { holder, until } => Some((
            "NodeLeaseTaken",
            format!(
                "{holder} has taken medik8s' Lease of the Node, until {}; it may renew that. medik8s' operators heed \
                 {holder} alone meanwhile; this maintenance takes the Lease once {holder} has given it up, or it has \
                 expired. See what {holder} does to the host, and make it end that, or end this maintenance",
                whole_second(*until)
            ),
        )),
        LeaseMark::Unread { why, expires } => Some((
            "NodeLeaseUnread",
            format!(
                "medik8s' Lease of the Node cannot be read, and so is not renewed; if this maintenance holds it, it \
                 expires by {}: {why}",
                whole_second(*expires)
            ),
        )),
        LeaseMark::NotUsed | LeaseMark::Free | LeaseMark::Ours { .. } => None,
    }
}

/// Sets and renews the marks. That they are in place is recorded once they were seen.
fn set_marks(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    use MaintenanceAction as A;
    d.record.marked = is_marked(f, now);
    let due = [
        (Mark::SkipRemediation, f.machine.is_due()),
        (Mark::Lease, f.lease.due(now)),
    ];
    for (mark, _) in due.into_iter().filter(|(_, is_due)| *is_due) {
        d.actions.push(A::Set(mark));
        // What was refused is there only if it is seen.
        if !f.failed_marks.set.contains_key(&mark) {
            d.in_place.push(mark);
        }
    }
}

/// Takes the marks back of a maintenance that waits again: a host that fails meanwhile is remediated by its check. That
/// they do not count any more is recorded one evaluation before: a remediation that begins meanwhile waits for them anew.
fn unmark(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    d.record.marked = false;
    if f.record.marked && f.remediation != RemediationSeen::Absent {
        return;
    }
    let marks = left_marks(f, now).into_iter();
    d.actions.extend(marks.map(MaintenanceAction::TakeBack));
}

/// The remediation could begin: the marks are set, and it begins once they are.
fn ready(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    if let Some((reason, message)) = not_yet(f) {
        unmark(f, d, now);
        (d.reason, d.message) = (reason, message);
        return;
    }
    set_marks(f, d, now);
    (d.reason, d.message) = match (why_unmarked(f), d.record.marked) {
        (Some((_, why)), false) => (MaintenanceReason::MarkRefused, refused_mark(&why)),
        _ => (
            MaintenanceReason::SettingMarks,
            "health checks are told to leave the host alone, then the work begins".to_owned(),
        ),
    };
}

fn refused_mark(why: &str) -> String {
    format!("nothing is evicted or switched, because a health check could act on the host: {why}")
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
            let since = f.record.parked_since.unwrap_or(whole_second(now));
            d.record.parked_since = Some(since);
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
            let until = ended.map_or_else(String::new, |at| {
                format!("; it ends by itself at {}", whole_second(at))
            });
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
        Stage::Unrecorded | Stage::Waiting | Stage::Ready | Stage::Working | Stage::Recovered => {
            (d.phase, d.reason) = (
                MaintenancePhase::PoweringOff,
                MaintenanceReason::PoweringOff,
            );
            d.message = format!("PowerRemediation {name}: {message} ({reason})");
        }
    }
    if let Some((word, why)) = why_unmarked(f).filter(|_| !d.record.marked) {
        if stage == Stage::Evicting || Reason::of_marks().contains(&reason) {
            (d.reason, d.message) = (MaintenanceReason::MarkRefused, refused_mark(&why));
        } else {
            let message = format!("a health check may act on the host: {why}");
            d.message.push_str("; ");
            d.message.push_str(&message);
            d.warnings.push(MaintenanceWarning {
                reason: word.to_owned(),
                message,
            });
        }
    }
    if let MachineMark::Gone { machine } = &f.machine {
        let message = machine_gone(machine);
        d.message.push_str("; ");
        d.message.push_str(&message);
        d.warnings.push(MaintenanceWarning {
            reason: "MachineGone".to_owned(),
            message,
        });
    }
    if let RemediationSeen::Present { blocked: true, .. } = f.remediation {
        d.warnings.extend(blocked_warning(f, reason, message));
    }
}

/// What becomes of a host on which somebody works, and whose Machine is gone.
fn machine_gone(machine: &str) -> String {
    format!(
        "Machine {machine} is gone. That ends nothing: the host is held until this HostMaintenance is deleted, or its \
         time is over. Then it is switched on if it was switched off, and what was set on its Node is taken back if \
         there still is one; a host that its owner has deprovisioned meanwhile is left to its owner"
    )
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
        let until = now.checked_add(LED_LIT_FOR).unwrap_or(Timestamp::MAX);
        d.led_until = Some(whole_second(until));
    }
    if let Some(why) = (f.failed_marks.set.get(&mark)).filter(|_| f.wanted.locator_led) {
        let dark = format!("; {} cannot be lit: {why}", mark.words());
        d.message.push_str(&dark);
    }
}
