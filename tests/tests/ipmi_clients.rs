//! The IPMI simulator, as foreign clients find it: ipmitool, FreeIPMI, pyghmi.
//!
//! They and the simulator share no line of code, so that simulator and our own client cannot share
//! a mistake unseen. What the simulator counted must agree with what the client was asked for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

#[path = "ipmi_clients/farm.rs"]
mod farm;
#[path = "ipmi_clients/freeipmi.rs"]
mod freeipmi;
#[path = "ipmi_clients/ipmitool.rs"]
mod ipmitool;
#[path = "ipmi_clients/peer.rs"]
mod peer;
#[path = "ipmi_clients/pyghmi.rs"]
mod pyghmi;
#[path = "ipmi_clients/rack.rs"]
mod rack;
