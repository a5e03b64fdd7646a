//! The Redfish driver of hosts: one system, its chassis and its manager.
//!
//! Owns: finding the system of an address, reading it, and changing it. Must never: choose between several systems.

mod account;
mod action;
pub(super) mod boot;
mod chassis;
pub(super) mod client;
mod command;
pub(super) mod facts;
pub(super) mod led;
pub(super) mod log;
mod manager;
mod power;
mod resources;
pub(super) mod sensors;
pub(super) mod updates;
