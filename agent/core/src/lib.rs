//! All decisions of the rack agent, as pure functions of plain data and an explicit `now`.
//!
//! Owns: which operations start ([`ledger`]), the lease of their callers ([`caller`]), matching of host addresses ([`host_key`]), the order
//! of operations and calls at a BMC ([`bmc_queue`]), the change of a BMC's password ([`password_rotation`]), staggered
//! power-on ([`power_on_stagger`]), and when a watched host is read ([`watch_schedule`]).
//! Must never: read a clock, do I/O, or depend on a client or a storage engine; no function here is
//! `async`.

pub mod bmc_queue;
pub mod caller;
pub mod host_key;
pub mod ledger;
pub mod password_rotation;
pub mod power_on_stagger;
pub mod watch_schedule;
