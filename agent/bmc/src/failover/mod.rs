//! One BMC behind several drivers.
//!
//! Owns: the order of the drivers, the pause of a driver whose BMC does not answer, and the exclusion of drivers
//! that lead to another system (F5). Must never: try a second driver after a non-idempotent command that may have
//! been sent, hide a configuration error behind a working second driver, or delay a call.

mod breaker;
mod driver_order;
mod identity;

use std::{fmt, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use crate::{
    Accepted, Bmc, BmcError, BmcFuture, BootOverride, BootState, ErrorKind, EventLog, Facts,
    FirmwareUpdates, HealthRollup, Identify, PowerCommand, PowerReading, Sensor, SystemIdentity,
    Topology,
    expected::{Expected, Mismatch},
};
pub use breaker::BreakerSettings;
use breaker::{Breaker, CallVerdict};
use driver_order::{CallSafety, Preference, Then, combined_error, then};
use identity::Identities;

/// Settings of a [`Failover`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailoverSettings {
    /// Limits at which the circuit breaker of a driver opens, and the duration of its pauses.
    pub breaker: BreakerSettings,
    /// How long a driver that answered after an earlier one had failed stays the first choice.
    pub prefer: Duration,
    /// Seed of the jitter of pauses; each BMC should have its own.
    pub seed: u64,
}

impl Default for FailoverSettings {
    fn default() -> Self {
        Self {
            breaker: BreakerSettings::default(),
            prefer: Duration::from_secs(300),
            seed: 0,
        }
    }
}

/// Several drivers of one BMC, in the order in which they are tried.
///
/// A call tries one driver after the other until one answers, unless the kind of failure rules out another driver.
/// Each driver has a circuit breaker: after repeated calls without an answer, calls fail at once with the last
/// error, and one call probes the BMC again after a pause of at most 15 s. A reading names the protocol of the
/// driver that read it.
pub struct Failover {
    drivers: Vec<Driver>,
    preference: std::sync::Mutex<Preference>,
    identities: std::sync::Mutex<Identities>,
    settings: BreakerSettings,
    begun: Instant,
}

struct Driver {
    bmc: Arc<dyn Bmc>,
    breaker: std::sync::Mutex<Breaker>,
}

