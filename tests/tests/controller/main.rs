//! The controller on real control planes, with agents and simulated racks around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod campaign;
mod checks;
mod clusters;
mod coexistence;
mod hosts;
mod install;
mod operators;
mod planned_work;
mod remediation;
