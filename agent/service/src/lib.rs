//! The rack agent and its gRPC service.
//!
//! Owns: power operations from the request to the recorded outcome, the journal, the inventory and
//! the listeners. Must never: depend on Kubernetes, store a password on disk that a controller
//! sent, or connect to a BMC outside of its allowed networks.

mod admin;
mod blocking;
mod call_limits;
mod checkup;
pub mod config;
mod convert;
mod driver;
mod engine;
mod grpc;
mod journal;
mod metrics;
mod password_file;
mod rejections;
mod reload;
mod server;

pub use blocking::block_inline;
pub use driver::{BmcSpec, Driver, Hardware};
pub use engine::{Changes, NotTaken};
pub use journal::JournalError;
pub use reload::ReloadError;
pub use server::{Agent, StartError};
