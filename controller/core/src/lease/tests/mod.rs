//! Tests of the election.

mod race;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn config() -> LeaseConfig {
    LeaseConfig::default()
}

/// A Lease, renewed for the `version`th time.
fn mk_record(holder: &str, transitions: u64, version: i64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.into(),
        transitions,
        duration: secs(15),
        renewed: Timestamp::from_second(version).ok(),
        version: version.to_string(),
    }
}

fn mk_view(record: Option<LeaseRecord>, now: Duration) -> LeaseView {
    LeaseView::new("me", record, now)
}

/// Leads in term 4 by a write that was sent at 100 and answered at 101.
fn mk_leader() -> LeaseView {
    let mut view = mk_view(Some(mk_record("", 3, 1)), secs(99));
    view.written(mk_record("me", 4, 2), secs(100), secs(101));
    view
}

fn at(view: &LeaseView, now: Duration) -> Decision {
    evaluate(view, &config(), now)
}

fn acquires(decision: Decision) -> LeaseWrite {
    match decision {
        Decision::Acquire { write } => write,
        other => panic!("does not acquire: {other:?}"),
    }
}

fn waits_until(decision: Decision) -> Duration {
    match decision {
        Decision::Wait { until, .. } => until,
        other => panic!("does not wait: {other:?}"),
    }
}

#[test]
fn missing_lease_is_created_with_term_1() {
    let view = mk_view(None, secs(5));
    assert_eq!(
        acquires(at(&view, secs(5))),
        LeaseWrite {
            holder: "me".into(),
            transitions: 1,
            duration: secs(15),
            acquires: true,
            replaces: None,
        }
    );
    assert_eq!(
        view.term(&config(), secs(5)),
        None,
        "not before the write has succeeded"
    );
}

#[test]
fn released_lease_is_acquired_at_once_in_a_new_term() {
    let write = acquires(at(&mk_view(Some(mk_record("", 7, 3)), secs(0)), secs(0)));
    assert_eq!((write.transitions, write.replaces), (8, Some("3".into())));
}

#[test]
fn held_lease_is_acquired_after_its_duration_without_change() {
    let view = mk_view(Some(mk_record("other", 7, 3)), secs(50));
    let waiting = Decision::Wait {
        until: secs(65),
        holder: "other".into(),
    };
    assert_eq!(at(&view, secs(65) - Duration::from_nanos(1)), waiting);
    assert_eq!(acquires(at(&view, secs(65))).transitions, 8);
}

#[test]
fn f7_lease_expiry_uses_the_local_clock_not_renew_time() {
    for renewed in [None, Some(Timestamp::MIN), Some(Timestamp::MAX)] {
        let record = LeaseRecord {
            renewed,
            ..mk_record("other", 7, 3)
        };
        assert_eq!(
            waits_until(at(&mk_view(Some(record), secs(50)), secs(50))),
            secs(65)
        );
    }
}

#[test]
fn observed_renewal_restarts_the_lease_duration() {
    let mut view = mk_view(Some(mk_record("other", 7, 3)), secs(50));
    view.observe(Some(mk_record("other", 7, 3)), secs(55));
    assert_eq!(
        waits_until(at(&view, secs(60))),
        secs(65),
        "an unchanged record is no renewal"
    );
    view.observe(Some(mk_record("other", 7, 4)), secs(60));
    assert_eq!(waits_until(at(&view, secs(60))), secs(75));
}

#[test]
fn label_change_is_no_renewal_but_updates_the_replaced_version() {
    let mut view = mk_view(Some(mk_record("other", 7, 3)), secs(50));
    let labelled = LeaseRecord {
        version: "99".into(),
        ..mk_record("other", 7, 3)
    };
    view.observe(Some(labelled), secs(60));
    assert_eq!(acquires(at(&view, secs(65))).replaces, Some("99".into()));
}

#[test]
fn longer_of_configured_and_written_duration_applies() {
    let record = |duration| LeaseRecord {
        duration,
        ..mk_record("other", 7, 3)
    };
    for (written, until) in [(secs(0), 65), (secs(1), 65), (secs(60), 110)] {
        assert_eq!(
            waits_until(at(&mk_view(Some(record(written)), secs(50)), secs(50))),
            secs(until)
        );
    }
    let forever = mk_view(Some(record(Duration::MAX)), secs(50));
    assert_eq!(waits_until(at(&forever, secs(50))), Duration::MAX);
}

#[test]
fn deleted_lease_is_not_created_while_its_holder_may_lead() {
    let mut view = mk_view(Some(mk_record("other", 7, 3)), secs(50));
    view.observe(None, secs(52));
    view.observe(None, secs(58));
    assert_eq!(waits_until(at(&view, secs(58))), secs(65));
    let write = acquires(at(&view, secs(65)));
    assert_eq!(
        (write.transitions, write.replaces),
        (8, None),
        "terms never go back"
    );
}

