//! Every decision of the rack agent, as pure functions of plain data and an explicit `now`.
//!
//! Owns: who may start what ([`ledger`]), which addresses mean one host ([`host_key`]), whose turn it is
//! at a host and its BMC ([`bmc_queue`]), and which host may be switched on next
//! ([`power_on_stagger`]). Must never: read a clock, do I/O, or know a client or a storage engine; no
//! function here is `async`.

pub mod bmc_queue;
pub mod host_key;
pub mod ledger;
pub mod power_on_stagger;
