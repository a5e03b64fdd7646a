//! Table and property tests of the ledger in memory.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::host_key::{HostKey, HostKeys};

const ELECTION: &str = "prod/rackhand";
const HOST: &str = "bmc-7";

type Test = Ledger<&'static str>;

/// Applies the changes of a decision, and returns its result.
fn decide<T>(ledger: &mut Test, decision: (T, Vec<Change<&'static str>>)) -> T {
    ledger.apply(decision.1);
    decision.0
}

fn leader(term: u64, sequence: u64) -> Authority {
    Authority::Controller {
        election: ELECTION.into(),
        term,
        holder: format!("pod-{term}"),
        sequence,
    }
}

fn ann() -> Authority {
    Authority::Operator { name: "ann".into() }
}

fn host() -> Host {
    Host {
        keys: HostKeys::new([HostKey::parse(HOST)]),
        ..Host::default()
    }
}

fn request(id: &str, action: Action, authority: Authority, owner: &str) -> StartRequest {
    StartRequest {
        id: id.into(),
        key: HOST.into(),
        host: "node-7".into(),
        at: host(),
        action,
        device: Device::Bmc,
        owner: owner.into(),
        authority,
        force: false,
        detail: String::new(),
        lifetime: Lifetime::default(),
        now: 1,
    }
}

fn accept(ledger: &mut Test, request: StartRequest) -> StartAnswer<&'static str> {
    let Ok(decision) = request.decide(ledger);
    decide(ledger, decision)
}

fn claim_term(ledger: &mut Test, number: u64, standby: bool) -> Result<u64, Term> {
    let asked = Term {
        number,
        holder: format!("pod-{number}"),
        standby,
        sequence: 0,
    };
    let Ok(decision) = claim(ledger, ELECTION, asked);
    decide(ledger, decision)
}

fn started(answer: &StartAnswer<&'static str>) -> bool {
    matches!(answer, StartAnswer::Started { .. })
}

fn begun(ids: &[&str]) -> Test {
    let mut ledger = Test::default();
    for id in ids {
        let off = Action::Off { hold: false };
        assert!(started(&accept(
            &mut ledger,
            request(id, off, ann(), "ann")
        )));
    }
    ledger
}

fn end(ledger: &mut Test, id: &str, now: i64) {
    let Ok(change) = finish(ledger, id, now, RecordedOutcome::Reported("done"));
    ledger.apply(change);
}

#[test]
fn f9_hold_stays_until_the_bmc_is_told_to_switch_on() {
    let holds_after = |device: Device, is_leader: bool| {
        let mut ledger = Test::default();
        claim_term(&mut ledger, 1, false).unwrap();
        let authority = |n| if is_leader { leader(1, n) } else { ann() };
        let off = request("off", Action::Off { hold: true }, authority(1), "r1");
        assert!(started(&accept(&mut ledger, off)));
        let on = StartRequest {
            device,
            ..request("on", Action::On, authority(2), "r1")
        };
        assert!(started(&accept(&mut ledger, on)));
        ledger.holds.len()
    };
    // Where the outlets are on, a remediation still switches on by the BMC, or releases.
    assert_eq!(holds_after(Device::Outlets, true), 1);
    assert_eq!(holds_after(Device::Bmc, true), 0);
    // An operator does nothing after that.
    assert_eq!(holds_after(Device::Outlets, false), 0);
    assert_eq!(holds_after(Device::Bmc, false), 0);
}

#[test]
fn interrupted_operation_ends_once_and_is_not_restarted() {
    let mut ledger = begun(&["a", "b", "c"]);
    let Ok(change) = sending(&ledger, "b", 2);
    ledger.apply(change);
    end(&mut ledger, "c", 3);
    let Ok(decision) = interrupt_running(&ledger, 4);
    assert_eq!(decide(&mut ledger, decision), ["a", "b"]);
    let outcome = |id: &str| ledger.operations[id].outcome.clone();
    let interrupted = |commands_sent| Some(RecordedOutcome::Interrupted { commands_sent });
    assert_eq!(outcome("a"), interrupted(0));
    assert_eq!(outcome("b"), interrupted(1));
    assert_eq!(outcome("c"), Some(RecordedOutcome::Reported("done")));
    let again = request("b", Action::Off { hold: false }, ann(), "ann");
    assert!(matches!(accept(&mut ledger, again), StartAnswer::Known(_)));
    let Ok((ids, changes)) = interrupt_running(&ledger, 5);
    assert!(ids.is_empty() && changes.is_empty());
}

#[test]
fn settle_writes_missed_outcomes_and_ends_orphans() {
    let mut ledger = begun(&["missed", "live", "told-otherwise"]);
    let outcomes = BTreeMap::from([("missed".to_owned(), (7, "done"))]);
    let Ok(changes) = settle(&ledger, |id| id == "live", &outcomes, 9);
    ledger.apply(changes);
    let operation = |id: &str| &ledger.operations[id];
    assert_eq!(
        operation("missed").outcome,
        Some(RecordedOutcome::Reported("done"))
    );
    assert_eq!(operation("missed").ended, 7);
    assert_eq!(operation("live").outcome, None);
    assert_eq!(
        operation("told-otherwise").outcome,
        Some(RecordedOutcome::Interrupted { commands_sent: 0 })
    );
}

