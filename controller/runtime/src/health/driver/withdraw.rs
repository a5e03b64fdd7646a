//! Finds the requests that have lost the check that made them, and has them withdrawn.

use std::time::{Duration, Instant};

use super::{
    Driver,
    carry::{Done, UnderWay},
};
use crate::{
    api::ApiError,
    health::withdrawal::{Dialect, Made},
    object::{Key, Kind},
    remediation::RequestId,
};

/// Pause before a request is examined again that was not withdrawn: the API server did not answer, or
/// knows more than the index.
const AGAIN: Duration = Duration::from_secs(5);

impl Driver {
    /// Examines the known requests that fit.
    pub(super) fn examine_requests(&mut self, fits: impl Fn(&Made) -> bool) {
        let indexed = self.context.index.requests().into_iter();
        let indexed =
            indexed.filter_map(|(_, entry)| Made::read(&entry.object, Dialect::ClusterApi));
        let others = self.others.made(Dialect::ClusterApi);
        let all: Vec<Made> = indexed.chain(others).filter(fits).collect();
        for made in all {
            self.examine(made);
        }
    }

    /// Examines the requests of one Machine.
    pub(super) fn examine_machine(&mut self, machine: &Key) {
        for kind in Kind::REQUESTS {
            let id = RequestId::new(kind, machine.clone());
            let entry = self.context.index.request(&id);
            if let Some(made) =
                entry.and_then(|entry| Made::read(&entry.object, Dialect::ClusterApi))
            {
                self.examine(made);
            }
        }
    }

    /// Has a request withdrawn if it is orphaned.
    pub(super) fn examine(&mut self, made: Made) {
        let index = &self.context.index;
        if self.withdrawing.contains(&made.uid) || !made.is_orphan_by_index(index) {
            return;
        }
        self.withdrawing.insert(made.uid.clone());
        let context = self.context.clone();
        self.spawn(UnderWay::Withdrawal(made.clone()), async move {
            let withdrawn = made.withdraw(&context).await;
            Done::Withdrawn(made, withdrawn)
        });
    }

    pub(super) fn withdrawn(&mut self, made: Made, result: &Result<bool, ApiError>, now: Instant) {
        match result {
            Ok(true) => {
                self.withdrawing.remove(&made.uid);
            }
            Ok(false) => {
                self.withdraw_again.insert((now + AGAIN, made));
            }
            Err(error) => {
                let (kind, request) = (&made.kind, &made.key);
                tracing::warn!(%kind, %request, %error, "an orphaned request was not withdrawn; trying again");
                self.withdraw_again.insert((now + AGAIN, made));
            }
        }
    }

    pub(super) fn withdraw_due(&mut self, now: Instant) {
        while let Some((at, _)) = self.withdraw_again.first()
            && *at <= now
        {
            let Some((_, made)) = self.withdraw_again.pop_first() else {
                return;
            };
            self.withdrawing.remove(&made.uid);
            self.examine(made);
        }
    }
}
