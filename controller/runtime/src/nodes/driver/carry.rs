//! Carries out what checks want, and takes in what came of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use rackhand_core::nodes::{Action, Check, Disabled};
use tokio::task::{Id, JoinError};

use super::{Driver, Item, LOOK_CRD, Timer};
use crate::{
    api::ApiError,
    checks::is_our_crd,
    nodes::{
        NODE_CHECK_CRD,
        actions::{Errand, Outcome},
        leases::lease_name,
        seen::KnownNode,
        status, templates,
    },
    sync::SyncError,
};

/// Time between two looks at templates that can be used.
const LOOK_USABLE: Duration = Duration::from_secs(60);
/// Time between two looks at templates that cannot (docs/reference/medik8s.md, Evaluation).
const LOOK_UNUSABLE: Duration = Duration::from_secs(15);
/// After the API server did not answer.
const AGAIN: Duration = Duration::from_secs(2);
/// Time between two writes of one status.
const PACE: Duration = Duration::from_millis(300);

/// What a task is for.
pub(super) enum UnderWay {
    Crd,
    Templates(String, Arc<Check>),
    Acts(Item),
    Status(String),
    Sync(String, u64),
}

/// What a task came to.
pub(super) enum Done {
    Crd(Result<bool, ApiError>),
    Templates(String, Arc<Check>, Result<Option<Disabled>, ApiError>),
    Acted(Item, Vec<Action>, Outcome, Result<(), ApiError>),
    Status(String, Result<DynamicObject, ApiError>),
    Synced(String, u64, Result<(), SyncError>),
}

/// What must happen although it is asked for only once.
fn is_one_shot(action: &Action) -> bool {
    matches!(
        action,
        Action::ReleaseLease { .. } | Action::Unconfirm { .. }
    )
}

