//! The life of one HostMaintenance: planned work on a host, from its request until everything that was set is taken
//! back.
//!
//! The host is switched, tainted and held by a remediation that the maintenance makes, so every rule of remediations
//! (F1 to F17) holds for it. Here is decided when that remediation is made and deleted, what marks the host has
//! meanwhile, and what people are told. Decides anew from what is there: a controller that crashes loses nothing.

mod decision;
mod ending;
mod facts;
mod heeding;
mod life;
mod marks;
mod node_place;
mod refusal;
mod stage;
mod target;
mod turn;
mod words;

pub use decision::{
    MaintenanceAction, MaintenanceDecision, MaintenanceReason, MaintenanceWarning, unmarked_reason,
};
pub use facts::{
    FailedMarks, Leftovers, MaintenanceFacts, MaintenanceRecord, RemediationSeen, Wanted,
};
pub use heeding::{ChecksDo, checks_do};
pub use life::decide;
pub use marks::{
    LEASE_LASTS, LED_LIT_FOR, LED_RENEWED_AFTER, LeaseMark, LedMark, MachineMark, Mark,
    lease_before_off, machine_mark, openshift_mark, skip_value,
};
pub use node_place::{NodePlace, NodeSight, node_place};
pub use refusal::{ForeignCheck, refused_by_check};
pub use stage::{MaintenancePhase, Stage, stage};
pub use target::{MaintenanceTarget, TargetError};
pub use turn::{Claim, Earlier, Ends, Place, earlier};

#[cfg(test)]
mod tests;
