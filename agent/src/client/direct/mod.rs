//! `--direct`: the same commands without a running agent.
//!
//! Owns: an agent within this process for the duration of one command, in a temporary directory.
//! Must never: act beside a running agent unless forced, ignore the holds in the journal of the
//! last agent, or write to its journal.

mod credentials;

use std::{
    fs::{File, TryLockError},
    future::Future,
    io::ErrorKind,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use rackhand_agent_service::{Agent, Hardware, StartError, config::Config};
use tempfile::TempDir;

use crate::{
    cli::{Command, Common, PduArgs, PowerArgs},
    output::exit_code::{ExitStatus, Refused, Usage},
    signals::EndSignals,
};

/// Time for a command to end after a signal.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Time for the power-on of a cycle after a signal; a second signal ends it.
const LAST_ON: Duration = Duration::from_secs(150);

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
    crate::daemon::hardening::confine();
    let mut signals = EndSignals::catch().context("cannot catch signals")?;
    let direct = Direct::start(common).await?;
    let mut obeying = Box::pin(obey(command));
    let result = tokio::select! {
        result = &mut obeying => result,
        signal = signals.next() => {
            // A command that handles the signal itself prints what it leaves running.
            match tokio::time::timeout(LAST_WORDS, &mut obeying).await {
                Ok(result) => result,
                Err(_) => {
                    errln!("ended by {signal}; commands that were sent are not revoked");
                    Ok(ExitStatus::Failed.code())
                }
            }
        }
    };
    // The lease ends with the command (F17).
    drop(obeying);
    // Sessions are closed in any case.
    // The first signal may still be on its way to `signals`.
    let mut again = EndSignals::catch().context("cannot catch signals")?;
    tokio::select! {
        () = direct.agent.shutdown() => {}
        signal = again.next() => {
            errln!("ended by {signal} again: a host that a cycle has switched off may be left off");
        }
    }
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
    /// Prevents an agent that would command the same BMCs from starting meanwhile.
    _lock: Option<File>,
}

impl Direct {
    async fn start(common: &mut Common) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("rackhand-direct-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let mut config = match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(credentials) => Config::load_with(&common.config, Some(credentials.as_ref()))?,
            None => {
                let credentials = credentials::gather(&common.config, dir.path())?;
                let config = Config::load_with(&common.config, Some(&credentials))?;
                credentials::warn_of_missing(&config, &common.config);
                config
            }
        };
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
        let lock = lock_journal(&config.state, &socket, common.force)?;
        let copied = copy_journal(&config.state, dir.path(), common.force)?;
        config.socket = dir.path().join("agent.sock");
        config.state = dir.path().to_owned();
        config.remote = None;
        config.admin = None;
        // Only a cycle that has switched off goes on after its caller (F17).
        config.times.shutdown_grace = LAST_ON;
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
        Ok(Self {
            agent,
            _dir: dir,
            _lock: lock,
        })
    }
}

/// Locks the journal against an agent, which holds the same lock while it runs, even if its socket file is
/// missing.
///
/// # Errors
///
/// [`Refused`]: an agent runs with this journal.
fn lock_journal(state: &Path, socket: &str, force: bool) -> anyhow::Result<Option<File>> {
    let journal = state.join(JOURNAL);
    // Other errors of the file are reported when it is copied.
    let Ok(file) = File::open(&journal) else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) if force => {
            errln!("an agent runs with {}: it is not informed of this command", journal.display());
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => Err(Refused(format!(
            "an agent runs with the journal {}, although nothing answers at its socket {socket}: restart it \
             (systemctl restart rackhand-agent) and leave out --direct, so that you and a remediation do not switch \
             one host at the same time; --force overrides this",
            journal.display()
        ))
        .into()),
        Err(TryLockError::Error(error)) => Err(Refused(format!(
            "{}: cannot be locked: {error}",
            journal.display()
        ))
        .into()),
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
