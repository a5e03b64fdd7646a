//! The power of the host: reading it, and switching it.
//!
//! Owns: the system as a slow BMC has just shown it, which a command that must not wait is made from; and the time since
//! the last power-off, after which a system that still reports on is compared with its chassis.

use std::{
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    chassis, command,
    resources::{Reader, SystemResource, Writer},
};
use crate::{
    Accepted, BmcError, PowerCommand, PowerReading, PowerSource, SystemIdentity,
    redfish::{RedfishConfig, protocol::document::System},
};

/// The settings of power readings and commands, and the last power-off.
pub(super) struct Power {
    soft_off_by_button: bool,
    ignore_system_uuid: bool,
    late_off: Duration,
    /// When the BMC accepted the last power-off, unless another command followed.
    off_accepted: std::sync::Mutex<Option<Instant>>,
    shown: std::sync::Mutex<Option<Shown>>,
}

/// The system as a slow BMC has shown it.
struct Shown {
    system: SystemResource,
    at: Instant,
}

/// A reading that took longer is not repeated right before a command that must be sent soon.
const SLOW: Duration = Duration::from_millis(500);
/// For how long such a reading counts: longer than that of the updates, which comes after it.
const SHOWN_FOR: Duration = Duration::from_secs(35);

impl Power {
    pub(super) fn new(config: &RedfishConfig) -> Self {
        Self {
            soft_off_by_button: config.soft_off_by_button,
            ignore_system_uuid: config.ignore_system_uuid,
            late_off: config.timeouts.late_off,
            off_accepted: std::sync::Mutex::new(None),
            shown: std::sync::Mutex::new(None),
        }
    }

    pub(super) async fn read(&self, reader: Reader<'_>) -> Result<PowerReading, BmcError> {
        let begun = Instant::now();
        let found = reader.system().await?;
        let is_slow = begun.elapsed() > SLOW;
        *self.shown() = is_slow.then(|| Shown {
            system: found.clone(),
            at: Instant::now(),
        });
        let (state, raw) = chassis::host_power(reader, &found, self.is_off_late()).await?;
        Ok(PowerReading {
            state,
            raw,
            source: PowerSource::Redfish,
            identity: self.identity_of(found.system.clone()),
            at: Timestamp::now(),
            bmc: reader.reporter().bmc().to_owned(),
            connection: None,
            identify_led: super::led::is_lit(&found.body),
        })
    }

    pub(super) async fn identity(&self, reader: Reader<'_>) -> Result<SystemIdentity, BmcError> {
        Ok(self.identity_of(reader.system().await?.system))
    }

    pub(super) async fn switch(
        &self,
        writer: Writer<'_>,
        command: PowerCommand,
        until: Option<Instant>,
    ) -> Result<Accepted, BmcError> {
        let shown = self.shown().take();
        let shown = shown.filter(|shown| until.is_some() && shown.at.elapsed() < SHOWN_FOR);
        let plan = command::Plan {
            command,
            soft_off_by_button: self.soft_off_by_button,
            shown: shown.map(|shown| shown.system),
            until,
        };
        let result = command::send(writer, plan).await;
        self.note_off(command, result.is_ok());
        result
    }

    fn shown(&self) -> MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identity_of(&self, system: System) -> SystemIdentity {
        match self.ignore_system_uuid {
            true => SystemIdentity {
                system_uuid: None,
                ..system.identity
            },
            false => system.identity,
        }
    }

    fn note_off(&self, command: PowerCommand, is_accepted: bool) {
        let mut off = self
            .off_accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *off = match command {
            // A repeated power-off does not start the time again.
            PowerCommand::Off => off.or_else(|| is_accepted.then(Instant::now)),
            _ => None,
        };
    }

    /// Whether the BMC accepted a power-off that should have had its effect by now.
    fn is_off_late(&self) -> bool {
        let off = self
            .off_accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        off.is_some_and(|accepted| accepted.elapsed() >= self.late_off)
    }
}
