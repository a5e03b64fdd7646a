//! The interface of every BMC client, whatever the protocol.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use crate::{
    Accepted, BmcError, BootOverride, BootState, ErrorKind, EventLog, Facts, FirmwareUpdates,
    HealthRollup, PowerCommand, PowerReading, Sensor, SystemIdentity, Topology, expected::Expected,
};

/// A boxed future of a BMC call.
pub type BmcFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BmcError>> + Send + 'a>>;

/// The identify LED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identify {
    /// Not lit.
    Off,
    /// Lit or blinking until it is switched off.
    On,
    /// Lit or blinking for this time; IPMI counts whole seconds, at most 255.
    For(Duration),
}

/// One BMC.
///
/// Every call has its own deadline and may be dropped at any time. No call sends a non-idempotent command twice,
/// and no call reports a state that was read before it. A call that the protocol or the driver does not support
/// fails with [`ErrorKind::Unsupported`].
pub trait Bmc: Send + Sync + fmt::Debug {
    /// The address without credentials, for messages.
    fn address(&self) -> &str;

    /// The clients of its single drivers, in order, for a diagnosis; empty: it is the client of one driver.
    fn drivers(&self) -> Vec<Arc<dyn Bmc>> {
        Vec::new()
    }

    /// Reads the power state, and the parts of the identity that the same responses contain; never from a cache.
    fn power(&self) -> BmcFuture<'_, PowerReading>;

    /// Sends a power command. If the BMC refuses it as "already in this state", with the exact message of its
    /// make, the result is `Ok` with [`Acceptance::AlreadyThere`](crate::Acceptance::AlreadyThere); every other
    /// refusal is an error, whatever state the BMC reports. An accepted command is not complete yet: read the
    /// state. If the BMC offers only the power button for the command, nothing is sent and the error is
    /// [`ErrorKind::ButtonOnly`].
    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted>;

    /// Reads the power state. If the BMC has several drivers, the drivers that lead to another system than the expected
    /// one are not used; with a single driver, the caller compares the identity.
    fn checked_power(&self, _expected: Expected) -> BmcFuture<'_, PowerReading> {
        self.power()
    }

    /// Sends a command as [`command`](Self::command) does, but only through a driver whose system was compared
    /// with the expected one after the last [`checked_power`](Self::checked_power), and only until this time: once it
    /// has passed and nothing was sent, nothing is, and the error is a [`ErrorKind::Busy`] with `not_sent`. What the
    /// caller knows, such as that no update of firmware runs, is too old after it.
    fn command_until(
        &self,
        command: PowerCommand,
        _expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        match in_time(self.address(), until) {
            Ok(()) => self.command(command),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    /// Hard power-off.
    fn off(&self) -> BmcFuture<'_, Accepted> {
        self.command(PowerCommand::Off)
    }

    /// Power-on.
    fn on(&self) -> BmcFuture<'_, Accepted> {
        self.command(PowerCommand::On)
    }

    /// Reads everything that identifies the system.
    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        unsupported(self.address(), "identity")
    }

    /// Reads the boot override.
    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        unsupported(self.address(), "boot override")
    }

    /// Reads the boot progress of the host, the cause of its last start, and the faults of its chassis.
    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        unsupported(self.address(), "boot state")
    }

    /// Sets the boot override.
    fn set_boot(&self, _wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        unsupported(self.address(), "boot override")
    }

    /// Sets the identify LED.
    fn identify(&self, _wanted: Identify) -> BmcFuture<'_, Accepted> {
        unsupported(self.address(), "identify LED")
    }

    /// Reads every sensor that matters to the health of the host; at least power draw and inlet
    /// temperature where the BMC has them.
    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        unsupported(self.address(), "sensors")
    }

    /// Reads the newest `limit` entries of the event log.
    fn event_log(&self, _limit: usize) -> BmcFuture<'_, EventLog> {
        unsupported(self.address(), "event log")
    }

    /// Reads the health of the whole host, from as few requests as possible. Fails with
    /// [`ErrorKind::Unsupported`] where the protocol has none.
    fn health(&self) -> BmcFuture<'_, HealthRollup> {
        unsupported(self.address(), "health")
    }

    /// Empties the event log.
    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        unsupported(self.address(), "event log")
    }

    /// Reads facts about the BMC itself and the account in use, for a diagnosis.
    fn facts(&self) -> BmcFuture<'_, Facts> {
        unsupported(self.address(), "facts")
    }

    /// Reads the uptime of the BMC itself.
    fn uptime(&self) -> BmcFuture<'_, Duration> {
        unsupported(self.address(), "uptime of the BMC")
    }

    /// Reads the location of the host: its rack, and the switches at its ports.
    fn topology(&self) -> BmcFuture<'_, Topology> {
        unsupported(self.address(), "topology")
    }

    /// Reads which updates of firmware run, or begin with the next start of the host. It ends before `limit`, whatever
    /// the limit of other calls is, and names what was not read until then. An error, also
    /// [`ErrorKind::Unsupported`], means that it is not known.
    fn firmware_updates(&self, _limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        unsupported(self.address(), "updates of firmware")
    }

    /// Restarts the BMC itself; the host keeps running. Sent once.
    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        unsupported(self.address(), "BMC reset")
    }

    /// The same, but only until this time, as [`command_until`](Self::command_until) has it.
    fn reset_bmc_until(&self, until: Option<Instant>) -> BmcFuture<'_, Accepted> {
        match in_time(self.address(), until) {
            Ok(()) => self.reset_bmc(),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    /// Changes the password of the account in use. Sent once. Whether the BMC accepts the new password is only
    /// known after a log-in with it, by another client.
    fn set_password(&self, _password: SecretString) -> BmcFuture<'_, Accepted> {
        unsupported(self.address(), "change of the password")
    }

    /// Closes the sessions at the BMC. Call it before the client is dropped; a later call opens a
    /// new session.
    fn close(&self) -> BmcFuture<'_, ()>;
}

/// Whether a command may still be sent; the error of one whose time is over.
pub(crate) fn in_time(bmc: &str, until: Option<Instant>) -> Result<(), BmcError> {
    if until.is_none_or(|until| Instant::now() <= until) {
        return Ok(());
    }
    let message =
        "the BMC took too long to show what comes before the command; not sent, ask again";
    Err(BmcError {
        kind: ErrorKind::Busy,
        bmc: bmc.to_owned(),
        message: message.to_owned(),
        retry_after: None,
        maybe_sent: false,
        not_sent: true,
    })
}

fn unsupported<'a, T: Send + 'a>(bmc: &str, what: &str) -> BmcFuture<'a, T> {
    let error = BmcError {
        kind: ErrorKind::Unsupported,
        bmc: bmc.to_owned(),
        message: format!("{what}: not supported by this driver"),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    };
    Box::pin(async move { Err(error) })
}