#[test]
fn prune_removes_the_oldest_ended_operations_first() {
    let ids: Vec<String> = (0..20).map(|n| format!("op-{n:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut ledger = begun(&ids);
    for (id, at) in ids.iter().take(19).zip(0..) {
        end(&mut ledger, id, at);
    }
    let keep = |operations, age| Retention {
        operations,
        age: Duration::from_nanos(age),
    };
    let mut left = |keep| {
        let Ok(changes) = prune(&ledger, 18, keep);
        ledger.apply(changes);
        ledger.operations.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(left(keep(17, 100)), ids[2..]);
    assert_eq!(left(keep(17, 15)), ids[3..]);
    // A few at a time.
    assert_eq!(left(keep(0, 100)).len(), 1);
    assert_eq!(left(keep(0, 100)), ids[19..]);
}

#[test]
fn f12_older_copy_of_a_journal_is_detected() {
    let version = |instance: &str, generation| Version {
        instance: instance.into(),
        generation,
    };
    let noted = version("a", 5);
    for (found, anew) in [
        (version("a", 5), false),
        (version("a", 9), false),
        (version("a", 4), true),
        (version("b", 9), true),
        // Created just now.
        (version("b", 0), false),
    ] {
        assert_eq!(starts_anew(&found, Some(&noted)), anew, "{found:?}");
        assert!(!starts_anew(&found, None), "{found:?}");
    }
    assert_eq!(newer_copy(&noted, [("b", 9), ("a", 5)]), None);
    assert_eq!(newer_copy(&noted, [("b", 9), ("a", 6), ("a", 7)]), Some(7));
    assert_eq!(replaced(&noted, &version("a", 5)), None);
    assert_eq!(replaced(&noted, &version("a", 4)), Some(Replaced::Older));
    assert_eq!(replaced(&noted, &version("b", 5)), Some(Replaced::Other));
}

#[test]
fn f6_out_of_order_claims_are_late() {
    let claim = |standby, sequence| Term {
        number: 7,
        holder: "pod-7".into(),
        standby,
        sequence,
    };
    let mut claims = Claims::default();
    assert_eq!(claims.arrives(ELECTION, &claim(true, 4)), Arrival::New);
    claims.written(ELECTION, &claim(true, 4));
    // A serving claim in flight is superseded; the next claim changes nothing on disk.
    assert_eq!(claims.arrives(ELECTION, &claim(true, 9)), Arrival::Known);
    assert_eq!(claims.arrives(ELECTION, &claim(false, 6)), Arrival::Late);
    // A claim that is being written is not known before it is on disk.
    assert_eq!(claims.arrives(ELECTION, &claim(false, 10)), Arrival::New);
    assert_eq!(claims.arrives(ELECTION, &claim(true, 11)), Arrival::New);
    claims.written(ELECTION, &claim(false, 10));
    assert_eq!(claims.arrives(ELECTION, &claim(true, 12)), Arrival::New);
    claims.written(ELECTION, &claim(true, 12));
    assert_eq!(claims.arrives(ELECTION, &claim(true, 13)), Arrival::Known);
    // Another holder with the same term makes no claim of its holder late, in either order.
    let other = |sequence| Term {
        holder: "impostor".into(),
        ..claim(false, sequence)
    };
    assert_eq!(claims.arrives(ELECTION, &other(99)), Arrival::New);
    claims.refused(ELECTION, &other(99));
    assert_eq!(claims.arrives(ELECTION, &claim(true, 14)), Arrival::Known);
    let mut claims_of_impostor = Claims::default();
    assert_eq!(
        claims_of_impostor.arrives(ELECTION, &other(99)),
        Arrival::New
    );
    claims_of_impostor.refused(ELECTION, &other(99));
    for arrival in [Arrival::New, Arrival::Known] {
        let mine = claim(true, 15);
        assert_eq!(claims_of_impostor.arrives(ELECTION, &mine), arrival);
        claims_of_impostor.written(ELECTION, &mine);
    }
    // Terms and controllers without sequence numbers are not compared.
    assert_eq!(claims.arrives(ELECTION, &claim(true, 0)), Arrival::Known);
    let next = Term {
        number: 8,
        ..claim(true, 1)
    };
    assert_eq!(claims.arrives(ELECTION, &next), Arrival::New);
}

#[test]
fn f6_command_sent_before_the_claim_is_rejected() {
    let mut ledger = Test::default();
    let claimed = |ledger: &mut Test, standby, sequence| {
        let asked = Term {
            number: 7,
            holder: "pod-7".into(),
            standby,
            sequence,
        };
        let Ok(decision) = claim(ledger, ELECTION, asked);
        decide(ledger, decision)
    };
    assert_eq!(claimed(&mut ledger, false, 1), Ok(7));
    assert_eq!(claimed(&mut ledger, true, 3), Ok(7));
    assert_eq!(claimed(&mut ledger, false, 2).unwrap_err().sequence, 3);
    assert_eq!(claimed(&mut ledger, false, 8), Ok(7));
    // A repeated claim does not make commands in between late.
    assert_eq!(claimed(&mut ledger, false, 12), Ok(7));
    let off = |sequence| {
        let id = format!("op-{sequence}");
        request(
            &id,
            Action::Off { hold: true },
            leader(7, sequence),
            "rem-1",
        )
    };
    let late = accept(&mut ledger, off(7));
    assert!(matches!(
        late,
        StartAnswer::Refused(Refused::StaleSequence { .. })
    ));
    assert!(started(&accept(&mut ledger, off(9))));
}

#[test]
fn f6_request_after_its_latest_time_is_not_in_time() {
    let s = Duration::from_secs;
    assert!(is_in_time(None, s(9)));
    assert!(is_in_time(Some(s(9)), s(9)));
    assert!(!is_in_time(Some(s(9)), s(10)));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Claim { term: u64, standby: bool },
    Begin { term: u64, sequence: u64, on: bool },
    ByHand { on: bool, force: bool },
    Release { term: u64, sequence: u64 },
    SetBack { to: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let term = 1_u64..4;
    let sequence = 1_u64..8;
    let step = prop_oneof![
        (term.clone(), any::<bool>()).prop_map(|(term, standby)| Step::Claim { term, standby }),
        (term.clone(), sequence.clone(), any::<bool>())
            .prop_map(|(term, sequence, on)| Step::Begin { term, sequence, on }),
        (any::<bool>(), any::<bool>()).prop_map(|(on, force)| Step::ByHand { on, force }),
        (term.clone(), sequence).prop_map(|(term, sequence)| Step::Release { term, sequence }),
        term.prop_map(|to| Step::SetBack { to }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// F7: only the highest claimed term commands, with rising sequence numbers, and not on
    /// standby. A held host is not switched on by others without force.
    #[test]
    fn f7_only_the_claimed_term_commands_with_rising_sequences(steps in steps()) {
        let mut ledger = Test::default();
        let mut last = BTreeMap::new();
        for (n, step) in steps.into_iter().enumerate() {
            let known = ledger.terms.get(ELECTION).cloned().unwrap_or_default();
            let held = ledger.holds.get(HOST).map(|hold| hold.owner.clone());
            let id = format!("op-{n}");
            match step {
                Step::Claim { term, standby } => {
                    let taken = claim_term(&mut ledger, term, standby).is_ok();
                    let allowed = term > known.number
                        || (term == known.number && known.holder == format!("pod-{term}"));
                    prop_assert_eq!(taken, allowed);
                }
                Step::Begin { term, sequence, on } => {
                    let action = if on { Action::On } else { Action::Off { hold: true } };
                    let owner = format!("rem-{term}");
                    let begin = request(&id, action, leader(term, sequence), &owner);
                    if started(&accept(&mut ledger, begin)) {
                        prop_assert_eq!(term, known.number);
                        let holder = format!("pod-{term}");
                        prop_assert!(!known.standby && known.holder == holder);
                        prop_assert!(held.is_none_or(|held| held == owner));
                        let before = last.insert(term, sequence);
                        prop_assert!(before.is_none_or(|before| before < sequence));
                    }
                }
                Step::ByHand { on, force } => {
                    let action = if on { Action::On } else { Action::Off { hold: false } };
                    let by_hand = StartRequest { force, ..request(&id, action, ann(), "ann") };
                    let allowed = !on || force || held.is_none();
                    prop_assert_eq!(started(&accept(&mut ledger, by_hand)), allowed);
                    prop_assert!(!on || !allowed || ledger.holds.is_empty());
                }
                Step::Release { term, sequence } => {
                    let release = Release {
                        id,
                        key: HOST.into(),
                        at: host(),
                        authority: leader(term, sequence),
                        owner: format!("rem-{term}"),
                        force: false,
                        now: 1,
                    };
                    let Ok(decision) = release.decide(&ledger);
                    if decide(&mut ledger, decision).is_ok() {
                        let owner = format!("rem-{term}");
                        prop_assert_eq!(term, known.number);
                        prop_assert!(held.is_none_or(|held| held == owner));
                        prop_assert!(ledger.holds.is_empty());
                        last.insert(term, sequence);
                    }
                }
                Step::SetBack { to } => {
                    let asked = SetBack {
                        election: ELECTION.into(),
                        to,
                        by: "ann".into(),
                        reason: "test".into(),
                        now: 1,
                    };
                    let Ok(decision) = asked.decide(&ledger);
                    let done = decide(&mut ledger, decision).is_ok();
                    prop_assert_eq!(done, to < known.number);
                    if done {
                        last.retain(|term, _| *term <= to);
                        let Ok(checked) = check_term(&ledger, &leader(to, u64::MAX));
                        prop_assert!(checked.is_err(), "the host is not held");
                    }
                }
            }
        }
    }
}
