//! The identify LED.

use std::time::Duration;

use rackhand_bmc::{ErrorKind, Identify};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

fn bodies(bmc: &TestBmc) -> Vec<Value> {
    bmc.sent("PATCH")
        .into_iter()
        .map(|seen| seen.body)
        .collect()
}

#[tokio::test]
async fn the_newer_property_is_used_where_there_is_one() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"LocationIndicatorActive": false, "IndicatorLED": "Off"}));
    let client = bmc.client();
    let accepted = client.identify(Identify::On).await.unwrap();
    assert_eq!(accepted.command, r#"{"LocationIndicatorActive":true}"#);
    assert_eq!(accepted.answer, "204");
    client.identify(Identify::Off).await.unwrap();
    assert_eq!(
        bodies(&bmc),
        [
            json!({"LocationIndicatorActive": true}),
            json!({"LocationIndicatorActive": false}),
        ]
    );
}

#[tokio::test]
async fn the_older_property_is_lit_or_off() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"IndicatorLED": "Off"}));
    let client = bmc.client();
    client.identify(Identify::On).await.unwrap();
    client.identify(Identify::Off).await.unwrap();
    assert_eq!(
        bodies(&bmc),
        [
            json!({"IndicatorLED": "Lit"}),
            json!({"IndicatorLED": "Off"})
        ]
    );
}

#[tokio::test]
async fn a_value_that_the_bmc_refuses_is_followed_by_the_next() {
    let bmc = TestBmc::with(|seen, _| {
        (seen.body["IndicatorLED"] == "Lit")
            .then(|| Reply::message(400, "Base.1.8.PropertyValueNotInList", "not Lit"))
    })
    .await;
    bmc.add_to_system(&json!({"IndicatorLED": "Off"}));
    let accepted = bmc.client().identify(Identify::On).await.unwrap();
    assert_eq!(accepted.command, r#"{"IndicatorLED":"Blinking"}"#);
}

#[tokio::test]
async fn an_led_of_the_chassis_does_for_a_system_without_one() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    bmc.put(
        CHASSIS,
        json!({"@odata.etag": "\"c\"", "LocationIndicatorActive": false}),
    );
    bmc.client().identify(Identify::On).await.unwrap();
    let patch = bmc.sent("PATCH").pop().unwrap();
    assert_eq!(
        (patch.path.as_str(), patch.header("if-match")),
        (CHASSIS, Some("\"c\""))
    );
}

#[tokio::test]
async fn no_led_is_unsupported_and_so_is_a_timer() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    let client = bmc.client();
    let error = client.identify(Identify::On).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let timer = Identify::For(Duration::from_secs(15));
    let error = client.identify(timer).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("off later"), "{error}");
    assert!(bmc.sent("PATCH").is_empty());
    assert_eq!(bmc.count("GET", SYSTEM), 1);
}
