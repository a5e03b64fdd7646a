//! The event log.

use rackhand_bmc::{ErrorKind, EventLog, Severity};
use serde_json::{Value, json};

use crate::bmc::{Reply, TestBmc};

const LOGS: &str = "/redfish/v1/Systems/1/LogServices";
const SEL: &str = "/redfish/v1/Systems/1/LogServices/SEL";
const ENTRIES: &str = "/redfish/v1/Systems/1/LogServices/SEL/Entries";
const CLEAR: &str = "/redfish/v1/Systems/1/LogServices/SEL/Actions/Clear";

fn at(path: &str) -> Value {
    json!({"@odata.id": path})
}

fn members(paths: &[String]) -> Value {
    let members: Vec<_> = paths.iter().map(|path| at(path)).collect();
    json!({"Members": members})
}

fn entry(number: usize) -> Value {
    json!({
        "@odata.id": format!("{ENTRIES}/{number}"),
        "Id": number.to_string(),
        "Created": format!("2026-05-04T{:02}:{:02}:00Z", number / 60, number % 60),
        "Severity": "Warning",
        "Message": format!("event {number}"),
    })
}

/// A system with a SEL of these entry numbers, `page` per page; `$skip` works if `skips` is set.
async fn with_log(numbers: Vec<usize>, page: usize, skips: bool, bare: bool) -> TestBmc {
    let total = numbers.len();
    let listed = move |from: usize, expanded: bool| {
        let on_page = numbers.iter().skip(from).take(page);
        let members: Vec<_> = on_page
            .map(|number| match bare && !expanded {
                true => at(&format!("{ENTRIES}/{number}")),
                false => entry(*number),
            })
            .collect();
        let mut body = json!({"Members@odata.count": total, "Members": members});
        if from + page < total {
            let next = from + page;
            body["Members@odata.nextLink"] = json!(if skips {
                format!("{ENTRIES}?$skip={next}")
            } else {
                format!("{ENTRIES}/page/{next}")
            });
        }
        body
    };
    let bmc = TestBmc::with(move |seen, _| {
        if seen.method != "GET" {
            return None;
        }
        let expanded = seen.query.contains("$expand=");
        if seen.path == ENTRIES {
            let skip = seen.query.split("$skip=").nth(1).filter(|_| skips);
            let from = skip.map_or(0, |skip| skip.parse().unwrap());
            return Some(Reply::json(200, &listed(from, expanded)));
        }
        let rest = seen.path.strip_prefix(ENTRIES)?.trim_start_matches('/');
        Some(match rest.strip_prefix("page/") {
            Some(from) => Reply::json(200, &listed(from.parse().unwrap(), expanded)),
            None => Reply::json(200, &entry(rest.parse().unwrap())),
        })
    })
    .await;
    bmc.add_to_system(&json!({"LogServices": at(LOGS)}));
    bmc.put(LOGS, members(&[format!("{LOGS}/AuditLog"), SEL.to_owned()]));
    let actions = json!({"#LogService.ClearLog": {"target": CLEAR}});
    bmc.put(SEL, json!({"Entries": at(ENTRIES), "Actions": actions}));
    bmc
}

fn ids(log: &EventLog) -> Vec<usize> {
    log.entries
        .iter()
        .map(|entry| entry.id.parse().unwrap())
        .collect()
}

fn page_reads(bmc: &TestBmc) -> usize {
    let reads = bmc.sent("GET").into_iter();
    reads.filter(|seen| seen.path.starts_with(ENTRIES)).count()
}

#[tokio::test]
async fn newest_entries_are_returned_oldest_first() {
    for numbers in [(1..=9).collect::<Vec<_>>(), (1..=9).rev().collect()] {
        let bmc = with_log(numbers, 100, false, false).await;
        let log = bmc.client().event_log(3).await.unwrap();
        assert_eq!(ids(&log), [7, 8, 9]);
        assert_eq!(log.total, Some(9));
        let last = &log.entries[2];
        assert_eq!(last.message, "event 9");
        assert_eq!(last.severity, Severity::Warning);
        assert_eq!(last.at, Some("2026-05-04T00:09:00Z".parse().unwrap()));
        assert_eq!(bmc.client().event_log(100).await.unwrap().entries.len(), 9);
        assert!(bmc.client().event_log(0).await.unwrap().entries.is_empty());
    }
}

#[tokio::test]
async fn log_listed_newest_first_is_read_up_to_the_limit() {
    let bmc = with_log((1..=500).rev().collect(), 50, true, false).await;
    let log = bmc.client().event_log(60).await.unwrap();
    assert_eq!(ids(&log), (441..=500).collect::<Vec<_>>());
    assert_eq!(page_reads(&bmc), 2);
}

#[tokio::test]
async fn log_listed_oldest_first_is_read_from_its_end_with_skip() {
    let bmc = with_log((1..=500).collect(), 50, true, false).await;
    let log = bmc.client().event_log(20).await.unwrap();
    assert_eq!(ids(&log), (481..=500).collect::<Vec<_>>());
    assert_eq!(log.total, Some(500));
    assert_eq!(page_reads(&bmc), 2);
}

#[tokio::test]
async fn log_without_skip_is_read_page_by_page() {
    let bmc = with_log((1..=120).collect(), 50, false, false).await;
    let log = bmc.client().event_log(30).await.unwrap();
    assert_eq!(ids(&log), (91..=120).collect::<Vec<_>>());
    assert_eq!(page_reads(&bmc), 3);
}

