//! What it costs an agent to watch its hosts: CPU time of this process, as a part of one core.
//!
//! ```text
//! watch_cost agent.toml 60
//! ```
//!
//! Starts an agent with this configuration, watches every host of its inventory through the local socket, waits until
//! each was read, and measures for so many seconds. `hack/bench watch` prepares the configuration.

use std::{
    collections::BTreeSet, error::Error, path::PathBuf, process::ExitCode, sync::Arc,
    time::Duration,
};

use rackhand_agent_service::{Agent, Hardware, config::Config};
use rackhand_proto::v1::{self, power_client::PowerClient};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;

type Failure = Box<dyn Error + Send + Sync>;

/// Longest wait for the first reading of every host.
const FIRST_READINGS: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watch_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let path: PathBuf = args
        .next()
        .ok_or("usage: watch_cost CONFIG SECONDS")?
        .into();
    let seconds: u64 = args
        .next()
        .ok_or("usage: watch_cost CONFIG SECONDS")?
        .parse()?;
    let config = Config::load(&path)?;
    let socket = config.socket.clone();
    let hosts: Vec<String> = (config.inventory.hosts.iter())
        .map(|host| host.name.clone())
        .collect();
    let agent = Agent::start(config, Arc::new(Hardware)).await?;
    let mut client = PowerClient::new(rackhand_transport::connect_local(&socket).await?);
    let (requests, sent) = mpsc::channel(hosts.len());
    for part in hosts.chunks(rackhand_proto::limits::WATCH_CHANGES) {
        let add = part.iter().map(|host| v1::WatchedTarget {
            id: host.clone(),
            target: Some(v1::Target {
                host: host.clone(),
                endpoint: None,
            }),
            ..v1::WatchedTarget::default()
        });
        let request = v1::WatchHostsRequest {
            add: add.collect(),
            ..v1::WatchHostsRequest::default()
        };
        requests.send(request).await?;
    }
    let stream = client.watch_hosts(ReceiverStream::new(sent)).await?;
    let mut stream = stream.into_inner();
    let mut read = BTreeSet::new();
    let first = Instant::now();
    while read.len() < hosts.len() {
        let message = tokio::time::timeout(FIRST_READINGS, stream.message()).await??;
        for host in message.ok_or("the stream has ended")?.hosts {
            if host.power.is_some() {
                read.insert(host.id);
            }
        }
        if first.elapsed() > FIRST_READINGS {
            return Err(format!("only {} of {} hosts were read", read.len(), hosts.len()).into());
        }
    }
    let (begun, cpu) = (Instant::now(), cpu_time()?);
    let (mut messages, mut failures) = (0_u32, 0_u32);
    let end = begun + Duration::from_secs(seconds);
    while let Ok(message) = tokio::time::timeout_at(end, stream.message()).await {
        let message = message?.ok_or("the stream has ended")?;
        messages += 1;
        failures += u32::try_from(
            message
                .hosts
                .iter()
                .filter(|host| host.failure.is_some())
                .count(),
        )?;
    }
    let (wall, cpu) = (begun.elapsed(), cpu_time()?.saturating_sub(cpu));
    let percent = 100.0 * cpu.as_secs_f64() / wall.as_secs_f64();
    println!(
        "{} hosts: {:.1} s of CPU in {:.0} s, {percent:.2} % of a core; {messages} messages, {failures} failures",
        hosts.len(),
        cpu.as_secs_f64(),
        wall.as_secs_f64(),
    );
    drop((requests, stream, client));
    agent.shutdown().await;
    Ok(())
}

/// CPU time of this process in user and system mode.
fn cpu_time() -> Result<Duration, Failure> {
    // Ticks of a hundredth of a second, on every architecture of Linux in use.
    const TICK: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program is in parentheses and may contain spaces.
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("an unknown form of /proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * TICK))
}
