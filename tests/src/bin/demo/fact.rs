//! What was seen, as data, and how the demonstration without a scenario says it.

use rackhand_tests::rack::{OsState, PowerState, ResetType, StopReason};

/// Something that was seen, in seconds after the clock was started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moment {
    pub(crate) at: f64,
    pub(crate) fact: Fact,
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// The BMC received a command; `ignored`: a fault kept it from the machine.
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
    /// The out-of-service taint is there.
    Taint {
        node: String,
        there: bool,
    },
    /// There is a Metal3Remediation.
    Request {
        name: String,
        there: bool,
    },
    /// What the BMC said, as the proof of the power-off.
    Evidence {
        bmc: String,
        said: String,
    },
    /// How a pod stands in the API.
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
    /// How a NodeHealthCheck stands.
    Check(CheckState),
    /// An Event about a NodeHealthCheck.
    CheckEvent {
        reason: String,
        note: String,
    },
    /// There is a PowerRemediation, from this template.
    Asked {
        name: String,
        template: String,
        there: bool,
    },
    /// Its condition Succeeded is no longer Unknown.
    Outcome {
        template: String,
        succeeded: String,
    },
    /// It carries the word of the check that it shall stop.
    ToldToStop {
        template: String,
    },
    /// The Lease that says who works on a Node; `None`: it is gone.
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
    /// Whether it must have been before the other was told: what is found in an object was so some
    /// time before.
    pub(crate) fn causes(&self, told: &Self) -> bool {
        let (Self::Event { reason, .. } | Self::CheckEvent { reason, .. }) = told else {
            return false;
        };
        let any = |of: &[&str]| of.contains(&reason.as_str());
        match self {
            Self::Ready { status, .. } if status == "True" => {
                any(&["RemediationRemoved", "Restoring"])
            }
            Self::Ready { .. } => any(&["DetectedUnhealthy"]),
            Self::Evidence { .. } => any(&["Tainting"]),
            Self::Taint { there: true, .. } => any(&["Draining"]),
            Self::Asked { there: true, .. }
            | Self::WorkLease {
                holder: Some(_), ..
            } => any(&["Pending", "Holding"]),
            _ => false,
        }
    }

    /// Who, and what, in the words of the machine.
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
            Self::Request { name, there } => {
                let what = if *there { "is created" } else { "is deleted" };
                ("kubernetes", format!("Metal3Remediation {name} {what}"))
            }
            Self::Evidence { bmc, said } => ("evidence", format!("{bmc} reported {said}")),
            Self::Pod { name, state } => ("kubernetes", format!("pod {name} {state}")),
            Self::Event { reason, note } => ("controller", format!("{reason}: {note}")),
            // Only scenarios have these.
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
