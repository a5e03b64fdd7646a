//! The worlds of the remediation as models for stateright: what may happen in each, and their rules.

use std::sync::Arc;

use rackhand_core::remediation::State;
use stateright::{Model, Property};

use crate::remediation::{
    actions::{Action, FAULTS, Fault},
    breakage::Breakage,
    judge::Wrong,
    liveness::{BOUND, Ends, healed, next_of_healed},
    world::{Flash, World, outlets::Failure, restore::Backup},
};

/// Failed tries of one operation that are followed; a BMC that is silent for ever is tried for ever.
pub const TRIES: u32 = 2;
/// The same where each try by the BMC is followed by one by the outlets.
pub const OUTLET_TRIES: u32 = 3;
/// Repeated power-offs, and power-ons, that are followed.
pub const REPEATS: u32 = 2;

/// A world to explore.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name of the object.
    pub name: &'static str,
    /// baremetal-operator switches the host as well.
    pub cooperative: bool,
    /// The BMC lies.
    pub lying: bool,
    /// How many faults may happen.
    pub budget: u8,
    /// The faults that may happen.
    pub faults: Vec<Fault>,
    /// The deliberate fault, if any.
    pub breakage: Option<Breakage>,
    /// The etcd of the management cluster may be restored from a backup.
    pub restores: bool,
    /// Two outlets feed the host, and its BMC fails.
    pub outlets: bool,
    /// The BMC switches another host, and the workload API is away at first.
    pub other_host: bool,
    /// A diagnostic interrupt is sent before the power-off.
    pub interrupts: bool,
    /// The kubelet reports its first status of a boot later than it renews its Lease.
    pub late_status: bool,
    /// An update of firmware may begin.
    pub flashes: bool,
    /// The Node is Ready, and its pod is evicted first.
    pub evicts: bool,
    /// Worlds that are known to end.
    pub ends: Arc<Ends>,
}

impl Setting {
    /// A world in which only Rackhand switches the host.
    pub fn direct(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        faults.retain(|f| !matches!(f, Fault::HoldRemoved | Fault::Deposed | Fault::Restored));
        Self {
            name: "direct",
            cooperative: false,
            lying: false,
            budget,
            faults,
            breakage: None,
            restores: false,
            outlets: false,
            other_host: false,
            interrupts: false,
            late_status: false,
            flashes: false,
            evicts: false,
            ends: Arc::default(),
        }
    }

    /// A world in which baremetal-operator switches the host as well, following the hold.
    pub fn cooperative(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        // A BMC that is reset between a reading and a command is looked at in `direct`.
        let left_out = [
            Fault::Deposed,
            Fault::Restored,
            Fault::Renamed,
            Fault::BmcResetAtOff,
        ];
        faults.retain(|f| !left_out.contains(f));
        Self {
            name: "cooperative",
            cooperative: true,
            faults,
            ..Self::direct(budget)
        }
    }

    /// As `cooperative`, and another controller may take over while a call of the first one is on its way.
    pub fn leaders(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        faults.retain(|f| !matches!(f, Fault::Restored | Fault::Renamed | Fault::BmcResetAtOff));
        Self {
            name: "leaders",
            faults,
            ..Self::cooperative(budget)
        }
    }

    /// As `direct`, and the etcd of the management cluster is restored from a backup. Where the journal is lost
    /// as well, nobody knows what was done.
    pub fn restored(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        let left_out = [
            Fault::HoldRemoved,
            Fault::Deposed,
            Fault::JournalWiped,
            Fault::Renamed,
            Fault::BmcResetAtOff,
        ];
        faults.retain(|f| !left_out.contains(f));
        Self {
            name: "restored",
            faults,
            restores: true,
            ..Self::direct(budget)
        }
    }
}

impl Setting {
    /// As `direct`, with a BMC that has failed, or belongs to another system, and two outlets that feed the
    /// host, and another one in some runs.
    pub fn outlets(budget: u8) -> Self {
        Self {
            name: "outlets",
            faults: vec![
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::AgentRestart,
                Fault::Deleted,
                Fault::PduSilent,
                Fault::OutletOn,
                Fault::SiblingOn,
                Fault::SiblingOff,
                Fault::SiblingLost,
            ],
            outlets: true,
            ..Self::direct(budget)
        }
    }

    /// As `outlets`, and another controller may take over while a call of the first one is on its way.
    pub fn outlet_leaders(budget: u8) -> Self {
        Self {
            name: "outlet-leaders",
            faults: vec![
                Fault::Deposed,
                Fault::AnswerLost,
                Fault::AgentRestart,
                Fault::Deleted,
                Fault::PduSilent,
                Fault::OutletOn,
            ],
            ..Self::outlets(budget)
        }
    }

