//! Settings of a machine other than its power: the boot source, the identify LED, and the event
//! log. Redfish and IPMI read and write the same ones.
//!
//! Pure. Must never: depend on the notation of a protocol.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Lifetime of a boot override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OverrideLifetime {
    /// The host boots from its default source.
    #[default]
    Disabled,
    /// For the next boot.
    Once,
    /// The override stays until it is changed.
    Continuous,
}

/// A boot override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootOverride {
    /// How long the override applies.
    pub lifetime: OverrideLifetime,
    /// The target, in Redfish's values: `None`, `Pxe`, `Hdd`, `Cd`, `UsbCd`, `BiosSetup`.
    pub target: String,
    /// Boot mode: `UEFI` or `Legacy`.
    pub mode: String,
}

impl Default for BootOverride {
    fn default() -> Self {
        Self {
            lifetime: OverrideLifetime::Disabled,
            target: "None".to_owned(),
            mode: "UEFI".to_owned(),
        }
    }
}

/// The current boot override, and a pending one for the next boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BootSource {
    /// The current override.
    pub current: BootOverride,
    /// The override in the settings resource, which applies from the next boot.
    pub pending: Option<BootOverride>,
}

impl BootSource {
    /// Handles a boot of the machine: returns the boot target, and ends a one-time override.
    pub fn boots(&mut self) -> String {
        if let Some(pending) = self.pending.take() {
            self.current = pending;
        }
        match self.current.lifetime {
            OverrideLifetime::Disabled => "None".to_owned(),
            OverrideLifetime::Once => std::mem::take(&mut self.current).target,
            OverrideLifetime::Continuous => self.current.target.clone(),
        }
    }
}

/// State of the identify LED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LedState {
    /// Off, or the state at rest.
    #[default]
    Off,
    /// The LED is lit without blinking.
    Lit,
    Blinking,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// The event reports normal operation.
    #[serde(rename = "OK")]
    Ok,
    Warning,
    Critical,
}

/// One entry of the event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Counts from 1, and is never reused, not even after clearing.
    pub id: u64,
    pub time: Timestamp,
    pub severity: Severity,
    pub message: String,
    /// Redfish `SensorType` of an entry that comes from a sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensor_type: Option<&'static str>,
}

/// The event log of a machine.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: Vec<Event>,
    last: u64,
}

impl EventLog {
    /// Maximum number of entries; the oldest ones are removed first.
    pub const ROOM: usize = 1000;

    /// Adds an entry.
    pub fn add(&mut self, time: Timestamp, severity: Severity, message: impl Into<String>) {
        self.add_of_sensor(time, severity, message, None);
    }

    /// Adds an entry that comes from a sensor of this type.
    pub fn add_of_sensor(
        &mut self,
        time: Timestamp,
        severity: Severity,
        message: impl Into<String>,
        sensor_type: Option<&'static str>,
    ) {
        self.last += 1;
        if self.events.len() >= Self::ROOM {
            self.events.remove(0);
        }
        self.events.push(Event {
            id: self.last,
            time,
            severity,
            message: message.into(),
            sensor_type,
        });
    }

    /// The entries, oldest first.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Clears the log, which is itself an event.
    pub fn clear(&mut self, time: Timestamp) {
        self.events.clear();
        self.add(time, Severity::Ok, "The log was cleared.");
    }
}

/// All settings.
#[derive(Clone, Debug, Default)]
pub struct HostSettings {
    /// The boot source.
    pub boot: BootSource,
    /// The identify LED.
    pub led: LedState,
    /// The event log.
    pub events: EventLog,
    /// Location of the host, as its BMC reports it.
    pub topology: Topology,
}

/// Location of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The rack in `Location` of the chassis; `None`: the chassis has no location.
    pub rack: Option<String>,
    /// The switch at each port, from port 1 on; empty: the chassis has no network adapters.
    pub switches: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_override(lifetime: OverrideLifetime) -> BootOverride {
        BootOverride {
            lifetime,
            target: "Pxe".to_owned(),
            mode: "UEFI".to_owned(),
        }
    }

    #[test]
    fn once_override_applies_once_and_continuous_until_changed() {
        let mut boot = BootSource {
            current: mk_override(OverrideLifetime::Once),
            pending: None,
        };
        assert_eq!([boot.boots(), boot.boots()], ["Pxe", "None"]);
        boot.current = mk_override(OverrideLifetime::Continuous);
        assert_eq!([boot.boots(), boot.boots()], ["Pxe", "Pxe"]);
    }

    #[test]
    fn pending_boot_settings_apply_from_the_next_boot() {
        let mut boot = BootSource {
            current: BootOverride::default(),
            pending: Some(mk_override(OverrideLifetime::Once)),
        };
        assert_eq!(boot.current.lifetime, OverrideLifetime::Disabled);
        assert_eq!(boot.boots(), "Pxe");
        assert_eq!(boot, BootSource::default());
    }

    #[test]
    fn entry_ids_continue_after_a_clear() {
        let mut log = EventLog::default();
        log.add(Timestamp::UNIX_EPOCH, Severity::Critical, "one");
        log.clear(Timestamp::UNIX_EPOCH);
        assert_eq!(log.events().len(), 1);
        assert_eq!(log.events()[0].id, 2);
        for _ in 0..=EventLog::ROOM {
            log.add(Timestamp::UNIX_EPOCH, Severity::Ok, "more");
        }
        assert_eq!(log.events().len(), EventLog::ROOM);
    }
}
