//! The world of health checks: a fleet at the API server, the engine that watches it, and how its calls
//! take effect.

use rackhand_core::checks::dispatch::EffectOutcome;

use super::{
    Watch,
    api::Name,
    breakage::Breakage,
    engine::{CLOCK, Engine, Task},
    objects::{Api, MACHINES},
};

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// F10: a remediation although the limit has been exceeded since before the live read.
    Limit,
    /// F10: more remediations at one time than the limit allows.
    TooMany,
    /// F12, F13: a remediation of a machine that has been healthy since before the live read.
    Healthy,
    /// F13: the first member of a burst was not held back until the burst had arrived.
    Burst,
    /// F6: two remediations of one machine.
    Two,
    /// F12: a remediation was withdrawn that a live check wants.
    Withdrawn,
    /// L1: nothing happens any more, and an unhealthy machine has no remediation although it should, or a
    /// remediation is left.
    Unsettled,
}

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The API server, and the view of it.
    pub api: Api,
    /// The engine of the process that leads.
    pub engine: Engine,
    /// Nodes that may still fail.
    pub failures: u8,
    /// Faults that may still happen.
    pub budget: u8,
    /// A limit was lowered, or the fleet has become smaller: more remediations than the limit may exist.
    pub shrunk: bool,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

impl World {
    /// Records the first rule that was broken.
    pub fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    /// A call takes effect and is answered; `answered`: the engine learns of it.
    pub fn call(&mut self, place: usize, answered: bool, breakage: Option<Breakage>) {
        let task = self.engine.tasks.remove(place);
        match task {
            Task::Create(item, remediation) => {
                self.create(&item, remediation, answered, breakage);
                let result = if answered {
                    Ok(EffectOutcome::RemediationCreated)
                } else {
                    Err(())
                };
                self.engine.acted(&self.api, &item, result, breakage);
            }
            Task::Delete(item, remediation) => {
                if let Some((name, uid)) = remediation {
                    self.delete(name, uid, answered, breakage);
                }
                let result = if answered {
                    Ok(EffectOutcome::RemediationDeleted)
                } else {
                    Err(())
                };
                self.engine.acted(&self.api, &item, result, breakage);
            }
            Task::Withdraw(name, uid, false) => {
                let orphan = self.is_withdrawn(name, uid, breakage);
                if orphan {
                    let task = Task::Withdraw(name, uid, true);
                    self.engine.tasks.push(task);
                } else {
                    self.engine.withdrawn(name, uid, false);
                }
            }
            Task::Withdraw(name, uid, true) => {
                self.delete(name, uid, answered, breakage);
                self.engine.withdrawn(name, uid, answered);
            }
            Task::Read(read, _) => {
                let check = read.check;
                let template = self.engine.checks.get(check).map(|c| c.spec.value.template);
                let mut listed = self.api.list(template.unwrap_or_default(), breakage);
                listed.since = self.true_now(check);
                let task = Task::Read(read, Some(Box::new(listed)));
                self.engine.tasks.insert(place, task);
            }
        }
    }

    /// A call fails before it has an effect.
    pub fn lose(&mut self, place: usize, breakage: Option<Breakage>) {
        match self.engine.tasks.remove(place) {
            Task::Create(item, _) | Task::Delete(item, _) => {
                self.engine.acted(&self.api, &item, Err(()), breakage);
            }
            Task::Withdraw(name, uid, _) => self.engine.withdrawn(name, uid, false),
            Task::Read(read, _) => {
                let why = Err("it was not answered".to_owned());
                self.engine.read_ended(read, why, breakage);
            }
        }
    }

    /// A watch shows its next change.
    pub fn deliver(&mut self, watch: Watch, breakage: Option<Breakage>) {
        let Self { api, engine, .. } = self;
        match watch {
            Watch::Checks => {
                if let Some(name) = api.checks.deliver() {
                    engine.check_changed(api, name, breakage);
                }
            }
            Watch::Machines => {
                if let Some(name) = api.machines.deliver() {
                    engine.machine_changed(api, name, breakage);
                }
            }
            Watch::Nodes => {
                if let Some(name) = api.nodes.deliver() {
                    if api.nodes.seen(name).is_some() {
                        api.absent.remove(name);
                    }
                    engine.node_changed(api, name, breakage);
                }
            }
            Watch::Remediations => {
                if let Some(name) = api.remediations.deliver() {
                    let machine = MACHINES
                        .into_iter()
                        .find(|machine| name.starts_with(machine));
                    if let Some(machine) = machine {
                        engine.remediations_changed(api, machine, breakage);
                    }
                }
            }
        }
    }

    /// The decision whether to withdraw, by live reads.
    fn is_withdrawn(&mut self, name: Name, uid: u8, breakage: Option<Breakage>) -> bool {
        let Some(stored) = self.api.remediations.view.get(name).cloned() else {
            return false;
        };
        let by_view = breakage == Some(Breakage::AbsentCheckTrusted);
        let others = by_view || breakage == Some(Breakage::OtherChecksByView);
        let orphan = stored.uid == uid && self.api.is_orphan(&stored.value, by_view, others);
        if orphan && !self.api.is_orphan(&stored.value, false, false) {
            self.broken(Wrong::Withdrawn);
        }
        orphan
    }

    fn delete(&mut self, name: Name, uid: u8, answered: bool, breakage: Option<Breakage>) {
        let stored = self.api.remediations.objects.get(name);
        let Some(stored) = stored.filter(|stored| stored.uid == uid) else {
            return;
        };
        if stored.value.deleting {
            return;
        }
        let mut value = stored.value.clone();
        value.deleting = true;
        let (machine, _) = value.of;
        let version = &mut self.api.version;
        self.api.remediations.put(name, value, version);
        if answered {
            self.api.remediations.answered(name);
            self.engine
                .remediations_changed(&self.api, machine, breakage);
        }
    }

    /// Lets the engine do what is due, and judges what it begins.
    pub fn settle(&mut self, breakage: Option<Breakage>) {
        loop {
            self.engine.step(&self.api, breakage);
            self.judge_begun();
            let mut tasks = std::mem::take(&mut self.engine.tasks);
            let trusted = breakage == Some(Breakage::ListsNotAwaited);
            let reached = tasks.iter_mut().position(|task| match task {
                Task::Read(_, Some(listed)) => trusted || self.api.reaches(listed),
                _ => false,
            });
            let done = reached.map(|place| tasks.remove(place));
            self.engine.tasks = tasks;
            match done {
                Some(Task::Read(read, listed)) => {
                    let since = listed.map(|listed| listed.since).unwrap_or_default();
                    self.engine.read_ended(read, Ok(since), breakage);
                }
                _ => break,
            }
        }
    }

    /// The state without what cannot matter any more.
    pub fn canonical(&mut self) {
        let engine = self.engine.clone().canonical();
        self.engine = engine;
        self.api.canonical(&mut self.engine.tasks);
    }

    /// Lets time pass until something is due.
    pub fn pass(&mut self, breakage: Option<Breakage>) {
        let Some(due) = self.engine.next_due() else {
            return;
        };
        let engine = self.engine.clone().shifted(due.saturating_sub(CLOCK));
        self.engine = engine;
        self.engine.fire(&self.api, breakage);
    }
}
