//! `fence_rackhand`: this program as a ClusterLabs fence agent, for Pacemaker and for medik8s'
//! Fence Agents Remediation.
//!
//! Owns that contract: how we are told what to do, what we print, how we end. Must never reboot
//! on an input that it did not understand, or print a secret.

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

/// More than any cluster says on standard input.
const MOST_INPUT: u64 = 1 << 20;

/// Whether the program was called by a fence agent's name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("fence_"))
}

/// Does what the arguments say, or standard input where there are none.
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
    // Pacemaker bounds every run by itself (docs/reference/fence-agents.md, Input).
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
