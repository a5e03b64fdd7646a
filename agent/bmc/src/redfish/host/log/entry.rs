//! Log entries: parsing and order.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    LogEntry, Severity,
    redfish::{
        protocol::document::{last_part, link, text},
        vendor::{EventFacts, event_meaning},
    },
};

/// Order in which a BMC lists its entries; Redfish does not specify one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    OldestFirst,
    NewestFirst,
}

/// Unix time in seconds of the year 2000. A BMC clock that was not set starts in 1970, and no
/// current BMC wrote an event before this time.
const CLOCK_IS_SET: i64 = 946_684_800;

const ORIGIN: &[&str] = &["Links", "OriginOfCondition"];

fn at(entry: &Value) -> Option<Timestamp> {
    let text = text(entry, "Created").or_else(|| text(entry, "EventTimestamp"))?;
    let at: Timestamp = text.parse().ok()?;
    (at.as_second() >= CLOCK_IS_SET).then_some(at)
}

fn id(entry: &Value) -> String {
    let by_link = || link(entry, &[]).map(|link| last_part(&link).to_owned());
    text(entry, "Id").or_else(by_link).unwrap_or_default()
}

/// The properties of an entry that are used. Members of several pages are kept until the newest are
/// known.
const USED: &[&str] = &[
    "@odata.id",
    "Id",
    "Created",
    "EventTimestamp",
    "Severity",
    "Message",
    "MessageId",
    "Name",
    "SensorType",
    "EntryCode",
];

/// The entry with the used properties only, and with texts of bounded length.
pub(super) fn slim(entry: &Value) -> Value {
    let used = USED.iter().filter_map(|name| {
        let text = text(entry, name)?;
        Some(((*name).to_owned(), Value::String(text)))
    });
    let mut slim: Map<String, Value> = used.collect();
    if let Some(origin) = link(entry, ORIGIN) {
        slim.insert(
            "Links".to_owned(),
            json!({"OriginOfCondition": {"@odata.id": origin}}),
        );
    }
    Value::Object(slim)
}

/// Whether the member is only a link to an entry.
pub(super) fn is_bare(entry: &Value) -> bool {
    let names = ["Message", "Created", "Severity", "MessageId"];
    names.iter().all(|name| entry.get(name).is_none())
}

/// The order of a list: by time; where the clock of the BMC was set in between, by number; otherwise by most of the
/// times, and otherwise the most common one.
///
/// Some makes number their entries from the newest, so a time that never contradicts itself counts more.
pub(super) fn order(entries: &[Value]) -> Order {
    let times = Direction::of(entries.iter().map(at));
    let numbers = Direction::of(entries.iter().map(|entry| id(entry).parse::<u64>().ok()));
    times
        .one_way()
        .or_else(|| numbers.one_way())
        .or_else(|| times.mostly())
        .unwrap_or(Order::OldestFirst)
}

/// How often a value grows from one entry to the next, and how often it shrinks.
struct Direction {
    grows: usize,
    shrinks: usize,
}

impl Direction {
    /// Entries without a value are passed over.
    fn of<T: PartialOrd>(values: impl Iterator<Item = Option<T>>) -> Self {
        let mut direction = Self {
            grows: 0,
            shrinks: 0,
        };
        let mut last = None;
        for value in values.flatten() {
            if let Some(last) = &last {
                direction.grows += usize::from(*last < value);
                direction.shrinks += usize::from(*last > value);
            }
            last = Some(value);
        }
        direction
    }

    fn one_way(&self) -> Option<Order> {
        match (self.grows, self.shrinks) {
            (1.., 0) => Some(Order::OldestFirst),
            (0, 1..) => Some(Order::NewestFirst),
            _ => None,
        }
    }

    fn mostly(&self) -> Option<Order> {
        match self.grows.cmp(&self.shrinks) {
            Ordering::Greater => Some(Order::OldestFirst),
            Ordering::Less => Some(Order::NewestFirst),
            Ordering::Equal => None,
        }
    }
}

/// The newest `limit` entries of a complete list, oldest first.
pub(super) fn newest(mut entries: Vec<Value>, limit: usize) -> Vec<Value> {
    if order(&entries) == Order::NewestFirst {
        entries.reverse();
    }
    let surplus = entries.len().saturating_sub(limit);
    entries.split_off(surplus)
}

