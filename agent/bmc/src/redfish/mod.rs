//! Redfish over HTTP(S): a thin, lenient client for power and what goes with it.
//!
//! Owns: finding the one system behind an address, reading it, and asking for changes. Must never:
//! guess between systems, send an action twice, take silence or an odd answer for a power state,
//! or send credentials to another origin.

mod action;
mod auth;
mod boot;
mod call_budget;
mod chassis;
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
mod patch;
mod reporter;
mod response;
mod sensors;
mod session;
mod task;
mod tls;
mod trust;
mod vendor;

#[cfg(test)]
mod document_tests;

pub use config::{AuthPolicy, RedfishConfig, Timeouts};
pub use trust::{Trust, TrustError};

use crate::{Bmc, BmcError};

/// Makes a client for one BMC. Sends nothing: the first call finds out what is there.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the address is not a Redfish
/// address, the user is empty, or the trust cannot be used (no certificate in the CA bundle, no
/// system roots).
pub fn connect(config: RedfishConfig) -> Result<Box<dyn Bmc>, BmcError> {
    Ok(Box::new(client::Redfish::new(config)?))
}

/// Reads bytes as if they were the body of every document there is.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    use document::{Action, Collection, Root, System, action_info, links, task};
    let response::Body::Json(body) = response::Body::of(bytes) else {
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
}
