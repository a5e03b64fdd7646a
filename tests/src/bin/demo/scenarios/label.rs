//! A label on a Node makes one remediation of a host that is ill and Ready.

use anyhow::Result;
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{LONG, wait_until},
};

use crate::story::Story;

pub(super) const ABOUT: &str = "\
A host has a fault that Kubernetes does not see: its Node is Ready. Whoever finds it, a person or a program that \
watches GPUs, may do nothing but label the Node. A RemediationTrigger says what the label means: one remediation, \
under the same rules as after a failure. The label is removed when the Node is back, and a kubelet cannot set it.";

const LABEL: &str = "node-restriction.kubernetes.io/reboot";

const OBJECTS: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: by-label, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: reboot, namespace: metal3}
spec:
  clusterName: demo
  label: node-restriction.kubernetes.io/reboot
  value: now
  templateRef: {name: by-label}
";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, victim) = (story.stage, story.victim.clone());
    story.begin("The Node is Ready, and gets a label");
    apply_yaml(&stage.client, OBJECTS).await?;
    story
        .see("kubectl -n metal3 get remediationtrigger reboot -o jsonpath='{.spec}'")
        .await?;
    story
        .line(
            "person",
            &format!("finds {victim} ill, although it is Ready"),
        )
        .await;
    story
        .see(&format!("kubectl label node {victim} {LABEL}=now"))
        .await?;
    let node = victim.clone();
    let answered = wait_until("the label is removed", LONG, || async {
        let node = stage.node(&node).await?;
        let value = node.metadata.labels.as_ref().and_then(|l| l.get(LABEL));
        Ok(match value {
            None => Ok(()),
            Some(value) => Err(value.clone()),
        })
    });
    story.during(answered).await?;
    story.note("The Node is back, so the label is gone: whoever has set it knows that it is done.");
    story
        .see("kubectl -n metal3 get remediationtrigger reboot -o jsonpath='{.status.last}'")
        .await?;
    story.see("rackhand-controller status").await?;
    story.back().await?;

    story.one_cycle_in_all().await
}
