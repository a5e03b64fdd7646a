//! Bounds of everything that leaves a driver.
//!
//! Owns: the longest text of each kind, and the largest number of items. Must never: change a power
//! state, or anything that decides about one. A device chooses the texts, and callers keep them for
//! long: readings in journals and caches, identities in evidence.

use std::{fmt, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use crate::{
    Accepted, Bmc, BmcError, BmcFuture, BootOverride, BootState, EventLog, Facts, FirmwareUpdate,
    FirmwareUpdates, HealthRollup, Identify, LogEntry, MAX_UPDATES, Neighbor, PowerCommand,
    PowerReading, ResourceName, Sensor, SystemIdentity, Topology, expected::Expected, text::plain,
};

/// Characters of a name, an identifier or a state.
const NAME: usize = 128;
/// Characters of a raw state, or of a command as sent.
pub(crate) const STATE: usize = 256;
/// Characters of a message.
const MESSAGE: usize = 1000;
/// Characters of an error, which may quote a message and list the valid choices.
const ERROR: usize = 1500;
/// Sensors, log entries, outlets.
const ITEMS: usize = 1024;
/// Reset types, cipher suites, faults.
const WORDS: usize = 64;

/// A result of a driver, with texts and lists of bounded length.
pub(crate) trait Bounded: Sized {
    fn bounded(self) -> Self;
}

/// A result as it leaves the driver.
pub(crate) fn leaving<T: Bounded>(result: Result<T, BmcError>) -> Result<T, BmcError> {
    result.map(T::bounded).map_err(BmcError::bounded)
}

pub(crate) fn name(text: String) -> String {
    cut(text, NAME)
}

pub(crate) fn cut(text: String, max: usize) -> String {
    // Most texts are short and plain already.
    let is_plain = text.len() <= max && text.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
    if is_plain { text } else { plain(&text, max) }
}

pub(crate) fn known(text: Option<String>) -> Option<String> {
    text.map(name).filter(|text| !text.is_empty())
}

fn words(mut words: Vec<String>) -> Vec<String> {
    words.truncate(WORDS);
    words.into_iter().map(name).collect()
}

impl Bounded for () {
    fn bounded(self) -> Self {}
}

impl Bounded for BootOverride {
    fn bounded(self) -> Self {
        self
    }
}

impl Bounded for Option<usize> {
    fn bounded(self) -> Self {
        self
    }
}

impl Bounded for BmcError {
    fn bounded(self) -> Self {
        Self {
            message: cut(self.message, ERROR),
            ..self
        }
    }
}

impl Bounded for SystemIdentity {
    fn bounded(self) -> Self {
        Self {
            system_uuid: known(self.system_uuid),
            serial: known(self.serial),
            vendor: known(self.vendor),
            model: known(self.model),
            resource: ResourceName {
                path: known(self.resource.path),
                id: known(self.resource.id),
                name: known(self.resource.name),
            },
        }
    }
}

impl Bounded for PowerReading {
    fn bounded(self) -> Self {
        Self {
            raw: cut(self.raw, STATE),
            identity: self.identity.bounded(),
            ..self
        }
    }
}

impl Bounded for Accepted {
    fn bounded(self) -> Self {
        Self {
            command: cut(self.command, STATE),
            answer: cut(self.answer, MESSAGE),
            ..self
        }
    }
}

impl Bounded for Duration {
    fn bounded(self) -> Self {
        self
    }
}

impl Bounded for BootState {
    fn bounded(self) -> Self {
        Self {
            progress: known(self.progress),
            restart_cause: known(self.restart_cause),
            faults: words(self.faults),
        }
    }
}

impl Bounded for HealthRollup {
    fn bounded(self) -> Self {
        self
    }
}

impl Bounded for Facts {
    fn bounded(self) -> Self {
        Self {
            service: known(self.service),
            firmware: known(self.firmware),
            actions: self.actions.map(words),
            privilege: known(self.privilege),
            suites: self.suites.map(|mut suites| {
                suites.truncate(WORDS);
                suites
            }),
            ..self
        }
    }
}

impl<T: Bounded> Bounded for Vec<T> {
    fn bounded(mut self) -> Self {
        self.truncate(ITEMS);
        // Collected anew, so that the capacity of a longer list is released.
        self.into_iter().map(T::bounded).collect()
    }
}

impl Bounded for Sensor {
    fn bounded(self) -> Self {
        Self {
            name: name(self.name),
            unit: name(self.unit),
            ..self
        }
    }
}

impl Bounded for LogEntry {
    fn bounded(self) -> Self {
        Self {
            id: name(self.id),
            message: cut(self.message, MESSAGE),
            sensor: known(self.sensor),
            ..self
        }
    }
}

impl Bounded for EventLog {
    fn bounded(mut self) -> Self {
        // The newest are last.
        let surplus = self.entries.len().saturating_sub(ITEMS);
        self.entries.drain(..surplus);
        Self {
            entries: self.entries.bounded(),
            ..self
        }
    }
}

impl Bounded for Neighbor {
    fn bounded(self) -> Self {
        Self {
            port: name(self.port),
            chassis_id: known(self.chassis_id),
            port_id: known(self.port_id),
            system_name: known(self.system_name),
        }
    }
}

impl Bounded for Topology {
    fn bounded(mut self) -> Self {
        self.neighbors.truncate(crate::MAX_NEIGHBORS);
        Self {
            rack: known(self.rack),
            neighbors: self.neighbors.bounded(),
        }
    }
}

impl Bounded for FirmwareUpdates {
    fn bounded(self) -> Self {
        let of = |update: FirmwareUpdate| FirmwareUpdate {
            source: name(update.source),
            name: name(update.name),
            state: cut(update.state, STATE),
            message: cut(update.message, MESSAGE),
            ..update
        };
        Self {
            updates: self.updates.into_iter().take(MAX_UPDATES).map(of).collect(),
            read: words(self.read),
            unread: words(self.unread),
            silence: self.silence,
            needs: self.needs,
        }
    }
}

/// A client of a BMC whose results are bounded.
#[cfg_attr(
    not(any(feature = "ipmi", feature = "redfish")),
    expect(dead_code, reason = "without a protocol there is no client")
)]
pub(crate) struct BoundedBmc<B>(pub(crate) B);

