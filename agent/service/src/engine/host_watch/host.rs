//! One watched host: its subscribers, and what was read besides the power.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_agent_core::watch_schedule::{Extras, ReadRequests, Schedule};
use rackhand_bmc::{
    BmcError, ErrorKind, HardwareFault, HealthRollup, PowerState, SystemIdentity, SystemStop,
    operation::Expected,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::stream::Changes;
use crate::engine::{Target, target::Access};

/// A host whose BMC is read while it has subscribers.
pub(super) struct Host {
    /// Key of its target.
    pub(super) key: String,
    begun: Instant,
    state: Mutex<State>,
    wake: Notify,
    end: CancellationToken,
}

struct State {
    target: Target,
    schedule: Schedule,
    /// The last reading failed, or the host cannot be read.
    failure: Option<Failure>,
    stops: Option<StopReading>,
    health: Option<HealthReading>,
    subscribers: BTreeMap<u64, Subscriber>,
    /// What was last reported as changed; `None`: nothing yet.
    mark: Option<Mark>,
}

/// Why a host was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Bmc(BmcError),
    /// It left the inventory, or this agent no longer accepts its BMC.
    Gone,
}

/// The event log as it was read, as far as it is about stops.
#[derive(Debug, Clone)]
pub(super) struct StopReading {
    pub(super) at: Instant,
    pub(super) stop: Result<Option<SystemStop>, BmcError>,
}

/// The health as it was read.
#[derive(Debug, Clone)]
pub(super) struct HealthReading {
    pub(super) at: Instant,
    pub(super) rollup: Option<HealthRollup>,
    pub(super) faults: Vec<HardwareFault>,
    pub(super) failure: Option<BmcError>,
}

/// A stream that watches the host.
pub(super) struct Subscriber {
    pub(super) id: String,
    pub(super) expected: Expected,
    pub(super) health_interval: Option<Duration>,
    pub(super) changes: Arc<Changes>,
    requests: ReadRequests,
}

impl Subscriber {
    pub(super) fn new(
        id: String,
        expected: Expected,
        health_interval: Option<Duration>,
        changes: Arc<Changes>,
    ) -> Self {
        Self {
            id,
            expected,
            health_interval,
            changes,
            requests: ReadRequests::default(),
        }
    }
}

/// What is reported when it changes: everything of a reading but its age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// Kind and message of the failure.
    pub(super) failure: Option<(ErrorKind, String)>,
    /// The last reading, unless its observation was interrupted since.
    pub(super) last: Option<LastMark>,
}

/// The last reading of a [`Mark`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastMark {
    pub(super) observation: u64,
    pub(super) state: PowerState,
    pub(super) raw: String,
    /// Readings of this state, at most two: the second one confirms it, and further ones change nothing.
    pub(super) confirmed: u32,
    pub(super) identify_led: Option<bool>,
    pub(super) identity: SystemIdentity,
}

/// The state of a host for one subscriber.
pub(super) struct Snapshot {
    pub(super) target: Target,
    pub(super) id: String,
    pub(super) expected: Expected,
    pub(super) answered: u64,
    pub(super) failure: Option<Failure>,
    /// Time until the next reading, while the BMC suffers.
    pub(super) backoff: Option<Duration>,
    pub(super) stops: Option<StopReading>,
    pub(super) health: Option<HealthReading>,
}

impl Host {
    pub(super) fn new(target: Target, begun: Instant, seed: u64) -> Self {
        let interval = interval(&target);
        Self {
            key: target.key.clone(),
            begun,
            state: Mutex::new(State {
                schedule: Schedule::new(begun.elapsed(), interval, seed),
                target,
                failure: None,
                stops: None,
                health: None,
                subscribers: BTreeMap::new(),
                mark: None,
            }),
            wake: Notify::new(),
            end: CancellationToken::new(),
        }
    }

    pub(super) fn target(&self) -> Target {
        self.state.lock().target.clone()
    }

