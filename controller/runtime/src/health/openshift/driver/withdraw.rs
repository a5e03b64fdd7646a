//! Finds the requests that have lost the check of OpenShift that made them, and has them withdrawn.

use std::time::{Duration, Instant};

use super::{Done, Driver, UnderWay};
use crate::{
    api::ApiError,
    health::withdrawal::{Dialect, Made},
};

/// Pause before a request is examined again that was not withdrawn: the API server did not answer, or
/// knows more than the index.
const AGAIN: Duration = Duration::from_secs(5);

impl Driver {
    /// Examines the known requests, and again those that are due.
    pub(super) fn examine_requests(&mut self, now: Instant) {
        let mut all = Vec::new();
        while let Some((at, _)) = self.withdraw_again.first()
            && *at <= now
        {
            if let Some((_, made)) = self.withdraw_again.pop_first() {
                self.withdrawing.remove(&made.uid);
                all.push(made);
            }
        }
        let indexed = self.context.index.requests().into_iter();
        all.extend(indexed.filter_map(|(_, entry)| Made::read(&entry.object, Dialect::OpenShift)));
        all.extend(self.others.made(Dialect::OpenShift));
        for made in all {
            self.examine(made);
        }
    }

    /// Has a request withdrawn if it is orphaned.
    fn examine(&mut self, made: Made) {
        let index = &self.context.index;
        if self.withdrawing.contains(&made.uid) || !made.is_orphan_by_index(index) {
            return;
        }
        self.withdrawing.insert(made.uid.clone());
        let (context, of_task) = (self.context.clone(), made.clone());
        let task = async move {
            let withdrawn = of_task.withdraw(&context).await;
            Done::Withdrawn(of_task, withdrawn)
        };
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, UnderWay::Withdrawal(made));
    }

    pub(super) fn withdrawn(&mut self, made: Made, result: &Result<bool, ApiError>) {
        if let Ok(true) = result {
            self.withdrawing.remove(&made.uid);
            return;
        }
        if let Err(error) = result {
            let (kind, request) = (&made.kind, &made.key);
            tracing::warn!(%kind, %request, %error, "an orphaned request was not withdrawn; trying again");
        }
        self.withdraw_again.insert((Instant::now() + AGAIN, made));
    }
}
