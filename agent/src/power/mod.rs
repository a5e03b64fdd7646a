//! `power`: operations by an operator through the running agent.

mod follow;
mod status;
mod switch;

use std::{io::Read, path::PathBuf, process::ExitCode, time::Duration};

use rackhand_proto::v1::{self, power_client::PowerClient};
use rackhand_transport::{ClientTls, TlsFiles};
use tonic::{Request, transport::Channel};

use crate::{
    cli::{Common, Hosts, PowerAction, PowerArgs},
    client::connect_error,
    host::selection,
    output::exit_code::Usage,
};

pub(crate) use status::{read, status};
pub(crate) use switch::{PowerRequest, SwitchOptions, SwitchedDevice, one, switch};

/// Maximum number of hosts that are switched concurrently.
const AT_ONCE: usize = 256;
/// Time limit of agent calls that involve no BMC.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn power(args: PowerArgs) -> anyhow::Result<ExitCode> {
    let (args, to) = match args.action {
        PowerAction::Status(args) => return status(args, v1::PowerDevice::Bmc).await,
        PowerAction::On(args) => (args, PowerRequest::On),
        PowerAction::Off(args) if args.soft => {
            let to = PowerRequest::SoftOff {
                limit: args.limit,
                then_force: args.then_force,
            };
            (args.switch, to)
        }
        PowerAction::Off(args) => (args.switch, PowerRequest::Off),
        PowerAction::SoftOff(args) => {
            let to = PowerRequest::SoftOff {
                limit: args.limit,
                then_force: args.then_force,
            };
            (args.switch, to)
        }
        PowerAction::Cycle(args) => {
            let to = PowerRequest::Cycle {
                hold_off: args.hold_off,
            };
            (args.switch, to)
        }
        PowerAction::Reset(args) => (args, PowerRequest::Reset),
        PowerAction::Nmi(args) => (args, PowerRequest::Nmi),
    };
    switch(args, to, SwitchedDevice::bmc()).await
}

/// Location of the agent.
#[derive(Debug, Clone)]
pub(crate) enum AgentLocation {
    /// On this machine.
    Local(PathBuf),
    /// A remote agent, over mTLS.
    Remote {
        agent: String,
        rack: String,
        tls_dir: PathBuf,
    },
}

impl AgentLocation {
    fn of(common: &Common) -> Self {
        match (&common.agent, &common.rack, &common.tls_dir) {
            (Some(agent), Some(rack), Some(dir)) => Self::Remote {
                agent: agent.clone(),
                rack: rack.clone(),
                tls_dir: dir.clone(),
            },
            _ => Self::Local(common.socket.clone()),
        }
    }
}

/// # Errors
///
/// The agent cannot be reached, with the cause and advice.
pub(crate) async fn connect_to(place: &AgentLocation) -> anyhow::Result<PowerClient<Channel>> {
    let channel = match place {
        AgentLocation::Remote {
            agent,
            rack,
            tls_dir,
        } => {
            let tls = ClientTls::operator(TlsFiles::in_dir(tls_dir));
            let tls = tls.map_err(|error| connect_error::certificate(&error))?;
            let connected = rackhand_transport::connect(agent, rack, &tls).await;
            connected.map_err(|error| connect_error::remote(&error))?
        }
        AgentLocation::Local(socket) => rackhand_transport::connect_local(socket)
            .await
            .map_err(|error| connect_error::local(socket, &error))?,
    };
    Ok(PowerClient::new(channel))
}

pub(crate) async fn connect(common: &Common) -> anyhow::Result<PowerClient<Channel>> {
    connect_to(&AgentLocation::of(common)).await
}

/// The hosts that the agent serves.
pub(crate) async fn known(
    client: &mut PowerClient<Channel>,
) -> anyhow::Result<v1::ListHostsResponse> {
    let mut request = Request::new(v1::ListHostsRequest {});
    request.set_timeout(CALL_TIMEOUT);
    let listed = client.list_hosts(request).await;
    Ok(listed
        .map_err(|status| connect_error::call(&status))?
        .into_inner())
}

/// The selected hosts of a command that may apply to all.
///
/// # Errors
///
/// Those of [`meant`].
pub(crate) fn chosen(hosts: &Hosts, known: &v1::ListHostsResponse) -> anyhow::Result<Vec<String>> {
    if hosts.all {
        return Ok(known.hosts.iter().map(|host| host.name.clone()).collect());
    }
    meant(&hosts.hosts, known)
}

/// The hosts that words select, `@FILE` and `-` (standard input) included.
///
/// # Errors
///
/// [`Usage`]: an invalid word, or an unreadable file.
pub(crate) fn meant(
    words: &[String],
    known: &v1::ListHostsResponse,
) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        if word == "-" {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Usage(format!("standard input: {error}")))?;
            all.extend(selection::words_of(&text));
        } else if let Some(file) = word.strip_prefix('@') {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| Usage(format!("{file}: {error}")))?;
            all.extend(selection::words_of(&text));
        } else {
            all.push(word.clone());
        }
    }
    let wanted = selection::wanted(&all).map_err(Usage)?;
    let names = selection::hosts(&wanted, &known.rack, &known.hosts).map_err(Usage)?;
    for name in &names {
        if let Some(hint) = selection::hint(name, &known.rack, &known.hosts) {
            errln!("{name}: {hint}");
        }
    }
    if names.is_empty() {
        return Err(Usage("no host is named".to_owned()).into());
    }
    Ok(names)
}
