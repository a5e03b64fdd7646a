//! Waiting for the turn of a PDU before a power-on.
//!
//! The rule is in `turns`. Must never: hold up a power-off, or count the wait as time of the
//! operation.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_bmc::operation::Operation;
use rackhand_proto::{
    convert::timestamp_to_proto,
    v1::{self, await_response::Event},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::info;

use super::{
    run::{Run, Stop},
    turns::{Feeds, Turn},
};

/// For so long a turn may be used: before it is, the BMC is read once more.
const VALID: Duration = Duration::from_secs(30);

/// Everybody who waits for a PDU.
#[derive(Debug)]
pub(crate) struct Turns {
    begun: Instant,
    feeds: Mutex<Feeds>,
    moved: watch::Sender<()>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            feeds: Mutex::default(),
            moved: watch::channel(()).0,
        }
    }
}

impl Turns {
    pub(super) fn waiting(&self) -> usize {
        self.feeds.lock().waiting()
    }

    /// Everybody asks again: somebody has left, or the intervals are others.
    pub(super) fn wake(&self) {
        self.moved.send_replace(());
    }
}

/// A turn that was given, and not used yet.
#[derive(Debug, Default)]
pub(super) struct Granted(Option<Instant>);

impl Granted {
    pub(super) fn is_valid(&self) -> bool {
        self.0.is_some_and(|at| at.elapsed() < VALID)
    }
}

/// A number at a PDU; dropping it gives it back.
struct Number<'a> {
    turns: &'a Turns,
    pdu: &'a str,
    number: u64,
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.turns.feeds.lock().leave(self.pdu, self.number);
        self.turns.wake();
    }
}

impl Run {
    /// Waits until the host's PDU may take one more, without a turn at the BMC.
    pub(super) async fn pdu_turn(
        &self,
        op: &mut Operation,
        granted: &mut Granted,
    ) -> Result<(), Stop> {
        let Some(pdu) = self.target.pdu() else {
            granted.0 = Some(Instant::now());
            return Ok(());
        };
        let turns = &self.shared.turns;
        let mut moved = turns.moved.subscribe();
        let number = turns.feeds.lock().join(pdu);
        let number = Number { turns, pdu, number };
        let (begun, mut told) = (Instant::now(), None);
        let result = loop {
            moved.mark_unchanged();
            let interval = self.shared.config.load().staging.of(pdu);
            let now = turns.begun.elapsed();
            let turn = turns.feeds.lock().ask(pdu, number.number, interval, now);
            let Turn::Wait { until, ahead } = turn else {
                granted.0 = Some(Instant::now());
                break Ok(());
            };
            // Each that goes before it moves its own turn by a breath; that is no news.
            let news = told.is_none_or(|told: Duration| told.abs_diff(until) * 2 > interval);
            if news {
                told = Some(until);
                self.tell_wait(pdu, until.saturating_sub(now), ahead);
            }
            tokio::select! {
                () = sleep_until(turns.begun + until) => {}
                _ = moved.changed() => {}
                () = self.handle.cancel.cancelled() => break Ok(()),
                () = self.shared.stop.cancelled() => break Err(Stop::Agent),
            }
        };
        op.extend(begun.elapsed());
        result
    }

    fn tell_wait(&self, pdu: &str, rest: Duration, ahead: usize) {
        let now = Timestamp::now();
        let until = now.checked_add(rest).unwrap_or(now);
        let reason = format!("waits for the turn of its PDU {pdu}, {ahead} before it");
        info!(operation = %self.handle.id, host = %self.handle.host, %until, "{reason}");
        self.handle.event(Event::Waiting(v1::Waiting {
            reason,
            until: Some(timestamp_to_proto(until)),
        }));
    }
}
