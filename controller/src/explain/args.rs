//! The arguments of `explain`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use http::Uri;
use jiff::Timestamp;
use rackhand_runtime::ControllerAddress;

/// What can be explained.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Explain {
    /// A PowerRemediation or Metal3Remediation, of the cluster or from a file.
    Remediation(Remediation),
    /// A MachineHealthCheck of Cluster API or OpenShift: the verdict on each machine and why, the limit, what would be done now and
    /// what happens next. Exits with 0 when it was explained, and with 1 when it could not be.
    #[command(
        visible_alias = "machinehealthcheck",
        after_help = "From files: kubectl get mhc,machines,clusters,m3r,powerremediations -n NS -o yaml \
                      > dump.yaml, and kubectl get nodes -o yaml of the workload cluster."
    )]
    Mhc(Mhc),
    /// A NodeHealthCheck: the verdict on each Node and why, the limit, storm and cooldown, which step
    /// each remediation is in, what would be done now and what happens next. Exits with 0 when it was
    /// explained, and with 1 when it could not be.
    #[command(
        visible_alias = "nodehealthcheck",
        after_help = "From files: kubectl get nhc,nodes -o yaml > dump.yaml, and the remediations and \
                      their templates, such as kubectl get prem,premt -A -o yaml."
    )]
    Nhc(Nhc),
}

/// Which health check of Nodes, and how it is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Nhc {
    /// Its name. With files that hold only one it may be left out.
    #[arg(required_unless_present = "files")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Which health check, and how it is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Mhc {
    /// Its name. With files that hold only one it may be left out.
    #[arg(required_unless_present = "files")]
    pub(crate) name: Option<String>,

    /// Its namespace; without it that of the kubeconfig's context, or whichever the files hold.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    /// Whose it is, where Cluster API and OpenShift have one of that name each.
    #[arg(long, value_enum)]
    pub(crate) group: Option<CheckGroupArg>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// From what a health check is explained, for when, and how it is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct How {
    /// Read the objects from these files (YAML documents, or what `kubectl get -o yaml` prints)
    /// instead of the cluster; - is standard input.
    #[arg(short, long = "file", value_name = "FILE", num_args = 1.., conflicts_with = "controller")]
    pub(crate) files: Vec<PathBuf>,

    /// Explain for this time (RFC 3339, such as 2026-08-01T02:14:07Z), with the objects as they are;
    /// without it for now.
    #[arg(long, value_name = "TIME", conflicts_with = "controller")]
    pub(crate) at: Option<Timestamp>,

    #[command(flatten)]
    pub(crate) leader: Leader,

    /// How it is told.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: TableOutput,
}

/// Where the leader is asked for its own view.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Leader {
    /// Ask the controller at this address for its view, such as https://127.0.0.1:8443 with
    /// `kubectl port-forward`, with the token of the kubeconfig. If it does not answer, the view is
    /// computed from the cluster.
    #[arg(long, value_name = "URL")]
    controller: Option<Uri>,

    /// CA of the controller's certificate; needed unless its address is a loopback address.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_ca: Option<PathBuf>,
}

impl Leader {
    /// The address to ask, if one is named.
    pub(crate) fn address(&self) -> Option<ControllerAddress> {
        self.controller.clone().map(|url| ControllerAddress {
            url,
            ca: self.controller_ca.clone(),
        })
    }
}

/// The API group of a health check.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CheckGroupArg {
    #[value(name = "cluster.x-k8s.io", alias = "capi")]
    ClusterApi,
    #[value(name = "machine.openshift.io", alias = "openshift")]
    OpenShift,
}

/// A form of output of what is a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    #[value(alias = "text", alias = "wide")]
    Table,
    Json,
    Yaml,
}

/// Which remediation, and how it is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remediation {
    /// Its name. With a file that holds only one it may be left out.
    #[arg(required_unless_present = "file")]
    pub(crate) name: Option<String>,

    /// Its namespace; without it that of the kubeconfig's context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    /// Its kind, where there is one of each of that name.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<RequestKindArg>,

    /// Read the objects from this file (YAML documents, or what `kubectl get -o yaml` prints)
    /// instead of the cluster; - is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "controller")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) leader: Leader,

    /// How it is told.
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: Output,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RequestKindArg {
    #[value(alias = "PowerRemediation", alias = "prem")]
    Power,
    #[value(alias = "Metal3Remediation", alias = "m3r")]
    Metal3,
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

impl From<Output> for TableOutput {
    fn from(output: Output) -> Self {
        match output {
            Output::Text => Self::Table,
            Output::Json => Self::Json,
        }
    }
}
