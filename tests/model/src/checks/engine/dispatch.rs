//! What is begun: handovers, deletions of requests, and live reads.

use std::time::Duration;

use rackhand_core::{
    checks::dispatch::{Item, Phase, Turn, Wanted},
    checks::handover::{SETTLE, Step},
    checks::machines::{Action, MachineRemediation, Policy},
};

use super::{
    super::{
        api::Name,
        breakage::Breakage,
        objects::{Api, MACHINES, RequestValue, request_name},
    },
    CLOCK, Engine, Task,
    facts::rules,
};
use crate::time::NOW;

impl Engine {
    fn effect(&self, item: &Item<Name>, breakage: Option<Breakage>) -> Option<Action> {
        let state = self.checks.get(item.check)?;
        let action = state.fleet.wanted(&item.member)?.action?;
        if breakage == Some(Breakage::LimitOfOwnHandovers) && action.hands_over() {
            let own = self.items.creating().count();
            let expected = state.fleet.tally().expected;
            let own = u32::try_from(own + 1).unwrap_or(u32::MAX);
            state.spec.value.limit.allowance(expected, own)?;
        }
        let deletes = matches!(action, Action::DeleteRequest { .. });
        let kept = breakage == Some(Breakage::RecoveredKeepsRequest) && deletes;
        (!kept && !matches!(action, Action::ReportForeignRequest { .. })).then_some(action)
    }

    pub(super) fn reconsider(&mut self, item: &Item<Name>, breakage: Option<Breakage>) {
        let effect = self.effect(item, breakage);
        let hands_over = effect.as_ref().is_some_and(Action::hands_over);
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        let kept = breakage == Some(Breakage::ClosedKeepsCleared) && !state.fleet.is_open();
        if !hands_over && !kept {
            state.handover.withdraw(&item.member);
            self.due_since.remove(item);
            self.cleared.remove(item);
        }
        let wanted = Wanted {
            effect,
            hands_over,
            state: self.items.get(item),
        };
        if let Some(acts) = wanted.queued(false) {
            self.queue.push(item.clone(), acts);
        }
    }

    /// Begins what is due, until nothing is.
    pub fn step(&mut self, api: &Api, breakage: Option<Breakage>) {
        while let Some(item) = self.queue.pop() {
            self.turn(api, item, breakage);
        }
        self.begin_reads(breakage);
    }

    fn turn(&mut self, api: &Api, item: Item<Name>, breakage: Option<Breakage>) {
        let effect = self.effect(&item, breakage);
        let Some(machine) = MACHINES.iter().copied().find(|name| **name == *item.member) else {
            return;
        };
        let yields = self.overlaps.yields(&item.check, &machine);
        let yields = yields && breakage != Some(Breakage::OverlapIgnored);
        let state = self.items.get(&item).cloned();
        let wanted = Wanted {
            hands_over: effect.as_ref().is_some_and(Action::hands_over),
            effect,
            state: state.as_ref(),
        };
        let unread = breakage == Some(Breakage::ViewNotRead);
        let turn = wanted.turn(yields, false, || unread || self.is_cleared(&item));
        match turn {
            Turn::Begin(Action::CreateRequest { .. }) => self.create(api, &item, breakage),
            Turn::Begin(Action::DeleteRequest { .. }) => {
                let template = self.checks.get(item.check).map(|c| c.spec.value.template);
                let name = request_name(machine, template.unwrap_or_default());
                let seen = api.requests.view.get(name);
                let request = seen.map(|stored| (name, stored.uid));
                self.queue.begin(item.clone());
                self.tasks.push(Task::Delete(item, request));
            }
            _ => {}
        }
    }

    fn is_cleared(&mut self, item: &Item<Name>) -> bool {
        let Some(state) = self.checks.get_mut(item.check) else {
            return false;
        };
        let cleared = state.handover.request(&item.member, CLOCK);
        if !cleared {
            self.settling.insert(item.check);
            self.due_since.entry(item.clone()).or_insert(CLOCK);
        }
        cleared
    }

    fn create(&mut self, api: &Api, item: &Item<Name>, breakage: Option<Breakage>) {
        let Some((machine, stored)) = api.machines.view.get_key_value(&*item.member) else {
            return;
        };
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        let since = self.cleared.get(item).cloned();
        self.begun.push((item.clone(), since));
        self.queue.begin(item.clone());
        self.items.set_phase(item, Phase::Creating);
        let request = RequestValue {
            of: (machine, stored.uid),
            maker: (item.check, state.spec.uid),
            template: state.spec.value.template,
            deleting: false,
        };
        let task = Task::Create(item.clone(), request);
        state
            .fleet
            .set_request(&item.member, MachineRemediation::Open, NOW);
        self.tasks.push(task);
        self.settle(item.check, breakage);
    }

    fn begin_reads(&mut self, breakage: Option<Breakage>) {
        let mut next: Option<Duration> = None;
        for name in std::mem::take(&mut self.settling) {
            let Some(state) = self.checks.get_mut(name) else {
                continue;
            };
            let expected = state.fleet.tally().expected;
            let can_close = rules(&state.spec.value, None).can_close(expected);
            let settles = can_close && breakage != Some(Breakage::SettlingSkipped);
            match state.handover.step(settles, CLOCK, &mut self.reads) {
                Step::Idle => {}
                Step::Wait(at) => {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    self.settling.insert(name);
                }
                Step::Read => {
                    // All that are due are of this batch.
                    let due = self.due_since.iter();
                    let due = due.filter(|(item, _)| item.check == name);
                    let first = due.map(|(_, since)| *since).min();
                    self.hasty |= can_close && first.is_some_and(|t| t + SETTLE > CLOCK);
                    self.tasks.push(Task::Read(name, self.reads, None));
                }
            }
        }
        self.settled_at = next;
    }
}
