//! IPMI 2.0 over RMCP+.
//!
//! Owns: sessions with a BMC, and the requests sent in them. Must never: accept a packet that does
//! not match its request, send a non-idempotent command twice, use a suite weaker than cipher suite
//! 3, or leave a session open.

mod boot_options;
mod chassis;
mod client;
mod command;
mod config;
mod driver;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzz;
mod requester;
mod session;
mod udp;
mod user;

pub mod wire;

pub use config::{IpmiConfig, MAX_KEY, MAX_USER, Retransmission, SuiteChoice, Timeouts, is_kg};
pub use wire::Suite;

use crate::{Bmc, BmcError, bounded::BoundedBmc};

/// Creates a client for one BMC. It sends nothing before the first call.
///
/// The calls need a tokio runtime. A session stays open for a while after a call; it is closed
/// after that time, by [`Bmc::close`], and when the client is dropped.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the address is not an IPMI
/// address, or user, password or K_g exceed the limits of IPMI 2.0.
pub fn connect(config: IpmiConfig) -> Result<Box<dyn Bmc>, BmcError> {
    Ok(Box::new(BoundedBmc(driver::Ipmi::new(config)?)))
}