impl Failover {
    /// Combines drivers in order of preference. `None`: the list is empty.
    pub fn new(drivers: Vec<Arc<dyn Bmc>>, settings: FailoverSettings) -> Option<Self> {
        if drivers.is_empty() {
            return None;
        }
        let drivers: Vec<Driver> = (settings.seed..)
            .zip(drivers)
            .map(|(seed, bmc)| Driver {
                bmc,
                breaker: std::sync::Mutex::new(Breaker::new(settings.breaker, seed)),
            })
            .collect();
        Some(Self {
            identities: std::sync::Mutex::new(Identities::new(drivers.len())),
            drivers,
            preference: std::sync::Mutex::new(Preference::new(settings.prefer)),
            settings: settings.breaker,
            begun: Instant::now(),
        })
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn try_drivers<T>(
        &self,
        ask: CallSafety,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Result<T, BmcError> {
        self.try_checked(ask, &Expected::default(), call, |_| None)
            .await
    }

    /// Calls one driver after the other. `identity` returns the system's identity, if the answer contains it.
    async fn try_checked<T>(
        &self,
        ask: CallSafety,
        expected: &Expected,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
        identity: fn(&T) -> Option<&SystemIdentity>,
    ) -> Result<T, BmcError> {
        let begun = self.now();
        let order = locked(&self.preference).order(self.drivers.len(), begun);
        let mut errors: Vec<(usize, BmcError)> = Vec::new();
        for index in order {
            let Some(driver) = self.drivers.get(index) else {
                continue;
            };
            let checked = match ask {
                CallSafety::Read => Ok(None),
                CallSafety::Idempotent | CallSafety::Power | CallSafety::Once => {
                    self.check_system(index, driver, expected).await
                }
            };
            let answer = match checked {
                Ok(None) => self.ask_one(driver, &call).await,
                Ok(Some(mismatch)) => {
                    errors.push((index, other_system(driver, &mismatch)));
                    continue;
                }
                // A reading that failed, before a command was sent.
                Err(error) => Err(BmcError {
                    not_sent: true,
                    ..error
                }),
            };
            match answer {
                Ok(answer) => {
                    if let Some(found) = identity(&answer) {
                        let mut identities = locked(&self.identities);
                        identities.record(index, found);
                        if let Some(mismatch) = identities.exclusion(index, expected) {
                            errors.push((index, other_system(driver, &mismatch)));
                            continue;
                        }
                    }
                    let before: Vec<&BmcError> = errors.iter().map(|(_, error)| error).collect();
                    locked(&self.preference).answered(index, &before, self.now());
                    return Ok(answer);
                }
                Err(error) => {
                    let took = self.now().saturating_sub(begun);
                    match then(ask, &error, took) {
                        Then::Next => errors.push((index, error)),
                        Then::NextInAnotherCall if self.drivers.len() > 1 => {
                            errors.push((index, self.moves_on(index, error)));
                            break;
                        }
                        Then::NextInAnotherCall | Then::Ends => {
                            errors.push((index, error));
                            break;
                        }
                    }
                }
            }
        }
        // In the configured order, whichever driver was tried first this time: callers report a
        // changed message as a new failure.
        errors.sort_by_key(|(index, _)| *index);
        Err(combined_error(
            self.address(),
            errors.into_iter().map(|(_, error)| error).collect(),
        ))
    }

    /// Begins the next calls with the driver after this one; the error asks for another call.
    fn moves_on(&self, index: usize, error: BmcError) -> BmcError {
        locked(&self.preference).moves_on(index, self.drivers.len(), self.now());
        let kind = match error.kind.is_transient() {
            true => error.kind,
            false => ErrorKind::Busy,
        };
        let message = format!("{}; the next command goes by another driver", error.message);
        BmcError {
            kind,
            message,
            ..error
        }
    }

    /// Why no change may go through this driver: a reading through it shows another system. `None`, without
    /// another reading, if the last one came through this driver.
    async fn check_system(
        &self,
        index: usize,
        driver: &Driver,
        expected: &Expected,
    ) -> Result<Option<Mismatch>, BmcError> {
        if !locked(&self.identities).must_read(index, expected) {
            return Ok(None);
        }
        let reading = self.ask_one(driver, &|bmc: &dyn Bmc| bmc.power()).await?;
        let mut identities = locked(&self.identities);
        identities.record(index, &reading.identity);
        Ok(identities.refusal(index, expected, reading.source))
    }

    async fn ask_one<T>(
        &self,
        driver: &Driver,
        call: &(impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync),
    ) -> Result<T, BmcError> {
        locked(&driver.breaker).admit(self.now())?;
        // The caller may drop the call; the next call is then the probe.
        let mut driver_call = DriverCall {
            failover: self,
            driver,
            since: self.now(),
            outcome: None,
        };
        let result = call(driver.bmc.as_ref()).await;
        driver_call.outcome = Some(match &result {
            Ok(_) => CallVerdict::Answered,
            Err(error) => CallVerdict::of(error),
        });
        result
    }
}

/// Whether a driver failed, rather than having nothing to read.
fn is_failure(error: &BmcError) -> bool {
    error.kind != ErrorKind::Unsupported
}

/// The error of a driver that is not used.
fn other_system(driver: &Driver, mismatch: &Mismatch) -> BmcError {
    BmcError {
        kind: ErrorKind::System,
        bmc: driver.bmc.address().to_owned(),
        message: format!(
            "not used, because it does not show the system of this host: {mismatch}; mend this address, or set \
             system_uuid = \"none\" where its UUID is not that of the host"
        ),
        retry_after: None,
        maybe_sent: false,
        not_sent: true,
    }
}

/// Records the result of a call at the breaker, including a dropped call.
struct DriverCall<'a> {
    failover: &'a Failover,
    driver: &'a Driver,
    since: Duration,
    /// `None`: the call was dropped.
    outcome: Option<CallVerdict>,
}

impl Drop for DriverCall<'_> {
    fn drop(&mut self) {
        let now = self.failover.now();
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let bmc = self.driver.bmc.address();
            CallVerdict::timed_out(self.failover.settings, bmc, now.saturating_sub(self.since))
        });
        locked(&self.driver.breaker).record(now, outcome);
    }
}

/// No code panics while it holds one of these locks, so their data are consistent.
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Debug for Failover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drivers = self.drivers.iter().map(|driver| &driver.bmc);
        f.debug_list().entries(drivers).finish()
    }
}

