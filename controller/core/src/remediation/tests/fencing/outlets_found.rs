//! Outlets that were switched off after the stored state was written, which a restore of etcd has set back.

use super::{super::*, build::*};

const OUTLETS: [&str; 2] = ["a/12", "b/12"];
const ON: [Step; 3] = [Step::PoweringOn, Step::Booting, Step::Restoring];
const BEFORE: [Step; 8] = [
    Step::Pending,
    Step::Retrying,
    Step::Holding,
    Step::PoweringOff,
    Step::ConfirmingOff,
    Step::Tainting,
    Step::Draining,
    Step::Fenced,
];

/// A host whose outlets were switched off in this attempt, by the journal of its agent.
fn mk_found_in(attempt: u32) -> Observation {
    let mut o = mk_direct();
    o.outlets = OUTLETS.map(str::to_owned).to_vec();
    o.object.finalizer = true;
    o.journal.outlets_off_in = Some(attempt);
    o
}

fn entry(what: &str) -> JournalEntry {
    JournalEntry {
        id: format!("{UID}/{what}"),
        host: mk_host().host,
        is_off: what.contains("off/"),
        is_release: what.starts_with("release"),
        progress: EntryProgress::Confirmed,
    }
}

#[test]
fn f9_outlets_that_the_state_does_not_know_are_switched_on_before_the_end() {
    let o = mk_found_in(1);
    for step in BEFORE {
        let d = decide(&o, Some(&mk_direct_state(step)), at(5));
        let s = d.state;
        assert_eq!((d.next, s.step), (Next::Write, step), "{step:?}");
        let used = s.attempt.outlets.as_deref().unwrap();
        assert_eq!(
            (used.stage, used.names()),
            (OutletStage::Unproven, "a/12, b/12".into())
        );
        assert!(s.agent_holds && s.host.is_some(), "{step:?}");
        assert_eq!(s.attempt.started, at(5), "no operation id is used again");
        let [note] = d.notes.as_slice() else {
            panic!("{:?}", d.notes);
        };
        assert_eq!((note.reason, note.warning), ("OutletsFound", true));
        assert!(note.message.contains("a/12, b/12"), "{}", note.message);
    }
    for step in ON {
        let (s, reason) = writes(&o, &mk_direct_state(step), 5);
        assert_eq!(
            (s.step, s.device(), reason.label()),
            (Step::PoweringOn, PowerDevice::Outlets, "OutletsOnRunning"),
            "{step:?}"
        );
    }
    let mut s = mk_direct_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::TimedOut);
    let (s, _) = writes(&o, &s, 5);
    assert_eq!((s.step, s.device()), (Step::Aborting, PowerDevice::Outlets));
}

#[test]
fn f11_host_that_is_back_before_anything_was_begun_gets_its_outlets_back() {
    let mut o = mk_found_in(1);
    node(&mut o).ready = true;
    for step in [Step::Pending, Step::Retrying, Step::Holding] {
        let mut s = mk_direct_state(step);
        s.node_was_down = true;
        let (s, _) = writes(&o, &s, 5);
        o.journal = JournalFacts::default();
        let (s, _) = writes(&o, &s, 6);
        assert_eq!(
            (s.step, s.device()),
            (Step::PoweringOn, PowerDevice::Outlets),
            "{step:?}"
        );
        o.journal.outlets_off_in = Some(1);
    }
}

#[test]
fn f9_withdrawn_remediation_returns_outlets_that_were_found_before_anything_was_begun() {
    let mut o = mk_found_in(1);
    o.object.deleting = true;
    let (s, _) = writes(&o, &mk_direct_state(Step::Pending), 5);
    o.journal = JournalFacts::default();
    let (s, _) = writes(&o, &s, 6);
    assert_eq!((s.step, s.device()), (Step::Aborting, PowerDevice::Outlets));
    // What has no finalizer is gone at once; the hold at the agent is what is left.
    let mut o = mk_found_in(1);
    (o.object.deleting, o.object.finalizer) = (true, false);
    let d = decide(&o, Some(&mk_direct_state(Step::Pending)), at(5));
    assert_eq!(d.next, Next::Done(RemediationOutcome::Withdrawn));
    o.object.deleting = false;
    assert_eq!(
        does(&o, &mk_direct_state(Step::Pending), 5),
        Command::AddFinalizer
    );
}

