//! Power state of the chassis of a system.

use rackhand_bmc::{
    ErrorKind, PowerCommand, PowerState,
    operation::{DuringUpdate, Expected, Goal, OperationRequest, Outcome, Timing, run},
};
use serde_json::{Value, json};
use std::time::Duration;

use crate::bmc::{RESET, Reply, SESSIONS, SYSTEM, TestBmc};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

/// A system that reports off, in a chassis.
async fn in_chassis(chassis: Option<Value>) -> TestBmc {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    bmc.world(|world| world.power = json!("Off"));
    if let Some(chassis) = chassis {
        bmc.put(CHASSIS, chassis);
    }
    bmc
}

fn of_systems(power: &Value, systems: &[&str]) -> Value {
    let systems: Vec<_> = systems
        .iter()
        .map(|link| json!({"@odata.id": link}))
        .collect();
    json!({
        "@odata.type": "#Chassis.v1_23_0.Chassis", "PowerState": power,
        "Links": {"ComputerSystems": systems},
    })
}

#[tokio::test]
async fn f1_system_in_a_powered_chassis_is_not_off() {
    for (word, state) in [
        (json!("On"), PowerState::Unknown),
        (json!("PoweringOff"), PowerState::PoweringOff),
        (json!("off"), PowerState::Unknown),
        (json!("Off"), PowerState::Off),
        (Value::Null, PowerState::Off),
    ] {
        let bmc = in_chassis(Some(of_systems(&word, &[SYSTEM]))).await;
        let reading = bmc.client().power().await.unwrap();
        assert_eq!(reading.state, state, "{word}");
        if state != PowerState::Off {
            let word = word.as_str().unwrap();
            assert_eq!(reading.raw, format!("Off, but chassis 1 {word}"));
        }
    }
}

#[tokio::test]
async fn f1_chassis_that_is_refused_while_the_session_works_is_none_for_this_user() {
    let bmc = TestBmc::with(|seen, _| (seen.path == CHASSIS).then(|| Reply::status(401))).await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    bmc.world(|world| {
        world.power = json!("Off");
        for number in 1..4 {
            let session = format!("{SESSIONS}/token-{number}");
            world.documents.insert(session, json!({"Id": number}));
        }
    });
    let client = bmc.client();
    for _ in 0..2 {
        assert_eq!(client.power().await.unwrap().state, PowerState::Off);
    }
}

#[tokio::test]
async fn f1_power_of_an_enclosure_of_several_systems_is_ignored() {
    let enclosure = of_systems(&json!("On"), &[SYSTEM, "/redfish/v1/Systems/2"]);
    let bmc = in_chassis(Some(enclosure)).await;
    let reading = bmc.client().power().await.unwrap();
    assert_eq!(
        (reading.state, reading.raw.as_str()),
        (PowerState::Off, "Off")
    );
}

#[tokio::test]
async fn f1_unreadable_chassis_makes_the_reading_fail() {
    let bmc = TestBmc::with(|seen, _| (seen.path == CHASSIS).then(|| Reply::status(503))).await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    bmc.world(|world| world.power = json!("Off"));
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
}

#[tokio::test]
async fn chassis_is_read_only_for_a_host_that_reads_off() {
    let bmc = in_chassis(None).await;
    assert_eq!(bmc.client().power().await.unwrap().state, PowerState::Off);
    assert_eq!(bmc.count("GET", CHASSIS), 1);
    bmc.world(|world| world.power = json!("On"));
    assert_eq!(bmc.client().power().await.unwrap().state, PowerState::On);
    assert_eq!(bmc.count("GET", CHASSIS), 1);
}

#[tokio::test]
async fn f1_rejection_for_another_reason_is_not_already_off() {
    for (status, id, kind) in [
        (400, "IDRAC.2.8.SWC0700", ErrorKind::Busy),
        (409, "Base.1.8.ResourceInUse", ErrorKind::Busy),
        (400, "Base.1.8.ActionNotSupported", ErrorKind::Unsupported),
    ] {
        let bmc = TestBmc::with(move |seen, _| {
            seen.is("POST", RESET)
                .then(|| Reply::message(status, id, "not now"))
        })
        .await;
        bmc.world(|world| world.power = json!("Off"));
        let error = bmc.client().command(PowerCommand::Off).await.unwrap_err();
        assert_eq!(error.kind, kind, "{id}: {error}");
    }
}

#[tokio::test]
async fn f1_host_in_a_powered_chassis_is_never_confirmed_off() {
    let bmc = in_chassis(Some(of_systems(&json!("On"), &[SYSTEM]))).await;
    let asked = OperationRequest {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: Duration::from_millis(50),
            command_after: Duration::ZERO,
        },
        deadline: Duration::from_secs(2),
        expected: Expected::default(),
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    };
    let report = run(bmc.client().as_ref(), asked, &mut ()).await;
    assert!(
        matches!(report.outcome, Outcome::Unconfirmed { .. }),
        "{report:?}"
    );
    assert!(report.commands > 0);
}
