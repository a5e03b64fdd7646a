//! Connections that reads keep for the next one.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use rackhand_bmc::{AuthPolicy, Bmc, ErrorKind, KeepAlive, PowerState, redfish::connect};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::bmc::{RESET, Reply, SYSTEM, TestBmc, config, inline, system};

const UPDATES: &str = "/redfish/v1/UpdateService";

/// What the BMC does with a second request over one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    Answers,
    /// It says with each answer that it closes the connection, and does.
    Closes,
    Resets,
    /// It takes the request, and never answers.
    IsSilent,
    /// It has no time for it.
    IsBusy,
    /// It sends these bytes, and closes the connection if told.
    Sends(&'static [u8], bool),
    /// It refuses the user.
    Refuses,
    /// It answers each request but the first one with the answer to the one before.
    LagsBehind,
    /// It answers each request but the first one with another system, which is off.
    AnswersForAnother,
    /// It breaks each connection but the one that waits for an answer.
    BearsOne,
}

/// Requests that wait for a slow answer.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// A request: the number of its connection, its method, and whether it asks to close the connection.
type Seen = (usize, String, bool);

struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(habit: Habit) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, number, habit, Arc::clone(&noted)));
            }
        });
        Self { port, seen, task }
    }

    fn client(&self, keep_alive: KeepAlive) -> Box<dyn Bmc> {
        let address = format!("redfish+http://127.0.0.1:{}{SYSTEM}", self.port);
        let mut config = config(&address);
        config.auth = AuthPolicy::Basic;
        config.keep_alive = keep_alive;
        config.timeouts.connect = Duration::from_millis(500);
        config.timeouts.request = Duration::from_secs(20);
        config.timeouts.call = Duration::from_secs(30);
        connect(config).unwrap()
    }

    /// The connection of each request.
    fn connections(&self) -> Vec<usize> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(number, ..)| *number).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, number: usize, habit: Habit, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut is_second = false;
    let mut before = Value::Null;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let method = head.split(' ').next().unwrap().to_owned();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        let closes = head.contains("connection: close");
        let is_slow = head.contains("/updateservice") && habit == Habit::BearsOne;
        let others = WAITING.fetch_add(u32::from(is_slow), Ordering::SeqCst);
        if others > 0 && habit == Habit::BearsOne {
            WAITING.fetch_sub(u32::from(is_slow), Ordering::SeqCst);
            return;
        }
        seen.lock().unwrap().push((number, method.clone(), closes));
        match habit {
            Habit::Resets if is_second => return stream.set_zero_linger().unwrap(),
            Habit::IsSilent if is_second => return std::future::pending().await,
            Habit::Sends(bytes, ends) if is_second => {
                stream.write_all(bytes).await.unwrap();
                if ends {
                    return;
                }
                continue;
            }
            Habit::IsBusy | Habit::Refuses if is_second => {
                let status = if habit == Habit::IsBusy { 503 } else { 401 };
                let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                continue;
            }
            _ => {}
        }
        if is_slow {
            tokio::time::sleep(Duration::from_millis(700)).await;
            WAITING.fetch_sub(1, Ordering::SeqCst);
        }
        let mut body = system(SYSTEM, &inline(&["On", "ForceOff"]));
        body["PowerState"] = "On".into();
        match habit {
            Habit::AnswersForAnother | Habit::LagsBehind => {}
            Habit::BearsOne => {
                body["UpdateService"] = json!({"@odata.id": UPDATES});
                body["Members"] = json!([]);
                body["Tasks"] = json!({"@odata.id": "/redfish/v1/TaskService"});
            }
            _ => {
                body["UpdateService"] = json!({"@odata.id": UPDATES});
                body["Oem"] = json!({"Hpe": {"State": "Writing"}});
            }
        }
        if !head.contains(&SYSTEM.to_ascii_lowercase())
            && let Some(body) = body.as_object_mut()
        {
            body.remove("@odata.id");
        }
        let names_updates = matches!(habit, Habit::AnswersForAnother | Habit::LagsBehind);
        if habit == Habit::AnswersForAnother && number > 1 {
            body = json!({"@odata.id": "/redfish/v1/Systems/2", "PowerState": "Off"});
        }
        if names_updates && head.starts_with("get /redfish/v1/ ") {
            body = json!({"@odata.id": "/redfish/v1", "UpdateService": {"@odata.id": UPDATES}});
        }
        if names_updates && head.contains(&UPDATES.to_ascii_lowercase()) {
            body = json!({"@odata.id": UPDATES, "Id": "UpdateService"});
        }
        if habit == Habit::LagsBehind {
            let last = std::mem::replace(&mut before, body.clone());
            body = if is_second { last } else { body };
        }
        let body = if method == "get" {
            body.to_string()
        } else {
            "{}".to_owned()
        };
        let ends = closes || habit == Habit::Closes;
        let connection = if ends { "Connection: close\r\n" } else { "" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{connection}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        if ends {
            return;
        }
        is_second = true;
    }
}

