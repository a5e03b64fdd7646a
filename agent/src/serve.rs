//! `serve`: the daemon, as systemd wants it.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use rackhand_agent_service::{Agent, Hardware, config::Config};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::cli::{LogFormat, ServeArgs};

pub(crate) async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_new(&args.log).context("--log")?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let config = Config::load(&args.config)?;
    for warning in config.warnings() {
        warn!("{warning}");
    }
    let (hosts, rack) = (config.inventory.hosts.len(), config.rack.clone());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut agent = Agent::start(config, Arc::new(Hardware)).await?;
    notify(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("rack {rack}: {hosts} hosts")),
    ]);
    info!(rack, hosts, version = env!("CARGO_PKG_VERSION"), "ready");
    let code = tokio::select! {
        () = told_to_stop(&mut terminate, &mut interrupt, &mut hangup) => ExitCode::SUCCESS,
        () = watchdog() => ExitCode::FAILURE,
        () = agent.failed() => {
            error!("a part of the agent has ended by itself: stopping");
            ExitCode::FAILURE
        }
    };
    notify(&[NotifyState::Stopping]);
    info!("stopping");
    agent.shutdown().await;
    Ok(code)
}

async fn told_to_stop(terminate: &mut Signal, interrupt: &mut Signal, hangup: &mut Signal) {
    loop {
        tokio::select! {
            _ = terminate.recv() => return,
            _ = interrupt.recv() => return,
            _ = hangup.recv() => {
                info!("certificates and passwords are read anew by themselves; for the rest of the configuration restart the agent");
            }
        }
    }
}

/// Tells systemd twice within its time that the runtime still turns; for ever, watched or not.
async fn watchdog() {
    let Some(within) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "cannot notify systemd");
    }
}
