//! `rackhand-controller`: arguments and wiring, nothing else.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod stdio;

mod args;
mod error_text;
mod explain;
#[cfg(test)]
mod failures;
mod kubectl;
mod leader;
mod pki;
mod preflight;
mod rehearse;
mod settings;

use std::{ffi::OsString, process::ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use rackhand_runtime::Config;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns memory to the system after a burst, which glibc's allocator does not. The delay is set in
/// `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What computes for long, or looks up an address, has a thread of the runtime beside that of the tasks. The runtime keeps
/// each while there is more to do now and then, with what the allocator keeps for it.
const BLOCKING_THREADS: usize = 8;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Events arrive one at a time, and waking a second thread for each costs more than it gains.
        .worker_threads(1)
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run_to_end()),
        Err(error) => {
            errln!("error: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_to_end() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        // On one line without a backtrace, even with RUST_BACKTRACE, because a person reads it.
        Err(error) => {
            errln!("error: {}", error_text::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Whether kubectl called this binary as a plugin, which never runs the controller.
fn is_plugin(line: &[OsString]) -> bool {
    let program = line.first().map(std::path::Path::new);
    program
        .and_then(|path| path.file_stem())
        .is_some_and(|name| name == "kubectl-rackhand")
}

async fn run() -> anyhow::Result<()> {
    // One TLS provider for Kubernetes and agents. An error means that it is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let line: Vec<OsString> = std::env::args_os().collect();
    let matches = args::Args::command().get_matches_from(&line);
    let mut args = args::Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let export = args.init_log()?;
    if let Some(command) = args.command.take() {
        return Box::pin(run_command(command, args, &matches, &line)).await;
    }
    if is_plugin(&line) {
        args::Args::command().print_help()?;
        return Ok(());
    }
    let config = Config {
        settings: settings::of(&matches),
        ..args.config()
    };
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
            "stopping: operations that have begun at an agent continue there; the state is in the cluster"
        );
        asked.cancel();
    });
    let result = rackhand_runtime::run(config, stop).await;
    listener.abort();
    if let Some(export) = export {
        tokio::task::spawn_blocking(move || export.finish()).await?;
    }
    result
}

/// Runs one command instead of the controller.
async fn run_command(
    command: args::Command,
    args: args::Args,
    matches: &ArgMatches,
    line: &[OsString],
) -> anyhow::Result<()> {
    match command {
        args::Command::Explain { what } => {
            let command_line = explain::CommandLine {
                args,
                matches,
                line,
            };
            Box::pin(explain::run(what, command_line)).await
        }
        args::Command::Preflight(asked) => {
            let command_line = explain::CommandLine {
                args,
                matches,
                line,
            };
            Box::pin(preflight::run(asked, command_line)).await
        }
        args::Command::Rehearse(asked) => rehearse::run(&asked),
        args::Command::Record(asked) => rehearse::record(asked, args.kubeconfig()).await,
        args::Command::Pki(command) => {
            out!("{}", pki::run(command, jiff::Timestamp::now())?);
            Ok(())
        }
        args::Command::Kubectl(command) => {
            kubectl::run(command, args.kubeconfig(), &args.lease()).await
        }
    }
}