impl Driver {
    pub(super) fn spawn(
        &mut self,
        what: UnderWay,
        task: impl Future<Output = Done> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, what);
    }

    pub(super) fn look_at_crd(&mut self) {
        let client = self.context.client.clone();
        self.spawn(UnderWay::Crd, async move {
            Done::Crd(is_our_crd(&client, NODE_CHECK_CRD).await)
        });
    }

    pub(super) fn look_at_templates(&mut self, name: &str) {
        let Some(watched) = self.watched.get_mut(name) else {
            return;
        };
        if std::mem::replace(&mut watched.looking, true) {
            return;
        }
        let (check, references) = (watched.check.clone(), watched.references.clone());
        let openshift = self.openshift.is_there();
        let (context, name) = (self.context.clone(), name.to_owned());
        let what = UnderWay::Templates(name.clone(), check.clone());
        self.spawn(what, async move {
            let found = templates::look(&context, &check, &references, openshift).await;
            Done::Templates(name, check, found)
        });
    }

    /// Begins what a Node wants, unless something is under way for it.
    pub(super) fn act(&mut self, item: Item, actions: Vec<Action>) {
        if self.busy.contains(&item) || self.held.contains(&item) {
            let once: Vec<Action> = actions.into_iter().filter(is_one_shot).collect();
            if !once.is_empty() {
                self.pending.entry(item).or_default().extend(once);
            }
            return;
        }
        let mut all = self.pending.remove(&item).unwrap_or_default();
        all.extend(actions);
        let Some(watched) = self.watched.get(&item.0) else {
            return;
        };
        if all.is_empty() {
            return;
        }
        let is_create = |action: &Action| matches!(action, Action::Create { .. });
        if all.iter().any(is_create) {
            // From here on it may exist.
            self.creating.insert(item.1.clone(), item.0.clone());
        }
        let node = self.nodes.get(&item.1);
        let errand = Errand {
            context: self.context.clone(),
            check: watched.check.clone(),
            references: watched.references.clone(),
            uid: node.map(|node| node.uid.clone()).unwrap_or_default(),
            machine: node.and_then(|node| node.machine.clone()),
            openshift: self.openshift.is_there() || node.is_some_and(KnownNode::is_of_openshift),
            node: item.1.clone(),
        };
        self.busy.insert(item.clone());
        let once: Vec<Action> = all.iter().filter(|a| is_one_shot(a)).cloned().collect();
        self.spawn(UnderWay::Acts(item.clone()), async move {
            let (outcome, result) = errand.run(all).await;
            Done::Acted(item, once, outcome, result)
        });
    }

    pub(super) fn write_status(&mut self, name: &str) {
        let Some(watched) = self.watched.get_mut(name) else {
            return;
        };
        if watched.writing || watched.dry_run || !status::differs(&watched.object, &watched.memory)
        {
            return;
        }
        watched.writing = true;
        let (object, memory) = (watched.object.clone(), watched.memory.clone());
        let (context, name) = (self.context.clone(), name.to_owned());
        self.spawn(UnderWay::Status(name.clone()), async move {
            let written = status::write(&context, &object, &memory).await;
            Done::Status(name, written)
        });
    }

    pub(super) fn joined(&mut self, done: Result<(Id, Done), JoinError>) {
        match done {
            Ok((id, done)) => {
                self.under_way.remove(&id);
                self.finish(done);
            }
            Err(error) => {
                tracing::error!(%error, "a task of the health checks of Nodes ended badly");
                let bad = || ApiError::other("a task", "it ended badly");
                match self.under_way.remove(&error.id()) {
                    Some(UnderWay::Crd) => self.finish(Done::Crd(Err(bad()))),
                    Some(UnderWay::Templates(name, check)) => {
                        self.finish(Done::Templates(name, check, Err(bad())));
                    }
                    Some(UnderWay::Acts(item)) => {
                        let done = Done::Acted(item, Vec::new(), Outcome::default(), Err(bad()));
                        self.finish(done);
                    }
                    Some(UnderWay::Sync(check, read)) => {
                        let bad = SyncError::Read(bad().to_string());
                        self.finish(Done::Synced(check, read, Err(bad)));
                    }
                    Some(UnderWay::Status(check)) => self.finish(Done::Status(check, Err(bad()))),
                    None => {}
                }
            }
        }
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Crd(found) => self.crd(found),
            Done::Templates(name, check, found) => self.templates(&name, &check, found),
            Done::Acted(item, once, outcome, result) => self.acted(item, once, outcome, result),
            Done::Status(check, written) => self.status_written(&check, written),
            Done::Synced(check, read, result) => self.synced(&check, read, result),
        }
    }

    fn crd(&mut self, found: Result<bool, ApiError>) {
        match found {
            Ok(ours) => {
                self.later(LOOK_CRD, Timer::Crd);
                if self.our_crd.replace(ours) != Some(ours) {
                    self.read_checks();
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot see whose CRD NodeHealthCheck's is");
                self.later(AGAIN, Timer::Crd);
            }
        }
    }

    fn templates(
        &mut self,
        name: &str,
        check: &Arc<Check>,
        found: Result<Option<Disabled>, ApiError>,
    ) {
        let watched = self.watched.get_mut(name);
        // What was found for rules that count no more says nothing.
        let Some(watched) = watched.filter(|w| Arc::ptr_eq(&w.check, check)) else {
            return;
        };
        watched.looking = false;
        if std::mem::take(&mut watched.look_again) {
            self.look_at_templates(name);
            return;
        }
        let after = match found {
            Ok(disabled) => {
                let after = if disabled.is_some() {
                    LOOK_UNUSABLE
                } else {
                    LOOK_USABLE
                };
                watched.disabled = Some(disabled);
                self.dirty.insert(name.to_owned());
                after
            }
            Err(error) => {
                tracing::warn!(check = name, %error, "the templates could not be read; trying again");
                AGAIN
            }
        };
        let timer = Timer::Templates(name.to_owned());
        self.timers.retain(|(_, known)| *known != timer);
        self.later(after, timer);
    }

    fn acted(
        &mut self,
        item: Item,
        once: Vec<Action>,
        outcome: Outcome,
        result: Result<(), ApiError>,
    ) {
        self.busy.remove(&item);
        let (check, node) = &item;
        self.dirty.insert(check.clone());
        for object in &outcome.seen {
            self.put_request(object);
        }
        for id in &outcome.gone {
            self.drop_request(id);
        }
        match outcome.lease {
            Some(Some(lease)) => drop(self.leases.insert(lease_name(node), lease)),
            Some(None) => drop(self.leases.remove(&lease_name(node))),
            None => {}
        }
        if self.creating.get(node) == Some(check) {
            self.creating.remove(node);
            // Others may have waited for it.
            self.dirty.extend(self.watched.keys().cloned());
        }
        if let Some(watched) = self.watched.get_mut(check) {
            if let Some((after, why)) = outcome.refused {
                let after = SignedDuration::try_from(after).unwrap_or_default();
                let until = Timestamp::now().checked_add(after);
                let until = until.unwrap_or(Timestamp::MAX);
                watched.blocked.insert(node.clone(), (until, why));
            }
            if let Some(id) = &outcome.created {
                let message = format!(
                    "[remediation] {} {} was made for Node {node}",
                    id.kind, id.name
                );
                let events = &self.context.events;
                events.send(&watched.object, false, "RemediationCreated", &message);
            }
            if outcome.disabled.is_some() {
                watched.disabled = Some(outcome.disabled);
                self.look_at_templates(check);
            }
        }
        if let Err(error) = result {
            tracing::warn!(check, node, %error, "an action for a Node failed; trying again");
            if !once.is_empty() {
                self.pending.entry(item.clone()).or_default().extend(once);
            }
            self.held.insert(item.clone());
            self.later(AGAIN, Timer::Retry(item));
        }
    }

    fn status_written(&mut self, name: &str, written: Result<DynamicObject, ApiError>) {
        let Some(watched) = self.watched.get_mut(name) else {
            return;
        };
        watched.writing = false;
        watched.not_before = Instant::now() + PACE;
        match written {
            Ok(object) => {
                self.put_check(object);
                self.later(PACE, Timer::Status(name.to_owned()));
            }
            Err(error) => {
                if !error.is_conflict() && !error.is_not_found() {
                    tracing::warn!(check = name, %error, "the status of a health check was not written; trying again");
                }
                self.later(AGAIN / 4, Timer::Status(name.to_owned()));
            }
        }
    }
}
