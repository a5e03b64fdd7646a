//! The device of a fence agent: a BMC, or hosts of a running rack agent.
//!
//! Must never: accept any state but exactly on and exactly off, or send a reset.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use rackhand_bmc::{
    Bmc, BmcAddress, Credentials, Failover, FailoverSettings, Options, PowerState, SystemIdentity,
    Trust, connect,
    ipmi::{Suite, SuiteChoice},
    operation::{self, DuringUpdate, Expected, Goal, OperationRequest, Outcome, Timing},
};
use rackhand_proto::v1::{ListHostsRequest, power_client::PowerClient};
use secrecy::SecretString;
use tonic::{Request, transport::Channel};

use super::settings::{Direct, Password, Route, Through, Times};
use crate::{
    client::lease::Lease,
    output::exit_code::ExitStatus,
    power::{self, AgentLocation, PowerRequest, SwitchOptions, SwitchedDevice},
};

/// Longest wait for a restart of the agent. Pacemaker ends a run after its own time limit.
const AGENT_AWAY: Duration = Duration::from_secs(60);
/// Time between two attempts.
const AGAIN: Duration = Duration::from_secs(1);
/// Time limit of a password script.
const SCRIPT: Duration = Duration::from_secs(20);

/// The power change to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    On,
    Off,
    Diag,
}

/// A change that was made and confirmed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Whether a command was needed.
    pub(super) commanded: bool,
    /// Why it was not known, when a command was sent, whether firmware was being updated.
    pub(super) updates_unknown: Vec<String>,
}

pub(super) enum Device {
    Direct {
        bmc: Arc<dyn Bmc>,
        expected: Expected,
    },
    Agent {
        client: PowerClient<Channel>,
        plugs: Vec<String>,
        switched: SwitchedDevice,
        /// System UUID that the host must have.
        system_uuid: Option<String>,
        /// The lease that its power changes depend on; taken with the first change.
        lease: OnceLock<Arc<Lease>>,
    },
}

impl Device {
    /// Connects to an agent; a BMC is not contacted yet.
    pub(super) async fn open(way: &Route, times: &Times) -> Result<Self, String> {
        match way {
            Route::Direct(direct) => open_direct(direct, times).await,
            Route::Agent(through) => open_agent(through).await,
        }
    }

    /// Whether the device answers, in whatever power state its hosts are: they may be booting.
    pub(super) async fn answers(&self, times: &Times) -> Result<(), String> {
        match self {
            Self::Direct { bmc, expected } => match checked_state(bmc, expected).await? {
                PowerState::Unknown => Err(unknown(bmc.address())),
                _ => Ok(()),
            },
            Self::Agent { plugs, .. } => {
                let reads = plugs.iter().map(|plug| async move {
                    match self.identified_power(plug, times).await? {
                        "unknown" => Err(unknown(plug)),
                        _ => Ok(()),
                    }
                });
                try_join_all(reads).await.map(drop)
            }
        }
    }

    /// Whether the host is on; with several hosts, whether any is. Where an identity is required, a host
    /// that does not report it is an error.
    pub(super) async fn is_on(&self, times: &Times) -> Result<bool, String> {
        match self {
            Self::Direct { bmc, expected } => {
                exactly(checked_state(bmc, expected).await?, bmc.address())
            }
            Self::Agent { plugs, .. } => {
                let reads = plugs.iter().map(|plug| async move {
                    match self.identified_power(plug, times).await? {
                        "on" => Ok(true),
                        "off" => Ok(false),
                        other => Err(format!("{plug} is {other}")),
                    }
                });
                let all = try_join_all(reads).await?;
                Ok(all.into_iter().any(|on| on))
            }
        }
    }

