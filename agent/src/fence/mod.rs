//! `fence_rackhand`: this program as a ClusterLabs fence agent, for Pacemaker and for medik8s'
//! Fence Agents Remediation.
//!
//! Owns: the fence agent contract: input, output and exit codes. Must never: reboot a host after
//! invalid input, or print a secret.

mod actions;
mod device;
mod input;
mod log;
mod manual;
mod metadata;
mod options;
mod settings;

use std::{ffi::OsStr, io::Read, path::Path, process::ExitCode};

use input::Input;
use log::Log;
pub(crate) use manual::page;
use settings::Action;

/// Maximum size of the input in bytes.
const MOST_INPUT: u64 = 1 << 20;

/// Whether the program was started under the name of the fence agent.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("fence_"))
}

/// Runs the action of the arguments, or of standard input if there are none.
pub(crate) async fn run(arguments: Vec<String>) -> ExitCode {
    let given = match given(&arguments) {
        Ok(given) => given,
        Err(why) => {
            Log::new(&Input::default()).error(&why);
            return ExitCode::from(actions::FAILED);
        }
    };
    let mut log = Log::new(&given);
    for warning in &given.warnings {
        log.warn(warning);
    }
    match settings::action(&given) {
        Ok(Action::Help) => out!("{}", metadata::help()),
        Ok(Action::Metadata) => out!("{}", metadata::metadata()),
        Ok(Action::Version) => outln!("fence_rackhand {}", env!("CARGO_PKG_VERSION")),
        Ok(_) | Err(_) => return with_settings(&given, &mut log).await,
    }
    ExitCode::SUCCESS
}

async fn with_settings(given: &Input, log: &mut Log) -> ExitCode {
    // Pacemaker limits the time of every run itself (docs/reference/fence-agents.md, Input).
    let bounded = std::env::var_os("PCMK_service").is_none_or(|who| who != "pacemaker-fenced");
    let settings = match settings::settings(given, bounded) {
        Ok(settings) => settings,
        Err(mistakes) => {
            for mistake in mistakes {
                log.error(&mistake);
            }
            return ExitCode::from(actions::FAILED);
        }
    };
    let Some(way) = &settings.way else {
        return ExitCode::SUCCESS;
    };
    match actions::act(&settings, way, log).await {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            log.error(&why);
            ExitCode::from(actions::FAILED)
        }
    }
}

fn given(arguments: &[String]) -> Result<Input, String> {
    if !arguments.is_empty() {
        return Input::arguments(arguments);
    }
    let mut text = zeroize::Zeroizing::new(String::new());
    let read = std::io::stdin().take(MOST_INPUT).read_to_string(&mut text);
    read.map_err(|error| format!("standard input: {error}"))?;
    Ok(Input::lines(&text))
}
