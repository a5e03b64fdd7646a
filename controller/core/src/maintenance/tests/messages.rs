//! What people are told.

use super::*;
use crate::remediation::Reason;

#[test]
fn host_that_stays_on_is_not_called_off_nor_empty_if_it_is_not() {
    let message = |stage, why: &str| {
        let mut f = facts();
        f.remediation = seen(stage, false);
        if let RemediationSeen::Present { reason, .. } = &mut f.remediation {
            *reason = why.into();
        }
        let d = decide(&f, at(0));
        assert_eq!(d.phase, P::Parked);
        d.message
    };
    let emptied = message(Stage::Emptied, "Evicted");
    assert!(emptied.contains("empty, and the host is left on"));
    let in_part = message(Stage::Emptied, "EvictedInPart");
    assert!(in_part.contains("it does") && !in_part.contains("empty"));
    let failed_meanwhile = message(Stage::Parked, "Fenced");
    assert!(failed_meanwhile.contains("confirmed off"));
}

#[test]
fn held_lease_is_said_with_its_holder_its_time_and_its_end() {
    let mut f = facts();
    f.lease = LeaseMark::Theirs {
        holder: "NodeHealthCheck-workers".into(),
        until: at(300),
    };
    let told = decide(&f, at(0)).message;
    for part in [
        "NodeHealthCheck-workers",
        "until 1970-01-01T00:05:00Z",
        "has expired",
    ] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
}

#[test]
fn times_in_messages_have_whole_seconds() {
    let now: Timestamp = "2026-03-01T10:00:00.123456789Z".parse().unwrap();
    let mut f = facts();
    f.wanted.duration = Some(Duration::from_secs(100));
    f.remediation = seen(Stage::Parked, false);
    let d = decide(&f, now);
    assert!(
        d.message.contains("at 2026-03-01T10:01:40Z"),
        "{}",
        d.message
    );
    let since = d.record.parked_since.unwrap();
    assert_eq!(since.to_string(), "2026-03-01T10:00:00Z");
    f.wanted.until = Some(now);
    let told = decide(&f, now).message;
    assert!(told.contains("over at 2026-03-01T10:00:00Z"), "{told}");
}

#[test]
fn user_reads_the_field_that_the_user_wrote() {
    let mut f = facts();
    f.remediation = seen(Stage::Evicting, false);
    if let RemediationSeen::Present { message, .. } = &mut f.remediation {
        *message = Reason::EvictionWaits("pod a/b".into()).to_string();
    }
    let told = decide(&f, at(0)).message;
    assert!(told.contains("eviction.whenNotFinished") && !told.contains("evictionPolicy"));
}

fn parked() -> MaintenanceFacts {
    let mut f = facts();
    f.record.begun = true;
    f.record.marked = true;
    f.record.parked_since = Some(at(0));
    f.machine = MachineMark::Ours;
    f.remediation = seen(Stage::Parked, false);
    f
}

#[test]
fn lease_that_another_holder_takes_of_a_parked_host_is_said_at_once() {
    let mut f = parked();
    f.lease = LeaseMark::Theirs {
        holder: "node-maintenance".into(),
        until: at(300),
    };
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Parked, R::Parked));
    assert_eq!(d.warnings.len(), 1);
    let warning = &d.warnings[0];
    assert_eq!(warning.reason, "NodeLeaseTaken");
    for part in [
        "node-maintenance has taken",
        "until 1970-01-01T00:05:00Z",
        "takes the Lease once",
    ] {
        assert!(
            warning.message.contains(part),
            "{part}: {}",
            warning.message
        );
    }
    assert!(d.message.contains(&warning.message), "{}", d.message);
    assert!(
        !d.message.contains("begins once"),
        "it has begun: {}",
        d.message
    );
    f.lease = unread_lease(300);
    let d = decide(&f, at(0));
    assert_eq!(d.warnings[0].reason, "NodeLeaseUnread");
    assert!(
        d.warnings[0]
            .message
            .contains("expires by 1970-01-01T00:05:00Z: 403")
    );
    f.lease = LeaseMark::Ours { renewed: at(0) };
    assert!(decide(&f, at(0)).warnings.is_empty());
}

#[test]
fn what_blocks_the_remediation_is_told_of_the_maintenance_too() {
    for (stage, deleting) in [
        (Stage::Evicting, false),
        (Stage::Working, false),
        (Stage::Emptied, false),
        (Stage::Returning, true),
    ] {
        let mut f = parked();
        f.lease = LeaseMark::NotUsed;
        f.remediation = seen(stage, deleting);
        f.deleting = deleting;
        assert!(decide(&f, at(0)).warnings.is_empty(), "{stage:?}");
        if let RemediationSeen::Present { blocked, .. } = &mut f.remediation {
            *blocked = true;
        }
        let d = decide(&f, at(0));
        assert_eq!(d.warnings.len(), 1, "{stage:?}");
        assert_eq!(d.warnings[0].reason, "Because");
        assert!(d.warnings[0].message.contains("ns/maintenance-u: it does"));
    }
}

#[test]
fn annotation_that_no_check_heeds_is_not_said_to_keep_checks_away() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.lease = LeaseMark::NotUsed;
    f.machine = MachineMark::InPart;
    let take_back = &mut f.failed_marks.take_back;
    take_back.insert(Mark::SkipRemediation, "403".into());
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Ending, R::AnnotationLeft));
    assert!(d.message.contains("no health check heeds"), "{}", d.message);
    assert!(!d.message.contains("leave the host alone"), "{}", d.message);
    f.lease = LeaseMark::Ours { renewed: at(0) };
    f.failed_marks.take_back.insert(Mark::Lease, "403".into());
    assert_eq!(decide(&f, at(0)).reason, R::MarkLeft);
}

#[test]
fn time_that_is_over_is_said_with_whose_it_was_and_what_came_of_the_work() {
    let told = |change: fn(&mut MaintenanceFacts)| {
        let mut f = parked();
        f.lease = LeaseMark::NotUsed;
        change(&mut f);
        let d = decide(&f, at(100));
        assert_eq!(d.reason, R::TimeOver);
        d.message
    };
    let lasted = told(|f| f.wanted.duration = Some(Duration::from_secs(90)));
    assert!(lasted.contains("90 s after its host could be worked on, as spec.durationSeconds"));
    let until = told(|f| f.wanted.until = Some(at(50)));
    assert!(
        until.contains("at 1970-01-01T00:00:50Z, as spec.until says"),
        "{until}"
    );
    let too_short = told(|f| {
        f.wanted.until = Some(at(50));
        f.record.parked_since = None;
        f.remediation = seen(Stage::Evicting, false);
    });
    assert!(
        too_short.contains("could not be worked on before that"),
        "{too_short}"
    );
}
