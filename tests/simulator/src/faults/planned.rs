//! What people plan, at times at which it makes sense.

use std::time::Duration;

use super::kinds::Fault::{
    self, BudgetForbids, LabelPut, LabelTaken, MaintenanceAgain, MaintenanceBegins,
    MaintenanceForced, NodeUncordoned, ReadyRemediated,
};
use crate::{
    fleet::{HostId, Os},
    kernel::World,
};

/// Begins what a person plans; `None`: it makes no sense now.
pub(super) fn plan(world: &mut World, fault: Fault, lasts: Duration) -> Option<String> {
    if fault == BudgetForbids {
        world.permit_disruptions(false);
        world.after(lasts, |world| world.permit_disruptions(true));
        return Some("all pods".to_owned());
    }
    if fault == NodeUncordoned {
        let id = world.any_emptied_host()?;
        let until = world.now() + lasts;
        world.uncordon_until(id, until);
        return Some(world.fleet.host(id).name.clone());
    }
    let count = world.fleet.ids().count();
    let id = HostId::at(world.rng.usize(..count));
    let name = world.fleet.host(id).name.clone();
    let is_running = |id: &HostId| world.fleet.host(*id).os == Os::Running;
    let works = is_running(&id);
    // Pods need somewhere to go, and nobody asks while the API server is away.
    let enough = world.fleet.ids().filter(is_running).count() * 2 > count && !world.api.away;
    // More at one time would wait longer for their budget than a health check of medik8s waits for a remediation.
    let is_free = world.is_unplanned(id);
    match fault {
        MaintenanceBegins if works && enough && is_free => Some(world.begin_maintenance(id, lasts)),
        MaintenanceAgain if enough => world.begin_second_maintenance(lasts),
        ReadyRemediated if works && enough && is_free => Some(world.remediate_by_hand(id, lasts)),
        LabelPut if enough && is_free => world.put_label(id).then_some(name),
        LabelTaken if enough => world.take_label(id).then_some(name),
        MaintenanceForced if enough => world.force_maintenance(id).then_some(name),
        _ => None,
    }
}
