//! How long the evaluation of a large fleet keeps other tasks from running. `hack/bench stalls` runs this in a
//! release build with 50,000 Machines.

use super::*;
use crate::store::stall_meter::{StallMeter, hosts};

/// Most processor time of one stretch, in a build without optimisation.
const MOST: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_fleet_is_evaluated_in_short_slices() {
    let machines = hosts(1_000);
    let meter = StallMeter::start();
    let world = World::start(machines, "40%").await;
    until(&world, "targets", machines).await;
    let read = meter.end("a fleet is read for the first time").await;

    let meter = StallMeter::start();
    let failed = machines / 2;
    (0..failed).for_each(|i| world.fail(i));
    until(&world, "limit_reached", 1).await;
    until(&world, "healthy", machines - failed).await;
    let closed = meter.end("half of the fleet fails").await;

    let meter = StallMeter::start();
    (0..failed / 2).for_each(|i| world.recover(i));
    until(&world, "limit_reached", 0).await;
    until(&world, "healthy", machines - failed / 2).await;
    let opened = meter.end("half of them recover, and the limit opens").await;

    let meter = StallMeter::start();
    let cluster = Key::new("ns", "c");
    world
        .index
        .set_connection(&cluster, Connection::Down("away".into()));
    until(&world, "healthy", 0).await;
    world.index.set_connection(&cluster, Connection::Up);
    until(&world, "healthy", machines - failed / 2).await;
    let lost = meter
        .end("the connection to the cluster is lost and returns")
        .await;
    for stall in [read, closed, opened, lost] {
        assert!(stall.cpu < MOST, "{stall:?}");
    }
}

/// Waits until a metric of the check has this value.
async fn until(world: &World, metric: &str, value: usize) {
    let line = format!("rackhand_check_{metric}{{namespace=\"ns\",check=\"check\"}} {value}");
    let began = Instant::now();
    while !render(&world.registry).lines().any(|l| l == line) {
        assert!(began.elapsed() < ENOUGH * 10, "no {line}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
