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
