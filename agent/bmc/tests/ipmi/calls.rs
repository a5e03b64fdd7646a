//! Calls over UDP: sessions, sockets, call order, time limits, and dropped calls.

use std::time::{Duration, Instant};

use rackhand_bmc::{
    BmcError, ErrorKind, PowerCommand, PowerState,
    ipmi::{IpmiConfig, connect},
};

use super::server::Server;

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn idle_session_is_reused_and_then_closed() {
    let server = Server::start().await;
    let mut config = server.config();
    config.idle = Duration::from_millis(200);
    let bmc = connect(config).expect("configuration");
    for _ in 0..5 {
        bmc.power().await.expect("power");
    }
    assert_eq!(server.state().packets, 8);
    assert_eq!(server.state().bmc.sessions(), (1, 0));
    server.is_left().await;
    assert_eq!(server.state().packets, 9);
    bmc.power().await.expect("power");
    assert_eq!(server.state().packets, 13);
}

#[tokio::test]
async fn resolved_address_is_used_without_a_dns_lookup() {
    let server = Server::start().await;
    let mut config = server.config();
    let port = config.address.port();
    // A name that never resolves (RFC 2606).
    config.address = format!("ipmi://bmc.invalid:{port}")
        .parse()
        .expect("address");
    config.resolved = vec![[127, 0, 0, 1].into()];
    let bmc = connect(config).expect("configuration");
    bmc.power().await.expect("power");
}

#[tokio::test]
async fn session_in_use_is_not_closed() {
    let server = Server::start().await;
    let mut config = server.config();
    config.idle = Duration::from_millis(400);
    let bmc = connect(config).expect("configuration");
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < Duration::from_secs(1) {
        bmc.power().await.expect("power");
        calls += 1;
        tokio::time::sleep(SHORT).await;
    }
    assert_eq!(server.state().packets, calls + 3);
}

#[tokio::test]
async fn close_and_drop_close_the_session() {
    let server = Server::start().await;
    let bmc = server.client();
    bmc.power().await.expect("power");
    bmc.close().await.expect("close");
    assert_eq!(server.state().bmc.sessions(), (0, 0));
    bmc.close().await.expect("nothing to close");
    assert_eq!(server.state().packets, 5);
    bmc.power().await.expect("power");
    assert_eq!(server.state().bmc.sessions(), (1, 0));
    drop(bmc);
    server.is_left().await;
}

#[tokio::test]
async fn call_can_be_dropped_at_any_point() {
    let server = Server::start().await;
    server.state().slow = Duration::from_millis(10);
    let bmc = server.client();
    for step in 0..30 {
        let limit = Duration::from_millis(step * 3);
        tokio::time::timeout(limit, bmc.on()).await.ok();
        let power = step % 2 == 0;
        let before = {
            let mut state = server.state();
            state.bmc.power = power;
            state.bmc.controls.len()
        };
        let reading = bmc.power().await.expect("power");
        // A dropped "on" may still arrive, but no reading is older than its call.
        let is_late = server.state().bmc.controls.len() > before;
        let is_true = (reading.state == PowerState::On) == power;
        assert!(is_true || is_late && reading.state == PowerState::On);
    }
    bmc.close().await.expect("close");
    server.state().slow = Duration::ZERO;
    tokio::time::sleep(SHORT).await;
    assert_eq!(server.state().bmc.sessions().0, 0);
}

