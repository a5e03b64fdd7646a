//! `rackhand-controller`: arguments and wiring, nothing else.

mod args;
mod explain;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Gives back what a burst has needed; glibc's keeps it. How soon stands in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// One worker: news come one at a time, and to wake a second thread for each cost more than its help.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        // In one line, whatever the environment says of backtraces: a person reads it.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    // One TLS provider for Kubernetes and agents; an error means that one is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut args = args::Args::parse();
    args.init_log();
    if let Some(args::Command::Explain { what }) = args.command.take() {
        return match what {
            args::Explain::Remediation(asked) => explain::remediation(&asked, &args.config()).await,
            args::Explain::Mhc(asked) => explain::mhc(&asked, &args.config()).await,
            args::Explain::Nhc(asked) => explain::nhc(&asked, &args.config()).await,
        };
    }
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let asked = stop.clone();
    let listener = tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!(
            "stopping: what has begun at an agent goes on there; the state is in the cluster"
        );
        asked.cancel();
    });
    let result = rackhand_runtime::run(args.config(), stop).await;
    listener.abort();
    result
}
