//! Files that are read again while they are in use.

use std::time::Duration;

use tracing::warn;

use super::TlsError;

/// Reloads files periodically; never returns. An invalid new set is logged once, and the previous set stays in use.
pub(super) async fn reload_every<F>(every: Duration, reload: F)
where
    F: Fn() -> Result<bool, TlsError> + Clone + Send + 'static,
{
    let mut said = None;
    loop {
        tokio::time::sleep(every).await;
        let error = match tokio::task::spawn_blocking(reload.clone()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if error != said
            && let Some(error) = &error
        {
            warn!(
                error,
                "new TLS files are not usable: the old ones stay in use"
            );
        }
        said = error;
    }
}