    /// The power of a host of the rack agent, in a word, if it has the required identity.
    async fn identified_power(&self, plug: &str, times: &Times) -> Result<&'static str, String> {
        let Self::Agent {
            client,
            switched,
            system_uuid,
            ..
        } = self
        else {
            return Err(format!("{plug} is no host of a rack agent"));
        };
        let (client, plug_name) = (client.clone(), plug.to_owned());
        let row = power::read(client, plug_name, switched.device, times.call).await;
        if let Some(error) = row.error {
            return Err(format!("{plug}: {error}"));
        }
        if let Some(expected) = system_uuid {
            let expected = required(expected);
            let found = SystemIdentity {
                system_uuid: (!row.system_uuid.is_empty()).then_some(row.system_uuid),
                ..SystemIdentity::default()
            };
            if let Some(mismatch) = expected.mismatch(&found) {
                return Err(format!("{plug}: {}", Outcome::IdentityMismatch(mismatch)));
            }
        }
        Ok(row.power)
    }

    /// Makes the change and confirms it.
    pub(super) async fn change(&self, change: Change, times: &Times) -> Result<Changed, String> {
        match self {
            Self::Direct { bmc, expected } => directly(bmc.as_ref(), expected, change, times).await,
            Self::Agent {
                client,
                plugs,
                switched,
                system_uuid,
                lease,
            } => {
                // The agent refuses a wrong identity; a missing one is refused here.
                if system_uuid.is_some() {
                    let reads = plugs.iter().map(|plug| self.identified_power(plug, times));
                    try_join_all(reads).await?;
                }
                let switched = match change {
                    Change::Off => switched.clone(),
                    Change::On | Change::Diag => SwitchedDevice {
                        with_siblings: Vec::new(),
                        ..switched.clone()
                    },
                };
                let to = match change {
                    Change::On => PowerRequest::On,
                    Change::Off => PowerRequest::Off,
                    Change::Diag => PowerRequest::Nmi,
                };
                let options = &SwitchOptions {
                    force: false,
                    during_firmware_update: false,
                    timeout: Some(times.power.max(Duration::from_secs(10))),
                    no_wait: false,
                    device: switched,
                    system_uuid: system_uuid.clone(),
                    lease: Some(lease.get_or_init(|| Lease::take(client.clone())).clone()),
                };
                let until = Instant::now() + times.power.max(AGENT_AWAY);
                let each = plugs
                    .iter()
                    .map(|plug| through_agent(client, plug, options, to, until));
                let all = try_join_all(each).await?;
                Ok(all
                    .into_iter()
                    .fold(Changed::default(), |all, one| Changed {
                        commanded: all.commanded || one.commanded,
                        updates_unknown: [all.updates_unknown, one.updates_unknown].concat(),
                    }))
            }
        }
    }

    /// The hosts that an agent serves, with name and alias; `None`: the device is a BMC with one
    /// host.
    pub(super) async fn hosts(&self) -> Result<Option<Vec<(String, String)>>, String> {
        let Self::Agent { client, .. } = self else {
            return Ok(None);
        };
        let mut request = Request::new(ListHostsRequest {});
        request.set_timeout(Duration::from_secs(20));
        let listed = client.clone().list_hosts(request).await;
        let listed = listed.map_err(|status| rackhand_transport::classify(&status).to_string())?;
        let hosts = listed.into_inner().hosts.into_iter();
        Ok(Some(
            hosts.map(|host| (host.name, host.node_name)).collect(),
        ))
    }

    /// The same device with these plugs.
    pub(super) fn of(&self, plug: &str) -> Option<Self> {
        let Self::Agent {
            client, switched, ..
        } = self
        else {
            return None;
        };
        Some(Self::Agent {
            client: client.clone(),
            plugs: vec![plug.to_owned()],
            switched: switched.clone(),
            // A list contains the other hosts as well.
            system_uuid: None,
            lease: OnceLock::new(),
        })
    }

    /// Whether the device has a plug whose power can be read.
    pub(super) fn names_a_plug(&self) -> bool {
        match self {
            Self::Direct { .. } => true,
            Self::Agent { plugs, .. } => !plugs.is_empty(),
        }
    }

    /// Closes the sessions at the BMC.
    pub(super) async fn close(&self) {
        if let Self::Direct { bmc, .. } = self {
            // The result is known; an open session expires at the BMC.
            bmc.close().await.ok();
        }
    }
}

/// Expectation of exactly this system UUID.
fn required(system_uuid: &str) -> Expected {
    Expected {
        system_uuid: Some(system_uuid.to_owned()),
        is_required: true,
        ..Expected::default()
    }
}

fn exactly(state: PowerState, whom: &str) -> Result<bool, String> {
    match state {
        PowerState::On => Ok(true),
        PowerState::Off => Ok(false),
        other => Err(format!("{whom} is {}", operation::state_word(other))),
    }
}

/// That a command was sent although it was not known whether firmware was being updated.
pub(super) fn updates_unknown(why: &str) -> String {
    format!("when a command was sent, it was not known whether firmware was being updated: {why}")
}

fn unknown(whom: &str) -> String {
    format!("the power state of {whom} is unknown")
}

