//! The IPMI client against a simulated BMC, over a network that loses, duplicates, delays,
//! reorders, truncates and corrupts datagrams: thousands of runs, each with its own seed.
//!
//! `RACKHAND_SEED=n` runs one seed only, `RACKHAND_RUNS=n` sets the number of runs.
use std::env;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use rackhand_bmc::ipmi::{self, Retransmission, Timeouts};
use rackhand_bmc::operation::{self, DuringUpdate, Expected, Goal, OperationRequest, Timing};
use rackhand_bmc::{Bmc, PowerCommand, PowerState as Read};
use rackhand_tests::rack::PowerState;
use rackhand_tests::rack::ipmi::{
    Action, Command, HostPower, IpmiBmc, IpmiConfig, Rule, StandaloneHost,
};
use rackhand_tests::udp_proxy::{Direction, Faults, UdpProxy};

const RUNS: u64 = 2000;
/// Number of concurrent runs.
const AT_ONCE: usize = 48;
const CALL: Duration = Duration::from_millis(600);

/// A small deterministic random number generator; the proxy decides about network faults.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Result of a run.
#[derive(Debug, Default)]
struct Outcome {
    readings: u32,
    commands: u32,
    failures: u32,
    faults: u64,
    /// Whether datagrams were lost or delayed beyond the limits.
    lossy: bool,
    left_open: bool,
}

fn is(read: Read, real: PowerState) -> bool {
    matches!(
        (read, real),
        (Read::On, PowerState::On | PowerState::PoweringOff)
            | (Read::Off, PowerState::Off | PowerState::PoweringOn)
    )
}

async fn run(seed: u64) -> Outcome {
    let mut dice = Dice(seed);
    let machine = Arc::new(Mutex::new(StandaloneHost::instant(dice.roll(2) == 1)));
    // No client can prevent a BMC from executing a duplicated datagram twice; such BMCs exist. For
    // them the network duplicates nothing on its way to the BMC.
    let strict = dice.roll(2) == 1;
    let config = IpmiConfig {
        strict_sequence: strict,
        setup_limit: Duration::from_millis(300),
        session_limit: 4,
        seed,
        ..IpmiConfig::default()
    };
    let bmc = IpmiBmc::start((Ipv4Addr::LOCALHOST, 0).into(), config, machine.clone())
        .await
        .unwrap();
    let likely = [0.02, 0.05, 0.1][usize::try_from(dice.roll(3)).unwrap()];
    let lossy = dice.roll(3) > 0;
    let loss = if lossy { likely } else { 0.0 };
    let faults = Faults {
        drop: loss,
        truncate: loss,
        flip: loss,
        duplicate: if strict { likely } else { 0.0 },
        delay_by: Duration::from_millis(40 + dice.roll(if lossy { 400 } else { 40 })),
        ..Faults::all(likely)
    };
    let proxy = UdpProxy::start(bmc.address(), seed, faults).await.unwrap();
    let client = client(proxy.address().port());

    let mut outcome = Outcome {
        lossy,
        ..Outcome::default()
    };
    let mut resets = 0;
    for _ in 0..3 + dice.roll(4) {
        let begun = tokio::time::Instant::now().into_std();
        let command = match dice.roll(6) {
            0 => PowerCommand::On,
            1 => PowerCommand::Off,
            2 | 3 => PowerCommand::Reset,
            _ => {
                match client.power().await {
                    Ok(reading) => {
                        outcome.readings += 1;
                        let now = tokio::time::Instant::now().into_std();
                        let real = machine.lock().states_since(begun, now);
                        let known = real.iter().any(|state| is(reading.state, *state));
                        assert!(known, "seed {seed}: read {reading:?}, was {real:?}");
                    }
                    Err(_) => outcome.failures += 1,
                }
                // A caller may drop a call at any time; the next call must not accept its response.
                if dice.roll(3) == 0 {
                    let patience = Duration::from_millis(dice.roll(5));
                    tokio::time::timeout(patience, client.power()).await.ok();
                }
                continue;
            }
        };
        resets += u64::from(command == PowerCommand::Reset);
        outcome.commands += 1;
        outcome.failures += u32::from(client.command(command).await.is_err());
        let done = bmc.power_counts().resets;
        assert!(
            done <= resets,
            "seed {seed}: {done} resets, {resets} asked for"
        );
    }
    outcome.faults =
        proxy.passed(Direction::ToServer).faults() + proxy.passed(Direction::ToClient).faults();
    proxy.set_faults(Faults::default());
    client.close().await.unwrap();
    // Datagrams that the proxy still delays arrive too, and have no effect.
    let settled = bmc
        .wait_for(Duration::from_secs(2), |bmc, now| bmc.sessions(now) == 0)
        .await;
    outcome.left_open = settled.is_err();
    let done = bmc.power_counts().resets;
    assert!(
        done <= resets,
        "seed {seed}: {done} resets, {resets} asked for"
    );
    outcome
}

