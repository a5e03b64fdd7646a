//! Power off and on.

use std::time::Duration;

use rackhand_bmc::{
    Accepted, ErrorKind, PowerCommand,
    redfish::{AuthPolicy, connect},
};
use serde_json::json;

use crate::bmc::{RESET, Reply, SESSIONS, SYSTEM, Seen, TestBmc, inline, system};

const INFO: &str = "/redfish/v1/Systems/1/ResetActionInfo";

fn sent(bmc: &TestBmc) -> Vec<String> {
    let is_reset = |seen: &Seen| seen.method == "POST" && seen.path.contains("Reset");
    let word = |seen: Seen| seen.body["ResetType"].as_str().unwrap().to_owned();
    bmc.seen().into_iter().filter(is_reset).map(word).collect()
}

fn set_reset(bmc: &TestBmc, reset: &serde_json::Value) {
    bmc.world(|world| world.systems = vec![(SYSTEM.to_owned(), system(SYSTEM, reset))]);
}

#[tokio::test]
async fn off_sends_force_off_and_on_sends_on() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    let off = client.off().await.unwrap();
    assert_eq!(
        off,
        Accepted {
            before: off.before,
            ..Accepted::taken("ForceOff", "204")
        }
    );
    let on = client.on().await.unwrap();
    assert_eq!(
        on,
        Accepted {
            before: on.before,
            ..Accepted::taken("On", "204")
        }
    );
    assert_eq!(sent(&bmc), ["ForceOff", "On"]);
}

#[tokio::test]
async fn action_target_is_read_from_the_system() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("POST", "/redfish/v1/odd/place/Reset")
            .then(|| Reply::status(204))
    })
    .await;
    set_reset(&bmc, &json!({"target": "/redfish/v1/odd/place/Reset"}));
    bmc.client().off().await.unwrap();
    assert_eq!(bmc.count("POST", "/redfish/v1/odd/place/Reset"), 1);
    assert_eq!(bmc.count("POST", RESET), 0);
}

#[tokio::test]
async fn action_request_has_no_precondition() {
    let bmc = TestBmc::start().await;
    bmc.client().off().await.unwrap();
    for seen in bmc.seen() {
        assert!(seen.header("if-match").is_none() && seen.header("if-none-match").is_none());
    }
}

#[tokio::test]
async fn reset_types_are_read_once_from_action_info() {
    let bmc = TestBmc::with(|seen, _| {
        let info = json!({"Parameters": [
            {"Name": "Other", "AllowableValues": ["On"]},
            {"Name": "ResetType", "AllowableValues": ["ForceOn", "ForceOff"]},
        ]});
        (seen.path == INFO).then(|| Reply::json(200, &info))
    })
    .await;
    set_reset(&bmc, &json!({"target": RESET, "@Redfish.ActionInfo": INFO}));
    let client = bmc.client();
    client.off().await.unwrap();
    client.on().await.unwrap();
    assert_eq!(sent(&bmc), ["ForceOff", "ForceOn"]);
    assert_eq!(bmc.count("GET", INFO), 1);
}

#[tokio::test]
async fn standard_reset_types_are_tried_without_a_list() {
    for reset in [
        json!({"target": RESET}),
        json!({"target": RESET, "@Redfish.ActionInfo": "/redfish/v1/missing"}),
        json!({"target": RESET, "ResetType@Redfish.AllowableValues": []}),
    ] {
        let bmc = TestBmc::start().await;
        set_reset(&bmc, &reset);
        bmc.client().off().await.unwrap();
        bmc.client().on().await.unwrap();
        assert_eq!(sent(&bmc), ["ForceOff", "On"], "{reset}");
    }
}

#[tokio::test]
async fn list_of_reset_types_that_cannot_be_read_keeps_no_command_back() {
    for number in 0..4 {
        let bmc = TestBmc::with(move |seen, _| {
            let reply = || match number {
                0 => Reply::message(401, "Base.1.8.AccessDenied", "no license"),
                1 => Reply::json(200, &json!({"@odata.id": SYSTEM})),
                2 => Reply::status(200).late(Duration::from_secs(60)),
                _ => Reply::status(500),
            };
            (seen.path == INFO).then(reply)
        })
        .await;
        set_reset(&bmc, &json!({"target": RESET, "@Redfish.ActionInfo": INFO}));
        bmc.world(|world| {
            let session = |number: usize| format!("{SESSIONS}/token-{number}");
            for number in 1..4 {
                let document = json!({"Id": number});
                world.documents.insert(session(number), document);
            }
        });
        let mut config = bmc.config();
        config.timeouts.call = Duration::from_secs(4);
        let client = connect(config).unwrap();
        client.off().await.unwrap();
        client.on().await.unwrap();
        assert_eq!(sent(&bmc), ["ForceOff", "On"], "{number}");
    }
}

