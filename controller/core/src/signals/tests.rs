use std::sync::Arc;

use super::*;
use crate::{
    fleet::shared_cause::HostName,
    remediation::{LeaseFacts, LeaseMemory, PowerState},
};

const HOST: &str = "rack-a/h1";
/// When the host was read on last, and off for the first time. Its Lease was renewed a second before that.
const ON: i64 = 100;
const OFF: i64 = 104;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn mk_reading(observation: u64, state: PowerState, second: i64) -> WatchedReading {
    WatchedReading {
        observation,
        state,
        at: at(second),
    }
}

/// A reading by its observation, state and second.
type ReadingOf = (u64, PowerState, i64);

fn mk_loss(readings: &[ReadingOf]) -> PowerLoss {
    let mut loss = PowerLoss::default();
    for (observation, state, second) in readings {
        loss.readings
            .record(mk_reading(*observation, *state, *second));
    }
    loss
}

fn mk_lost() -> PowerLoss {
    mk_loss(&[
        (1, PowerState::On, ON),
        (1, PowerState::Off, OFF),
        (1, PowerState::Off, 115),
    ])
}

fn mk_lease(unchanged_since: i64, read: i64) -> ObservedLease {
    ObservedLease {
        facts: LeaseFacts {
            renewed: format!("renewed-{unchanged_since}"),
            duration: Duration::from_secs(40),
            unchanged_since: at(unchanged_since),
        },
        read: at(read),
        has_moved: true,
    }
}

fn mk_facts(lease: &ObservedLease) -> PowerLostFacts<'_> {
    PowerLostFacts {
        host: HOST,
        lease: Some(lease),
        others: OtherLeases {
            expected: 2,
            renewed: 2,
        },
        not_a_failure: None,
        shared: SharedLoss::Alone,
        published: None,
    }
}

fn mk_published(status: ConditionStatus, reason: &str) -> Option<Published<'_>> {
    Some(Published { status, reason })
}

fn shown(condition: Option<SignalCondition>) -> Option<(ConditionStatus, &'static str)> {
    condition.map(|condition| (condition.status, condition.reason))
}

const LOST: Option<(ConditionStatus, &str)> = Some((ConditionStatus::True, "PowerOff"));

#[test]
fn host_that_was_on_and_is_off_twice_with_a_silent_lease_has_lost_its_power() {
    let lease = mk_lease(103, 116);
    let condition = mk_lost().decide(&mk_facts(&lease)).unwrap();
    assert_eq!(
        condition.message,
        "host rack-a/h1 has lost its power: its BMC reported on 4s before it reported exactly off, twice and without an \
         interruption, for 11s; the Lease of its Node is 12s old, while 2 of 2 other Nodes renewed theirs; see to its \
         power supply"
    );
    assert_eq!(shown(Some(condition)), LOST);
}

#[test]
fn readings_prove_a_loss_only_as_on_then_exactly_off_twice_in_one_observation() {
    use PowerState::{Off, On, PoweringOff, Unknown};
    let lease = mk_lease(80, 200);
    let cases: [(&[ReadingOf], bool); 9] = [
        (&[(1, On, 100), (1, Off, 104), (1, Off, 106)], true),
        (
            &[
                (1, On, 100),
                (1, PoweringOff, 102),
                (1, Off, 104),
                (1, Off, 106),
            ],
            true,
        ),
        // It was never read on.
        (&[(1, Off, 104), (1, Off, 106)], false),
        // Once, or too close together.
        (&[(1, On, 100), (1, Off, 104)], false),
        (&[(1, On, 100), (1, Off, 104), (1, Off, 104)], false),
        (&[(1, On, 100), (1, Off, 104), (1, Off, 105)], false),
        // The BMC may have restarted.
        (&[(1, On, 100), (2, Off, 104), (2, Off, 106)], false),
        // Anything between is not off.
        (
            &[
                (1, On, 100),
                (1, Off, 104),
                (1, Unknown, 105),
                (1, Off, 106),
            ],
            false,
        ),
        (
            &[(1, On, 100), (1, PoweringOff, 104), (1, PoweringOff, 106)],
            false,
        ),
    ];
    for (readings, is_lost) in cases {
        let decided = shown(mk_loss(readings).decide(&mk_facts(&lease)));
        assert_eq!(decided == LOST, is_lost, "{readings:?}");
        assert!(is_lost || decided.is_none(), "{readings:?}: {decided:?}");
    }
    let mut interrupted = mk_lost();
    interrupted.readings.interrupt();
    assert_eq!(interrupted.decide(&mk_facts(&lease)), None);
}

