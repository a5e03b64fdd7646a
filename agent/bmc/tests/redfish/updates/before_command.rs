//! Updates that begin right before a command, at BMCs that become slow when they write firmware.

use std::time::Duration;

use rackhand_bmc::operation::{Goal, OperationRequest, Outcome, Report, run};
use serde_json::json;

use super::{MANAGER, TASKS, at, serves, task};
use crate::bmc::{RESET, Reply, SYSTEM, TestBmc, World};

/// Longer than an answer about the updates counts.
const SLOW: Duration = Duration::from_millis(2300);

fn off() -> Goal {
    Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_millis(200),
        command_after: Duration::ZERO,
    }
}

async fn switch(bmc: &TestBmc, goal: Goal) -> Report {
    let request = OperationRequest::new(goal, Duration::from_secs(60));
    run(bmc.client().as_ref(), request, &mut ()).await
}

fn slowly(world: &World) -> Reply {
    let mut system = world.systems[0].1.clone();
    system["PowerState"] = world.power.clone();
    Reply::json(200, &system).late(SLOW)
}

/// Its manager is the last that is read of the updates.
fn is_idle(bmc: &TestBmc) {
    serves(bmc, &[]);
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(MANAGER)]}}));
    bmc.put(MANAGER, json!({"Model": "Other"}));
}

#[tokio::test]
async fn update_that_begins_while_the_system_is_read_for_the_command_is_not_cut() {
    let cycle = Goal::Cycle {
        hold_off: Duration::from_secs(1),
        confirmations: 2,
        confirm_interval: Duration::from_millis(200),
    };
    for goal in [off(), cycle, Goal::Reset] {
        let (mut are_updates_read, mut has_begun) = (false, false);
        let bmc = TestBmc::with(move |seen, world| {
            are_updates_read |= seen.is("GET", MANAGER);
            if has_begun || !are_updates_read || !seen.is("GET", SYSTEM) {
                return None;
            }
            has_begun = true;
            let list = json!({"Members": [at(&format!("{TASKS}/7"))]});
            world.documents.insert(TASKS.to_owned(), list);
            let running = task("Running");
            world.documents.insert(format!("{TASKS}/7"), running);
            Some(slowly(world))
        })
        .await;
        is_idle(&bmc);
        let report = switch(&bmc, goal.clone()).await;
        let is_update = matches!(report.outcome, Outcome::FirmwareUpdate { commands: 0, .. });
        assert!(is_update, "{goal:?}: {}", report.outcome);
        assert_eq!(bmc.count("POST", RESET), 0, "{goal:?}");
    }
}

#[tokio::test]
async fn slow_bmc_is_switched_off_right_after_its_updates_were_read() {
    let bmc = TestBmc::with(|seen, world| seen.is("GET", SYSTEM).then(|| slowly(world))).await;
    is_idle(&bmc);
    let report = switch(&bmc, off()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!((report.commands, bmc.count("POST", RESET)), (1, 1));
    assert_eq!(report.updates_unknown, None);
    let seen = bmc.seen();
    let sent = seen.iter().position(|seen| seen.path == RESET).unwrap();
    assert_eq!(seen[sent - 1].path, MANAGER, "nothing is read in between");
    let asked = seen[..sent].iter().filter(|seen| seen.path == TASKS);
    assert_eq!(asked.count(), 1, "the updates are read once");
}
