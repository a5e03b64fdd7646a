//! What reaches a host by a BMC that misbehaves around a command, counted at the socket.
//!
//! A stand-in that knows nothing of the client: it answers each request over a connection of its own, and notes when it
//! answered. Whatever it does, one call sends one power command at most, and none comes more than 2 s after the answer
//! about updates.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rackhand_bmc::{
    AuthPolicy, Bmc, ErrorKind, PowerCommand,
    operation::{DuringUpdate, Expected, Goal, OperationRequest, Outcome, Report, Timing, run},
    redfish::connect,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::bmc::{RESET, SESSIONS, SYSTEM, config};

const SERVICE: &str = "/redfish/v1/UpdateService";
/// For how long an answer about updates counts, and what a loaded machine may add.
const COUNTS_FOR: Duration = Duration::from_millis(2000 + 500);

/// What the stand-in does with one request.
enum Act {
    /// Status, further header lines, body.
    Answer(u16, String, String),
    /// The same after this time.
    Late(Duration, u16, String),
    /// The connection is closed without an answer.
    Close,
}

fn ok(body: &str) -> Act {
    Act::Answer(200, String::new(), body.to_owned())
}

fn status(code: u16) -> Act {
    Act::Answer(code, String::new(), String::new())
}

fn to(code: u16, place: &str) -> Act {
    Act::Answer(code, format!("Location: {place}\r\n"), String::new())
}

/// State of the host and its BMC, and how often each thing was asked for.
#[derive(Default)]
struct Host {
    is_off: bool,
    writes_firmware: bool,
    commands: usize,
    logins: usize,
    systems: usize,
}

impl Host {
    fn system(&self) -> String {
        let state = if self.is_off { "Off" } else { "On" };
        format!(
            r##"{{"@odata.id": "{SYSTEM}", "Id": "1", "SerialNumber": "S1", "PowerState": "{state}", "Actions":
            {{"#ComputerSystem.Reset": {{"target": "{RESET}", "ResetType@Redfish.AllowableValues":
            ["On", "ForceOff", "ForceRestart"]}}}}}}"##
        )
    }

    fn answer(&mut self, method: &str, path: &str) -> Act {
        match (method, path) {
            ("GET", "/redfish/v1/") => ok(&format!(
                r#"{{"Systems": {{"@odata.id": "/redfish/v1/Systems"}},
                "UpdateService": {{"@odata.id": "{SERVICE}"}},
                "SessionService": {{"@odata.id": "/redfish/v1/SessionService"}},
                "Links": {{"Sessions": {{"@odata.id": "{SESSIONS}"}}}}}}"#
            )),
            ("POST", SESSIONS) => Act::Answer(
                201,
                format!(
                    "X-Auth-Token: t{0}\r\nLocation: {SESSIONS}/{0}\r\n",
                    self.logins
                ),
                "{}".to_owned(),
            ),
            ("GET", SYSTEM) => ok(&self.system()),
            ("GET", SERVICE) if self.writes_firmware => {
                ok(r#"{"Id": "UpdateService", "Oem": {"Hpe": {"State": "Writing"}}}"#)
            }
            ("GET", SERVICE) => ok(r#"{"Id": "UpdateService", "Oem": {"Hpe": {"State": "Idle"}}}"#),
            ("POST", path) if path.trim_end_matches('/') == RESET => {
                self.is_off = true;
                status(204)
            }
            ("DELETE", _) => status(204),
            _ => status(404),
        }
    }
}

/// One request and when its answer was sent.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    came: Instant,
    answered: Instant,
}

struct StandIn {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    server: JoinHandle<()>,
}

