//! The operations of the agent: each sends its command, reads what has come of it, and ends.

use jiff::Timestamp;
use rackhand_agent_core::ledger::{PowerCut, RecordedOutcome, SiblingPower};
use rackhand_core::remediation::{
    CommandTaken, FirmwareUpdate, OffProof, OperationOutcome, OperationView, PowerReading,
    PowerState,
};

use crate::{
    remediation::{
        breakage::Breakage,
        judge::Wrong,
        world::{
            BOOT_TAKES, Flash, Power, World,
            agent::HOST,
            outlets::{Failure, is_of_outlets, outlet_reading},
        },
    },
    time::{NOW, after, until},
};

/// Seconds between two readings of an operation.
const READ_EVERY: u64 = 2;

/// Whether an operation is a diagnostic interrupt.
pub fn is_interrupt(id: &str) -> bool {
    id.contains("/nmi/")
}

/// Whether an operation returns the outlets of a remediation that has ended.
pub fn is_for_left_hold(id: &str) -> bool {
    id.contains("/left/")
}

/// What an operation does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Sends its command.
    Command,
    /// Sends its power-off, after the other host that the outlets feed was read off.
    Checked,
    /// Reads; so many readings have said what is wanted.
    Read(u8),
}

/// How an operation ended, as its runner reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The BMC reported what was wanted.
    Confirmed,
    /// Its deadline passed.
    Unconfirmed,
    /// It was cancelled or overtaken.
    Cancelled,
    /// The BMC belongs to another system.
    Mismatch,
    /// An update of firmware runs.
    FirmwareUpdate,
}

/// An operation that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// A power-on; otherwise a hard power-off or a diagnostic interrupt.
    pub on: bool,
    /// Its number in the queue.
    pub number: u64,
    /// What it does next.
    pub phase: Phase,
    /// When.
    pub due: Timestamp,
    /// When it gives up.
    pub deadline: Timestamp,
    /// It ends before its next command.
    pub cancelled: bool,
    /// The controller told which system it expects.
    pub expects: bool,
    /// It sends its power-off although an update of firmware runs.
    pub during_update: bool,
    /// What came of its power-offs of shared outlets.
    pub cut: PowerCut,
    /// Its power-off was taken after another state than off was read, without a reset of the BMC since.
    pub taken: bool,
}

/// An operation as the agent knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// A power-on; otherwise a hard power-off.
    pub on: bool,
    /// By the outlets; otherwise by the BMC.
    pub outlets: bool,
    /// A command was sent.
    pub sent: bool,
    /// How it ended; `None`: it runs.
    pub end: Option<RecordedOutcome<End>>,
}

impl Op {
    /// As the agent reports it.
    pub fn view(&self) -> OperationView {
        let outcome = match self.end {
            None => return OperationView::Running,
            Some(RecordedOutcome::Reported(End::Confirmed)) => self.confirmed(),
            Some(RecordedOutcome::Reported(End::Unconfirmed)) => OperationOutcome::Unconfirmed {
                why: "the BMC did not report it in time".into(),
            },
            Some(RecordedOutcome::Reported(End::Mismatch)) => OperationOutcome::IdentityMismatch {
                why: "another serial number".into(),
            },
            Some(RecordedOutcome::Reported(End::FirmwareUpdate)) => {
                let (update, why) = (flash(), "firmware is being updated".into());
                match self.sent {
                    false => OperationOutcome::FirmwareUpdate { update, why },
                    true => OperationOutcome::UpdateAfterCommand { update, why },
                }
            }
            Some(RecordedOutcome::Reported(End::Cancelled)) => OperationOutcome::Cancelled,
            Some(RecordedOutcome::Interrupted { .. } | RecordedOutcome::Released { .. }) => {
                OperationOutcome::Interrupted
            }
        };
        OperationView::Finished {
            outcome,
            commands_sent: u32::from(self.sent),
        }
    }

    /// Whether the deadline has passed without a confirmation.
    pub fn is_unconfirmed(&self) -> bool {
        self.end == Some(RecordedOutcome::Reported(End::Unconfirmed))
    }

    /// The outcome with its evidence. The agent's clock starts with the command.
    pub fn confirmed(&self) -> OperationOutcome {
        let state = if self.on {
            PowerState::On
        } else {
            PowerState::Off
        };
        let reading = if self.outlets {
            outlet_reading
        } else {
            reading
        };
        let read = |n| reading(state, n * READ_EVERY * 1000);
        OperationOutcome::Confirmed {
            readings: vec![read(1), read(2)],
            taken: self.sent.then(|| CommandTaken {
                command: "ForceOff".into(),
                answer: "204".into(),
                since_start_ms: 0,
                proof: Some(match self.outlets {
                    true => OffProof::OtherDevice,
                    false => OffProof::Taken,
                }),
                updates_unknown: None,
            }),
        }
    }
}

