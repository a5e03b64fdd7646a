//! A crash at every point of a run without other faults.

use super::{
    super::*,
    driver::{CrashAt, Run},
    faults::Plan,
};

fn run(plan: &Plan, crashes: &[CrashAt]) -> Run {
    let mut run = Run::new(plan.clone());
    run.crashes = crashes.to_vec();
    run.go();
    let host = &run.world.hosts[0];
    if run.outcome != Some(RemediationOutcome::Succeeded)
        || (host.offs, host.power_on_repeats) != (1, 1)
    {
        let (offs, power_on_repeats) = (host.offs, host.power_on_repeats);
        run.world.fail(&format!(
            "{crashes:?}: {:?}, {offs} off, {power_on_repeats} on",
            run.outcome
        ));
    }
    run
}

fn points(plan: &Plan) -> Vec<CrashAt> {
    let turns = run(plan, &[]).turns;
    assert!(turns > 10);
    (1..=turns)
        .flat_map(|due| [false, true].map(|after| CrashAt { due, after }))
        .collect()
}

fn plans() -> Vec<Plan> {
    let quick = |cooperative, hung| Plan {
        hung,
        ..Plan::calm(cooperative)
    };
    vec![
        quick(false, true),
        quick(true, true),
        quick(true, false),
        quick(false, false),
    ]
}

#[test]
fn crash_at_any_point_causes_no_second_power_cycle() {
    for plan in plans().iter().filter(|p| p.hung) {
        for crash in points(plan) {
            run(plan, &[crash]);
        }
    }
}

#[test]
fn f9_crash_at_any_point_of_an_eviction_leaves_no_cordon() {
    for cooperative in [false, true] {
        let plan = Plan {
            hung: false,
            evicts: true,
            ..Plan::calm(cooperative)
        };
        let evicted = |run: &Run| {
            let mut commands = run.commands.iter();
            commands.any(|command| matches!(command, Command::EvictPods { .. }))
        };
        assert!(evicted(&run(&plan, &[])), "nothing was evicted");
        for crash in points(&plan) {
            let run = run(&plan, &[crash]);
            assert!(!run.world.cluster.cordoned, "{crash:?}");
        }
    }
}

#[test]
fn two_crashes_at_any_points_cause_no_second_power_cycle() {
    let plan = Plan::calm(false);
    let points = points(&plan);
    for (i, first) in points.iter().enumerate() {
        for second in points.iter().skip(i + 1).step_by(3) {
            run(&plan, &[*first, *second]);
        }
    }
}

#[test]
fn commands_of_a_run_without_faults_are_sent_once_in_order() {
    let run = run(&Plan::calm(false), &[]);
    let commands: Vec<_> = run
        .commands
        .iter()
        .filter(|c| !matches!(c, Command::ReadPower))
        .collect();
    assert!(
        matches!(
            commands.as_slice(),
            [
                Command::AddFinalizer,
                Command::PowerOff { .. },
                Command::AddTaint,
                Command::PowerOn { .. },
                Command::RemoveTaint,
                Command::RemoveFinalizer(_),
            ]
        ),
        "{commands:?}"
    );
}
