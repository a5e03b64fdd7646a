//! Dispatch of the actions of checks, and of their results.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use rackhand_core::{
    checks::dispatch::Phase,
    checks::nodes::{Action, Check, Disabled},
};

use super::{
    NodeHealthChecks, Timer,
    actions::{ActionBatch, BatchOutcome},
    evaluation::is_one_shot,
    facts,
    leases::lease_name,
    templates,
};
use crate::{
    checks::engine::{self, CheckEngine, panicked, queue::Item},
    store::{api::ApiError, object::Key},
};

/// Interval of reads of usable templates.
const READ_USABLE: Duration = Duration::from_secs(60);
/// Interval of reads of unusable templates (docs/reference/medik8s.md, Evaluation).
const READ_UNUSABLE: Duration = Duration::from_secs(15);
/// Pause after the API server did not answer.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// The result of a task.
pub(in crate::checks) enum Done {
    Templates(Key, Arc<Check>, Result<Option<Disabled>, ApiError>),
    Acted(Item, Vec<Action>, Box<BatchOutcome>, Result<(), ApiError>),
}

impl CheckEngine<NodeHealthChecks> {
    pub(super) fn read_templates(&mut self, key: &Key) {
        let Some(state) = self.checks.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut state.reading_templates, true) {
            return;
        }
        let (check, references) = (state.check.clone(), state.references.clone());
        let openshift = self.dialect.openshift.is_there();
        let (context, key) = (self.context.clone(), key.clone());
        let lost = Done::Templates(key.clone(), check.clone(), Err(panicked()));
        self.spawn(lost, async move {
            let found =
                templates::evaluate_templates(&context, &check, &references, openshift).await;
            Done::Templates(key, check, found)
        });
    }

    /// Starts the actions for a Node.
    pub(super) fn turn(&mut self, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let mut all = self.dialect.pending.remove(item).unwrap_or_default();
        all.extend(check.actions.remove(&item.member).unwrap_or_default());
        let is_create = |action: &Action| matches!(action, Action::Create { .. });
        if all.iter().any(is_create) {
            if self.is_cleared(item) {
                // From here on the remediation may exist, and other checks do not act on the Node.
                self.items.set_phase(item, Phase::Creating);
                let others = self.checks.keys().filter(|key| **key != item.check);
                self.dialect.dirty.extend(others.cloned());
            } else {
                // The member waited in the queue for so long that the fleet has to be read again.
                all.retain(|action| !is_create(action));
                self.dialect.dirty.insert(item.check.clone());
            }
        }
        let Some(check) = self.checks.get(&item.check).filter(|_| !all.is_empty()) else {
            return;
        };
        let node = self
            .context
            .index
            .seen_node(&Key::local(), item.member.as_ref());
        let node = node.as_deref();
        let batch = ActionBatch {
            context: self.context.clone(),
            check: check.check.clone(),
            references: check.references.clone(),
            uid: node.and_then(kube::ResourceExt::uid).unwrap_or_default(),
            machine: node.and_then(facts::machine),
            openshift: self.dialect.openshift.is_there()
                || node.is_some_and(facts::is_of_openshift),
            node: item.member.to_string(),
        };
        self.queue.begin(item.clone());
        let once: Vec<Action> = all.iter().filter(|a| is_one_shot(a)).cloned().collect();
        let item = item.clone();
        let lost = Done::Acted(item.clone(), Vec::new(), Box::default(), Err(panicked()));
        self.spawn(lost, async move {
            let (outcome, result) = batch.run(all).await;
            Done::Acted(item, once, Box::new(outcome), result)
        });
    }

    pub(super) fn handle_result(&mut self, done: Done) {
        match done {
            Done::Templates(key, check, found) => self.templates_read(&key, &check, found),
            Done::Acted(item, once, outcome, result) => self.acted(&item, once, *outcome, result),
        }
    }

    fn templates_read(
        &mut self,
        key: &Key,
        check: &Arc<Check>,
        found: Result<Option<Disabled>, ApiError>,
    ) {
        let state = self.checks.get_mut(key);
        // A result for outdated rules is dropped.
        let Some(state) = state.filter(|state| Arc::ptr_eq(&state.check, check)) else {
            return;
        };
        state.reading_templates = false;
        if std::mem::take(&mut state.read_again) {
            self.read_templates(key);
            return;
        }
        let after = match found {
            Ok(disabled) => {
                let after = if disabled.is_some() {
                    READ_UNUSABLE
                } else {
                    READ_USABLE
                };
                state.disabled = Some(disabled);
                self.dialect.dirty.insert(key.clone());
                after
            }
            Err(error) => {
                tracing::warn!(check = %key, %error, "the templates could not be read; trying again");
                READ_AGAIN
            }
        };
        let timer = engine::Timer::Dialect(Timer::Templates(key.clone()));
        self.schedule.reset(Instant::now() + after, timer);
    }

    fn acted(
        &mut self,
        item: &Item,
        once: Vec<Action>,
        outcome: BatchOutcome,
        result: Result<(), ApiError>,
    ) {
        self.end_turn(item, &result);
        let (key, node) = (&item.check, &*item.member);
        self.dialect.dirty.insert(key.clone());
        for object in &outcome.seen {
            let id = facts::request_id(object);
            let kind = facts::kind_of(&id);
            if self.dialect.external.put(&kind, object) {
                self.request_changed(&kind, &Key::of(object));
            }
        }
        for id in &outcome.gone {
            let (kind, key) = (facts::kind_of(id), Key::new(&*id.namespace, &*id.name));
            if self.dialect.external.remove(&kind, &key) {
                self.request_changed(&kind, &key);
            }
        }
        let leases = &mut self.dialect.leases;
        match outcome.lease {
            Some(Some(lease)) => drop(leases.insert(lease_name(node), lease)),
            Some(None) => drop(leases.remove(&lease_name(node))),
            None => {}
        }
        if self.items.phase(item) == Phase::Creating {
            self.items.set_phase(item, Phase::Ready);
            // Other checks may have waited for this Node.
            self.evaluate_all();
        }
        if let Some(check) = self.checks.get_mut(key) {
            if let Some((after, why)) = outcome.refused {
                let after = SignedDuration::try_from(after).unwrap_or_default();
                let until = Timestamp::now().checked_add(after);
                let until = until.unwrap_or(Timestamp::MAX);
                check.blocked.insert(node.to_owned(), (until, why));
            }
            if let Some(id) = &outcome.created {
                let message = format!(
                    "[remediation] {} {} was made for Node {node}",
                    id.kind, id.name
                );
                let events = &self.context.events;
                events.send(&check.object, false, "RemediationCreated", &message);
            }
            if outcome.disabled.is_some() {
                check.disabled = Some(outcome.disabled);
                self.read_templates(key);
            }
        }
        if let Err(error) = result {
            tracing::warn!(check = %key, node, %error, "an action for a Node failed; trying again");
            self.keep_one_shots(item.clone(), once);
            if self.checks.contains_key(key) {
                self.back_off(item);
            }
        } else {
            self.queue.succeeded(item);
        }
    }
}
