//! Redfish over HTTP(S): a small, lenient client for power and related functions. Its outlets are in
//! [`pdu`](crate::pdu).
//!
//! ```text
//! protocol/   requests, sessions, trust, documents, errors     host/     the driver of hosts
//! vendor/     what differs between vendors
//! ```
//!
//! Owns: finding the system of an address, reading it, and sending changes. Must never: choose
//! between several systems, send an action twice, map a missing or unknown value to a power state,
//! or send credentials to another origin.

mod config;
mod host;
pub(crate) mod protocol;
mod vendor;

pub use config::{AuthPolicy, KeepAlive, RedfishConfig, Timeouts};
pub use protocol::trust::{Trust, TrustError};

use crate::{Bmc, BmcError, bounded::BoundedBmc};

/// Creates a client for one BMC. It sends nothing before the first call.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the address is not a Redfish
/// address, the user name is empty, or the trust setting cannot be used (no certificate in the CA
/// bundle, no system roots).
pub fn connect(config: RedfishConfig) -> Result<Box<dyn Bmc>, BmcError> {
    Ok(Box::new(BoundedBmc(host::client::Redfish::new(config)?)))
}

/// Parses bytes as the body of every kind of document of a host; returns the body.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) -> Option<serde_json::Value> {
    use protocol::document::{Action, Collection, Root, System, action_info, links, task};
    let protocol::response::Body::Json(body) = protocol::http::body_of(bytes) else {
        return None;
    };
    let _ = (
        Root::of(&body),
        Collection::of(&body),
        action_info(&body),
        task(&body),
        links(&body, &["Links", "Chassis"]),
        Action::of(&body, "#ComputerSystem.Reset"),
    );
    protocol::extended_info::Messages::of(&body).text();
    if let Some(system) = System::of(&body)
        && system.state == crate::PowerState::Off
    {
        let word = body.get("PowerState").and_then(|word| word.as_str());
        assert_eq!(word, Some("Off"));
    }
    host::facts::health::fuzz(&body);
    host::led::fuzz(&body);
    host::log::fuzz(&body);
    host::updates::fuzz(&body);
    host::boot::fuzz(&body);
    host::sensors::fuzz(&body);
    Some(body)
}
