//! A whole rack fails at once: its hosts are held, one Event says what is likelier, and a person decides.

use anyhow::{Result, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{LONG, wait_until},
};

use crate::story::Story;

pub(super) const ABOUT: &str = "\
All five hosts of a rack stop answering at the same moment. Five broken hosts at once are unlikely; a \
switch without power is likely, and switching the hosts off and on would not repair it.

A PowerPolicy with sharedCauses holds their remediations. Rackhand reads the BMCs, says once what is \
likelier than five broken hosts, and waits for a person, for the recovery of most of them, or for a time.";

const RACK: &str = "rack-a";

const POLICY: &str = "
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: shared-causes
spec:
  sharedCauses: { settlingSeconds: 4 }
";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, victim, pod) = (story.stage, story.victim.clone(), story.pod.clone());
    apply_yaml(&stage.client, POLICY).await?;
    story.begin("The rack goes dark");
    let racks = stage.racks().iter().filter(|rack| rack.name() == RACK);
    let hosts: Vec<String> = racks
        .flat_map(|rack| rack.hosts().keys().cloned())
        .collect();
    for host in &hosts {
        ensure!(stage.host(host)?.hang(), "{host} was not up");
    }
    story
        .line(
            "fault",
            &format!(
                "all {} hosts of {RACK} stop answering Kubernetes at once; their BMCs answer",
                hosts.len()
            ),
        )
        .await;
    for host in &hosts {
        let held = stage.wait_remediation(host, "held, with what is likelier", |seen| {
            seen.reason == "HeldBySharedCause" && seen.message.contains("likelier")
        });
        story.during(held).await?;
    }
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let told = wait_until("the Event of the cause", LONG, || async {
        let list = events.list(&ListParams::default()).await?;
        let is_told = |event: &Event| event.reason.as_deref() == Some("SharedCause");
        Ok(match list.iter().any(is_told) {
            true => Ok(()),
            false => Err("there is none".to_owned()),
        })
    });
    story.during(told).await?;
    story.note(
        "One Event on the policy names the cause, instead of one for each host. Each held remediation has \
         the same words:",
    );
    for command in [
        "kubectl get events -n default --field-selector reason=SharedCause -o custom-columns=ABOUT:.involvedObject.name,MESSAGE:.message"
            .to_owned(),
        "kubectl get powerpolicies".to_owned(),
        "kubectl get powerpolicy shared-causes -o jsonpath='{.status.sharedCauses[0].message}'".to_owned(),
        stage.explain_command(&victim).await?,
    ] {
        story.see(&command).await?;
    }
    for host in &hosts {
        story.check_power("while it was held", host, &[], &[]);
    }

    story.note(&format!(
        "A person is on the way to the switch. {pod}, the database on {victim}, cannot wait: they approve the \
         remediation of this one host, and leave the others as they are."
    ));
    story
        .see(&format!("rackhand-controller approve {victim} -n metal3"))
        .await?;
    story.back().await?;
    story.check_power("after the approval", &victim, &["rackhand"], &["rackhand"]);
    story.check_tainted_once(&victim, true).await;
    story.check_others(&[&victim]);
    story.verdict()
}
