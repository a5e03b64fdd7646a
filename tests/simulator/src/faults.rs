//! Faults of all kinds: which come, on what, when and for how long follows from the seed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    api::{ApiCondition, resource::NODES},
    fleet::{Check, HostId, NAMESPACE, Os, Power},
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

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    HostHangs,
    HostHangsForAWhile,
    HostPanics,
    HostLosesPower,
    HostIsSwitchedOn,
    NodeDeleted,
    RemediationDeleted,
    BmcSilent,
    BmcSlow,
    BmcReset,
    BmcReportsOff,
    BmcIgnoresCommands,
    BmcLosesAnswer,
    ControllerKilled,
    ControllerPaused,
    ControllerSuspended,
    ControllerClock,
    AgentKilled,
    AgentPaused,
    AgentClock,
    JournalWiped,
    LinkSilent,
    LinkSlow,
    LinkLossy,
    LinkReset,
    ApiAway,
    ApiLinkSilent,
    ApiLinkSlow,
    WatchesLate,
    WatchesBroken,
    HistoryCompacted,
    NodeFrozen,
    UpgradeOfControllers,
    UpgradeOfAgents,
}

use Fault::{
    AgentClock, AgentKilled, AgentPaused, ApiAway, ApiLinkSilent, ApiLinkSlow, BmcIgnoresCommands,
    BmcLosesAnswer, BmcReportsOff, BmcReset, BmcSilent, BmcSlow, ControllerClock, ControllerKilled,
    ControllerPaused, ControllerSuspended, HistoryCompacted, HostHangs, HostHangsForAWhile,
    HostIsSwitchedOn, HostLosesPower, HostPanics, JournalWiped, LinkLossy, LinkReset, LinkSilent,
    LinkSlow, NodeDeleted, NodeFrozen, RemediationDeleted, UpgradeOfAgents, UpgradeOfControllers,
    WatchesBroken, WatchesLate,
};

/// Every fault, its share of all, its name, and for how many seconds it may last.
const FAULTS: [(Fault, u32, &str, (u64, u64)); 34] = [
    (HostHangs, 14, "host hangs", (0, 0)),
    (HostHangsForAWhile, 6, "host hangs for a while", (20, 900)),
    (HostPanics, 6, "kernel panic", (0, 0)),
    (HostLosesPower, 6, "host loses power", (0, 0)),
    (HostIsSwitchedOn, 3, "host is switched on by hand", (0, 0)),
    (
        NodeDeleted,
        3,
        "Node of a host without power deleted",
        (0, 0),
    ),
    (RemediationDeleted, 3, "remediation deleted", (0, 0)),
    (NodeFrozen, 4, "Node frozen", (60, 900)),
    (BmcSilent, 6, "BMC silent", (5, 600)),
    (BmcSlow, 4, "BMC slow", (30, 600)),
    (BmcReset, 4, "BMC reset", (20, 120)),
    (
        BmcReportsOff,
        4,
        "BMC reports off until it takes a command",
        (0, 0),
    ),
    (
        BmcIgnoresCommands,
        4,
        "BMC takes commands and does nothing",
        (10, 300),
    ),
    (BmcLosesAnswer, 5, "BMC loses an answer", (0, 0)),
    (ControllerKilled, 6, "controller crashes", (0, 0)),
    (ControllerPaused, 5, "controller paused", (1, 60)),
    (
        ControllerSuspended,
        3,
        "controller's machine suspended",
        (1, 120),
    ),
    (ControllerClock, 2, "controller's wall clock steps", (0, 0)),
    (AgentKilled, 6, "agent crashes", (0, 0)),
    (AgentPaused, 4, "agent paused", (1, 60)),
    (AgentClock, 2, "agent's wall clock steps", (0, 0)),
    (
        JournalWiped,
        3,
        "agent crashes and its journal is lost",
        (0, 0),
    ),
    (LinkSilent, 5, "link to an agent silent", (1, 120)),
    (LinkSlow, 4, "link to an agent slow", (5, 300)),
    (LinkLossy, 4, "link to an agent lossy", (5, 300)),
    (LinkReset, 4, "connections to an agent reset", (0, 0)),
    (ApiAway, 3, "API server away", (1, 90)),
    (ApiLinkSilent, 4, "link to the API server silent", (1, 60)),
    (ApiLinkSlow, 4, "link to the API server slow", (5, 300)),
    (WatchesLate, 3, "watches late", (5, 120)),
    (WatchesBroken, 4, "watches broken", (0, 0)),
    (HistoryCompacted, 2, "history compacted", (0, 0)),
    (
        UpgradeOfControllers,
        1,
        "rolling upgrade of controllers",
        (0, 0),
    ),
    (UpgradeOfAgents, 1, "rolling upgrade of agents", (0, 0)),
];

