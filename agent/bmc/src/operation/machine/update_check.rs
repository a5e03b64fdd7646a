//! No command takes the power of a host while its firmware is being written.

use std::time::Duration;

use super::{Operation, Phase};
use crate::{
    FirmwareUpdate, FirmwareUpdates, PowerCommand,
    operation::{DuringUpdate, Goal, Outcome},
};

/// For how long a reading of the updates counts. A power reading of a slow BMC follows it before the command.
const COUNTS_FOR: Duration = Duration::from_secs(30);
/// Least time for a reading of the updates, and its limit at a BMC whatever it takes.
const LEAST_LIMIT: Duration = Duration::from_secs(6);
const MOST_LIMIT: Duration = Duration::from_secs(30);
/// Requests of a whole reading, with a reserve: a BMC answers each about as fast as it answers for its power.
const REQUESTS: u32 = 24;

/// Time for a reading of the updates of a BMC that took so long for its power.
pub fn updates_limit(power_took: Duration) -> Duration {
    power_took
        .saturating_mul(REQUESTS)
        .clamp(LEAST_LIMIT, MOST_LIMIT)
}

/// What is known about the updates of firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct UpdateCheck {
    /// When they were read for the next command.
    read_at: Option<Duration>,
    /// How long the BMC took for its last reading of the power.
    power_took: Duration,
    /// Why that reading does not show whether one runs.
    unknown: Option<String>,
    /// The same for a command that was sent.
    sent_unknown: Option<String>,
    /// The update that ended a cycle which may have switched its host off.
    cut_short_by: Option<FirmwareUpdate>,
}

impl UpdateCheck {
    /// A command is sent; the next one needs another reading.
    pub(super) fn used(&mut self) {
        self.read_at = None;
        let unknown = self.unknown.take();
        self.sent_unknown = unknown.or_else(|| self.sent_unknown.take());
    }

    /// The power was read.
    pub(super) fn power_took(&mut self, took: Duration) {
        self.power_took = took;
    }

    /// The update that ended a cycle early.
    pub(super) fn cut_short_by(&self) -> Option<&FirmwareUpdate> {
        self.cut_short_by.as_ref()
    }
}

/// Whether a host loses its power or its run by this command. A diagnostic interrupt restarts most operating
/// systems, and a press of the button shuts them down.
fn interrupts(command: PowerCommand) -> bool {
    match command {
        PowerCommand::Off
        | PowerCommand::SoftOff
        | PowerCommand::SoftOffByButton
        | PowerCommand::Reset
        | PowerCommand::Nmi => true,
        PowerCommand::On | PowerCommand::OnByButton => false,
    }
}

impl Operation {
    /// Whether the updates of firmware must be read before this command is sent at `now`: before each one, because an
    /// update may have begun since the last.
    pub fn reads_updates(&self, command: PowerCommand, now: Duration) -> bool {
        let is_read =
            (self.update_check.read_at).is_some_and(|at| now <= at.saturating_add(COUNTS_FOR));
        self.request.during_update == DuringUpdate::Refuse && interrupts(command) && !is_read
    }

    /// Time for a reading of the updates that begins at `now`: longer for a slow BMC, and never so long that the
    /// command and its confirmation would have no time left.
    pub fn updates_limit(&self, now: Duration) -> Duration {
        let left = self.request.deadline.saturating_sub(now);
        updates_limit(self.update_check.power_took).min(left / 3)
    }

    /// Records the updates that were read from `begun` to `now`, or why they are not known, which holds nothing up. An
    /// update that runs ends the operation; only a cycle that may have switched its host off goes on to the power-on.
    pub fn updates_read(
        &mut self,
        begun: Duration,
        now: Duration,
        updates: Result<&FirmwareUpdates, String>,
    ) {
        self.update_check.read_at = Some(now);
        let updates = match updates {
            Ok(updates) => updates,
            Err(why) => {
                self.update_check.unknown = Some(why);
                return;
            }
        };
        if let Some(silence) = updates.silence {
            self.watch.answered_during(begun, now, silence);
        }
        self.update_check.unknown = updates.unknown();
        let Some(update) = updates.running().filter(|_| self.ended.is_none()) else {
            return;
        };
        let is_cycle = matches!(self.request.goal, Goal::Cycle { .. });
        if is_cycle && self.sends > 0 && self.phase == Phase::Off {
            self.update_check.cut_short_by = Some(update.clone());
            self.cut_short(now);
        } else {
            self.ended = Some(self.found_update(update));
        }
    }

    /// The outcome of an operation that an update has ended.
    pub(super) fn found_update(&self, update: &FirmwareUpdate) -> Outcome {
        Outcome::FirmwareUpdate {
            update: update.clone(),
            commands: self.sends,
        }
    }

    /// Why it was not known, when a command that takes the power was sent, whether firmware was being updated. `None`:
    /// it was known, was not read on purpose, or the BMC never reports it.
    pub fn updates_unknown(&self) -> Option<&str> {
        let unknown = self.update_check.sent_unknown.as_deref();
        unknown.filter(|_| self.sends > 0)
    }
}
