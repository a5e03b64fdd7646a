//! Carries out what machines want, each for itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::{Action, RequestView, Verdict};

use super::Driver;
use crate::{
    api::ApiError,
    health::{
        actions::{self, Acted},
        conditions::{Shown, machine_conditions},
        queue::Item,
        recipe::{self, Read, Unusable},
        shown::stale_view,
        status::{check_status, report_invalid},
        withdrawal::Made,
    },
    object::Key,
    sync::SyncError,
};

/// When to look again for what could not be requested: a missing template sends no event when it
/// comes.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// When to look again for a request that was made by somebody else and is not seen yet.
const SEE_AGAIN: Duration = Duration::from_secs(1);

/// What a task is for.
pub(super) enum UnderWay {
    Machine(Item),
    Recipe(Key),
    Status(Key),
    Report(Key),
    Withdrawal(Made),
    Sync(Key, u64),
}

/// What a task came to.
pub(super) enum Done {
    Acted(Item, Result<Acted, ApiError>),
    Written(Item, Option<Acted>, Result<(), ApiError>),
    Recipe(Key, Result<Read, ApiError>),
    Status(Key, Result<(), ApiError>),
    Report(Key, Result<(), ApiError>),
    Withdrawn(Made, Result<bool, ApiError>),
    Synced(Key, u64, Result<(), SyncError>),
}

impl Driver {
    /// Gives every machine its turn for which there is room.
    pub(super) fn dispatch(&mut self) {
        while let Some(item) = self.queue.pop() {
            self.turn(item);
        }
    }

