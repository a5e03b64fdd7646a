//! The handle of an operation: its events so far, the next ones, and cancellation.

use std::{collections::VecDeque, sync::Arc};

use futures::Stream;
use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_agent_core::ledger::Device;
use rackhand_proto::{
    convert::{duration_to_proto, timestamp_to_proto},
    v1::{self, await_response::Event},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// Events kept for late listeners. A ten-minute operation polls about 300 times.
const HISTORY: usize = 512;

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) key: String,
    pub(crate) action: &'static str,
    pub(crate) device: Device,
    pub(crate) begun: Instant,
    /// Cancels it before its next command.
    pub(crate) cancel: CancellationToken,
    /// The operation that replaced this one.
    overtaken_by: Mutex<Option<String>>,
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// Number of the oldest event that is kept.
    first: u64,
    events: VecDeque<Arc<v1::AwaitResponse>>,
    accepted: Option<bool>,
    outcome: Option<v1::Outcome>,
}

impl Handle {
    pub(crate) fn new(
        id: String,
        host: String,
        key: String,
        action: &'static str,
        device: Device,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            host,
            key,
            action,
            device,
            begun: Instant::now(),
            cancel: CancellationToken::new(),
            overtaken_by: Mutex::default(),
            log: Mutex::default(),
            changed: watch::channel(()).0,
        })
    }

    /// Stops it before its next command in favour of another operation.
    pub(crate) fn overtake(&self, by: &str) {
        self.overtaken_by
            .lock()
            .get_or_insert_with(|| by.to_owned());
        self.cancel.cancel();
    }

    pub(crate) fn overtaken_by(&self) -> Option<String> {
        self.overtaken_by.lock().clone()
    }

    /// Waits until the journal has accepted or refused it.
    pub(crate) async fn accepted(&self) -> bool {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(accepted) = self.log.lock().accepted {
                return accepted;
            }
            if changed.changed().await.is_err() {
                return false;
            }
        }
    }

    pub(crate) fn set_accepted(&self, accepted: bool) {
        self.log.lock().accepted = Some(accepted);
        if accepted {
            self.event(Event::Accepted(v1::Accepted {}));
        } else {
            self.changed.send_replace(());
        }
    }

    pub(crate) fn event(&self, event: Event) {
        {
            let mut log = self.log.lock();
            if let Event::Outcome(outcome) = &event {
                if log.outcome.is_some() {
                    return;
                }
                log.outcome = Some(outcome.clone());
            }
            log.events.push_back(Arc::new(v1::AwaitResponse {
                at: Some(timestamp_to_proto(Timestamp::now())),
                elapsed: Some(duration_to_proto(self.begun.elapsed())),
                event: Some(event),
            }));
            if log.events.len() > HISTORY {
                // The first event reports that the operation was accepted; late listeners need it.
                log.events.remove(1);
                log.first += 1;
            }
        }
        self.changed.send_replace(());
    }

    pub(crate) fn outcome(&self) -> Option<v1::Outcome> {
        self.log.lock().outcome.clone()
    }

    pub(crate) fn status(&self) -> v1::OperationStatus {
        let outcome = self.outcome();
        v1::OperationStatus {
            operation_id: self.id.clone(),
            host: self.host.clone(),
            finished: outcome.is_some(),
            outcome,
        }
    }

    /// Everything so far, then each event as it happens; ends after the outcome.
    pub(crate) fn follow(self: Arc<Self>) -> impl Stream<Item = v1::AwaitResponse> + Send {
        let changed = self.changed.subscribe();
        futures::stream::unfold(
            (self, changed, 0_u64),
            |(handle, mut changed, next)| async move {
                loop {
                    match handle.at(next) {
                        Position::Event(number, event) => {
                            let event = v1::AwaitResponse::clone(&event);
                            return Some((event, (handle, changed, number + 1)));
                        }
                        Position::End => return None,
                        Position::Later => changed.changed().await.ok()?,
                    }
                }
            },
        )
    }

    /// The first event that has this number or a higher one.
    fn at(&self, next: u64) -> Position {
        let log = self.log.lock();
        if next == 0
            && let Some(event) = log.events.front()
        {
            return Position::Event(0, event.clone());
        }
        // After the first come the events from number `first + 1` on.
        let number = next.max(log.first + 1);
        let index = usize::try_from(number - log.first).unwrap_or(usize::MAX);
        match log.events.get(index) {
            Some(event) => Position::Event(number, event.clone()),
            None if log.outcome.is_some() => Position::End,
            None => Position::Later,
        }
    }
}

enum Position {
    Event(u64, Arc<v1::AwaitResponse>),
    End,
    Later,
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn reading(n: usize) -> Event {
        Event::Reading(v1::PowerReading {
            raw: n.to_string(),
            ..v1::PowerReading::default()
        })
    }

    fn handle() -> Arc<Handle> {
        let handle = Handle::new("op".into(), "h".into(), "k".into(), "off", Device::Bmc);
        handle.set_accepted(true);
        handle
    }

    #[tokio::test]
    async fn late_subscriber_receives_all_events_and_the_outcome() {
        let handle = handle();
        handle.event(reading(1));
        let mut early = Box::pin(handle.clone().follow());
        assert_eq!(
            early.next().await.unwrap().event,
            Some(Event::Accepted(v1::Accepted {}))
        );
        assert_eq!(early.next().await.unwrap().event, Some(reading(1)));
        let waiting = tokio::spawn(async move { (early.next().await, early) });
        handle.event(reading(2));
        let (event, early) = waiting.await.unwrap();
        assert_eq!(event.unwrap().event, Some(reading(2)));
        handle.event(Event::Outcome(v1::Outcome::default()));
        handle.event(Event::Outcome(v1::Outcome {
            message: "a second end is no end".into(),
            ..v1::Outcome::default()
        }));
        assert_eq!(early.count().await, 1);
        let late: Vec<_> = handle.follow().collect().await;
        assert_eq!(late.len(), 4);
    }

    #[tokio::test]
    async fn truncated_history_keeps_the_first_and_last_events() {
        let handle = handle();
        let slow = handle.clone().follow();
        for n in 1..=2000 {
            handle.event(reading(n));
        }
        handle.event(Event::Outcome(v1::Outcome::default()));
        for story in [
            slow.collect::<Vec<_>>().await,
            handle.follow().collect().await,
        ] {
            assert_eq!(story.len(), HISTORY);
            assert_eq!(story[0].event, Some(Event::Accepted(v1::Accepted {})));
            assert_eq!(story[HISTORY - 2].event, Some(reading(2000)));
            assert_eq!(story[1].event, Some(reading(2000 - (HISTORY - 3))));
        }
    }
}
