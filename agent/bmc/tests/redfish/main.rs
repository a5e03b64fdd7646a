//! The Redfish client against scripted BMCs, over real sockets.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used)]

mod actions;
mod bmc;
mod boot;
mod chassis;
mod commands;
mod cost;
mod discovery;
mod etag;
mod facts;
mod faults;
mod habits;
mod hostile;
mod kept;
mod led;
mod log;
mod manager;
mod power;
mod refusals;
mod sensors;
mod sessions;
mod tasks;
mod tls;
mod updates;
