//! The summary of a demonstration and its verdict.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rackhand_tests::{
    rack::{ResetType, overlaps},
    stage::Stage,
};

use crate::{screen::Screen, timeline::Timeline};

pub(crate) fn show(
    out: Screen,
    stage: &Stage,
    timeline: &Timeline<'_>,
    victim: &str,
    unhealthy: Duration,
) -> Result<()> {
    let m = &timeline.moments;
    let command = m.command.context("no power command was seen")?;
    let off = m.off.context("the host was never off")?;
    let unknown = m.unknown_since.context("the node was never Unknown")?;
    let tainted = m.tainted.context("the node was never tainted")?;
    let confirmed = m
        .confirmed
        .context("no evidence of the power-off was seen")?;
    let started = m.pod_started.context("the pod was not started elsewhere")?;
    let (running, node) = m
        .pod_running
        .clone()
        .context("the pod does not run elsewhere")?;
    let back = m.node_back.context("the node is not back")?;
    let deadline = unknown.checked_add(unhealthy)?;
    let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();

    out.title(&format!(
        "{victim} is back.

  from the deadline of the health check to the power-off at the BMC   {:>7.2} s
  from the hang to the confirmed power-off                            {:>7.2} s
  from the taint to the pod starting on another host                  {:>7.2} s
  from the hang to the pod running again, on {:<25}{:>7.2} s
  from the hang to the node being Ready                               {:>7.2} s",
        seconds(deadline, command),
        timeline.since(confirmed),
        seconds(tainted, started),
        node,
        timeline.since(running),
        timeline.since(back),
    ));

    let counters = stage.host(victim)?.counters();
    let twice = overlaps(stage.racks().iter().flat_map(|r| r.processes()).collect());
    let innocent = stage
        .racks()
        .iter()
        .flat_map(|r| r.hosts())
        .filter(|(name, host)| *name != victim && host.counters().offs > 0)
        .count();
    ensure!(off < tainted, "the taint came before the power-off");
    ensure!(
        off < started,
        "the pod was started elsewhere before the power-off"
    );
    ensure!(
        twice.is_empty(),
        "a pod ran twice at the same time: {twice:?}"
    );
    ensure!(
        counters.offs == 1 && counters.received(ResetType::ForceOff) == 1,
        "not exactly one power cycle: {counters:?}"
    );
    ensure!(innocent == 0, "{innocent} other hosts were switched off");
    out.step("one power cycle; no pod ran twice; no other host was touched");
    Ok(())
}
