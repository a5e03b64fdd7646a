//! IPMI 2.0 over RMCP+.
//!
//! Owns: sessions with a BMC, and what is asked in them. Must never: believe a packet that does
//! not answer what was asked, send a command twice that is not idempotent, fall below cipher
//! suite 3, or leave a session open.

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

pub mod wire;

pub use config::{IpmiConfig, MAX_KEY, MAX_USER, Retransmission, SuiteChoice, Timeouts, is_kg};
pub use wire::Suite;

use crate::{Bmc, BmcError};

/// Makes a client for one BMC. Sends nothing: the first call finds out what is there.
///
/// The client needs a tokio runtime for its calls. A session is kept for a while after a call; it
/// is closed when that is over, on [`Bmc::close`], and when the client is dropped.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the address is not an IPMI
/// address, or user, password or K_g are longer than IPMI 2.0 has room for.
pub fn connect(config: IpmiConfig) -> Result<Box<dyn Bmc>, BmcError> {
    Ok(Box::new(driver::Ipmi::new(config)?))
}
