//! The IPMI client over UDP, and its packets against recorded ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

// The BMC of the state machine's tests.
#[path = "../../src/ipmi/session/tests/bmc.rs"]
mod bmc;
mod calls;
mod recorded;
mod server;

use rackhand_bmc::ipmi::wire;
