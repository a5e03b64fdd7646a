use rackhand_bmc::{FirmwareUpdate, PowerState, UpdatePhase};

use super::*;

const UUID: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
const NOW: i64 = 1_780_000_000;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn reading(protocol: Protocol) -> PowerReading {
    PowerReading {
        state: PowerState::On,
        raw: "On".to_owned(),
        source: protocol.into(),
        identity: SystemIdentity {
            system_uuid: text(UUID),
            ..SystemIdentity::default()
        },
        at: Timestamp::UNIX_EPOCH,
        bmc: "redfish://b1".to_owned(),
        connection: None,
        identify_led: None,
    }
}

fn good(protocol: Protocol) -> Observations {
    let is_redfish = protocol == Protocol::Redfish;
    let words = ["On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi"];
    Observations {
        bmc: "redfish://b1".to_owned(),
        protocol,
        host: "b1".to_owned(),
        port: 443,
        is_tls: is_redfish,
        trust: Trust::System,
        username: "ops".to_owned(),
        name: Ok(vec!["10.0.0.1".parse().unwrap()]),
        forbidden: None,
        tcp: is_redfish.then_some(Ok(Duration::from_millis(2))),
        power: Some(Ok(reading(protocol))),
        identity: None,
        facts: Some(Ok(Facts {
            service: text("Redfish 1.15.0"),
            firmware: text("7.0"),
            actions: is_redfish.then(|| words.map(str::to_owned).to_vec()),
            privilege: text("Operator"),
            may_switch: Some(true),
            suite: (!is_redfish).then_some(17),
            suites: (!is_redfish).then(|| vec![3, 17]),
            clock: Timestamp::from_second(NOW - 5).ok(),
            uptime: is_redfish.then_some(Duration::from_secs(7200)),
        })),
        updates: Some(match is_redfish {
            true => Ok(FirmwareUpdates {
                read: vec!["UpdateService".to_owned()],
                ..FirmwareUpdates::default()
            }),
            false => Err(error(ErrorKind::Unsupported)),
        }),
        expected: Expected {
            system_uuid: text(UUID),
            ..Expected::default()
        },
        origin: None,
        is_remembered: false,
        is_shared: false,
        no_system_uuid: false,
        now: Timestamp::from_second(NOW).unwrap(),
    }
}

