use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn rules() -> SharedCauseRules {
    SharedCauseRules {
        window: Duration::from_secs(120),
        min_hosts: 3,
        min_percent: 50,
        settling: Duration::from_secs(10),
        hold: Duration::from_secs(600),
        recovery: Duration::from_secs(180),
        on_timeout: OnTimeout::Proceed,
    }
}

fn name(host: usize) -> HostName {
    format!("local/n{host:03}").into()
}

fn rack(number: usize) -> Domain {
    Domain::new(DomainKind::Rack, format!("rack-{number}"))
}

fn cluster() -> Domain {
    Domain::new(DomainKind::Cluster, "local")
}

/// `racks` racks of `each` hosts, all of one cluster.
fn fleet(racks: usize, each: usize) -> Failures {
    let mut failures = Failures::default();
    for host in 0..racks * each {
        let domains = BTreeSet::from([rack(host / each), cluster()]);
        failures.place(&name(host), domains);
    }
    failures
}

fn fail(failures: &mut Failures, hosts: impl IntoIterator<Item = usize>, from: i64) {
    for (n, host) in hosts.into_iter().enumerate() {
        let time = at(from + i64::try_from(n).unwrap() * 5);
        failures.fail(&name(host), time, time);
    }
}

fn judged(failures: &Failures, before: &Judgement, now: i64) -> Judgement {
    judge(failures, &rules(), before, &BTreeMap::new(), at(now))
}

fn domains(judgement: &Judgement) -> Vec<String> {
    let domains = judgement.causes.keys().map(ToString::to_string);
    domains.collect()
}

fn held(judgement: &Judgement, failures: &Failures, host: usize, now: i64) -> Option<CauseHold> {
    judgement.hold(failures, &rules(), &name(host), true, at(now))
}

#[test]
fn failures_of_a_rack_within_the_window_are_one_cause_with_its_arithmetic() {
    let mut failures = fleet(4, 8);
    fail(&mut failures, 8..15, 100);
    let readings = (8..15).map(|host| (name(host), BmcReading::On)).collect();
    let judgement = judge(
        &failures,
        &rules(),
        &Judgement::default(),
        &readings,
        at(140),
    );
    assert_eq!(domains(&judgement), ["rack rack-1"]);
    let cause = &judgement.causes[&rack(1)];
    assert_eq!(cause.likely(), Likely::Network);
    assert_eq!(
        cause.to_string(),
        "7 of 8 hosts of rack rack-1 failed within 30s; all 7 BMCs that were read answer and report power on: \
         the network is likelier than 7 failed hosts"
    );
    let hold = held(&judgement, &failures, 8, 141).unwrap();
    let summary = hold.cause.as_ref().unwrap();
    assert_eq!(
        (&summary.domain, summary.likely),
        (&rack(1), Likely::Network)
    );
    assert_eq!(summary.message, cause.to_string());
    assert_eq!(hold.until, Some(at(741)));
    assert!(
        hold.detail.contains("7 of 8 hosts") && hold.detail.contains("kubectl rackhand approve"),
        "{hold:?}"
    );
    assert_eq!(
        held(&judgement, &failures, 0, 141).map(|h| h.cause),
        Some(None)
    );
}

#[test]
fn few_or_slow_or_scattered_failures_are_no_cause() {
    for hosts in [
        vec![(8, 100), (9, 105)],
        vec![(8, 100), (9, 105), (10, 110)],
        vec![(8, 0), (9, 200), (10, 400), (11, 600)],
        vec![(0, 100), (8, 101), (16, 102), (24, 103)],
    ] {
        let mut failures = fleet(4, 8);
        for (host, time) in hosts {
            failures.fail(&name(host), at(time), at(time));
        }
        let judgement = judged(&failures, &Judgement::default(), 700);
        assert!(judgement.causes.is_empty(), "{judgement:?}");
        assert_eq!(held(&judgement, &failures, 8, 700), None);
    }
}

#[test]
fn dark_racks_are_causes_of_their_own_unless_the_cluster_explains_more() {
    let mut failures = fleet(3, 8);
    fail(&mut failures, 0..16, 100);
    let two = judged(&failures, &Judgement::default(), 200);
    assert_eq!(domains(&two), ["rack rack-0", "rack rack-1"]);
    fail(&mut failures, 16..23, 110);
    let mut before = two;
    assert!(before.begin_hold(&failures, &name(3), at(210)));
    let all = judged(&failures, &before, 220);
    assert_eq!(domains(&all), ["cluster local"]);
    // The hold does not begin again with the wider cause.
    assert_eq!(all.causes[&cluster()].held_since, Some(at(210)));
}