#[test]
fn f7_leader_stops_at_the_renew_deadline_after_its_last_send() {
    let view = mk_leader();
    let hold = Decision::Hold {
        term: 4,
        renew_at: secs(102),
        renew_by: secs(110),
    };
    assert_eq!(at(&view, secs(101)), hold);
    let last = secs(110) - Duration::from_nanos(1);
    assert_eq!(view.term(&config(), last), Some(4));
    assert_eq!(view.term(&config(), secs(110)), None);
    assert_eq!(
        at(&view, secs(110)),
        Decision::StepDown {
            why: LeadershipLost::Late
        }
    );
}

#[test]
fn leader_renews_after_the_retry_period_in_the_same_term() {
    let mut view = mk_leader();
    let write = LeaseWrite {
        holder: "me".into(),
        transitions: 4,
        duration: secs(15),
        acquires: false,
        replaces: Some("2".into()),
    };
    assert_eq!(
        at(&view, secs(102)),
        Decision::Renew {
            write,
            renew_by: secs(110)
        }
    );

    view.written(mk_record("me", 4, 3), secs(102), secs(103));
    let hold = Decision::Hold {
        term: 4,
        renew_at: secs(104),
        renew_by: secs(112),
    };
    assert_eq!(at(&view, secs(103)), hold);
}

#[test]
fn observing_own_renewal_does_not_extend_leadership() {
    let mut view = mk_leader();
    view.observe(Some(mk_record("me", 4, 3)), secs(108));
    assert_eq!(view.term(&config(), secs(110)), None);
}

#[test]
fn leader_steps_down_when_the_lease_is_taken_or_deleted() {
    let mut view = mk_leader();
    view.observe(Some(mk_record("other", 5, 3)), secs(102));
    assert_eq!(view.term(&config(), secs(102)), None);
    let why = LeadershipLost::Taken("other".into());
    assert_eq!(at(&view, secs(102)), Decision::StepDown { why });
    view.step_down(secs(102));
    assert_eq!(waits_until(at(&view, secs(102))), secs(117));

    let mut view = mk_leader();
    view.observe(None, secs(102));
    assert_eq!(
        at(&view, secs(102)),
        Decision::StepDown {
            why: LeadershipLost::Gone
        }
    );
    view.step_down(secs(102));
    assert_eq!(
        acquires(at(&view, secs(102))).transitions,
        5,
        "a new leadership is a new term"
    );
}

#[test]
fn leader_ignores_records_of_an_earlier_term() {
    let mut view = mk_leader();
    view.observe(Some(mk_record("other", 3, 1)), secs(102));
    assert_eq!(view.term(&config(), secs(102)), Some(4));
    assert_eq!(view.holder(), Some("me"));
}

#[test]
fn leadership_after_step_down_needs_a_new_term() {
    let mut view = mk_leader();
    view.step_down(secs(110));
    assert_eq!(view.term(&config(), secs(110)), None);
    let write = acquires(at(&view, secs(110)));
    assert_eq!((write.transitions, write.replaces), (5, Some("2".into())));
}

#[test]
fn f7_write_response_after_step_down_grants_no_leadership() {
    let mut view = mk_leader();
    view.step_down(secs(109));
    view.written(mk_record("me", 4, 3), secs(108), secs(110));
    assert_eq!(view.term(&config(), secs(110)), None);
    assert_eq!(acquires(at(&view, secs(110))).transitions, 5);
}

#[test]
fn write_response_older_than_observed_record_grants_no_leadership() {
    let mut view = mk_view(Some(mk_record("", 3, 1)), secs(99));
    view.observe(Some(mk_record("other", 5, 3)), secs(101));
    view.written(mk_record("me", 4, 2), secs(100), secs(102));
    assert_eq!(view.term(&config(), secs(102)), None);
}

#[test]
fn own_write_observed_without_response_is_claimed_again() {
    let mut view = mk_view(Some(mk_record("", 3, 1)), secs(99));
    view.observe(Some(mk_record("me", 4, 2)), secs(101));
    assert_eq!(view.term(&config(), secs(101)), None);
    assert_eq!(acquires(at(&view, secs(101))).transitions, 5);
}

#[test]
fn release_ends_leadership_and_clears_the_holder() {
    let mut view = mk_leader();
    let write = view.release(secs(103)).unwrap();
    assert_eq!((write.holder.as_str(), write.transitions), ("", 4));
    assert_eq!(write.replaces, Some("2".into()));
    assert_eq!(view.term(&config(), secs(103)), None);
    assert_eq!(view.release(secs(103)), None);
    assert_eq!(
        mk_view(Some(mk_record("other", 3, 1)), secs(0)).release(secs(0)),
        None
    );
}

