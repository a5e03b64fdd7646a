//! Hosts beside each other: where they are, their roles, what they failed of together, and what their BMCs show
//! between remediations.

pub mod bmc_health;
pub mod bmc_identity;
pub mod placement;
pub mod roles;
pub mod shared_cause;
pub mod watched_hosts;
