//! Work that waits for the disk.

use std::cell::Cell;

use tokio::task::JoinError;

thread_local! {
    static INLINE: Cell<bool> = const { Cell::new(false) };
}

/// Makes agents that run on this thread access the disk on it, too. A simulation with a virtual clock
/// has one thread, because the order of several would differ from run to run.
pub fn block_inline() {
    INLINE.set(true);
}

/// Whether this thread is one of a simulation.
pub(crate) fn is_inline() -> bool {
    INLINE.get()
}

/// Runs work that blocks, on a thread for such work.
///
/// # Errors
/// The work panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if is_inline() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}