#[test]
fn f12_outdated_state_ends_with_the_outlets_on() {
    let mut o = mk_found_in(1);
    o.journal.is_outdated = true;
    for known in [false, true] {
        let mut s = mk_direct_state(Step::PoweringOff);
        if known {
            s.attempt.outlets = Some(Box::new(OutletUse {
                outlets: o.outlets.clone(),
                because: "no answer".into(),
                stage: OutletStage::Off,
            }));
        }
        let (s, reason) = writes(&o, &s, 5);
        assert_eq!(
            (s.step, s.device(), reason),
            (Step::Aborting, PowerDevice::Outlets, Reason::StateOutdated)
        );
    }
}

#[test]
fn outlets_that_the_state_knows_or_has_returned_are_not_taken_over_again() {
    let unchanged = |o: &Observation, s: &State, what: &str| {
        let d = decide(o, Some(s), at(5));
        assert!(
            d.state.attempt.outlets == s.attempt.outlets,
            "{what}: {:?}",
            d.state.attempt.outlets
        );
        assert!(
            d.notes.iter().all(|note| note.reason != "OutletsFound"),
            "{what}"
        );
    };
    let o = mk_found_in(1);
    for stage in [
        OutletStage::Unproven,
        OutletStage::Refuted,
        OutletStage::Restored,
    ] {
        let mut s = mk_direct_state(Step::Draining);
        s.attempt.outlets = Some(Box::new(OutletUse {
            outlets: o.outlets.clone(),
            because: "no answer".into(),
            stage,
        }));
        unchanged(&o, &s, &format!("{stage:?}"));
    }
    let mut later = mk_direct_state(Step::PoweringOff);
    later.attempt.number = 2;
    unchanged(&o, &later, "an earlier attempt");
    let mut o = mk_found_in(1);
    o.outlets.clear();
    unchanged(
        &o,
        &mk_direct_state(Step::PoweringOff),
        "no inventory names them",
    );
}

#[test]
fn journals_tell_which_attempt_may_have_left_outlets_off() {
    let off_in = |newest_first: &[&str]| {
        let entries: Vec<_> = newest_first.iter().map(|what| entry(what)).collect();
        JournalFacts::of(UID, None, &[Vec::new(), entries]).outlets_off_in
    };
    let cut = "2@9/outlets-off/0.1";
    for (newest_first, expected) in [
        (vec![], None),
        (vec!["1@5/off/0.0"], None),
        (vec![cut, "2@9/off/0.0"], Some(2)),
        (vec!["2@9/off/0.2", cut], Some(2)),
        (vec!["2@9/outlets-on/0.0", cut], Some(2)),
        (vec!["2@9/on/0.1", "2@9/outlets-on/0.0", cut], None),
        (vec!["2@9/undo/0.1", "2@9/outlets-undo/0.0", cut], None),
        (vec!["release/7", cut], None),
        (vec!["2@9/nmi/0.0", cut], Some(2)),
    ] {
        assert_eq!(off_in(&newest_first), expected, "{newest_first:?}");
    }
}

#[test]
fn state_that_says_it_needs_no_journal_any_more() {
    let mut shell = Shell::new(UID);
    let journals = [vec![entry("1@5/outlets-off/0.1")]];
    shell
        .read_state(Ok(Some(mk_direct_state(Step::PoweringOff))))
        .unwrap();
    shell.journals_read(&journals);
    assert_eq!(
        shell
            .observed(mk_observation(), at(5))
            .journal
            .outlets_off_in,
        Some(1)
    );
    let taken_over = decide(&mk_found_in(1), shell.state.as_ref(), at(5)).state;
    shell.written(Some(&taken_over));
    assert_eq!(
        shell
            .observed(mk_observation(), at(5))
            .journal
            .outlets_off_in,
        None
    );
    // A write that failed: the state is read, and compared, again.
    shell.write_failed();
    shell
        .read_state(Ok(Some(mk_direct_state(Step::PoweringOff))))
        .unwrap();
    assert_eq!(shell.journal, None);
}
