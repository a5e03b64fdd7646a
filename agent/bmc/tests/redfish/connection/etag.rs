//! Preconditions of changes and actions.

use rackhand_bmc::{ErrorKind, Identify, PowerCommand};
use serde_json::json;

use crate::bmc::{RESET, Reply, SYSTEM, TestBmc};

/// A BMC with an LED and this ETag, which accepts a PATCH with the precondition `good` only.
async fn wanting(etag: &'static str, good: Option<&'static str>, otherwise: u16) -> TestBmc {
    let bmc = TestBmc::with(move |seen, world| {
        if seen.is("GET", SYSTEM) {
            let mut document = world.systems[0].1.clone();
            document["@odata.etag"] = json!(null);
            let reply = Reply::json(200, &document);
            return Some(if etag.is_empty() {
                reply
            } else {
                reply.header("ETag", etag)
            });
        }
        (seen.method == "PATCH" && seen.header("if-match") != good)
            .then(|| Reply::status(otherwise))
    })
    .await;
    bmc.add_to_system(&json!({"LocationIndicatorActive": false}));
    bmc
}

fn tried(bmc: &TestBmc) -> Vec<String> {
    let patches = bmc.sent("PATCH").into_iter();
    patches
        .map(|seen| seen.header("if-match").unwrap_or("none").to_owned())
        .collect()
}

#[tokio::test]
async fn if_match_forms_are_tried_until_one_is_accepted() {
    for (etag, good, otherwise, expected) in [
        ("\"1\"", Some("\"1\""), 412, &["\"1\""][..]),
        ("W/\"1\"", Some("W/\"1\""), 412, &["W/\"1\""]),
        ("W/\"1\"", Some("\"1\""), 412, &["W/\"1\"", "\"1\""]),
        ("W/\"1\"", None, 412, &["W/\"1\"", "\"1\"", "none"]),
        ("", None, 412, &["none"]),
        ("\"\"", None, 412, &["none"]),
        ("", Some("*"), 428, &["none", "*"]),
    ] {
        let bmc = wanting(etag, good, otherwise).await;
        bmc.client().identify(Identify::On).await.unwrap();
        assert_eq!(tried(&bmc), expected, "{etag}");
        assert_eq!(
            bmc.world(|w| w.systems[0].1["LocationIndicatorActive"].clone()),
            true
        );
    }
}

#[tokio::test]
async fn ami_firmware_that_rejects_its_etag_is_sent_any_etag() {
    let bmc = wanting("\"1\"", Some("*"), 412).await;
    bmc.world(|world| world.root = json!({"Oem": {"Ami": {}}}));
    bmc.client().identify(Identify::On).await.unwrap();
    assert_eq!(tried(&bmc), ["\"1\"", "*"]);
}

#[tokio::test]
async fn any_etag_is_sent_to_ami_only() {
    let bmc = wanting("\"1\"", Some("*"), 412).await;
    let error = bmc.client().identify(Identify::On).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("If-Match"), "{error}");
    assert_eq!(tried(&bmc), ["\"1\"", "none"]);
}

#[tokio::test]
async fn etag_in_the_document_replaces_a_missing_header() {
    let bmc = TestBmc::with(|seen, world| {
        seen.is("GET", SYSTEM)
            .then(|| Reply::json(200, &world.systems[0].1))
    })
    .await;
    bmc.add_to_system(&json!({"LocationIndicatorActive": false}));
    bmc.client().identify(Identify::On).await.unwrap();
    assert_eq!(tried(&bmc), ["W/\"1234\""]);
}

#[tokio::test]
async fn lost_patch_response_is_not_retried() {
    let bmc = TestBmc::with(|seen, _| (seen.method == "PATCH").then(|| Reply::status(504))).await;
    bmc.add_to_system(&json!({"LocationIndicatorActive": false}));
    let error = bmc.client().identify(Identify::On).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.maybe_sent);
    assert_eq!(bmc.sent("PATCH").len(), 1);
}

/// A BMC that carries a reset out with this precondition only.
async fn acting(etag: &'static str, good: &'static str, otherwise: u16) -> TestBmc {
    TestBmc::with(move |seen, world| {
        if seen.is("GET", SYSTEM) {
            let document = world.systems[0].1.clone();
            return Some(Reply::json(200, &document).header("ETag", etag));
        }
        let is_refused = seen.is("POST", RESET) && seen.header("if-match") != Some(good);
        is_refused.then(|| Reply::status(otherwise))
    })
    .await
}

#[tokio::test]
async fn action_that_needs_a_precondition_is_sent_with_one() {
    for (etag, good, otherwise, root) in [
        ("\"1\"", "\"1\"", 412, json!({})),
        ("\"1\"", "\"1\"", 428, json!({})),
        ("\"\"", "*", 428, json!({})),
        ("\"1\"", "*", 428, json!({"Oem": {"Ami": {}}})),
    ] {
        let bmc = acting(etag, good, otherwise).await;
        bmc.world(|world| world.root = root);
        let client = bmc.client();
        let error = client.off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
        assert!(!error.maybe_sent && !error.not_sent, "{error}");
        client.off().await.unwrap();
        client.off().await.unwrap();
        let conditions: Vec<_> = (bmc
            .sent("POST")
            .iter()
            .filter(|seen| seen.is("POST", RESET)))
        .map(|seen| seen.header("if-match").map(str::to_owned))
        .collect();
        assert_eq!(
            conditions,
            [None, Some(good.to_owned()), Some(good.to_owned())],
            "{etag} {otherwise}"
        );
    }
}

#[tokio::test]
async fn reset_that_needs_a_precondition_is_not_sent_again() {
    let bmc = acting("\"1\"", "\"1\"", 412).await;
    let client = bmc.client();
    let error = client.command(PowerCommand::Reset).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    assert_eq!(bmc.count("POST", RESET), 1);
    // Whoever asks again gets it through.
    client.command(PowerCommand::Reset).await.unwrap();
}
