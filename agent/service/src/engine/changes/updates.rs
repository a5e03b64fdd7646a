//! The updates of firmware before a change that would end one.
//!
//! Must never: let an answer count for longer than before a power command.

use std::time::Duration;

use rackhand_bmc::{
    Accepted, ErrorKind,
    operation::{Expected, MOST_LATE, TOO_SLOW, UPDATES_COUNT_FOR, longer_limit, updates_limit},
};
use tokio::time::{Instant, timeout};

use crate::engine::{Target, bmcs::clients::Clients};

/// What is known about the updates of one host before a change.
pub(super) struct Updates<'a> {
    clients: &'a Clients,
    pub(super) target: &'a Target,
    expected: &'a Expected,
    /// The end of the change.
    end: Instant,
    /// Until when the last answer counts; `None`: there was none, or it is not asked for.
    counts_until: Option<Instant>,
    /// Why it is not known whether an update runs.
    unknown: Option<String>,
    /// How often the change was held back because the BMC took too long before it.
    late: u32,
}

impl<'a> Updates<'a> {
    pub(super) fn new(
        clients: &'a Clients,
        target: &'a Target,
        expected: &'a Expected,
        end: Instant,
    ) -> Self {
        Self {
            clients,
            target,
            expected,
            end,
            counts_until: None,
            unknown: None,
            late: 0,
        }
    }

    /// What is left of the time of the change.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Until when the change may be sent. A BMC that was too slow twice gets it, and the updates count as not known.
    pub(super) fn counts_until(&self) -> Option<Instant> {
        self.counts_until.filter(|_| self.late < MOST_LATE)
    }

    /// The change was held back because that time had passed.
    pub(super) fn was_late(&mut self) {
        self.late = self.late.saturating_add(1);
    }

    /// Reads the updates.
    ///
    /// # Errors
    /// An update runs; the text says which.
    pub(super) async fn read(&mut self) -> Result<(), String> {
        let (clients, target) = (self.clients, self.target);
        // How fast the BMC is now, as before a power-off.
        let begun = Instant::now();
        let reading = clients.read_now(target, self.expected);
        let _ = timeout(self.third(), reading).await;
        let limit = updates_limit(begun.elapsed()).min(self.third());
        let asked = Instant::now();
        let mut found = clients.firmware_updates(target, limit).await;
        let longer = found.as_ref().ok();
        let longer = longer.and_then(|found| longer_limit(limit, asked.elapsed(), found));
        if let Some(longer) = longer
            .map(|longer| longer.min(self.third()))
            .filter(|longer| *longer > limit)
        {
            found = clients.firmware_updates(target, longer).await;
        }
        let now = Instant::now();
        (self.counts_until, self.unknown) = match found {
            Ok(updates) => match updates.running() {
                Some(update) => {
                    return Err(format!(
                        "host {}: firmware is being updated: {update}; nothing was changed. Wait for its end, or ask \
                         again with --during-firmware-update",
                        target.host
                    ));
                }
                None => (Some(now + UPDATES_COUNT_FOR), updates.unknown()),
            },
            Err(error) if error.kind == ErrorKind::Unsupported => (None, None),
            Err(error) => (None, Some(error.message)),
        };
        Ok(())
    }

    fn third(&self) -> Duration {
        self.left() / 3
    }

    /// The result of the change, with why the updates were not known.
    pub(super) fn told(self, accepted: Accepted) -> Accepted {
        let is_late = self.late >= MOST_LATE;
        let too_slow = || is_late.then(|| TOO_SLOW.to_owned());
        match self.unknown.or_else(too_slow) {
            Some(why) => Accepted {
                answer: format!(
                    "{}; whether firmware is being updated was not known: {why}",
                    accepted.answer
                ),
                ..accepted
            },
            None => accepted,
        }
    }
}
