//! Evidence before the power-off: what it may delay, and what it may not.

use super::{super::*, build::*, driver::Run, faults::Plan};

const TIMEOUT: i64 = 5;

fn collecting(mut o: Observation) -> Observation {
    policy(&mut o).evidence_timeout = secs(5);
    o
}

fn collects(o: &Observation, s: &State, now: i64) -> bool {
    let d = decide(o, Some(s), at(now));
    matches!(d.next, Next::Do(Command::CollectEvidence { .. }))
}

fn collected(o: &mut Observation) {
    let mut evidence = HostEvidence::new(0, at(2));
    evidence.set_log(&[]);
    o.collected.evidence = Some(Box::new(evidence));
}

const COLLECT: Command = Command::CollectEvidence { interrupt: None };

#[test]
fn evidence_is_collected_before_the_hold_and_recorded_once() {
    let mut o = collecting(mk_observation());
    let holding = mk_state(Step::Holding);
    assert_eq!(does(&o, &holding, 1), COLLECT);
    collected(&mut o);
    assert_eq!(does(&o, &holding, 2), Command::AddHold);
    bmh(&mut o).our_hold = true;
    let (s, _) = writes(&o, &holding, 3);
    let evidence = s.attempt.evidence.as_ref().unwrap();
    assert_eq!((s.step, evidence.attempt), (Step::PoweringOff, 1));
    // A leader that has not collected it goes on without it.
    o.collected = Collected::default();
    let (s, _) = writes(&o, &holding, 3);
    assert_eq!((s.step, s.attempt.evidence), (Step::PoweringOff, None));
}

#[test]
fn a_late_or_lost_response_delays_the_hold_by_no_more_than_the_timeout() {
    let mut o = collecting(mk_observation());
    let holding = mk_state(Step::Holding);
    // A new leader has the rest of the time, not all of it again.
    assert_eq!(does(&o, &holding, TIMEOUT - 1), COLLECT);
    let (s, _) = writes(&o, &holding, TIMEOUT);
    let missing = &s.attempt.evidence.as_ref().unwrap().missing;
    assert_eq!(missing, &["nothing was reported within 5s"]);
    assert_eq!(does(&o, &s, TIMEOUT), Command::AddHold);
    // The response was lost: it is not requested again.
    o.completed.insert(COLLECT);
    let (s, _) = writes(&o, &holding, 1);
    assert_eq!(
        s.attempt.evidence.unwrap().missing,
        ["the response was lost"]
    );
    // It is late: it is recorded, and nothing waits.
    collected(&mut o);
    assert_eq!(does(&o, &holding, 90), Command::AddHold);
    bmh(&mut o).our_hold = true;
    let (s, _) = writes(&o, &holding, 90);
    assert!(s.attempt.evidence.unwrap().missing.is_empty());
}

#[test]
fn without_an_agent_or_a_timeout_nothing_is_collected() {
    let mut o = collecting(mk_observation());
    let holding = mk_state(Step::Holding);
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    let (s, _) = writes(&o, &holding, 1);
    let missing = &s.attempt.evidence.as_ref().unwrap().missing;
    assert!(missing[0].contains("rack r1 is dark"), "{missing:?}");
    assert_eq!(does(&mk_observation(), &holding, 1), Command::AddHold);
}

#[test]
fn f2_evidence_is_not_collected_once_the_hold_is_set() {
    let o = collecting(mk_held());
    assert_eq!(
        writes(&o, &mk_state(Step::Holding), 1).0.step,
        Step::PoweringOff
    );
}

#[test]
fn f11_a_withdrawn_remediation_collects_nothing() {
    let mut o = collecting(mk_observation());
    o.object.deleting = true;
    let (s, _) = writes(&o, &mk_state(Step::Holding), 1);
    assert_eq!(s.step, Step::Aborting);
}

#[test]
fn each_attempt_collects_its_own_evidence() {
    let o = collecting(mk_direct());
    let mut s = mk_direct_state(Step::Restoring);
    s.attempt.end_reason = Some(Reason::BootTimeout);
    s.attempt.taint = None;
    let mut evidence = HostEvidence::new(1, at(0));
    evidence.boot_log = Some(BootLog::default());
    s.attempt.evidence = Some(Box::new(evidence));
    let (s, _) = writes(&o, &s, 700);
    assert_eq!(
        (s.step, s.attempt.number, s.attempt.evidence.is_none()),
        (Step::Retrying, 2, true)
    );
    let (s, _) = writes(&o, &s, 701);
    assert!(collects(&o, &s, 702));
}

