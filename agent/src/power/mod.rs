//! `power`: a person's hand on the running agent.

mod output;
mod status;
mod switch;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use rackhand_proto::{ClientTls, TlsFiles, v1::power_client::PowerClient};
use tonic::transport::Channel;

use crate::cli::{Common, PowerAction, PowerArgs};

pub(crate) use output::table;
pub(crate) use status::read;
pub(crate) use switch::{To, Wish, one};

/// Hosts asked for at the same time.
const AT_ONCE: usize = 64;

pub(crate) async fn power(args: PowerArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        PowerAction::Status(args) => status::status(args).await,
        PowerAction::On(args) => switch::switch(args, switch::To::On).await,
        PowerAction::Off(args) => {
            let to = if args.soft {
                switch::To::SoftOff {
                    limit: args.limit,
                    then_force: args.then_force,
                }
            } else {
                switch::To::Off
            };
            switch::switch(args.switch, to).await
        }
        PowerAction::Cycle(args) => {
            let to = switch::To::Cycle {
                hold_off: args.hold_off,
            };
            switch::switch(args.switch, to).await
        }
        PowerAction::Reset(args) => switch::switch(args, switch::To::Reset).await,
        PowerAction::Nmi(args) => switch::switch(args, switch::To::Nmi).await,
    }
}

/// Where the agent is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// On this machine.
    Local(PathBuf),
    /// Elsewhere, over mTLS.
    Remote {
        agent: String,
        rack: String,
        tls_dir: PathBuf,
    },
}

impl Place {
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

pub(crate) async fn connect_to(place: &Place) -> anyhow::Result<PowerClient<Channel>> {
    let channel = match place {
        Place::Remote {
            agent,
            rack,
            tls_dir,
        } => {
            let tls = ClientTls::operator(TlsFiles::in_dir(tls_dir))?;
            rackhand_proto::connect(agent, rack, &tls).await?
        }
        Place::Local(socket) => rackhand_proto::connect_local(socket).await.context(
            "is the agent running, and may you use its socket? Or name one with --agent",
        )?,
    };
    Ok(PowerClient::new(channel))
}

async fn connect(common: &Common) -> anyhow::Result<PowerClient<Channel>> {
    connect_to(&Place::of(common)).await
}

/// Each name once, in the order given.
fn unique(hosts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    hosts
        .into_iter()
        .filter(|host| seen.insert(host.clone()))
        .collect()
}
