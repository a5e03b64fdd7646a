//! Status writes of checks: only of a changed status, a few times per second at most, and less often the more
//! objects a status names.

use std::time::Instant;

use super::{
    CheckEngine, Timer,
    results::{Done, panicked},
};
use crate::{
    checks::dialect::{Dialect, Evaluated},
    store::{api::ApiError, object::Key},
};

impl<D: Dialect> CheckEngine<D> {
    /// Schedules a status write of a check.
    pub(in crate::checks) fn status_due(&mut self, key: &Key) {
        if let Some(check) = self.checks.get_mut(key) {
            let at = check.progress().pace.request();
            self.status_at(key, at);
        }
    }

    fn status_at(&mut self, key: &Key, at: Option<Instant>) {
        if let Some(at) = at {
            self.schedule.set(at, Timer::Status(key.clone()));
        }
    }

    pub(super) fn write_status(&mut self, key: &Key) {
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let progress = check.progress();
        if progress.dry_run {
            progress.pace.skip();
        }
        if !progress.pace.begin() {
            return;
        }
        let Some(summary) = D::summary(self, key) else {
            self.status_written(key, true);
            return;
        };
        let (context, key) = (self.context.clone(), key.clone());
        let lost = Done::Status(key.clone(), Err(panicked()));
        self.tasks.spawn(lost, async move {
            let written = D::write_status(&context, &key, &summary).await;
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
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        if !written {
            D::status_failed(check);
        }
        let names = check.names();
        let at = check.progress().pace.finish(written, names, Instant::now());
        self.status_at(key, at);
    }
}