#[test]
fn lease_is_older_than_its_interval_and_two_seconds_at_the_second_reading() {
    // A quarter of 40 s and 2 s before the reading at 115 s.
    for (unchanged_since, read, is_lost) in [
        (103, 116, true),
        (104, 116, false),
        // It was not read since that reading, and may have been renewed.
        (103, 114, false),
    ] {
        let lease = mk_lease(unchanged_since, read);
        let decided = shown(mk_lost().decide(&mk_facts(&lease)));
        let expected = if is_lost { LOST } else { None };
        assert_eq!(decided, expected, "{unchanged_since}, {read}");
    }
    // A Lease that is renewed under power off shows a BMC of another host.
    let renewed = mk_lease(117, 118);
    let decided = shown(mk_lost().decide(&mk_facts(&renewed)));
    assert_eq!(decided, Some((ConditionStatus::False, "LeaseRenewed")));
    // The first read of a process shows no renewal.
    let first = ObservedLease {
        has_moved: false,
        ..mk_lease(117, 118)
    };
    assert_eq!(mk_lost().decide(&mk_facts(&first)), None);
    let none = PowerLostFacts {
        lease: None,
        ..mk_facts(&first)
    };
    let decided = shown(mk_lost().decide(&none));
    assert_eq!(decided, Some((ConditionStatus::Unknown, "LeaseUnknown")));
}

#[test]
fn leases_of_other_nodes_have_to_be_renewed_meanwhile() {
    let lease = mk_lease(103, 116);
    for (expected, renewed, reason) in [
        (2, 2, "PowerOff"),
        (3, 2, "PowerOff"),
        (2, 1, "LeasesNotRenewed"),
        (2, 0, "LeasesNotRenewed"),
        (0, 0, "NoOtherNode"),
    ] {
        let facts = PowerLostFacts {
            others: OtherLeases { expected, renewed },
            ..mk_facts(&lease)
        };
        let condition = mk_lost().decide(&facts).unwrap();
        assert_eq!(condition.reason, reason, "{renewed} of {expected}");
        assert_eq!(
            condition.status == ConditionStatus::True,
            reason == "PowerOff"
        );
    }
}

#[test]
fn leases_count_as_renewed_only_after_the_last_renewal_of_the_node() {
    let mut leases = ClusterLeases::default();
    let mut record = |node: &str, since, second| {
        let facts = mk_lease(since, second).facts;
        leases.record(node, facts, at(second));
    };
    // One went on, one is silent as long as this one, one has been silent for longer than its Lease lasts.
    for (node, since) in [
        ("lost", 103),
        ("renews", 110),
        ("stalls", 103),
        ("dead", 20),
    ] {
        record(node, since, 116);
    }
    let others = leases.others("lost");
    assert_eq!(
        others,
        OtherLeases {
            expected: 2,
            renewed: 1
        }
    );
    assert!(!others.are_renewed());
    assert!(!leases.of("lost").unwrap().has_moved);
    leases.record("lost", mk_lease(120, 121).facts, at(121));
    assert!(leases.of("lost").unwrap().has_moved);
    let alone = ("lost".to_owned(), mk_lease(120, 122).facts);
    leases.record_all([alone], at(122));
    assert!(leases.of("lost").unwrap().has_moved);
    assert_eq!(leases.others("lost"), OtherLeases::default());
}

#[test]
fn host_that_somebody_has_switched_or_works_on_has_not_lost_its_power() {
    let lease = mk_lease(103, 116);
    for (why, is_said) in [
        (NotAFailure::Switched("PowerRemediation a/b".into()), false),
        (NotAFailure::ShutDown, true),
        (NotAFailure::Cordoned, true),
        (
            NotAFailure::OwnerWantsOff("spec.online is false".into()),
            true,
        ),
        (NotAFailure::LocatorLit, true),
    ] {
        let label = why.label();
        let mut facts = PowerLostFacts {
            not_a_failure: Some(why),
            ..mk_facts(&lease)
        };
        let expected = is_said.then_some((ConditionStatus::False, label));
        assert_eq!(shown(mk_lost().decide(&facts)), expected, "{label}");
        // What was withheld before ends either way.
        facts.published = mk_published(ConditionStatus::Unknown, "LeasesNotRenewed");
        let expected = Some((ConditionStatus::False, label));
        assert_eq!(shown(mk_lost().decide(&facts)), expected, "{label}");
    }
}

