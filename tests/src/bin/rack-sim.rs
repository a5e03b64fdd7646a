//! `rack-sim`: a rack of simulated hosts with Redfish BMCs in its own process, for benchmarks.
//!
//! Runs until SIGTERM or SIGINT. Writes only into its directory: its PKI, and `endpoints.json` with
//! the address of every BMC.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use rackhand_tests::pki::Pki;
use rackhand_tests::rack::{PowerTimings, Rack, RackConfig};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// A rack of simulated hosts with Redfish BMCs. User `admin`, password `secret`.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Number of hosts.
    #[arg(long)]
    hosts: u32,
    /// Directory for the PKI and endpoints.json.
    #[arg(long)]
    directory: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let args = Args::parse();
    let pki = Pki::new(args.directory.join("pki"))?;
    let names = (0..args.hosts).map(|index| format!("bmc-{index}"));
    let config = RackConfig::new("bench", names).each(|host| {
        // The benchmark does not measure the time of hardware.
        host.timings = PowerTimings {
            on_takes: Duration::from_millis(100),
            off_takes: Duration::from_secs(1),
            boot_takes: Duration::from_millis(100),
            ..PowerTimings::default()
        };
    });
    let rack = Rack::bare(config, Some(&pki)).await?;

    let mut systems = Vec::new();
    for host in rack.hosts().values() {
        systems.push(host.system_url()?);
    }
    let endpoints = json!({"ca": std::path::absolute(pki.ca_file())?, "systems": systems});
    let path = args.directory.join("endpoints.json");
    let fresh = args.directory.join("endpoints.json.new");
    std::fs::write(&fresh, serde_json::to_string_pretty(&endpoints)?)?;
    std::fs::rename(&fresh, &path).with_context(|| format!("writing {}", path.display()))?;

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    rack.stop().await;
    Ok(())
}
