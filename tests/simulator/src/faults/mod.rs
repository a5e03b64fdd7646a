//! Faults of all kinds: which come, on what, when and for how long follows from the seed.

mod kinds;
mod pdus;
mod planned;
mod targets;

use std::{path::PathBuf, sync::Arc, time::Duration};

use kinds::{
    FAULTS,
    Fault::{
        self, AgentClock, AgentKilled, AgentPaused, ApiAway, ApiBusy, ApiLinkSilent, ApiLinkSlow,
        ApiStarts, BmcDies, BmcForgets, BmcForgetsAtCommand, BmcIgnoresCommands, BmcLosesAnswer,
        BmcMisnames, BmcRefusesReads, BmcReportsOff, BmcReset, BmcSilent, BmcSlow, BmcsOfRackReset,
        BudgetForbids, ControllerClock, ControllerKilled, ControllerPaused, ControllerSuspended,
        CrdLate, HistoryCompacted, HostAndAgentCut, HostAndBmcFail, HostFlashes,
        HostFlashesAtCommand, HostHangs, HostHangsForAWhile, HostIsSwitchedOn, HostLosesPower,
        HostLosesPowerSeen, HostPanics, JournalWiped, LabelPut, LabelTaken, LinkLossy, LinkReset,
        LinkSilent, LinkSlow, MaintenanceAgain, MaintenanceBegins, MaintenanceForced, NodeDeleted,
        NodeFrozen, NodeUncordoned, OutletSwitchedOn, OutletWelded, PduIgnoresCommands,
        PduLosesAnswer, PduSilent, ReadyRemediated, RemediationDeleted, RightsTaken,
        TimelessConditions, UpgradeOfAgents, UpgradeOfControllers, VersionDropped, WatchesBroken,
        WatchesLate,
    },
};
use pdus::act_on_pdu;
use planned::plan;
use targets::{act_on_agent, act_on_controller, act_on_host, reset_bmcs};

use crate::{
    api::{ApiCondition, Restriction},
    fleet::{HostId, Os},
    habits::{DENIABLE, DROPPABLE, LATE, dropped},
    kernel::{Condition, ProcessId, World},
};

/// The processes that faults act on.
#[derive(Debug)]
pub struct Roster {
    /// The controllers.
    pub controllers: Vec<ProcessId>,
    /// Agents that faults may hit.
    pub agents: Vec<AgentProcess>,
}

/// An agent as faults address it.
#[derive(Debug)]
pub struct AgentProcess {
    /// Its process.
    pub id: ProcessId,
    /// Its rack, by number.
    pub rack: usize,
    /// The directory of its journal.
    pub journal: PathBuf,
}

/// How long after a fault a process runs again, a controller leads, and connections are made again.
const RESTART: Duration = Duration::from_secs(60);

/// Faults from now on until a time.
pub fn begin(world: &mut World, roster: &Arc<Roster>, until: Duration) {
    let pause = world.between(Duration::from_secs(2), Duration::from_secs(150));
    let roster = roster.clone();
    world.after(pause, move |world| {
        if world.now() < until {
            choose(world, &roster, until);
            begin(world, &roster, until);
        }
    });
}

/// Ends every fault that lasts, and makes hosts of BMCs honest. What has failed stays so.
pub fn heal(world: &mut World, roster: &Roster) {
    world.log(format_args!("everything is healed"));
    set_api(world, false);
    world.unload_api();
    world.lift_all();
    for id in world.fleet.ids() {
        world.remove_timeless(id);
        let bmc = &mut world.fleet.host_mut(id).bmc;
        *bmc = crate::fleet::BmcCondition {
            failed_at: bmc.failed_at,
            ..crate::fleet::BmcCondition::default()
        };
        world.unfreeze(id);
    }
    world.heal_pdus();
    world.end_planned_work();
    let agents: Vec<ProcessId> = roster.agents.iter().map(|agent| agent.id).collect();
    for controller in &roster.controllers {
        world.set_api_condition(*controller, ApiCondition::default());
        for agent in &agents {
            world.set_condition(*controller, *agent, Condition::default());
        }
    }
    for process in roster.controllers.iter().chain(&agents) {
        world.resume(*process, Duration::ZERO);
        world.set_wall_error(*process, 0);
    }
}

fn set_api(world: &mut World, away: bool) {
    if world.api.away != away {
        world.api.away = away;
        if away {
            world.break_watches(None);
        }
    }
}