fn interrupting() -> Observation {
    let mut o = collecting(mk_observation());
    policy(&mut o).diagnostic_interrupt = true;
    o.agent_id = Some(AgentId {
        agent: "a".into(),
        journal: "j".into(),
    });
    o
}

#[test]
fn f6_an_interrupt_is_pinned_before_it_is_sent() {
    let o = interrupting();
    let (s, _) = writes(&o, &mk_state(Step::Holding), 1);
    let pin = s.pinned.clone().unwrap();
    assert_eq!((s.step, pin.until), (Step::Holding, Some(at(66))));
    let Command::CollectEvidence {
        interrupt: Some(interrupt),
    } = does(&o, &s, 2)
    else {
        panic!("no interrupt");
    };
    assert_eq!(interrupt.id, pin.operation);
    assert_eq!(o.step_until(&s), Some(at(TIMEOUT)));
    // F5: the agent compares it before it sends anything.
    assert_eq!(
        (&*interrupt.system_uuid, &*interrupt.serial),
        ("4c4c4544-0042-3510-8054-c2c04f4e4e32", "SN7")
    );
    // It is of no step, so a state from before it is not outdated by it.
    let entry = JournalEntry {
        id: interrupt.id,
        host: mk_host().host,
        is_off: false,
        is_release: false,
        progress: EntryProgress::Ended,
    };
    assert!(!is_outdated(UID, Some(&s), &[entry]));
}

#[test]
fn f6_no_interrupt_is_sent_while_another_agent_may_command_the_host() {
    let o = interrupting();
    let mut s = mk_state(Step::Holding);
    s.pinned = Some(AgentPin {
        agent: AgentId {
            agent: "b".into(),
            journal: String::new(),
        },
        operation: "earlier".into(),
        until: Some(at(60)),
    });
    assert_eq!(does(&o, &s, 1), COLLECT);
}

/// It may wait at the agent although the request for evidence was answered, or its answer was lost.
#[test]
fn f6_an_interrupt_is_cancelled_before_a_withdrawn_remediation_ends() {
    let mut o = interrupting();
    let (mut s, _) = writes(&o, &mk_state(Step::Holding), 1);
    let pin = s.pinned.clone().unwrap();
    (s.step, s.mode) = (Step::Aborting, Mode::Direct);
    s.attempt.end_reason = Some(Reason::Withdrawn);
    o.object.deleting = true;
    let cancel = Command::Cancel { id: pin.operation };
    assert_eq!(does(&o, &s, 2), cancel);
    o.completed.insert(cancel.clone());
    assert_ne!(decide(&o, Some(&s), at(2)).next, Next::Do(cancel.clone()));
    // By then it has ended by itself.
    o.completed.clear();
    let over = pin.until.unwrap();
    assert_ne!(decide(&o, Some(&s), over).next, Next::Do(cancel));
}

/// The pin of the power-off replaces that of an interrupt that may still wait at the agent.
#[test]
fn f6_an_interrupt_of_unknown_outcome_is_cancelled_after_the_power_off_is_pinned() {
    let mut o = interrupting();
    let (mut s, _) = writes(&o, &mk_state(Step::Holding), 1);
    let pin = s.pinned.clone().unwrap();
    let lost = HostEvidence::not_collected(s.attempt.number, at(2), "the response was lost");
    o.collected.evidence = Some(Box::new(lost));
    (s, _) = writes(&o, &s, 2);
    // Where no interrupt was pinned, none is unknown.
    let mut unasked = mk_state(Step::Holding);
    let mut held = o.clone();
    bmh(&mut held).our_hold = true;
    (unasked, _) = writes(&held, &unasked, 2);
    assert!(!unasked.attempt.evidence.unwrap().may_have_interrupted());
    (s.step, s.mode) = (Step::Aborting, Mode::Direct);
    s.agent_holds = true;
    s.attempt.end_reason = Some(Reason::Withdrawn);
    s.pinned = Some(AgentPin {
        operation: format!("{UID}/1@0/off/0.0"),
        ..pin.clone()
    });
    o.object.deleting = true;
    let cancel = Next::Do(Command::Cancel { id: pin.operation });
    let next = |s: &State| decide(&o, Some(s), at(3)).next;
    assert_eq!(next(&s), cancel);
    let known = |interrupt: Option<&str>| HostEvidence {
        interrupt: interrupt.map(str::to_owned),
        ..HostEvidence::new(s.attempt.number, at(2))
    };
    let (begun, none) = (known(Some("sent")), known(None));
    s.attempt.evidence = Some(Box::new(begun));
    assert_eq!(next(&s), cancel);
    // Before the hold of a power-off, the pin would be that of the interrupt.
    s.agent_holds = false;
    assert_ne!(next(&s), cancel);
    s.agent_holds = true;
    s.attempt.evidence = Some(Box::new(none));
    assert_ne!(next(&s), cancel);
}

