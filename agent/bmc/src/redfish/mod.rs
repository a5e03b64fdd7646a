//! Redfish over HTTP(S): a small, lenient client for power and related functions.
//!
//! Owns: finding the system of an address, reading it, and sending changes. Must never: choose
//! between several systems, send an action twice, map a missing or unknown value to a power state,
//! or send credentials to another origin.

mod account;
mod action;
mod auth;
mod boot;
mod boot_state;
mod call_budget;
mod chassis;
mod chassis_manager;
mod chassis_outlet;
mod client;
mod command;
mod config;
mod credentials;
mod discovery;
mod document;
mod errors;
mod extended_info;
mod facts;
mod http;
mod led;
mod log;
mod manager;
mod outlet;
mod outlet_service;
mod patch;
mod rack_pdu;
mod reporter;
mod response;
mod sensors;
mod session;
mod task;
mod tls;
mod topology;
mod trust;
mod vendor;

#[cfg(test)]
mod document_tests;

pub use config::{AuthPolicy, RedfishConfig, Timeouts};
pub use trust::{Trust, TrustError};

use std::sync::Arc;

use crate::{Bmc, BmcError, bounded::BoundedBmc, pdu::Pdu};

/// Creates a client for one BMC. It sends nothing before the first call.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the address is not a Redfish
/// address, the user name is empty, or the trust setting cannot be used (no certificate in the CA
/// bundle, no system roots).
pub fn connect(config: RedfishConfig) -> Result<Box<dyn Bmc>, BmcError> {
    Ok(Box::new(BoundedBmc(client::Redfish::new(config)?)))
}

/// Creates a client for one PDU. It sends nothing before the first call. The path of the address is that of
/// the PDU, such as `/redfish/v1/PowerEquipment/RackPDUs/1`; without it, the service must have exactly one.
///
/// # Errors
///
/// Those of [`connect`].
pub fn connect_pdu(config: RedfishConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    Ok(Arc::new(rack_pdu::RackPdu::new(config)?))
}

/// Creates a client for the chassis of one chassis manager, as the outlets of a PDU. It sends nothing before the
/// first call. `standby_watts`: the power that a chassis may draw while it is off, for fans and management.
///
/// # Errors
///
/// Those of [`connect`], and an address with a path.
pub fn connect_chassis(
    config: RedfishConfig,
    standby_watts: f64,
) -> Result<Arc<dyn Pdu>, BmcError> {
    let manager = chassis_manager::ChassisManager::new(config, standby_watts)?;
    Ok(Arc::new(manager))
}

/// Parses bytes as the body of every kind of document.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    use document::{Action, Collection, Root, System, action_info, links, task};
    let response::Body::Json(body) = http::body_of(bytes) else {
        return;
    };
    let _ = (
        Root::of(&body),
        Collection::of(&body),
        action_info(&body),
        task(&body),
        links(&body, &["Links", "Chassis"]),
        Action::of(&body, "#ComputerSystem.Reset"),
    );
    extended_info::Messages::of(&body).text();
    if let Some(system) = System::of(&body)
        && system.state == crate::PowerState::Off
    {
        let word = body.get("PowerState").and_then(|word| word.as_str());
        assert_eq!(word, Some("Off"));
    }
    led::fuzz(&body);
    log::fuzz(&body);
    boot::fuzz(&body);
    sensors::fuzz(&body);
    outlet::fuzz(&body);
    chassis_outlet::fuzz(&body);
}
