//! Simulated racks for tests, demonstrations and trials of the agent.
//!
//! - [`pki`]: a certificate authority in a directory.
//! - [`pdu`]: PDUs with a Redfish service.
//! - [`rack`]: simulated hosts, each with a Redfish BMC, and IPMI BMCs.
//!
//! It shares only the packets of IPMI with the BMC clients, so that client and simulator cannot
//! share an undetected error.

#![allow(
    missing_docs,
    reason = "the names of its settings and counters are their documentation"
)]

pub mod pdu;
pub mod pki;
pub mod rack;
