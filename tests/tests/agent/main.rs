//! The programs of the rack agent from outside: the daemon, its Debian package, the fence agent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod daemon;
mod fence_agent;
mod pacemaker;
mod package;
