//! PDUs that speak SNMP version 2c or 3.
//!
//! ```text
//! tables.rs   objects and values of each make     reading.rs  from values to a reading
//! index.rs    names of outlets                    client.rs   requests, time limits and errors
//! ```
//!
//! Owns: which objects are read and written. Must never: treat silence or a missing object as off, write a
//! delayed command, or send the community for commands with a reading.

mod client;
mod errors;
mod index;
mod reading;
mod tables;

use std::sync::Arc;

use super::{Pdu, PduConfig};
use crate::BmcError;

/// Creates a client for one PDU. It sends nothing before the first call.
pub(super) fn connect(config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    Ok(Arc::new(client::SnmpPdu::new(config)?))
}

/// Reads the values in `bytes` by every table, each as tag and four bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    reading::fuzz(bytes);
}
