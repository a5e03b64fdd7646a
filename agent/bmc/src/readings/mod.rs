//! What a BMC reports besides power: start of the host, facts, event log, sensors, topology, updates of firmware.

mod boot_state;
mod facts;
mod health;
mod log;
mod sensor;
mod signal;
mod topology;
mod update;

pub use boot_state::BootState;
pub use facts::Facts;
pub use health::HealthRollup;
pub use log::{EventLog, EventMeaning, FaultKind, LogEntry, Severity, StopKind};
pub use sensor::{Sensor, SensorHealth, SensorKind, SensorRole};
pub use signal::{HardwareFault, MAX_FAULTS, SystemStop, hardware_faults, stop_since_start};
pub use topology::{MAX_NEIGHBORS, Neighbor, Topology};
pub(crate) use update::UPDATE_REQUESTS;
pub use update::{FirmwareUpdate, FirmwareUpdates, MAX_UPDATES, UpdatePhase};