    pub(super) fn spawn(
        &mut self,
        what: UnderWay,
        task: impl Future<Output = Done> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, what);
    }

    /// Asks the fleet now, and not when the machine was put into the queue (F10).
    fn turn(&mut self, item: Item) {
        let Some(watched) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = watched.fleet.wanted(&item.machine) else {
            return;
        };
        if self.shared.yields(&item) {
            // Another check acts for it, and says so on the Machine.
            self.acted.remove(&item);
            if self.unmade.remove(&item).is_some() {
                self.status_due(&item.check);
            }
            return;
        }
        let is_due = matches!(
            wanted.action,
            Some(Action::CreateRequest { .. } | Action::ReportForeignRequest { .. })
        );
        let idle = self.held.contains(&item) || self.acted.contains_key(&item);
        let action = wanted.action.filter(|_| !idle);
        if watched.spec.dry_run {
            if let Some(action) = action {
                tracing::info!(check = %item.check, action = action.label(), machine = action.machine(), "dry run: not done");
            }
            return;
        }
        let shown = Shown {
            uid: wanted.uid.to_owned(),
            health: wanted.condition,
            acted: None,
            healthy: *wanted.verdict == Verdict::Healthy && !watched.fleet.paused(),
        };
        if !is_due && self.unmade.remove(&item).is_some() {
            self.status_due(&item.check);
        }
        let waits = action.as_ref().is_some_and(Action::hands_over) && !self.is_cleared(&item);
        match action.filter(|_| !waits) {
            None => self.show(item, shown),
            Some(Action::CreateRequest { uid, .. }) => self.create(item, uid),
            Some(Action::DeleteRequest { .. }) => self.delete(item),
            Some(Action::MarkOwnerRemediated { .. }) => self.show(
                item,
                Shown {
                    acted: Some(Acted::ForOwner),
                    ..shown
                },
            ),
            Some(Action::UnmarkOwnerRemediated { .. }) => self.show(
                item,
                Shown {
                    acted: Some(Acted::TakenBack),
                    ..shown
                },
            ),
            Some(Action::ReportForeignRequest { owner, .. }) => {
                let unusable = Unusable {
                    reason: "RemediationRequestCreationFailed",
                    why: format!("a request of this name exists and belongs to {owner}; delete it"),
                };
                self.complain(&item, Some(&unusable));
                let acted = Acted::NotRequested(unusable);
                self.show(
                    item,
                    Shown {
                        acted: Some(acted),
                        ..shown
                    },
                );
            }
        }
    }

    fn show(&mut self, item: Item, mut shown: Shown) {
        let earlier = self.acted.remove(&item);
        // A machine that has recovered meanwhile shows nothing of what was done before.
        shown.acted = earlier.filter(|_| !shown.healthy).or(shown.acted);
        let context = self.context.clone();
        self.queue.begin(item.clone());
        self.spawn(UnderWay::Machine(item.clone()), async move {
            let written = machine_conditions(&context, &item.check, &item.key(), &shown).await;
            Done::Written(item, shown.acted, written)
        });
    }

    fn create(&mut self, item: Item, uid: String) {
        let Some(watched) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(template) = watched.spec.view.remediation_template.clone() else {
            return;
        };
        let context = self.context.clone();
        let Some(read) = watched.shelf.fresh(Instant::now()).cloned() else {
            let check = item.check.clone();
            self.parked.insert(item);
            if !watched.shelf.reading {
                watched.shelf.reading = true;
                self.spawn(UnderWay::Recipe(check.clone()), async move {
                    let read = recipe::read(&context, &check.namespace, template).await;
                    Done::Recipe(check, read)
                });
            }
            return;
        };
        // From here on it may exist, and counts as such.
        self.creating.insert(item.clone());
        let now = Timestamp::now();
        watched
            .fleet
            .set_request(&item.machine, RequestView::Open, now);
        self.queue.begin(item.clone());
        let check = item.check.clone();
        let maker = watched.spec.view.meta.uid.clone();
        self.spawn(UnderWay::Machine(item.clone()), async move {
            let key = item.key();
            let known = context.index.machine(&key);
            let check = &item.check;
            let made = actions::create(&context, check, &maker, &key, known, &uid, read).await;
            Done::Acted(item, made)
        });
        self.settle(&check);
    }

    fn delete(&mut self, item: Item) {
        let Some(watched) = self.checks.get(&item.check) else {
            return;
        };
        let Some(template) = watched.spec.view.remediation_template.clone() else {
            return;
        };
        let context = self.context.clone();
        let spec = &watched.spec;
        let uid = spec.request_uid(&context, &self.others, &item.key());
        self.queue.begin(item.clone());
        self.spawn(UnderWay::Machine(item.clone()), async move {
            let deleted = match uid {
                Some(uid) => actions::delete(&context, &template, &item.key(), uid).await,
                None => Ok(Acted::Withdrawn),
            };
            Done::Acted(item, deleted)
        });
    }

    /// A task is over.
    pub(super) fn finish(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Acted(item, result) => self.acted(&item, result, now),
            Done::Written(item, acted, result) => self.written(&item, acted, result, now),
            Done::Recipe(check, result) => self.recipe(&check, result, now),
            Done::Status(check, result) => {
                let whole = result.inspect_err(
                    |error| tracing::warn!(%check, %error, "the status of a health check was not written; trying again"),
                );
                self.status_written(&check, whole.is_ok(), now);
            }
            Done::Withdrawn(made, result) => self.withdrawn(made, &result, now),
            Done::Synced(check, read, result) => self.synced(&check, read, result),
            Done::Report(check, result) => {
                if let Err(error) = result {
                    tracing::warn!(%check, %error, "a health check was not told what is wrong with it; trying again");
                    self.look_again(&check, now + LOOK_AGAIN);
                }
            }
        }
    }

    /// A task ended without an answer.
    pub(super) fn lost(&mut self, what: UnderWay) {
        let now = Instant::now();
        let why = || ApiError::other("a task", "it ended badly");
        match what {
            UnderWay::Machine(item) => self.acted(&item, Err(why()), now),
            UnderWay::Recipe(check) => self.recipe(&check, Err(why()), now),
            UnderWay::Status(check) => self.status_written(&check, false, now),
            UnderWay::Report(check) => self.look_again(&check, now + LOOK_AGAIN),
            UnderWay::Withdrawal(made) => self.withdrawn(made, &Err(why()), now),
            UnderWay::Sync(check, read) => {
                self.synced(
                    &check,
                    read,
                    Err(SyncError::Read("the read ended badly".into())),
                );
            }
        }
    }

    fn acted(&mut self, item: &Item, result: Result<Acted, ApiError>, now: Instant) {
        self.queue.end(item);
        self.pace(&result, now);
        match result {
            Ok(acted) => {
                self.queue.succeeded(item);
                let watched = self.checks.get(&item.check);
                let seen = watched.is_some_and(|w| {
                    w.spec
                        .request_uid(&self.context, &self.others, &item.key())
                        .is_some()
                });
                let why = match &acted {
                    Acted::NotRequested(why) => Some(why),
                    _ => None,
                };
                self.complain(item, why);
                match acted {
                    Acted::Requested if !seen => self.queue.later(item, now + SEE_AGAIN),
                    Acted::NotRequested(_) => {
                        self.creating.remove(item);
                        self.held.insert(item.clone());
                        self.queue.later(item, now + LOOK_AGAIN);
                    }
                    _ => {
                        self.creating.remove(item);
                    }
                }
                self.acted.insert(item.clone(), acted);
            }
            Err(error) => {
                tracing::warn!(check = %item.check, machine = &*item.machine, %error, "action failed; trying again");
                self.held.insert(item.clone());
                self.queue.failed(item, now);
            }
        }
        if !self.checks.contains_key(&item.check) {
            self.creating.remove(item);
            self.unmade.remove(item);
            self.held.remove(item);
            self.acted.remove(item);
            return;
        }
        self.request_changed(item);
        self.reconsider(item);
    }

    /// The check says why a request that is due was not made, until it is.
    fn complain(&mut self, item: &Item, why: Option<&Unusable>) {
        let before = match why {
            Some(why) => self.unmade.insert(item.clone(), why.clone()),
            None => self.unmade.remove(item),
        };
        if before.as_ref() != why {
            self.status_due(&item.check);
        }
    }

    fn written(
        &mut self,
        item: &Item,
        acted: Option<Acted>,
        result: Result<(), ApiError>,
        now: Instant,
    ) {
        let changed = self.queue.end(item);
        self.pace(&result, now);
        match result {
            Ok(()) => self.queue.succeeded(item),
            Err(error) => {
                // What the owner is told follows from the verdict of the next turn.
                let kept = |acted: &Acted| !matches!(acted, Acted::ForOwner | Acted::TakenBack);
                if let Some(acted) = acted.filter(kept)
                    && self.checks.contains_key(&item.check)
                {
                    self.acted.insert(item.clone(), acted);
                }
                // Somebody else wrote to the same Machine: the watch brings it back here.
                if !error.is_conflict() && !error.is_not_found() {
                    tracing::warn!(check = %item.check, machine = &*item.machine, %error, "conditions not written; trying again");
                    self.queue.failed(item, now);
                }
            }
        }
        if changed {
            self.reconsider(item);
        }
    }

    /// As many at one time as the API server answers.
    fn pace<T>(&mut self, result: &Result<T, ApiError>, now: Instant) {
        match result {
            Err(ApiError::Timeout { .. }) => self.queue.unanswered(now),
            _ => self.queue.answered(),
        }
    }

    fn recipe(&mut self, check: &Key, result: Result<Read, ApiError>, now: Instant) {
        let of_check = |item: &Item| item.check == *check;
        let parked: Vec<Item> = self
            .parked
            .iter()
            .filter(|i| of_check(i))
            .cloned()
            .collect();
        self.parked.retain(|item| !of_check(item));
        let failure = match result {
            Ok(read) => {
                if let Some(watched) = self.checks.get_mut(check) {
                    watched.shelf.put(Some(read), now);
                }
                None
            }
            Err(error) => {
                if let Some(watched) = self.checks.get_mut(check) {
                    watched.shelf.put(None, now);
                }
                Some(error)
            }
        };
        if let Some(error) = &failure {
            tracing::warn!(%check, %error, "the template could not be read; trying again");
        }
        for item in parked {
            if failure.is_some() {
                self.held.insert(item.clone());
                self.queue.failed(&item, now);
            }
            self.reconsider(&item);
        }
    }

    pub(super) fn write_status(&mut self, key: &Key) {
        let failed = self.first_complaint(key);
        let shared = self.shared.words(key);
        let Some(watched) = self.checks.get_mut(key) else {
            return;
        };
        let due = std::mem::take(&mut watched.pace.due);
        if !due || watched.pace.writing || watched.spec.dry_run {
            return;
        }
        watched.pace.writing = true;
        let (context, check) = (self.context.clone(), key.clone());
        let mut summary = watched.summary();
        summary.failed = failed;
        summary.asides.shared = shared;
        summary.asides.stale = watched.handover.failure().map(stale_view);
        self.spawn(UnderWay::Status(check.clone()), async move {
            let written = check_status(&context, &check, &summary).await;
            Done::Status(check, written)
        });
    }

    fn first_complaint(&self, key: &Key) -> Option<Unusable> {
        let mut from = self.unmade.range(Item::new(key, &Arc::from(""))..);
        let (_, why) = from.next().filter(|(item, _)| item.check == *key)?;
        Some(why.clone())
    }

    fn status_written(&mut self, key: &Key, whole: bool, now: Instant) {
        let Some(watched) = self.checks.get_mut(key) else {
            return;
        };
        watched.pace.written(whole, now);
        watched.names |= !whole;
        if std::mem::take(&mut watched.pace.due) {
            self.status_due(key);
        }
    }

    /// Says on a check why it is not evaluated.
    pub(super) fn report(&mut self, key: &Key, reason: &'static str, message: String) {
        let (context, check) = (self.context.clone(), key.clone());
        self.spawn(UnderWay::Report(check.clone()), async move {
            let told = match context.index.check(&check) {
                Some(entry) => report_invalid(&context, &entry.object, reason, &message).await,
                None => Ok(()),
            };
            Done::Report(check, told)
        });
    }
}
