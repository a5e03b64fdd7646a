//! Reading power.

use rackhand_bmc::{PowerState, Protocol};
use serde_json::json;

use crate::bmc::{SYSTEM, TestBmc};

#[tokio::test]
async fn power_and_identity_of_the_only_system_are_read() {
    let bmc = TestBmc::start().await;
    let reading = bmc.client().power().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.raw, "On");
    assert_eq!(reading.protocol, Protocol::Redfish);
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
async fn powering_off_is_not_off_and_neither_is_anything_else() {
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
    assert_eq!(bmc.count("GET", SYSTEM), 5, "every reading asks the BMC");
    assert_eq!(
        bmc.count("GET", "/redfish/v1/Systems"),
        1,
        "the system is found once"
    );
}

#[tokio::test]
async fn every_request_asks_for_a_plain_answer_on_a_connection_of_its_own() {
    let bmc = TestBmc::start().await;
    bmc.client().power().await.unwrap();
    for seen in bmc.seen() {
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        assert_eq!(seen.header("odata-version"), Some("4.0"));
        assert_eq!(seen.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn with_keep_alive_reads_share_a_connection_and_commands_do_not() {
    let bmc = TestBmc::start().await;
    let mut config = bmc.config();
    config.keep_alive = true;
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
async fn nothing_that_can_be_printed_holds_the_password() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    let shown = format!("{client:?} {:?} {}", bmc.config(), client.address());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(!shown.contains("token-1"), "{shown}");
}

#[tokio::test]
async fn making_a_client_sends_nothing() {
    let bmc = TestBmc::start().await;
    drop(bmc.client());
    assert_eq!(bmc.seen().len(), 0);
}