#[tokio::test]
async fn list_of_reset_types_that_is_refused_is_no_refused_password() {
    // Sessions that do not show themselves, and none.
    for auth in [AuthPolicy::Auto, AuthPolicy::Session, AuthPolicy::Basic] {
        let bmc = TestBmc::with(|seen, _| (seen.path == INFO).then(|| Reply::status(401))).await;
        set_reset(&bmc, &json!({"target": RESET, "@Redfish.ActionInfo": INFO}));
        let mut config = bmc.config();
        config.auth = auth;
        let client = connect(config).unwrap();
        for _ in 0..2 {
            client.power().await.unwrap();
            client.off().await.unwrap();
            client.on().await.unwrap();
        }
        let expected = ["ForceOff", "On", "ForceOff", "On"];
        assert_eq!(sent(&bmc), expected, "{auth:?}");
    }
}

#[tokio::test]
async fn password_that_is_refused_with_the_list_of_reset_types_keeps_the_command_back() {
    let bmc = TestBmc::with(|seen, world| {
        if seen.path == INFO {
            // The session ends, and the password has changed.
            world.tokens.clear();
            world.takes_basic = false;
            return Some(Reply::status(401));
        }
        let logins = seen.is("POST", SESSIONS) && !world.takes_basic;
        logins.then(|| Reply::status(401))
    })
    .await;
    set_reset(&bmc, &json!({"target": RESET, "@Redfish.ActionInfo": INFO}));
    let error = bmc.client().off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    assert_eq!(bmc.count("POST", RESET), 0);
}

#[tokio::test]
async fn hard_off_is_never_replaced_by_a_graceful_one() {
    let bmc = TestBmc::start().await;
    set_reset(
        &bmc,
        &inline(&["On", "GracefulShutdown", "PushPowerButton", "PowerCycle"]),
    );
    let error = bmc.client().off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("GracefulShutdown"), "{error}");
    assert!(sent(&bmc).is_empty());
}

#[tokio::test]
async fn push_power_button_requires_exactly_off() {
    let bmc = TestBmc::start().await;
    set_reset(&bmc, &inline(&["PushPowerButton", "ForceOff"]));
    let client = bmc.client();
    let already = client.on().await.unwrap();
    assert_eq!(already.answer, "already on");
    let press = PowerCommand::OnByButton;
    for state in ["PoweringOff", "PoweringOn", "off", ""] {
        bmc.world(|world| world.power = json!(state));
        let error = client.command(press).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{state}");
    }
    bmc.world(|world| world.power = json!("Off"));
    let error = client.on().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ButtonOnly, "{error}");
    assert!(sent(&bmc).is_empty());
    let pressed = client.command(press).await.unwrap();
    assert_eq!(pressed.command, "PushPowerButton");
    assert_eq!(sent(&bmc), ["PushPowerButton"]);
}

#[tokio::test]
async fn off_is_sent_to_a_host_that_reads_off() {
    let bmc = TestBmc::start().await;
    bmc.world(|world| world.power = json!("Off"));
    bmc.client().off().await.unwrap();
    assert_eq!(sent(&bmc), ["ForceOff"]);
}

#[tokio::test]
async fn system_without_a_reset_action_is_unsupported() {
    let bmc = TestBmc::start().await;
    for reset in [json!(null), json!({}), json!({"target": ""})] {
        set_reset(&bmc, &reset);
        assert_eq!(
            bmc.client().off().await.unwrap_err().kind,
            ErrorKind::Unsupported,
            "{reset}"
        );
    }
}

#[tokio::test]
async fn any_success_status_is_accepted() {
    let success = Reply::json(
        200,
        &json!({"error": {
            "code": "iLO.0.10.ExtendedInfo",
            "@Message.ExtendedInfo": [{"MessageId": "Base.0.10.Success"}],
        }}),
    );
    for (reply, answer) in [
        (Reply::status(200), "200"),
        (Reply::status(201), "201"),
        (Reply::status(204), "204"),
        (Reply::status(200).body("OK"), "200"),
        (success, "200"),
    ] {
        let bmc = TestBmc::with(move |seen, _| seen.is("POST", RESET).then(|| reply.clone())).await;
        assert_eq!(bmc.client().off().await.unwrap().answer, answer);
        assert_eq!(sent(&bmc), ["ForceOff"]);
    }
}

#[tokio::test]
async fn commands_to_one_bmc_run_one_at_a_time() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    let (off, on) = tokio::join!(client.off(), client.on());
    off.unwrap();
    on.unwrap();
    let order: Vec<_> = bmc
        .seen()
        .into_iter()
        .skip_while(|seen| !seen.is("POST", RESET))
        .map(|seen| seen.method)
        .collect();
    assert_eq!(
        order,
        ["POST", "GET", "POST"],
        "the second reads the state after the first"
    );
}
