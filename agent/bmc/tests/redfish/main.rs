//! The Redfish client against scripted BMCs, over real sockets.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used)]

mod bmc;
mod connection;
mod habits;
mod power;
mod resources;
mod updates;
