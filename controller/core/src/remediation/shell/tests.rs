use std::time::Duration;

use super::*;
use crate::remediation::{CommandTaken, OffProof, OperationOutcome, PowerReading, PowerState};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn mk_state(step: Step) -> State {
    let mut state = State::new(NOW);
    state.step = step;
    state
}

fn mk_shell(step: Step) -> Shell {
    let mut shell = Shell::new("r1");
    assert_eq!(shell.read_state(Ok(Some(mk_state(step)))), Ok(()));
    shell
}

fn mk_host() -> HostRef {
    HostRef {
        rack: "r".into(),
        host: "h".into(),
        bmh: None,
        bmc: String::new(),
    }
}

fn mk_agent() -> AgentId {
    AgentId {
        agent: "a".into(),
        journal: "j".into(),
    }
}

fn mk_unknown(stands_by: bool) -> OperationEvent {
    OperationEvent::Unknown {
        by: mk_agent(),
        stands_by,
    }
}

/// The facts about the agent, without a query.
fn known(shell: &mut Shell) -> Option<AgentFacts> {
    shell.agent(Some(&mk_host()), Ok(mk_agent()), false)
}

fn finished(outcome: OperationOutcome) -> OperationView {
    OperationView::Finished {
        outcome,
        commands_sent: 1,
    }
}

#[test]
fn f12_operation_is_unknown_until_its_agent_has_answered() {
    let mut shell = mk_shell(Step::PoweringOff);
    assert_eq!(known(&mut shell), None);
    assert!(shell.follow().is_some());
    assert_eq!(shell.follow(), None, "its events are received already");
    let silent = shell.agent(Some(&mk_host()), Ok(mk_agent()), true).unwrap();
    assert!(matches!(silent.agent, AgentView::Unreachable { .. }));
    assert_eq!(silent.agent_id, Some(mk_agent()));

    shell.operation_event(mk_unknown(false));
    let answered = known(&mut shell).unwrap();
    assert_eq!(
        (answered.agent, answered.operation),
        (AgentView::Ready, None)
    );
    assert_eq!(shell.unknown_to(), Some(mk_agent()));
    // The answer no longer counts once the operation was begun, or may have been.
    for begun in [Begun::Accepted, Begun::Unclear] {
        shell.operation_event(mk_unknown(false));
        shell.began(begun);
        assert_eq!(known(&mut shell), None);
        assert_eq!(shell.unknown_to(), None);
    }
}

#[test]
fn f6_unknown_operation_at_an_agent_that_no_longer_serves_counts_only_if_it_stands_by() {
    let other = || AgentId {
        agent: "b".into(),
        journal: "k".into(),
    };
    for stands_by in [false, true] {
        let mut shell = mk_shell(Step::PoweringOff);
        known(&mut shell);
        shell.follow();
        shell.operation_event(mk_unknown(stands_by));
        assert!(known(&mut shell).is_some(), "its agent serves the rack");
        let taken_over = shell.agent(Some(&mk_host()), Ok(other()), false);
        assert_eq!(taken_over.is_some(), stands_by);
        assert_eq!(shell.unknown_to().is_some(), stands_by);
    }
}

#[test]
fn lost_connection_keeps_only_a_received_outcome() {
    for (view, remains) in [
        (OperationView::Running, false),
        (finished(OperationOutcome::Interrupted), true),
    ] {
        for event in [OperationEvent::Lost, OperationEvent::Ended] {
            let mut shell = mk_shell(Step::PoweringOff);
            known(&mut shell);
            shell.follow();
            shell.operation_event(OperationEvent::View(view.clone()));
            shell.operation_event(event);
            assert!(!shell.is_following());
            assert_eq!(known(&mut shell).is_some(), remains, "{view:?}");
            let host = mk_host();
            let down = shell.agent(Some(&host), Err("silent".into()), false);
            assert_eq!(down.unwrap().operation.is_some(), remains);
        }
    }
}

#[test]
fn operation_of_a_previous_step_is_not_reused() {
    let mut shell = mk_shell(Step::PoweringOff);
    known(&mut shell);
    shell.operation_event(OperationEvent::View(finished(OperationOutcome::Cancelled)));
    assert!(known(&mut shell).is_some());
    shell.written(Some(&mk_state(Step::PoweringOn)));
    let down = shell.agent(Some(&mk_host()), Err("silent".into()), false);
    assert_eq!(down.unwrap().operation, None);
    assert_eq!(
        known(&mut shell),
        None,
        "the operation has not been queried"
    );
}

#[test]
fn new_state_clears_completed_commands() {
    let done = |shell: &mut Shell| {
        shell.done(&Command::Release);
        assert!(!shell.completed.is_empty());
    };
    let mut shell = mk_shell(Step::PoweringOn);
    done(&mut shell);
    shell.written(Some(&mk_state(Step::PoweringOn)));
    assert!(!shell.completed.is_empty(), "the same state");
    shell.written(Some(&mk_state(Step::Aborting)));
    assert!(shell.completed.is_empty());
    // The write took effect, and its response was lost.
    done(&mut shell);
    shell.write_failed();
    assert_eq!(shell.read_state(Ok(Some(mk_state(Step::Booting)))), Ok(()));
    assert!(shell.completed.is_empty());
}

#[test]
fn f8_unparsable_state_is_restored_only_by_the_process_that_wrote_it() {
    let damaged = || Err("damaged".to_owned());
    let mut new = Shell::new("r1");
    assert_eq!(new.read_state(damaged()), damaged().map(drop));
    assert!(!new.loaded);
    let mut writer = mk_shell(Step::Draining);
    writer.write_failed();
    assert_eq!(writer.read_state(damaged()), Ok(()));
    let step = |state: &State| state.step;
    let restored = writer.state_to_restore(&damaged()).map(step);
    assert_eq!(restored, Some(Step::Draining));
    let restored = writer.state_to_restore(&Ok(None)).map(step);
    assert_eq!(restored, Some(Step::Draining));
    let stored = Ok(writer.state.clone());
    assert_eq!(writer.state_to_restore(&stored), None);
}