#[test]
fn condition_stays_until_power_is_on_or_the_lease_is_renewed() {
    let lease = mk_lease(103, 116);
    let mut loss = mk_lost();
    assert_eq!(shown(loss.decide(&mk_facts(&lease))), LOST);
    // The remediation that it has caused switches the host, and the agent is lost.
    let mut facts = PowerLostFacts {
        published: mk_published(ConditionStatus::True, "PowerOff"),
        not_a_failure: Some(NotAFailure::Switched("PowerRemediation a/b".into())),
        ..mk_facts(&lease)
    };
    assert_eq!(loss.decide(&facts), None);
    loss.readings.interrupt();
    assert_eq!(loss.decide(&facts), None);
    let renewed = mk_lease(140, 141);
    facts.lease = Some(&renewed);
    let decided = shown(loss.clone().decide(&facts));
    assert_eq!(decided, Some((ConditionStatus::False, "LeaseRenewed")));
    facts.lease = Some(&lease);
    loss.readings.record(mk_reading(2, PowerState::On, 150));
    let decided = shown(loss.decide(&facts));
    assert_eq!(decided, Some((ConditionStatus::False, "PowerOn")));
    facts.published = decided.map(|(status, reason)| Published { status, reason });
    assert_eq!(loss.decide(&facts), None, "it is said once");
}

#[test]
fn what_withheld_the_signal_goes_away_once_the_host_is_on() {
    let lease = mk_lease(103, 116);
    for (status, reason, is_said) in [
        (ConditionStatus::False, "LocatorLit", true),
        (ConditionStatus::False, "NodeCordoned", true),
        (ConditionStatus::False, "LeaseRenewed", true),
        (ConditionStatus::Unknown, "SharedCause", true),
        (ConditionStatus::False, "PowerOn", false),
    ] {
        let facts = PowerLostFacts {
            published: mk_published(status, reason),
            not_a_failure: Some(NotAFailure::LocatorLit),
            ..mk_facts(&lease)
        };
        let mut loss = mk_lost();
        loss.readings.record(mk_reading(1, PowerState::On, 120));
        let expected = is_said.then_some((ConditionStatus::False, "PowerOn"));
        assert_eq!(shown(loss.decide(&facts)), expected, "{reason}");
    }
    let mut loss = mk_lost();
    loss.readings.record(mk_reading(1, PowerState::On, 120));
    assert_eq!(loss.decide(&mk_facts(&lease)), None, "nothing was said");
}

#[test]
fn new_process_keeps_the_condition_until_it_sees_a_renewal() {
    let mut loss = PowerLoss::default();
    let first = ObservedLease {
        has_moved: false,
        ..mk_lease(300, 301)
    };
    let mut facts = PowerLostFacts {
        published: mk_published(ConditionStatus::True, "PowerOff"),
        ..mk_facts(&first)
    };
    assert_eq!(loss.decide(&facts), None);
    let renewed = mk_lease(310, 311);
    facts.lease = Some(&renewed);
    let decided = shown(loss.decide(&facts));
    assert_eq!(decided, Some((ConditionStatus::False, "LeaseRenewed")));
}

fn mk_rack(hosts: usize) -> (RackLosses, Vec<HostName>) {
    let mut losses = RackLosses::default();
    let names: Vec<HostName> = (0..hosts)
        .map(|n| Arc::from(format!("local/n{n}")))
        .collect();
    for name in &names {
        losses.place(name, "rack-a");
    }
    losses.place(&Arc::from("local/other"), "rack-b");
    (losses, names)
}

#[test]
fn single_loss_waits_five_seconds_for_others_of_its_rack() {
    let (mut losses, names) = mk_rack(4);
    losses.record(&names[0], Some(at(100)), at(101));
    losses.judge(at(101));
    assert_eq!(losses.of(&names[0], at(101)), SharedLoss::Settling(at(106)));
    losses.judge(at(106));
    assert_eq!(losses.of(&names[0], at(106)), SharedLoss::Alone);
    assert_eq!(losses.others_of_rack(&names[0], 2), names[1..3]);
}

