//! Commands for operators, also available as `kubectl rackhand`: an overview, the history of hosts, pauses,
//! planned work, the approval of remediations, and the confirmation of a power-off.
//!
//! They use the rights of the caller. They change only what the command names, and confirm no power-off
//! without its checklist.

mod approve;
mod confirm;
mod history;
mod maintenance;
mod objects;
mod page;
mod pause;
mod status;
pub(crate) mod table;
mod uninstall;

use std::path::Path;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rackhand_runtime::{CheckSubject, unusable_certificate};

/// Commands for operators besides explanations.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Kubectl {
    /// Shows the leader, the rack agents, the health checks and every remediation with its step.
    Status {
        /// Output format.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Shows the status page of the leader in a browser on this machine, until Ctrl-C.
    ///
    /// Without --controller, `kubectl port-forward` connects to the Pod of the leader.
    Page(page::Page),
    /// Approves a remediation whose PowerPolicy requires the approval of a person.
    Approve {
        #[command(flatten)]
        remediation: RemediationName,
    },
    /// Shows the latest remediations of each host, and which hosts were remediated more than once.
    History(history::History),
    /// Confirms, after a checklist, that a host has no power, if its BMC cannot confirm it.
    ///
    /// The name of the host has to be typed. The confirmation counts once, for the power-off that waits for
    /// it.
    ConfirmFenced {
        #[command(flatten)]
        remediation: RemediationName,
    },
    /// Planned work on hosts: begins it, ends it, lists it.
    #[command(subcommand)]
    Maintenance(maintenance::Maintenance),
    /// Makes Rackhand ignore a health check or a remediation until it is resumed.
    ///
    /// A host stays as it is: a host that is off stays off.
    Pause(Target),
    /// Ends a pause.
    Resume(Target),
    /// Ends all remediations safely before Rackhand is uninstalled, and removes what its manifests leave.
    ///
    /// Run it before the controller is removed, and once more after that.
    Uninstall(uninstall::Uninstall),
}

/// A remediation.
#[derive(Debug, Clone, Args)]
pub(crate) struct RemediationName {
    /// Name of the object.
    name: String,

    /// Namespace of the object; by default that of the kubeconfig's context.
    #[arg(short, long)]
    namespace: Option<String>,
}

/// An object that can be paused.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Kind of the object.
    #[arg(value_enum)]
    kind: Pausable,

    /// Name of the object.
    name: String,

    /// Namespace of the object; by default that of the kubeconfig's context.
    #[arg(short, long)]
    namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pausable {
    /// A MachineHealthCheck of Cluster API or OpenShift.
    Mhc,
    /// A NodeHealthCheck.
    Nhc,
    /// A PowerRemediation or Metal3Remediation.
    Remediation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people.
    Table,
    /// JSON for programs to parse.
    Json,
}

/// Runs one command.
///
/// # Errors
/// The cluster cannot be read or written, there is no such object, or it is not confirmed.
pub(crate) async fn run(
    command: Kubectl,
    kubeconfig: Option<&Path>,
    lease: &LeaseName,
) -> anyhow::Result<()> {
    let client = client(kubeconfig).await?;
    match command {
        Kubectl::Status { output } => {
            let status = status::read(&client, lease, Timestamp::now()).await?;
            match output {
                Output::Table => out!("{status}"),
                Output::Json => outln!("{}", serde_json::to_string_pretty(&status)?),
            }
            status.require_complete()
        }
        Kubectl::Page(page) => page::run(page, &client, kubeconfig, lease).await,
        Kubectl::Approve { remediation } => {
            let namespace = namespace(&client, remediation.namespace);
            approve::run(&client, &namespace, &remediation.name).await
        }
        Kubectl::Maintenance(command) => maintenance::run(command, &client).await,
        Kubectl::History(history) => history::run(&history, &client, Timestamp::now()).await,
        Kubectl::ConfirmFenced { remediation } => {
            let namespace = namespace(&client, remediation.namespace);
            confirm::run(&client, &namespace, &remediation.name).await
        }
        Kubectl::Uninstall(uninstall) => uninstall::run(uninstall, &client, lease).await,
        Kubectl::Pause(target) => {
            let namespace = namespace(&client, target.namespace);
            pause::set(&client, target.kind, &namespace, &target.name, true).await
        }
        Kubectl::Resume(target) => {
            let namespace = namespace(&client, target.namespace);
            pause::set(&client, target.kind, &namespace, &target.name, false).await
        }
    }
}

pub(crate) use status::LeaseName;

fn namespace(client: &Client, named: Option<String>) -> String {
    named.unwrap_or_else(|| client.default_namespace().to_owned())
}

/// # Errors
/// The object of a check cannot be read, and what to do about that, or the cluster does not serve its kind.
pub(crate) async fn ensure_readable(
    check: &CheckSubject,
    kubeconfig: Option<&Path>,
) -> anyhow::Result<()> {
    let client = client(kubeconfig).await?;
    let (kinds, name, asked): (&[objects::KindName], _, _) = match check {
        CheckSubject::Machines {
            namespace, name, ..
        } => (
            &[objects::CLUSTER_API_CHECK, objects::OPENSHIFT_CHECK],
            name,
            namespace.clone(),
        ),
        CheckSubject::Nodes { name } => (&[objects::NODE_CHECK], name, None),
    };
    let Some(name) = name else { return Ok(()) };
    let namespace = namespace(&client, asked);
    objects::exists(&client, kinds, &namespace, name)
        .await
        .map(drop)
}

/// Asks whether the API server can be reached at all. What it answers does not count.
///
/// # Errors
/// It cannot; the error names its address.
pub(crate) async fn ensure_reachable(kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let config = config(kubeconfig).await?;
    let url = config.cluster_url.clone();
    let client = client_of(config)?;
    match client.apiserver_version().await {
        Err(error @ (kube::Error::Service(_) | kube::Error::HyperError(_))) => {
            Err(anyhow::Error::new(error).context(url))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = config(kubeconfig).await?;
    client_of(config)
}

fn client_of(config: Config) -> anyhow::Result<Client> {
    let user = config.auth_info.clone();
    let made = Client::try_from(config).map_err(|error| {
        let told = unusable_certificate(&error, &user);
        told.map_or_else(|| anyhow::Error::new(error), anyhow::Error::new)
    });
    made.context("cannot connect to the management cluster")
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    Ok(match kubeconfig {
        Some(path) => {
            let options = KubeConfigOptions::default();
            let unusable = || format!("the kubeconfig {} cannot be used", path.display());
            let file = Kubeconfig::read_from(path).with_context(unusable)?;
            let config = Config::from_custom_kubeconfig(file, &options).await;
            config.with_context(unusable)?
        }
        None => Config::infer().await.context(
            "there is no kubeconfig that can be used, and this is no Pod (--kubeconfig, KUBECONFIG)",
        )?,
    })
}
