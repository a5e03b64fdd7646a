//! Simulated racks, for tests, for demonstrations and to try the agent on.
//!
//! - [`pki`]: a certificate authority in a directory.
//! - [`rack`]: simulated hosts, each with a Redfish BMC, and IPMI BMCs.
//!
//! Owns: machines that are none. Must never: be what the agent believes about real ones; it shares
//! nothing with the drivers but the packets of IPMI.

pub mod pki;
pub mod rack;
