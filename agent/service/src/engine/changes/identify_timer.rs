//! The timer that switches an identify LED off, for BMCs without one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_bmc::Identify;
use tokio::time::timeout;
use tracing::warn;

use super::{BmcChanges, Change, MIN_CALL_TIME};
use crate::engine::Target;

/// Longest wait of a LED for its turn to be switched off.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The latest change of each LED, by host. A timer that is not of the latest change does nothing, so that a LED that
/// is lit again stays lit for the whole new time. Hosts are those of the inventory and of the BMCs that a controller
/// names.
#[derive(Clone, Default)]
pub(super) struct LedTimers(Arc<Mutex<BTreeMap<String, u64>>>);

impl LedTimers {
    /// Records a change of the LED, which ends earlier timers. Returns its number.
    fn begin(&self, host: &str) -> u64 {
        let mut latest = self.0.lock();
        let number = latest.entry(host.to_owned()).or_insert(0);
        *number = number.wrapping_add(1);
        *number
    }

    fn is_latest(&self, host: &str, number: u64) -> bool {
        self.0.lock().get(host) == Some(&number)
    }
}

impl BmcChanges {
    /// Ends the timer of a LED that was set by a later change.
    pub(crate) fn end_led_timer(&self, host: &str) {
        self.leds.begin(host);
    }

    /// Switches a LED off after `time`, for a BMC without a timer; at once when the agent stops. Does nothing if the
    /// LED was set again meanwhile.
    pub(crate) fn switch_led_off_after(&self, time: Duration, target: Target, owner: String) {
        let (changer, stop) = (self.changer.clone(), self.tasks.stopping());
        let (leds, number) = (self.leds.clone(), self.leds.begin(&target.host));
        self.tasks.spawn(async move {
            timeout(time, stop.cancelled()).await.ok();
            if !leds.is_latest(&target.host, number) {
                return;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_of_a_led_ends_with_the_next_change_of_that_led() {
        let leds = LedTimers::default();
        let (first, other) = (leds.begin("h1"), leds.begin("h2"));
        assert!(leds.is_latest("h1", first));
        let second = leds.begin("h1");
        assert!(!leds.is_latest("h1", first) && leds.is_latest("h1", second));
        assert!(leds.is_latest("h2", other));
    }
}
