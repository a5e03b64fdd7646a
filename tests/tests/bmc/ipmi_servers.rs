//! The IPMI client against third-party servers.

use std::time::{Duration, Instant};

use crate::ipmi_support::{Peer, Server};
use nix::sys::signal::Signal;
use rackhand_bmc::{
    Bmc, BootDevice, BootMode, BootOverride, BootPersistence, ErrorKind, Identify, IdentityMatch,
    PowerCommand, PowerSource, PowerState, compare_system_uuids,
    ipmi::{Suite, SuiteChoice, connect},
};

/// Shorter than every timeout of the client.
const NO_TIMEOUT: Duration = Duration::from_secs(9);

const PEERS: [Peer; 4] = [
    Peer::IpmiSim,
    Peer::Goipmi("3"),
    Peer::Goipmi("17"),
    Peer::Fakebmc,
];

async fn state(bmc: &dyn Bmc) -> PowerState {
    bmc.power().await.expect("power").state
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn power_is_read_and_switched_on_every_server() {
    for peer in PEERS {
        let server = Server::start(peer);
        let bmc = server.admin();
        bmc.off()
            .await
            .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
        let reading = bmc.power().await.expect("power");
        assert_eq!(reading.state, PowerState::Off, "{peer:?}");
        assert_eq!(reading.source, PowerSource::Ipmi);
        assert!(
            reading.raw.starts_with("power bit clear (0x"),
            "{reading:?}"
        );
        assert!(reading.identity.system_uuid.is_some(), "{reading:?}");
        for _ in 0..2 {
            bmc.on()
                .await
                .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
            assert_eq!(state(&*bmc).await, PowerState::On, "{peer:?}");
        }
        for _ in 0..2 {
            bmc.off().await.expect("off");
            assert_eq!(state(&*bmc).await, PowerState::Off, "{peer:?}");
        }
        bmc.close().await.expect("close");
        let said = text(&server.ipmitool(&["power", "status"]).stdout);
        assert!(said.contains("is off"), "{peer:?}: {said}");
    }
}

#[tokio::test]
async fn non_idempotent_command_is_carried_out_once() {
    let server = Server::start(Peer::IpmiSim);
    let bmc = server.admin();
    bmc.on().await.expect("on");
    // Slower than the first retransmissions.
    server.slow(Some(1.5));
    bmc.command(PowerCommand::Reset).await.expect("reset");
    bmc.command(PowerCommand::SoftOff).await.expect("soft off");
    server.slow(None);
    assert_eq!(
        (server.calls("set reset"), server.calls("set shutdown")),
        (1, 1)
    );
    let error = bmc
        .command(PowerCommand::Nmi)
        .await
        .expect_err("ipmi_sim has none");
    assert_eq!((error.kind, error.maybe_sent), (ErrorKind::Refused, false));
    let error = error.to_string();
    assert!(
        error.contains("0xcc") && error.contains("power bit set"),
        "{error}"
    );
}

#[tokio::test]
async fn reset_and_soft_off_are_accepted_by_other_servers() {
    for peer in [Peer::Goipmi("17"), Peer::Fakebmc] {
        let server = Server::start(peer);
        let bmc = server.admin();
        bmc.on().await.expect("on");
        for command in [PowerCommand::Reset, PowerCommand::SoftOff] {
            let accepted = bmc.command(command).await;
            let accepted = accepted.unwrap_or_else(|error| panic!("{peer:?}: {error}"));
            assert_eq!(accepted.answer, "completion code 0x00");
        }
        bmc.close().await.expect("close");
    }
}

#[tokio::test]
async fn boot_override_round_trips() {
    let server = Server::start(Peer::Goipmi("3,17"));
    let bmc = server.admin();
    for (device, persistence, mode) in [
        (BootDevice::Pxe, BootPersistence::Once, BootMode::Uefi),
        (
            BootDevice::Disk,
            BootPersistence::Persistent,
            BootMode::Legacy,
        ),
        (
            BootDevice::BiosSetup,
            BootPersistence::Once,
            BootMode::Legacy,
        ),
        (BootDevice::Cd, BootPersistence::Persistent, BootMode::Uefi),
    ] {
        let wanted = BootOverride {
            device,
            persistence,
            mode: Some(mode),
        };
        bmc.set_boot(wanted).await.expect("set");
        assert_eq!(bmc.boot().await, Ok(wanted));
    }
    // ipmitool reads the same flags.
    let said = text(
        &server
            .ipmitool(&["chassis", "bootparam", "get", "5"])
            .stdout,
    );
    for word in ["Boot Flag Valid", "all future boots", "EFI", "CD/DVD"] {
        assert!(said.contains(word), "{said}");
    }
    // An unspecified mode is kept.
    let wanted = BootOverride {
        device: BootDevice::Pxe,
        persistence: BootPersistence::Once,
        mode: None,
    };
    bmc.set_boot(wanted).await.expect("set");
    let boot = bmc.boot().await.expect("boot");
    assert_eq!(
        (boot.device, boot.mode),
        (BootDevice::Pxe, Some(BootMode::Uefi))
    );
    let http = BootOverride {
        device: BootDevice::UefiHttp,
        ..wanted
    };
    let error = bmc.set_boot(http).await.expect_err("not with IPMI");
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn identify_led_is_switched_on_and_off() {
    for peer in [Peer::IpmiSim, Peer::Goipmi("17")] {
        let server = Server::start(peer);
        let bmc = server.admin();
        for wanted in [
            Identify::For(Duration::from_secs(15)),
            Identify::On,
            Identify::Off,
        ] {
            let accepted = bmc.identify(wanted).await;
            accepted.unwrap_or_else(|error| panic!("{peer:?}, {wanted:?}: {error}"));
        }
        if peer == Peer::IpmiSim {
            assert_eq!(server.calls("set identify 15 0"), 1);
            assert_eq!(server.calls("set identify 0 1"), 1);
        }
    }
}

#[tokio::test]
async fn system_uuid_is_read() {
    let server = Server::start(Peer::IpmiSim);
    let uuid = server
        .admin()
        .identity()
        .await
        .expect("identity")
        .system_uuid;
    let uuid = uuid.expect("a GUID");
    let same = compare_system_uuids(&uuid, "a1234567-89ab-cdef-a123-456789abcdef");
    assert_eq!(same, IdentityMatch::Same, "{uuid}");
}

#[tokio::test]
async fn boot_state_is_read_whether_or_not_a_server_knows_the_restart_cause() {
    for peer in [Peer::IpmiSim, Peer::Goipmi("17")] {
        let state = Server::start(peer).admin().boot_state().await;
        let state = state.unwrap_or_else(|error| panic!("{peer:?}: {error}"));
        assert!(state.faults.is_empty(), "{peer:?}: {state:?}");
        assert_eq!(state.progress, None, "{peer:?}");
    }
}

#[tokio::test]
async fn event_log_is_read_and_cleared() {
    let server = Server::start(Peer::IpmiSim);
    let bmc = server.admin();
    let log = bmc.event_log(10).await.expect("log");
    assert_eq!(log.entries.len(), 1, "{log:?}");
    bmc.clear_event_log().await.expect("clear");
    let said = text(&server.ipmitool(&["sel", "list"]).stdout);
    // Many servers log the clearing.
    assert!(!said.contains("Temperature"), "{said}");
    bmc.sensors().await.expect("sensors");
}

#[tokio::test]
async fn wrong_password_and_wrong_user_are_distinguished() {
    for (peer, user, password, word) in [
        (
            Peer::IpmiSim,
            "admin",
            "wrong",
            "wrong password for user \"admin\"",
        ),
        (Peer::IpmiSim, "nobody", "secret", "check the user name"),
        (Peer::Goipmi("17"), "admin", "wrong", "wrong password"),
        (Peer::Goipmi("3"), "nobody", "secret", "nobody"),
        (Peer::Fakebmc, "admin", "wrong", "wrong password"),
    ] {
        let server = Server::start(peer);
        let began = Instant::now();
        let bmc = connect(server.config(user, password)).expect("configuration");
        let error = bmc.power().await.expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Authentication, "{peer:?}: {error}");
        assert!(error.message.contains(word), "{peer:?}: {error}");
        assert!(began.elapsed() < NO_TIMEOUT, "{peer:?}");
        // Valid credentials still work.
        server.admin().power().await.expect("power");
    }
}

#[tokio::test]
async fn operator_level_account_switches_power() {
    let server = Server::start(Peer::IpmiSim);
    let bmc = connect(server.config("oper", "operpw")).expect("configuration");
    bmc.on().await.expect("on");
    assert_eq!(state(&*bmc).await, PowerState::On);
}

#[tokio::test]
async fn user_level_account_reads_but_does_not_switch() {
    let server = Server::start(Peer::IpmiSim);
    server.admin().on().await.expect("on");
    // ipmi_sim grants an account more than its limit, so the limit is set in the address.
    let mut config = server.config("reader", "readpw");
    let address = format!("ipmi://127.0.0.1:{}?privilegelevel=USER", server.port);
    config.address = address.parse().expect("address");
    let bmc = connect(config).expect("configuration");
    assert_eq!(state(&*bmc).await, PowerState::On);
    let error = bmc.off().await.expect_err("not allowed");
    assert_eq!(
        (error.kind, error.maybe_sent),
        (ErrorKind::Privilege, false)
    );
    assert!(error.message.contains("OPERATOR"), "{error}");
    assert_eq!(state(&*bmc).await, PowerState::On);
    assert_eq!(server.calls("set power 0"), 0);
}

#[tokio::test]
async fn only_the_configured_suite_is_used() {
    let server = Server::start(Peer::Goipmi("3"));
    let mut config = server.config("admin", "secret");
    config.suite = SuiteChoice::Only(Suite::Cipher17);
    let error = connect(config.clone())
        .expect("configuration")
        .power()
        .await;
    assert_eq!(error.expect_err("suite").kind, ErrorKind::Unsupported);
    config.suite = SuiteChoice::Only(Suite::Cipher3);
    connect(config)
        .expect("configuration")
        .power()
        .await
        .expect("power");
}

#[tokio::test]
async fn no_session_is_left_behind() {
    let server = Server::start(Peer::IpmiSim);
    // ipmi_sim supports 63 sessions.
    for run in 0..100 {
        let bmc = server.admin();
        bmc.power()
            .await
            .unwrap_or_else(|error| panic!("run {run}: {error}"));
        if run % 2 == 0 {
            bmc.close().await.expect("close");
        }
    }
    for _ in 0..70 {
        let wrong = connect(server.config("admin", "wrong")).expect("configuration");
        wrong.power().await.expect_err("password");
    }
    let said = text(&server.ipmitool(&["session", "info", "all"]).stdout);
    // ipmitool's own session.
    let active: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("active"))
        .collect();
    let is_one = |line: &&str| line.split(": ").nth(1) == Some("1");
    assert!(!active.is_empty() && active.iter().all(is_one), "{said}");
}

