//! `serve`: the daemon, with systemd notification.

use std::{pin::pin, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use rackhand_agent_service::{Agent, Hardware, config::Config};
use rackhand_transport::otlp::{self, ExportedService, SpanExport};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::{
    EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use super::hardening::confine;
use crate::cli::{LogFormat, ServeArgs};

pub(crate) async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let rejected = confine();
    let config = Config::load(&args.config)?;
    let export = init_log(&args, &config)?;
    for (what, error) in rejected {
        warn!(%error, "{what}");
    }
    for warning in config.warnings() {
        warn!("{warning}");
    }
    let (mut hosts, rack) = (config.inventory.hosts.len(), config.rack.clone());
    let mut signals = Signals::new()?;
    let mut agent = Agent::start(config, Arc::new(Hardware)).await?;
    if let Some(address) = args.probe_listen {
        agent.serve_probes(address).await?;
    }
    ready(&rack, hosts);
    info!(rack, hosts, version = env!("CARGO_PKG_VERSION"), "ready");
    let mut watchdog = pin!(watchdog());
    let code = loop {
        tokio::select! {
            told = signals.next() => match told {
                SignalAction::Stop => break ExitCode::SUCCESS,
                SignalAction::Reload => {
                    reloading();
                    // A rejected reload was logged; the previous configuration stays in force.
                    if let Ok(changes) = agent.reload().await {
                        hosts = changes.hosts;
                    }
                    ready(&rack, hosts);
                }
            },
            () = &mut watchdog => break ExitCode::FAILURE,
            () = agent.failed() => {
                error!("a part of the agent has ended unexpectedly: stopping");
                break ExitCode::FAILURE;
            }
        }
    };
    notify(&[NotifyState::Stopping]);
    info!("stopping");
    agent.shutdown().await;
    if let Some(export) = export {
        tokio::task::spawn_blocking(move || export.finish()).await?;
    }
    Ok(code)
}

/// Sets up the log to standard error, and the export of trace spans if it is configured.
fn init_log(args: &ServeArgs, config: &Config) -> anyhow::Result<Option<SpanExport>> {
    let mut filter = EnvFilter::try_new(&args.log).context("--log")?;
    // The SNMP library logs every failed request as an error; the agent reports it with its PDU.
    if !args.log.contains("async_snmp") {
        filter = filter.add_directive("async_snmp=off".parse()?);
    }
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    let log = match args.log_format {
        LogFormat::Text => log.boxed(),
        LogFormat::Json => log.json().boxed(),
    };
    let service = || ExportedService {
        name: "rackhand-agent",
        version: env!("CARGO_PKG_VERSION"),
        instance: config.rack.clone(),
    };
    let endpoint = config.otlp_endpoint.as_ref();
    let started = endpoint.map(|endpoint| otlp::start(endpoint, service()));
    let (spans, export) = started.transpose().context("otlp_endpoint")?.unzip();
    tracing_subscriber::registry()
        .with(filter)
        .with(log)
        .with(spans)
        .init();
    Ok(export)
}

/// Action of a signal.
enum SignalAction {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }
}

fn ready(rack: &str, hosts: usize) {
    let status = format!("rack {rack}: {hosts} hosts");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Notifies systemd of the start of a reload.
fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(begun) => notify(&[NotifyState::Reloading, begun]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Notifies systemd's watchdog twice per interval while the runtime is responsive; runs forever,
/// also without a watchdog.
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
