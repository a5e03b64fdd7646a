//! `--direct`: the same commands without a running agent.
//!
//! Owns: an agent within this process for the duration of one command, in a temporary directory.
//! Must never: act beside a running agent unless forced, ignore the holds in the journal of the
//! last agent, or write to its journal.

use std::{
    future::Future, io::ErrorKind, path::Path, process::ExitCode, sync::Arc, time::Duration,
};

use anyhow::Context;
use rackhand_agent_service::{Agent, Hardware, StartError, config::Config};
use tempfile::TempDir;

use crate::{
    cli::{Command, Common, PduArgs, PowerArgs},
    exit_code::{ExitStatus, Refused, Usage},
    signals::EndSignals,
};

/// Time that a command has to end by itself after a signal.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Path of the journal below the state directory.
const JOURNAL: &str = "journal.redb";

/// Runs a command, with an agent in this process if `--direct` is given.
///
/// # Errors
///
/// Those of the command; [`Refused`]: an agent is running.
pub(crate) async fn around<F>(
    mut command: Command,
    obey: impl FnOnce(Command) -> F,
) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
    let makes_no_sense = sense(&command);
    let Some(common) = command.common_mut().filter(|common| common.direct) else {
        return obey(command).await;
    };
    makes_no_sense.map_err(|why| Usage(why.to_owned()))?;
    crate::hardening::confine();
    let mut signals = EndSignals::catch().context("cannot catch signals")?;
    let direct = Direct::start(common).await?;
    let mut obeying = std::pin::pin!(obey(command));
    let result = tokio::select! {
        result = &mut obeying => result,
        signal = signals.next() => {
            // A command that handles the signal itself prints what it leaves running.
            match tokio::time::timeout(LAST_WORDS, obeying).await {
                Ok(result) => result,
                Err(_) => {
                    errln!("ended by {signal}; commands that were sent are not revoked");
                    Ok(ExitStatus::Failed.code())
                }
            }
        }
    };
    // Sessions are closed in any case.
    direct.agent.shutdown().await;
    result
}

/// Whether the command works without a permanent agent.
fn sense(command: &Command) -> Result<(), &'static str> {
    let no_wait = match command {
        Command::Operations(_) => {
            return Err("operations belong to a running agent: leave out --direct");
        }
        Command::Term(_) => {
            return Err("terms belong to a running agent: leave out --direct");
        }
        Command::Power(PowerArgs { action }) => action.switch().is_some_and(|args| args.no_wait),
        Command::Pdu(PduArgs { action }) => action.switch().is_some_and(|args| args.no_wait),
        _ => false,
    };
    if no_wait {
        return Err("with --direct no agent continues the operation: leave out --no-wait");
    }
    Ok(())
}

struct Direct {
    agent: Agent,
    /// Directory of its socket and its copy of the journal.
    _dir: TempDir,
}

impl Direct {
    async fn start(common: &mut Common) -> anyhow::Result<Self> {
        let mut config = Config::load(&common.config)?;
        let socket = config.socket.display().to_string();
        if tokio::net::UnixStream::connect(&config.socket)
            .await
            .is_ok()
        {
            if !common.force {
                return Err(Refused(format!(
                    "an agent serves {socket}: leave out --direct, so that you and a remediation \
                     do not switch one host at the same time; --force overrides this"
                ))
                .into());
            }
            errln!("an agent serves {socket}: it is not informed of this command");
        }
        let dir = tempfile::Builder::new()
            .prefix("rackhand-direct-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let copied = copy_journal(&config.state, dir.path(), common.force)?;
        config.socket = dir.path().join("agent.sock");
        config.state = dir.path().to_owned();
        config.remote = None;
        config.admin = None;
        config.times.shutdown_grace = Duration::ZERO;
        let agent = match Agent::start_on_copy(config.clone(), Arc::new(Hardware)).await {
            // It was copied while an agent wrote it; with force, it is ignored.
            Err(StartError::Journal(error)) if copied && common.force => {
                errln!("holds of remediations are not known: {error}");
                std::fs::remove_file(dir.path().join(JOURNAL))?;
                Agent::start_on_copy(config.clone(), Arc::new(Hardware)).await
            }
            started => started,
        };
        let agent = agent.context("cannot connect to the BMCs directly")?;
        errln!(
            "direct: connecting to the BMCs of rack {} without an agent; nothing is recorded, and no \
             controller is informed",
            config.rack
        );
        common.socket = config.socket;
        Ok(Self { agent, _dir: dir })
    }
}

/// Copies the journal of the last agent: its holds apply while no agent runs, too.
fn copy_journal(state: &Path, to: &Path, force: bool) -> anyhow::Result<bool> {
    let journal = state.join(JOURNAL);
    match std::fs::copy(&journal, to.join(JOURNAL)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) if force => {
            let journal = journal.display();
            errln!("{journal}: {error}: holds of remediations are not known");
            Ok(false)
        }
        Err(error) => Err(Refused(format!(
            "{}: {error}; it says which hosts a remediation holds off. Run this as the agent's \
             user, or with --force",
            journal.display()
        ))
        .into()),
    }
}
