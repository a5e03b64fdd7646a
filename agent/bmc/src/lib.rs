//! Power clients for BMCs: what touches hardware.
//!
//! Owns: talking to one BMC. Must never: guess a power state or a system, send a command twice
//! that is not idempotent, follow a redirect to another origin, or know gRPC or Kubernetes.

mod address;
mod identity;
mod redfish;
mod types;

pub use address::{AddressError, AddressWarning, BmcAddress, Privilege};
pub use identity::{UuidMatch, same_system_uuid};
pub use redfish::{AuthPolicy, RedfishConfig, Timeouts, Trust, TrustError, connect};
pub use types::{
    Accepted, Bmc, BmcError, BmcFuture, ErrorKind, PowerReading, PowerState, Protocol,
    SystemIdentity,
};
