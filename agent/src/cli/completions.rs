//! Shell completions and manual pages, generated from the argument definitions.

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use clap::CommandFactory;

use crate::{cli::Cli, fence};

const NAME: &str = "rackhand-agent";

/// Prints the completions of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    crate::output::stdio::write_bytes(&script);
    ExitCode::SUCCESS
}

/// Writes one page for the program, one for each of its commands, and that of the fence agent.
///
/// # Errors
///
/// The directory cannot be written.
pub(crate) fn man(dir: &Path) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(|| dir.display().to_string())?;
    let page = dir.join("fence_rackhand.8");
    fs::write(&page, fence::page()).with_context(|| page.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