fn error(kind: ErrorKind) -> BmcError {
    BmcError {
        kind,
        bmc: "redfish://b1".to_owned(),
        message: format!("it is {}", kind.label()),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

/// As `name verdict`.
fn words(seen: &Observations) -> Vec<String> {
    let checks = judge(seen);
    let words = checks.iter().map(|check| {
        let verdict = check.verdict().as_str_name().replace("VERDICT_", "");
        format!("{} {}", check.check, verdict.to_lowercase())
    });
    words.collect()
}

fn the(seen: &Observations, name: &str) -> Check {
    let mut checks = judge(seen).into_iter();
    checks.find(|check| check.check == name).unwrap()
}

#[test]
fn healthy_host_passes_every_check() {
    for protocol in [Protocol::Redfish, Protocol::Ipmi] {
        let checks = judge(&good(protocol));
        for check in &checks {
            assert_eq!(check.verdict(), Verdict::Ok, "{check:?}");
            assert_eq!(check.bmc, "redfish://b1");
        }
        assert_eq!(
            checks.len(),
            if protocol == Protocol::Redfish {
                12
            } else {
                10
            }
        );
    }
}

#[test]
fn checks_behind_a_failed_check_are_skipped() {
    let mut seen = good(Protocol::Redfish);
    seen.tcp = Some(Err("connection refused".to_owned()));
    (seen.power, seen.facts, seen.updates) = (None, None, None);
    assert_eq!(
        words(&seen),
        [
            "name ok",
            "route failed",
            "tls skipped",
            "credentials skipped",
            "privilege skipped",
            "power skipped",
            "redfish skipped",
            "actions skipped",
            "identity skipped",
            "clock skipped",
            "off-proof skipped",
            "updates skipped"
        ]
    );
    let mut seen = good(Protocol::Redfish);
    seen.facts = None;
    seen.power = Some(Err(error(ErrorKind::Authentication)));
    assert_eq!(
        words(&seen)[..5],
        [
            "name ok",
            "route ok",
            "tls ok",
            "credentials failed",
            "privilege skipped"
        ]
    );
}

#[test]
fn failed_check_includes_advice() {
    for kind in [
        ErrorKind::Tls,
        ErrorKind::Authentication,
        ErrorKind::Privilege,
        ErrorKind::System,
    ] {
        let mut seen = good(Protocol::Redfish);
        seen.facts = None;
        seen.power = Some(Err(error(kind)));
        let checks = judge(&seen);
        let failed: Vec<&Check> = checks
            .iter()
            .filter(|check| check.verdict() == Verdict::Failed)
            .collect();
        assert_eq!(failed.len(), 1, "{kind:?}: {checks:?}");
        assert!(!failed[0].advice.is_empty());
        assert_eq!(failed[0].found, format!("it is {}", kind.label()));
    }
}

#[test]
fn check_fails_whenever_no_power_state_is_read() {
    use ErrorKind::{
        Authentication, Busy, Configuration, Privilege, Protocol as Malformed, Refused, System,
        Timeout, Tls, Unreachable, Unsupported,
    };
    for protocol in [Protocol::Redfish, Protocol::Ipmi] {
        for kind in [
            Authentication,
            Busy,
            Configuration,
            Privilege,
            Malformed,
            Refused,
            System,
            Timeout,
            Tls,
            Unreachable,
            Unsupported,
        ] {
            let mut seen = good(protocol);
            seen.facts = None;
            seen.power = Some(Err(error(kind)));
            let failed: Vec<_> = judge(&seen)
                .into_iter()
                .filter(|check| check.verdict() == Verdict::Failed)
                .collect();
            assert_eq!(failed.len(), 1, "{protocol:?} {kind:?}: {failed:?}");
            assert!(!failed[0].advice.is_empty());
        }
        let mut seen = good(protocol);
        if let Some(Ok(reading)) = &mut seen.power {
            (reading.state, reading.raw) = (PowerState::Unknown, "null".to_owned());
        }
        assert_eq!(the(&seen, "power").verdict(), Verdict::Failed);
    }
}

#[test]
fn ipmi_route_check_passes_on_any_response() {
    let mut seen = good(Protocol::Ipmi);
    seen.facts = None;
    seen.power = Some(Err(error(ErrorKind::Timeout)));
    assert_eq!(the(&seen, "route").verdict(), Verdict::Failed);
    seen.power = Some(Err(error(ErrorKind::Authentication)));
    assert_eq!(the(&seen, "route").verdict(), Verdict::Ok);
}

#[test]
fn read_only_account_fails_the_privilege_check() {
    let mut seen = good(Protocol::Ipmi);
    if let Some(Ok(facts)) = &mut seen.facts {
        (facts.privilege, facts.may_switch) = (text("USER"), Some(false));
    }
    let found = the(&seen, "privilege");
    assert_eq!(found.verdict(), Verdict::Failed);
    assert!(found.found.contains("USER"), "{found:?}");
}

#[test]
fn suite_0_and_suite_3_are_warnings() {
    let mut seen = good(Protocol::Ipmi);
    if let Some(Ok(facts)) = &mut seen.facts {
        facts.suite = Some(3);
    }
    assert_eq!(the(&seen, "cipher-suite").verdict(), Verdict::Warning);
    if let Some(Ok(facts)) = &mut seen.facts {
        (facts.suite, facts.suites) = (Some(17), Some(vec![0, 17]));
    }
    let found = the(&seen, "cipher-suite");
    assert!(found.found.contains("suite 0"), "{found:?}");
}

#[test]
fn identity_mismatch_fails_the_identity_check() {
    let mut seen = good(Protocol::Redfish);
    seen.expected.system_uuid = text("4c4c4544-0042-3510-8054-000000000000");
    assert_eq!(the(&seen, "identity").verdict(), Verdict::Failed);
    seen.expected = Expected::default();
    let found = the(&seen, "identity");
    assert_eq!(found.verdict(), Verdict::Warning);
    assert!(
        found.found.contains("nothing to compare it with"),
        "{found:?}"
    );
    // The controller compares it with the Node, which the agent does not know.
    assert_eq!(found.identity.unwrap().system_uuid, UUID);
}

#[test]
fn f14_bmc_whose_uuid_is_declared_to_identify_nothing_gets_advice_of_its_own() {
    let mut seen = good(Protocol::Ipmi);
    seen.expected = Expected::default();
    seen.no_system_uuid = true;
    let identity = |serial: Option<&str>| {
        Some(Ok(SystemIdentity {
            serial: serial.map(str::to_owned),
            ..SystemIdentity::default()
        }))
    };
    seen.identity = identity(None);
    let found = the(&seen, "identity");
    assert_eq!(found.verdict(), Verdict::Warning);
    assert!(found.advice.contains("renewing its Lease"), "{found:?}");
    seen.identity = identity(Some("SN7"));
    let found = the(&seen, "identity");
    assert!(
        found.advice.contains("write serial") && !found.advice.contains("system_uuid"),
        "{found:?}"
    );
    seen.expected.serial = text("SN7");
    assert_eq!(the(&seen, "identity").verdict(), Verdict::Ok);
    seen.expected.serial = text("SN8");
    assert_eq!(the(&seen, "identity").verdict(), Verdict::Failed);
}

#[test]
fn missing_hard_off_or_on_fails_the_actions_check() {
    let mut seen = good(Protocol::Redfish);
    let mut set = |words: &[&str]| {
        if let Some(Ok(facts)) = &mut seen.facts {
            facts.actions = Some(words.iter().map(|&word| word.to_owned()).collect());
        }
        the(&seen, "actions")
    };
    assert_eq!(set(&["On", "GracefulShutdown"]).verdict(), Verdict::Failed);
    assert_eq!(set(&[]).verdict(), Verdict::Failed);
    let found = set(&["On", "ForceOff"]);
    assert_eq!(found.verdict(), Verdict::Ok);
    assert!(found.advice.contains("power soft-off"), "{found:?}");
}

#[test]
fn clock_skew_is_a_warning() {
    for (seconds, said) in [(90, "90 s ahead"), (-7300, "2 h behind")] {
        let mut seen = good(Protocol::Redfish);
        if let Some(Ok(facts)) = &mut seen.facts {
            facts.clock = Timestamp::from_second(NOW + seconds).ok();
        }
        let found = the(&seen, "clock");
        assert_eq!(found.verdict(), Verdict::Warning);
        assert!(found.found.contains(said), "{found:?}");
    }
}

#[test]
fn address_outside_the_allowed_networks_fails_the_name_check() {
    let mut seen = good(Protocol::Redfish);
    seen.forbidden = Some(("10.0.0.1".parse().unwrap(), "192.0.2.0/24".to_owned()));
    (seen.tcp, seen.power, seen.facts) = (None, None, None);
    assert_eq!(
        words(&seen)[..3],
        ["name failed", "route skipped", "tls skipped"]
    );
}

#[test]
fn f1_row_names_the_proof_that_the_bmc_can_give() {
    for (protocol, uptime, found) in [
        (
            Protocol::Redfish,
            Some(7200),
            "the manager reports its uptime (2 h)",
        ),
        (
            Protocol::Redfish,
            None,
            "the manager reports no LastResetTime",
        ),
        (Protocol::Ipmi, None, "IPMI reports no uptime"),
    ] {
        let mut seen = good(protocol);
        if let Some(Ok(facts)) = &mut seen.facts {
            facts.uptime = uptime.map(Duration::from_secs);
        }
        let row = the(&seen, "off-proof");
        assert!(row.found.contains(found), "{row:?}");
        assert_eq!(row.advice.is_empty(), uptime.is_some(), "{row:?}");
    }
}

#[test]
fn update_that_runs_or_cannot_be_seen_is_told() {
    let row = |updates| {
        let mut seen = good(Protocol::Redfish);
        seen.updates = Some(updates);
        the(&seen, "updates")
    };
    let running = FirmwareUpdates {
        updates: vec![FirmwareUpdate {
            source: "task 1".to_owned(),
            name: String::new(),
            phase: UpdatePhase::Running,
            state: "Running".to_owned(),
            percent: None,
            message: String::new(),
        }],
        ..FirmwareUpdates::default()
    };
    let unread = FirmwareUpdates {
        unread: vec!["tasks: timeout".to_owned()],
        ..FirmwareUpdates::default()
    };
    for (updates, verdict, says) in [
        (Ok(running), Verdict::Warning, "task 1, Running"),
        (Ok(unread), Verdict::Warning, "tasks: timeout"),
        (Err(error(ErrorKind::Timeout)), Verdict::Warning, "timeout"),
        (
            Err(error(ErrorKind::Unsupported)),
            Verdict::Ok,
            "does not report",
        ),
    ] {
        let row = row(updates);
        assert_eq!(row.verdict(), verdict, "{row:?}");
        assert!(row.found.contains(says), "{row:?}");
    }
}

#[test]
fn f5_system_of_another_make_fails_the_check_without_uuid_and_serial_number() {
    let mut seen = good(Protocol::Redfish);
    let of = |vendor: &str, model: &str| SystemIdentity {
        vendor: text(vendor),
        model: text(model),
        ..SystemIdentity::default()
    };
    seen.origin = Some("operation a read it".to_owned());
    seen.expected = Expected {
        earlier: Some(SystemIdentity {
            serial: text("SN-1"),
            ..of("V", "M")
        }),
        ..Expected::default()
    };
    for no_system_uuid in [false, true] {
        seen.no_system_uuid = no_system_uuid;
        for (found, verdict) in [
            (of("V", "M"), Verdict::Warning),
            (of("V", "ZZ"), Verdict::Failed),
            (of("W", "M"), Verdict::Failed),
        ] {
            seen.identity = Some(Ok(found));
            let check = the(&seen, "identity");
            assert_eq!(check.verdict(), verdict, "{check:?}");
            let says = check.found.contains("operation a read it");
            assert_eq!(says, verdict == Verdict::Failed, "{check:?}");
        }
    }
}

#[test]
fn f5_system_that_earlier_operations_did_not_read_fails_the_check() {
    let mut seen = good(Protocol::Redfish);
    let found = |serial: &str| SystemIdentity {
        serial: Some(serial.to_owned()),
        ..SystemIdentity::default()
    };
    seen.identity = Some(Ok(found("SN-2")));
    seen.origin = Some("operation a read it".to_owned());
    for (earlier, verdict) in [
        (None, Verdict::Warning),
        (Some("SN-2"), Verdict::Warning),
        (Some("SN-1"), Verdict::Failed),
    ] {
        seen.expected = Expected {
            earlier: earlier.map(found),
            ..Expected::default()
        };
        let check = the(&seen, "identity");
        assert_eq!(check.verdict(), verdict, "{check:?}");
        if verdict == Verdict::Failed {
            for said in ["SN-1", "SN-2", "operation a read it"] {
                assert!(check.found.contains(said), "{check:?}");
            }
        }
    }
}
