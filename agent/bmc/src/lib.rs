#![doc = include_str!("../README.md")]

mod address;
mod bmc;
mod boot;
mod bounded;
mod connect;
mod error;
mod expected;
mod failover;
#[cfg(feature = "ipmi")]
pub mod ipmi;
pub mod operation;
pub mod pdu;
mod power;
mod readings;
#[cfg(feature = "redfish")]
pub mod redfish;
mod text;

pub use address::{AddressError, AddressWarning, BmcAddress, Privilege};
pub use bmc::{Bmc, BmcFuture, Identify};
pub use boot::{BootDevice, BootMode, BootOverride, BootPersistence};
pub use connect::{Credentials, Options, connect};
pub use error::{BmcError, ErrorKind};
pub use failover::{BreakerSettings, Failover, FailoverSettings};
pub use power::{
    Acceptance, Accepted, PowerCommand, PowerReading, PowerSource, PowerState, Protocol,
    ResourceName, StateBefore, SystemIdentity,
};
pub use rackhand_identity::{IdentityMatch, compare_system_uuids};
pub use readings::{
    BootState, EventLog, EventMeaning, Facts, FaultKind, FirmwareUpdate, FirmwareUpdates,
    HardwareFault, HealthRollup, LogEntry, MAX_FAULTS, MAX_NEIGHBORS, MAX_UPDATES, Neighbor,
    Sensor, SensorHealth, SensorKind, SensorRole, Severity, StopKind, SystemStop, Topology,
    UpdatePhase, hardware_faults, stop_since_start,
};
#[cfg(feature = "redfish")]
pub use redfish::{AuthPolicy, KeepAlive, Trust, TrustError};

/// Entry points for the fuzz targets, the only access to private items.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// Parses `bytes` as the body of every kind of Redfish document.
    pub fn redfish(bytes: &[u8]) {
        if let Some(body) = crate::redfish::fuzz(bytes) {
            crate::pdu::redfish::fuzz(&body);
        }
    }

    /// Runs the IPMI commands against the responses in `bytes`, each as completion code, length and
    /// data.
    pub fn ipmi_answers(bytes: &[u8]) {
        crate::ipmi::fuzz::fuzz(bytes);
    }

    /// Reads an outlet from the SNMP values in `bytes`, each as tag and four bytes.
    pub fn snmp_values(bytes: &[u8]) {
        crate::pdu::snmp::fuzz(bytes);
    }
}
