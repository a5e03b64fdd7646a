//! The agent as a library: gRPC service, operations and journal, with scripted BMCs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod access;
mod bmc_queue;
mod journal;
mod kit;
mod operations;
mod outlets;
mod password_rotation;
mod reload;
mod settings;
mod watch_hosts;
