//! A host loses its power: noticed by its BMC, and beside it by the timers of Kubernetes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::ResetType,
    stage::{LONG, Stage, wait_until},
};

use crate::story::{Rule, Story, runs_elsewhere};

pub(super) const ABOUT: &str = "\
A host loses its power. Its BMC knows that in a second; Kubernetes notices it when the Lease of the node has expired, \
and then the health check waits for its own time, five minutes as a rule, 30 s here. The rack agent reads the power \
of all hosts all the time, so that the node gets the condition rackhand.dev/PowerLost, which a health check can select. \
No signal acts by itself. The kubelets of the demo renew their Leases every second, ten times as often as real ones.";

/// Who takes the power away, as the simulator counts it.
const LOSS: &str = "a loss of power";
/// The condition in the check of the first part.
const SELECTED: &str = "    - type: rackhand.dev/PowerLost
      status: \"True\"
      timeout: 0s
";
const CONDITIONS: &str = "  unhealthyConditions:\n";
/// The condition in every check of the demo, and the time that it gets here.
const TIMEOUT: &str = "timeout: 1s";
const LONGER: &str = "timeout: 30s";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let first = story.victim.clone();
    let check = story.stage.health_check().replace(TIMEOUT, LONGER);
    let selecting = check.replacen(CONDITIONS, &format!("{CONDITIONS}{SELECTED}"), 1);
    ensure!(
        check.contains(LONGER) && selecting != check,
        "the check has changed: {check}"
    );
    apply_yaml(&story.stage.client, &selecting).await?;
    watched(story.stage).await?;

    story.begin("With the signal: a check selects rackhand.dev/PowerLost");
    let with_signal = lose_power(&mut story).await?;
    story.why(
        Rule::F1,
        "the agent has read this BMC without interruption from on to off, which proves the off although the host was off \
         before the command; and the silence of the Lease that the signal has seen counts for F5.",
    );
    story.back().await?;
    story
        .see(
            "kubectl get nodes -o custom-columns='NODE:.metadata.name,\
             POWER-LOST:.status.conditions[?(@.type==\"rackhand.dev/PowerLost\")].status'",
        )
        .await?;
    story.check_power("with the signal", &first, &[LOSS], &["rackhand"]);
    story.check_tainted_once(&first, false).await;

    apply_yaml(&story.stage.client, &check).await?;
    let pods = story.stage.pods().await?;
    let of_pod = pods
        .iter()
        .find(|pod| pod.metadata.name.as_ref() == Some(&story.pod));
    let second = of_pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    story.victim = second.unwrap_or_default();
    let second = story.victim.clone();
    story.begin("Without it: the check waits for Kubernetes, and then for its own time");
    let without = lose_power(&mut story).await?;
    story.back().await?;
    story.check_power("without it", &second, &[LOSS], &["rackhand"]);

    story.note(&format!(
        "From the loss of power until the pod ran elsewhere: {:.1} s with the signal, {:.1} s without it.",
        with_signal.as_secs_f64(),
        without.as_secs_f64()
    ));
    let sooner = match with_signal < without {
        true => Ok(()),
        false => Err(anyhow::anyhow!("{with_signal:?} and {without:?}")),
    };
    story.check("with the signal, the pod ran elsewhere sooner", sooner);
    for host in [&first, &second] {
        story.check_nothing_left(host).await;
    }
    story.check_others(&[&first, &second]);
    story.verdict()
}

/// Takes the power of the host away, and waits until its pod runs elsewhere.
async fn lose_power(story: &mut Story<'_>) -> Result<Duration> {
    let (stage, victim, pod) = (story.stage, story.victim.clone(), story.pod.clone());
    let lost = Instant::now();
    story.host()?.switch(ResetType::ForceOff, LOSS);
    story
        .line(
            "fault",
            &format!("{victim} loses its power, and {pod} stops with it"),
        )
        .await;
    let moved = async move { runs_elsewhere(stage, &pod, &victim).await };
    story.during(moved).await?;
    Ok(lost.elapsed())
}

/// Waits until the agent reads the power of every host.
async fn watched(stage: &Stage) -> Result<()> {
    let count: usize = stage
        .config()
        .racks
        .iter()
        .map(|rack| rack.hosts.len())
        .sum();
    let line = format!("rackhand_hardware_signal_watched_hosts {count}");
    wait_until(&line, LONG, || async {
        let (_, metrics) = stage.admin("controller-0", "/metrics").await?;
        Ok(metrics.contains(&line).then_some(()).ok_or(metrics))
    })
    .await
}
