//! Soft off, reset and the diagnostic interrupt.

use std::time::Duration;

use rackhand_bmc::{Acceptance, Bmc, ErrorKind, PowerCommand, redfish::connect};
use serde_json::{Value, json};

use crate::bmc::{RESET, Reply, SESSIONS, SYSTEM, TestBmc, inline, system};

const BUTTON: &[&str] = &["On", "ForceOff", "PushPowerButton"];

async fn offering(types: &[&str]) -> TestBmc {
    let bmc = TestBmc::start().await;
    bmc.world(|world| world.systems = vec![(SYSTEM.to_owned(), system(SYSTEM, &inline(types)))]);
    bmc
}

fn types(bmc: &TestBmc) -> Vec<Value> {
    let posts = bmc.sent("POST").into_iter();
    posts
        .filter(|seen| seen.path == RESET)
        .map(|seen| seen.body["ResetType"].clone())
        .collect()
}

fn with_button(bmc: &TestBmc) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.soft_off_by_button = true;
    connect(config).unwrap()
}

#[tokio::test]
async fn each_command_sends_its_reset_type() {
    for (command, word) in [
        (PowerCommand::SoftOff, "GracefulShutdown"),
        (PowerCommand::Reset, "ForceRestart"),
        (PowerCommand::Nmi, "Nmi"),
    ] {
        let bmc = offering(&["On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi"]).await;
        let accepted = bmc.client().command(command).await.unwrap();
        assert_eq!(
            (accepted.command.as_str(), accepted.answer.as_str()),
            (word, "204")
        );
        assert_eq!(accepted.acceptance, Acceptance::Taken);
        assert_eq!(types(&bmc), [word]);
    }
}

#[tokio::test]
async fn soft_off_of_a_powered_off_host_sends_nothing() {
    let bmc = TestBmc::start().await;
    bmc.world(|world| world.power = json!("Off"));
    let accepted = bmc.client().command(PowerCommand::SoftOff).await.unwrap();
    assert_eq!(accepted.answer, "already off");
    assert!(types(&bmc).is_empty());
}

#[tokio::test]
async fn push_power_button_is_a_soft_off_only_if_configured() {
    let bmc = offering(BUTTON).await;
    let error = bmc
        .client()
        .command(PowerCommand::SoftOff)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("allow the button"), "{error}");
    assert!(types(&bmc).is_empty());

    let error = bmc
        .client()
        .command(PowerCommand::SoftOffByButton)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);

    let client = with_button(&bmc);
    let error = client.command(PowerCommand::SoftOff).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ButtonOnly, "{error}");
    assert!(types(&bmc).is_empty());
    let press = PowerCommand::SoftOffByButton;
    let accepted = client.command(press).await.unwrap();
    assert_eq!(accepted.command, "PushPowerButton");
    assert_eq!(types(&bmc), ["PushPowerButton"]);
}

#[tokio::test]
async fn soft_off_by_button_requires_exactly_on() {
    let bmc = offering(BUTTON).await;
    let client = with_button(&bmc);
    for state in ["PoweringOff", "PoweringOn", "on", ""] {
        bmc.world(|world| world.power = json!(state));
        let press = PowerCommand::SoftOffByButton;
        let error = client.command(press).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{state}");
    }
    assert!(types(&bmc).is_empty());
}

#[tokio::test]
async fn soft_off_is_never_replaced_by_a_hard_off() {
    let bmc = offering(&["On", "ForceOff", "ForceRestart"]).await;
    let error = with_button(&bmc)
        .command(PowerCommand::SoftOff)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(
        error.message.contains("ForceOff"),
        "missing list of the alternatives: {error}"
    );
    assert!(types(&bmc).is_empty());
}

#[tokio::test]
async fn reset_is_never_replaced_by_another_reset_type() {
    let bmc = offering(&["On", "ForceOff", "PowerCycle", "GracefulRestart"]).await;
    let error = bmc.client().command(PowerCommand::Reset).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("power off, confirm"), "{error}");
    assert!(types(&bmc).is_empty());
}

#[tokio::test]
async fn reset_of_a_model_that_hangs_is_rejected_with_advice() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Manufacturer": "Lenovo", "Model": "ThinkSystem SR675 V3"}));
    let client = bmc.client();
    let error = client.command(PowerCommand::Reset).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("SR675 V3"), "{error}");
    assert!(error.message.contains("power off, confirm"), "{error}");
    assert!(types(&bmc).is_empty());
    client.off().await.unwrap();
    assert_eq!(types(&bmc), ["ForceOff"]);
}

