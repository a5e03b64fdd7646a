//! No command takes the power of a host while its firmware is being written.

use std::time::Duration;

use super::Operation;
use crate::{FirmwareUpdates, PowerCommand, operation::DuringUpdate, operation::Outcome};

/// For how long a reading of the updates counts. A power reading of a slow BMC follows it before the command.
const COUNTS_FOR: Duration = Duration::from_secs(30);

/// When the updates were read for the next command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct UpdateCheck {
    read_at: Option<Duration>,
}

impl UpdateCheck {
    /// A command is sent; the next one needs another reading.
    pub(super) fn used(&mut self) {
        self.read_at = None;
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
    /// Whether the updates of firmware must be read before this command is sent at `now`.
    pub fn reads_updates(&self, command: PowerCommand, now: Duration) -> bool {
        let is_read =
            (self.update_check.read_at).is_some_and(|at| now <= at.saturating_add(COUNTS_FOR));
        // An operation that has taken the power already does no further harm.
        self.request.during_update == DuringUpdate::Refuse
            && interrupts(command)
            && !self.off_taken
            && !is_read
    }

    /// Records the updates that were read, complete at `now`; `None`: they are not known, which holds nothing up. An
    /// update that runs ends the operation.
    pub fn updates_read(&mut self, now: Duration, updates: Option<&FirmwareUpdates>) {
        self.update_check.read_at = Some(now);
        if self.ended.is_none()
            && let Some(update) = updates.and_then(FirmwareUpdates::running)
        {
            self.ended = Some(Outcome::FirmwareUpdate(update.clone()));
        }
    }
}
