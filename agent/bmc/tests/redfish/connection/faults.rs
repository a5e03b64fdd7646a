//! Broken connections, missing responses and malformed responses.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rackhand_bmc::{
    AuthPolicy, Bmc, ErrorKind, PowerCommand,
    redfish::{RedfishConfig, connect},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::bmc::{RESET, Reply, SYSTEM, TestBmc, config, inline, system};

/// Reaction to one request.
#[derive(Clone)]
enum Act {
    /// Send these bytes and close.
    Bytes(Vec<u8>),
    /// Send these bytes and nothing more, without closing.
    Stall(Vec<u8>),
    /// Reset the connection.
    Reset,
}

/// A server that performs one act per request; the last one repeats.
struct Raw {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Raw {
    async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let server = tokio::spawn(async move {
            let mut stalled = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let line = read_request(&mut stream).await;
                let index = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(line);
                    seen.len() - 1
                };
                match acts.get(index).or(acts.last()).unwrap() {
                    Act::Bytes(bytes) => {
                        let _ = stream.write_all(bytes).await;
                        let _ = stream.shutdown().await;
                    }
                    Act::Stall(bytes) => {
                        let _ = stream.write_all(bytes).await;
                        stalled.push(stream);
                    }
                    Act::Reset => stream.set_zero_linger().unwrap(),
                }
            }
        });
        Self {
            port,
            requests,
            server,
        }
    }

    /// Settings with which a reading is one GET, and a command one GET and one POST.
    fn config(&self) -> RedfishConfig {
        let mut config = config(&format!("redfish+http://127.0.0.1:{}{SYSTEM}", self.port));
        config.auth = AuthPolicy::Basic;
        config
    }

    fn client(&self) -> Box<dyn Bmc> {
        connect(self.config()).unwrap()
    }

    fn count(&self, method: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|line| line.starts_with(method))
            .count()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Reads head and body of a request; returns its first line.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if body.len() >= length {
                return text.lines().next().unwrap_or_default().to_uppercase();
            }
        }
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&chunk[..read]),
            _ => return "NOTHING".to_owned(),
        }
    }
}

fn reply(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The system document, with power on.
fn document() -> Vec<u8> {
    let mut document = system(SYSTEM, &inline(&["On", "ForceOff"]));
    document["PowerState"] = "On".into();
    reply(document.to_string().as_bytes())
}

#[tokio::test]
async fn read_on_a_reset_connection_is_retried_once() {
    let raw = Raw::start(vec![Act::Reset, Act::Bytes(document())]).await;
    raw.client().power().await.unwrap();
    assert_eq!(raw.count("GET"), 2);
}

#[tokio::test]
async fn read_is_not_tried_a_third_time() {
    let raw = Raw::start(vec![Act::Reset]).await;
    let error = raw.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(!error.maybe_sent);
    assert_eq!(raw.count("GET"), 2);
}

#[tokio::test]
async fn truncated_document_is_read_once_more() {
    let mut cut = document();
    cut.truncate(cut.len() - 10);
    let raw = Raw::start(vec![Act::Bytes(cut), Act::Bytes(document())]).await;
    raw.client().power().await.unwrap();
    assert_eq!(raw.count("GET"), 2);
}

#[tokio::test]
async fn lost_command_response_is_not_retried() {
    for act in [
        Act::Reset,
        Act::Bytes(Vec::new()),
        Act::Bytes(b"HTTP/1.1 20".to_vec()),
    ] {
        let raw = Raw::start(vec![Act::Bytes(document()), act]).await;
        let error = raw.client().off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
        assert!(error.maybe_sent);
        assert_eq!(raw.count("POST"), 1);
        assert_eq!(raw.count("GET"), 1);
    }
}

#[tokio::test]
async fn truncated_body_keeps_the_status_of_a_command() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec();
    let raw = Raw::start(vec![Act::Bytes(document()), Act::Bytes(cut)]).await;
    assert_eq!(raw.client().off().await.unwrap().answer, "200");
}

#[tokio::test]
async fn unresponsive_read_times_out_at_the_limit() {
    for act in [
        Act::Stall(Vec::new()),
        Act::Stall(document()[..60].to_vec()),
    ] {
        for by_request in [true, false] {
            let raw = Raw::start(vec![act.clone()]).await;
            let mut config = raw.config();
            let limit = Duration::from_millis(300);
            if by_request {
                config.timeouts.request = limit;
            } else {
                config.timeouts.call = limit;
            }
            let started = Instant::now();
            let error = connect(config).unwrap().power().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Timeout);
            assert!(!error.maybe_sent);
            assert!(started.elapsed() >= limit);
            // Far below the 30 s of all other limits here.
            assert!(
                started.elapsed() < Duration::from_secs(15),
                "{:?}",
                started.elapsed()
            );
            assert_eq!(raw.count("GET"), 1, "a timeout is not retried");
        }
    }
}

