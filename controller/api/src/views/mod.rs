//! Lenient, read-only views of the kinds that other projects own.
//!
//! A view takes what Rackhand needs out of an object, whichever served version
//! or shape it has: durations or seconds, flat or nested, conditions in either
//! list. Every field is optional, unknown fields are ignored, an empty string
//! counts as absent (as in Go, where the two cannot be distinguished). Only a
//! value of the wrong form is an error, and the error names the object, the
//! field and what is wrong with it.
//!
//! Views must never be written back: fields that a view lacks would be lost.
//! Writers send patches.

mod bare_metal_host;
mod cluster;
mod condition;
mod fields;
mod machine;
mod machine_health_check;
mod meta;
mod metal3;
mod node_health_check;
mod openshift;
mod power;
mod template;
mod trigger;

pub use bare_metal_host::{BareMetalHostView, Bmc, GoodCredentials, PowerHold};
pub use cluster::ClusterView;
pub use condition::{Condition, ConditionList, Shape, find_condition};
pub use fields::ViewError;
pub use machine::MachineView;
pub use machine_health_check::{
    ConditionCheck, LabelRequirement, LabelSelector, MachineHealthCheckView, UnhealthyRange,
};
pub use meta::{Meta, ObjectRef, OwnerRef, group_of};
pub use metal3::{HostRef, Metal3MachineView, Metal3RemediationView, Strategy};
pub use node_health_check::{
    EscalationStep, HealthyDelay, NodeHealthCheckView, NodeTemplateRef, UnhealthyEntry,
    UnhealthyRemediation,
};
pub use openshift::OpenShiftHealthCheckView;
pub use power::PowerRemediationView;
pub use template::{RemediationTemplateView, TemplateRef};
pub use trigger::trigger_spec;

#[cfg(test)]
mod tests;
