//! What calls came to, and requests whose check does not stand behind them.

use std::time::Duration;

use rackhand_core::checks::dispatch::{EffectOutcome, Item};

use super::{
    super::{
        api::Name,
        breakage::Breakage,
        objects::{Api, MACHINES, request_name},
    },
    CLOCK, Engine, Since, Task,
};

/// Pause before a request is examined again that was not withdrawn.
const WITHDRAW_AGAIN: Duration = Duration::from_secs(5);

impl Engine {
    /// A live read is over.
    pub fn read_ended(
        &mut self,
        name: Name,
        read: u64,
        result: Result<Since, String>,
        breakage: Option<Breakage>,
    ) {
        let Some(state) = self.checks.get_mut(name) else {
            return;
        };
        let since = result.clone().unwrap_or_default();
        let Some(members) = state.handover.finish(read, result.map(drop), CLOCK) else {
            return;
        };
        self.settling.insert(name);
        for member in members {
            let item = Item::new(&name, &member);
            self.due_since.remove(&item);
            self.cleared.insert(item.clone(), since.clone());
            self.reconsider(&item, breakage);
        }
    }

    /// The creation or deletion of a request is over; `Err`: whether it was answered.
    pub fn acted(
        &mut self,
        api: &Api,
        item: &Item<Name>,
        result: Result<EffectOutcome, ()>,
        breakage: Option<Breakage>,
    ) {
        self.queue.end(item);
        match result {
            Ok(outcome) => {
                self.queue.succeeded(item);
                let template = self.checks.get(item.check).map(|c| c.spec.value.template);
                let machine = MACHINES.iter().copied().find(|name| **name == *item.member);
                let name = machine.zip(template).map(|(m, t)| request_name(m, t));
                let is_seen = name.is_some_and(|name| api.requests.view.contains_key(name));
                if let Some(again) = self.items.effect_ended(item, outcome, is_seen, false) {
                    self.queue.later(item, CLOCK + again);
                }
            }
            Err(()) => {
                self.items.effect_failed(item);
                self.queue.failed(item, CLOCK);
            }
        }
        if !self.checks.contains_key(item.check) {
            self.items.change(item, |state| *state = Default::default());
            return;
        }
        self.request_changed(api, item, breakage);
        self.reconsider(item, breakage);
    }

    /// Retries that are due, and requests that are examined again.
    pub fn fire(&mut self, api: &Api, breakage: Option<Breakage>) {
        for item in self.queue.due(CLOCK) {
            self.items.retry_due(&item);
            self.request_changed(api, &item, breakage);
            self.reconsider(&item, breakage);
        }
        while let Some((at, _, uid)) = self.examine_at.first().copied()
            && at <= CLOCK
        {
            self.examine_at.pop_first();
            self.withdrawing.remove(&uid);
            self.examine_all(api, breakage);
        }
    }

    pub(super) fn examine_all(&mut self, api: &Api, breakage: Option<Breakage>) {
        if breakage == Some(Breakage::OrphansKept) {
            return;
        }
        for (name, stored) in &api.requests.view {
            let known = self.withdrawing.contains(&stored.uid);
            if !known && !stored.value.deleting && api.is_orphan(&stored.value, true, true) {
                self.withdrawing.insert(stored.uid);
                self.tasks.push(Task::Withdraw(name, stored.uid, false));
            }
        }
    }

    /// A withdrawal is over; whether the request was withdrawn.
    pub fn withdrawn(&mut self, name: Name, uid: u8, done: bool) {
        if done {
            self.withdrawing.remove(&uid);
        } else {
            self.examine_at.insert((CLOCK + WITHDRAW_AGAIN, name, uid));
        }
    }
}
