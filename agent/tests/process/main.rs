//! `rackhand-agent` as a process: daemon and command line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod callers;
mod certify;
mod cli;
mod closed_pipe;
mod direct;
mod kit;
mod outlets;
mod reflection;
mod simulated;
mod terminal;
mod tool;
