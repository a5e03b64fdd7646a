//! NodeHealthCheck on a real control plane that serves no kind of Machine: the example as medik8s'
//! page prints it, the life of a remediation of a foreign kind, and a host that comes back by our own.
//!
//! All scenarios run at the same time on one stage. Most Nodes are objects only, whose Leases the
//! test renews, so that they say what the test says.

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
    let world = World { stage };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("the_printed_example_lives_its_life", life::printed(w));
    all.add(
        "an_escalation_tries_one_after_another",
        steps::escalation(w),
    );
    all.add("a_paused_check_still_cleans_up", limits::pause(w));
    all.add("nothing_is_done_at_the_limit", limits::limit(w));
    all.add(
        "a_person_confirms_that_a_node_is_healthy",
        life::confirmation(w),
    );
    all.add(
        "a_missing_template_disables_until_it_comes",
        life::disabled(w),
    );
    all.add("a_host_is_fenced_and_comes_back", steps::power(w));
    all.add("what_cannot_be_meant_is_refused", refused::refused(w));
    let outcome = all.run().await;
    renewing.abort();
    if let Err(error) = outcome {
        let shown = world.shown().await;
        panic!("{error:#}\n{shown}\n{}", world.stage.report().await);
    }
}
