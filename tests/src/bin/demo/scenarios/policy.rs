//! A PowerPolicy holds a remediation: until a person approves it, and then because of an annotation.

use anyhow::{Result, ensure};
use rackhand_tests::{cluster::apply_yaml, stage::Seen};

use crate::story::Story;

pub(super) const ABOUT: &str = "\
A host hangs in the middle of a payroll run. An experienced operator would not touch it now, because the other \
half of the run is on the same rack. A PowerPolicy says so: no host is switched while its Node carries the \
annotation of the payroll run, and each remediation needs the approval of a person. Rackhand makes the \
remediation, but begins it only when both are given.";

const POLICY: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: payroll
spec:
  freezeAnnotations: [example.com/payroll]
  requireApproval: true
";

/// Whether the policy holds the remediation for a cause.
fn is_held(seen: &Seen, cause: &str) -> bool {
    seen.reason == "HeldByPolicy" && seen.message.contains(cause)
}

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    story.begin("The host hangs during the payroll run");
    apply_yaml(&stage.client, POLICY).await?;
    story
        .see("kubectl get powerpolicy payroll -o jsonpath='{.spec}'")
        .await?;
    story
        .see(&format!(
            "kubectl annotate node {victim} example.com/payroll=running"
        ))
        .await?;
    ensure!(host.hang(), "{victim} was not up");
    story
        .line("fault", &format!("{victim} hangs: its kubelet is dead"))
        .await;
    let unapproved = stage.wait_remediation(&victim, "held until it is approved", |seen| {
        is_held(seen, "approval of a person")
    });
    story.during(unapproved).await?;
    story.note(
        "The message names the policy, the rule, and who ends the hold. Nothing is switched, and nothing is \
         tainted.",
    );
    story.see("rackhand-controller status").await?;
    story.see("kubectl get powerpolicies").await?;
    story
        .see(&format!(
            "rackhand-controller approve {victim} --namespace metal3"
        ))
        .await?;
    let frozen = stage.wait_remediation(&victim, "held by the annotation", |seen| {
        is_held(seen, "example.com/payroll")
    });
    story.during(frozen).await?;
    story.note("The approval does not end the freeze.");
    story.check_power("during the payroll run", &victim, &[], &[]);
    story
        .check_never_tainted(&victim, "nothing was tainted during the payroll run")
        .await;

    story
        .line(
            "person",
            "sees the payroll run end, and removes the annotation",
        )
        .await;
    story
        .see(&format!(
            "kubectl annotate node {victim} example.com/payroll-"
        ))
        .await?;
    story.back().await?;

    story.one_cycle_in_all().await
}