impl Bmc for Failover {
    /// The address of the first driver.
    fn address(&self) -> &str {
        self.drivers
            .first()
            .map_or("", |driver| driver.bmc.address())
    }

    fn drivers(&self) -> Vec<Arc<dyn Bmc>> {
        let drivers = self.drivers.iter();
        drivers.map(|driver| Arc::clone(&driver.bmc)).collect()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.checked_power(Expected::default())
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        let ask = CallSafety::of(command);
        Box::pin(self.try_drivers(ask, move |bmc| bmc.command(command)))
    }

    fn checked_power(&self, expected: Expected) -> BmcFuture<'_, PowerReading> {
        Box::pin(async move {
            self.try_checked(
                CallSafety::Read,
                &expected,
                |bmc| bmc.power(),
                |reading| Some(&reading.identity),
            )
            .await
        })
    }

    fn command_until(
        &self,
        command: PowerCommand,
        expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        let ask = CallSafety::of(command);
        Box::pin(async move {
            self.try_checked(
                ask,
                &expected,
                |bmc| bmc.command_until(command, Expected::default(), until),
                |_| None,
            )
            .await
        })
    }

    fn off(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::of(PowerCommand::Off), |bmc| bmc.off()))
    }

    fn on(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::of(PowerCommand::On), |bmc| bmc.on()))
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        Box::pin(async move {
            let expected = Expected::default();
            self.try_checked(
                CallSafety::Read,
                &expected,
                |bmc| bmc.identity(),
                |found| Some(found),
            )
            .await
        })
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.boot()))
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.boot_state()))
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::Idempotent, move |bmc| bmc.set_boot(wanted)))
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::Idempotent, move |bmc| bmc.identify(wanted)))
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.sensors()))
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        Box::pin(self.try_drivers(CallSafety::Read, move |bmc| bmc.event_log(limit)))
    }

    fn health(&self) -> BmcFuture<'_, HealthRollup> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.health()))
    }

    /// Sent once: a repetition would delete entries written since the first.
    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::Once, |bmc| bmc.clear_event_log()))
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.uptime()))
    }

    fn topology(&self) -> BmcFuture<'_, Topology> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.topology()))
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        Box::pin(self.try_drivers(CallSafety::Read, |bmc| bmc.facts()))
    }

    /// Each driver is asked once, past its breaker: services that hang must not delay the power-off that follows. What
    /// an earlier driver could not read stays unread, whatever a later one reports.
    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            let begun = Instant::now();
            let mut errors = Vec::new();
            for driver in &self.drivers {
                let before = begun.elapsed();
                let left = limit.saturating_sub(before);
                match driver.bmc.firmware_updates(left).await {
                    Ok(mut updates) => {
                        updates.silence = updates.silence.map(|time| time.saturating_add(before));
                        let failed = errors.iter().filter(|error: &&BmcError| is_failure(error));
                        let unread =
                            failed.map(|error| format!("{}: {}", error.bmc, error.kind.label()));
                        updates.unread.extend(unread);
                        return Ok(updates);
                    }
                    // The BMC has no updates to tell of, so that it need not be asked by another protocol.
                    Err(error) if !is_failure(&error) => return Err(error),
                    Err(error) => errors.push(error),
                }
            }
            Err(combined_error(self.address(), errors))
        })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        self.reset_bmc_until(None)
    }

    fn reset_bmc_until(&self, until: Option<Instant>) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::Once, move |bmc| bmc.reset_bmc_until(until)))
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        Box::pin(self.try_drivers(CallSafety::Once, move |bmc| {
            bmc.set_password(password.clone())
        }))
    }

    /// Closes all drivers concurrently, so that an unresponsive one does not keep the sessions of
    /// the others open.
    fn close(&self) -> BmcFuture<'_, ()> {
        let mut closing: Vec<Option<BmcFuture<'_, ()>>> = self
            .drivers
            .iter()
            .map(|driver| Some(driver.bmc.close()))
            .collect();
        let mut result = Ok(());
        Box::pin(std::future::poll_fn(move |context| {
            for slot in &mut closing {
                let Some(future) = slot else { continue };
                if let std::task::Poll::Ready(closed) = future.as_mut().poll(context) {
                    *slot = None;
                    if result.is_ok() {
                        result = closed;
                    }
                }
            }
            if closing.iter().any(Option::is_some) {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(std::mem::replace(&mut result, Ok(())))
            }
        }))
    }
}

#[cfg(test)]
mod tests;
