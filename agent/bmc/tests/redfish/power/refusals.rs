//! Interpretation of rejected requests.

use std::time::Duration;

use rackhand_bmc::{Acceptance, BmcError, ErrorKind, PowerState};
use serde_json::json;

use crate::bmc::{RESET, Reply, SYSTEM, TestBmc};

/// A BMC in this power state that responds to every reset with `reply`.
async fn refusing(state: &str, reply: Reply) -> TestBmc {
    let bmc = TestBmc::with(move |seen, _| seen.is("POST", RESET).then(|| reply.clone())).await;
    bmc.world(|world| world.power = json!(state));
    bmc
}

async fn off_error(state: &str, reply: Reply) -> BmcError {
    let bmc = refusing(state, reply).await;
    let error = bmc.client().off().await.unwrap_err();
    assert_eq!(bmc.count("POST", RESET), 1, "{error}");
    error
}

#[tokio::test]
async fn f1_only_the_exact_message_of_a_make_means_already() {
    let off = "iLO.2.14.InvalidOperationForSystemState";
    for (reply, answer) in [
        (
            Reply::message(409, "IDRAC.2.8.PSU502", "off"),
            "409: already off",
        ),
        (
            Reply::message(409, "Base.1.18.NoOperation", "off"),
            "409: already off",
        ),
        (Reply::message(400, off, "Off"), "400: already off"),
    ] {
        // The power state makes no difference.
        for state in ["Off", "On"] {
            let bmc = refusing(state, reply.clone()).await;
            let accepted = bmc.client().off().await.unwrap();
            assert_eq!(accepted.answer, answer);
            assert_eq!(accepted.acceptance, Acceptance::AlreadyThere);
            assert_eq!(bmc.count("POST", RESET), 1);
        }
    }
    let bmc = refusing("Off", Reply::status(204)).await;
    let accepted = bmc.client().off().await.unwrap();
    assert_eq!(accepted.acceptance, Acceptance::Taken);
    assert_eq!(accepted.before.unwrap().state, PowerState::Off);
}

#[tokio::test]
async fn f1_other_rejections_are_errors_although_the_host_reads_off() {
    for reply in [
        Reply::status(409).body("<html>"),
        Reply::status(400),
        Reply::status(422),
        Reply::message(409, "IDRAC.2.8.PSU501", "Server is already powered ON."),
        Reply::message(409, "IDRAC.2.8.PSU", "already"),
        Reply::message(500, "iLO.2.14.InvalidOperationForSystemState", "Off"),
        Reply::message(400, "Base.1.8.InvalidOperationForSystemState", "Off"),
        Reply::message(409, "Base.1.8.ActionParameterValueConflict", "already off"),
        Reply::message(200, "Base.1.8.InternalError", "it broke"),
    ] {
        let error = off_error("Off", reply).await;
        assert!(
            matches!(error.kind, ErrorKind::Refused | ErrorKind::Protocol),
            "{error}"
        );
    }
    let bmc = refusing("On", Reply::status(409)).await;
    assert_eq!(
        bmc.client().on().await.unwrap_err().kind,
        ErrorKind::Refused
    );
}

#[tokio::test]
async fn rejection_in_another_state_is_an_error_with_its_message() {
    for state in ["On", "PoweringOff", "off", ""] {
        let reply = Reply::message(
            409,
            "Base.1.8.ActionParameterValueConflict",
            "wait a little",
        );
        let error = off_error(state, reply).await;
        assert_eq!(error.kind, ErrorKind::Refused, "{state}");
        assert!(error.message.contains("wait a little"), "{error}");
        assert!(error.message.contains(&format!("{state:?}")), "{error}");
        assert!(!error.maybe_sent);
    }
}

#[tokio::test]
async fn rejection_with_an_unreadable_state_is_an_error() {
    let bmc = TestBmc::with(|seen, world| {
        if seen.is("POST", RESET) {
            world.power = json!("gone");
            return Some(Reply::status(409));
        }
        (seen.path == SYSTEM && world.power == "gone").then(|| Reply::status(500))
    })
    .await;
    let error = bmc.client().off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("unreadable"), "{error}");
}