impl StandIn {
    /// `None`: the ordinary answer.
    async fn start(
        mut script: impl FnMut(&str, &str, &mut Host) -> Option<Act> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let server = tokio::spawn(async move {
            let mut host = Host::default();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some((method, path)) = read_request(&mut stream).await else {
                    continue;
                };
                let came = Instant::now();
                let is_command = method == "POST" && path.trim_end_matches('/') == RESET;
                host.commands += usize::from(is_command);
                host.logins += usize::from(method == "POST" && path == SESSIONS);
                host.systems += usize::from(method == "GET" && path == SYSTEM);
                let act = script(&method, &path, &mut host);
                let act = act.unwrap_or_else(|| host.answer(&method, &path));
                let (code, headers, body) = match act {
                    Act::Answer(code, headers, body) => (code, headers, body),
                    Act::Late(late, code, body) => {
                        tokio::time::sleep(late).await;
                        (code, String::new(), body)
                    }
                    Act::Close => (0, String::new(), String::new()),
                };
                if code > 0 {
                    let answer = format!(
                        "HTTP/1.1 {code} X\r\nConnection: close\r\nContent-Type: application/json\r\n\
                         Content-Length: {}\r\n{headers}\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
                let _ = stream.shutdown().await;
                log.lock().unwrap().push(Seen {
                    line: format!("{method} {path}"),
                    came,
                    answered: Instant::now(),
                });
            }
        });
        Self { port, seen, server }
    }

    fn client(&self, auth: AuthPolicy) -> Box<dyn Bmc> {
        let mut config = config(&format!("redfish+http://127.0.0.1:{}{SYSTEM}", self.port));
        config.auth = auth;
        connect(config).unwrap()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The power commands that came, wherever they were sent.
    fn commands(&self) -> usize {
        let seen = self.seen();
        seen.iter().filter(|seen| is_command(seen)).count()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn is_command(seen: &Seen) -> bool {
    seen.line.starts_with("POST ") && seen.line.contains("Reset")
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lines = head.lines().map(str::to_ascii_lowercase);
        let length = lines
            .filter_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
            .next_back()
            .unwrap_or(0_usize);
        if body.len() >= length {
            let mut words = head.split(' ').map(str::to_owned);
            return Some((words.next()?, words.next()?));
        }
    }
}

async fn off(bmc: &StandIn, auth: AuthPolicy) -> Report {
    let request = OperationRequest {
        goal: Goal::Off {
            confirmations: 1,
            confirm_interval: Duration::from_millis(10),
            command_after: Duration::ZERO,
        },
        deadline: Duration::from_secs(40),
        expected: Expected::default(),
        timing: Timing {
            retry_after: Duration::from_millis(10),
            ..Timing::default()
        },
        during_update: DuringUpdate::Refuse,
    };
    run(bmc.client(auth).as_ref(), request, &mut ()).await
}

/// Each command came within the time that the last answer about updates counts, and after a reading of the host that is
/// newer than the command before it.
fn assert_looked_before_each(bmc: &StandIn, what: &str) {
    let seen = bmc.seen();
    let mut last = 0;
    for at in (0..seen.len()).filter(|at| is_command(&seen[*at])) {
        let before = &seen[last..at];
        let updates = before.iter().rfind(|seen| seen.line.ends_with(SERVICE));
        let age = updates.map(|updates| seen[at].came.duration_since(updates.answered));
        let is_new = age.is_some_and(|age| age <= COUNTS_FOR);
        assert!(is_new, "{what}: {age:?}: {before:?}");
        let is_read = before.iter().any(|seen| seen.line.ends_with(SYSTEM));
        assert!(is_read, "{what}: the host was not read: {before:?}");
        last = at;
    }
}

#[tokio::test]
async fn one_call_sends_one_command_whatever_redirects_do() {
    // With and without a slash in turns, to another resource, to another host, and nowhere.
    for auth in [AuthPolicy::Session, AuthPolicy::Basic] {
        let bmc = StandIn::start(|method, path, host| {
            let is_command = method == "POST" && path.trim_end_matches('/') == RESET;
            is_command.then(|| match host.commands {
                1 => to(307, &format!("{RESET}/")),
                2 => to(308, RESET),
                3 => to(308, &format!("{RESET}/")),
                4 => status(404),
                5 => to(307, "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset"),
                6 => to(307, &format!("http://127.0.0.1:9{RESET}")),
                7 => to(308, ""),
                _ => status(204),
            })
        })
        .await;
        let client = bmc.client(auth);
        for call in 1..=7 {
            client.off().await.unwrap_err();
            assert_eq!(bmc.commands(), call, "{auth:?}");
        }
        client.off().await.unwrap();
        assert_eq!(bmc.commands(), 8, "{auth:?}");
        let elsewhere = bmc.seen();
        let elsewhere = elsewhere.iter().filter(|seen| seen.line.contains("/2/"));
        assert_eq!(elsewhere.count(), 0);
        // A reset is sent again by nobody.
        let reset = StandIn::start(|method, path, _| {
            (method == "POST" && path == RESET).then(|| to(307, &format!("{RESET}/")))
        })
        .await;
        let client = reset.client(auth);
        client.command(PowerCommand::Reset).await.unwrap_err();
        assert_eq!(reset.commands(), 1);
    }
}

#[tokio::test]
async fn session_that_ends_at_the_command_costs_another_look() {
    let begins = |begins: bool| {
        StandIn::start(move |method, path, host| {
            let is_first = method == "POST" && path == RESET && host.commands == 1;
            host.writes_firmware |= is_first && begins;
            is_first.then(|| status(401))
        })
    };
    let bmc = begins(false).await;
    let client = bmc.client(AuthPolicy::Session);
    client.off().await.unwrap_err();
    assert_eq!(bmc.commands(), 1);
    client.off().await.unwrap();
    assert_eq!(bmc.commands(), 2);
    let bmc = begins(false).await;
    let report = off(&bmc, AuthPolicy::Session).await;
    assert!(report.outcome.is_done(), "{report:?}");
    assert_eq!(bmc.commands(), 2);
    assert_looked_before_each(&bmc, "401");
    let bmc = begins(true).await;
    let report = off(&bmc, AuthPolicy::Session).await;
    let is_update = matches!(report.outcome, Outcome::FirmwareUpdate { .. });
    assert!(is_update, "{report:?}");
    assert_eq!(bmc.commands(), 1);
}

#[tokio::test]
async fn connection_that_closes_around_the_command_lets_no_old_answer_count() {
    // The reading between the answer about updates and the command.
    for auth in [AuthPolicy::Session, AuthPolicy::Basic] {
        let mut closes = 3;
        let mut is_asked = false;
        let bmc = StandIn::start(move |method, path, host| {
            is_asked |= path == SERVICE;
            let is_reading = method == "GET" && path == SYSTEM && is_asked;
            if is_reading && !host.is_off && closes > 0 {
                closes -= 1;
                return Some(Act::Close);
            }
            None
        })
        .await;
        let report = off(&bmc, auth).await;
        assert!(report.outcome.is_done(), "{auth:?}: {report:?}");
        assert_eq!(bmc.commands(), 1, "{auth:?}");
        assert_looked_before_each(&bmc, "closed at the reading");

        // The command itself, which may have worked or not.
        for works in [false, true] {
            let bmc = StandIn::start(move |method, path, host| {
                let is_first = method == "POST" && path == RESET && host.commands == 1;
                host.is_off |= is_first && works;
                is_first.then_some(Act::Close)
            })
            .await;
            let client = bmc.client(auth);
            let error = client.off().await.unwrap_err();
            assert!(error.maybe_sent, "{auth:?}: {error}");
            assert_eq!(bmc.commands(), 1, "{auth:?}");
            drop(client);
            let bmc = StandIn::start(move |method, path, host| {
                let is_first = method == "POST" && path == RESET && host.commands == 1;
                host.is_off |= is_first && works;
                is_first.then_some(Act::Close)
            })
            .await;
            let report = off(&bmc, auth).await;
            assert!(bmc.commands() <= 2, "{auth:?}: {report:?}");
            assert_looked_before_each(&bmc, "closed at the command");
        }
    }
}

#[tokio::test]
async fn bmc_that_is_slow_between_updates_and_command_gets_a_new_question_first() {
    // The second reading of the system belongs to the updates; the third is the one that the driver makes for its command.
    let bmc = StandIn::start(|method, path, host| {
        let is_slow = method == "GET" && path == SYSTEM && host.systems == 3;
        is_slow.then(|| Act::Late(Duration::from_millis(2600), 200, host.system()))
    })
    .await;
    let report = off(&bmc, AuthPolicy::Session).await;
    assert!(report.outcome.is_done(), "{report:?}");
    assert_eq!((bmc.commands(), report.commands), (1, 1));
    assert_eq!(report.updates_unknown, None);
    assert_looked_before_each(&bmc, "slow");
}

#[tokio::test]
async fn full_table_of_sessions_sends_nothing_until_a_login_is_taken() {
    let full = || {
        StandIn::start(|method, path, host| {
            (method == "POST" && path == SESSIONS && host.logins <= 2).then(|| {
                let body = r#"{"error": {"@Message.ExtendedInfo": [
                    {"MessageId": "Base.1.8.SessionLimitExceeded", "Message": "full"}]}}"#;
                Act::Answer(503, String::new(), body.to_owned())
            })
        })
    };
    let bmc = full().await;
    let client = bmc.client(AuthPolicy::Session);
    let error = client.off().await.unwrap_err();
    assert_eq!(
        (error.kind, error.not_sent),
        (ErrorKind::Busy, true),
        "{error}"
    );
    assert_eq!(bmc.commands(), 0);
    drop(client);
    let bmc = full().await;
    let report = off(&bmc, AuthPolicy::Session).await;
    assert!(report.outcome.is_done(), "{report:?}");
    assert_eq!((bmc.commands(), report.commands), (1, 1));
    assert_looked_before_each(&bmc, "sessions full");
}
