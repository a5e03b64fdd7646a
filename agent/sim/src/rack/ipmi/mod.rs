//! An IPMI 2.0 BMC over RMCP+, simulated: sessions, commands, faults, and counters.
//!
//! ```text
//!   UDP ---> server ---> Bmc::receive(peer, packet, now) ---> packets to send
//!                          |  rules: faults to inject
//!                          +--> HostPower: the rack's SimHost, or a machine of its own
//! ```
//!
//! Owns the BMC's end of the protocol. [`Bmc`] is sans-IO: it takes packets and an explicit `now`,
//! and does no I/O, reads no clock and draws no random number but from its seed. Packets and keys
//! are those of `rackhand_bmc::ipmi::wire`, so foreign clients must check them: both ends of our
//! own tests would share a mistake in them. Must never switch a host except by a command that
//! arrived.

mod bmc;
mod command;
pub mod config;
pub mod counters;
pub mod farm;
mod handshake;
pub mod power;
pub mod rules;
mod sensors;
mod server;
mod session;

pub use bmc::Bmc;
pub use command::ChassisControl;
pub use config::{IpmiConfig, Privilege, User};
pub use counters::{Command, Controlled, Counters, Dropped};
pub use farm::{Farm, FarmConfig};
pub use power::{HostPower, PowerCounts, StandaloneHost};
pub use rules::{Action, Rule, Target};
pub use server::IpmiBmc;

#[cfg(test)]
mod tests;
