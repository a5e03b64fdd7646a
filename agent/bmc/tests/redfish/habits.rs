//! Deviations of BMC web servers that a client must tolerate.

use std::{
    io::Write,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use flate2::{Compression, write::GzEncoder};
use rackhand_bmc::{AuthPolicy, ErrorKind, PowerCommand, PowerState, redfish::connect};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::bmc::{BASIC, RESET, Reply, SESSIONS, SYSTEM, TestBmc, config, inline, system};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

fn document() -> Value {
    let mut document = system(SYSTEM, &inline(&["On", "ForceOff"]));
    document["PowerState"] = json!("On");
    document
}

/// Reads the power from a server that answers each request with these bytes.
async fn power_of(response: Vec<u8>) -> Result<PowerState, rackhand_bmc::BmcError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else {
                    break;
                };
                request.push(byte);
            }
            stream.write_all(&response).await.ok();
            stream.shutdown().await.ok();
        }
    });
    let mut config = config(&format!("redfish+http://127.0.0.1:{port}{SYSTEM}"));
    config.auth = AuthPolicy::Basic;
    let read = connect(config).unwrap().power().await;
    server.abort();
    read.map(|reading| reading.state)
}

#[tokio::test]
async fn odd_header_lines_are_read() {
    let body = document().to_string();
    for line in [
        " content-type: application/json",
        "\tcontinued",
        "Server : httpd",
        "X-Frame-Options",
        "X-B\u{e4}d: 1",
        ": nothing",
        "Server: httpd",
    ] {
        let length = body.len();
        let response = format!(
            "HTTP/1.1 200 Any\r\nX-Any: 1\r\n{line}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let state = power_of(response.into_bytes()).await;
        assert_eq!(
            state.map_err(|error| error.message),
            Ok(PowerState::On),
            "{line:?}"
        );
    }
}

#[tokio::test]
async fn complete_document_is_used_however_the_connection_ends() {
    let body = document().to_string();
    // The announced length is wrong, as where a connection breaks after the last byte.
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nConnection: close\r\n\r\n";
    let state = power_of(format!("{head}{body}").into_bytes()).await;
    assert_eq!(state.map_err(|error| error.message), Ok(PowerState::On));
    for length in [0, 1, body.len() / 2, body.len() - 1] {
        let error = power_of(format!("{head}{}", &body[..length]).into_bytes()).await;
        assert_eq!(error.unwrap_err().kind, ErrorKind::Unreachable, "{length}");
    }
}

#[tokio::test]
async fn login_is_redirected_within_the_bmc() {
    for status in [301, 302, 307, 308] {
        for absolute in [false, true] {
            let bmc = TestBmc::with(move |seen, _| {
                if !seen.is("POST", SESSIONS) || seen.path.ends_with('/') {
                    return None;
                }
                let host = if absolute {
                    format!("http://{}", seen.header("host").unwrap())
                } else {
                    String::new()
                };
                Some(Reply::status(status).header("Location", format!("{host}{SESSIONS}/")))
            })
            .await;
            bmc.world(|world| world.takes_basic = false);
            // The standard response is at the path without the slash.
            let logged_in = bmc.client().power().await;
            assert_eq!(bmc.count("POST", &format!("{SESSIONS}/")), 1, "{status}");
            // It answers 401 there, which this test does not cover.
            assert!(logged_in.is_err());
        }
    }
}

#[tokio::test]
async fn login_is_not_redirected_to_another_host() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("POST", SESSIONS)
            .then(|| Reply::status(308).header("Location", "https://elsewhere.example/x"))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert!(error.message.contains("another host or port"), "{error}");
}

#[tokio::test]
async fn only_off_and_on_follow_a_slash() {
    for (command, word, is_followed) in [
        (PowerCommand::Off, "ForceOff", true),
        (PowerCommand::Reset, "ForceRestart", false),
        (PowerCommand::SoftOff, "GracefulShutdown", false),
    ] {
        let bmc = TestBmc::with(|seen, _| {
            if seen.is("POST", RESET) {
                return Some(Reply::status(308).header("Location", format!("{RESET}/")));
            }
            seen.is("POST", &format!("{RESET}/"))
                .then(|| Reply::status(204))
        })
        .await;
        let client = bmc.client();
        let kind = match is_followed {
            true => ErrorKind::Busy,
            false => ErrorKind::Protocol,
        };
        let error = client.command(command).await.unwrap_err();
        assert_eq!(error.kind, kind, "{word}: {error}");
        assert!(!error.maybe_sent && !error.not_sent, "{word}: {error}");
        let moved = format!("{RESET}/");
        assert_eq!(bmc.count("POST", &moved), 0, "{word}");
        // The next command goes where the redirect led.
        for _ in 0..2 {
            let result = client.command(command).await;
            assert_eq!(result.is_ok(), is_followed, "{word}: {result:?}");
        }
        let (here, there) = (bmc.count("POST", RESET), bmc.count("POST", &moved));
        let expected = if is_followed { (1, 2) } else { (3, 0) };
        assert_eq!((here, there), expected, "{word}");
    }
}