#[tokio::test]
async fn reads_share_a_connection_that_is_closed_before_a_command() {
    let server = Server::start(Habit::Answers).await;
    let client = server.client(KeepAlive::Auto);
    for _ in 0..3 {
        client.power().await.unwrap();
    }
    assert_eq!(server.connections(), [1, 1, 1]);
    client.off().await.unwrap();
    client.power().await.unwrap();
    client.power().await.unwrap();
    let seen = server.seen.lock().unwrap().clone();
    let [.., post, third, fourth] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert_eq!(*post, (2, "post".to_owned(), true), "{RESET}");
    assert_eq!((third.0, fourth.0), (3, 3), "{seen:?}");
}

#[tokio::test]
async fn bmc_that_breaks_a_connection_used_again_has_one_for_each_read() {
    for habit in [Habit::Resets, Habit::IsSilent, Habit::IsBusy] {
        let server = Server::start(habit).await;
        let client = server.client(KeepAlive::Auto);
        let begun = Instant::now();
        for _ in 0..4 {
            assert_eq!(client.power().await.unwrap().state, PowerState::On);
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{habit:?}");
        // The second read was sent again over a connection of its own, as all after it.
        assert_eq!(server.connections(), [1, 1, 2, 3, 4], "{habit:?}");
        let seen = server.seen.lock().unwrap().clone();
        let closes: Vec<bool> = seen.iter().map(|(.., closes)| *closes).collect();
        assert_eq!(closes, [false, false, true, true, true], "{habit:?}");
    }
}

#[tokio::test]
async fn read_that_fails_in_any_way_over_a_connection_used_again_is_read_over_a_new_one() {
    let failures: [(&[u8], bool); 12] = [
        (b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", false),
        (
            b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}", false),
        (
            b"HTTP/1.1 302 No\r\nLocation: /login.html\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
            false,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{\"a", false),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"PowerState\":\"Off\"}",
            true,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n",
            false,
        ),
        (b"\x15\x03\x01\x00\x02\x02\x28garbage\r\n\r\n", false),
    ];
    for (bytes, ends) in failures {
        let text = String::from_utf8_lossy(bytes);
        let server = Server::start(Habit::Sends(bytes, ends)).await;
        let client = server.client(KeepAlive::Auto);
        for number in 0..5 {
            let reading = client.power().await;
            let reading = reading.unwrap_or_else(|error| panic!("{text}, {number}: {error}"));
            assert_eq!(reading.state, PowerState::On, "{text}");
        }
        let connections = server.connections();
        let is_reset = connections == [1, 1, 2, 3, 4, 5];
        assert!(
            is_reset || connections == [1, 1, 2, 3, 3, 4, 5],
            "{text}: {connections:?}"
        );
        client.off().await.unwrap();
        let seen = server.seen.lock().unwrap().clone();
        let posts = seen.iter().filter(|(_, method, _)| method == "post");
        assert_eq!(posts.count(), 1, "{text}: {seen:?}");
    }
}

/// A client with HTTP Basic that keeps connections, and reads the system alone.
fn keeping_client(bmc: &TestBmc) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.address = format!("{}{SYSTEM}", config.address).parse().unwrap();
    config.auth = AuthPolicy::Basic;
    config.keep_alive = KeepAlive::Auto;
    connect(config).unwrap()
}

#[tokio::test]
async fn resource_that_fails_over_new_connections_too_is_asked_for_once() {
    let mut reads = 0;
    let bmc = TestBmc::with(move |seen, _| {
        reads += usize::from(seen.is("GET", SYSTEM));
        (seen.is("GET", SYSTEM) && reads > 1).then(|| Reply::status(404))
    })
    .await;
    let client = keeping_client(&bmc);
    client.power().await.unwrap();
    for (number, count) in [(2, 3), (3, 4), (4, 5), (5, 6)] {
        client.power().await.unwrap_err();
        assert_eq!(bmc.count("GET", SYSTEM), count, "reading {number}");
    }
}

#[tokio::test]
async fn refused_password_is_sent_once_whatever_the_connection() {
    for keep_alive in [KeepAlive::Auto, KeepAlive::Always] {
        let server = Server::start(Habit::Refuses).await;
        let client = server.client(keep_alive);
        client.power().await.unwrap();
        for _ in 0..3 {
            let error = client.power().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
            let error = client.off().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
            assert!(error.not_sent && error.retry_after.is_some(), "{error}");
        }
        assert_eq!(server.connections(), [1, 1], "{keep_alive:?}");
    }
}

#[tokio::test]
async fn bmc_that_is_busy_over_every_connection_is_asked_twice_and_with_a_refused_password_once() {
    for (status, kind, asked, then) in [
        (503, ErrorKind::Busy, 3, 4),
        (401, ErrorKind::Authentication, 2, 2),
    ] {
        let mut reads = 0;
        let bmc = TestBmc::with(move |seen, _| {
            reads += usize::from(seen.is("GET", SYSTEM));
            (seen.is("GET", SYSTEM) && reads > 1).then(|| Reply::status(status))
        })
        .await;
        let client = keeping_client(&bmc);
        client.power().await.unwrap();
        assert_eq!(client.power().await.unwrap_err().kind, kind, "{status}");
        assert_eq!(bmc.count("GET", SYSTEM), asked, "{status}");
        assert_eq!(client.power().await.unwrap_err().kind, kind, "{status}");
        assert_eq!(
            bmc.count("GET", SYSTEM),
            then,
            "{status}: nothing is proven any more"
        );
    }
}

#[tokio::test]
async fn command_is_not_held_up_by_a_connection_that_nobody_answers() {
    for keep_alive in [KeepAlive::Auto, KeepAlive::Always] {
        let server = Server::start(Habit::IsSilent).await;
        let client = server.client(keep_alive);
        assert_eq!(client.power().await.unwrap().state, PowerState::On);
        let begun = Instant::now();
        client.off().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4), "{keep_alive:?}");
        let seen = server.seen.lock().unwrap().clone();
        let posts = seen.iter().filter(|(_, method, _)| method == "post");
        assert_eq!(posts.count(), 1, "{keep_alive:?}: {seen:?}");
    }
}

