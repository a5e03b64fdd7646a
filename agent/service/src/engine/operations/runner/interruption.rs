//! The interruption of an operation: its cancellation, the end of its caller, or the stop of the agent.

use std::sync::atomic::{AtomicBool, Ordering};

use rackhand_bmc::operation::Signal;
use tokio_util::sync::CancellationToken;

/// What may interrupt one operation.
pub(in crate::engine::operations) struct Interruption {
    /// Cancels it before its next command.
    cancel: CancellationToken,
    /// Cancelled when the lease of its caller ends (F17); `None`: the operation lasts until its deadline.
    caller: Option<CancellationToken>,
    /// Cancelled when the agent stops.
    stop: CancellationToken,
    /// Whether the operation has noticed the end of the lease, which no longer interrupts it.
    knows_caller_gone: AtomicBool,
}

impl Interruption {
    pub(in crate::engine::operations) fn new(
        cancel: CancellationToken,
        caller: Option<CancellationToken>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            cancel,
            caller,
            stop,
            knows_caller_gone: AtomicBool::new(false),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    pub(super) fn signal(&self) -> Signal {
        if self.cancel.is_cancelled() {
            Signal::Cancel
        } else if self.stop.is_cancelled() {
            Signal::Stop
        } else if self.is_caller_gone() {
            Signal::CallerGone
        } else {
            Signal::Continue
        }
    }

    /// Whether the operation is interrupted now, other than by the end of its caller that it has noticed.
    pub(super) fn is_now(&self) -> bool {
        match self.signal() {
            Signal::Continue => false,
            Signal::CallerGone => !self.knows_caller_gone.load(Ordering::Relaxed),
            Signal::Cancel | Signal::Stop => true,
        }
    }

    /// Completes when the operation is interrupted.
    pub(in crate::engine::operations) async fn wait(&self) {
        tokio::select! {
            () = self.cancelled_or_alone() => {}
            () = self.stopped() => {}
        }
    }

    /// Completes when the operation is cancelled, or its caller is gone.
    pub(super) async fn cancelled_or_alone(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.caller_gone() => {}
        }
    }

    /// Completes when the agent stops.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Records that the operation has noticed the end of its caller. `true`: for the first time.
    pub(super) fn notice_caller_gone(&self) -> bool {
        !self.knows_caller_gone.swap(true, Ordering::Relaxed)
    }

    fn is_caller_gone(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(CancellationToken::is_cancelled)
    }

    /// Completes when the caller is gone, unless the operation has noticed that already.
    async fn caller_gone(&self) {
        match &self.caller {
            Some(caller) if !self.knows_caller_gone.load(Ordering::Relaxed) => {
                caller.cancelled().await;
            }
            _ => std::future::pending().await,
        }
    }
}
