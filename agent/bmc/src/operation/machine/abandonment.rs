//! Operations whose caller is gone (F17).

use std::time::Duration;

use super::{Operation, Phase};
use crate::{
    PowerState,
    operation::{Goal, Outcome},
};

/// Minimum time for the power-on of a cycle that ends early.
const LAST_ON: Duration = Duration::from_secs(120);

impl Operation {
    /// The caller is gone: no further power-off is sent. A cycle that may have switched its host off goes on to
    /// its power-on; everything else ends with [`Outcome::CallerGone`].
    pub fn abandon(&mut self, now: Duration) {
        if self.abandoned || self.cancelled || self.ended.is_some() {
            return;
        }
        self.abandoned = true;
        if !matches!(self.request.goal, Goal::Cycle { .. }) || self.sends == 0 {
            self.ended = Some(Outcome::CallerGone { is_on: false });
            return;
        }
        self.cut_short(now);
    }

    /// A cycle that has sent commands sends no further power-off, and goes on to its power-on.
    pub(super) fn cut_short(&mut self, now: Duration) {
        let deadline = now.saturating_add(LAST_ON);
        self.request.deadline = self.request.deadline.max(deadline);
        if self.phase == Phase::Off {
            let sent = self.sent_at.unwrap_or(now);
            let was_seen = self
                .seen
                .is_some_and(|(state, at)| state == PowerState::Off && at >= sent);
            let settled = sent.saturating_add(self.request.timing.resend_settling);
            self.late_off = (!was_seen).then_some(settled);
            self.is_cut_short = true;
            self.enter(Phase::On, now);
            // A host that is still powering off is not switched on before it is off.
            self.sent_at = Some(sent);
        }
    }

    /// Whether the operation goes on although its caller is gone.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned && self.ended.is_none()
    }

    /// Whether a reading of on that began at `begun` may precede the effect of an earlier power-off.
    pub(super) fn may_still_go_off(&mut self, begun: Duration, state: PowerState) -> bool {
        if state == PowerState::Off {
            self.late_off = None;
        }
        self.late_off.is_some_and(|until| begun < until)
    }
}
