//! What a fault does to a host, a controller or an agent.

use std::time::Duration;

use super::{
    AgentProcess, Roster,
    kinds::Fault::{
        self, AgentClock, AgentKilled, AgentPaused, ApiLinkSilent, ApiLinkSlow, BmcDies,
        BmcForgets, BmcForgetsAtCommand, BmcIgnoresCommands, BmcLosesAnswer, BmcMisnames,
        BmcRefusesReads, BmcReportsOff, BmcReset, BmcSilent, BmcSlow, ControllerClock,
        ControllerKilled, ControllerPaused, ControllerSuspended, HostAndBmcFail, HostFlashes,
        HostFlashesAtCommand, HostHangs, HostHangsForAWhile, HostIsSwitchedOn, HostLosesPower,
        HostLosesPowerSeen, HostPanics, JournalWiped, LinkReset, LinkSilent, LinkSlow, NodeDeleted,
        NodeFrozen, RemediationDeleted,
    },
};
use crate::{
    api::{ApiCondition, resource::NODES},
    fleet::{Check, HostId, Link, NAMESPACE, Os, Power},
    kernel::{Condition, ProcessId, World},
};

/// For how long after a power-off that a BMC took it may not begin to report a wrong state: an
/// assumption of Rackhand (docs/safety.md).
const HONEST: Duration = Duration::from_secs(1800);

pub(super) fn act_on_host(
    world: &mut World,
    fault: Fault,
    id: HostId,
    lasts: Duration,
) -> Option<()> {
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
    let honest = is_honest(world, id);
    match fault {
        HostHangs | HostAndBmcFail | HostPanics if works && enough && within_limit => {
            let os = if fault == HostPanics {
                Os::Panicked
            } else {
                Os::Hung
            };
            world.fleet.host_mut(id).bmc.dead |= fault == HostAndBmcFail;
            world.fail_os(id, os).then_some(())
        }
        // baremetal-operator does not ask the BMC before it switches off.
        HostFlashes if works && enough && within_limit && host.link != Link::Managed => {
            let until = now + lasts;
            let bmc = &mut world.fleet.host_mut(id).bmc;
            (bmc.flash, bmc.is_flash_told) = (Some((now, until)), false);
            world.fail_os(id, Os::Hung).then_some(())
        }
        HostFlashesAtCommand if works && enough && within_limit && host.link != Link::Managed => {
            world.fleet.host_mut(id).bmc.flashes_at_command = Some(lasts);
            world.fail_os(id, Os::Hung).then_some(())
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
        // The BMC has power of its own, and answers on.
        HostLosesPowerSeen if enough && within_limit && host.power == Power::On => {
            world.cut_power(id, "a fault");
            Some(())
        }
        HostIsSwitchedOn if host.power == Power::Off && host.is_fed() => {
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
            bmc.restarted = Some(now + lasts);
            bmc.reports_off |= honest;
            Some(())
        }
        BmcReportsOff if honest => {
            world.fleet.host_mut(id).bmc.restarted = Some(now);
            set(&mut world.fleet.host_mut(id).bmc.reports_off, true)
        }
        BmcForgets if honest => {
            world.reset_bmc(id, lasts);
            Some(())
        }
        BmcForgetsAtCommand if honest => set(
            &mut world.fleet.host_mut(id).bmc.resets_at_command,
            Some(lasts),
        ),
        BmcMisnames => set(
            &mut world.fleet.host_mut(id).bmc.misnames_until,
            now + lasts,
        ),
        BmcRefusesReads => set(
            &mut world.fleet.host_mut(id).bmc.refuses_reads_until,
            now + lasts,
        ),
        BmcDies => set(&mut world.fleet.host_mut(id).bmc.dead, true),
        BmcLosesAnswer => set(&mut world.fleet.host_mut(id).bmc.loses_answer, true),
        _ => None,
    }
}

/// Whether the BMC may begin to report a wrong state.
fn is_honest(world: &World, id: HostId) -> bool {
    let host = world.fleet.host(id);
    host.power == Power::On && world.now().saturating_sub(host.last_off) > HONEST
}

/// Every BMC of a rack is reset at once. Those that may take their hosts for off then.
pub(super) fn reset_bmcs(world: &mut World, rack: usize, silent: Duration) {
    let ids: Vec<HostId> = world.fleet.ids().collect();
    for id in ids {
        if world.fleet.host(id).rack != rack {
            continue;
        }
        if is_honest(world, id) {
            world.reset_bmc(id, silent);
        } else {
            let until = world.now() + silent;
            let bmc = &mut world.fleet.host_mut(id).bmc;
            (bmc.silent_until, bmc.restarted) = (until, Some(until));
        }
    }
}

#[allow(clippy::unnecessary_wraps, reason = "one form for all faults")]
fn set<T>(place: &mut T, value: T) -> Option<()> {
    *place = value;
    Some(())
}

pub(super) fn act_on_controller(
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

pub(super) fn act_on_agent(
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