#[tokio::test]
async fn command_goes_back_to_its_own_address_when_the_other_spelling_is_gone() {
    let is_updated = Arc::new(AtomicBool::new(false));
    let updated = Arc::clone(&is_updated);
    let moved = format!("{RESET}/");
    let there = moved.clone();
    let bmc = TestBmc::with(move |seen, _| {
        let (is_here, is_there) = (seen.is("POST", RESET), seen.is("POST", &there));
        match updated.load(Ordering::SeqCst) {
            false if is_here => Some(Reply::status(308).header("Location", there.clone())),
            false if is_there => Some(Reply::status(204)),
            true if is_here => Some(Reply::status(204)),
            true if is_there => Some(Reply::status(404)),
            _ => None,
        }
    })
    .await;
    let client = bmc.client();
    client.off().await.unwrap_err();
    client.off().await.unwrap();
    is_updated.store(true, Ordering::SeqCst);
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(!error.maybe_sent && !error.not_sent, "{error}");
    client.off().await.unwrap();
    assert_eq!(
        (bmc.count("POST", RESET), bmc.count("POST", &moved)),
        (2, 2)
    );
}

#[tokio::test]
async fn command_is_not_redirected_to_another_system() {
    let other = "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset";
    let bmc = TestBmc::with(move |seen, _| {
        seen.is("POST", RESET)
            .then(|| Reply::status(307).header("Location", other))
    })
    .await;
    let error = bmc.client().off().await.unwrap_err();
    assert!(error.message.contains("redirects a command"), "{error}");
    assert_eq!(bmc.count("POST", other), 0);
}

#[tokio::test]
async fn session_with_a_foreign_location_is_closed() {
    for (location, in_body) in [
        (
            "https://bmc-17.mgmt.example:444/redfish/v1/SessionService/Sessions/7",
            true,
        ),
        (
            "https://bmc-17.mgmt.example:444/redfish/v1/SessionService/Sessions/7",
            false,
        ),
        ("/redfish/v1/SessionService/Sessions/7", false),
        ("ftp://x", true),
    ] {
        let bmc = TestBmc::with(move |seen, world| {
            seen.is("POST", SESSIONS).then(|| {
                world.tokens.push("7".to_owned());
                let body = if in_body {
                    json!({"@odata.id": format!("{SESSIONS}/7")})
                } else {
                    json!({})
                };
                Reply::json(201, &body)
                    .header("X-Auth-Token", "7")
                    .header("Location", location)
            })
        })
        .await;
        let client = bmc.client();
        client.power().await.unwrap();
        client.close().await.unwrap();
        assert_eq!(bmc.world(|world| world.tokens.len()), 0, "{location}");
    }
}

fn gzip(document: &Value) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(document.to_string().as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_documents_are_read() {
    for always in [false, true] {
        let bmc = TestBmc::with(move |seen, _| {
            let accepts = seen.header("accept-encoding").unwrap_or_default();
            if !seen.is("GET", SYSTEM) {
                None
            } else if always || accepts.contains("gzip") {
                let reply = Reply::status(200).header("Content-Encoding", "gzip");
                Some(reply.body(gzip(&document())))
            } else {
                Some(Reply::status(406))
            }
        })
        .await;
        let client = bmc.client();
        for _ in 0..2 {
            assert_eq!(client.power().await.unwrap().state, PowerState::On);
        }
        // The BMC is asked for a compressed document only once.
        let reads = bmc.count("GET", SYSTEM);
        assert_eq!(reads, if always { 2 } else { 3 });
    }
}

/// A BMC that denies the first `denials` requests with this method and path.
async fn denying(method: &'static str, path: &'static str, denials: usize) -> TestBmc {
    let left = Arc::new(AtomicUsize::new(denials));
    TestBmc::with(move |seen, _| {
        let is_denied = seen.is(method, path)
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        is_denied.then(|| Reply::message(403, "Base.1.12.AccessDenied", "denied"))
    })
    .await
}

#[tokio::test]
async fn momentary_denial_is_repeated() {
    let bmc = denying("GET", SYSTEM, 2).await;
    assert_eq!(bmc.client().power().await.unwrap().state, PowerState::On);
    let bmc = denying("GET", SYSTEM, 1000).await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Privilege);
    assert_eq!(bmc.count("GET", SYSTEM), 3);

    let bmc = denying("POST", RESET, 1).await;
    let client = bmc.client();
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(error.retry_after.is_some() && !error.maybe_sent, "{error}");
    client.off().await.unwrap();
    let bmc = denying("POST", RESET, 1000).await;
    let client = bmc.client();
    assert_eq!(client.off().await.unwrap_err().kind, ErrorKind::Busy);
    assert_eq!(client.off().await.unwrap_err().kind, ErrorKind::Privilege);
    assert_eq!(bmc.count("POST", RESET), 2);
    // A command that must not be repeated is sent once, whatever the answer.
    let bmc = denying("POST", RESET, 1).await;
    bmc.client().command(PowerCommand::Reset).await.unwrap_err();
    assert_eq!(bmc.count("POST", RESET), 1);
}

