//! The simulated racks: pure parts, protocols, and third-party clients and validators.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

#[path = "../rack_support/mod.rs"]
mod rack_support;

mod habits;
mod ipmi_clients;
mod kubelet;
mod model;
mod pki;
mod quirks;
mod redfish;
mod redfish_profiles;
mod redfish_validators;
mod rules;
mod service;
mod sim;
mod terminal;
mod udp_proxy;