#[tokio::test]
async fn restarted_bmc_is_used_by_the_next_call() {
    for peer in [Peer::IpmiSim, Peer::Goipmi("17")] {
        let mut server = Server::start(peer);
        let bmc = server.admin();
        bmc.on().await.expect("on");
        server.kill();
        let began = Instant::now();
        let error = bmc.power().await.expect_err("gone");
        assert_eq!(error.kind, ErrorKind::Unreachable, "{peer:?}: {error}");
        assert!(began.elapsed() < NO_TIMEOUT);
        server.restart();
        bmc.power()
            .await
            .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
        // A restart without a call in between.
        server.kill();
        server.restart();
        let began = Instant::now();
        bmc.off()
            .await
            .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
        assert!(began.elapsed() < NO_TIMEOUT, "{:?}", began.elapsed());
        assert_eq!(state(&*bmc).await, PowerState::Off);
    }
}

#[tokio::test]
async fn unresponsive_bmc_times_out_and_is_used_again() {
    let server = Server::start(Peer::IpmiSim);
    let mut config = server.config("admin", "secret");
    config.timeouts.connect = Duration::from_secs(5);
    config.timeouts.call = Duration::from_secs(8);
    let bmc = connect(config).expect("configuration");
    bmc.on().await.expect("on");
    server.signal(Signal::SIGSTOP);
    let began = Instant::now();
    let error = bmc.command(PowerCommand::Reset).await.expect_err("stopped");
    assert_eq!((error.kind, error.maybe_sent), (ErrorKind::Timeout, true));
    let took = began.elapsed();
    // Not the one after the other.
    assert!(took < Duration::from_secs(12), "{took:?}");
    let error = bmc.power().await.expect_err("stopped");
    assert_eq!((error.kind, error.maybe_sent), (ErrorKind::Timeout, false));
    server.signal(Signal::SIGCONT);
    assert_eq!(state(&*bmc).await, PowerState::On);
    assert!(server.calls("set reset") <= 1);
}

