//! What a BMC reports besides power: start of the host, facts, event log, sensors, topology, updates of firmware.

mod boot_state;
mod facts;
mod log;
mod sensor;
mod topology;
mod update;

pub use boot_state::BootState;
pub use facts::Facts;
pub use log::{EventLog, LogEntry, Severity};
pub use sensor::{Sensor, SensorHealth, SensorKind, SensorRole};
pub use topology::{MAX_NEIGHBORS, Neighbor, Topology};
pub use update::{FirmwareUpdate, FirmwareUpdates, MAX_UPDATES, UpdatePhase};
