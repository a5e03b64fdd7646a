//! The arguments of `explain`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::leader::LeaderAddress;

/// An object that can be explained.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Explain {
    /// A PowerRemediation or Metal3Remediation: its step, why, until when, what happens next, and what the
    /// agents and the BMC reported last. The leader explains it; without --controller, `kubectl port-forward`
    /// connects to its Pod. Exits with 0 after an explanation, and with 1 otherwise.
    Remediation(Remediation),
    /// A HostMaintenance: its phase, what it waits for, what it has set, and who leaves the host alone. It is explained
    /// from the objects that you may read. Exits with 0 after an explanation, and with 1 otherwise.
    #[command(visible_alias = "hostmaintenance")]
    Maintenance(Maintenance),
    /// A MachineHealthCheck of Cluster API or OpenShift: the verdict on each Machine and its causes, the
    /// limit, the actions due now and what happens next. It is explained from the objects that you may read,
    /// or by the leader with --controller. Exits with 0 after an explanation, and with 1 otherwise.
    #[command(
        visible_alias = "machinehealthcheck",
        after_help = "From files: kubectl get mhc,machines,clusters,m3r,powerremediations -n NS -o yaml \
                      > dump.yaml, and kubectl get nodes -o yaml of the workload cluster."
    )]
    Mhc(Mhc),
    /// A NodeHealthCheck: the verdict on each Node and its causes, the limit, storm and cooldown, the step of
    /// each remediation, the actions due now and what happens next. It is explained from the objects that you
    /// may read, or by the leader with --controller. Exits with 0 after an explanation, and with 1 otherwise.
    #[command(
        visible_alias = "nodehealthcheck",
        after_help = "From files: kubectl get nhc,nodes -o yaml > dump.yaml, and the remediations and \
                      their templates, such as kubectl get prem,premt -A -o yaml."
    )]
    Nhc(Nhc),
}

/// Arguments of `explain nhc`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Nhc {
    /// Name of the check. May be omitted with files that contain only one.
    #[arg(required_unless_present = "files")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Arguments of `explain mhc`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Mhc {
    /// Name of the check. May be omitted with files that contain only one.
    #[arg(required_unless_present = "files")]
    pub(crate) name: Option<String>,

    /// Namespace of the check; by default that of the kubeconfig's context, or any namespace in files.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    /// API group of the check, if Cluster API and OpenShift each have a check of this name.
    #[arg(long, value_enum)]
    pub(crate) group: Option<CheckGroupArg>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Source, time and output format of the explanation of a health check.
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
    pub(crate) leader: LeaderAddress,

    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: TableOutput,
}

/// The API group of a health check.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CheckGroupArg {
    #[value(name = "cluster.x-k8s.io", alias = "capi")]
    ClusterApi,
    #[value(name = "machine.openshift.io", alias = "openshift")]
    OpenShift,
}

/// Output format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    #[value(alias = "text", alias = "wide")]
    Table,
    Json,
    Yaml,
}

/// Arguments of `explain remediation`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remediation {
    /// Name of the remediation.
    pub(crate) name: String,

    /// Namespace of the remediation; by default that of the kubeconfig's context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    /// Kind of the remediation, if both kinds have an object of this name.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<RemediationKindArg>,

    #[command(flatten)]
    pub(crate) leader: LeaderAddress,

    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: TableOutput,
}

/// Arguments of `explain maintenance`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Maintenance {
    /// Name of the HostMaintenance; or a Node, a host as RACK/HOST, or a Machine that is in one.
    pub(crate) name: String,

    /// Namespace of the HostMaintenance; by default that of the kubeconfig's context, or of a Node, host or Machine
    /// any.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: TableOutput,
}

/// The kind of a remediation.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RemediationKindArg {
    #[value(alias = "PowerRemediation", alias = "prem")]
    Power,
    #[value(alias = "Metal3Remediation", alias = "m3r")]
    Metal3,
}