    pub(super) fn set_target(&self, target: Target) {
        let mut state = self.state.lock();
        state.schedule.set_interval(interval(&target));
        state.target = target;
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Waits until nobody watches the host any more.
    pub(super) async fn ended(&self) {
        self.end.cancelled().await;
    }

    pub(super) fn subscribe(&self, number: u64, subscriber: Subscriber) {
        let mut state = self.state.lock();
        subscriber.changes.add(&subscriber.id);
        state.subscribers.insert(number, subscriber);
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        self.state.lock().subscribers.remove(&number);
    }

    /// Ends the reader if the host has no subscriber, and forgets credentials that a caller has sent.
    pub(super) fn end_if_unwatched(&self) -> bool {
        let mut state = self.state.lock();
        let is_unwatched = state.subscribers.is_empty();
        if is_unwatched {
            self.end.cancel();
            if let Access::Sent { password, .. } = &mut state.target.access {
                *password = String::new().into();
            }
        }
        is_unwatched
    }

    /// Requests readings for a subscriber.
    pub(super) fn request(&self, number: u64, request: u64, extras: Extras) {
        let mut state = self.state.lock();
        let now = self.begun.elapsed();
        let Some(subscriber) = state.subscribers.get_mut(&number) else {
            return;
        };
        subscriber.requests.request(now, request, extras);
        state.schedule.request(now);
        drop(state);
        self.wake.notify_one();
    }

    /// Waits until the host is due.
    pub(super) async fn due(&self) {
        loop {
            let due = self.begun + self.state.lock().schedule.due();
            tokio::select! {
                () = sleep_until(due) => return,
                () = self.wake.notified() => {}
            }
        }
    }

    /// Records a reading that began at `since`, and reports it if it changes `mark`. Returns what is to be read besides.
    pub(super) fn read(
        &self,
        since: Instant,
        failure: Option<BmcError>,
        is_on: bool,
        mark: Mark,
    ) -> Extras {
        let now = Instant::now();
        let mut state = self.state.lock();
        let at = now.saturating_duration_since(self.begun);
        let began = since.saturating_duration_since(self.begun);
        let took = at.saturating_sub(began);
        state.schedule.read(at, took, failure.is_none());
        let is_answered = failure.is_none();
        state.failure = failure.map(Failure::Bmc);
        let health_age = state.health.as_ref().map(|health| health.at.elapsed());
        let mut extras = Extras::default();
        for subscriber in state.subscribers.values_mut() {
            if let Some(interval) = subscriber.health_interval {
                extras.health |= is_answered && health_age.is_none_or(|age| age >= interval);
            }
            let wanted = subscriber.requests.read(began);
            extras.stops |= wanted.stops && is_answered && is_on;
            extras.health |= wanted.health && is_answered;
        }
        if state.mark.as_ref() != Some(&mark) {
            state.mark = Some(mark);
            state.report();
        }
        extras
    }

    /// Records what was read besides, and answers the requests that have all they need.
    pub(super) fn complete(&self, stops: Option<StopReading>, health: Option<HealthReading>) {
        let mut state = self.state.lock();
        let mut is_changed = stops.is_some() || health.is_some();
        if stops.is_some() {
            state.stops = stops;
        }
        if health.is_some() {
            state.health = health;
        }
        for subscriber in state.subscribers.values_mut() {
            is_changed |= subscriber.requests.complete();
        }
        if is_changed {
            state.report();
        }
    }

    /// The host cannot be read any more: its reader ends, and who adds it again gets another one.
    pub(super) fn gone(&self) {
        let mut state = self.state.lock();
        state.failure = Some(Failure::Gone);
        state.report();
        self.end.cancel();
    }

    /// `None`: the stream does not watch it any more.
    pub(super) fn snapshot(&self, number: u64) -> Option<Snapshot> {
        let state = self.state.lock();
        let subscriber = state.subscribers.get(&number)?;
        let rest = || {
            let due = self.begun + state.schedule.due();
            due.saturating_duration_since(Instant::now())
        };
        Some(Snapshot {
            target: state.target.clone(),
            id: subscriber.id.clone(),
            expected: subscriber.expected.clone(),
            answered: subscriber.requests.answered(),
            failure: state.failure.clone(),
            backoff: state.schedule.backoff().map(|_| rest()),
            stops: state.stops.clone(),
            health: state.health.clone(),
        })
    }
}

impl State {
    /// Reports a change to every subscriber.
    fn report(&self) {
        for subscriber in self.subscribers.values() {
            subscriber.changes.add(&subscriber.id);
        }
    }
}

fn interval(target: &Target) -> Duration {
    let of_host = match &target.access {
        Access::Inventory(host) => host.watch_interval,
        Access::Sent { .. } => None,
    };
    of_host.unwrap_or(target.config.times.watch)
}
