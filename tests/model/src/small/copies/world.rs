//! The host, what the Kubernetes API has, and what happens to both.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rackhand_core::remediation::{
    Command, CommandTaken, Decision, Mode, Next, OffEvidence, OffProof, PinnedNode, PowerState,
    Shell, State, Step, TaintOwner, Unread, step,
};

use super::{
    Breakage,
    observation::{NODE, host},
};
use crate::{
    remediation::world::operation::reading,
    time::{NOW, shift_state, until},
};

/// The number of the object whose state is foreign, and of a hold key of no remediation.
const FOREIGN: u8 = 9;
/// Power-offs of a remediation that are repeated, as far as that is followed.
const REPEATS: u32 = 2;

/// UID of the object with this number.
pub(super) fn uid(object: u8) -> &'static str {
    match object {
        1 => "r1",
        2 => "r2",
        _ => "r9",
    }
}

/// Hold key of the object with this number.
pub(super) fn key(object: u8) -> String {
    format!("reboot.metal3.io/rackhand-{}", uid(object))
}

/// Where the displayed state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The controller has written it for this object.
    Controller,
    /// It was of this object, and is older.
    Replayed,
    /// It is of another object.
    Foreign,
    /// Somebody has made it up.
    Forged,
    /// It was moved with the object.
    Moved,
}

/// The state that the object displays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Displayed {
    pub(super) origin: Origin,
    pub(super) state: State,
}

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// The taint was set although this object has not confirmed the host off since it was on.
    Taint,
    /// The host was switched on before its Node was drained.
    EarlyOn,
    /// The host was held or switched off although a policy holds the remediation.
    NotPermitted,
    /// The host was switched off again after the power cycle of this object.
    Again,
    /// The host was switched on by an object that has not confirmed it off.
    Unproven,
}

/// One host, its Node and its remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The number of the remediation object: 1, and 2 after a move.
    pub(super) object: u8,
    /// What Rackhand has recorded about this object.
    pub(super) record: Option<State>,
    pub(super) copy: Option<Displayed>,
    /// An earlier displayed state, which somebody has kept.
    kept: Option<State>,
    pub(super) finalizer: bool,
    /// Hold keys on the BareMetalHost, by the number of their object.
    pub(super) keys: BTreeSet<u8>,
    pub(super) taint: bool,
    pub(super) ready: bool,
    pub(super) boots: u8,
    /// The host was switched on and has not booted yet.
    booting: bool,
    /// The kubelet has renewed its Lease since the boot.
    pub(super) renewed: bool,
    /// The API has the pod on our Node.
    pub(super) bound: bool,
    /// The pod runs on our host.
    process: bool,
    /// The pod was started on another host.
    elsewhere: bool,
    pub(super) on: bool,
    /// Operations of the agent, which have ended, and whether each was a power-off.
    pub(super) operations: BTreeMap<String, bool>,
    pub(super) agent_holds: Option<u8>,
    /// The latest reading of the BMC, if the power has not changed since.
    pub(super) read: Option<bool>,
    pub(super) completed: BTreeSet<Command>,
    /// No policy holds the remediation.
    pub(super) permitted: bool,
    /// This object has confirmed the host off, and the host was not on since.
    proven: bool,
    /// The host came on by the power cycle of this object.
    cycled: bool,
    budget: u8,
    done: bool,
    /// What the process remembers of the record.
    shell: Shell,
    /// The watch of the process shows no record, whether there is one or not.
    lags: bool,
    /// The object is being deleted, and somebody else's finalizer keeps it.
    pub(super) deleting: bool,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller observes, decides, and carries out the decision.
    Work,
    /// Time passes until the controller looks again.
    Time,
    /// The policy no longer holds the remediation.
    Permit,
    /// The workload of the tainted Node moves.
    Drain,
    /// The host has booted, and its kubelet reports.
    Boot,
    /// The kubelet renews its Lease.
    Renew,
    /// Somebody keeps the displayed state for later.
    Keep,
    /// Somebody displays the kept state.
    Replay,
    /// Somebody displays the state of another object, whose host is confirmed off.
    DisplayForeign,
    /// Somebody displays that this host is confirmed off.
    Forge,
    /// Somebody puts the finalizer on the object, or removes it.
    Finalizer,
    /// Somebody puts a hold key of no remediation on the BareMetalHost.
    Key,
    /// The object is moved.
    Move,
    /// Somebody writes the object anew, without finalizer and displayed state, and the controller starts again. Its watch
    /// shows no record yet.
    Restart,
    /// Somebody deletes the object before the record is read.
    Delete,
}

impl World {
    /// A Node that has failed, and a remediation for it that a policy holds.
    pub(super) fn new(budget: u8) -> Self {
        Self {
            object: 1,
            record: None,
            copy: None,
            kept: None,
            finalizer: false,
            keys: BTreeSet::new(),
            taint: false,
            ready: false,
            boots: 0,
            booting: false,
            renewed: false,
            bound: true,
            process: true,
            elsewhere: false,
            on: true,
            operations: BTreeMap::new(),
            agent_holds: None,
            read: None,
            completed: BTreeSet::new(),
            permitted: false,
            proven: false,
            cycled: false,
            budget,
            done: false,
            shell: Shell::new(uid(1)),
            lags: false,
            deleting: false,
            wrong: None,
        }
    }

