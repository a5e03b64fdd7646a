use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn entry(id: u32, severity: Severity, message: &str) -> LogEntry {
    LogEntry {
        id: id.to_string(),
        at: Some(at(id.into())),
        severity,
        sensor: "DIMM A3".into(),
        message: message.into(),
    }
}

#[test]
fn equal_entries_are_one_record_with_the_time_of_the_latest() {
    let log = [
        entry(1, Severity::Warning, "Correctable ECC"),
        entry(2, Severity::Critical, "CPU machine check"),
        entry(3, Severity::Warning, "Correctable ECC"),
    ];
    let records = records(&log);
    let shown: Vec<_> = records
        .iter()
        .map(|r| (&*r.message, r.count, r.at))
        .collect();
    assert_eq!(
        shown,
        [
            ("CPU machine check", 1, Some(at(2))),
            ("Correctable ECC", 2, Some(at(3)))
        ]
    );
}

#[test]
fn entries_that_are_ok_are_dropped_before_others() {
    let mut log = vec![entry(0, Severity::Critical, "power lost")];
    log.extend((1..40).map(|n| entry(n, Severity::Ok, &format!("login {n}"))));
    let records = records(&log);
    assert_eq!(records.len(), GROUPS);
    assert_eq!(records[0].message, "power lost");
    assert_eq!(records[GROUPS - 1].message, "login 39");
}

#[test]
fn entries_after_the_newest_known_one_are_newer() {
    let log: Vec<LogEntry> = (1..6).map(|n| entry(n, Severity::Ok, "x")).collect();
    let mut evidence = HostEvidence::new(1, at(0));
    evidence.set_log(&log[..3]);
    let newest = evidence.newest.clone().unwrap();
    let ids =
        |entries: &[LogEntry]| -> Vec<String> { entries.iter().map(|e| e.id.clone()).collect() };
    assert_eq!(ids(newer_entries(&log, &newest)), ["4", "5"]);
    // The log was cleared, or so many were added that it is not among them.
    assert_eq!(ids(newer_entries(&log[3..], &newest)), ["4", "5"]);
    // The number is used again after the log was cleared.
    let reused = [LogEntry {
        at: Some(at(900)),
        ..log[2].clone()
    }];
    assert_eq!(newer_entries(&reused, &newest).len(), 1);
    evidence.set_log(&[]);
    let empty = evidence.newest.unwrap();
    assert_eq!(newer_entries(&log, &empty).len(), 5);
}

proptest! {
    #[test]
    fn evidence_is_small_whatever_a_bmc_reports(
        texts in proptest::collection::vec("\\PC{0,400}", 0..60),
    ) {
        let log: Vec<LogEntry> = texts
            .iter()
            .map(|text| LogEntry { id: text.clone(), message: text.clone(), sensor: text.clone(),
                at: None, severity: Severity::Critical })
            .collect();
        let mut evidence = HostEvidence::new(1, at(0));
        evidence.set_log(&log);
        evidence.missing.clone_from(&texts);
        evidence.boot.clone_from(&texts);
        evidence.power = texts.first().cloned();
        evidence.sensors = texts
            .iter()
            .map(|text| SensorAlarm {
                name: text.clone(), value: text.clone(), severity: Severity::Warning,
            })
            .collect();
        let evidence = evidence.bounded();
        let stored = serde_json::to_string(&evidence).unwrap();
        // Four bytes for each character, or six where JSON escapes it.
        prop_assert!(stored.chars().count() < 20_000, "{}", stored.len());
        let read: HostEvidence = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(read, evidence);
        prop_assert!(newer_entries(&log, &position(log.last())).is_empty() || log.is_empty()
            || log.last().unwrap().id.chars().count() > TEXT);
    }
}