fn choose(world: &mut World, roster: &Arc<Roster>, until: Duration) {
    let all: u32 = FAULTS.iter().map(|(_, share, ..)| share).sum();
    let mut left = world.rng.u32(..all);
    let chosen = FAULTS.into_iter().find(|(_, share, ..)| {
        let found = left < *share;
        left = left.saturating_sub(*share);
        found
    });
    let Some((fault, _, name, (least, most))) = chosen else {
        return;
    };
    let seconds = world.rng.u64(least..=most);
    let lasts = Duration::from_secs(seconds);
    // What lasts ends with the storm, whose end heals everything.
    let lasts = lasts.min(until.saturating_sub(world.now()));
    let target = act(world, roster, fault, lasts, until);
    if let Some(target) = target {
        world.log(format_args!(
            "FAULT {name}: {target}, {} s",
            lasts.as_secs()
        ));
        *world
            .fleet
            .oracle
            .counts
            .faults
            .entry(name.to_owned())
            .or_default() += 1;
    }
}

/// Begins a fault; `None`: it makes no sense now.
fn act(
    world: &mut World,
    roster: &Arc<Roster>,
    fault: Fault,
    lasts: Duration,
    until: Duration,
) -> Option<String> {
    match fault {
        HostHangs | HostHangsForAWhile | HostFlashes | HostFlashesAtCommand | HostAndBmcFail
        | HostPanics | HostLosesPower | HostLosesPowerSeen | HostIsSwitchedOn | NodeDeleted
        | NodeFrozen | RemediationDeleted | BmcSilent | BmcSlow | BmcReset | BmcForgets
        | BmcForgetsAtCommand | BmcReportsOff | BmcIgnoresCommands | BmcLosesAnswer
        | BmcMisnames | BmcRefusesReads | BmcDies => {
            let count = world.fleet.ids().count();
            let id = HostId::at(world.rng.usize(..count));
            act_on_host(world, fault, id, lasts)?;
            if matches!(fault, BmcDies | HostAndBmcFail) {
                // A person repairs it.
                world.after(lasts, move |world| {
                    world.fleet.host_mut(id).bmc.dead = false;
                });
            }
            if !matches!(fault, HostIsSwitchedOn | NodeFrozen) {
                let until = world.now() + lasts + RESTART;
                world.fleet.oracle.disturbed.add_for_host(id, until);
            }
            Some(world.fleet.host(id).name.clone())
        }
        BmcsOfRackReset => {
            let place = world.rng.usize(..world.fleet.ids().count());
            let rack = world.fleet.host(HostId::at(place)).rack;
            reset_bmcs(world, rack, lasts);
            set_api(world, true);
            world.after(lasts, |world| set_api(world, false));
            let until = world.now() + lasts + RESTART;
            world.fleet.oracle.disturbed.add_for_all(until);
            Some(crate::fleet::rack_name(rack))
        }
        PduSilent | PduIgnoresCommands | PduLosesAnswer | OutletSwitchedOn | OutletWelded => {
            let count = world.fleet.ids().count();
            let id = HostId::at(world.rng.usize(..count));
            act_on_pdu(world, fault, id, lasts, until)
        }
        ControllerKilled | ControllerPaused | ControllerSuspended | ControllerClock
        | ApiLinkSilent | ApiLinkSlow | WatchesLate => {
            let place = world.rng.usize(..roster.controllers.len());
            let controller = *roster.controllers.get(place)?;
            act_on_controller(world, fault, controller, lasts)?;
            let until = world.now() + lasts + RESTART;
            world.fleet.oracle.disturbed.add_for_all(until);
            Some(world.name(controller).to_owned())
        }
        AgentKilled | AgentPaused | AgentClock | JournalWiped | LinkSilent | LinkSlow
        | LinkLossy | LinkReset => {
            let place = world.rng.usize(..roster.agents.len());
            let agent = roster.agents.get(place)?;
            act_on_agent(world, fault, agent, roster, lasts)?;
            let until = world.now() + lasts + RESTART;
            world.fleet.oracle.disturbed.add_for_rack(agent.rack, until);
            Some(world.name(agent.id).to_owned())
        }
        ApiAway | ApiBusy | WatchesBroken | HistoryCompacted => {
            match fault {
                ApiBusy => {
                    // A second one replaces the first, and ends with it.
                    let (rate, waiting) = (world.rng.u32(2..=20), world.rng.usize(2..=40));
                    world.load_api(rate, waiting);
                    world.after(lasts, World::unload_api);
                }
                ApiAway => {
                    set_api(world, true);
                    world.after(lasts, |world| set_api(world, false));
                }
                WatchesBroken => world.break_watches(None),
                _ => world.expire_watches(),
            }
            let until = world.now() + lasts + RESTART;
            world.fleet.oracle.disturbed.add_for_all(until);
            Some("all".to_owned())
        }
        MaintenanceBegins | MaintenanceAgain | MaintenanceForced | NodeUncordoned | LabelPut
        | LabelTaken | ReadyRemediated | BudgetForbids => plan(world, fault, lasts),
        HostAndAgentCut => cut_host_and_agent(world, roster, lasts),
        ApiStarts | RightsTaken | VersionDropped | CrdLate => restrict(world, roster, fault, lasts),
        TimelessConditions => {
            let count = world.fleet.ids().count();
            let id = HostId::at(world.rng.usize(..count));
            world.take_times(id);
            world.after(lasts, move |world| world.remove_timeless(id));
            Some(world.fleet.host(id).name.clone())
        }
        UpgradeOfControllers => {
            upgrade(world, &roster.controllers);
            Some("in turn".to_owned())
        }
        UpgradeOfAgents => {
            let agents: Vec<ProcessId> = roster.agents.iter().map(|agent| agent.id).collect();
            upgrade(world, &agents);
            Some("in turn".to_owned())
        }
    }
}

