use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    fleet::placement::{HostWorkload, Placement, PolicyFacts},
    limits::concurrency::Urgency,
    remediation::{Progress, Step, Strategy},
};

const HOUR: Duration = Duration::from_secs(3600);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-03-02T12:00:00Z")
}

fn policy(name: &str) -> PowerPolicy {
    PowerPolicy {
        name: name.to_owned(),
        ..PowerPolicy::default()
    }
}

fn rack(name: &str) -> Placement {
    Placement {
        rack: Some(name.to_owned()),
        ..Placement::default()
    }
}

fn active(uid: &str, progress: Progress, rack_name: &str) -> ActiveRemediation {
    ActiveRemediation {
        name: uid.to_owned(),
        uid: uid.to_owned(),
        created: Timestamp::default(),
        progress,
        machine: None,
        node: None,
        bmc: None,
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: PolicyFacts {
            policies: BTreeSet::from(["p".to_owned(), "w".to_owned()]),
            placement: rack(rack_name),
            workload: HostWorkload::default(),
            held_by: None,
        },
    }
}

fn decide(policies: &[PowerPolicy], subject: &Subject, now: Timestamp) -> Verdict {
    evaluate(
        policies,
        &active("z", Progress::Ready, "r1"),
        subject,
        &[],
        now,
    )
}

fn with_past(past: &[PastAttempt]) -> Subject {
    Subject {
        past: past.to_vec(),
        ..Subject::default()
    }
}

fn approved(mut subject: Subject) -> Subject {
    subject.approved = true;
    subject
}

fn past(begun: &str, succeeded: bool) -> PastAttempt {
    PastAttempt {
        begun: at(begun),
        ended: at(begun) + Duration::from_secs(60),
        succeeded,
    }
}

fn hold(verdict: Verdict) -> Hold {
    match verdict {
        Verdict::Hold(hold) => hold,
        other => panic!("not held: {other:?}"),
    }
}

fn begins(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Begin { .. })
}

fn nightly(from: &str) -> Schedule {
    Schedule::parse(from, None, 2 * HOUR).unwrap()
}

#[test]
fn remediation_without_policies_begins() {
    let verdict = decide(&[], &Subject::default(), now());
    assert_eq!(verdict, Verdict::Begin { warnings: vec![] });
}