#[tokio::test]
async fn read_over_a_connection_that_is_always_kept_is_bounded() {
    for habit in [Habit::IsSilent, Habit::Resets, Habit::IsBusy] {
        let server = Server::start(habit).await;
        let client = server.client(KeepAlive::Always);
        for _ in 0..4 {
            let begun = Instant::now();
            assert_eq!(client.power().await.unwrap().state, PowerState::On);
            assert!(begun.elapsed() < Duration::from_secs(4), "{habit:?}");
        }
    }
}

#[tokio::test]
async fn bmc_that_closes_its_connections_is_asked_over_new_ones() {
    let server = Server::start(Habit::Closes).await;
    let client = server.client(KeepAlive::Auto);
    for _ in 0..3 {
        client.power().await.unwrap();
    }
    assert_eq!(server.connections(), [1, 2, 3]);
}

#[tokio::test]
async fn setting_decides_whether_connections_are_kept() {
    for (keep_alive, connections) in [
        (KeepAlive::Always, [1, 1, 1]),
        (KeepAlive::Never, [1, 2, 3]),
    ] {
        let server = Server::start(Habit::Answers).await;
        let client = server.client(keep_alive);
        for _ in 0..3 {
            client.power().await.unwrap();
        }
        assert_eq!(server.connections(), connections, "{keep_alive:?}");
    }
}

#[tokio::test]
async fn answer_to_another_request_is_read_again_over_a_connection_of_its_own() {
    for keep_alive in [KeepAlive::Auto, KeepAlive::Always] {
        let server = Server::start(Habit::LagsBehind).await;
        let client = server.client(keep_alive);
        for _ in 0..2 {
            let found = client
                .firmware_updates(Duration::from_secs(10))
                .await
                .unwrap();
            assert_eq!(found.read, ["UpdateService"], "{keep_alive:?}: {found:?}");
            assert!(found.unread.is_empty(), "{keep_alive:?}: {found:?}");
            assert_eq!(client.power().await.unwrap().state, PowerState::On);
        }
    }
}

#[tokio::test]
async fn document_of_another_system_is_no_reading_of_this_one() {
    let server = Server::start(Habit::AnswersForAnother).await;
    let client = server.client(KeepAlive::Auto);
    assert_eq!(client.power().await.unwrap().state, PowerState::On);
    client.off().await.unwrap();
    for _ in 0..3 {
        let error = client.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        for path in [SYSTEM, "/redfish/v1/systems/2"] {
            assert!(error.message.contains(path), "{error}");
        }
    }
}

#[tokio::test]
async fn updates_are_read_in_time_over_a_connection_that_is_not_used_again() {
    for habit in [Habit::Answers, Habit::Resets, Habit::IsSilent] {
        let server = Server::start(habit).await;
        let client = server.client(KeepAlive::Auto);
        client.power().await.unwrap();
        let limit = Duration::from_secs(3);
        let found = client.firmware_updates(limit).await.unwrap();
        assert!(found.running().is_some(), "{habit:?}: {found:?}");
    }
}

#[tokio::test]
async fn bmc_that_bears_one_request_is_asked_again_when_it_has_answered_the_first() {
    let server = Server::start(Habit::BearsOne).await;
    let client = server.client(KeepAlive::Auto);
    let limit = Duration::from_secs(2);
    let found = client.firmware_updates(limit).await.unwrap();
    assert_eq!(found.read, ["UpdateService", "TaskService", "tasks"]);
    assert!(found.unread.is_empty(), "{found:?}");
}