    /// As `outlets`, and the etcd of the management cluster is restored from a backup.
    pub fn outlet_restored(budget: u8) -> Self {
        Self {
            name: "outlet-restored",
            faults: vec![
                Fault::Restored,
                Fault::Lost,
                Fault::Deleted,
                Fault::PduSilent,
                Fault::OutletOn,
            ],
            restores: true,
            ..Self::outlets(budget)
        }
    }

    /// As `direct`, with a diagnostic interrupt before the power-off; another controller may take over.
    pub fn interrupt(budget: u8) -> Self {
        Self {
            name: "interrupt",
            faults: vec![
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::AgentRestart,
                Fault::JournalWiped,
                Fault::Silent,
                Fault::Deposed,
                Fault::Deleted,
                Fault::NodeReplaced,
            ],
            interrupts: true,
            ..Self::direct(budget)
        }
    }

    /// As `direct`, where the address of the BMC leads to another host, and the workload API is away at first.
    pub fn other_host(budget: u8) -> Self {
        Self {
            name: "other-host",
            faults: vec![
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::Delay,
                Fault::AgentRestart,
                Fault::Silent,
                Fault::Deleted,
            ],
            other_host: true,
            ..Self::direct(budget)
        }
    }

    /// As `direct`, with a kubelet that may go on after all, and whose Lease is renewed at a boot long before its
    /// first status, so that the API shows the status of before.
    pub fn late_status(budget: u8) -> Self {
        Self {
            name: "late-status",
            faults: vec![
                Fault::Recovers,
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::Silent,
                Fault::Deleted,
            ],
            late_status: true,
            ..Self::direct(budget)
        }
    }

    /// As `direct`, where an update of firmware may begin at any time, which must not lose its power.
    pub fn updates(budget: u8) -> Self {
        Self {
            name: "updates",
            faults: vec![
                Fault::FlashBegins,
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::Deleted,
            ],
            flashes: true,
            ..Self::direct(budget)
        }
    }

    /// As `direct`, with a Node that is Ready, whose pod leaves through the Eviction API before anything is switched, or
    /// is not permitted to by its budget; with each of the policies, and of a host that a person has asked to be left on.
    pub fn evictions(budget: u8) -> Self {
        Self {
            name: "evictions",
            faults: vec![
                Fault::Crash,
                Fault::Lost,
                Fault::AnswerLost,
                Fault::BmcReset,
                Fault::Deleted,
                Fault::NodeReplaced,
                Fault::Hangs,
                Fault::Recovers,
                Fault::Cordoned,
                Fault::PodReturns,
                Fault::GivenUp,
                Fault::AskedOff,
            ],
            evicts: true,
            ..Self::direct(budget)
        }
    }

    /// L1: whether a world ends once nothing fails any more.
    fn ends(&self, w: &World) -> bool {
        let next_of = |w: &World| next_of_healed(w, self.breakage);
        self.ends.is_reached(healed(w), BOUND, next_of)
    }
}

