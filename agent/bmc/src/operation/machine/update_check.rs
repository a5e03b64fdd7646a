//! No command takes the power of a host while its firmware is being written.

use std::time::Duration;

use super::{Operation, Phase};
use crate::{
    FirmwareUpdate, FirmwareUpdates, PowerCommand,
    operation::{DuringUpdate, Goal, Outcome},
    readings::UPDATE_REQUESTS,
};

/// For how long an answer about the updates counts: an update that begins after it must not be cut.
pub const UPDATES_COUNT_FOR: Duration = Duration::from_secs(2);
/// For how long a BMC that gave no answer about them is not asked again.
const SILENCE_COUNTS_FOR: Duration = Duration::from_secs(30);
/// How often the same command is held back because the BMC took too long before it.
pub const MOST_LATE: u32 = 2;
/// Why it is not known whether an update runs when such a BMC gets its command.
pub const TOO_SLOW: &str =
    "the BMC takes longer than 2 s from its answer about updates to a command";
/// Least time for a reading of the updates, and its limit at a BMC whatever it takes.
const LEAST_LIMIT: Duration = Duration::from_secs(6);
const MOST_LIMIT: Duration = Duration::from_secs(30);

/// Time for a reading of the updates of a BMC that took so long for its power.
pub fn updates_limit(power_took: Duration) -> Duration {
    power_took
        .saturating_mul(UPDATE_REQUESTS)
        .clamp(LEAST_LIMIT, MOST_LIMIT)
}

/// The limit for one more reading of the updates, after one with this limit that took so long and ended too early for
/// the pace of what it read; `None`: another one would show no more.
pub fn longer_limit(
    limit: Duration,
    took: Duration,
    updates: &FirmwareUpdates,
) -> Option<Duration> {
    let longer = updates.needs?.min(MOST_LIMIT);
    let was_cut = took >= limit && updates.unknown().is_some();
    (was_cut && longer > limit).then_some(longer)
}

/// The last reading of the updates for the next command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Read {
    begun: Duration,
    ended: Duration,
    /// Whether the BMC answered; one that never reports updates, or not now, says nothing that becomes wrong.
    is_answer: bool,
}

impl Read {
    fn counts_until(self) -> Duration {
        let counts_for = match self.is_answer {
            true => UPDATES_COUNT_FOR,
            false => SILENCE_COUNTS_FOR,
        };
        self.ended.saturating_add(counts_for)
    }
}

/// What is known about the updates of firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct UpdateCheck {
    read: Option<Read>,
    /// How long the BMC took for its last reading of the power.
    power_took: Duration,
    /// How long a reading of the updates takes, by the last one for the next command that had too little time.
    needs: Option<Duration>,
    /// How often the next command was held back because the BMC took too long before it.
    late: u32,
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
        self.read = None;
        self.needs = None;
        let is_late = std::mem::take(&mut self.late) >= MOST_LATE;
        let too_slow = || is_late.then(|| TOO_SLOW.to_owned());
        let unknown = self.unknown.take().or_else(too_slow);
        self.sent_unknown = unknown.or_else(|| self.sent_unknown.take());
    }

    /// The power was read.
    pub(super) fn power_took(&mut self, took: Duration) {
        self.power_took = took;
    }

    /// When a power reading that was complete at `seen` begins to age, of those that count for `fresh`. The updates are
    /// read after that of a slow BMC, and right before the command: another power reading would make them old, and so
    /// on for ever.
    pub(super) fn ages_from(&self, seen: Duration, fresh: Duration) -> Duration {
        let follows = |read: &Read| {
            read.is_answer && seen <= read.begun && read.begun <= seen.saturating_add(fresh)
        };
        match self.read.filter(follows) {
            Some(read) if self.power_took > UPDATES_COUNT_FOR => read.ended,
            _ => seen,
        }
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
        let is_read = (self.update_check.read).is_some_and(|read| now <= read.counts_until());
        self.request.during_update == DuringUpdate::Refuse && interrupts(command) && !is_read
    }

    /// Until when this command may be sent with what was read of the updates, however long the BMC takes for what the
    /// driver reads before it. `None`: there is no such time. A BMC that was too slow twice gets the command, and what
    /// was read counts as not known.
    pub fn sends_until(&self, command: PowerCommand) -> Option<Duration> {
        let check = &self.update_check;
        let read = check.read.filter(|read| read.is_answer)?;
        let is_bound = self.request.during_update == DuringUpdate::Refuse && interrupts(command);
        (is_bound && check.late < MOST_LATE).then(|| read.counts_until())
    }

    /// The command was held back because [`sends_until`](Self::sends_until) had passed: nothing was sent.
    pub fn was_late(&mut self, now: Duration) {
        self.update_check.late = self.update_check.late.saturating_add(1);
        self.update_check.read = None;
        self.fresh = false;
        self.next_read = now;
    }

    /// The BMC reports no updates at all, which is no news about this command.
    pub fn reports_no_updates(&mut self, begun: Duration, now: Duration) {
        self.update_check.unknown = None;
        self.update_check.read = Some(Read {
            begun,
            ended: now,
            is_answer: false,
        });
    }

    /// Time for a reading of the updates that begins at `now`: longer for a slow BMC, and never so long that the
    /// command and its confirmation would have no time left.
    pub fn updates_limit(&self, now: Duration) -> Duration {
        let left = self.request.deadline.saturating_sub(now);
        let check = &self.update_check;
        let needs = check.needs.unwrap_or_default();
        updates_limit(check.power_took).max(needs).min(left / 3)
    }

    /// Records the updates that were read from `begun` to `now`, or why they are not known, which holds nothing up. An
    /// update that runs ends the operation; only a cycle that may have switched its host off goes on to the power-on.
    pub fn updates_read(
        &mut self,
        begun: Duration,
        now: Duration,
        updates: Result<&FirmwareUpdates, String>,
    ) {
        self.update_check.read = Some(Read {
            begun,
            ended: now,
            is_answer: updates.is_ok(),
        });
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
        let limit = self.updates_limit(begun);
        if self.update_check.needs.is_none()
            && let Some(longer) = longer_limit(limit, now.saturating_sub(begun), updates)
        {
            self.update_check.needs = Some(longer);
            if self.updates_limit(now) > limit {
                self.update_check.read = None;
            }
        }
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
