//! The rack agent behind its gRPC service.
//!
//! Owns: power operations from the wish to the written outcome, the journal, the inventory and
//! the listeners. Must never: know Kubernetes, keep a password on disk, or call a BMC outside its
//! allowed networks.

mod checkup;
pub mod config;
mod driver;
mod engine;
mod grpc;
mod journal;
mod server;

pub use driver::{BmcSpec, Driver, Hardware};
pub use journal::JournalError;
pub use server::{Agent, StartError};
