//! The lease that shows the agent that this process is alive (F17): the requests of the process end with it.

use std::{sync::Arc, time::Duration};

use futures::stream;
use rackhand_proto::v1::{self, power_client::PowerClient};
use rackhand_transport::classify;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tonic::{Code, Status, transport::Channel};

/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(3);
/// Time without an answer after which the connection is given up. The agent ends a lease after the same time.
const UNANSWERED: Duration = Duration::from_secs(15);
/// Time between two attempts to take a lease.
const AGAIN: Duration = Duration::from_millis(500);

/// A lease at one agent, from its first request until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    name: String,
    state: watch::Receiver<State>,
    renewing: AbortHandle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Not held now, with the reason.
    Lost(String),
    Held,
    /// The agent is of a version without leases.
    Unsupported,
}

impl Lease {
    /// Takes a lease, and renews it; it is taken again after a lost connection.
    pub(crate) fn take(client: PowerClient<Channel>) -> Arc<Self> {
        let name = uuid::Uuid::new_v4().to_string();
        let lost = State::Lost("the agent did not answer in time".to_owned());
        let (state, seen) = watch::channel(lost);
        let renewing = tokio::spawn(renew(client, name.clone(), state)).abort_handle();
        Arc::new(Self {
            name,
            state: seen,
            renewing,
        })
    }

    /// Waits until the lease is held, and returns its name; `None`: the agent is of a version without leases.
    ///
    /// # Errors
    ///
    /// It is not held within this time, with the reason.
    pub(crate) async fn held(&self, within: Duration) -> Result<Option<&str>, String> {
        let mut state = self.state.clone();
        let held = state.wait_for(|state| !matches!(state, State::Lost(_)));
        let found = match timeout(within, held).await {
            Ok(Ok(state)) => Some(state.clone()),
            Ok(Err(_)) | Err(_) => None,
        };
        match found.unwrap_or_else(|| self.state.borrow().clone()) {
            State::Held => Ok(Some(&self.name)),
            State::Unsupported => Ok(None),
            State::Lost(why) => Err(why),
        }
    }

    /// Whether the agent supports leases; `true` until it is known not to.
    pub(crate) fn is_supported(&self) -> bool {
        *self.state.borrow() != State::Unsupported
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

async fn renew(client: PowerClient<Channel>, name: String, state: watch::Sender<State>) {
    loop {
        let lost = renew_once(client.clone(), &name, &state).await;
        if lost.code() == Code::Unimplemented {
            state.send_replace(State::Unsupported);
            return;
        }
        state.send_replace(State::Lost(classify(&lost).message));
        sleep(AGAIN).await;
    }
}

/// Renews over one connection until the lease is lost.
async fn renew_once(
    mut client: PowerClient<Channel>,
    name: &str,
    state: &watch::Sender<State>,
) -> Status {
    let mut ticks = interval(RENEWAL);
    // After a pause of this process, one renewal is as good as many.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The stream of renewals ends with this task: the connection alone would go on with it.
    let (renewing, renewed) = mpsc::channel(1);
    let renewals = stream::unfold(renewed, async |mut renewed: mpsc::Receiver<_>| {
        Some((renewed.recv().await?, renewed))
    });
    let renewal = || v1::AttendRequest {
        caller: name.to_owned(),
    };
    ticks.tick().await;
    renewing.try_send(renewal()).ok();
    let unanswered = || Status::unavailable("the agent did not answer in time");
    let answers = match timeout(UNANSWERED, client.attend(renewals)).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(status)) => return status,
        Err(_) => return unanswered(),
    };
    let mut answers = answers.into_inner();
    let mut last = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => drop(renewing.try_send(renewal())),
            answer = answers.message() => match answer {
                Ok(Some(_)) => {
                    last = Instant::now();
                    state.send_replace(State::Held);
                }
                Ok(None) => return Status::unavailable("the agent has ended the lease"),
                Err(status) => return status,
            },
            () = sleep_until(last + UNANSWERED) => return unanswered(),
        }
    }
}
