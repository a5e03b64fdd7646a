//! NodeHealthCheck on a real control plane without Machines: the example of medik8s' documentation, the life
//! cycle of a remediation of a foreign kind, and a host that Rackhand brings back.
//!
//! All scenarios run at the same time on one stage. Most Nodes are objects without a kubelet; the test sets
//! their conditions and renews their Leases.

pub mod life;
mod limits;
mod refused;
pub mod steps;
pub mod world;

use rackhand_tests::stage::{HostLink, RackSpec, Scenarios, Stage, StageConfig};

use self::world::{World, begin, renew};

#[tokio::test(flavor = "multi_thread")]
async fn node_health_check_remediates_nodes_without_machines() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("bare", 1, HostLink::Inventory);
    let config = StageConfig {
        plain: true,
        ..StageConfig::steady(vec![rack], &["--power-timeout=20s"])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let renewing = tokio::spawn(renew(stage.client.clone()));
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World::new(stage);
    let w = &world;
    let mut all = Scenarios::new();
    all.add(
        "documented_example_creates_and_deletes_remediation",
        life::printed(w),
    );
    all.add(
        "escalation_steps_run_one_after_another",
        steps::escalation(w),
    );
    all.add("paused_check_still_deletes_remediations", limits::pause(w));
    all.add("closed_limit_prevents_remediation", limits::limit(w));
    all.add(
        "manual_confirmation_ends_remediation",
        life::confirmation(w),
    );
    all.add(
        "missing_template_disables_check_until_created",
        life::disabled(w),
    );
    all.add("host_is_fenced_and_recovers", steps::power(w));
    all.add("invalid_checks_are_refused", refused::refused(w));
    let outcome = all.run().await;
    renewing.abort();
    if let Err(error) = outcome {
        let shown = world.shown().await;
        panic!("{error:#}\n{shown}\n{}", world.stage.report().await);
    }
}
