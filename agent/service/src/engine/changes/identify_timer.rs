//! The timer that switches an identify LED off, for BMCs without one.

use std::time::Duration;

use rackhand_bmc::Identify;
use tokio::time::timeout;
use tracing::warn;

use super::{BmcChanges, Change, MIN_CALL_TIME};
use crate::engine::Target;

/// Longest wait of a LED for its turn to be switched off.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl BmcChanges {
    /// Switches a LED off after `time`, for a BMC without a timer; at once when the agent stops.
    pub(crate) fn switch_led_off_after(&self, time: Duration, target: Target, owner: String) {
        let (changer, stop) = (self.changer.clone(), self.tasks.stopping());
        self.tasks.spawn(async move {
            timeout(time, stop.cancelled()).await.ok();
            let change = Change {
                action: "identify",
                what: "identify LED out again".to_owned(),
                owner,
                minds_holds: false,
                force: false,
                id: None,
            };
            let host = target.host.clone();
            let limit = MIN_CALL_TIME.max(time.min(MAX_WAIT));
            let out = changer
                .now_or_in_turn(&target, limit, &change, |bmc| bmc.identify(Identify::Off))
                .await;
            if !matches!(out, Ok(Ok(_))) {
                warn!(
                    host,
                    "the identify LED may still be lit: put it out by hand"
                );
            }
        });
    }
}