#[tokio::test]
async fn busy_error_has_the_retry_after_of_the_bmc() {
    for status in [503, 429] {
        let reply = Reply::status(status).header("Retry-After", "12");
        let error = off_error("On", reply).await;
        assert_eq!(error.kind, ErrorKind::Busy);
        assert_eq!(error.retry_after, Some(Duration::from_secs(12)));
        assert!(!error.maybe_sent);
    }
    let soon = jiff::Timestamp::now() + Duration::from_secs(90);
    let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let error = off_error("On", Reply::status(503).header("Retry-After", date)).await;
    let wait = error.retry_after.unwrap();
    assert!(
        (Duration::from_secs(30)..=Duration::from_secs(90)).contains(&wait),
        "{wait:?}"
    );

    for (text, wait) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::ZERO)),
        ("99999999999", Some(Duration::from_secs(3600))),
        ("soon", None),
    ] {
        let error = off_error("On", Reply::status(503).header("Retry-After", text)).await;
        assert_eq!(error.retry_after, wait, "{text}");
    }
}

#[tokio::test]
async fn read_of_a_busy_bmc_is_busy() {
    let bmc = TestBmc::with(|seen, _| {
        (seen.path == SYSTEM).then(|| Reply::status(503).header("Retry-After", "3"))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn not_ready_message_is_busy_with_any_status() {
    for (status, id) in [
        (400, "IDRAC.2.8.SWC0700"),
        (500, "IDRAC.2.8.SYS446"),
        (503, "IDRAC.2.8.SYS518"),
    ] {
        let error = off_error("On", Reply::message(status, id, "not ready")).await;
        assert_eq!(error.kind, ErrorKind::Busy, "{id}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(30)), "{id}");
    }
}

#[tokio::test]
async fn each_error_status_maps_to_its_kind() {
    for (status, kind, maybe_sent) in [
        (401, ErrorKind::Busy, false),
        (403, ErrorKind::Busy, false),
        (404, ErrorKind::Protocol, false),
        (405, ErrorKind::Unsupported, false),
        (412, ErrorKind::Precondition, false),
        (428, ErrorKind::Precondition, false),
        (500, ErrorKind::Protocol, false),
        (501, ErrorKind::Unsupported, false),
        (502, ErrorKind::Busy, true),
        (504, ErrorKind::Busy, true),
        (302, ErrorKind::Protocol, false),
        (304, ErrorKind::Protocol, false),
    ] {
        let error = off_error("Off", Reply::status(status)).await;
        assert_eq!(
            (error.kind, error.maybe_sent),
            (kind, maybe_sent),
            "{status}: {error}"
        );
    }
}

#[tokio::test]
async fn error_message_takes_precedence_over_the_status() {
    for (status, id, kind) in [
        (403, "Base.1.8.InsufficientPrivilege", ErrorKind::Privilege),
        (500, "Base.1.8.AccessDenied", ErrorKind::Privilege),
        (403, "Base.1.8.NoValidSession", ErrorKind::Authentication),
        (
            500,
            "iLO.2.14.UnableToModifyDuringSystemPOST",
            ErrorKind::Busy,
        ),
    ] {
        let error = off_error("On", Reply::message(status, id, "no")).await;
        assert_eq!(error.kind, kind, "{id}: {error}");
    }
    let read = TestBmc::with(|seen, _| {
        let denied = || Reply::message(401, "Base.1.8.AccessDenied", "invalid credentials");
        (seen.path == SYSTEM).then(denied)
    })
    .await;
    let error = read.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
}

#[tokio::test]
async fn success_status_with_a_critical_message_is_an_error() {
    let error = off_error(
        "On",
        Reply::message(200, "Base.1.8.InternalError", "it broke"),
    )
    .await;
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("it broke"), "{error}");
}

#[tokio::test]
async fn html_response_to_a_command_is_a_protocol_error() {
    let error = off_error(
        "On",
        Reply::status(200).body(" <!DOCTYPE html><p>log in</p>"),
    )
    .await;
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.maybe_sent);
}

#[tokio::test]
async fn redirected_command_is_not_sent_again() {
    for place in [
        "/redfish/v1/elsewhere",
        "http://127.0.0.1:9/redfish/v1/elsewhere",
    ] {
        let reply = Reply::status(307).header("Location", place);
        let error = off_error("On", reply).await;
        assert_eq!(error.kind, ErrorKind::Protocol, "{place}");
    }
}