#[tokio::test]
async fn ineffective_skip_query_is_detected() {
    let bmc = with_log((1..=120).collect(), 50, false, false).await;
    let features = json!({"TopSkipQuery": true});
    bmc.world(|world| world.root = json!({"ProtocolFeaturesSupported": features}));
    let log = bmc.client().event_log(30).await.unwrap();
    assert_eq!(ids(&log), (91..=120).collect::<Vec<_>>());
}

#[tokio::test]
async fn log_of_too_many_pages_is_unsupported_with_advice() {
    let bmc = with_log((1..=500).collect(), 1, false, false).await;
    let error = bmc.client().event_log(10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("clear it"), "{error}");
    assert_eq!(page_reads(&bmc), 32);
}

#[tokio::test]
async fn entry_links_are_expanded_where_supported() {
    let bmc = with_log((1..=9).collect(), 100, false, true).await;
    let features = json!({"ExpandQuery": {"NoLinks": true}});
    bmc.world(|world| world.root = json!({"ProtocolFeaturesSupported": features}));
    let log = bmc.client().event_log(3).await.unwrap();
    assert_eq!(ids(&log), [7, 8, 9]);
    assert_eq!(log.entries[0].message, "event 7");
    assert_eq!(page_reads(&bmc), 2);
}

#[tokio::test]
async fn entry_links_are_read_singly_up_to_a_limit() {
    for (limit, read) in [(3, 3), (200, 64)] {
        let bmc = with_log((1..=200).rev().collect(), 1000, false, true).await;
        let log = bmc.client().event_log(limit).await.unwrap();
        assert_eq!(log.entries.len(), read);
        assert_eq!(log.entries.last().unwrap().message, "event 200");
        assert_eq!(page_reads(&bmc), 1 + read);
        assert_eq!(log.total, Some(200));
    }
}

#[tokio::test]
async fn manager_log_is_read_where_the_system_has_none() {
    let bmc = TestBmc::start().await;
    let manager = "/redfish/v1/Managers/1";
    let logs = format!("{manager}/LogServices");
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(manager)]}}));
    bmc.put(manager, json!({"LogServices": at(&logs)}));
    bmc.put(
        &logs,
        members(&["Lclog", "Sel"].map(|name| format!("{logs}/{name}"))),
    );
    bmc.put(
        &format!("{logs}/Sel"),
        json!({"Entries": at("/redfish/v1/entries")}),
    );
    bmc.put("/redfish/v1/entries", json!({"Members": [entry(1)]}));
    let log = bmc.client().event_log(5).await.unwrap();
    assert_eq!((ids(&log), log.total), (vec![1], Some(1)));
    assert_eq!(bmc.count("GET", &format!("{logs}/Lclog")), 0);
}

#[tokio::test]
async fn missing_event_log_error_lists_the_existing_logs() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    assert_eq!(
        client.event_log(1).await.unwrap_err().kind,
        ErrorKind::Unsupported
    );
    bmc.add_to_system(&json!({"LogServices": at(LOGS)}));
    bmc.put(
        LOGS,
        members(&["Foo", "Bar"].map(|name| format!("{LOGS}/{name}"))),
    );
    let error = client.clear_event_log().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(
        error.message.contains("Foo") && error.message.contains("Bar"),
        "{error}"
    );
    assert!(
        bmc.sent("POST")
            .iter()
            .all(|seen| seen.path.ends_with("Sessions"))
    );
}

#[tokio::test]
async fn clear_log_action_is_sent_once() {
    let bmc = with_log(vec![1], 10, false, false).await;
    let client = bmc.client();
    let error = client.clear_event_log().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "404: {error}");
    assert_eq!(bmc.count("POST", CLEAR), 1);

    let bmc = TestBmc::with(|seen, _| seen.is("POST", CLEAR).then(|| Reply::status(204))).await;
    bmc.add_to_system(&json!({"LogServices": at(LOGS)}));
    bmc.put(LOGS, members(&[SEL.to_owned()]));
    bmc.put(
        SEL,
        json!({"Actions": {"#LogService.ClearLog": {"target": CLEAR}}}),
    );
    let accepted = bmc.client().clear_event_log().await.unwrap();
    assert_eq!(
        (accepted.command.as_str(), accepted.answer.as_str()),
        ("ClearLog", "204")
    );
    let post = bmc.sent("POST").pop().unwrap();
    assert_eq!((post.path.as_str(), post.body), (CLEAR, json!({})));
}

#[tokio::test]
async fn log_without_a_clear_action_is_unsupported() {
    let bmc = with_log(vec![1], 10, false, false).await;
    bmc.put(SEL, json!({"Entries": at(ENTRIES)}));
    let error = bmc.client().clear_event_log().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn log_message_is_shortened_and_without_password() {
    let bmc = with_log(vec![1], 10, false, false).await;
    let mut entry = entry(1);
    entry["Message"] = json!(format!("s3cret-pw \u{1b}[31m {}", "x".repeat(5000)));
    let page = json!({"Members": [entry]});
    bmc.put(SEL, json!({"Entries": at("/redfish/v1/entries")}));
    bmc.put("/redfish/v1/entries", page);
    let log = bmc.client().event_log(1).await.unwrap();
    let message = &log.entries[0].message;
    assert!(message.starts_with("*** [31m x"), "{message}");
    assert_eq!(message.chars().count(), 1003);
}