/// The update of firmware as the BMC reports it.
pub fn flash() -> FirmwareUpdate {
    FirmwareUpdate {
        source: "task 1".into(),
        name: String::new(),
        state: "Running".into(),
        percent: None,
        message: String::new(),
    }
}

/// A reading of our BMC.
pub fn reading(state: PowerState, since_start_ms: u64) -> PowerReading {
    PowerReading {
        state,
        raw: format!("{state:?}"),
        protocol: "Redfish".into(),
        identity: String::new(),
        at: NOW,
        since_start_ms,
        bmc: HOST.into(),
    }
}

impl World {
    /// What the BMC reports.
    pub fn read_bmc(&self) -> Option<PowerState> {
        if self.bmc.silent || !self.is_fed() {
            return None;
        }
        if let Some(read) = self.read_other() {
            return Some(read);
        }
        Some(match self.host.power {
            _ if self.bmc.lying || self.bmc.reset => PowerState::Off,
            Power::On => PowerState::On,
            Power::GoingOff(_) => PowerState::PoweringOff,
            Power::Off => PowerState::Off,
            Power::GoingOn(_) => PowerState::PoweringOn,
        })
    }

    /// The operation whose turn it is does its next act.
    pub fn agent_acts(&mut self, breakage: Option<Breakage>) {
        let Some(which) = self.agent.current() else {
            return;
        };
        let Run {
            on,
            phase,
            deadline,
            cancelled,
            ..
        } = self.agent.runs[which];
        let wanted = if on { PowerState::On } else { PowerState::Off };
        let by_outlets = is_of_outlets(&self.agent.runs[which].id);
        let other_system = self.outlets.is_some_and(|o| o.bmc == Failure::OtherSystem);
        let is_mismatch = self.other.is_some() && self.agent.runs[which].expects;
        let read = self.read_by(&self.agent.runs[which].id);
        if self.shares_outlets(which) && phase != Phase::Checked {
            let cut = &mut self.agent.runs[which].cut;
            match read {
                Some(read) => cut.read(read == PowerState::Off),
                None => cut.failed(),
            }
        }
        let (next, end) = match (read, phase) {
            _ if cancelled => (phase, Some(End::Cancelled)),
            (Some(_), Phase::Command) if other_system && !by_outlets || is_mismatch => {
                (phase, Some(End::Mismatch))
            }
            _ if until(deadline).is_zero() => (phase, Some(End::Unconfirmed)),
            (Some(_), Phase::Command) if is_interrupt(&self.agent.runs[which].id) => {
                self.interrupts_host(which);
                (phase, Some(End::Confirmed))
            }
            (None, Phase::Command) => (Phase::Command, None),
            (None, Phase::Read(_)) => (Phase::Read(0), None),
            (Some(_), Phase::Command) if by_outlets && !on && self.read_sibling().is_some() => {
                match self.may_cut(which, breakage) {
                    true => (Phase::Checked, None),
                    false => (phase, Some(End::Unconfirmed)),
                }
            }
            (Some(_), Phase::Command) if !on && self.refuses_update(which, breakage) => {
                (phase, Some(End::FirmwareUpdate))
            }
            (_, Phase::Command | Phase::Checked) => {
                let was_on = read != Some(PowerState::Off);
                self.commands(which, on, was_on, breakage);
                (Phase::Read(0), None)
            }
            (Some(read), Phase::Read(n)) if read == wanted => {
                let is_confirmed = on || n > 0;
                let is_proven = on || by_outlets || self.is_known(which);
                let end = match is_proven {
                    true => End::Confirmed,
                    false => End::Unconfirmed,
                };
                (Phase::Read(n + 1), is_confirmed.then_some(end))
            }
            (Some(PowerState::PoweringOff | PowerState::PoweringOn), _) => (Phase::Read(0), None),
            (Some(_), Phase::Read(_)) => (Phase::Command, None),
        };
        match end {
            Some(end) => self.agent.ends(which, end),
            None => {
                let run = &mut self.agent.runs[which];
                let wait = match next {
                    Phase::Checked => 0,
                    _ => READ_EVERY,
                };
                (run.phase, run.due) = (next, after(wait));
            }
        }
        self.changed();
    }

    /// Whether a power-off, the first or a repeated one, is refused because of an update.
    fn refuses_update(&self, which: usize, breakage: Option<Breakage>) -> bool {
        let run = &self.agent.runs[which];
        let is_read = !run.during_update && breakage != Some(Breakage::UpdateUnread);
        is_read && self.flash == Some(Flash::Running)
    }

