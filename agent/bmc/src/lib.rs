//! Power clients for BMCs: what touches hardware.
//!
//! Owns: talking to one BMC. Must never: guess a power state or a system, send a command twice
//! that is not idempotent, follow a redirect to another origin, or know gRPC or Kubernetes.

mod address;
mod bmc;
mod boot;
mod error;
mod facts;
mod failover;
mod identity;
pub mod ipmi;
mod log;
pub mod operation;
mod power;
mod redfish;
mod sensor;

pub use address::{AddressError, AddressWarning, BmcAddress, Privilege};
pub use bmc::{Bmc, BmcFuture, Identify};
pub use boot::{BootDevice, BootMode, BootOverride, BootPersistence};
pub use error::{BmcError, ErrorKind};
pub use facts::Facts;
pub use failover::{BreakerSettings, Failover, FailoverSettings};
pub use identity::{UuidMatch, same_system_uuid};
pub use log::{EventLog, LogEntry, Severity};
pub use power::{Accepted, PowerCommand, PowerReading, PowerState, Protocol, SystemIdentity};
pub use redfish::{AuthPolicy, RedfishConfig, Timeouts, Trust, TrustError, connect};
pub use sensor::{Sensor, SensorHealth, SensorKind, SensorRole};

/// Ways in for the fuzz targets, which see nothing else of what is private here.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// The body of any Redfish document.
    pub fn redfish(bytes: &[u8]) {
        crate::redfish::fuzz(bytes);
    }

    /// Answers of an IPMI BMC, each as completion code, length and data.
    pub fn ipmi_answers(bytes: &[u8]) {
        crate::ipmi::fuzz::fuzz(bytes);
    }
}