#[test]
fn leader_raises_its_term_above_the_term_of_an_agent_at_once() {
    let mut view = mk_leader();
    view.raise_term("a", 4, 9).unwrap();
    assert_eq!(
        view.term(&config(), secs(101)),
        Some(4),
        "until it is written"
    );
    let Decision::Renew { write, .. } = at(&view, secs(101)) else {
        panic!()
    };
    assert_eq!((write.transitions, write.acquires), (10, false));

    view.written(mk_record("me", 10, 3), secs(101), secs(102));
    assert_eq!(view.term(&config(), secs(102)), Some(10));
    assert!(matches!(
        at(&view, secs(102)),
        Decision::Hold { term: 10, .. }
    ));

    view.raise_term("a", 3, 3).unwrap();
    assert!(matches!(
        at(&view, secs(102)),
        Decision::Hold { term: 10, .. }
    ));
}

#[test]
fn raised_term_applies_to_the_next_acquisition() {
    let mut view = mk_view(None, secs(0));
    view.raise_term("a", 1, 41).unwrap();
    assert_eq!(acquires(at(&view, secs(0))).transitions, 42);
}

#[test]
fn exhausted_terms_are_never_reused() {
    let mut view = mk_view(Some(mk_record("", MAX_TERM - 1, 1)), secs(0));
    assert_eq!(acquires(at(&view, secs(0))).transitions, MAX_TERM);
    for above in [MAX_TERM, u64::MAX] {
        let refused = view.raise_term("a", MAX_TERM - 1, above);
        assert!(matches!(refused, Err(TermOutlier::TooHigh { highest, .. }) if highest == above));
    }
    for used in [MAX_TERM, u64::MAX] {
        let view = mk_view(Some(mk_record("", used, 1)), secs(0));
        assert_eq!(at(&view, secs(0)), Decision::Exhausted);
    }
}

#[test]
fn f7_term_far_ahead_on_one_agent_is_not_followed() {
    for huge in [
        4 + LONGEST_JUMP,
        1_000_000,
        MAX_TERM - 1,
        MAX_TERM,
        u64::MAX,
    ] {
        let mut view = mk_leader();
        let outlier = view.raise_term("rogue", 4, huge).unwrap_err();
        let expected = TermOutlier::TooHigh {
            highest: huge,
            limit: 4 + LONGEST_JUMP,
        };
        assert_eq!(outlier, expected);
        assert!(outlier.to_string().contains("rackhand-agent term set-back"));
        let hold = at(&view, secs(101));
        assert!(matches!(hold, Decision::Hold { term: 4, .. }), "{hold:?}");
        // The others are still followed.
        view.raise_term("honest", 4, 9).unwrap();
        let Decision::Renew { write, .. } = at(&view, secs(101)) else {
            panic!()
        };
        assert_eq!(write.transitions, 10);
    }
}

#[test]
fn f7_term_raises_of_all_agents_together_are_bounded() {
    let mut view = mk_leader();
    let mut term = 4;
    for n in 0..10_000 {
        // Each raise alone would be followed.
        if view
            .raise_term(&format!("agent-{n}"), term, term + 999)
            .is_ok()
        {
            term += 1000;
            view.written(mk_record("me", term, n + 10), secs(100), secs(101));
            assert_eq!(view.term(&config(), secs(101)), Some(term));
        }
    }
    assert!(term <= 4 + LONGEST_JUMP, "{term}");
}

#[test]
fn f7_term_raises_of_one_agent_are_bounded() {
    let mut view = mk_leader();
    let mut term = 4;
    for n in 0..RAISES_PER_AGENT {
        view.raise_term("rogue", term, term).unwrap();
        // A repeated refusal before the new term is written is not counted again.
        view.raise_term("rogue", term, term).unwrap();
        term += 1;
        let version = i64::from(n) + 10;
        view.written(mk_record("me", term, version), secs(100), secs(101));
    }
    let refused = view.raise_term("rogue", term, term);
    assert!(
        matches!(refused, Err(TermOutlier::TooOften { times, .. }) if times == RAISES_PER_AGENT)
    );
    assert!(matches!(at(&view, secs(101)), Decision::Hold { .. }));
    assert_eq!(
        view.raise_term("other", term, term - 1),
        Err(TermOutlier::Contradictory {
            claimed: term,
            highest: term - 1
        })
    );
}

#[test]
fn lease_config_requires_retry_below_deadline_below_duration() {
    let new = |duration, deadline, retry| {
        LeaseConfig::new(
            Duration::from_millis(duration),
            Duration::from_millis(deadline),
            Duration::from_millis(retry),
        )
    };
    assert_eq!(new(15_000, 10_000, 2_000), Ok(LeaseConfig::default()));
    assert!(new(1_000, 999, 998).is_ok());
    for (duration, deadline, retry, error) in [
        (0, 0, 0, LeaseConfigError::Duration),
        (1_500, 1_000, 500, LeaseConfigError::Duration),
        (1_000 << 31, 1_000, 500, LeaseConfigError::Duration),
        (15_000, 15_000, 2_000, LeaseConfigError::RenewDeadline),
        (15_000, 10_000, 10_000, LeaseConfigError::Retry),
        (15_000, 10_000, 0, LeaseConfigError::Retry),
    ] {
        assert_eq!(new(duration, deadline, retry), Err(error));
    }
}