    pub(super) fn is_followed(&self) -> bool {
        let bounded = |s: &State| s.power_off_repeats <= REPEATS && s.tries <= REPEATS;
        self.record.as_ref().is_none_or(bounded)
    }

    pub(super) fn runs_twice(&self) -> bool {
        self.process && self.elsewhere
    }

    /// Whether the remediation of this object has ended with its Node back, and nothing of it is left.
    pub(super) fn is_over(&self, object: u8) -> bool {
        let is_clean = self.keys.is_empty() && !self.taint;
        self.done && self.object == object && self.ready && self.cycled && is_clean
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        // What follows a broken rule shows nothing more.
        if self.wrong.is_some() {
            return Vec::new();
        }
        let mut all = vec![Action::Work, Action::Time];
        let mut add = |is_possible, action| all.extend(Some(action).filter(|_| is_possible));
        add(!self.permitted, Action::Permit);
        add(self.taint && self.bound, Action::Drain);
        add(self.booting, Action::Boot);
        add(self.ready && self.object == 2, Action::Renew);
        let tampers = self.budget > 0;
        let is_kept = |copy: &&Displayed| {
            let claims = matches!(copy.state.step, Step::ConfirmingOff | Step::PoweringOn);
            copy.origin == Origin::Controller && claims
        };
        let kept = self.copy.as_ref().filter(is_kept).is_some();
        add(tampers && kept && self.kept.is_none(), Action::Keep);
        add(tampers && self.kept.is_some(), Action::Replay);
        for action in [Action::DisplayForeign, Action::Forge, Action::Finalizer] {
            add(tampers, action);
        }
        add(tampers && self.keys.is_empty(), Action::Key);
        add(tampers && self.object == 1 && !self.done, Action::Move);
        add(tampers && !self.done, Action::Restart);
        add(self.lags && !self.deleting, Action::Delete);
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Work => self.work(breakage),
            Action::Time => self.pass_time(breakage),
            Action::Permit => self.permitted = true,
            Action::Drain => (self.bound, self.elsewhere) = (false, true),
            Action::Boot => {
                (self.ready, self.booting, self.renewed) = (true, false, false);
                self.boots = self.boots.saturating_add(1);
                self.process = self.bound;
            }
            Action::Renew => self.renewed = true,
            Action::Keep => self.kept = self.copy.as_ref().map(|copy| copy.state.clone()),
            Action::Replay => self.display(Origin::Replayed, self.kept.clone()),
            Action::DisplayForeign => self.display(Origin::Foreign, Some(claim(Step::Tainting))),
            Action::Forge => self.display(Origin::Forged, Some(claim(Step::ConfirmingOff))),
            Action::Finalizer => {
                self.budget -= 1;
                self.finalizer = !self.finalizer;
            }
            Action::Key => {
                self.budget -= 1;
                self.keys.insert(FOREIGN);
            }
            Action::Move => self.move_object(),
            Action::Restart => {
                self.budget -= 1;
                (self.shell, self.lags) = (Shell::new(uid(self.object)), true);
                (self.finalizer, self.copy) = (false, None);
                self.completed.clear();
            }
            Action::Delete => self.deleting = true,
        }
    }

    fn display(&mut self, origin: Origin, state: Option<State>) {
        self.budget -= 1;
        self.copy = state.map(|state| Displayed { origin, state });
    }

    /// What has another UID has no record, and its copy is what the former one displayed.
    fn move_object(&mut self) {
        self.budget -= 1;
        self.object = 2;
        self.record = None;
        if let Some(copy) = &mut self.copy {
            copy.origin = Origin::Moved;
        }
        (self.proven, self.cycled, self.agent_holds) = (false, false, None);
        self.completed.clear();
        self.shell = Shell::new(uid(2));
    }

    /// Reads the record, or takes it for absent where nothing tells of one, as a controller does.
    fn load(&mut self) {
        if self.shell.loaded {
            return;
        }
        let shows_none = self.lags || self.record.is_none();
        let is_new = !self.finalizer && self.copy.is_none() && shows_none;
        if !(is_new && self.shell.assume_unrecorded())
            && self.shell.read_state(Ok(self.record.clone())).is_ok()
        {
            self.lags = false;
        }
    }

    fn decide(&self, breakage: Option<Breakage>) -> Decision {
        let believed = breakage.and_then(|breakage| breakage.believed(self));
        let state = believed.or_else(|| match self.shell.loaded {
            true => self.shell.state.clone(),
            false => self.record.clone(),
        });
        step(&self.observe(state.as_ref()), state.as_ref(), NOW)
    }

    fn work(&mut self, breakage: Option<Breakage>) {
        self.load();
        let d = self.decide(breakage);
        let creates = self.shell.unread == Unread::Assumed && self.shell.state.is_none();
        if self.shell.rests_on_unread(Some(&d)) && breakage != Some(Breakage::UnreadTrusted) {
            return;
        }
        match d.next {
            // The API server creates no second one of that name.
            Next::Write
                if creates
                    && self.record.is_some()
                    && breakage != Some(Breakage::UnreadOverwritten) =>
            {
                self.shell.write_failed();
            }
            Next::Write => {
                self.completed.clear();
                self.shell.written(Some(&d.state));
                self.lags = false;
                self.copy = Some(Displayed {
                    origin: Origin::Controller,
                    state: d.state.clone(),
                });
                self.record = Some(d.state);
            }
            Next::Do(command) => {
                self.execute(&command);
                self.completed.insert(command);
            }
            Next::Wait(_) => {}
            Next::Done(_) => self.done = true,
        }
    }

    fn pass_time(&mut self, breakage: Option<Breakage>) {
        let Next::Wait(at) = self.decide(breakage).next else {
            return;
        };
        let passed: Duration = until(at);
        self.read = None;
        let copy = self.copy.as_mut().map(|copy| &mut copy.state);
        let states = [
            self.record.as_mut(),
            copy,
            self.kept.as_mut(),
            self.shell.state.as_mut(),
        ];
        for state in states.into_iter().flatten() {
            shift_state(state, passed);
        }
    }

    fn execute(&mut self, command: &Command) {
        match command {
            Command::AddFinalizer => self.finalizer = true,
            Command::RemoveFinalizer(_) => self.finalizer = false,
            Command::AddHold => {
                self.judge(!self.permitted, Wrong::NotPermitted);
                self.keys.insert(self.object);
            }
            Command::RemoveHold => {
                self.keys.remove(&self.object);
                self.owner_acts();
            }
            Command::RemoveOrphanedHolds { .. } => {
                self.keys.retain(|of| *of == self.object);
                self.owner_acts();
            }
            Command::PowerOff { id, .. } => {
                self.judge(!self.permitted, Wrong::NotPermitted);
                self.judge(self.cycled, Wrong::Again);
                (self.on, self.ready, self.process) = (false, false, false);
                self.booting = false;
                (self.read, self.proven) = (None, true);
                self.agent_holds = Some(self.object);
                self.operations.insert(id.clone(), true);
            }
            Command::PowerOn { id, .. } => {
                self.operations.insert(id.clone(), false);
                self.come_on();
            }
            Command::Release => self.agent_holds = None,
            Command::ReadPower => self.read = Some(self.on),
            Command::AddTaint => {
                self.judge(self.on || !self.proven, Wrong::Taint);
                self.taint = true;
            }
            Command::RemoveTaint => self.taint = false,
            _ => {}
        }
    }

    /// baremetal-operator switches on what no key holds.
    fn owner_acts(&mut self) {
        if self.keys.is_empty() && !self.on {
            self.come_on();
        }
    }

    fn come_on(&mut self) {
        // What is withdrawn before the taint has moved nothing, and its pods start where they were.
        let is_undone = self.deleting && !self.taint;
        self.judge(self.bound && !is_undone, Wrong::EarlyOn);
        self.judge(!self.proven, Wrong::Unproven);
        (self.on, self.cycled, self.proven) = (true, true, false);
        (self.read, self.agent_holds, self.booting) = (None, None, true);
    }

    /// Records that a rule was broken; the first one counts.
    fn judge(&mut self, is_wrong: bool, wrong: Wrong) {
        if is_wrong {
            self.wrong.get_or_insert(wrong);
        }
    }

    pub(super) fn tell(&self, action: Action, breakage: Option<Breakage>) -> String {
        match action {
            Action::Work | Action::Time => {
                let d = self.decide(breakage);
                format!("{action:?}: {:?}, {:?}: {}", d.state.step, d.next, d.reason)
            }
            other => format!("{other:?}"),
        }
    }
}

/// A state that claims that the host is confirmed off.
fn claim(step: Step) -> State {
    let mut s = State::new(NOW);
    (s.step, s.mode) = (step, Mode::Cooperative);
    (s.finalizer, s.agent_holds, s.node_was_down) = (true, true, true);
    s.host = Some(host());
    s.attempt.node = Some(PinnedNode {
        name: NODE.into(),
        uid: "n7".into(),
        boot_id: "boot-0".into(),
        system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        unproven: false,
    });
    s.attempt.off = Some(OffEvidence::Bmc {
        at: NOW,
        readings: vec![
            reading(PowerState::Off, 1000),
            reading(PowerState::Off, 4000),
        ],
        taken: CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
            updates_unknown: None,
        },
    });
    s.attempt.lease_at_off = Some("0-false".into());
    s.attempt.taint = (step == Step::Tainting).then_some(TaintOwner::Us);
    s
}
