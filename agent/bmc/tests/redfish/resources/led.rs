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
async fn location_indicator_active_is_preferred() {
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
async fn indicator_led_is_set_to_lit_or_off() {
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
async fn rejected_led_value_is_followed_by_the_next() {
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
async fn chassis_led_is_used_for_a_system_without_one() {
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
async fn missing_led_and_timer_are_unsupported() {
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
