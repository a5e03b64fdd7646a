//! PDUs and chassis managers with a Redfish service (DSP2046).
//!
//! ```text
//! rack_pdu.rs         outlets of a PDU, each parsed by        outlet.rs
//! chassis_manager.rs  chassis as outlets, each parsed by      chassis_outlet.rs
//! outlet_service.rs   what both share: documents, links by name, the response to an action
//! ```
//!
//! Owns: finding outlets, reading them, and the action that switches one. Must never: build the link of an outlet
//! from its name, or send an action twice.

mod chassis_manager;
mod chassis_outlet;
mod outlet;
mod outlet_service;
mod rack_pdu;

use std::sync::Arc;

use super::Pdu;
use crate::{BmcError, redfish::RedfishConfig};

/// Creates a client for one PDU. It sends nothing before the first call. The path of the address is that of
/// the PDU, such as `/redfish/v1/PowerEquipment/RackPDUs/1`; without it, the service must have exactly one.
///
/// # Errors
///
/// Those of [`redfish::connect`](crate::redfish::connect).
pub fn connect_pdu(config: RedfishConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    Ok(Arc::new(rack_pdu::RackPdu::new(config)?))
}

/// Creates a client for the chassis of one chassis manager, as the outlets of a PDU. It sends nothing before the
/// first call. `standby_watts`: the power that a chassis may draw while it is off, for fans and management.
///
/// # Errors
///
/// Those of [`redfish::connect`](crate::redfish::connect), and an address with a path.
pub fn connect_chassis(
    config: RedfishConfig,
    standby_watts: f64,
) -> Result<Arc<dyn Pdu>, BmcError> {
    let manager = chassis_manager::ChassisManager::new(config, standby_watts)?;
    Ok(Arc::new(manager))
}

/// Parses a body as an outlet and as a chassis.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(body: &serde_json::Value) {
    outlet::fuzz(body);
    chassis_outlet::fuzz(body);
}
