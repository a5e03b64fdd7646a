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
}

impl Fact {
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
            Self::Ended { pod, why } => ("host", format!("processes of {pod} ended: {why:?}")),
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
                let what = if *there { "exists" } else { "is gone" };
                ("kubernetes", format!("Metal3Remediation {name} {what}"))
            }
            Self::Evidence { bmc, said } => ("evidence", format!("{bmc} said {said}")),
            Self::Pod { name, state } => ("kubernetes", format!("pod {name} {state}")),
            Self::Event { reason, note } => ("controller", format!("{reason}: {note}")),
            Self::Hold { .. } | Self::PoweredOn(_) => return None,
        })
    }
}
