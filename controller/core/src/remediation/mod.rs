//! The remediation of one host, as a state machine.
//!
//! Decides which step comes next, what must be durable before it, and when the out-of-service taint may be
//! set (F1 to F13, L1). It never acts itself, and it accepts nothing as off but the exact report of the BMC
//! or the confirmation of a person.
//!
//! ```text
//! Pending -> Holding -> PoweringOff -> ConfirmingOff -> Tainting -> Draining -> Fenced
//!                           |  ^            |                          |
//!                           v  | seen on    | never had a Node         v
//!                 AwaitingConfirmation      +---------------------> PoweringOn -> Booting
//!                                                                                   |
//!            Succeeded / Retrying (back to Holding) / Escalated <----------- Restoring
//! ```
//!
//! Where a kubelet still ends pods, and the policy gives them time, Evicting is before Holding; where the host is to stay
//! on, Evicted is instead of it.

mod evidence;
mod firmware;
mod handover;
mod host_evidence;
mod observation;
mod orphaned_holds;
mod outdated;
mod outlets;
mod pin;
mod policy;
mod reason;
mod shell;
mod state;
mod step;
mod told;

pub use evidence::{
    CommandTaken, EvidenceError, OffEvidence, OffProof, ReadingError, confirmed_off,
    latest_reading_stands,
};
pub use firmware::{
    FirmwareUpdate, OnUpdate, UpdateReading, UpdateRules, UpdateStatus, UpdateWatch,
};
pub use handover::{Handover, HoldRefusal, WEBHOOK_FAILED};
pub use host_evidence::{
    BootLog, Collected, HostEvidence, LogEntry, LogPosition, LogRecord, SensorAlarm, Severity,
    newer_entries, records,
};
pub use observation::agent_view::{
    AgentView, BmcAccess, OperationOutcome, OperationView, PinnedOperation,
};
pub use observation::evictions::{
    Cordon, EvictionAnswer, EvictionResult, Evictions, eviction_is_justified,
};
pub use observation::observed_operation::ObservedOperation;
pub use observation::other_nodes::{
    HostIdentity, LeaseRenewals, NamedHost, NodeComparison, NodeIdentity, NodeLife, OtherNode,
    OtherNodes, node_comparison,
};
pub use observation::pods::{BoundPod, PodDeletions, PodRef, deletion_is_justified};
pub use observation::power::{PowerReading, PowerState, PowerView};
use observation::workload_view::list;
pub use observation::workload_view::{
    BoundVolume, Drain, LeaseFacts, NodeFacts, Taint, WorkloadList, WorkloadView, renewal_limit,
};
pub use observation::{
    BareMetalHostFacts, HostView, MachineView, MoveBlock, ObjectFacts, Observation,
};
pub use orphaned_holds::left_cordon::{LeftCordon, left_cordon};
pub use orphaned_holds::left_hold::{LeftHoldAction, is_left, left_hold};
pub use orphaned_holds::left_keys::{LeftKeyAction, LeftKeys, LeftNode, left_keys, removable_from};
pub use outdated::{EntryProgress, JournalEntry, JournalFacts, is_outdated};
pub use outlets::{OUTLETS_PROTOCOL, OutletStage, OutletUse, PowerDevice};
pub use pin::{BEGIN_WITHIN, PinView, proves_absence};
pub use policy::version::node_action;
pub use policy::{
    DrainPolicy, EvictionPolicy, LONGEST_EVIDENCE, NodeAction, NodeGonePolicy, OnExhausted,
    PodDeletion, Policy, PolicyError, Strategy, UnreachablePolicy,
};
pub use reason::{APPROVE, Reason, WORDS_IGNORED, WordsOfPersons};
pub use shell::{
    AgentFacts, Begun, FAILURES_TOLD, Follow, KeptReading, LeaseMemory, NodeReading,
    OperationEvent, Pace, REPEAT_PAUSE, ServingChoice, ServingState, Shell, TrackedOperation, Turn,
    Unread, choose_serving,
};
pub use state::{
    AgentId, AgentPin, Attempt, AttemptRecord, CordonedNode, Eviction, ForbiddenEviction, HostRef,
    Mode, Phase, PinnedNode, Progress, RefusedEntry, State, Step, TaintOwner, before_first_off,
    is_stopped_by_freeze, is_stopped_by_marks, is_uncut, on_wall, progress_again,
};
use state::{forbidden, keep_names};
pub use step::{
    Command, Decision, Interrupt, LATEST_READING_AGE, Next, Note, RemediationOutcome, operation_id,
    outcome, step,
};
pub use told::{copy_is_due_at, is_event, is_kept, is_passed_at_once, reason_is_due_at};

#[cfg(test)]
mod tests;