#[tokio::test]
async fn rejected_reset_of_a_powered_off_host_is_an_error() {
    for command in [PowerCommand::Reset, PowerCommand::Nmi] {
        for (status, id) in [
            (409, "Base.1.8.ActionParameterValueConflict"),
            (400, "iLO.2.14.InvalidOperationForSystemState"),
            (409, "IDRAC.2.8.PSU501"),
        ] {
            let bmc = TestBmc::with(move |seen, _| {
                seen.is("POST", RESET)
                    .then(|| Reply::message(status, id, "the server is off"))
            })
            .await;
            let all = inline(&["On", "ForceOff", "ForceRestart", "Nmi"]);
            bmc.world(|world| {
                world.systems = vec![(SYSTEM.to_owned(), system(SYSTEM, &all))];
                world.power = json!("Off");
            });
            let error = bmc.client().command(command).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{id}: {error}");
            assert!(error.message.contains("the server is off"), "{error}");
            assert!(!error.maybe_sent);
            assert_eq!(bmc.count("POST", RESET), 1);
        }
    }
}

#[tokio::test]
async fn power_on_conflict_is_busy_until_the_host_is_on() {
    let conflict = || Reply::message(409, "Base.1.18.ActionParameterValueConflict", "settling");
    for state in ["Off", "PoweringOff", "PoweringOn", ""] {
        let bmc = TestBmc::with(move |seen, _| seen.is("POST", RESET).then(conflict)).await;
        bmc.world(|world| world.power = json!(state));
        let error = bmc.client().on().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{state}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(5)));
        assert!(!error.maybe_sent);
    }
    let bmc = TestBmc::with(move |seen, _| seen.is("POST", RESET).then(conflict)).await;
    assert_eq!(bmc.client().on().await.unwrap_err().kind, ErrorKind::Busy);
}

#[tokio::test]
async fn f1_rejected_soft_off_of_a_host_now_off_is_an_error() {
    let bmc = TestBmc::with(|seen, world| {
        if !seen.is("POST", RESET) {
            return None;
        }
        world.power = json!("Off");
        Some(Reply::status(409))
    })
    .await;
    let command = bmc.client().command(PowerCommand::SoftOff).await;
    assert_eq!(command.unwrap_err().kind, ErrorKind::Refused);
}

#[tokio::test]
async fn unknown_reset_type_is_unsupported() {
    for (status, id) in [
        (501, "Base.1.8.ActionNotSupported"),
        (400, "Base.1.8.ActionParameterValueNotInList"),
        (400, "Base.1.8.ActionParameterUnknown"),
    ] {
        let bmc = TestBmc::with(move |seen, _| {
            seen.is("POST", RESET)
                .then(|| Reply::message(status, id, "unknown"))
        })
        .await;
        let reset = json!({"target": RESET});
        bmc.world(|world| world.systems = vec![(SYSTEM.to_owned(), system(SYSTEM, &reset))]);
        let error = bmc.client().command(PowerCommand::Nmi).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{id}");
        assert!(!error.kind.is_transient());
    }
}

#[tokio::test]
async fn hard_off_does_not_wait_for_the_task_of_a_soft_off() {
    let bmc = TestBmc::with(|seen, _| {
        let running = json!({"TaskState": "Running"});
        if seen.is("POST", RESET) && seen.body["ResetType"] == "GracefulShutdown" {
            return Some(Reply::status(202).header("Location", "/redfish/v1/task"));
        }
        (seen.path == "/redfish/v1/task").then(|| Reply::json(202, &running))
    })
    .await;
    let client = bmc.client();
    let soft = client.command(PowerCommand::SoftOff);
    let hard = async {
        while bmc.count("GET", "/redfish/v1/task") == 0 {
            tokio::task::yield_now().await;
        }
        client.off().await.unwrap();
    };
    tokio::select! {
        done = soft => panic!("the task does not end: {done:?}"),
        () = hard => {}
    }
    assert_eq!(types(&bmc), ["GracefulShutdown", "ForceOff"]);
}

#[tokio::test]
async fn identity_is_read_from_the_bmc_each_time() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    assert_eq!(
        client.identity().await.unwrap().serial.as_deref(),
        Some("ABC123")
    );
    bmc.add_to_system(&json!({"SerialNumber": "XYZ", "Model": null}));
    let identity = client.identity().await.unwrap();
    assert_eq!(identity.serial.as_deref(), Some("XYZ"));
    assert_eq!(identity.vendor.as_deref(), Some("Example"));
    assert_eq!(identity.model, None);
}

#[tokio::test]
async fn command_counts_as_sent_when_it_may_have_reached_the_bmc() {
    // The request that fails, with its status; whether the command is then known not to have been sent.
    for (method, path, status, not_sent) in [
        ("GET", SYSTEM, 503, true),
        ("POST", SESSIONS, 503, true),
        ("POST", RESET, 503, false),
        ("POST", RESET, 400, false),
        ("POST", RESET, 502, false),
        ("POST", RESET, 401, false),
    ] {
        let bmc =
            TestBmc::with(move |seen, _| seen.is(method, path).then(|| Reply::status(status)))
                .await;
        let error = bmc.client().off().await.unwrap_err();
        assert_eq!(
            error.not_sent, not_sent,
            "{method} {path} {status}: {error}"
        );
    }
    let mut config = TestBmc::start().await.config();
    config.address = "redfish+http://127.0.0.1:1".parse().unwrap();
    let error = connect(config).unwrap().off().await.unwrap_err();
    assert!(error.not_sent, "{error}");
}