#[test]
fn repeated_commands_and_failures_are_paused() {
    let mut shell = mk_shell(Step::Tainting);
    let did = || Turn::Did(Command::ReadPower);
    assert_eq!(shell.turned(did(), NOW), Pace::Now);
    assert_eq!(shell.turned(did(), NOW), Pace::Pause(REPEAT_PAUSE));
    assert_eq!(shell.turned(Turn::Again, NOW), Pace::Now);
    assert_eq!(shell.turned(did(), NOW), Pace::Now);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        match shell.turned(Turn::Failed, NOW) {
            Pace::Pause(pause) => pauses.push(pause.as_millis()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pauses, [400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
    assert_eq!(
        shell.turned(did(), NOW),
        Pace::Now,
        "a failure is no command"
    );
    assert_eq!(shell.failures, 0);
}

#[test]
fn l1_waits_are_capped_by_the_resync_interval() {
    let s = Duration::from_secs;
    let mut shell = mk_shell(Step::Draining);
    for (until, slept) in [
        (None, s(10)),
        (Some(NOW + s(3)), s(3)),
        (Some(NOW + s(60)), s(10)),
        (Some(NOW - s(1)), s(0)),
    ] {
        assert_eq!(shell.turned(Turn::Wait(until), NOW), Pace::Sleep(slept));
    }
}

#[test]
fn f1_taint_requires_a_reading_of_this_process() {
    let mut shell = mk_shell(Step::Tainting);
    assert!(shell.reading_stands(NOW).is_err());
    let mut state = mk_state(Step::Tainting);
    state.attempt.off = Some(crate::remediation::OffEvidence::Bmc {
        at: NOW,
        readings: Vec::new(),
        taken: CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
            updates_unknown: None,
        },
    });
    shell.written(Some(&state));
    assert!(shell.reading_stands(NOW).is_err(), "the BMC was not read");
    let reading = PowerReading {
        state: PowerState::Off,
        raw: "Off".into(),
        protocol: "Redfish".into(),
        identity: String::new(),
        at: NOW,
        since_start_ms: 0,
        bmc: "b".into(),
    };
    shell.power = Some(PowerView {
        asked: NOW,
        answered: NOW,
        lease: None,
        result: Ok(reading),
    });
    assert_eq!(shell.reading_stands(NOW), Ok(()));
    assert!(shell.reading_stands(NOW + Duration::from_secs(60)).is_err());
}

#[test]
fn f12_unnamed_machine_is_looked_up_before_begin_and_once_before_end() {
    let mut shell = mk_shell(Step::Escalated);
    let mut decision = Decision {
        state: mk_state(Step::Escalated),
        next: super::super::Next::Write,
        reason: super::super::Reason::Working,
        notes: Vec::new(),
        begins: false,
    };
    assert!(shell.seeks_machine(&decision));
    shell.sought_machine(&decision);
    assert!(!shell.seeks_machine(&decision));
    decision.begins = true;
    shell.sought_machine(&decision);
    assert!(shell.seeks_machine(&decision));
}

#[test]
fn credentials_are_used_again_for_a_minute_and_never_after_a_refusal() {
    let at = |seconds: i64| NOW + jiff::SignedDuration::from_secs(seconds);
    let mut shell = mk_shell(Step::PoweringOff);
    assert!(shell.may_use_credentials(NOW, at(59)));
    assert!(!shell.may_use_credentials(NOW, at(60)));
    assert!(!shell.may_use_credentials(at(1), NOW), "set back");
    shell.turned(Turn::Failed, NOW);
    assert!(!shell.may_use_credentials(NOW, NOW), "a call failed");
    shell.turned(Turn::Again, NOW);
    assert!(shell.may_use_credentials(NOW, NOW));
    let refused = PowerView {
        asked: NOW,
        answered: NOW,
        lease: None,
        result: Err("401 Unauthorized".into()),
    };
    shell.power = Some(refused);
    assert!(!shell.may_use_credentials(NOW, NOW), "a reading failed");
    shell.power = None;
    if let Some(state) = &mut shell.state {
        state.failure = Some("the BMC refuses the password".into());
    }
    assert!(!shell.may_use_credentials(NOW, NOW), "an operation failed");
}

#[test]
fn what_the_api_server_puts_off_waits_as_long_as_it_asks_and_comes_back_one_after_another() {
    let put_off = |uid: &str, seconds, times: u32| {
        let mut shell = Shell::new(uid);
        let mut pace = Pace::Now;
        for _ in 0..times {
            pace = shell.turned(Turn::PutOff(Duration::from_secs(seconds)), NOW);
        }
        match pace {
            Pace::Pause(pause) => pause,
            other => panic!("{other:?}"),
        }
    };
    let pauses: std::collections::BTreeSet<Duration> = (0..100)
        .map(|n| put_off(&format!("uid-{n}"), 4, 1))
        .collect();
    let second = |n| Duration::from_secs(n);
    assert!(
        pauses.iter().all(|p| (second(4)..second(8)).contains(p)),
        "{pauses:?}"
    );
    assert!(pauses.len() > 20, "{} of 64 parts", pauses.len());
    // It backs off by itself if the API server asks for less, and is not put off for ever.
    assert!(put_off("u", 0, 9) >= second(10));
    assert!(put_off("u", 86_400, 1) < second(60));
    assert_eq!(put_off("u", 4, 1), put_off("u", 4, 1));
}