#[test]
fn pdu_that_feeds_the_failed_hosts_explains_them_better_than_their_rack() {
    let mut failures = Failures::default();
    let pdu = |host: usize| Domain::new(DomainKind::Pdu, format!("pdu-{}", host % 2));
    for host in 0..8 {
        failures.place(&name(host), BTreeSet::from([rack(0), cluster(), pdu(host)]));
    }
    fail(&mut failures, [0, 2, 4, 6], 100);
    let judgement = judged(&failures, &Judgement::default(), 200);
    assert_eq!(domains(&judgement), ["PDU pdu-0"]);
    assert!(held(&judgement, &failures, 2, 200).is_some());
}

#[test]
fn host_of_two_pdus_shares_both_together() {
    let fed_by = |pdus: &[&str]| Placement {
        rack: Some("r1".to_owned()),
        cluster: Some("local".to_owned()),
        kernel: Some("6.8".to_owned()),
        pdus: pdus.iter().map(ToString::to_string).collect(),
        ..Placement::default()
    };
    let named = |pdus: &[&str]| {
        let domains = Domain::of(&fed_by(pdus)).into_iter();
        domains.map(|domain| domain.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        named(&["a", "b"]),
        [
            "rack r1",
            "PDU a and b",
            "kernel 6.8 of cluster local",
            "cluster local"
        ]
    );
    assert_eq!(named(&["a"])[1], "PDU a");
    assert_eq!(named(&[]).len(), 3);
}

#[test]
fn domains_with_the_same_hosts_are_named_together() {
    let mut failures = Failures::default();
    let switch = Domain::new(DomainKind::Switch, "sw-7");
    for host in 0..4 {
        failures.place(&name(host), BTreeSet::from([rack(0), switch.clone()]));
    }
    fail(&mut failures, 0..4, 100);
    let judgement = judged(&failures, &Judgement::default(), 200);
    let text = judgement.causes[&rack(0)].to_string();
    assert!(text.contains("the same hosts share switch sw-7"), "{text}");
}

#[test]
fn kernel_explains_failures_that_follow_a_rollout() {
    let mut failures = Failures::default();
    let kernel = |host: usize| {
        let version = if host.is_multiple_of(6) { "6.9" } else { "6.8" };
        Domain::new(DomainKind::Kernel, format!("{version} of cluster local"))
    };
    for host in 0..24 {
        failures.place(
            &name(host),
            BTreeSet::from([rack(host / 8), cluster(), kernel(host)]),
        );
    }
    for (host, time) in [(0, 0), (6, 1_400)] {
        failures.fail(&name(host), at(time), at(time));
    }
    let judgement = judged(&failures, &Judgement::default(), 1_500);
    assert_eq!(domains(&judgement), ["kernel 6.9 of cluster local"]);
    // Where all Nodes run it, it explains nothing.
    for host in 0..24 {
        let domains = BTreeSet::from([rack(host / 8), cluster(), kernel(0)]);
        failures.place(&name(host), domains);
    }
    let judgement = judged(&failures, &Judgement::default(), 1_500);
    assert!(judgement.causes.is_empty(), "{judgement:?}");
}

#[test]
fn readings_of_the_bmcs_tell_what_is_likely() {
    use BmcReading::{AgentLost, NoResponse, Off, On};
    let mut failures = fleet(2, 4);
    fail(&mut failures, 0..4, 100);
    let likely = |readings: [BmcReading; 4]| {
        let readings = readings.into_iter().enumerate();
        let readings = readings
            .map(|(host, reading)| (name(host), reading))
            .collect();
        let before = Judgement::default();
        let judgement = judge(&failures, &rules(), &before, &readings, at(200));
        judgement.causes[&rack(0)].likely()
    };
    assert_eq!(likely([On, On, On, NoResponse]), Likely::Network);
    assert_eq!(likely([NoResponse, NoResponse, Off, On]), Likely::PowerLoss);
    assert_eq!(likely([Off; 4]), Likely::PowerLoss);
    assert_eq!(likely([AgentLost; 4]), Likely::RackUnreachable);
    let cause = |kind| {
        let mut bmcs = BmcCounts::default();
        bmcs.add(NoResponse);
        Cause {
            domain: Domain::new(kind, "x"),
            bmcs,
            ..judged(&failures, &Judgement::default(), 200).causes[&rack(0)].clone()
        }
    };
    // A switch may carry the BMCs as well.
    assert_eq!(cause(DomainKind::Switch).likely(), Likely::Network);
    assert_eq!(cause(DomainKind::Cluster).likely(), Likely::PowerLoss);
}

#[test]
fn failure_waits_for_a_judgement_that_is_later_than_its_settling_time() {
    let mut failures = fleet(2, 8);
    assert_eq!(
        held(&Judgement::default(), &failures, 0, 100).map(|h| h.cause),
        Some(None)
    );
    let early = judged(&failures, &Judgement::default(), 99);
    failures.fail(&name(0), at(100), at(100));
    // Its Node is not Ready, and the failure is not in the judgement.
    let hold = held(&early, &failures, 0, 105).unwrap();
    assert_eq!((hold.cause, hold.until), (None, Some(at(110))));
    let judgement = judged(&failures, &early, 109);
    assert!(held(&judgement, &failures, 0, 200).is_some());
    let judgement = judged(&failures, &early, 110);
    assert_eq!(held(&judgement, &failures, 0, 110), None);
    // A Node that is Ready has no failure that others could share.
    assert_eq!(
        judgement.hold(&failures, &rules(), &name(1), false, at(110)),
        None
    );
}

#[test]
fn hold_ends_after_its_time_or_waits_for_a_person() {
    let mut failures = fleet(2, 8);
    fail(&mut failures, 0..8, 100);
    let mut judgement = judged(&failures, &Judgement::default(), 200);
    assert!(judgement.begin_hold(&failures, &name(0), at(300)));
    assert!(!judgement.begin_hold(&failures, &name(1), at(400)));
    assert!(held(&judgement, &failures, 5, 899).is_some());
    assert_eq!(held(&judgement, &failures, 5, 900), None);
    // The time is kept while the cause stays open.
    let later = judged(&failures, &judgement, 5_000);
    assert_eq!(held(&later, &failures, 5, 5_000), None);
    let stop = SharedCauseRules {
        on_timeout: OnTimeout::Stop,
        ..rules()
    };
    let hold = later
        .hold(&failures, &stop, &name(5), true, at(5_000))
        .unwrap();
    assert_eq!(hold.until, None);
    assert!(
        hold.detail.contains("it is held until fewer than 4"),
        "{hold:?}"
    );
    // A host that fails later has its own time.
    failures.recover(&name(7));
    failures.fail(&name(7), at(5_000), at(5_000));
    let later = judged(&failures, &later, 5_010);
    let hold = held(&later, &failures, 7, 5_020).unwrap();
    assert_eq!(hold.until, Some(at(5_600)));
}

#[test]
fn cause_ends_when_most_hosts_have_been_back_for_a_while() {
    let mut failures = fleet(2, 8);
    fail(&mut failures, 0..7, 100);
    let open = judged(&failures, &Judgement::default(), 200);
    for host in 0..3 {
        failures.recover(&name(host));
    }
    let half = judged(&failures, &open, 210);
    assert_eq!(half.causes[&rack(0)].few_since, None);
    failures.recover(&name(3));
    let few = judged(&failures, &half, 220);
    let cause = &few.causes[&rack(0)];
    assert_eq!(
        (cause.few_since, cause.failed, cause.still_failed),
        (Some(at(220)), 7, 3)
    );
    assert!(held(&few, &failures, 5, 399).is_some());
    let ended = judged(&failures, &few, 400);
    assert!(ended.causes.is_empty());
    assert_eq!(held(&ended, &failures, 5, 400), None);
}

#[test]
fn cause_of_an_earlier_leader_stays_until_its_hosts_are_known() {
    let mut failures = fleet(2, 8);
    fail(&mut failures, 0..7, 100);
    let before = judged(&failures, &Judgement::default(), 150);
    let since = before.causes[&rack(0)].since;
    let unknown = Failures::default();
    let kept = judged(&unknown, &before, 151);
    assert_eq!(kept.causes[&rack(0)].still_failed, 7);
    let known = judged(&failures, &kept, 160);
    let cause = &known.causes[&rack(0)];
    assert_eq!((cause.since, cause.few_since), (since, None));
    assert!(judged(&fleet(2, 8), &kept, 152).causes.is_empty());
    assert!(!judged(&unknown, &kept, 330).causes.is_empty());
    assert!(judged(&unknown, &kept, 331).causes.is_empty());
}

#[test]
fn sample_is_bounded_and_distributed() {
    let mut failures = fleet(1, 400);
    fail(&mut failures, 0..20, 100);
    let mut cause = judge(
        &failures,
        &SharedCauseRules {
            min_percent: 1,
            ..rules()
        },
        &Judgement::default(),
        &BTreeMap::new(),
        at(300),
    )
    .causes[&rack(0)]
        .clone();
    let sample = Judgement::sample(&failures, &cause);
    assert_eq!(sample.len(), 10);
    assert_eq!(sample.last(), Some(&name(18)));
    cause.first = at(190);
    assert_eq!(Judgement::sample(&failures, &cause).len(), 1);
}

#[test]
fn observed_failures_are_found_by_the_time_of_their_observation() {
    let mut failures = fleet(1, 4);
    fail(&mut failures, 0..4, 100);
    let observed = |from, until| {
        let found = failures.observed(at(from), at(until));
        found.cloned().collect::<Vec<_>>()
    };
    assert_eq!(observed(100, 110), [name(1), name(2)]);
    assert!(observed(110, 110).is_empty());
    assert!(observed(120, 110).is_empty());
}

proptest! {
    /// However hosts are placed, fail and recover, the counts are those of the hosts.
    #[test]
    fn counts_are_those_of_the_hosts(
        changes in prop::collection::vec((0_usize..12, 0_usize..5), 0..80),
    ) {
        let mut failures = Failures::default();
        let mut expected: BTreeMap<usize, (Option<usize>, bool)> = BTreeMap::new();
        for (time, (host, change)) in changes.into_iter().enumerate() {
            let now = at(i64::try_from(time).unwrap());
            match change {
                0 => {
                    failures.remove(&name(host));
                    expected.remove(&host);
                }
                1 => {
                    failures.fail(&name(host), now, now);
                    expected.entry(host).or_default().1 = true;
                }
                2 => {
                    failures.recover(&name(host));
                    if let Some(known) = expected.get_mut(&host) {
                        known.1 = false;
                    }
                }
                to => {
                    failures.place(&name(host), BTreeSet::from([rack(to)]));
                    expected.entry(host).or_default().0 = Some(to);
                }
            }
        }
        for number in 3..5 {
            let here: Vec<bool> = expected
                .values()
                .filter(|(place, _)| *place == Some(number))
                .map(|(_, failed)| *failed)
                .collect();
            prop_assert_eq!(failures.total(&rack(number)) as usize, here.len());
            let failed = here.iter().filter(|failed| **failed).count();
            prop_assert_eq!(failures.failed(&rack(number)).len(), failed);
        }
        for (host, (_, failed)) in &expected {
            prop_assert_eq!(failures.of_host(&name(*host)).is_some(), *failed);
        }
    }

    /// Every hold of a policy that proceeds ends within its time, whatever fails and recovers (L1); and
    /// no cause is judged with fewer failed hosts than the rules demand.
    #[test]
    fn every_hold_ends(
        changes in prop::collection::vec((0_usize..24, any::<bool>()), 1..60),
    ) {
        let mut failures = fleet(3, 8);
        let mut judgement = Judgement::default();
        let mut now = 100;
        for (host, fails) in changes {
            now += 7;
            if fails {
                failures.fail(&name(host), at(now), at(now));
            } else {
                failures.recover(&name(host));
            }
            judgement = judged(&failures, &judgement, now);
            for cause in judgement.causes.values() {
                prop_assert!(cause.failed >= 3, "{cause}");
                prop_assert!(cause.failed <= cause.total, "{cause}");
            }
            for host in 0..24 {
                judgement.begin_hold(&failures, &name(host), at(now));
            }
        }
        let end = now + 601;
        judgement = judged(&failures, &judgement, end);
        for host in 0..24 {
            let failing = failures.of_host(&name(host)).is_some();
            let hold = judgement.hold(&failures, &rules(), &name(host), failing, at(end));
            prop_assert_eq!(hold, None);
        }
    }
}
