//! A pod or volume that is not deleted keeps the host off, and is named.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    rack::{PowerState, ResetType},
};
use serde_json::json;

use crate::story::{Rule, Story};

pub(super) const ABOUT: &str = "\
A host hangs and is switched off. Its database pod carries a finalizer of a backup program that no \
longer exists, and its volume belongs to a storage driver that is down: neither goes away by itself. \
While the API still has them on this node, the kubelet would start the pod again at the next boot, so \
Rackhand leaves the host off and names what it waits for.";

/// Arguments of the controllers.
pub(super) const ARGUMENTS: &[&str] = &["--drain-timeout=8s"];
const VOLUME: &str = "volume-of-db-0";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    make_sticky(&story).await?;
    story.begin("The host hangs");
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!("{victim} hangs: its kubelet is dead, but it has power and {pod} still runs"),
        )
        .await;
    let blocked = story
        .during(stage.wait_blocked(&victim, "DrainBlocked"))
        .await?;
    for name in [pod.as_str(), VOLUME] {
        ensure!(
            blocked.message.contains(name),
            "{name} is not named: {}",
            blocked.message
        );
    }
    story.why(
        Rule::F4,
        "the host is confirmed off and the node is tainted, so nothing can run twice. But after a \
         power-on the kubelet could start what the API still has on the node. The remediation waits \
         and then continues by itself.",
    );
    story.see(&stage.explain_command(&victim).await?).await?;
    story
        .see(&format!(
            "kubectl get pod {pod} -o custom-columns=NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,\
             FINALIZERS:.metadata.finalizers"
        ))
        .await?;
    still_off(&mut story)?;

    story
        .line(
            "person",
            "knows that the backup program no longer exists, and removes its finalizer:",
        )
        .await;
    story
        .see(&format!(
            "kubectl patch pod {pod} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
        ))
        .await?;
    let only = stage.wait_remediation(&victim, "only the volume is left", |seen| {
        seen.message.contains(VOLUME) && !seen.message.contains("pod")
    });
    story.during(only).await?;
    story
        .see(&format!("kubectl get volumeattachment {VOLUME}"))
        .await?;
    still_off(&mut story)?;

    story
        .line(
            "person",
            "makes sure that no storage driver is detaching it, and deletes the VolumeAttachment:",
        )
        .await;
    let let_go = Instant::now();
    story
        .see(&format!("kubectl delete volumeattachment {VOLUME}"))
        .await?;
    story.back().await?;

    let on = stage.commanded(&victim, ResetType::On).and_then(|on| {
        ensure!(on > let_go, "it was switched on before");
        Ok(())
    });
    story.check("it was switched on only after both were gone", on);
    story.one_cycle_in_all().await
}

/// Adds a finalizer to the pod that is never removed, and a volume that is never detached.
async fn make_sticky(story: &Story<'_>) -> Result<()> {
    let client = &story.stage.client;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let finalizer = json!({ "metadata": { "finalizers": ["backup.example/copy-first"] } });
    pods.patch(
        &story.pod,
        &PatchParams::default(),
        &Patch::Merge(finalizer),
    )
    .await?;
    let volume = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": VOLUME },
        "spec": {
            "attacher": "csi.invalid",
            "nodeName": story.victim,
            "source": { "persistentVolumeName": "db-0" },
        },
    });
    apply(client, volume).await.map(drop)
}

fn still_off(story: &mut Story<'_>) -> Result<()> {
    let power = story.host()?.real_power();
    ensure!(
        power == PowerState::Off,
        "{} is {power} before it is drained",
        story.victim
    );
    Ok(())
}
