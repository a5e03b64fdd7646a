//! What is begun: handovers, deletions of remediations, and live reads.

use rackhand_core::{
    checks::dispatch::{Item, Role, Turn, Wanted},
    checks::handover::SETTLE,
    checks::machines::{self, Action, MachineRemediation},
};

use super::{
    super::{
        api::Name,
        breakage::Breakage,
        objects::{Api, MACHINES, RemediationValue, remediation_name},
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
            let own = self.members.creating().count();
            let expected = state.fleet.tally().expected;
            let own = u32::try_from(own + 1).unwrap_or(u32::MAX);
            state.spec.value.limit.allowance(expected, own)?;
        }
        let deletes = matches!(action, Action::DeleteRemediation { .. });
        let kept = breakage == Some(Breakage::RecoveredKeepsRemediation) && deletes;
        (!kept && !matches!(action, Action::ReportForeignRemediation { .. })).then_some(action)
    }

    pub(super) fn reconsider(&mut self, item: &Item<Name>, breakage: Option<Breakage>) {
        let effect = self.effect(item, breakage);
        let Some(state) = self.checks.get(item.check) else {
            return;
        };
        let kept = breakage == Some(Breakage::ClosedKeepsCleared) && !state.fleet.is_open();
        let hands_over = effect.as_ref().is_some_and(Action::hands_over) || kept;
        if !hands_over {
            self.due_since.remove(item);
            self.cleared.remove(item);
        }
        let wanted = Wanted { effect, hands_over };
        self.members.reconsider(item, &wanted, false);
    }

    /// Begins what is due, until nothing is.
    pub fn step(&mut self, api: &Api, breakage: Option<Breakage>) {
        while let Some(item) = self.members.pop() {
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
        let unread = breakage == Some(Breakage::ViewNotRead);
        let wanted = Wanted {
            hands_over: effect.as_ref().is_some_and(Action::hands_over) && !unread,
            effect,
        };
        let role = Role {
            yields: yields && breakage != Some(Breakage::OverlapIgnored),
            dry_run: false,
        };
        match self.members.turn(&item, wanted, role, CLOCK) {
            Turn::Begin(Action::CreateRemediation { .. }) => self.create(api, &item, breakage),
            Turn::Begin(Action::DeleteRemediation { .. }) => {
                let template = self.checks.get(item.check).map(|c| c.spec.value.template);
                let name = remediation_name(machine, template.unwrap_or_default());
                let seen = api.remediations.view.get(name);
                let remediation = seen.map(|stored| (name, stored.uid));
                self.members.begin(&item, false);
                self.tasks.push(Task::Delete(item, remediation));
            }
            Turn::AwaitRead => {
                self.due_since.entry(item).or_insert(CLOCK);
            }
            _ => {}
        }
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
        self.members.begin(item, true);
        let remediation = RemediationValue {
            of: (machine, stored.uid),
            maker: (item.check, state.spec.uid),
            template: state.spec.value.template,
            deleting: false,
        };
        let task = Task::Create(item.clone(), remediation);
        state
            .fleet
            .set_remediation(&item.member, MachineRemediation::Open, NOW);
        self.tasks.push(task);
        self.settle(item.check, breakage);
    }

    fn begin_reads(&mut self, breakage: Option<Breakage>) {
        let checks = &self.checks;
        let can_close = |name: &Name| {
            checks.get(name).is_some_and(|state| {
                let expected = state.fleet.tally().expected;
                machines::can_close(&rules(&state.spec.value, None), expected)
            })
        };
        let settles = |name: &Name| can_close(name) && breakage != Some(Breakage::SettlingSkipped);
        for read in self.members.begin_reads(settles, CLOCK) {
            // All that are due are of this batch.
            let due = self.due_since.iter();
            let due = due.filter(|(item, _)| item.check == read.check);
            let first = due.map(|(_, since)| *since).min();
            self.hasty |= can_close(&read.check) && first.is_some_and(|t| t + SETTLE > CLOCK);
            self.tasks.push(Task::Read(read, None));
        }
    }
}
