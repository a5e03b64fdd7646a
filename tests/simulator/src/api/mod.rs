//! An API server in memory, as far as Rackhand and the parts beside it use one.
//!
//! It is plain data: a request goes in, a response comes out, and what has changed is told to watches.
//! A test compares it with kube-apiserver.

mod change;
mod client;
mod derived;
mod evictions;
mod load;
mod patch;
mod request;
pub mod resource;
mod serving;
mod store;
mod watch;

pub use change::{Change, ChangeKind, Failure};
pub(crate) use client::ApiWays;
pub use client::{ApiCondition, connect};
pub(crate) use derived::NODE_LEASES;
pub use load::{Load, Turn};
pub use request::{Reply, Request, Selection};
pub use resource::Resource;
pub use serving::Restriction;
pub use store::{ApiServer, Key};
pub use watch::WatchRequest;
