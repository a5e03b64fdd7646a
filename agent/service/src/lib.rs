//! The rack agent behind its gRPC service.
//!
//! Owns: power operations from the wish to the written outcome, the journal, the inventory and
//! the listeners. Must never: know Kubernetes, keep a password on disk, or call a BMC outside its
//! allowed networks.

mod admin;
mod admission;
mod blocking;
mod checkup;
pub mod config;
mod driver;
mod engine;
mod grpc;
mod host_key;
mod journal;
mod metrics;
mod rejections;
mod reload;
mod server;

pub use blocking::block_inline;
pub use driver::{BmcSpec, Driver, Hardware};
pub use engine::{Changes, NotTaken};
pub use journal::JournalError;
pub use reload::ReloadError;
pub use server::{Agent, StartError};
