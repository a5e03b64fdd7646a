//! Attempts and cooldown of a PowerPolicy, by the history that earlier leaders have written: the leader of these
//! steps has seen none of the remediations that count.

use anyhow::{Context, Result, ensure};
use jiff::ToSpan;
use rackhand_api::kinds::host_history::HostRemediation;
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{Seen, Stage, wait_until},
};
use serde_json::{Value, json};

use super::{HOST, LONG, recorded};

const POLICY: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: limits
spec:
  selector:
    racks: [r]
  attempts:
    - { max: 2, withinSeconds: 86400, then: Stop }
";

/// Seconds of the cooldown that ends within the test.
const COOLDOWN: i64 = 20;

/// `both` are the two remediations so far, the latest first.
pub(super) async fn are_enforced(stage: &Stage, both: &[HostRemediation]) -> Result<()> {
    apply_yaml(&stage.client, POLICY).await?;
    wait_until("the policy is valid", LONG, || async {
        let row = stage
            .kubectl(&["get", "powerpolicies", "limits", "--no-headers"])
            .await?;
        Ok(match row.split_whitespace().nth(1) {
            Some("True") => Ok(()),
            _ => Err(row),
        })
    })
    .await?;
    let offs = || anyhow::Ok(stage.host(HOST)?.counters().offs);
    let before = offs()?;

    // Stop: two attempts within the day, each of another leader.
    stage.host(HOST)?.hang();
    let earliest = both.last().and_then(|r| r.attempts.first());
    let earliest = earliest.context("no attempt")?.started_at;
    held(
        stage,
        &[
            "PowerPolicy limits: 2 attempts on this host within 1 day, at most 2 are allowed",
            &format!("until {}", earliest + 24.hours()),
        ],
    )
    .await?;
    ensure!(offs()? == before, "a held host was switched off");

    // Notify: the same limit, without consequence.
    patch(
        stage,
        &json!({ "attempts": [{ "max": 2, "withinSeconds": 86_400, "then": "Notify" }] }),
    )
    .await?;
    stage.wait_warning(HOST, "PolicyLimitExceeded").await?;
    stage.wait_back(HOST).await?;
    let third = &ended(stage, 3).await?[0];
    ensure!(offs()? > before, "it was not switched off");
    let finished = third.finished_at.context("not finished")?;

    // Cooldown: held from the end of the third, which a change of the policy shortens.
    patch(stage, &json!({ "attempts": null, "cooldownSeconds": 3600 })).await?;
    stage.host(HOST)?.hang();
    held(
        stage,
        &[
            &format!("PowerPolicy limits: the host was remediated successfully at {finished}"),
            "its cooldown is 1 hour",
            &format!("until {}", finished + 1.hour()),
        ],
    )
    .await?;
    patch(stage, &json!({ "cooldownSeconds": COOLDOWN })).await?;
    stage.wait_back(HOST).await?;
    let fourth = &ended(stage, 4).await?[0];
    let begun = fourth.steps.iter().find(|step| step.step == "Holding");
    let begun = begun.context("it has not begun")?.at;
    ensure!(
        begun >= finished + COOLDOWN.seconds(),
        "{finished} {fourth:?}"
    );

    // Escalate: no fifth attempt within the week; the owner of the Machine takes over.
    let before = offs()?;
    patch(
        stage,
        &json!({
            "cooldownSeconds": null,
            "attempts": [{ "max": 4, "withinSeconds": 604_800, "then": "Escalate" }],
        }),
    )
    .await?;
    stage.host(HOST)?.hang();
    let seen = stage
        .wait_remediation(HOST, "escalated", |seen| seen.phase == "Deleting machine")
        .await?;
    let why = "4 attempts on this host within 7 days, at most 4 are allowed";
    ensure!(seen.object.to_string().contains(why), "{}", seen.object);
    ensure!(offs()? == before, "it was switched off a fifth time");
    Ok(())
}

/// Waits until the remediation is held with a message that contains these parts.
async fn held(stage: &Stage, parts: &[&str]) -> Result<Seen> {
    let is_held = |seen: &Seen| {
        seen.reason == "HeldByPolicy" && parts.iter().all(|part| seen.message.contains(part))
    };
    stage
        .wait_remediation(HOST, &parts.join(", "), is_held)
        .await
}

async fn patch(stage: &Stage, spec: &Value) -> Result<()> {
    let patch = json!({ "spec": spec }).to_string();
    let command = [
        "patch",
        "powerpolicy",
        "limits",
        "--type=merge",
        "-p",
        &patch,
    ];
    stage.kubectl(&command).await.map(drop)
}

/// The history of the host once so many remediations have ended.
async fn ended(stage: &Stage, count: usize) -> Result<Vec<HostRemediation>> {
    let is_ended =
        |all: &[HostRemediation]| all.len() == count && all.iter().all(|one| one.outcome.is_some());
    recorded(stage, &format!("{count} remediations"), is_ended).await
}
