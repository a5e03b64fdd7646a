//! Third-party programs, and the BMC that they connect to.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::ipmi::{Counters, IpmiBmc, IpmiConfig, PowerCounts, StandaloneHost};
use rackhand_tests::repository;
use tokio::process::Command;

/// Time limit on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Any free port.
pub const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A BMC of a host that is on and switches immediately.
pub async fn bmc(change: impl FnOnce(&mut IpmiConfig)) -> IpmiBmc {
    let mut config = IpmiConfig::default();
    change(&mut config);
    let power = StandaloneHost::instant(true);
    IpmiBmc::start(LOCALHOST.into(), config, power)
        .await
        .expect("a simulated BMC")
}

pub fn only(suite: Suite) -> impl FnOnce(&mut IpmiConfig) {
    move |config| config.suites = vec![suite]
}

/// Result of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub ok: bool,
    /// Standard output, then standard error.
    pub text: String,
}

impl ProgramOutput {
    /// The output of a program that succeeded.
    pub fn done(self) -> String {
        assert!(self.ok, "failed: {}", self.text);
        self.text
    }

    /// The output of a program that failed.
    pub fn failed(self) -> String {
        assert!(!self.ok, "succeeded: {}", self.text);
        self.text
    }
}

/// Runs ipmitool, with one attempt and a long timeout, so that a loaded machine causes no retransmission.
pub async fn ipmitool(bmc: SocketAddr, args: &[&str]) -> ProgramOutput {
    let port = bmc.port().to_string();
    let base = [
        "-I",
        "lanplus",
        "-H",
        "127.0.0.1",
        "-p",
        &port,
        "-N",
        "10",
        "-R",
        "1",
    ];
    run("ipmitool", &[&base, args].concat()).await
}

/// Runs a program to its end.
pub async fn run(program: &str, args: &[&str]) -> ProgramOutput {
    let mut command = Command::new(repository::program(program).unwrap());
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command.env("LC_ALL", "C").env("TZ", "UTC");
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("{program} {args:?} did not end"));
    let output = output.unwrap_or_else(|error| {
        panic!("{program} is needed for this test and does not start: {error}; run hack/setup")
    });
    let text = [output.stdout, output.stderr].concat();
    ProgramOutput {
        ok: output.status.success(),
        text: String::from_utf8_lossy(&text).into_owned(),
    }
}

/// The value after `key` and a colon at the start of a line.
pub fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut pairs = pairs.map(|(found, value)| (found.trim(), value.trim()));
    let found = pairs.find(|(found, _)| *found == key);
    found.unwrap_or_else(|| panic!("no {key} in {text}")).1
}

/// The fields of the table row with this first or second field.
pub fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let rows = text
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let found = rows
        .into_iter()
        .find(|row| row.iter().take(2).any(|field| *field == name));
    found.unwrap_or_else(|| panic!("no row {name} in {text}"))
}

/// Checks that no session is open, that no client used an unknown command, and that every packet
/// was accepted.
pub async fn nothing_is_left(bmc: &IpmiBmc) -> Counters {
    // A client may end before its last packet has arrived.
    let closed = bmc.wait_for(PATIENCE, |bmc, now| bmc.sessions(now) == 0);
    closed.await.expect("no session");
    let mut counters = bmc.counters();
    assert_eq!(
        counters.sessions_opened, counters.sessions_closed,
        "{counters:?}"
    );
    assert_eq!(counters.sessions_expired, 0);
    // ipmitool queries group extensions: PICMG, VITA.
    counters.unknown.retain(|command, _| command.net_fn != 0x2c);
    assert!(counters.unknown.is_empty(), "{counters:?}");
    assert!(counters.dropped.is_empty(), "{counters:?}");
    counters
}

pub fn power_counts(offs: u64, ons: u64, resets: u64, nmis: u64, softs: u64) -> PowerCounts {
    PowerCounts {
        offs,
        ons,
        resets,
        nmis,
        softs,
    }
}