/// Parses a `LogEntry`; missing properties are empty.
pub(super) fn entry(body: &Value) -> LogEntry {
    let severity = match text(body, "Severity").as_deref() {
        Some("OK" | "Informational") => Severity::Ok,
        Some("Warning") => Severity::Warning,
        Some("Critical") => Severity::Critical,
        _ => Severity::Unknown,
    };
    let words = ["Message", "MessageId", "Name"];
    let message = words.iter().find_map(|name| text(body, name));
    let origin = link(body, ORIGIN);
    let sensor = origin.filter(|origin| origin.contains("/Sensors/"));
    let message = message.unwrap_or_default();
    let property = |name| text(body, name).unwrap_or_default();
    let meaning = event_meaning(&EventFacts {
        message_id: &property("MessageId"),
        sensor_type: &property("SensorType"),
        code: &property("EntryCode"),
        message: &message,
        severity,
    });
    LogEntry {
        id: id(body),
        at: at(body),
        severity,
        message,
        sensor: sensor.map(|origin| last_part(&origin).to_owned()),
        meaning,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redfish::protocol::document_tests::any_json;

    #[test]
    fn log_entry_is_parsed() {
        let read = entry(&json!({
            "Id": "17",
            "Created": "2026-05-04T03:02:01-05:00",
            "Severity": "Warning",
            "Message": "Fan 1 is slow.",
            "Links": {"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/1/Sensors/fan1"}},
        }));
        assert_eq!(
            read,
            LogEntry {
                id: "17".to_owned(),
                at: Some("2026-05-04T08:02:01Z".parse().unwrap()),
                severity: Severity::Warning,
                message: "Fan 1 is slow.".to_owned(),
                sensor: Some("fan1".to_owned()),
                meaning: crate::EventMeaning::Other,
            }
        );
    }

    #[test]
    fn time_of_an_unset_clock_is_none() {
        for (created, is_known) in [
            ("1970-01-01T00:00:09Z", false),
            ("2026-05-04T03:02:01Z", true),
            ("yesterday", false),
            ("", false),
        ] {
            let at = entry(&json!({"Created": created})).at;
            assert_eq!(at.is_some(), is_known, "{created}");
        }
    }

    #[test]
    fn newest_entries_come_last_in_any_listing_order() {
        let created = |day: u8| json!({"Created": format!("2026-05-{day:02}T00:00:00Z")});
        let link = |id: u8| json!({"@odata.id": format!("/log/Entries/{id}")});
        for (listed, expected) in [
            (
                vec![created(1), created(2), created(3)],
                vec![created(2), created(3)],
            ),
            (
                vec![created(3), created(2), created(1)],
                vec![created(2), created(3)],
            ),
            (vec![link(9), link(10), link(11)], vec![link(10), link(11)]),
            (vec![link(11), link(10), link(9)], vec![link(10), link(11)]),
            (
                vec![json!({"Id": "a"}), json!({"Id": "b"})],
                vec![json!({"Id": "a"}), json!({"Id": "b"})],
            ),
            (vec![], vec![]),
        ] {
            assert_eq!(newest(listed.clone(), 2), expected, "{listed:?}");
        }
    }

    #[test]
    fn order_of_a_log_whose_clock_was_set_is_that_of_its_numbers() {
        let entry = |id: &str, minute: u8| json!({"Id": id, "Created": format!("2026-05-04T03:{minute:02}:00Z")});
        // It was set back by half an hour after the second entry.
        let oldest_first = [
            entry("7", 40),
            entry("8", 41),
            entry("9", 11),
            entry("10", 12),
        ];
        let mut newest_first = oldest_first.clone();
        newest_first.reverse();
        assert_eq!(order(&oldest_first), Order::OldestFirst);
        assert_eq!(order(&newest_first), Order::NewestFirst);
        // Without numbers, most of the times.
        let unnumbered = |entries: &[Value]| -> Vec<Value> {
            let times = entries.iter().map(|entry| entry["Created"].clone());
            times.map(|at| json!({"Id": "x", "Created": at})).collect()
        };
        assert_eq!(order(&unnumbered(&oldest_first)), Order::OldestFirst);
        assert_eq!(order(&unnumbered(&newest_first)), Order::NewestFirst);
        // A make that numbers from the newest.
        let from_newest = [entry("1", 41), entry("2", 40), entry("3", 39)];
        assert_eq!(order(&from_newest), Order::NewestFirst);
    }

    #[test]
    fn entry_without_unused_properties_reads_the_same() {
        let huge = "x".repeat(1 << 20);
        let body = json!({
            "@odata.id": "/log/Entries/7", "Created": "2026-05-04T03:02:01Z", "Severity": "OK",
            "Message": "m", "Oem": {"Dump": huge}, "Name": [1, 2],
            "Links": {"OriginOfCondition": {"@odata.id": "/Sensors/f", "Oem": huge}, "Oem": huge},
        });
        let slim = slim(&body);
        assert_eq!(entry(&slim), entry(&body));
        assert!(slim.to_string().len() < 300);
        assert!(is_bare(&super::slim(&json!({"@odata.id": "/1", "Oem": 1}))));
        assert!(is_bare(&super::slim(&json!("text"))));
    }

    #[test]
    fn bare_link_is_not_an_entry() {
        assert!(is_bare(&json!({"@odata.id": "/1"})));
        assert!(!is_bare(&json!({"@odata.id": "/1", "Message": "x"})));
    }

    const NAMES: &[&str] = &[
        "Id",
        "@odata.id",
        "Created",
        "Severity",
        "Message",
        "Links",
        "OriginOfCondition",
        "Members",
    ];
    const WORDS: &[&str] = &[
        "/a/Sensors/b",
        "7",
        "2026-05-04T03:02:01Z",
        "1970-01-01T00:00:00Z",
    ];

    proptest! {
        #[test]
        fn arbitrary_entries_do_not_panic_and_respect_the_limit(
            entries in prop::collection::vec(any_json(NAMES, WORDS), 0..8),
            limit in 0_usize..10,
        ) {
            let count = entries.len();
            let newest = newest(entries, limit);
            prop_assert_eq!(newest.len(), count.min(limit));
            for body in newest {
                let _ = (is_bare(&body), entry(&body));
            }
        }
    }
}