#[tokio::test]
async fn non_idempotent_command_is_sent_once_and_may_have_arrived() {
    for command in [
        PowerCommand::SoftOff,
        PowerCommand::Reset,
        PowerCommand::Nmi,
    ] {
        for act in [Act::Reset, Act::Bytes(Vec::new()), Act::Stall(Vec::new())] {
            let mut all = system(
                SYSTEM,
                &inline(&["GracefulShutdown", "ForceRestart", "Nmi"]),
            );
            all["PowerState"] = "On".into();
            let all = reply(all.to_string().as_bytes());
            let raw = Raw::start(vec![Act::Bytes(all), act]).await;
            let mut config = raw.config();
            config.timeouts.request = Duration::from_secs(2);
            let error = connect(config).unwrap().command(command).await.unwrap_err();
            assert!(error.maybe_sent, "{command:?}: {error}");
            assert_eq!(raw.count("POST"), 1, "{command:?}");
        }
    }
}

#[tokio::test]
async fn command_timeout_reports_that_it_may_have_arrived() {
    for by_request in [true, false] {
        let raw = Raw::start(vec![Act::Bytes(document()), Act::Stall(Vec::new())]).await;
        let mut config = raw.config();
        let limit = Duration::from_secs(2);
        if by_request {
            config.timeouts.request = limit;
        } else {
            config.timeouts.call = limit;
        }
        let error = connect(config).unwrap().off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.maybe_sent);
        assert_eq!(raw.count("POST"), 1);
    }
}

#[tokio::test]
async fn closed_port_is_unreachable_and_nothing_is_sent() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = connect(config(&format!("redfish+http://127.0.0.1:{port}"))).unwrap();
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(!error.maybe_sent);
    assert!(error.message.contains("refused"), "{error}");
}

#[tokio::test]
async fn malformed_document_is_a_protocol_error() {
    let huge = format!(
        "{{\"PowerState\":\"Off\",\"x\":\"{}\"}}",
        "x".repeat(5 << 20)
    );
    let deep = "[".repeat(1 << 20);
    for (what, body) in [
        (
            "HTML",
            b"<html><body>PowerState: Off</body></html>".as_slice(),
        ),
        ("truncated", br#"{"PowerState":"Off","#),
        ("empty", b""),
        (
            "two documents",
            br#"{"PowerState":"Off"}{"PowerState":"Off"}"#,
        ),
        ("huge", huge.as_bytes()),
        ("deep", deep.as_bytes()),
    ] {
        let raw = Raw::start(vec![Act::Bytes(reply(body))]).await;
        let error = raw.client().power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{what}: {error}");
        assert!(error.message.len() < 500, "{what}");
    }
}

#[tokio::test]
async fn oversized_response_head_is_a_protocol_error() {
    let line = format!("X-Long: {}\r\n", "x".repeat(8000));
    let head = format!("HTTP/1.1 200 OK\r\n{}", line.repeat(90));
    for head in [
        head,
        format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(500)),
    ] {
        let raw = Raw::start(vec![Act::Bytes(format!("{head}\r\n").into_bytes())]).await;
        let error = raw.client().power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        assert!(error.message.contains("head"), "{error}");
    }
}

#[tokio::test]
async fn sensors_read_before_a_timeout_are_returned() {
    let json = |text: &str| Act::Bytes(reply(text.as_bytes()));
    let mut system = system(SYSTEM, &inline(&["On"]));
    system["Links"] = serde_json::json!({"Chassis": [{"@odata.id": "/c"}]});
    let raw = Raw::start(vec![
        json(&system.to_string()),
        json("{}"),
        json(r#"{"Power": {"@odata.id": "/p"}, "Thermal": {"@odata.id": "/t"}}"#),
        json(r#"{"PowerControl": [{"PowerConsumedWatts": 7}]}"#),
        Act::Stall(Vec::new()),
    ])
    .await;
    let mut config = raw.config();
    config.timeouts.call = Duration::from_secs(4);
    let sensors = connect(config).unwrap().sensors().await.unwrap();
    assert_eq!(sensors.len(), 1);
    assert_eq!(sensors[0].value, Some(7.0));
}

#[tokio::test]
async fn response_that_is_not_http_is_a_protocol_error() {
    let raw = Raw::start(vec![Act::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec())]).await;
    let error = raw.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}

#[tokio::test]
async fn byte_order_mark_is_skipped() {
    let document = document();
    let body = document.iter().position(|byte| *byte == b'{').unwrap();
    let body = [b"\xef\xbb\xbf\r\n", &document[body..]].concat();
    let raw = Raw::start(vec![Act::Bytes(reply(&body))]).await;
    raw.client().power().await.unwrap();
}

#[tokio::test]
async fn missing_task_monitor_leaves_the_command_accepted() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("POST", RESET)
            .then(|| Reply::status(202).header("Location", "/redfish/v1/task"))
    })
    .await;
    let client = bmc.client();
    let accepted = client.off().await.unwrap();
    assert_eq!(accepted.answer, "202: its task no longer exists");
}
