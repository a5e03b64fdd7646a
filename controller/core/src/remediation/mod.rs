//! The remediation of one host, step by step.
//!
//! Owns: which step comes next, what must be durable before it, and when the out-of-service taint
//! may stand (F1 to F11, L1). Must never: act, or take anything but the BMC's exact "off" or a
//! person's word for off.
//!
//! ```text
//! Pending -> Holding -> PoweringOff -> ConfirmingOff -> Tainting -> Draining -> Fenced
//!                           |  ^            |                          |
//!                           v  | seen on    | never had a Node         v
//!                 AwaitingConfirmation      +---------------------> PoweringOn -> Booting
//!                                                                                   |
//!            Succeeded / Retrying (back to Holding) / Escalated <----------- Restoring
//! ```

mod conflict;
mod evidence;
mod observation;
mod policy;
mod reason;
mod state;
mod step;
mod version;

pub use conflict::{Active, ControlPlane, EtcdGuard, RightOfWay, Turn, before_first_off, conflict};
pub use evidence::{CommandTaken, OffEvidence, confirmed_off, last_word_stands};
pub use observation::{
    AgentView, BareMetalHostFacts, BmcAccess, Drain, HostView, LeaseFacts, MachineView, NodeFacts,
    Observation, OperationOutcome, OperationView, PinnedOperation, PowerReading, PowerState,
    PowerView, RequestFacts, Taint, WorkloadView,
};
pub use policy::{
    DrainBlocked, NodeAction, NodeGone, OnExhausted, Policy, PolicyError, Strategy, WorkloadDown,
};
pub use reason::Because;
pub use state::{AttemptRecord, HostRef, Mode, NodeMark, Phase, State, Step, TaintOwner};
pub use step::{Command, Decision, Next, Note, Outcome, operation_id, outcome, step};
pub use version::node_action;

pub use state::{AgentId, AgentPin};

#[cfg(test)]
mod tests;