/// Makes the change at one host. A change that ended with the agent, or with the connection to it, is requested
/// again until this time: on and off may be repeated, and a reboot must not leave its host off because the agent
/// was restarted. A diagnostic interrupt is never repeated.
async fn through_agent(
    client: &PowerClient<Channel>,
    plug: &str,
    options: &SwitchOptions,
    to: PowerRequest,
    until: Instant,
) -> Result<Changed, String> {
    let mut commanded = false;
    loop {
        let row = power::one(client.clone(), plug.to_owned(), options, to, false).await;
        commanded |= row.commands_sent > 0;
        if row.end == ExitStatus::Done {
            let unknown = row.outcome.map(|outcome| outcome.updates_unknown);
            let unknown = unknown.filter(|why| !why.is_empty());
            return Ok(Changed {
                commanded,
                updates_unknown: unknown
                    .map(|why| format!("{plug}: {why}"))
                    .into_iter()
                    .collect(),
            });
        }
        let is_idempotent = matches!(to, PowerRequest::On | PowerRequest::Off);
        if !row.may_repeat || !is_idempotent || Instant::now() >= until {
            return Err(format!("{plug}: {}: {}", row.result, row.message));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn directly(
    bmc: &dyn Bmc,
    expected: &Expected,
    change: Change,
    times: &Times,
) -> Result<Changed, String> {
    let goal = match change {
        Change::On => Goal::On,
        Change::Off => Goal::Off {
            confirmations: 2,
            confirm_interval: times.sleep,
            command_after: Duration::ZERO,
        },
        Change::Diag => Goal::Nmi,
    };
    let timing = Timing::default();
    let asked = OperationRequest {
        goal,
        deadline: times.power,
        expected: expected.clone(),
        timing: Timing {
            poll_first: timing.poll_first.max(times.wait),
            ..timing
        },
        during_update: DuringUpdate::default(),
    };
    let report = operation::run(bmc, asked, &mut ()).await;
    let unknown = report.updates_unknown;
    let changed = |commanded| Changed {
        commanded,
        updates_unknown: unknown.iter().cloned().collect(),
    };
    match report.outcome {
        Outcome::Confirmed { commanded, .. } => Ok(changed(commanded)),
        Outcome::Taken { .. } => Ok(changed(true)),
        outcome => {
            let why = report.error.map(|error| format!(": {error}"));
            let unknown = unknown
                .as_deref()
                .map(|why| format!("; {}", updates_unknown(why)));
            Err(format!(
                "{outcome}{}{}",
                why.unwrap_or_default(),
                unknown.unwrap_or_default()
            ))
        }
    }
}

/// The power state by a BMC that reports the expected identity.
async fn checked_state(bmc: &Arc<dyn Bmc>, expected: &Expected) -> Result<PowerState, String> {
    let reading = bmc.checked_power(expected.clone()).await;
    let reading = reading.map_err(|error| error.to_string())?;
    match expected.mismatch(&reading.identity) {
        Some(mismatch) => Err(Outcome::IdentityMismatch(mismatch).to_string()),
        None => Ok(reading.state),
    }
}

async fn open_direct(direct: &Direct, times: &Times) -> Result<Device, String> {
    let password = match &direct.password {
        Password::Input(password) => password.clone(),
        Password::Script(script) => from_script(script).await?,
    };
    let mut bmcs: Vec<Arc<dyn Bmc>> = Vec::new();
    for address in &direct.addresses {
        let address: BmcAddress = address.parse().map_err(|why| format!("{why}"))?;
        let bmc = client(direct, address, password.clone(), times)?;
        bmcs.push(Arc::from(bmc));
    }
    let bmc = match bmcs.as_slice() {
        [one] => one.clone(),
        _ => {
            let failover = Failover::new(bmcs, FailoverSettings::default());
            Arc::new(failover.ok_or("no protocol to speak")?)
        }
    };
    Ok(Device::Direct {
        bmc,
        expected: direct
            .system_uuid
            .as_deref()
            .map(required)
            .unwrap_or_default(),
    })
}

fn client(
    direct: &Direct,
    address: BmcAddress,
    password: SecretString,
    times: &Times,
) -> Result<Box<dyn Bmc>, String> {
    let credentials = Credentials {
        kg: direct.kg.clone(),
        ..Credentials::new(&direct.username, password)
    };
    let options = Options {
        connect_timeout: times.connect,
        call_timeout: times.call,
        trust: match (&direct.ca, direct.insecure) {
            (_, true) => Trust::Insecure,
            (Some(file), false) => Trust::CaBundle(
                std::fs::read(file)
                    .map_err(|error| format!("ssl_ca {}: {error}", file.display()))?
                    .into(),
            ),
            (None, false) => Trust::System,
        },
        cipher_suite: match direct.cipher {
            Some(3) => SuiteChoice::Only(Suite::Cipher3),
            Some(17) => SuiteChoice::Only(Suite::Cipher17),
            _ => SuiteChoice::Auto,
        },
        ..Options::default()
    };
    connect(address, credentials, options).map_err(|error| error.to_string())
}

/// The first line of the script's output.
async fn from_script(script: &str) -> Result<SecretString, String> {
    let running = tokio::process::Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SCRIPT, running)
        .await
        .map_err(|_| format!("password_script does not end within {SCRIPT:?}"))?
        .map_err(|error| format!("password_script: {error}"))?;
    if !output.status.success() {
        return Err(format!("password_script failed: {}", output.status));
    }
    let text = zeroize::Zeroizing::new(
        String::from_utf8(output.stdout).map_err(|_| "password_script: not UTF-8".to_owned())?,
    );
    let password = text.lines().next().unwrap_or_default().trim();
    if password.is_empty() {
        return Err("password_script prints no password".to_owned());
    }
    Ok(SecretString::from(password))
}

async fn open_agent(through: &Through) -> Result<Device, String> {
    let place = match &through.remote {
        Some((agent, rack, dir)) => AgentLocation::Remote {
            agent: agent.clone(),
            rack: rack.clone(),
            tls_dir: PathBuf::from(dir),
        },
        None => AgentLocation::Local(through.socket.clone()),
    };
    let client = power::connect_to(&place).await;
    Ok(Device::Agent {
        client: client.map_err(|error| format!("{error:#}"))?,
        plugs: through.plugs.clone(),
        system_uuid: through.system_uuid.clone(),
        lease: OnceLock::new(),
        switched: match through.outlets {
            true => SwitchedDevice::outlets(through.with_siblings.clone()),
            false => SwitchedDevice::bmc(),
        },
    })
}