fn is(w: &World, wrong: Wrong) -> bool {
    w.wrong == Some(wrong)
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let backup = if self.restores {
            Backup::Due
        } else {
            Backup::Never
        };
        let world = World {
            backup,
            interrupts: self.interrupts,
            late_status: self.late_status,
            flash: self.flashes.then_some(Flash::Ahead),
            // A controller that has just begun to lead lets a remediation wait, so that a backup may be of before its
            // beginning.
            claimed: !self.restores,
            ..World::new(self.cooperative, self.lying, self.budget)
        };
        if self.other_host {
            return vec![world.of_another_host()];
        }
        if self.evicts {
            return world.of_evictions();
        }
        if !self.outlets {
            return vec![world];
        }
        // A BMC of another system is never followed by outlets, whoever leads.
        let is_alone = !self.restores && !self.faults.contains(&Fault::Deposed);
        let failures = [Failure::Dead, Failure::Silent, Failure::OtherSystem];
        // Where the outlets feed another host too, the BMC is dead: what its failure changes is the same.
        let shared = [false, true].map(|on| {
            let world = world.clone().fed_by_outlets(Failure::Dead);
            world.shared_with_sibling(on)
        });
        let shared = shared.into_iter().filter(|_| is_alone);
        failures
            .into_iter()
            .filter(|failure| is_alone || *failure != Failure::OtherSystem)
            .map(|failure| world.clone().fed_by_outlets(failure))
            .chain(shared)
            .collect()
    }

    fn actions(&self, w: &World, actions: &mut Vec<Action>) {
        actions.extend(w.enabled(&self.faults));
    }

    fn next_state(&self, w: &World, action: Action) -> Option<World> {
        let next = w.next(action, self.breakage);
        (next != *w).then_some(next)
    }

    fn within_boundary(&self, w: &World) -> bool {
        let tries = if self.outlets { OUTLET_TRIES } else { TRIES };
        let bounded = |s: &State| {
            s.tries <= tries
                && s.power_off_repeats <= REPEATS
                && s.attempt.power_on_repeats <= REPEATS
        };
        w.object.state.as_ref().is_none_or(bounded) && w.left_hold_tries() <= tries
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no pod runs on two hosts", |_, w: &World| {
                !(w.pod.process && w.pod.elsewhere)
            }),
            Property::always("F1: taint only with proof", |_, w: &World| {
                !is(w, Wrong::Taint)
            }),
            Property::always("F1: pods deleted only with proof", |_, w: &World| {
                !is(w, Wrong::PodDeletion)
            }),
            Property::always("F2: intent is durable", |_, w: &World| {
                !is(w, Wrong::Intent)
            }),
            Property::always("F4: on only after the drain", |_, w: &World| {
                !is(w, Wrong::EarlyOn)
            }),
            Property::always("F6: one operation at a time", |_, w: &World| {
                !is(w, Wrong::TwoOperations)
            }),
            Property::always("F9: nothing is left", |_, w: &World| !is(w, Wrong::Left)),
            Property::always("F9: no host is left off", |_, w: &World| {
                !is(w, Wrong::LeftOff)
            }),
            Property::always("F8: outlets only after the BMC failed", |_, w: &World| {
                !is(w, Wrong::Outlets)
            }),
            Property::always("F5: no outlets after a mismatch", |_, w: &World| {
                !is(w, Wrong::Identity)
            }),
            Property::always("F9: no outlet is left off", |_, w: &World| {
                !is(w, Wrong::OutletsLeft)
            }),
            Property::always("F5: no other host is left off", |_, w: &World| {
                !is(w, Wrong::OtherLeftOff)
            }),
            Property::always("no running sibling loses power", |_, w: &World| {
                !is(w, Wrong::Sibling)
            }),
            Property::always("no command after the end", |_, w: &World| {
                !is(w, Wrong::Late)
            }),
            Property::always("F6: interrupts only to fence", |_, w: &World| {
                !is(w, Wrong::Interrupt)
            }),
            Property::always("F14: no off while another Node runs", |_, w: &World| {
                !is(w, Wrong::Healthy)
            }),
            Property::always(
                "F16: on by the agent only if Ironic has it on",
                |_, w: &World| !is(w, Wrong::BehindOwner),
            ),
            Property::always("F16: Ironic undoes no power-on", |_, w: &World| {
                !is(w, Wrong::Undone)
            }),
            Property::always("untainted only after a report", |_, w: &World| {
                !is(w, Wrong::Unreported)
            }),
            Property::always("F12: no off by an older state", |_, w: &World| {
                !is(w, Wrong::Outdated)
            }),
            Property::always("F11: a recovered Node is left alone", |_, w: &World| {
                !is(w, Wrong::Recovered)
            }),
            Property::always("F12: a change of the Node is seen", |_, w: &World| {
                !is(w, Wrong::Unseen)
            }),
            Property::always(
                "no power is cut while firmware is written",
                |_, w: &World| !is(w, Wrong::Bricked),
            ),
            Property::always("budgets of pods hold", |_, w: &World| !is(w, Wrong::Budget)),
            Property::always("a host that is left on stays on", |_, w: &World| {
                !is(w, Wrong::LeftOn)
            }),
            Property::always("F9: the cordon of others stays", |_, w: &World| {
                !is(w, Wrong::Cordon)
            }),
            Property::always(
                "F12: evictions of the Node that was read",
                |_, w: &World| !is(w, Wrong::EvictedOther),
            ),
            Property::always("L1: it ends", |model: &Self, w: &World| {
                w.wrong.is_some() || model.ends(w)
            }),
            Property::sometimes("a remediation ends", |_, w: &World| w.done.is_some()),
            // It must not where another host is off.
            Property::sometimes("the pod moves", |model: &Self, w: &World| {
                w.pod.elsewhere || model.other_host
            }),
        ]
    }
}
