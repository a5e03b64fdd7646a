//! Simulated racks for tests, demonstrations and trials of the agent.
//!
//! - [`pki`]: a certificate authority in a directory.
//! - [`rack`]: simulated hosts, each with a Redfish BMC, and IPMI BMCs.
//!
//! It shares nothing with the BMC clients but the packets of IPMI, so that client and simulator
//! cannot share a mistake.

#![allow(
    missing_docs,
    reason = "the names of its settings and counters are their documentation"
)]

pub mod pki;
pub mod rack;