/// The network of a rack is cut between a host that is emptied, its agents and the controllers. Nothing is sent to its BMC
/// meanwhile, and its pods run on.
fn cut_host_and_agent(world: &mut World, roster: &Arc<Roster>, lasts: Duration) -> Option<String> {
    let id = world.any_emptied_host()?;
    let rack = world.fleet.host(id).rack;
    let name = world.fleet.host(id).name.clone();
    if !world.fail_os(id, Os::Hung) {
        return None;
    }
    let epoch = world.fleet.host(id).epoch;
    let agents: Vec<ProcessId> = (roster.agents.iter())
        .filter(|agent| agent.rack == rack)
        .map(|agent| agent.id)
        .collect();
    let silent = Condition {
        silent: true,
        ..Condition::default()
    };
    for (controller, agent) in pairs(roster, &agents) {
        world.set_condition(controller, agent, silent);
    }
    let again = pairs(roster, &agents);
    world.after(lasts, move |world| {
        world.recover_os(id, epoch);
        // Its Node is Ready before an agent can be asked to switch it off.
        world.after(Duration::from_secs(12), move |world| {
            for (controller, agent) in again {
                world.set_condition(controller, agent, Condition::default());
            }
        });
    });
    let until = world.now() + lasts + RESTART;
    world.fleet.oracle.disturbed.add_for_rack(rack, until);
    Some(name)
}

fn pairs(roster: &Roster, agents: &[ProcessId]) -> Vec<(ProcessId, ProcessId)> {
    let of = |controller: &ProcessId| agents.iter().map(|agent| (*controller, *agent)).collect();
    roster
        .controllers
        .iter()
        .flat_map(|c| -> Vec<_> { of(c) })
        .collect()
}

/// The API server does not serve or permit something for a while.
fn restrict(
    world: &mut World,
    roster: &Arc<Roster>,
    fault: Fault,
    lasts: Duration,
) -> Option<String> {
    let place = world.rng.usize(..DENIABLE.len());
    let denied = *DENIABLE.get(place)?;
    let late = *LATE.get(place % LATE.len())?;
    let (restriction, target) = match fault {
        ApiStarts => (Restriction::Starting, "all"),
        RightsTaken => (Restriction::Denied(denied), denied.plural),
        VersionDropped => {
            let of = *DROPPABLE.get(place % DROPPABLE.len())?;
            (dropped(of), of.group)
        }
        _ => (Restriction::NotEstablished(late), late.plural),
    };
    if fault == ApiStarts {
        world.break_watches(None);
    }
    world.restrict(restriction);
    if fault == CrdLate {
        for controller in &roster.controllers {
            world.kill(*controller);
        }
    }
    world.after(lasts, move |world| world.lift(restriction));
    let until = world.now() + lasts + RESTART;
    world.fleet.oracle.disturbed.add_for_all(until);
    Some(target.to_owned())
}

fn upgrade(world: &mut World, processes: &[ProcessId]) {
    let mut wait = Duration::ZERO;
    for process in processes.iter().copied() {
        world.after(wait, move |world| world.kill(process));
        wait += Duration::from_secs(30);
    }
    let until = world.now() + wait + RESTART;
    world.fleet.oracle.disturbed.add_for_all(until);
}
