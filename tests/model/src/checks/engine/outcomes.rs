//! What calls came to, and remediations whose check does not stand behind them.

use rackhand_core::checks::dispatch::{EffectOutcome, Item, LiveRead};

use super::{
    super::{
        api::Name,
        breakage::Breakage,
        objects::{Api, MACHINES, remediation_name},
    },
    CLOCK, Engine, Since, Task,
};

impl Engine {
    /// A live read is over.
    pub fn read_ended(
        &mut self,
        read: LiveRead<Name>,
        result: Result<Since, String>,
        breakage: Option<Breakage>,
    ) {
        let name = read.check;
        let since = result.clone().unwrap_or_default();
        let Some(members) = self.members.read_ended(&read, result.map(drop), CLOCK) else {
            return;
        };
        for member in members {
            let item = Item::new(&name, &member);
            self.due_since.remove(&item);
            self.cleared.insert(item.clone(), since.clone());
            self.reconsider(&item, breakage);
        }
    }

    /// The creation or deletion of a remediation is over; `Err`: whether it was answered.
    pub fn acted(
        &mut self,
        api: &Api,
        item: &Item<Name>,
        result: Result<EffectOutcome, ()>,
        breakage: Option<Breakage>,
    ) {
        let template = self.checks.get(item.check).map(|c| c.spec.value.template);
        let machine = MACHINES.iter().copied().find(|name| **name == *item.member);
        let name = machine.zip(template).map(|(m, t)| remediation_name(m, t));
        let is_seen = name.is_some_and(|name| api.remediations.view.contains_key(name));
        let ended = self
            .members
            .effect_ended(item, result, is_seen, false, CLOCK);
        if !ended {
            return;
        }
        self.remediation_changed(api, item, breakage);
        self.reconsider(item, breakage);
    }

    /// Retries that are due, and remediations that are examined again.
    pub fn fire(&mut self, api: &Api, breakage: Option<Breakage>) {
        for item in self.members.due(CLOCK) {
            self.remediation_changed(api, &item, breakage);
            self.reconsider(&item, breakage);
        }
        while self.withdrawals.pop_due(CLOCK).is_some() {
            self.examine_all(api, breakage);
        }
    }

    pub(super) fn examine_all(&mut self, api: &Api, breakage: Option<Breakage>) {
        if breakage == Some(Breakage::OrphansKept) {
            return;
        }
        for (name, stored) in &api.remediations.view {
            let is_orphan = !stored.value.deleting && api.is_orphan(&stored.value, true, true);
            if is_orphan && self.withdrawals.begin(stored.uid) {
                self.tasks.push(Task::Withdraw(name, stored.uid, false));
            }
        }
    }

    /// A withdrawal is over; whether the remediation was withdrawn.
    pub fn withdrawn(&mut self, name: Name, uid: u8, done: bool) {
        self.withdrawals.end(&uid, (name, uid), done, CLOCK);
    }
}
