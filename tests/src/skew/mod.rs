//! Peers of another version.
//!
//! Owns the frozen contract of the versions that must work together with this one, and a gRPC proxy that
//! passes on only what a contract knows, as a program of that version would.

mod contract;
mod dynamic;
mod proxy;

pub use contract::{Contract, Field};
pub use dynamic::{call, get, of};
pub use proxy::ContractProxy;

/// Full name of the service.
pub const SERVICE: &str = "rackhand.power.v1.Power";
