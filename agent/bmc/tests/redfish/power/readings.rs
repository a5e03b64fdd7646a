//! Power readings.

use rackhand_bmc::{KeepAlive, PowerSource, PowerState};
use serde_json::json;

use crate::bmc::{SYSTEM, TestBmc};

#[tokio::test]
async fn power_and_identity_are_read() {
    let bmc = TestBmc::start().await;
    let reading = bmc.client().power().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.raw, "On");
    assert_eq!(reading.source, PowerSource::Redfish);
    assert_eq!(
        reading.bmc,
        format!("redfish+http://127.0.0.1:{}", bmc.port)
    );
    let identity = reading.identity;
    assert_eq!(
        identity.system_uuid.as_deref(),
        Some("4c4c4544-0042-3510-8054-c2c04f4e4e32")
    );
    assert_eq!(identity.serial.as_deref(), Some("ABC123"));
    assert_eq!(identity.vendor.as_deref(), Some("Example"));
    assert_eq!(identity.model.as_deref(), Some("E1"));
}

#[tokio::test]
async fn only_exactly_off_reads_as_off() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    for (word, state) in [
        (json!("PoweringOff"), PowerState::PoweringOff),
        (json!("PoweringOn"), PowerState::PoweringOn),
        (json!("off"), PowerState::Unknown),
        (json!(null), PowerState::Unknown),
        (json!("Off"), PowerState::Off),
    ] {
        bmc.world(|world| world.power = word.clone());
        assert_eq!(client.power().await.unwrap().state, state, "{word}");
    }
    assert_eq!(bmc.count("GET", SYSTEM), 5, "a reading came from a cache");
    assert_eq!(
        bmc.count("GET", "/redfish/v1/Systems"),
        1,
        "the system was discovered again"
    );
}

#[tokio::test]
async fn requests_use_identity_encoding_and_one_connection_each() {
    let bmc = TestBmc::start().await;
    bmc.client().power().await.unwrap();
    for seen in bmc.seen() {
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        assert_eq!(seen.header("odata-version"), Some("4.0"));
        assert_eq!(seen.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn keep_alive_applies_to_reads_only() {
    let bmc = TestBmc::start().await;
    let mut config = bmc.config();
    config.keep_alive = KeepAlive::Always;
    let client = rackhand_bmc::redfish::connect(config).unwrap();
    client.power().await.unwrap();
    client.off().await.unwrap();
    for seen in bmc.seen() {
        let connection = (seen.method != "GET").then_some("close");
        assert_eq!(
            seen.header("connection"),
            connection,
            "{} {}",
            seen.method,
            seen.path
        );
    }
}

#[tokio::test]
async fn debug_output_contains_no_password_or_token() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    let shown = format!("{client:?} {:?} {}", bmc.config(), client.address());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(!shown.contains("token-1"), "{shown}");
}

#[tokio::test]
async fn creating_a_client_sends_nothing() {
    let bmc = TestBmc::start().await;
    drop(bmc.client());
    assert_eq!(bmc.seen().len(), 0);
}
