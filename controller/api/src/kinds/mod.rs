//! The kinds that Rackhand defines, as types: its own, and those that it can
//! stand in for where their projects are not installed.
//!
//! This module owns the schemas that an API server enforces and the printer
//! columns that `kubectl get` shows. It must never be used to read objects
//! whose CRD may be another project's: [`crate::views`] does that.

#![allow(
    clippy::duplicated_attributes,
    reason = "every printer column has a type"
)]

pub mod conditions;
pub mod foreign;
pub mod host_evidence;
pub mod host_history;
pub mod host_maintenance;
pub mod machine_health_check;
pub mod metal3_remediation;
pub mod node_health_check;
pub mod power_policy;
pub mod power_record;
pub mod power_remediation;
pub mod power_remediation_template;
pub mod rack_agent;
pub mod remediation_state;
pub mod remediation_trigger;
