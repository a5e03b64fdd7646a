//! Gives Machines their turn, and takes in what came of it.

use std::time::Instant;

use super::{Done, Driver, LOOK, TRY_AGAIN, UnderWay};
use crate::{
    api::ApiError,
    health::{
        openshift::act::{Job, Outcome},
        queue::Item,
    },
    object::Key,
};

impl Driver {
    /// Gives every Machine its turn for which there is room.
    pub(super) fn dispatch(&mut self) {
        for (key, looked) in &self.checks {
            for machine in looked.acts.keys().filter(|_| !looked.spec.dry_run) {
                let item = Item::new(key, machine);
                if !self.held.contains(&item) {
                    self.queue.push(item, true);
                }
            }
        }
        while let Some(item) = self.queue.pop() {
            self.turn(item);
        }
    }

    pub(super) fn turn(&mut self, item: Item) {
        let Some(looked) = self.checks.get(&item.check) else {
            return;
        };
        let Some(act) = looked.acts.get(&item.machine).filter(|act| act.is_done()) else {
            return;
        };
        if self.held.contains(&item) {
            return;
        }
        if act.hands_over() && !self.is_cleared(&item) {
            return;
        }
        let Some(looked) = self.checks.get(&item.check) else {
            return;
        };
        let Some(act) = looked.acts.get(&item.machine) else {
            return;
        };
        let key = item.key();
        let spec = &looked.spec;
        let job = Job {
            context: self.context.clone(),
            item: item.clone(),
            act: act.clone(),
            view: spec.view.clone(),
            rules: spec.rules.clone(),
            request: spec.source.uid(&self.context, &self.others, &key),
        };
        if act.creates() {
            self.creating.insert(item.clone());
        }
        self.queue.begin(item.clone());
        let of_task = item.clone();
        let id = self
            .tasks
            .spawn(async move { Done::Acted(of_task, job.run().await) })
            .id();
        self.under_way.insert(id, UnderWay::Machine(item));
    }

    pub(super) fn finish(&mut self, done: Done) {
        match done {
            Done::Acted(item, result) => self.acted(&item, result),
            Done::Status(check, result) => self.written(check, result),
            Done::Withdrawn(made, result) => self.withdrawn(made, &result),
            Done::Synced(check, read, result) => self.synced(&check, read, result),
        }
    }

    pub(super) fn acted(&mut self, item: &Item, result: Result<Outcome, ApiError>) {
        let now = Instant::now();
        self.queue.end(item);
        // What was asked for is done, or is asked for anew by the next look.
        if let Some(looked) = self.checks.get_mut(&item.check) {
            looked.acts.remove(&item.machine);
        }
        self.changed = true;
        if matches!(result, Err(ApiError::Timeout { .. })) {
            self.queue.unanswered(now);
        } else {
            self.queue.answered();
        }
        match result {
            Ok(Outcome::Done) => {
                self.queue.succeeded(item);
                self.unmade.remove(item);
                self.creating.remove(item);
            }
            Ok(Outcome::NotRequested(why)) => {
                self.queue.succeeded(item);
                self.creating.remove(item);
                self.unmade.insert(item.clone(), why);
                self.held.insert(item.clone());
                self.queue.later(item, now + TRY_AGAIN);
            }
            Ok(Outcome::LeftToOpenShift) => {
                self.queue.succeeded(item);
                self.creating.remove(item);
                self.held.insert(item.clone());
                self.queue.later(item, now + LOOK);
            }
            Err(error) => {
                // Somebody else wrote to the same object: the watch brings it back here.
                if !error.is_conflict() {
                    tracing::warn!(check = %item.check, machine = &*item.machine, %error, "action failed; trying again");
                }
                self.held.insert(item.clone());
                self.queue.failed(item, now);
            }
        }
    }

    pub(super) fn written(&mut self, check: Key, result: Result<(), ApiError>) {
        self.writing.remove(&check);
        self.changed = true;
        if let Err(error) = result {
            tracing::warn!(%check, %error, "the status of a health check was not written; trying again");
            self.later.insert(check, Instant::now() + TRY_AGAIN);
        }
    }
}
