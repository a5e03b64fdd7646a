//! The Redfish driver as a [`Bmc`].
//!
//! Owns: the time limit of each call, and what each call uses. Must never: give a call that only reads a way to
//! change anything.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use super::{
    account,
    boot::{self, progress},
    facts::{self, health, topology},
    led, log, manager,
    power::Power,
    resources::{Reader, Resources, Writer},
    sensors, updates,
};
use crate::{
    Accepted, Bmc, BmcError, BmcFuture, BootOverride, BootState, EventLog, Facts, FirmwareUpdates,
    HealthRollup, Identify, PowerCommand, PowerReading, Sensor, SystemIdentity, Topology,
    expected::Expected,
    redfish::{
        RedfishConfig, Timeouts,
        protocol::{
            call_budget::{Call, bounded, bounded_with},
            http::Silence,
        },
    },
};

/// How long after its limit a reading of updates is given up.
const READING_ENDS: Duration = Duration::from_millis(100);

/// One Redfish BMC.
pub(in crate::redfish) struct Redfish {
    resources: Resources,
    power: Power,
    timeouts: Timeouts,
}

impl Redfish {
    pub(in crate::redfish) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        Ok(Self {
            power: Power::new(&config),
            timeouts: config.timeouts,
            resources: Resources::new(config)?,
        })
    }

    /// Runs a call within its time limit.
    fn bounded<'a, T, F>(&'a self, work: impl FnOnce(&'a Self, Arc<Call>) -> F) -> BmcFuture<'a, T>
    where
        F: Future<Output = Result<T, BmcError>> + Send + 'a,
        T: Send + 'a,
    {
        let reporter = self.resources.reporter();
        bounded(self.timeouts.call, reporter, |call| work(self, call))
    }

    fn reader<'a>(&'a self, call: &'a Call) -> Reader<'a> {
        Reader::new(&self.resources, call)
    }

    fn writer<'a>(&'a self, call: &'a Call) -> Writer<'a> {
        Writer::new(self.reader(call), self.timeouts)
    }
}

impl Bmc for Redfish {
    fn address(&self) -> &str {
        self.resources.reporter().bmc()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.bounded(|this, call| async move { this.power.read(this.reader(&call)).await })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        self.command_until(command, Expected::default(), None)
    }

    fn command_until(
        &self,
        command: PowerCommand,
        _expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        let (limit, reporter) = (self.timeouts.call, self.resources.reporter());
        // A command does not wait for a kept connection that nobody answers any more.
        bounded_with(
            Silence::AsksBeside,
            limit,
            reporter,
            move |call| async move {
                (self.power)
                    .switch(self.writer(&call), command, until)
                    .await
            },
        )
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        self.bounded(|this, call| async move { this.power.identity(this.reader(&call)).await })
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        self.bounded(|this, call| async move { boot::read(this.reader(&call)).await })
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        self.bounded(|this, call| async move { progress::read(this.reader(&call)).await })
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move { boot::write(this.writer(&call), wanted).await })
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move { led::set(this.writer(&call), wanted).await })
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        self.bounded(|this, call| async move {
            sensors::read(this.reader(&call), this.timeouts.call).await
        })
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        self.bounded(move |this, call| async move { log::read(this.reader(&call), limit).await })
    }

    fn health(&self) -> BmcFuture<'_, HealthRollup> {
        self.bounded(|this, call| async move { health::read(this.reader(&call)).await })
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        self.bounded(|this, call| async move { log::clear(this.writer(&call)).await })
    }

    fn topology(&self) -> BmcFuture<'_, Topology> {
        self.bounded(|this, call| async move { topology::read(this.reader(&call)).await })
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        self.bounded(|this, call| async move { facts::read(this.reader(&call)).await })
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        self.bounded(|this, call| async move { manager::least_uptime(this.reader(&call)).await })
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        let reporter = self.resources.reporter();
        // The reading ends at its limit, with what was read until then.
        let most = limit + READING_ENDS;
        bounded_with(Silence::AsksBeside, most, reporter, |call| async move {
            updates::read(self.reader(&call), limit).await
        })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        self.reset_bmc_until(None)
    }

    fn reset_bmc_until(&self, until: Option<Instant>) -> BmcFuture<'_, Accepted> {
        self.bounded(
            move |this, call| async move { manager::reset(this.writer(&call), until).await },
        )
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move {
            account::set_password(this.writer(&call), &password).await
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.bounded(|this, _| async move { this.resources.close().await })
    }
}

impl fmt::Debug for Redfish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redfish")
            .field("bmc", &self.address())
            .finish_non_exhaustive()
    }
}
