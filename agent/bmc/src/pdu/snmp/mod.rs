//! PDUs that speak SNMP version 2c or 3.
//!
//! ```text
//! tables.rs   objects and values of each make     reading.rs  from values to a reading
//! index.rs    names of outlets                    client.rs   requests, time limits and errors
//! ```
//!
//! Owns: the objects to read and to write. Must never: treat silence or a missing object as off, write a delayed
//! command, or send the community for commands with a reading.

mod client;
mod errors;
mod index;
mod reading;
mod tables;

use std::sync::Arc;

use super::{OutletId, Pdu, PduConfig, PduTable};
use crate::BmcError;

/// Creates a client for one PDU. It sends nothing before the first call.
pub(super) fn connect(config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    Ok(Arc::new(client::SnmpPdu::new(config)?))
}

/// Checks that a text names an outlet in a table.
pub(super) fn check_outlet(table: PduTable, outlet: &OutletId) -> Result<(), String> {
    let table = tables::table(table);
    match index::parse(table, outlet) {
        Some(_) => Ok(()),
        None => Err(index::refusal(table, outlet)),
    }
}

/// Reads the values in `bytes` by every table, each as tag and four bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    reading::fuzz(bytes);
}