/// Web servers of BMCs print the request that they could not serve, with its headers.
#[tokio::test]
async fn secret_that_the_bmc_repeats_is_in_no_error() {
    for (auth, secret) in [
        (AuthPolicy::Basic, BASIC.trim_start_matches("Basic ")),
        (AuthPolicy::Session, "token-"),
    ] {
        let bmc = TestBmc::with(|seen, _| {
            let text = format!("trace of the request: {:?}", seen.headers);
            seen.is("GET", SYSTEM)
                .then(|| Reply::message(500, "Base.1.12.InternalError", &text))
        })
        .await;
        let mut config = bmc.config();
        config.auth = auth;
        let error = connect(config).unwrap().power().await.unwrap_err();
        assert!(
            error.to_string().contains("trace of the request"),
            "{error}"
        );
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

#[tokio::test]
async fn denial_for_a_missing_privilege_is_final() {
    let bmc = TestBmc::with(|seen, _| {
        let id = "Base.1.12.InsufficientPrivilege";
        seen.is("GET", SYSTEM)
            .then(|| Reply::message(403, id, "no"))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Privilege);
    assert_eq!(bmc.count("GET", SYSTEM), 1);
}

#[tokio::test]
async fn dirty_strings_prevent_no_command() {
    let bmc = TestBmc::with(|seen, _| {
        let text = document().to_string().into_bytes();
        let at = text.windows(6).position(|part| part == b"ABC123").unwrap();
        let dirty = [&text[..at], b"AB\xff\x00C\x1b123", &text[at + 6..]].concat();
        seen.is("GET", SYSTEM)
            .then(|| Reply::status(200).body(dirty))
    })
    .await;
    let client = bmc.client();
    let reading = client.power().await.unwrap();
    assert_eq!(reading.identity.serial.as_deref(), Some("ABC123"));
    client.off().await.unwrap();
}

#[tokio::test]
async fn systems_that_the_root_does_not_name_are_found() {
    let bmc = TestBmc::start().await;
    bmc.world(|world| world.root = json!({"Systems": null}));
    assert_eq!(bmc.client().power().await.unwrap().state, PowerState::On);
    let bmc = TestBmc::with(|seen, _| {
        seen.is("GET", "/redfish/v1/Systems")
            .then(|| Reply::status(404))
    })
    .await;
    bmc.world(|world| world.root = json!({"Systems": null}));
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::System);
    assert!(
        error
            .message
            .contains("put the path of the system into the address"),
        "{error}"
    );
}

#[tokio::test]
async fn unusable_list_of_systems_names_what_helps() {
    for body in [
        json!({"Members": {"@odata.id": SYSTEM}}),
        json!({"Members": null}),
        json!([]),
    ] {
        let bmc = TestBmc::with(move |seen, _| {
            seen.is("GET", "/redfish/v1/Systems")
                .then(|| Reply::json(200, &body))
        })
        .await;
        let error = bmc.client().power().await.unwrap_err();
        assert!(
            error
                .message
                .contains("put the path of the system into the address"),
            "{error}"
        );
        let named = config(&format!("redfish+http://127.0.0.1:{}{SYSTEM}", bmc.port));
        connect(named).unwrap().off().await.unwrap();
    }
}

#[tokio::test]
async fn f1_chassis_that_is_off_is_named_but_a_system_that_reports_on_is_not_off() {
    let bmc = TestBmc::with(|seen, _| seen.is("POST", RESET).then(|| Reply::status(204))).await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [{"@odata.id": CHASSIS}]}}));
    bmc.put(CHASSIS, json!({"@odata.id": CHASSIS, "PowerState": "Off"}));
    let client = bmc.client();
    assert_eq!(client.power().await.unwrap().raw, "On");
    client.off().await.unwrap();
    let reading = client.power().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.raw, "On, but chassis 1 Off");
    client.on().await.unwrap();
    assert_eq!(client.power().await.unwrap().raw, "On");
}
