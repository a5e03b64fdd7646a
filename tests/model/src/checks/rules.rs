//! The rules: what the engine does is judged by the fleet as it really is.

use rackhand_core::{
    checks::dispatch::Item,
    checks::machines::{Claim, acting},
};

use super::{
    api::Name,
    breakage::Breakage,
    engine::{Since, Task},
    objects::{Api, MACHINES, RemediationValue, remediation_name},
    world::{World, Wrong},
};
use crate::time::after;

impl World {
    /// A remediation is created at the API server, unless there is one of its name.
    pub(super) fn create(
        &mut self,
        item: &Item<Name>,
        remediation: RemediationValue,
        answered: bool,
        breakage: Option<Breakage>,
    ) {
        let (machine, _) = remediation.of;
        let name = remediation_name(machine, remediation.template);
        let is_new = self.api.remediations.get(name).is_none();
        if is_new {
            let version = &mut self.api.version;
            self.api.remediations.put(name, remediation, version);
            self.judge_remediations(item.check);
        }
        if answered && is_new {
            self.api.remediations.answered(name);
            self.engine
                .remediations_changed(&self.api, machine, breakage);
        }
    }

    /// F6, F10: after a remediation was created. One that is being deleted, or is to be withdrawn, makes room
    /// for another: that one waits for its end.
    fn judge_remediations(&mut self, check: Name) {
        let exists = |remediation: &&RemediationValue| {
            let (name, uid) = remediation.of;
            let machine = self.api.machines.objects.get(name);
            machine.is_some_and(|machine| machine.uid == uid)
        };
        let stored = self.api.remediations.objects.values().map(|s| &s.value);
        let all: Vec<&RemediationValue> = stored.filter(exists).collect();
        let stays = |remediation: &&&RemediationValue| {
            !remediation.deleting && !self.api.is_orphan(remediation, false, false)
        };
        let stay: Vec<&&RemediationValue> = all.iter().filter(stays).collect();
        let twice =
            |one: &&&RemediationValue| stay.iter().filter(|other| other.of == one.of).count() > 1;
        let twice = stay.iter().any(twice);
        let made = all
            .iter()
            .filter(|remediation| remediation.maker.0 == check);
        let made = made.count();
        let most = self.api.checks.get(check).map(|c| self.api.most(c));
        let too_many = !self.shrunk && most.is_some_and(|most| made > most);
        if twice {
            self.broken(Wrong::Two);
        }
        if too_many {
            self.broken(Wrong::TooMany);
        }
    }

    /// F10, F12, F13: a remediation is about to be created.
    pub(super) fn judge_begun(&mut self) {
        if self.engine.hasty {
            self.broken(Wrong::Burst);
        }
        for (item, since) in std::mem::take(&mut self.engine.begun) {
            let since = since.unwrap_or_else(|| self.true_now(item.check));
            if !since.unhealthy.contains(&*item.member) {
                self.broken(Wrong::Healthy);
            }
            if !since.open {
                self.broken(Wrong::Limit);
            }
        }
    }

    /// What is true now of the fleet of a check.
    pub(super) fn true_now(&self, check: Name) -> Since {
        let unhealthy = |machine: &Name| self.api.is_unhealthy(machine);
        Since {
            open: self.api.is_open(check),
            unhealthy: MACHINES.into_iter().filter(unhealthy).collect(),
        }
    }

    /// Notes what is true now, for every live read that has shown something.
    pub(super) fn note(&mut self) {
        let now = |world: &Self, check: Name, since: &mut Since| {
            let true_now = world.true_now(check);
            since.open |= true_now.open;
            since.unhealthy.extend(true_now.unhealthy);
        };
        let mut tasks = std::mem::take(&mut self.engine.tasks);
        for task in &mut tasks {
            if let Task::Read(read, Some(listed)) = task {
                now(self, read.check, &mut listed.since);
            }
        }
        self.engine.tasks = tasks;
        let mut cleared = std::mem::take(&mut self.engine.cleared);
        for (item, since) in &mut cleared {
            now(self, item.check, since);
        }
        self.engine.cleared = cleared;
    }

    /// The check that acts for a machine without a remediation, as it really is.
    fn acting(&self, machine: Name) -> Option<Name> {
        let checks = self.api.checks.objects.iter();
        let selects = checks.filter(|(_, check)| Api::is_selected(&check.value, machine));
        let claims = selects.map(|(name, check)| {
            let claim = Claim {
                created: Some(after(check.value.created)),
                name: (*name).to_owned(),
                able: true,
                has_remediation: false,
            };
            (*name, claim)
        });
        let (names, claims): (Vec<Name>, Vec<Claim>) = claims.unzip();
        names.get(acting(&claims)?).copied()
    }

    /// L1: nothing happens any more. No remediation is left, and every unhealthy machine is one that its check
    /// may not remediate.
    pub(super) fn judge_settled(&mut self) {
        let wanted = self.api.machines.objects.keys().any(|machine| {
            let check = self.acting(machine);
            self.api.is_unhealthy(machine) && check.is_some_and(|name| self.api.is_open(name))
        });
        if wanted || !self.api.remediations.objects.is_empty() {
            self.broken(Wrong::Unsettled);
        }
    }
}
