//! The Redfish client against scripted BMCs, over real sockets.

// Clippy's own exception for tests stops at the functions that help them.
#![allow(clippy::unwrap_used)]

mod actions;
mod bmc;
mod discovery;
mod faults;
mod power;
mod refusals;
mod sessions;
mod tasks;
mod tls;
