//! The simulated BMC, correct or faulty, and the operations of the agent.

use super::{
    super::*,
    world::{Power, World},
};

#[derive(Debug, Clone)]
pub(in crate::remediation::tests) struct Op {
    on: bool,
    begun: i64,
    deadline: i64,
    look_until: i64,
    readings: Vec<i64>,
    sent: Vec<i64>,
    taken: Option<i64>,
    pub(in crate::remediation::tests) cancel: bool,
    pub(in crate::remediation::tests) outcome: Option<OperationOutcome>,
}

impl Op {
    pub(in crate::remediation::tests) fn new(on: bool, now: i64, look: i64, limit: i64) -> Self {
        Self {
            on,
            begun: now,
            deadline: now + limit + look,
            look_until: now + look,
            readings: Vec::new(),
            sent: Vec::new(),
            taken: None,
            cancel: false,
            outcome: None,
        }
    }

    pub(in crate::remediation::tests) fn is_open_power_on(&self) -> bool {
        self.on && self.outcome.is_none()
    }

    pub(in crate::remediation::tests) fn view(&self) -> OperationView {
        match &self.outcome {
            None => OperationView::Running,
            Some(outcome) => OperationView::Finished {
                outcome: outcome.clone(),
                commands_sent: u32::try_from(self.sent.len()).unwrap(),
            },
        }
    }
}

impl World {
    pub(in crate::remediation::tests) fn read_bmc(&mut self) -> Result<PowerState, String> {
        if self.silent {
            return Err("the BMC does not answer".into());
        }
        let state = match self.hosts[self.target()].power {
            _ if self.plan.lying => PowerState::Off,
            Power::On => PowerState::On,
            Power::GoingOff(_) | Power::Off if self.plan.stuck => PowerState::PoweringOff,
            Power::GoingOff(_) => PowerState::On,
            Power::Off => PowerState::Off,
            Power::GoingOn(_) => PowerState::PoweringOn,
        };
        if state == PowerState::Off {
            self.said_off.push(self.now);
        } else {
            self.said_off.clear();
        }
        Ok(state)
    }

    fn command_bmc(&mut self, on: bool) -> bool {
        if self.silent {
            return false;
        }
        if !self.plan.lying {
            self.switch(self.target(), on);
        }
        true
    }

    pub(in crate::remediation::tests) fn move_op(&mut self, id: &str) {
        let Some(mut op) = self.ops.remove(id) else {
            return;
        };
        let now = self.now;
        if op.outcome.is_none() && op.begun < now {
            let wanted = if op.on {
                PowerState::On
            } else {
                PowerState::Off
            };
            let read = self.read_bmc();
            // F1: off is commanded in any case, and earlier readings do not count.
            let commanded = op.on || op.taken.is_some();
            let spaced = op.readings.last().is_none_or(|t| now - t >= 2000);
            match &read {
                Ok(state) if *state == wanted && spaced && commanded => op.readings.push(now),
                Ok(state) if *state == wanted => {}
                _ => op.readings.clear(),
            }
            let enough = if op.on { 1 } else { 2 };
            if op.cancel {
                op.outcome = Some(OperationOutcome::Cancelled);
            } else if op.readings.len() >= enough {
                let readings = op
                    .readings
                    .iter()
                    .map(|t| self.reading(wanted, *t))
                    .collect();
                let taken = op.taken.map(|at| CommandTaken {
                    command: "ForceOff".into(),
                    answer: "204".into(),
                    since_start_ms: u64::try_from(at).unwrap(),
                    proof: Some(OffProof::Taken),
                    updates_unknown: None,
                });
                op.outcome = Some(OperationOutcome::Confirmed { readings, taken });
            } else if now >= op.deadline {
                let why = read.map_or_else(|e| e, |s| format!("the BMC still reports {s:?}"));
                op.outcome = Some(OperationOutcome::Unconfirmed { why });
            } else if read
                .is_ok_and(|s| !commanded && s == wanted || s != wanted && now >= op.look_until)
                && op.sent.last().is_none_or(|t| now - t >= 10_000)
                && self.command_bmc(op.on)
            {
                op.sent.push(now);
                op.readings.clear();
                if !op.on {
                    op.taken.get_or_insert(now);
                }
            }
        }
        self.ops.insert(id.to_owned(), op);
    }

    pub(in crate::remediation::tests) fn reading(
        &self,
        state: PowerState,
        when: i64,
    ) -> PowerReading {
        PowerReading {
            state,
            raw: format!("{state:?}"),
            protocol: "Redfish".into(),
            identity: String::new(),
            at: super::build::at(when / 1000),
            since_start_ms: u64::try_from(when).unwrap(),
            bmc: "10.0.0.7".into(),
        }
    }
}