#[tokio::test]
async fn slow_bmc_is_read_and_switched() {
    let server = Server::start(Peer::IpmiSim);
    let bmc = server.admin();
    bmc.on().await.expect("on");
    server.slow(Some(2.0));
    assert_eq!(state(&*bmc).await, PowerState::On);
    bmc.off().await.expect("off");
    assert_eq!(state(&*bmc).await, PowerState::Off);
}

#[tokio::test]
async fn bmc_reset_is_sent_once() {
    // The server ends without a response.
    let mut server = Server::start(Peer::Fakebmc);
    let mut config = server.config("admin", "password");
    // Long enough for a busy machine to open the session.
    config.timeouts.call = Duration::from_secs(8);
    let bmc = connect(config).expect("configuration");
    let error = bmc.reset_bmc().await.expect_err("no answer");
    assert_eq!((error.kind, error.maybe_sent), (ErrorKind::Timeout, true));
    assert!(server.has_ended());
    server.restart();
    bmc.power().await.expect("power");
    let server = Server::start(Peer::Goipmi("17"));
    let accepted = server.admin().reset_bmc().await.expect("accepted");
    assert_eq!(accepted.command, "Cold Reset");
    // ipmi_sim does not support the command.
    let server = Server::start(Peer::IpmiSim);
    let error = server.admin().reset_bmc().await.expect_err("refused");
    assert_eq!(
        (error.kind, error.maybe_sent),
        (ErrorKind::Unsupported, false)
    );
}

