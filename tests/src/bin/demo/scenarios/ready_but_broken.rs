//! A host that is broken and Ready: its pods leave in order, as far as their budgets let them, before it is cut.

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::PowerState,
    stage::{LONG, NAMESPACE, Stage, wait_until},
};
use serde_json::Value;

use crate::story::Story;

pub(super) const ABOUT: &str = "\
A host is broken and its Node is Ready: a GPU has fallen off the bus, a disk is slow, and its kubelet runs. Whoever \
cuts it now ends every pod on it without a word, also the one that its PodDisruptionBudget protects. Rackhand cordons \
the Node and evicts its pods first, through the API that asks the budgets, and switches the host off when they have \
left or their time is over.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    story.begin("The Node is Ready, and a budget protects its pod");
    let (label, budget) = (
        "kubectl label pod",
        "kubectl create poddisruptionbudget keep",
    );
    story.see(&format!("{label} {pod} on={victim}")).await?;
    story
        .see(&format!(
            "{budget} --selector on={victim} --min-available 1"
        ))
        .await?;
    let machine = stage.machines().get(&victim).await?;
    let uid = machine.metadata.uid.unwrap_or_default();
    story
        .line(
            "person",
            &format!("finds {victim} ill, although it is Ready, and asks for a power cycle"),
        )
        .await;
    apply_yaml(&stage.client, &remediation(&victim, &uid)).await?;
    let blocked = reached(stage, "its budget is named", |status| {
        let message = status["message"].as_str().unwrap_or_default();
        status["reason"] == "EvictionBlocked" && message.contains("keep")
    });
    story.during(blocked).await?;
    ensure!(host.real_power() == PowerState::On, "{victim} is off");
    story.see("rackhand-controller status").await?;
    story.note(
        "The Node is cordoned, and nothing is switched. The message names the pod and its budget. After 300 s the \
         remediation would go on, or wait, or end, as evictionPolicy says.",
    );
    story.check_power("while the budget forbids it", &victim, &[], &[]);
    story
        .check_never_tainted(&victim, "nothing was tainted while its pod was there")
        .await;

    story
        .line(
            "person",
            "has a second replica elsewhere, and removes the budget",
        )
        .await;
    story.see("kubectl delete poddisruptionbudget keep").await?;
    let done = reached(stage, "the remediation has succeeded", |status| {
        status["step"] == "Succeeded"
    });
    story.during(done).await?;
    let delete = "kubectl delete powerremediation gpu";
    story
        .see(&format!("{delete} --namespace {NAMESPACE}"))
        .await?;
    story.back().await?;

    let node = stage.node(&victim).await?;
    let cordoned = node.spec.and_then(|spec| spec.unschedulable) == Some(true);
    story.check(
        "the Node is uncordoned",
        match cordoned {
            false => Ok(()),
            true => Err(anyhow::anyhow!("{victim} is cordoned")),
        },
    );
    story.one_cycle_in_all().await
}

/// A remediation that a person asks for. With the default evictionPolicy it goes on after evictionSeconds.
fn remediation(machine: &str, uid: &str) -> String {
    format!(
        "
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediation
metadata:
  name: gpu
  namespace: {NAMESPACE}
  ownerReferences:
  - {{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, name: {machine}, uid: {uid}}}
spec: {{strategy: {{type: Reboot}}}}
"
    )
}

async fn reached(stage: &Stage, what: &str, is: impl Fn(&Value) -> bool) -> Result<()> {
    let objects = stage.api("rackhand.dev", "v1alpha1", "PowerRemediation");
    wait_until(what, LONG, || async {
        let object = objects.get("gpu").await?;
        let status = &object.data["status"];
        Ok(match is(status) {
            true => Ok(()),
            false => Err(status["message"].to_string()),
        })
    })
    .await
}