#[test]
fn several_losses_of_a_rack_wait_for_the_judgement_of_shared_causes() {
    let (mut losses, names) = mk_rack(4);
    for (name, second) in names.iter().take(3).zip([100, 101, 103]) {
        losses.record(name, Some(at(second)), at(second));
        losses.judge(at(second));
    }
    let SharedLoss::Cause(text, until) = losses.of(&names[0], at(104)) else {
        panic!("{:?}", losses.of(&names[0], at(104)));
    };
    assert!(
        text.starts_with("3 of 4 hosts of rack rack-a failed within 3s"),
        "{text}"
    );
    assert!(
        text.contains("a loss of power is likelier than 3 failed hosts"),
        "{text}"
    );
    assert_eq!(
        until,
        Some(at(1003)),
        "15 minutes after the cause was known"
    );
    // A host of another rack is not held.
    let other: HostName = Arc::from("local/other");
    losses.record(&other, Some(at(103)), at(103));
    losses.judge(at(110));
    assert_eq!(losses.of(&other, at(110)), SharedLoss::Alone);
    // Power is back, but for one host, which is then a failure of its own.
    for name in &names[..2] {
        losses.record(name, None, at(200));
    }
    losses.judge(at(200));
    losses.judge(at(501));
    assert_eq!(losses.of(&names[2], at(501)), SharedLoss::Alone);
}

#[test]
fn two_losses_that_are_no_cause_are_said_after_the_settling_time() {
    let (mut losses, names) = mk_rack(10);
    losses.record(&names[0], Some(at(100)), at(100));
    losses.record(&names[1], Some(at(102)), at(102));
    losses.judge(at(107));
    assert_eq!(losses.of(&names[0], at(107)), SharedLoss::Settling(at(117)));
    losses.judge(at(117));
    assert_eq!(losses.of(&names[0], at(117)), SharedLoss::Alone);
    let lease = mk_lease(103, 116);
    for (shared, expected) in [
        (SharedLoss::Settling(at(117)), None),
        (
            SharedLoss::Cause("3 of 4 hosts".into(), None),
            Some((ConditionStatus::Unknown, "SharedCause")),
        ),
    ] {
        let facts = PowerLostFacts {
            shared,
            ..mk_facts(&lease)
        };
        assert_eq!(shown(mk_lost().decide(&facts)), expected);
    }
}

#[test]
fn f5_silence_that_the_signal_has_seen_counts_for_the_remediation() {
    // The signal reads the Lease through the memory that remediations use.
    let mut memory = LeaseMemory::default();
    let duration = Duration::from_secs(40);
    let seen = memory.observe("n1", "r1".into(), duration, at(103));
    assert_eq!(seen.unchanged_since, at(103));
    let of_remediation = memory.observe("n1", "r1".into(), duration, at(117));
    assert_eq!(of_remediation.unchanged_since, at(103));
    let quiet_at = after(
        of_remediation.unchanged_since,
        crate::remediation::renewal_limit(duration),
    );
    assert!(quiet_at <= at(117), "F5 waits no longer");
}

#[test]
fn os_stopped_is_not_said_for_a_stop_of_an_earlier_boot() {
    let silent = mk_lease(103, 116);
    let said = |written: Option<Timestamp>, has_start| {
        let stop = OsStop {
            entry: "Run-time critical stop".into(),
            read: at(115),
            written,
            has_start,
        };
        let others = OtherLeases {
            expected: 2,
            renewed: 2,
        };
        let facts = OsStoppedFacts {
            host: HOST,
            is_on: true,
            stop: Some(&stop),
            lease: Some(&silent),
            others,
            is_switched: false,
            published: None,
        };
        os_stopped(&facts).is_some()
    };
    // Logs keep entries for years, and starts of the host are not recognised in every log.
    let years_ago = at(103).checked_sub(jiff::SignedDuration::from_hours(30_000));
    let years_ago = years_ago.unwrap();
    for (written, has_start, expected) in [
        (Some(at(104)), false, true),
        (Some(at(0)), true, true),
        (Some(years_ago), true, false),
        (Some(years_ago), false, false),
        (None, true, true),
        (None, false, false),
    ] {
        assert_eq!(
            said(written, has_start),
            expected,
            "{written:?} {has_start}"
        );
    }
}