/// For how long after a power-off that a BMC took it may not begin to report a wrong state: an
/// assumption of Rackhand (docs/safety.md).
const HONEST: Duration = Duration::from_secs(1800);

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
    for id in world.fleet.ids() {
        let bmc = &mut world.fleet.host_mut(id).bmc;
        *bmc = crate::fleet::BmcCondition::default();
        world.unfreeze(id);
    }
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
    let target = act(world, roster, fault, lasts);
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
fn act(world: &mut World, roster: &Arc<Roster>, fault: Fault, lasts: Duration) -> Option<String> {
    match fault {
        HostHangs | HostHangsForAWhile | HostPanics | HostLosesPower | HostIsSwitchedOn
        | NodeDeleted | NodeFrozen | RemediationDeleted | BmcSilent | BmcSlow | BmcReset
        | BmcReportsOff | BmcIgnoresCommands | BmcLosesAnswer => {
            let count = world.fleet.ids().count();
            let id = HostId::at(world.rng.usize(..count));
            act_on_host(world, fault, id, lasts)?;
            if !matches!(fault, HostIsSwitchedOn | NodeFrozen) {
                let until = world.now() + lasts + RESTART;
                world.fleet.oracle.disturbed.add_for_host(id, until);
            }
            Some(world.fleet.host(id).name.clone())
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
        ApiAway | WatchesBroken | HistoryCompacted => {
            match fault {
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

fn upgrade(world: &mut World, processes: &[ProcessId]) {
    let mut wait = Duration::ZERO;
    for process in processes.iter().copied() {
        world.after(wait, move |world| world.kill(process));
        wait += Duration::from_secs(30);
    }
    let until = world.now() + wait + RESTART;
    world.fleet.oracle.disturbed.add_for_all(until);
}

fn act_on_host(world: &mut World, fault: Fault, id: HostId, lasts: Duration) -> Option<()> {
    let now = world.now();
    let host = world.fleet.host(id);
    let works = host.os == Os::Running;
    // Pods need somewhere to go.
    let running = world
        .fleet
        .ids()
        .filter(|id| world.fleet.host(*id).os == Os::Running);
    let enough = running.count() * 2 > world.fleet.ids().count();
    // A check that has more unhealthy hosts than its limit waits for a person, as it should.
    let failed = world.fleet.ids().filter(|other| {
        let other_host = world.fleet.host(*other);
        *other != id && other_host.check == host.check && other_host.os != Os::Running
    });
    let within_limit = failed.count() < world.fleet.limit(host.check);
    let honest = host.power == Power::On && now.saturating_sub(host.last_off) > HONEST;
    match fault {
        HostHangs | HostPanics if works && enough && within_limit => {
            let os = if fault == HostHangs {
                Os::Hung
            } else {
                Os::Panicked
            };
            world.fail_os(id, os).then_some(())
        }
        HostHangsForAWhile if works && enough => {
            world.fail_os(id, Os::Hung);
            let epoch = world.fleet.host(id).epoch;
            world.after(lasts, move |world| world.recover_os(id, epoch));
            Some(())
        }
        HostLosesPower if enough && within_limit && host.power == Power::On => {
            world.cut_power(id, "a fault");
            let silent = world.between(Duration::from_secs(5), Duration::from_secs(120));
            world.fleet.host_mut(id).bmc.silent_until = now + silent;
            Some(())
        }
        HostIsSwitchedOn if host.power == Power::Off => {
            world.give_power(id, "hand");
            Some(())
        }
        // Kubernetes alone sees to the pods of a deleted Node, so that its host must be off. A check of
        // Nodes does not know a Node that is gone.
        NodeDeleted if host.power == Power::Off && host.check != Check::Node => {
            let name = host.name.clone();
            let options = serde_json::Value::Null;
            world.api.delete(NODES, "", &name, &options).ok()?;
            world.settle_changes();
            Some(())
        }
        NodeFrozen if !world.is_frozen(id) => {
            world.freeze(id);
            world.after(lasts, move |world| world.unfreeze(id));
            Some(())
        }
        RemediationDeleted => {
            let name = host.name.clone();
            let (resource, found) = world.remediations_of(&name).next()?;
            let found = found["metadata"]["name"].as_str()?.to_owned();
            let options = serde_json::Value::Null;
            world
                .api
                .delete(resource, NAMESPACE, &found, &options)
                .ok()?;
            world.settle_changes();
            Some(())
        }
        BmcSilent => set(&mut world.fleet.host_mut(id).bmc.silent_until, now + lasts),
        BmcSlow => set(&mut world.fleet.host_mut(id).bmc.slow_until, now + lasts),
        BmcIgnoresCommands => set(&mut world.fleet.host_mut(id).bmc.ignores_until, now + lasts),
        BmcReset => {
            let bmc = &mut world.fleet.host_mut(id).bmc;
            bmc.silent_until = now + lasts;
            bmc.reports_off |= honest;
            Some(())
        }
        BmcReportsOff if honest => set(&mut world.fleet.host_mut(id).bmc.reports_off, true),
        BmcLosesAnswer => set(&mut world.fleet.host_mut(id).bmc.loses_answer, true),
        _ => None,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "one form for all faults")]
fn set<T>(place: &mut T, value: T) -> Option<()> {
    *place = value;
    Some(())
}

fn act_on_controller(
    world: &mut World,
    fault: Fault,
    controller: ProcessId,
    lasts: Duration,
) -> Option<()> {
    let state = world.state(controller);
    if !state.alive || state.paused {
        return None;
    }
    let condition = match fault {
        ControllerKilled => {
            world.kill(controller);
            return Some(());
        }
        ControllerPaused | ControllerSuspended => {
            pause(world, controller, lasts, fault == ControllerSuspended);
            return Some(());
        }
        ControllerClock => {
            // Rackhand assumes that these clocks agree within 30 s.
            let error = world.rng.i64(-14_000..14_000);
            world.set_wall_error(controller, error);
            return Some(());
        }
        ApiLinkSilent => ApiCondition {
            silent: true,
            ..ApiCondition::default()
        },
        ApiLinkSlow => ApiCondition {
            late: world.between(Duration::from_millis(50), Duration::from_secs(3)),
            ..ApiCondition::default()
        },
        _ => ApiCondition {
            watches_late: world.between(Duration::from_millis(100), Duration::from_secs(20)),
            ..ApiCondition::default()
        },
    };
    world.set_api_condition(controller, condition);
    world.after(lasts, move |world| {
        world.set_api_condition(controller, ApiCondition::default());
    });
    Some(())
}

fn pause(world: &mut World, process: ProcessId, lasts: Duration, suspended: bool) {
    world.pause(process);
    let lives = world.state(process).lives;
    world.after(lasts, move |world| {
        if world.state(process).lives == lives {
            world.resume(process, if suspended { lasts } else { Duration::ZERO });
        }
    });
}

fn act_on_agent(
    world: &mut World,
    fault: Fault,
    agent: &AgentProcess,
    roster: &Roster,
    lasts: Duration,
) -> Option<()> {
    let (agent, journal) = (agent.id, &agent.journal);
    let state = world.state(agent);
    if !state.alive || state.paused {
        return None;
    }
    let condition = match fault {
        AgentKilled => {
            world.kill(agent);
            return Some(());
        }
        AgentPaused => {
            pause(world, agent, lasts, false);
            return Some(());
        }
        AgentClock => {
            let error = world.rng.i64(-600_000..600_000);
            world.set_wall_error(agent, error);
            return Some(());
        }
        JournalWiped => {
            world.kill(agent);
            world.note_lost_journal(agent);
            let journal = journal.clone();
            // After the process has ended, before it starts again.
            world.after(Duration::from_millis(100), move |_| {
                std::fs::remove_dir_all(journal).ok();
            });
            return Some(());
        }
        LinkReset => {
            for controller in &roster.controllers {
                world.reset_between(*controller, agent);
            }
            return Some(());
        }
        LinkSilent => Condition {
            silent: true,
            ..Condition::default()
        },
        LinkSlow => Condition {
            late: world.between(Duration::from_millis(50), Duration::from_secs(2)),
            ..Condition::default()
        },
        _ => Condition {
            loss: world.rng.u8(5..50),
            ..Condition::default()
        },
    };
    for controller in roster.controllers.clone() {
        world.set_condition(controller, agent, condition);
        world.after(lasts, move |world| {
            world.set_condition(controller, agent, Condition::default());
        });
    }
    Some(())
}
