//! `rack-sim`: a rack of simulated hosts, each with a Redfish BMC and a kubelet.
//!
//! Reads a YAML file (see `rackhand_tests::rack::file`), prints where everything listens, and runs
//! until SIGTERM or SIGINT. Writes only below the directory that the file names: its PKI and
//! `endpoints.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rackhand_tests::pki::Pki;
use rackhand_tests::rack::file::RackFile;
use rackhand_tests::rack::{Rack, control};
use secrecy::SecretString;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// A connection to the API server that was not made by then is tried anew.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// A rack of simulated hosts, each with a Redfish BMC and a kubelet.
#[derive(Debug, Parser)]
#[command(version, after_help = control::HELP)]
struct Args {
    /// Configuration file.
    #[arg(long, short)]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let file = RackFile::read(&Args::parse().config)?;
    let password = std::env::var("RACK_SIM_PASSWORD")
        .ok()
        .map(SecretString::from);
    let config = file.rack(password)?;
    std::fs::create_dir_all(&file.directory)
        .with_context(|| format!("making {}", file.directory.display()))?;
    let pki = if file.bmc.tls {
        Some(Pki::new(file.directory.join("pki"))?)
    } else {
        None
    };
    let client = match &file.kubeconfig {
        Some(path) => Some(client(path).await?),
        None => None,
    };

    let rack = Arc::new(Rack::start(config, pki.as_ref(), client).await?);
    let stop = CancellationToken::new();
    let (control, serving) = control::serve(Arc::clone(&rack), file.control, stop.clone()).await?;
    let serving = tokio::spawn(serving);
    announce(&rack, control, &file.directory, pki.as_ref())?;

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    stop.cancel();
    rack.stop().await;
    // A client that keeps a connection to the control port open must not keep the simulator alive.
    tokio::time::timeout(Duration::from_secs(1), serving)
        .await
        .ok();
    Ok(())
}

async fn client(path: &Path) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // The kubelets have retries of their own, whose number and pace they know.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_DEADLINE);
    Ok(kube::Client::try_from(config)?)
}

/// Says where everything listens: on standard output for people, in `endpoints.json` for scripts.
fn announce(
    rack: &Rack,
    control: std::net::SocketAddr,
    directory: &Path,
    pki: Option<&Pki>,
) -> Result<()> {
    println!("control  http://{control}");
    let mut hosts = serde_json::Map::new();
    for (name, host) in rack.hosts() {
        let system = host.system_url()?;
        println!("{name}  {system}  {}", host.config().uuid);
        let entry = json!({"bmc": host.bmc_url()?, "system": system, "uuid": host.config().uuid});
        hosts.insert(name.clone(), entry);
    }
    let endpoints = json!({
        "rack": rack.name(),
        "control": format!("http://{control}"),
        "ca": pki.map(|pki| std::path::absolute(pki.ca_file())).transpose()?,
        "hosts": hosts,
    });
    let (path, fresh) = (
        directory.join("endpoints.json"),
        directory.join("endpoints.json.new"),
    );
    std::fs::write(&fresh, serde_json::to_string_pretty(&endpoints)?)?;
    std::fs::rename(&fresh, &path).with_context(|| format!("writing {}", path.display()))?;
    println!("ready");
    Ok(())
}
