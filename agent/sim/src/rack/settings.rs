//! What a BMC can set on a machine besides its power: the boot source, the identify light, and the
//! event log. Redfish and IPMI show and change the same ones.
//!
//! Pure. Must never know how a protocol spells them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How long a boot override holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Holds {
    /// It does not.
    #[default]
    Disabled,
    /// For the next boot.
    Once,
    /// Until it is changed.
    Continuous,
}

/// A boot override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootOverride {
    /// How long it holds.
    pub holds: Holds,
    /// From where, in Redfish's words: `None`, `Pxe`, `Hdd`, `Cd`, `UsbCd`, `BiosSetup`.
    pub target: String,
    /// `UEFI` or `Legacy`.
    pub mode: String,
}

impl Default for BootOverride {
    fn default() -> Self {
        Self {
            holds: Holds::Disabled,
            target: "None".to_owned(),
            mode: "UEFI".to_owned(),
        }
    }
}

/// The boot override that holds, and the one that is to hold from the next boot on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BootSource {
    /// What holds now.
    pub current: BootOverride,
    /// What was put into a settings object.
    pub pending: Option<BootOverride>,
}

impl BootSource {
    /// The machine boots: gives what it boots from, and forgets what held only once.
    pub fn boots(&mut self) -> String {
        if let Some(pending) = self.pending.take() {
            self.current = pending;
        }
        match self.current.holds {
            Holds::Disabled => "None".to_owned(),
            Holds::Once => std::mem::take(&mut self.current).target,
            Holds::Continuous => self.current.target.clone(),
        }
    }
}

/// The identify light.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Light {
    /// Dark, or as it is at rest.
    #[default]
    Off,
    /// Lit without a break.
    Lit,
    Blinking,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Not at all.
    #[serde(rename = "OK")]
    Ok,
    Warning,
    Critical,
}

/// One entry of the event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Counts from 1, and is never used again, not even after clearing.
    pub id: u64,
    pub time: Timestamp,
    pub severity: Severity,
    pub message: String,
}

/// The event log of a machine.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: Vec<Event>,
    last: u64,
}

impl EventLog {
    /// The log of a machine this large forgets its oldest entries first.
    pub const ROOM: usize = 1000;

    /// Adds an entry.
    pub fn add(&mut self, time: Timestamp, severity: Severity, message: impl Into<String>) {
        self.last += 1;
        if self.events.len() >= Self::ROOM {
            self.events.remove(0);
        }
        self.events.push(Event {
            id: self.last,
            time,
            severity,
            message: message.into(),
        });
    }

    /// What is in it, oldest first.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Empties it, which is itself an event.
    pub fn clear(&mut self, time: Timestamp) {
        self.events.clear();
        self.add(time, Severity::Ok, "The log was cleared.");
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// From where the machine boots.
    pub boot: BootSource,
    /// The identify light.
    pub light: Light,
    /// The event log.
    pub events: EventLog,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_override(holds: Holds) -> BootOverride {
        BootOverride {
            holds,
            target: "Pxe".to_owned(),
            mode: "UEFI".to_owned(),
        }
    }

    #[test]
    fn once_override_applies_once_and_continuous_until_changed() {
        let mut boot = BootSource {
            current: mk_override(Holds::Once),
            pending: None,
        };
        assert_eq!([boot.boots(), boot.boots()], ["Pxe", "None"]);
        boot.current = mk_override(Holds::Continuous);
        assert_eq!([boot.boots(), boot.boots()], ["Pxe", "Pxe"]);
    }

    #[test]
    fn pending_boot_settings_apply_from_the_next_boot() {
        let mut boot = BootSource {
            current: BootOverride::default(),
            pending: Some(mk_override(Holds::Once)),
        };
        assert_eq!(boot.current.holds, Holds::Disabled);
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
