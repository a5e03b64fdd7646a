//! Staggered power-on: waiting for the PDU of a host before it is switched on.
//!
//! The rule is `rackhand_agent_core::power_on_stagger`. A power-off never waits here.

use std::time::Duration;

use parking_lot::Mutex;
use rackhand_agent_core::power_on_stagger::{Schedule, StaggerDecision};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The power-ons that wait for their PDUs.
#[derive(Debug)]
pub(crate) struct PowerOnStagger {
    begun: Instant,
    schedule: Mutex<Schedule>,
    changed: watch::Sender<()>,
}

impl Default for PowerOnStagger {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            schedule: Mutex::default(),
            changed: watch::channel(()).0,
        }
    }
}

/// A place in the queue of a PDU; dropping it frees the place.
struct Ticket<'a> {
    stagger: &'a PowerOnStagger,
    pdu: &'a str,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.stagger.schedule.lock().leave(self.pdu, self.number);
        self.stagger.recompute();
    }
}

impl PowerOnStagger {
    /// Number of power-ons that wait.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.schedule.lock().waiting()
    }

    /// Computes every wait anew, after a place was freed or an interval changed.
    pub(in crate::engine) fn recompute(&self) {
        self.changed.send_replace(());
    }

    /// Waits until the PDU may take one more power-on. `report` gets the expected wait and the
    /// number of power-ons ahead, first and whenever the estimate changes by half an interval.
    pub(super) async fn wait(
        &self,
        pdu: &str,
        interval: impl Fn() -> Duration,
        report: impl Fn(Duration, usize),
    ) {
        let mut changed = self.changed.subscribe();
        let number = self.schedule.lock().join(pdu);
        let ticket = Ticket {
            stagger: self,
            pdu,
            number,
        };
        let mut reported = None;
        loop {
            changed.mark_unchanged();
            let interval = interval();
            let now = self.begun.elapsed();
            let turn = self.schedule.lock().ask(pdu, ticket.number, interval, now);
            let StaggerDecision::Wait { until, ahead } = turn else {
                return;
            };
            // Every power-on ahead shifts the estimate by a little; that is not worth a report.
            if reported.is_none_or(|at: Duration| at.abs_diff(until) * 2 > interval) {
                reported = Some(until);
                report(until.saturating_sub(now), ahead);
            }
            tokio::select! {
                () = sleep_until(self.begun + until) => {}
                _ = changed.changed() => {}
            }
        }
    }
}
