//! Reset of the BMC itself.

use std::time::Duration;

use rackhand_bmc::ErrorKind;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bmc::{RESET, Reply, TestBmc};

const MANAGER: &str = "/redfish/v1/Managers/1";
const TARGET: &str = "/redfish/v1/Managers/1/Actions/Manager.Reset";

fn manager(types: &[&str]) -> Value {
    json!({"Actions": {"#Manager.Reset": {
        "target": TARGET, "ResetType@Redfish.AllowableValues": types,
    }}})
}

async fn managed(types: &[&str], answer: Reply) -> TestBmc {
    let bmc = TestBmc::with(move |seen, _| seen.is("POST", TARGET).then(|| answer.clone())).await;
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [{"@odata.id": MANAGER}]}}));
    bmc.put(MANAGER, manager(types));
    bmc
}

#[tokio::test]
async fn bmc_reset_prefers_graceful_restart_and_is_sent_once() {
    for (types, word) in [
        (&["ForceRestart", "GracefulRestart"][..], "GracefulRestart"),
        (&["ForceRestart"], "ForceRestart"),
        (&[], "GracefulRestart"),
    ] {
        let bmc = managed(types, Reply::status(204)).await;
        assert_eq!(bmc.client().reset_bmc().await.unwrap().command, word);
        assert_eq!(bmc.count("POST", TARGET), 1);
        assert_eq!(bmc.count("POST", RESET), 0);
    }
}

#[tokio::test]
async fn several_managers_are_an_error() {
    let bmc = managed(&[], Reply::status(204)).await;
    let both = [MANAGER, "/redfish/v1/Managers/2"];
    let links: Vec<_> = both.iter().map(|link| json!({"@odata.id": link})).collect();
    bmc.add_to_system(&json!({"Links": {"ManagedBy": links}}));
    let error = bmc.client().reset_bmc().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::System);
    assert!(
        both.iter().all(|link| error.message.contains(link)),
        "{error}"
    );
    assert_eq!(bmc.count("POST", TARGET), 0);
}

#[tokio::test]
async fn only_manager_is_used_for_a_system_without_a_link() {
    let bmc = managed(&[], Reply::status(204)).await;
    bmc.add_to_system(&json!({"Links": {"ManagedBy": []}}));
    bmc.world(|w| w.root = json!({"Managers": {"@odata.id": "/redfish/v1/Managers"}}));
    bmc.put(
        "/redfish/v1/Managers",
        json!({"Members": [{"@odata.id": MANAGER}]}),
    );
    bmc.client().reset_bmc().await.unwrap();
    assert_eq!(bmc.count("POST", TARGET), 1);
}

#[tokio::test]
async fn manager_without_a_reset_action_is_unsupported() {
    let bmc = managed(&["ResetToDefaults"], Reply::status(204)).await;
    let error = bmc.client().reset_bmc().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);

    let nobody = TestBmc::start().await;
    let error = nobody.client().reset_bmc().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn bmc_reset_is_not_retried_and_its_task_not_polled() {
    let bmc = managed(&[], Reply::status(502)).await;
    let error = bmc.client().reset_bmc().await.unwrap_err();
    assert!(error.maybe_sent);
    assert_eq!(bmc.count("POST", TARGET), 1);

    let task = Reply::status(202).header("Location", "/redfish/v1/task");
    let bmc = managed(&[], task).await;
    assert_eq!(bmc.client().reset_bmc().await.unwrap().answer, "202");
    assert_eq!(bmc.count("GET", "/redfish/v1/task"), 0);
}

#[tokio::test]
async fn bmc_that_shows_its_manager_too_late_is_not_reset() {
    let slow = Duration::from_millis(300);
    let bmc = TestBmc::with(move |seen, world| {
        let manager = world.documents.get(MANAGER)?;
        let is_manager = seen.is("GET", MANAGER);
        is_manager.then(|| Reply::json(200, manager).late(slow))
    })
    .await;
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [{"@odata.id": MANAGER}]}}));
    bmc.put(
        MANAGER,
        json!({"Actions": {"#Manager.Reset": {"target": TARGET}}}),
    );
    let client = bmc.client();
    let until = Some(Instant::now() + slow / 2);
    let error = client.reset_bmc_until(until).await.unwrap_err();
    assert!(error.not_sent && error.kind == ErrorKind::Busy, "{error}");
    assert_eq!(bmc.count("GET", MANAGER), 1);
    assert_eq!(bmc.count("POST", TARGET), 0);
}
