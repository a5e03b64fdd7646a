//! One client call: its time limit, whether a new login is allowed, and whether a command was sent.
//!
//! Owns: the limit and two flags. Must never: outlive its call.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{http::Silence, reporter::Reporter};
use crate::{BmcError, BmcFuture, ErrorKind};

/// The flags of one call.
#[derive(Debug)]
pub(crate) struct Call {
    deadline: Instant,
    silence: Silence,
    logged_in_again: AtomicBool,
    command_sent: AtomicBool,
    /// Whether a command was sent at all, also one that was refused.
    has_commanded: AtomicBool,
}

/// Time that one exchange may take after a pause.
const EXCHANGE: Duration = Duration::from_secs(2);

impl Call {
    fn new(limit: Duration, silence: Silence) -> Self {
        Self {
            silence,
            deadline: Instant::now() + limit,
            logged_in_again: AtomicBool::new(false),
            command_sent: AtomicBool::new(false),
            has_commanded: AtomicBool::new(false),
        }
    }

    pub(super) fn silence(&self) -> Silence {
        self.silence
    }

    /// What is left of the time limit.
    pub(in crate::redfish) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Pauses, if the pause and another exchange fit into the time limit.
    pub(in crate::redfish) async fn may_pause(&self, pause: Duration) -> bool {
        let fits = Instant::now() + pause + EXCHANGE < self.deadline;
        if fits {
            tokio::time::sleep(pause).await;
        }
        fits
    }

    /// Returns `true` once: a second 401 in one call does not mean an expired session, and further
    /// logins would lock the account.
    pub(super) fn may_log_in_again(&self) -> bool {
        !self.logged_in_again.swap(true, Ordering::Relaxed)
    }

    /// From here on, an interrupted call may have delivered the command.
    pub(crate) fn command_is_sent(&self) {
        self.command_sent.store(true, Ordering::Relaxed);
        self.has_commanded.store(true, Ordering::Relaxed);
    }

    /// The BMC has responded that it will not execute the command.
    pub(crate) fn command_is_refused(&self) {
        self.command_sent.store(false, Ordering::Relaxed);
    }

    /// Whether an error of this call came before a command.
    fn sent_nothing(&self) -> bool {
        !self.has_commanded.load(Ordering::Relaxed)
    }

    pub(super) fn command_may_be_sent(&self) -> bool {
        self.command_sent.load(Ordering::Relaxed)
    }
}

/// Runs a call within its time limit.
pub(crate) fn bounded<'a, T, F>(
    limit: Duration,
    reporter: &'a Reporter,
    work: impl FnOnce(Arc<Call>) -> F,
) -> BmcFuture<'a, T>
where
    F: Future<Output = Result<T, BmcError>> + Send + 'a,
    T: Send + 'a,
{
    bounded_with(Silence::GivesUp, limit, reporter, work)
}

/// The same for a call that treats silent connections in this way.
pub(in crate::redfish) fn bounded_with<'a, T, F>(
    silence: Silence,
    limit: Duration,
    reporter: &'a Reporter,
    work: impl FnOnce(Arc<Call>) -> F,
) -> BmcFuture<'a, T>
where
    F: Future<Output = Result<T, BmcError>> + Send + 'a,
    T: Send + 'a,
{
    let call = Arc::new(Call::new(limit, silence));
    let work = work(Arc::clone(&call));
    Box::pin(async move {
        let result = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let message = format!("no result within {limit:?}");
            Err(BmcError {
                maybe_sent: call.command_may_be_sent(),
                ..reporter.error(ErrorKind::Timeout, message)
            })
        });
        result.map_err(|error| BmcError {
            not_sent: error.not_sent || call.sent_nothing(),
            ..error
        })
    })
}
