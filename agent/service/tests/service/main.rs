//! The agent as a library: gRPC service, operations and journal, with scripted BMCs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod actions;
mod audit;
mod authority;
mod bmc_queue;
mod callers;
mod endpoints;
mod evidence;
mod firmware_updates;
mod holds;
mod interruptions;
mod journal;
mod kit;
mod listeners;
mod off_proof;
mod operations;
mod outlets;
mod password_rotation;
mod power_button;
mod power_on_stagger;
mod reload;
mod settings;
mod shared_outlets;
mod watch_hosts;
