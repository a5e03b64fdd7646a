//! The watches of a dialect, besides those of the index.

use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Running watches, which report events `E`.
pub(in crate::checks) struct Watches<E> {
    sender: mpsc::UnboundedSender<E>,
    running: JoinSet<()>,
    /// Ends all watches.
    end: CancellationToken,
}

// === impl Watches ===

impl<E> Watches<E> {
    /// No watch, and the receiver of the events.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<E>) {
        let (sender, events) = mpsc::unbounded_channel();
        let watches = Self {
            sender,
            running: JoinSet::new(),
            end: CancellationToken::new(),
        };
        (watches, events)
    }

    /// The sender of the events.
    pub(in crate::checks) fn sender(&self) -> mpsc::UnboundedSender<E> {
        self.sender.clone()
    }

    /// The token that ends all watches.
    pub(in crate::checks) fn end_token(&self) -> &CancellationToken {
        &self.end
    }

    /// Starts a watch.
    pub(in crate::checks) fn spawn(&mut self, watch: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(watch);
    }

    /// Tells all watches to end.
    pub(super) fn cancel(&self) {
        self.end.cancel();
    }

    /// Waits until all watches have ended.
    pub(super) async fn ended(&mut self) {
        while self.running.join_next().await.is_some() {}
    }
}