fn client(port: u16) -> Box<dyn Bmc> {
    let address = format!("ipmi://127.0.0.1:{port}").parse().unwrap();
    let mut config = ipmi::IpmiConfig::new(address, "admin", "secret".to_owned().into());
    config.timeouts = Timeouts {
        connect: CALL,
        call: CALL,
    };
    config.retransmission = Retransmission {
        first: Duration::from_millis(15),
        most: Duration::from_millis(60),
    };
    ipmi::connect(config).unwrap()
}

/// A power-off is sent whatever the BMC reports. What it took while it reported off already proves nothing, because
/// the BMC may not know the state of its host.
#[tokio::test]
async fn f1_power_off_that_ipmi_took_while_it_reported_off_is_not_proven() {
    let machine = Arc::new(Mutex::new(StandaloneHost::instant(true)));
    let config = IpmiConfig::default();
    let free = (Ipv4Addr::LOCALHOST, 0).into();
    let bmc = IpmiBmc::start(free, config, machine.clone()).await.unwrap();
    let lost = Rule::command(Command::CHASSIS_STATUS, Action::OffUntilCommanded);
    bmc.inject(lost);
    let client = client(bmc.address().port());
    assert_eq!(client.power().await.unwrap().state, Read::Off);
    assert_eq!(bmc.power_counts().offs, 0);
    let asked = OperationRequest {
        goal: Goal::Off {
            command_after: Duration::ZERO,
            confirmations: 2,
            confirm_interval: Duration::from_millis(20),
        },
        deadline: Duration::from_secs(20),
        expected: Expected::default(),
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    };
    let report = operation::run(client.as_ref(), asked, &mut ()).await;
    let unproven = operation::Outcome::Unproven { uptime: None };
    assert_eq!(report.outcome, unproven, "{report:?}");
    assert_eq!(bmc.power_counts().offs, 1, "{report:?}");
    let now = tokio::time::Instant::now().into_std();
    assert_eq!(machine.lock().power(now), PowerState::Off);
    client.close().await.unwrap();
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn network_faults_lose_responses_only() {
    let seeds = match number("RACKHAND_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RACKHAND_RUNS").unwrap_or(RUNS),
    };
    let all: Vec<Outcome> = stream::iter(seeds)
        .map(|seed| async move { tokio::spawn(run(seed)).await.unwrap() })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let sum = |of: fn(&Outcome) -> u64| all.iter().map(of).sum::<u64>();
    let (readings, commands) = (
        sum(|run| run.readings.into()),
        sum(|run| run.commands.into()),
    );
    let failures = sum(|run| run.failures.into());
    let open = |lossy| {
        let runs = all.iter().filter(|run| run.lossy == lossy);
        (
            runs.clone().filter(|run| run.left_open).count(),
            runs.count(),
        )
    };
    let ((lost, lossy), (kept, lossless)) = (open(true), open(false));
    println!(
        "{} runs, {} faults: {readings} readings, {commands} commands, {failures} failures; a \
         session left open in {kept} of {lossless} runs without loss, {lost} of {lossy} with it",
        all.len(),
        sum(|run| run.faults),
    );
    if all.len() > 100 {
        // Otherwise the faults were too few to be relevant, or so many that nothing worked.
        assert!(sum(|run| run.faults) > readings + commands);
        assert!(failures > 0 && failures < (readings + commands) / 2);
        // A lost Close Session leaves its session to the BMC's timeout, as does a handshake whose
        // last packet arrives after Close Session.
        assert!(kept * 50 < lossless && lost * 2 < lossy);
    }
}