/// Makes a call of the driver.
macro_rules! leave {
    ($call:expr) => {
        Box::pin(async move { $crate::bounded::leaving($call.await) })
    };
}
pub(crate) use leave;

impl<B: Bmc> Bmc for BoundedBmc<B> {
    fn address(&self) -> &str {
        self.0.address()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        leave!(self.0.power())
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        leave!(self.0.command(command))
    }

    fn checked_power(&self, expected: Expected) -> BmcFuture<'_, PowerReading> {
        leave!(self.0.checked_power(expected))
    }

    fn command_until(
        &self,
        command: PowerCommand,
        expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        leave!(self.0.command_until(command, expected, until))
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        leave!(self.0.identity())
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        leave!(self.0.boot())
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        leave!(self.0.boot_state())
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        leave!(self.0.set_boot(wanted))
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        leave!(self.0.identify(wanted))
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        leave!(self.0.uptime())
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        leave!(self.0.sensors())
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        leave!(self.0.event_log(limit))
    }

    fn health(&self) -> BmcFuture<'_, HealthRollup> {
        leave!(self.0.health())
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        leave!(self.0.clear_event_log())
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        leave!(self.0.facts())
    }

    fn topology(&self) -> BmcFuture<'_, Topology> {
        leave!(self.0.topology())
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        leave!(self.0.firmware_updates(limit))
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        leave!(self.0.reset_bmc())
    }

    fn reset_bmc_until(&self, until: Option<Instant>) -> BmcFuture<'_, Accepted> {
        leave!(self.0.reset_bmc_until(until))
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        leave!(self.0.set_password(password))
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        leave!(self.0.close())
    }
}

impl<B: fmt::Debug> fmt::Debug for BoundedBmc<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    const HUGE: usize = 1 << 20;

    #[test]
    fn identity_is_short_and_plain() {
        let identity = SystemIdentity {
            system_uuid: Some(" 4c4c4544-0042-3510-8054-c2c04f4e4e32\0".to_owned()),
            serial: Some("x".repeat(HUGE)),
            vendor: Some("\u{1b}\u{7}".to_owned()),
            ..SystemIdentity::default()
        }
        .bounded();
        assert_eq!(
            identity.system_uuid.as_deref(),
            Some("4c4c4544-0042-3510-8054-c2c04f4e4e32")
        );
        let serial = identity.serial.unwrap();
        assert!(serial.capacity() < 4 * NAME, "{}", serial.capacity());
        assert_eq!(identity.vendor, None);
    }

    #[test]
    fn event_log_keeps_the_newest_entries() {
        let entry = |id: usize| LogEntry {
            id: id.to_string(),
            at: None,
            severity: Severity::Ok,
            message: "m\u{1b}[2J".repeat(1000),
            sensor: None,
            meaning: crate::EventMeaning::Other,
        };
        let log = EventLog {
            entries: (0..ITEMS + 5).map(entry).collect(),
            total: None,
        };
        let log = log.bounded();
        assert_eq!(log.entries.len(), ITEMS);
        assert_eq!(log.entries.first().unwrap().id, "5");
        assert!(
            log.entries
                .iter()
                .all(|entry| entry.message.len() <= MESSAGE + 3)
        );
    }
}
