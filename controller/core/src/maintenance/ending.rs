//! The decision about a maintenance that ends: everything that it has set is taken back.

use jiff::Timestamp;

use super::{
    LeaseMark, Leftovers, MaintenanceAction, MaintenanceDecision, MaintenanceFacts,
    MaintenancePhase, MaintenanceReason, MaintenanceRecord, MaintenanceWarning, Mark,
    RemediationSeen, life::ends, words::own_fields,
};
use crate::remediation::Reason;

/// Adds what is in place already.
pub(super) fn keep_marks(f: &MaintenanceFacts, d: &mut MaintenanceDecision, now: Timestamp) {
    d.in_place.extend(left_marks(f, now));
    // One that was refused may be lit since an earlier time, until it goes out.
    if d.led_until.is_some() && !f.failed_marks.set.contains_key(&Mark::LocatorLED) {
        d.in_place.push(Mark::LocatorLED);
    }
    d.in_place.sort_unstable();
    d.in_place.dedup();
}

/// The marks that cannot be taken back, each with the error and what to do about it.
pub(super) fn marks_left(
    f: &MaintenanceFacts,
    d: &MaintenanceDecision,
    now: Timestamp,
) -> Option<(MaintenanceReason, String)> {
    let is_heeded = |mark: Mark| mark != Mark::SkipRemediation || f.machine.is_in_place();
    let left = d.actions.iter().filter_map(|action| match action {
        MaintenanceAction::TakeBack(mark) if mark.is_heeded() => {
            let why = f.failed_marks.take_back.get(mark)?;
            let effect = match is_heeded(*mark) {
                true => "so health checks still leave the host alone",
                false => {
                    "which no health check heeds; the next maintenance of the host waits for it"
                }
            };
            Some(format!(
                "{} cannot be taken back, {effect}: {why}; {}",
                mark.words(),
                take_back_by_hand(*mark)
            ))
        }
        _ => None,
    });
    let left: Vec<String> = left.collect();
    let mut in_place = left_marks(f, now).into_iter();
    let reason = match in_place.any(is_heeded) {
        true => MaintenanceReason::MarkLeft,
        false => MaintenanceReason::AnnotationLeft,
    };
    (!left.is_empty()).then(|| (reason, left.join("; ")))
}

fn take_back_by_hand(mark: Mark) -> &'static str {
    match mark {
        Mark::SkipRemediation => {
            "correct the right, policy or webhook that refuses it, or remove the annotation rackhand.dev/maintenance, and \
             cluster.x-k8s.io/skip-remediation where this maintenance has set it"
        }
        Mark::Lease => {
            "correct the right, policy or webhook that refuses it, or delete the Lease in medik8s-leases"
        }
        Mark::LocatorLED => "it goes out by itself",
        Mark::Remediation => "its own message says why",
    }
}

/// The decision about a maintenance that ends: first the remediation with all that it has set, which brings the host
/// back, then the marks, so that no check acts on a host that boots; last the finalizer.
pub(super) fn end(
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
        warnings: Vec::new(),
        actions: Vec::new(),
    };
    if f.record.over {
        return nothing_left(f, d, failed);
    }
    let name = &f.remediation_name;
    match &f.remediation {
        RemediationSeen::Unknown { why: unread } => {
            d.message = format!("{why}; PowerRemediation {name} cannot be read: {unread}");
            d.in_place.push(Mark::Remediation);
        }
        RemediationSeen::Present {
            deleting,
            blocked,
            reason,
            message,
            ..
        } => {
            d.in_place.push(Mark::Remediation);
            if *blocked {
                d.warnings.extend(blocked_warning(f, reason, message));
            }
            if !deleting {
                d.actions.push(A::DeleteRemediation);
            }
            if matches!(f.lease, LeaseMark::Ours { .. }) && f.lease.due(now) {
                d.actions.push(A::Set(Mark::Lease));
            }
            d.message = format!(
                "{why}; the host comes back: PowerRemediation {name}: {} ({reason})",
                own_fields(message)
            );
        }
        RemediationSeen::Absent => {
            let left = left(f, now);
            if left.is_empty() {
                let Some((reason, what)) = leftovers(f) else {
                    return nothing_left(f, d, failed);
                };
                d.reason = reason;
                d.message = format!("{why}; PowerRemediation {name} is gone, and {what}");
                return d;
            }
            let names: Vec<&str> = left.iter().map(|mark| mark.words()).collect();
            d.message = format!("{why}; to be taken back: {}", names.join(", "));
            d.actions.extend(left.into_iter().map(A::TakeBack));
            if let Some((reason, left)) = marks_left(f, &d, now) {
                d.reason = reason;
                d.message = format!("{why}; {left}");
            }
        }
    }
    keep_marks(f, &mut d, now);
    d
}

/// That the remediation goes no further before somebody does something, which its own message says; `None` where it waits
/// for the marks of this maintenance, whose own reason says what keeps them.
pub(super) fn blocked_warning(
    f: &MaintenanceFacts,
    reason: &str,
    message: &str,
) -> Option<MaintenanceWarning> {
    let name = &f.remediation_name;
    (!Reason::of_marks().contains(&reason)).then(|| MaintenanceWarning {
        reason: reason.to_owned(),
        message: format!("PowerRemediation {name}: {}", own_fields(message)),
    })
}

/// What the remediation has left, and what ends that. A taint names no remediation, so it counts only if one had begun.
pub(super) fn leftovers(f: &MaintenanceFacts) -> Option<(MaintenanceReason, String)> {
    let Leftovers {
        node,
        taint,
        cordon,
        hold,
    } = &f.leftovers;
    if *taint && f.record.begun {
        return Some((
            MaintenanceReason::TaintLeft,
            format!(
                "{node} has its out-of-service taint: somebody has removed its finalizer, and its host may be off. Switch \
                 the host on, make sure that nothing of its old workload runs, and remove the taint from the Node"
            ),
        ));
    }
    if *cordon {
        return Some((
            MaintenanceReason::CordonLeft,
            format!(
                "{node} is still cordoned by it: somebody has removed its finalizer. The controller uncordons the Node \
                 within a minute"
            ),
        ));
    }
    hold.then(|| {
        (
            MaintenanceReason::HoldLeft,
            "its hold on the host is not released: somebody has removed its finalizer. The controller releases it, or says \
             in an Event of the BareMetalHost why not; the host may be off"
                .to_owned(),
        )
    })
}

/// What is taken back once the remediation is gone.
fn left(f: &MaintenanceFacts, now: Timestamp) -> Vec<Mark> {
    let mut left = left_marks(f, now);
    if f.led.may_be_lit(now) {
        left.push(Mark::LocatorLED);
    }
    left
}

/// The marks of this maintenance that health checks heed.
pub(super) fn left_marks(f: &MaintenanceFacts, now: Timestamp) -> Vec<Mark> {
    let mut left = Vec::new();
    if f.machine.is_left() {
        left.push(Mark::SkipRemediation);
    }
    if f.lease.is_left(f.record.leased, now) {
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
