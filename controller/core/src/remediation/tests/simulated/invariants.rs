//! The invariants of the world at every command, and at the end of every run.

use super::{super::*, driver::Run, world::Power};

impl Run {
    /// F1: checks that the taint may be set.
    pub(in crate::remediation::tests) fn may_taint(&self, state: &State) {
        let w = &self.world;
        let by_person = matches!(state.attempt.off, Some(OffEvidence::Person { .. }));
        let apart = w
            .said_off
            .first()
            .zip(w.said_off.last())
            .map_or(0, |(a, b)| b - a);
        // A host that came on a moment ago has not booted, and is detected in time (F3). A controller that
        // crashes after that reading has only its evidence.
        let lately = w.meddled_at.is_some_and(|t| w.now - t < 30_000);
        if !by_person && apart < 2000 && !lately {
            w.fail("F1: a taint without two readings of off, 2 s apart, under our hold");
        }
        if w.bmh.as_ref().is_some_and(|b| b.online && !b.our_hold) {
            w.fail("F1: a taint on a host without our hold");
        }
        if w.hosts[0].power != Power::Off && !w.excused && !lately {
            w.fail("F1: a taint on a host that is not off");
        }
    }

    /// F4: drained, or withdrawn before there was a taint.
    pub(in crate::remediation::tests) fn may_come_on(&self, state: &State) {
        let w = &self.world;
        let left = w.cluster.pod.is_some() || w.cluster.volume;
        // No workload was moved: withdrawn in time, or a plain power cycle.
        let cycle = state.strategy == Strategy::PowerCycleFirst && state.attempt.number == 1;
        let withdrawn =
            (state.attempt.end_reason.is_some() || cycle) && state.attempt.taint.is_none();
        if state.step == Step::PoweringOn && left && !withdrawn {
            w.fail("F4: power-on before the node is drained");
        }
    }

    /// F9: nothing begins again after CAPM3's controller was seen, which is not forgotten.
    pub(in crate::remediation::tests) fn may_follow(&mut self, next: &State) {
        let Some(before) = self.state.as_ref().filter(|s| s.rival.is_some()) else {
            return;
        };
        let begins = before.step != Step::Holding && next.step == Step::Holding;
        let again = next.attempt.number > before.attempt.number;
        if next.rival != before.rival || begins || again {
            self.world
                .fail("F9: another attempt beside CAPM3's controller");
        }
    }

    pub(in crate::remediation::tests) fn judge(&mut self) {
        let w = &self.world;
        if self.outcome.is_some() && w.ops.values().any(super::bmc::Op::is_open_power_on) {
            w.fail("F9: a power-on is left at the agent");
        }
        // baremetal-operator gets the time to restore the power state, without faults.
        let w = &mut self.world;
        // The kubelet has reported since the last boot.
        let came_back = w.healthy() && w.cluster.boot_id == w.hosts[0].boots;
        let node_there = w.cluster.node;
        w.plan.faults.clear();
        (w.bmo_down, w.silent) = (false, w.plan.silent);
        if let Some(bmh) = &mut w.bmh {
            bmh.foreign_holds.clear();
        }
        // Longer than two minutes, in which Ironic would undo a power-on that it does not know of.
        for _ in 0..260 {
            self.world.tick();
        }
        let w = &self.world;
        let offline = w.bmh.as_ref().is_some_and(|b| !b.online);
        let fenced = self.state.as_ref().is_some_and(|s| s.step == Step::Fenced);
        if self.outcome.is_none() && fenced {
            let held = w.bmh.as_ref().is_none_or(|b| b.our_hold || !b.online);
            if !held || w.hosts[w.target()].power != Power::Off && !w.plan.lying {
                w.fail("F3: a fenced host is not off or not held");
            }
            return;
        }
        let evicted = self.state.as_ref().is_some_and(|s| s.step == Step::Evicted);
        if self.outcome.is_none() && evicted {
            if w.cluster.node && !w.cluster.cordoned {
                w.fail("a Node whose pods have left takes pods");
            }
            let mut commands = self.commands.iter();
            if commands.any(|command| matches!(command, Command::PowerOff { .. })) {
                w.fail("a host that is to stay on was switched");
            }
            return;
        }
        let Some(outcome) = self.outcome else {
            if !w.plan.for_good() || !self.reason.is_blocked() {
                w.fail(&format!("L1: still waiting at the end: {}", self.reason));
            }
            return;
        };
        let hold = w.bmh.as_ref().is_some_and(|b| b.our_hold);
        let blocks = w
            .bmh
            .as_ref()
            .is_some_and(|b| b.move_block == MoveBlock::Ours);
        if blocks || w.object.move_block == MoveBlock::Ours {
            w.fail("F9: clusterctl still waits for this remediation");
        }
        let rival = self.state.as_ref().is_some_and(|s| s.rival.is_some());
        let finalizer = w.object.finalizer && !rival;
        if hold
            || finalizer
            || w.agent_holds
            || w.cluster.taint == Taint::Ours
            || w.cluster.cordoned
        {
            w.fail("F9: something of ours was left behind");
        }
        let done = matches!(
            outcome,
            RemediationOutcome::Succeeded | RemediationOutcome::Withdrawn
        );
        if done && w.object.node_backup && node_there {
            w.fail("F9: labels and annotations of a Node were not restored");
        }
        if w.hosts[1].power == Power::Off && !offline {
            w.fail("F5: a host switched off by mistake was left off");
        }
        let others = w.switched_by_others;
        if outcome == RemediationOutcome::Succeeded && !came_back && !w.excused && !others {
            w.fail("succeeded with a node that is not healthy");
        }
        let reached_out = !w.plan.for_good() && !offline;
        if reached_out && w.hosts[0].power == Power::Off {
            w.fail("our host was left off");
        }
    }
}