    /// Whether an operation may switch off the outlets, which also feed another host.
    fn may_cut(&mut self, which: usize, breakage: Option<Breakage>) -> bool {
        let Some(power) = self.read_sibling() else {
            return true;
        };
        let power = match breakage {
            Some(Breakage::SiblingUnread) => SiblingPower::Off,
            _ => power,
        };
        let holds = breakage != Some(Breakage::SiblingNotHeld);
        let Run { id, cut, .. } = &self.agent.runs[which];
        let sent = || self.agent.op(id).is_some_and(|op| op.sent);
        let is_cut = cut.is_accepted()
            || self.read_by(id) == Some(PowerState::Off)
            || breakage == Some(Breakage::FailedCutCounts) && sent();
        self.agent.may_cut(which, (power, is_cut), holds)
    }

    /// Whether an operation switches outlets that also feed another host.
    fn shares_outlets(&self, which: usize) -> bool {
        let is_shared = self.outlets.is_some_and(|o| o.sibling.is_some());
        is_shared && is_of_outlets(&self.agent.runs[which].id)
    }

    /// The agent sends a diagnostic interrupt: the kernel writes its dump, and starts again.
    fn interrupts_host(&mut self, which: usize) {
        self.judge_interrupt();
        self.agent.sends(which, false);
        self.interrupted = self.interrupted.saturating_add(1);
        if self.host.power == Power::On {
            self.host.up = false;
            self.pod.process = false;
            self.host.boot = Some(after(BOOT_TAKES));
        }
    }

    /// Whether the BMC knows the state that it reports: it took the power-off of this operation while the host
    /// was on, or it was not reset lately, which its uptime shows (F1).
    fn is_known(&self, which: usize) -> bool {
        self.agent.runs[which].taken || !self.bmc.reset
    }

    /// The BMC is reset, which an operation notices: what it took before proves nothing any more.
    pub(crate) fn resets_bmc(&mut self) {
        self.bmc.reset = true;
        for run in &mut self.agent.runs {
            run.taken = false;
        }
    }

    /// Whether the agent is about to read on and to send a power-off to the BMC.
    pub(crate) fn is_about_to_switch_off(&self) -> bool {
        let Some(run) = self.agent.current().map(|which| &self.agent.runs[which]) else {
            return false;
        };
        let is_off = !run.on && !is_of_outlets(&run.id) && !is_interrupt(&run.id);
        let other_system = self.outlets.is_some_and(|o| o.bmc == Failure::OtherSystem);
        let is_due = until(run.due).is_zero() && !until(run.deadline).is_zero();
        let is_ours = !other_system && self.other.is_none() && !self.bmc.lying;
        let acts = is_off && is_due && !run.cancelled && is_ours;
        acts && run.phase == Phase::Command
            && self.host.power == Power::On
            && self.read_bmc() == Some(PowerState::On)
    }

    /// The agent reads on, and its power-off meets a BMC that was reset in between.
    pub(crate) fn resets_bmc_at_off(&mut self, breakage: Option<Breakage>) {
        let Some(which) = self.agent.current() else {
            return;
        };
        self.resets_bmc();
        self.commands(which, false, true, breakage);
        let run = &mut self.agent.runs[which];
        (run.phase, run.due) = (Phase::Read(0), after(READ_EVERY));
        self.changed();
    }

    /// The agent sends the command of an operation. `was_on`: it has read another state than off.
    fn commands(&mut self, which: usize, on: bool, was_on: bool, breakage: Option<Breakage>) {
        if self.done.is_some() && !is_for_left_hold(&self.agent.runs[which].id) {
            self.broken(Wrong::Late);
        }
        let shares = self.shares_outlets(which);
        self.agent.sends(which, shares);
        if is_of_outlets(&self.agent.runs[which].id) {
            let accepted = self.switch_outlet(on);
            if shares && !on {
                let cut = &mut self.agent.runs[which].cut;
                match accepted {
                    true => cut.accepted(),
                    false => cut.failed(),
                }
            }
            return;
        }
        // It takes the host for off, and carries nothing out.
        let is_refused = self.bmc.reset && !on;
        let counts = !is_refused || breakage == Some(Breakage::RefusalCounts);
        self.agent.runs[which].taken |= counts && was_on;
        if is_refused {
            return;
        }
        if let Some(other) = &mut self.other {
            other.on = on;
        } else if !self.bmc.lying {
            self.switch(on);
        }
        self.bmc.reset = false;
    }
}