#[tokio::test]
async fn lost_session_is_reestablished_within_the_call() {
    let server = Server::start().await;
    let bmc = server.client();
    for command in [PowerCommand::On, PowerCommand::Off] {
        bmc.power().await.expect("power");
        server.state().bmc.restart();
        let began = Instant::now();
        bmc.command(command).await.expect("command");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    assert_eq!(server.state().bmc.controls, [1, 0]);
}

#[tokio::test]
async fn concurrent_calls_run_one_at_a_time() {
    let server = Server::start().await;
    let bmc = server.client();
    server.state().slow = Duration::from_millis(2);
    let calls = (0..20).map(|number| {
        let bmc = &bmc;
        async move {
            if number % 4 == 0 {
                bmc.command(PowerCommand::Reset).await.map(drop)
            } else {
                bmc.power().await.map(drop)
            }
        }
    });
    let done: Vec<Result<(), BmcError>> = join_all(calls).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(server.state().bmc.controls, [3; 5]);
    assert_eq!(server.state().bmc.sessions(), (1, 0));
}

async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn impatient(mut config: IpmiConfig) -> IpmiConfig {
    config.timeouts.connect = Duration::from_millis(300);
    config.timeouts.call = Duration::from_millis(500);
    config
}

#[tokio::test]
async fn call_limit_includes_the_wait_for_the_queue() {
    let server = Server::start().await;
    let bmc = connect(impatient(server.config())).expect("configuration");
    bmc.on().await.expect("on");
    server.state().is_mute = true;
    let began = Instant::now();
    let (reset, power, off) =
        tokio::join!(bmc.command(PowerCommand::Reset), bmc.power(), bmc.off());
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    let reset = reset.expect_err("mute");
    assert_eq!((reset.kind, reset.maybe_sent), (ErrorKind::Timeout, true));
    for error in [
        power.map(drop).expect_err("turn"),
        off.map(drop).expect_err("turn"),
    ] {
        assert_eq!(
            (error.kind, error.maybe_sent),
            (ErrorKind::Busy, false),
            "{error}"
        );
    }
    server.state().is_mute = false;
    bmc.power().await.expect("power");
    assert_eq!(server.state().bmc.controls, [1, 3]);
}

#[tokio::test]
async fn calls_keep_the_minimum_interval() {
    let server = Server::start().await;
    let mut config = server.config();
    config.min_interval = Duration::from_millis(200);
    let bmc = connect(config).expect("configuration");
    let began = Instant::now();
    let (first, second, third) = tokio::join!(bmc.power(), bmc.power(), bmc.on());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn closed_port_is_unreachable_within_a_second() {
    let server = Server::start().await;
    let bmc = server.client();
    bmc.power().await.expect("power");
    let config = server.config();
    drop(server);
    tokio::time::sleep(SHORT).await;
    for bmc in [bmc, connect(config).expect("configuration")] {
        let began = Instant::now();
        let error = bmc.power().await.expect_err("nobody");
        assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn host_names_are_resolved() {
    let server = Server::start().await;
    let named = |name: &str| {
        let mut config = server.config();
        let address = format!("ipmi://{name}:{}", server.port);
        config.address = address.parse().expect("address");
        connect(config).expect("configuration")
    };
    named("localhost").power().await.expect("power");
    let error = named("no-such-bmc.invalid")
        .power()
        .await
        .expect_err("no name");
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("no-such-bmc.invalid"));
}

#[tokio::test]
async fn f1_completion_codes_are_refusals_although_the_host_reads_off() {
    let server = Server::start().await;
    let bmc = server.client();
    for code in [0xd5, 0xc1, 0xcc, 0xff, 0x80] {
        server.state().bmc.codes = vec![code];
        let error = bmc.off().await.expect_err("off");
        let kinds = [ErrorKind::Refused, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind), "{error}");
        assert!(error.message.contains(&format!("0x{code:02x}")), "{error}");
    }
    let accepted = bmc.off().await.expect("off");
    assert_eq!(accepted.command, "Chassis Control 0x00 (power down)");
    assert_eq!(
        accepted.connection,
        bmc.power().await.expect("power").connection
    );
    server.state().bmc.codes = vec![0xd5];
    let error = bmc.command(PowerCommand::Reset).await.expect_err("reset");
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("power on instead"), "{error}");
    server.state().bmc.codes = vec![0xff];
    let error = bmc.on().await.expect_err("on");
    assert!(error.message.contains("power bit clear (0x00)"), "{error}");
    assert!(error.maybe_sent);
}

#[tokio::test]
async fn idle_client_takes_less_than_16_kib() {
    let server = Server::start().await;
    let before = resident();
    let mut warm = Vec::new();
    for _ in 0..400 {
        let bmc = server.client();
        bmc.power().await.expect("power");
        warm.push(bmc);
    }
    assert_eq!(server.state().bmc.sessions(), (400, 0));
    let each = (resident() - before) / warm.len();
    // The memory of the BMC's side of each session is included.
    assert!(each < 16 * 1024, "{each} bytes for each");
    println!("{each} bytes for each");
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .expect("VmRSS");
    let kib: usize = line
        .split_whitespace()
        .nth(1)
        .expect("number")
        .parse()
        .expect("number");
    kib * 1024
}
