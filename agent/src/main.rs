//! The rack agent: daemon and command line.
//!
//! Owns: arguments, exit codes and output. Must never: decide about power; the service does.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod bmc;
mod cli;
mod client;
mod daemon;
mod enroll;
mod fence;
mod host;
mod inventory;
mod operations;
mod pdu;
mod power;
mod signals;
mod sim;
mod term;

use std::process::ExitCode;

use cli::Command;

/// The mode of the program, selected by `argv[0]`.
enum Work {
    Fence(Vec<String>),
    Command(Box<Command>),
}

fn main() -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    if let Err(error) = daemon::hardening::memory() {
        errln!("core dumps cannot be switched off: {error}");
    }
    let mut arguments = std::env::args_os();
    let work = if fence::is_called(arguments.next().as_deref()) {
        let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
        Work::Fence(arguments.collect())
    } else {
        Work::Command(Box::new(cli::parsed().command))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Unresolved names and slow disks block threads; a thousand at once must not take a thread
        // each.
        .max_blocking_threads(64)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            errln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match work {
            Work::Fence(arguments) => Ok(fence::run(arguments).await),
            Work::Command(command) => client::direct::around(*command, obey).await,
        }
    });
    match (result, output::stdio::finish()) {
        (Ok(_), Some(error)) => {
            errln!("error: cannot write the output: {error}");
            ExitCode::FAILURE
        }
        (Ok(code), None) => code,
        (Err(error), _) => {
            errln!("error: {}", client::connect_error::told(&error));
            output::exit_code::code_of(&error)
        }
    }
}

async fn obey(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => daemon::serve::serve(args).await,
        Command::Check(args) => daemon::config_check::check(&args.config),
        Command::Power(args) => power::power(args).await,
        Command::Pdu(args) => pdu::pdu(args).await,
        Command::Host(args) => host::host(args).await,
        Command::Inventory(args) => inventory::inventory(args).await,
        Command::BootDevice(args) => bmc::boot_device::boot_device(args).await,
        Command::Identify(args) => bmc::identify::identify(args).await,
        Command::Bmc(args) => bmc::bmc(args).await,
        Command::Sensors(args) => bmc::sensors::sensors(args).await,
        Command::Events(args) => bmc::event_log::events(args).await,
        Command::Operations(args) => operations::operations(args).await,
        Command::Term(args) => term::term(args).await,
        Command::Enroll(args) => enroll::enroll(&args),
        Command::Sim(args) => sim::sim(args).await,
        Command::Completions(args) => Ok(cli::completions::completions(args.shell)),
        Command::Man(args) => cli::completions::man(&args.dir),
    }
}
