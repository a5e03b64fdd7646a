//! Status writes of checks: only of a changed status, a few times per second at most, and less often the more
//! objects a status names.

use super::{CheckEngine, Done, panicked};
use crate::{
    checks::dialect::Dialect,
    store::{api::ApiError, object::Key, time_slice::beside},
};

impl<D: Dialect> CheckEngine<D> {
    /// Starts the status write of a check, if it is due.
    pub(super) fn write_status(&mut self, key: &Key) {
        let Self { dialect, parts, .. } = self;
        let schedule = parts.statuses.get_mut(key);
        if !schedule.is_some_and(|schedule| schedule.begin()) {
            return;
        }
        let names = dialect.names(key);
        let Some(status) = beside(names, || dialect.status(parts, key)) else {
            self.status_written(key, true);
            return;
        };
        let (context, key) = (parts.context.clone(), key.clone());
        let lost = Done::Status(key.clone(), Err(panicked()));
        parts.tasks.spawn(lost, async move {
            let written = D::write_status(&context, &key, &status).await;
            Done::Status(key, written)
        });
    }

    /// Applies the end of a status write.
    pub(super) fn status_ended(&mut self, key: &Key, result: &Result<(), ApiError>) {
        if let Err(error) = result {
            tracing::warn!(check = %key, %error, "cannot write the status of a health check; trying again");
        }
        self.status_written(key, result.is_ok());
    }

    fn status_written(&mut self, key: &Key, written: bool) {
        let Self { dialect, parts, .. } = self;
        if !written {
            dialect.status_failed(key);
        }
        let now = parts.now();
        let Some(schedule) = parts.statuses.get_mut(key) else {
            return;
        };
        let at = schedule.finish(written, dialect.names(key), now);
        parts.status_at(key, at);
    }
}
