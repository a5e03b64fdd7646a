//! Observed facts as data, and their text in the demonstration without a scenario.

use rackhand_tests::rack::{OsState, PowerState, ResetType, StopReason};

/// A fact and when it was observed, in seconds after the start of the clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moment {
    pub(crate) at: f64,
    pub(crate) fact: Fact,
}

/// An observed fact.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// The BMC received a command; `ignored` tells that a fault kept it from taking effect.
    Command {
        reset: ResetType,
        by: String,
        ignored: bool,
    },
    Power(PowerState),
    Os(OsState),
    Booted(String),
    /// Processes of a pod began on this host.
    Started {
        pod: String,
    },
    Ended {
        pod: String,
        why: StopReason,
    },
    /// Processes of a pod began on another host.
    Moved {
        pod: String,
        host: String,
    },
    /// The Node's condition Ready.
    Ready {
        node: String,
        status: String,
    },
    /// The out-of-service taint was set or removed.
    Taint {
        node: String,
        there: bool,
    },
    /// A Metal3Remediation exists.
    Remediation {
        name: String,
        there: bool,
    },
    /// The readings of the BMC that confirm the power-off.
    Evidence {
        bmc: String,
        said: String,
    },
    /// The state of a pod in the API.
    Pod {
        name: String,
        state: String,
    },
    /// Our hold key on the BareMetalHost.
    Hold {
        key: String,
        there: bool,
    },
    /// `status.poweredOn` of the BareMetalHost.
    PoweredOn(bool),
    /// An Event of Rackhand.
    Event {
        reason: String,
        note: String,
    },
    /// The status of a NodeHealthCheck.
    Check(CheckState),
    /// An Event about a NodeHealthCheck.
    CheckEvent {
        reason: String,
        note: String,
    },
    /// A PowerRemediation from this template exists.
    Asked {
        name: String,
        template: String,
        there: bool,
    },
    /// The condition Succeeded of a remediation is no longer Unknown.
    Outcome {
        template: String,
        succeeded: String,
    },
    /// The check has annotated the remediation to stop.
    ToldToStop {
        template: String,
    },
    /// The holder of the Lease of a Node; `None` if it was deleted.
    WorkLease {
        name: String,
        holder: Option<String>,
    },
}

/// The status of a NodeHealthCheck.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CheckState {
    pub(crate) name: String,
    pub(crate) phase: String,
    pub(crate) observed: u64,
    pub(crate) healthy: u64,
    pub(crate) unhealthy: Vec<String>,
}

impl Fact {
    /// Whether this fact must precede the report `told`: a fact that is found in an object was true some time
    /// before.
    pub(crate) fn causes(&self, told: &Self) -> bool {
        let (Self::Event { reason, .. } | Self::CheckEvent { reason, .. }) = told else {
            return false;
        };
        let any = |of: &[&str]| of.contains(&reason.as_str());
        match self {
            Self::Ready { status, .. } if status == "True" => {
                any(&["RemediationRemoved", "Succeeded"])
            }
            Self::Ready { .. } => any(&["DetectedUnhealthy"]),
            Self::Evidence { .. } => any(&["Tainted"]),
            Self::Taint { there: true, .. } => any(&["Tainted"]),
            Self::Asked { there: true, .. }
            | Self::WorkLease {
                holder: Some(_), ..
            } => any(&["Holding"]),
            _ => false,
        }
    }

    /// Subject and text of a line.
    pub(crate) fn line(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::Command { reset, .. } => ("BMC", format!("received {reset:?}")),
            Self::Power(power) => ("BMC", format!("power is {power:?}")),
            Self::Os(os) => ("host", format!("operating system: {os:?}")),
            Self::Booted(id) => {
                let short: String = id.chars().take(8).collect();
                ("host", format!("booted, boot id {short}..."))
            }
            Self::Started { pod } => ("host", format!("processes of {pod} started")),
            Self::Ended { pod, why } => ("host", format!("processes of {pod} stopped: {why:?}")),
            Self::Moved { pod, host } => ("host", format!("processes of {pod} started on {host}")),
            Self::Ready { node, status } => ("kubernetes", format!("node {node}: Ready={status}")),
            Self::Taint { node, there } => {
                let what = if *there { "carries" } else { "does not carry" };
                (
                    "kubernetes",
                    format!("node {node} {what} the out-of-service taint"),
                )
            }
            Self::Remediation { name, there } => {
                let what = if *there { "is created" } else { "is deleted" };
                ("kubernetes", format!("Metal3Remediation {name} {what}"))
            }
            Self::Evidence { bmc, said } => ("evidence", format!("{bmc} reported {said}")),
            Self::Pod { name, state } => ("kubernetes", format!("pod {name} {state}")),
            Self::Event { reason, note } => ("controller", format!("{reason}: {note}")),
            // These facts occur only in scenarios.
            Self::Hold { .. }
            | Self::PoweredOn(_)
            | Self::Check(_)
            | Self::CheckEvent { .. }
            | Self::Asked { .. }
            | Self::Outcome { .. }
            | Self::ToldToStop { .. }
            | Self::WorkLease { .. } => return None,
        })
    }
}