#[tokio::test]
async fn password_of_the_user_in_use_is_changed() {
    let server = Server::start(Peer::IpmiSim);
    let read = async |user: &str, password: &str| {
        let bmc = connect(server.config(user, password)).expect("configuration");
        let read = bmc.power().await.map_err(|error| error.kind);
        bmc.close().await.ok();
        read.map(|reading| reading.state)
    };
    let refused = Err(ErrorKind::Authentication);
    // After a change to one of more than 16 bytes, ipmi_sim accepts no password, from ipmitool neither.
    for (old, new) in [("secret", "s3cond"), ("s3cond", "third-16-bytes-!")] {
        let bmc = connect(server.config("admin", old)).expect("configuration");
        let accepted = bmc.set_password(new.into()).await.expect("accepted");
        assert_eq!(accepted.command, "Set User Password");
        bmc.close().await.ok();
        assert_eq!(read("admin", new).await, Ok(PowerState::Off));
        assert_eq!(read("admin", old).await, refused);
    }
    assert_eq!(read("oper", "operpw").await, Ok(PowerState::Off));
    let admin = connect(server.config("admin", "third-16-bytes-!")).expect("configuration");
    let error = admin
        .set_password("x".repeat(21).into())
        .await
        .expect_err("too long");
    assert_eq!(
        (error.kind, error.maybe_sent),
        (ErrorKind::Configuration, false)
    );
}