#[test]
fn the_host_has_the_rest_of_the_timeout_to_write_its_dump() {
    let mut o = interrupting();
    let (s, _) = writes(&o, &mk_state(Step::Holding), 1);
    let mut evidence = HostEvidence::new(0, at(2));
    evidence.interrupted = true;
    o.collected.evidence = Some(Box::new(evidence));
    assert_eq!(waits(&o, &s, 2), (Reason::WaitingForDump, TIMEOUT));
    let (s, _) = writes(&o, &s, TIMEOUT);
    o.collected = Collected::default();
    assert_eq!(does(&o, &s, TIMEOUT), Command::AddHold);
}

#[test]
fn the_log_of_the_boot_is_read_once_the_node_is_back_and_clean() {
    let mut o = collecting(mk_held());
    let mut s = mk_state(Step::Restoring);
    let mut evidence = HostEvidence::new(1, at(0));
    evidence.set_log(&[]);
    s.attempt.evidence = Some(Box::new(evidence));
    node(&mut o).taint = Taint::Ours;
    assert_eq!(does(&o, &s, 1), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    assert_eq!(does(&o, &s, 1), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    bmh(&mut o).powered_on = Some(true);
    node(&mut o).boot_id = "boot-2".into();
    // A health check deletes the remediation as soon as the Node is Ready.
    node(&mut o).ready = true;
    o.object.deleting = true;
    assert_eq!(does(&o, &s, 1), Command::CollectBootLog);
    o.completed.insert(Command::CollectBootLog);
    o.collected.boot_log = Some(Box::default());
    let (s, _) = writes(&o, &s, 2);
    assert_eq!(
        s.attempt.evidence.as_ref().unwrap().boot_log,
        Some(BootLog::default())
    );
    o.completed.clear();
    o.collected = Collected::default();
    assert_eq!(
        does(&o, &s, 2),
        Command::RemoveFinalizer(RemediationOutcome::Succeeded)
    );
}

#[test]
fn a_boot_log_that_cannot_be_read_prevents_nothing() {
    let mut o = collecting(mk_direct());
    let mut s = mk_direct_state(Step::Restoring);
    node(&mut o).boot_id = "boot-2".into();
    let missing = |s: &State, o: &Observation| {
        let boot_log = writes(o, s, 1)
            .0
            .attempt
            .evidence
            .unwrap()
            .boot_log
            .unwrap();
        boot_log.missing.unwrap()
    };
    s.attempt.evidence = Some(Box::new(HostEvidence::not_collected(1, at(0), "x")));
    assert!(missing(&s, &o).contains("not read before"));
    s.attempt.evidence.as_mut().unwrap().set_log(&[]);
    o.completed.insert(Command::CollectBootLog);
    assert_eq!(missing(&s, &o), "the response was lost");
    o.completed.clear();
    o.agent = AgentView::Unreachable { why: "dark".into() };
    assert!(missing(&s, &o).contains("dark"));
}

#[test]
fn a_bmc_that_hangs_delays_the_power_off_by_no_more_than_the_timeout() {
    let began = |collects: bool, silent: bool| {
        let mut plan = Plan::calm(true);
        (plan.collects, plan.silent) = (collects, silent);
        let mut run = Run::new(plan);
        let held = |run: &Run| {
            let bmh = run.world.bmh.as_ref();
            bmh.is_some_and(|bmh| bmh.our_hold)
        };
        while !held(&run) {
            run.go_until(run.world.now + 500);
        }
        run.world.now
    };
    let delay = |silent| began(true, silent) - began(false, silent);
    assert!(delay(false) <= 500, "{}", delay(false));
    assert!((4500..=5500).contains(&delay(true)), "{}", delay(true));
}