#[test]
fn os_stopped_needs_an_entry_a_silent_lease_and_power() {
    let stop = OsStop {
        entry: "OS Critical Stop: runtime critical stop\u{7}".into(),
        read: at(115),
        written: Some(at(104)),
        has_start: true,
    };
    let silent = mk_lease(103, 116);
    let facts = OsStoppedFacts {
        host: HOST,
        is_on: true,
        stop: Some(&stop),
        lease: Some(&silent),
        others: OtherLeases {
            expected: 2,
            renewed: 2,
        },
        is_switched: false,
        published: None,
    };
    let condition = os_stopped(&facts).unwrap();
    assert_eq!(condition.status, ConditionStatus::True);
    assert!(
        condition
            .message
            .contains("\"OS Critical Stop: runtime critical stop\"")
    );
    let fresh = mk_lease(110, 116);
    let without = [
        OsStoppedFacts {
            stop: None,
            ..facts.clone()
        },
        OsStoppedFacts {
            is_on: false,
            ..facts.clone()
        },
        OsStoppedFacts {
            is_switched: true,
            ..facts.clone()
        },
        OsStoppedFacts {
            lease: Some(&fresh),
            ..facts.clone()
        },
        OsStoppedFacts {
            lease: None,
            ..facts.clone()
        },
        OsStoppedFacts {
            others: OtherLeases::default(),
            ..facts.clone()
        },
        OsStoppedFacts {
            published: Some(ConditionStatus::True),
            ..facts.clone()
        },
    ];
    for (case, facts) in without.iter().enumerate() {
        assert_eq!(os_stopped(facts), None, "case {case}");
    }
    let back = OsStoppedFacts {
        published: Some(ConditionStatus::True),
        lease: Some(&fresh),
        ..facts
    };
    assert_eq!(
        shown(os_stopped(&back)),
        Some((ConditionStatus::False, "LeaseRenewed"))
    );
}

#[test]
fn hardware_fails_after_a_minute_and_is_well_after_ten() {
    use ConditionStatus::{False, True};
    let (mut health, owner) = (HardwareHealth::default(), BareMetalHostReport::default());
    let defect = |kind, entry: &str| HardwareDefect {
        kind,
        entry: entry.into(),
    };
    let defects = [
        defect(HardwareDefectKind::PowerRedundancyLost, "PSU 2"),
        defect(HardwareDefectKind::UncorrectableMemory, "DIMM A1"),
    ];
    let mut decide = |reported: Option<&[HardwareDefect]>, published, second| {
        hardware_failing(&mut health, HOST, reported, &owner, published, at(second))
    };
    assert_eq!(decide(Some(&defects), None, 0), None);
    // A reading without the defect begins the time anew; a BMC that cannot be read does not.
    assert_eq!(decide(Some(&[]), None, 30), None);
    assert_eq!(decide(Some(&defects), None, 40), None);
    assert_eq!(decide(None, None, 99), None);
    let condition = decide(Some(&defects), None, 100).unwrap();
    assert_eq!(
        (condition.status, condition.reason),
        (True, "UncorrectableMemoryError")
    );
    assert!(condition.message.contains("DIMM A1"));
    assert_eq!(decide(Some(&[]), Some(True), 200), None);
    assert_eq!(decide(Some(&[]), Some(True), 799), None);
    assert_eq!(
        shown(decide(Some(&[]), Some(True), 800)),
        Some((False, "HardwareHealthy"))
    );
}

#[test]
fn baremetal_operators_report_counts_while_it_can_manage_the_host() {
    let report = |manageable| BareMetalHostReport {
        healthy: Some(false),
        manageable,
        message: "DIMM failed".into(),
    };
    for (manageable, reason) in [
        (None, Some("BareMetalHostUnhealthy")),
        (Some(true), Some("BareMetalHostUnhealthy")),
        (Some(false), None),
    ] {
        let mut health = HardwareHealth::default();
        let mut decide = |second| {
            hardware_failing(
                &mut health,
                HOST,
                None,
                &report(manageable),
                None,
                at(second),
            )
        };
        assert_eq!(decide(0), None);
        assert_eq!(decide(60).map(|c| c.reason), reason, "{manageable:?}");
    }
}

#[test]
fn signals_are_named_as_they_are_shown() {
    for signal in Signal::ALL {
        assert_eq!(signal.label().parse(), Ok(signal));
        assert_eq!(signal.condition_type(), format!("rackhand.dev/{signal}"));
    }
    let error = "Power".parse::<Signal>().unwrap_err().to_string();
    assert!(error.contains("\"Power\" is no hardware signal"), "{error}");
}