#[test]
fn remediation_outside_of_all_windows_is_held_until_the_next_one() {
    let mut p = policy("p");
    p.windows = vec![nightly("0 22 * * *"), nightly("0 18 * * *")];
    let held = hold(decide(&[p.clone()], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Window);
    assert_eq!(held.until, Some(at("2026-03-02T18:00:00Z")));
    let inside = at("2026-03-02T19:59:59Z");
    assert!(begins(&decide(&[p], &Subject::default(), inside)));
}

#[test]
fn freeze_holds_until_it_ends() {
    let mut p = policy("p");
    p.freezes = vec![nightly("0 11 * * *")];
    let held = hold(decide(&[p.clone()], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Freeze);
    assert_eq!(held.until, Some(at("2026-03-02T13:00:00Z")));
    let end = at("2026-03-02T13:00:00Z");
    assert!(begins(&decide(&[p], &Subject::default(), end)));
}

#[test]
fn freeze_annotation_holds_without_a_time_and_is_named() {
    let mut p = policy("p");
    p.freeze_annotations = BTreeSet::from(["example.com/payroll".to_owned()]);
    let mut me = Subject::default();
    assert!(begins(&decide(&[p.clone()], &me, now())));
    me.annotations.insert("example.com/payroll".to_owned());
    let held = hold(decide(&[p], &me, now()));
    assert_eq!((held.rule, held.until), (Rule::Freeze, None));
    assert!(held.to_string().contains("example.com/payroll"), "{held}");
}

#[test]
fn freeze_stops_what_has_begun_only_before_anything_is_sent() {
    let mut p = policy("p");
    p.freeze_annotations = BTreeSet::from(["example.com/payroll".to_owned()]);
    // What only says when one may begin.
    p.windows = vec![nightly("0 22 * * *")];
    p.approval = true;
    let mut subject = Subject::default();
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    let all = std::slice::from_ref(&p);
    state.step = Step::Evicting;
    assert_eq!(
        freeze_after_beginning(all, &subject, Some(&state), now()),
        None
    );
    subject.annotations.insert("example.com/payroll".to_owned());
    for (step, strategy, stops) in [
        (Step::Pending, Strategy::Reboot, true),
        (Step::Evicting, Strategy::Reboot, true),
        // The host stays on.
        (Step::Evicting, Strategy::Evict, false),
        (Step::Holding, Strategy::Reboot, true),
        (Step::ConfirmingOff, Strategy::Reboot, false),
        (Step::PoweringOn, Strategy::Reboot, false),
    ] {
        (state.step, state.strategy) = (step, strategy);
        let held = freeze_after_beginning(all, &subject, Some(&state), now());
        assert_eq!(
            held.is_some_and(|h| h.rule == Rule::Freeze),
            stops,
            "{step:?}"
        );
    }
}

#[test]
fn approval_of_this_remediation_is_required() {
    let mut p = policy("p");
    p.approval = true;
    let mut me = Subject::default();
    let held = hold(decide(&[p.clone()], &me, now()));
    assert_eq!((held.rule, held.until), (Rule::Approval, None));
    me.approved = true;
    assert!(begins(&decide(&[p], &me, now())));
}

#[test]
fn invalid_policy_holds_what_it_selects() {
    let mut p = policy("p");
    p.invalid = Some("windows[0]: bad".to_owned());
    let held = hold(decide(&[p], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Invalid);
    assert!(held.detail.contains("windows[0]: bad"), "{held}");
}

#[test]
fn policy_that_may_select_the_host_holds_until_a_person_approves() {
    let mut me = Subject::default();
    me.assumed.insert("p".to_owned());
    let held = hold(decide(&[policy("p")], &me, now()));
    assert_eq!((held.rule, held.until), (Rule::Selection, None));
    assert!(begins(&decide(&[policy("p")], &approved(me), now())));
}

#[test]
fn history_that_cannot_be_read_holds_where_it_matters() {
    let mut p = policy("p");
    let unread = Subject {
        past_unread: Some("timeout".to_owned()),
        ..Subject::default()
    };
    assert!(begins(&decide(&[p.clone()], &unread, now())));
    p.cooldown = Some(HOUR);
    let held = hold(decide(&[p.clone()], &unread, now()));
    assert_eq!((held.rule, held.until), (Rule::Attempts, None));
    assert!(begins(&decide(&[p], &approved(unread), now())));
}

#[test]
fn budget_counts_begun_remediations_of_the_same_value_only() {
    let mut p = policy("p");
    p.budgets = vec![Budget {
        per: Domain::Rack,
        max_concurrent: 1,
    }];
    let me = active("z", Progress::Ready, "r1");
    let verdict = |other| evaluate(&[p.clone()], &me, &Subject::default(), &[&other], now());
    assert!(begins(&verdict(active("b", Progress::Begun, "r2"))));
    assert!(begins(&verdict(active("b", Progress::Waiting, "r1"))));
    let mut foreign = active("b", Progress::Begun, "r1");
    foreign.policy.policies.clear();
    assert!(begins(&verdict(foreign)));
    let held = hold(verdict(active("b", Progress::Begun, "r1")));
    assert_eq!(held.rule, Rule::Budget);
    assert_eq!(
        held.to_string(),
        "PowerPolicy p: 1 of at most 1 remediations in rack r1 are under way"
    );
}

#[test]
fn host_of_two_pdus_counts_for_both() {
    let mut p = policy("p");
    p.budgets = vec![Budget {
        per: Domain::Pdu,
        max_concurrent: 1,
    }];
    let fed_by = |pdus: &[&str]| Placement {
        pdus: pdus.iter().map(ToString::to_string).collect(),
        ..Placement::default()
    };
    let mut me = active("z", Progress::Ready, "r1");
    me.policy.placement = fed_by(&["a", "b"]);
    let mut other = active("x", Progress::Begun, "r1");
    for (pdus, free) in [(vec!["b", "c"], false), (vec!["c"], true)] {
        other.policy.placement = fed_by(&pdus);
        let verdict = evaluate(&[p.clone()], &me, &Subject::default(), &[&other], now());
        assert_eq!(begins(&verdict), free, "{pdus:?}");
    }
}

#[test]
fn host_whose_label_is_unknown_counts_for_every_value() {
    let mut p = policy("p");
    p.budgets = vec![Budget {
        per: Domain::Label("zone".to_owned()),
        max_concurrent: 1,
    }];
    let in_zone = |zone: Option<&str>| Placement {
        labels: zone.map(|zone| BTreeMap::from([("zone".to_owned(), zone.to_owned())])),
        ..Placement::default()
    };
    let mut me = active("z", Progress::Ready, "r1");
    let mut other = active("x", Progress::Begun, "r1");
    for (mine, others, free) in [
        (Some("a"), Some("b"), true),
        (Some("a"), Some("a"), false),
        (Some("a"), None, false),
        (None, Some("a"), false),
    ] {
        me.policy.placement = in_zone(mine);
        other.policy.placement = in_zone(others);
        let verdict = evaluate(&[p.clone()], &me, &Subject::default(), &[&other], now());
        assert_eq!(begins(&verdict), free, "{mine:?} {others:?}");
    }
}

#[test]
fn older_remediation_that_could_begin_takes_the_place_of_a_budget() {
    let mut p = policy("p");
    p.budgets = vec![Budget {
        per: Domain::Policy,
        max_concurrent: 1,
    }];
    let verdict = |me: &str, other: &str| {
        let me = active(me, Progress::Ready, "r1");
        let other = active(other, Progress::Ready, "r2");
        begins(&evaluate(
            &[p.clone()],
            &me,
            &Subject::default(),
            &[&other],
            now(),
        ))
    };
    assert!(verdict("a", "b"));
    assert!(!verdict("b", "a"));
}

#[test]
fn budget_is_not_evaluated_for_what_another_rule_holds() {
    let mut p = policy("p");
    p.approval = true;
    p.budgets = vec![Budget {
        per: Domain::Policy,
        max_concurrent: 0,
    }];
    let held = hold(decide(&[p], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Approval);
}

#[test]
fn cooldown_counts_from_the_end_of_the_last_success() {
    let mut p = policy("p");
    p.cooldown = Some(HOUR);
    let of = |past: &[PastAttempt]| decide(&[p.clone()], &with_past(past), now());
    assert!(begins(&of(&[past("2026-03-02T11:30:00Z", false)])));
    assert!(begins(&of(&[past("2026-03-02T10:00:00Z", true)])));
    let held = hold(of(&[past("2026-03-02T11:30:00Z", true)]));
    assert_eq!(held.until, Some(at("2026-03-02T12:31:00Z")));
}

#[test]
fn attempts_of_a_day_stop_escalate_or_notify() {
    let mut p = policy("p");
    let limit = |then| AttemptLimit {
        max: 2,
        within: 24 * HOUR,
        then,
    };
    let history = [
        past("2026-03-01T11:00:00Z", true),
        past("2026-03-01T18:00:00Z", true),
        past("2026-03-02T02:00:00Z", true),
    ];
    p.attempts = vec![limit(WhenExceeded::Stop)];
    let held = hold(decide(&[p.clone()], &with_past(&history), now()));
    assert_eq!(held.rule, Rule::Attempts);
    assert_eq!(held.until, Some(at("2026-03-02T18:00:00Z")));
    assert!(
        held.detail
            .starts_with("2 attempts on this host within 1 day"),
        "{held}"
    );
    let subject = approved(with_past(&history));
    assert!(begins(&decide(&[p.clone()], &subject, now())));
    p.attempts = vec![limit(WhenExceeded::Escalate)];
    let verdict = decide(&[p.clone()], &with_past(&history), now());
    assert!(matches!(verdict, Verdict::Exhausted(_)), "{verdict:?}");
    p.attempts = vec![limit(WhenExceeded::Notify)];
    let verdict = decide(&[p.clone()], &with_past(&history), now());
    let Verdict::Begin { warnings } = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(warnings.len(), 1);
    assert!(begins(&decide(&[p], &with_past(&history[..2]), now())));
}

#[test]
fn shared_cause_holds_until_its_time_or_approval() {
    use crate::fleet::shared_cause::{
        CauseHold, CauseSummary, Domain, DomainKind, Likely, OnTimeout, SharedCauseRules,
    };
    let mut p = policy("p");
    let cause = CauseSummary {
        domain: Domain::new(DomainKind::Rack, "r1"),
        likely: Likely::Network,
        message: "7 of 8 hosts".to_owned(),
    };
    let hold_of = |cause| CauseHold {
        cause,
        detail: "7 of 8 hosts".to_owned(),
        until: Some(at("2026-03-02T12:10:00Z")),
    };
    let mut me = Subject {
        cause_holds: BTreeMap::from([("p".to_owned(), hold_of(Some(cause)))]),
        ..Subject::default()
    };
    assert!(begins(&decide(&[p.clone()], &me, now())), "no rules");
    p.shared_causes = Some(SharedCauseRules {
        window: HOUR,
        min_hosts: 3,
        min_percent: 50,
        settling: HOUR,
        hold: HOUR,
        recovery: HOUR,
        on_timeout: OnTimeout::Proceed,
    });
    let held = hold(decide(&[p.clone()], &me, now()));
    assert_eq!(held.rule, Rule::SharedCause);
    assert_eq!(
        held.to_string(),
        "PowerPolicy p: 7 of 8 hosts; until 2026-03-02T12:10:00Z"
    );
    assert!(begins(&decide(&[p.clone()], &approved(me.clone()), now())));
    assert!(
        begins(&decide(&[policy("q")], &me, now())),
        "another policy"
    );
    me.cause_holds.insert("p".to_owned(), hold_of(None));
    let held = hold(decide(&[p], &me, now()));
    assert_eq!(held.rule, Rule::Settling);
}

#[test]
fn freeze_also_holds_what_would_be_handed_over() {
    let mut p = policy("p");
    p.freezes = vec![nightly("0 11 * * *")];
    p.attempts = vec![AttemptLimit {
        max: 0,
        within: HOUR,
        then: WhenExceeded::Escalate,
    }];
    let held = hold(decide(&[p], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Freeze);
}

#[test]
fn hold_that_needs_a_person_is_reported_before_one_that_ends() {
    let mut window = policy("w");
    window.windows = vec![nightly("0 22 * * *")];
    let mut approval = policy("p");
    approval.approval = true;
    let held = hold(decide(&[approval, window], &Subject::default(), now()));
    assert_eq!(held.rule, Rule::Approval);
}

proptest! {
    /// However remediations come, wait and end, a budget is never exceeded, and while there is a
    /// place for one that could begin, one begins.
    #[test]
    fn budget_is_exact_and_used(
        max in 0_u32..4,
        racks in prop::collection::vec(0_u8..3, 1..12),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let mut p = policy("p");
        p.budgets = vec![Budget { per: Domain::Rack, max_concurrent: max }];
        let mut all: Vec<ActiveRemediation> = racks
            .iter()
            .enumerate()
            .map(|(i, r)| active(&format!("{i:02}"), Progress::Ready, &format!("r{r}")))
            .collect();
        let mut ends = ends.into_iter();
        loop {
            let mut begun = false;
            for i in 0..all.len() {
                if all[i].progress != Progress::Ready {
                    continue;
                }
                let me = all[i].clone();
                if begins(&evaluate(&[p.clone()], &me, &Subject::default(), &all.iter().collect::<Vec<_>>(), now())) {
                    all[i].progress = Progress::Begun;
                    begun = true;
                }
            }
            for r in 0..3 {
                let count = |progress| all
                    .iter()
                    .filter(|m| m.progress == progress && m.policy.placement == rack(&format!("r{r}")))
                    .count();
                prop_assert!(count(Progress::Begun) <= max as usize);
                prop_assert!(count(Progress::Ready) == 0 || count(Progress::Begun) == max as usize);
            }
            let Some(end) = ends.next() else { break };
            let i = end.index(all.len());
            if all[i].progress == Progress::Begun {
                all[i].progress = Progress::Waiting;
            } else if !begun {
                break;
            }
        }
    }
}

#[test]
fn budget_goes_first_to_the_host_whose_workload_waits() {
    let budget = Budget {
        per: Domain::Policy,
        max_concurrent: 1,
    };
    let mut p = policy("p");
    p.budgets = vec![budget];
    let queued = |uid: &str, created: &str, workload| {
        let mut queued = active(uid, Progress::Ready, "r1");
        queued.created = at(created);
        queued.policy.workload = workload;
        queued
    };
    let idle = queued("a", "2026-03-02T11:00:00Z", HostWorkload::None);
    let replaced = queued("b", "2026-03-02T11:01:00Z", HostWorkload::Replaced);
    let waits = queued("c", "2026-03-02T11:02:00Z", HostWorkload::Waits);
    let late = queued("d", "2026-03-02T11:20:00Z", HostWorkload::Waits);
    let all = [&idle, &replaced, &waits, &late];
    let mut order = all.to_vec();
    order.sort_by_key(|queued| queued.precedence());
    assert_eq!(order, [&waits, &replaced, &idle, &late]);
    for me in all {
        let verdict = evaluate(&[p.clone()], me, &Subject::default(), &all, now());
        assert_eq!(begins(&verdict), *me == waits, "{}", me.uid);
    }
}
