//! The rack agent as a process, against whoever means it ill: killed in the middle, strangers at
//! its port, a thousand hosts, and everything that it writes searched for secrets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

#[path = "agent_daemon/callers.rs"]
mod callers;
#[path = "agent_daemon/clocks.rs"]
mod clocks;
#[path = "agent_daemon/crashes.rs"]
mod crashes;
#[path = "agent_daemon/crowds.rs"]
mod crowds;
#[path = "agent_daemon/secrets.rs"]
mod secrets;
#[path = "agent_daemon/site.rs"]
mod site;
#[path = "agent_daemon/users.rs"]
mod users;
