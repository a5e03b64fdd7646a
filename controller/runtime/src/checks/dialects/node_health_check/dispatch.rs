//! Dispatch of the actions of checks, and of their results.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rackhand_core::checks::nodes::{Action, Check, Disabled};

use super::{
    NodeHealthChecks, Parts, Timer,
    actions::{ActionBatch, BatchOutcome},
    evaluation::is_one_shot,
    facts,
    leases::lease_name,
    templates,
};
use crate::{
    checks::engine::{panicked, queue::Item},
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

impl NodeHealthChecks {
    /// Reads the templates of a check, unless they are being read.
    pub(super) fn read_templates(&mut self, engine: &mut Parts, key: &Key) {
        let Some(state) = self.checks.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut state.reading_templates, true) {
            return;
        }
        let (check, references) = (state.check.clone(), state.references.clone());
        let openshift = self.openshift.is_there();
        let (context, key) = (engine.context.clone(), key.clone());
        let lost = Done::Templates(key.clone(), check.clone(), Err(panicked()));
        engine.spawn(lost, async move {
            let found =
                templates::evaluate_templates(&context, &check, &references, openshift).await;
            Done::Templates(key, check, found)
        });
    }

    /// Starts the actions for a Node.
    pub(super) fn begin_actions(&mut self, engine: &mut Parts, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let mut all = self.pending.remove(item).unwrap_or_default();
        all.extend(check.actions.remove(&item.member).unwrap_or_default());
        let is_create = |action: &Action| matches!(action, Action::Create { .. });
        let mut creates = all.iter().any(is_create);
        if creates {
            let now = engine.now();
            creates = engine.members.is_cleared(item, now);
            if creates {
                // From here on the remediation may exist, and other checks do not act on the Node.
                let others = self.checks.keys().filter(|key| **key != item.check);
                self.dirty.extend(others.cloned());
            } else {
                // The member waited in the queue for so long that the fleet has to be read again.
                all.retain(|action| !is_create(action));
                self.dirty.insert(item.check.clone());
            }
        }
        let Some(check) = self.checks.get(&item.check).filter(|_| !all.is_empty()) else {
            return;
        };
        let index = &engine.context.index;
        let node = index.seen_node(&Key::local(), item.member.as_ref());
        let node = node.as_deref();
        let batch = ActionBatch {
            context: engine.context.clone(),
            check: check.check.clone(),
            references: check.references.clone(),
            uid: node.and_then(kube::ResourceExt::uid).unwrap_or_default(),
            machine: node.and_then(facts::machine),
            openshift: self.openshift.is_there() || node.is_some_and(facts::is_of_openshift),
            node: item.member.to_string(),
        };
        engine.members.begin(item, creates);
        let once: Vec<Action> = all.iter().filter(|a| is_one_shot(a)).cloned().collect();
        let item = item.clone();
        let lost = Done::Acted(item.clone(), Vec::new(), Box::default(), Err(panicked()));
        engine.spawn(lost, async move {
            let (outcome, result) = batch.run(all).await;
            Done::Acted(item, once, Box::new(outcome), result)
        });
    }

    /// A read of the templates of a check has ended.
    pub(super) fn templates_read(
        &mut self,
        engine: &mut Parts,
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
            self.read_templates(engine, key);
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
                self.dirty.insert(key.clone());
                after
            }
            Err(error) => {
                tracing::warn!(check = %key, %error, "the templates could not be read; trying again");
                READ_AGAIN
            }
        };
        let at = engine.now() + after;
        engine.set_timer(at, Timer::Templates(key.clone()));
    }

    /// The actions for a Node have ended.
    pub(super) fn acted(
        &mut self,
        engine: &mut Parts,
        item: &Item,
        once: Vec<Action>,
        outcome: BatchOutcome,
        result: Result<(), ApiError>,
    ) {
        engine.call_ended(&result);
        let (key, node) = (&item.check, &*item.member);
        self.dirty.insert(key.clone());
        for object in &outcome.seen {
            let id = facts::remediation_id(object);
            let kind = facts::kind_of(&id);
            if self.external.put(&kind, object) {
                self.remediation_changed(&kind, &Key::of(object));
            }
        }
        for id in &outcome.gone {
            let (kind, key) = (facts::kind_of(id), Key::new(&*id.namespace, &*id.name));
            if self.external.remove(&kind, &key) {
                self.remediation_changed(&kind, &key);
            }
        }
        let leases = &mut self.leases;
        match outcome.lease {
            Some(Some(lease)) => drop(leases.insert(lease_name(node), lease)),
            Some(None) => drop(leases.remove(&lease_name(node))),
            None => {}
        }
        let now = engine.now();
        if engine.members.batch_ended(item, result.is_ok(), now) {
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
                let events = &engine.context.events;
                events.send(&check.object, false, "RemediationCreated", &message);
            }
            if outcome.disabled.is_some() {
                check.disabled = Some(outcome.disabled);
                self.read_templates(engine, key);
            }
        }
        if let Err(error) = result {
            tracing::warn!(check = %key, node, %error, "an action for a Node failed; trying again");
            self.keep_one_shots(item.clone(), once);
        }
    }
}
