//! The BMC clients against simulated BMCs of every profile, and against third-party servers.

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

mod certify;
mod failover;
mod ipmi_faults;
mod ipmi_servers;
mod ipmi_support;
mod ipv6;
mod profiles;
mod redfish_chassis;
mod redfish_pdus;
mod snmp_outlets;
mod snmp_support;
mod snmpd;
mod snmpsim;
mod sushy;
