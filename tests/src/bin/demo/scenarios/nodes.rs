//! A cluster of Nodes without Machines: a NodeHealthCheck escalates from a power cycle to full fencing.

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt as _;
use rackhand_tests::{
    rack::{HostView, OsState},
    stage::{LONG, NODE_CHECK, NODE_LEASES, Record, Stage, wait_until},
};

use super::environment::runs_in;
use crate::story::{Rule, Story, runs_elsewhere};

pub(super) const ABOUT: &str = "\
A cluster as kubeadm or k3s creates it, without Cluster API: no Machines, no BareMetalHosts, and none of \
their CRDs. Rackhand evaluates a NodeHealthCheck of medik8s that selects its nodes. For an unhealthy \
node it first tries a quick power cycle, without moving anything. If that does not bring the node back, \
the node is fenced: off, confirmed, its pods moved, and only then on again.

The inventories of the rack agents tell which BMC belongs to which node. That of rack-a, whose BMCs use \
Redfish, contains the node names. That of rack-b, whose BMCs use IPMI, has other names, and only the \
system UUID that the kubelet reports in common with a node.";

/// Boot timeout after the quick power cycle, in seconds.
pub(super) const QUICK_BOOT: u32 = 8;

/// Commands to explore the stage, and a further experiment.
pub(super) const EXPLORE: &str = "kubectl get nhc -o wide
  kubectl get events -n default --field-selector involvedObject.kind=NodeHealthCheck
  kubectl -n rackhand-system get prem,powerremediationtemplates
  kubectl -n rackhand-system get events
  kubectl -n medik8s-leases get leases";

const REMEDIATIONS: &str = "PowerRemediation";
const SYSTEM: &str = "rackhand-system";
const NODE_NAME: &str = "remediation.medik8s.io/node-name";
const TEMPLATE: &str = "remediation.medik8s.io/template-name";
const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    the_cluster(&mut story).await?;
    let quick = story.victim.clone();
    a_quick_cycle_is_enough(&mut story).await?;
    let (pod, fenced) = runs_in(story.stage, "rack-b").await?;
    (story.pod, story.victim) = (pod, fenced.clone());
    it_is_not_enough(&mut story).await?;

    for host in [&quick, &fenced] {
        story.check_nothing_left(host).await;
    }
    let rests = at_rest(story.stage).await;
    story.check(
        "the health check's status is empty again, and its Leases are released",
        rests,
    );
    let served = story.stage.no_machines_are_served().await;
    story.check(
        "the cluster has no CRD of Cluster API and no BareMetalHosts",
        served,
    );
    story.check_others(&[&quick, &fenced]);
    story.verdict()
}

async fn the_cluster(story: &mut Story<'_>) -> Result<()> {
    story.begin("The cluster: nodes, and a health check of nodes");
    story
        .see("kubectl api-resources -o name | grep -E 'cluster.x-k8s.io|metal3.io' || echo none of Cluster API, none of Metal3")
        .await?;
    story
        .see(
            "kubectl get nodes -o custom-columns=NODE:.metadata.name,SYSTEM-UUID:.status.nodeInfo.systemUUID,\
             PROVIDER-ID:.spec.providerID",
        )
        .await?;
    for rack in ["rack-a", "rack-b"] {
        let inventory = story.stage.dir().join(format!("agent-{rack}/agent.toml"));
        story
            .see(&format!(
                "grep -E '^(name|node_name|system_uuid|address) ' {}",
                inventory.display()
            ))
            .await?;
    }
    story
        .see(&format!(
            "kubectl get nhc {NODE_CHECK} -o custom-columns='STEPS:.spec.escalatingRemediations[*].remediationTemplate.name,\
             EACH-FOR-UP-TO:.spec.escalatingRemediations[*].timeout'"
        ))
        .await?;
    story
        .see(&format!("kubectl get nhc {NODE_CHECK}"))
        .await
        .map(drop)
}

async fn a_quick_cycle_is_enough(story: &mut Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    let before = uid_of(stage, &pod).await?;
    story.begin("The first host hangs, and a quick power cycle is enough");
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!("{victim} hangs: its kubelet is dead, but it has power and {pod} still runs"),
        )
        .await;
    story.during(remediations(stage, &victim, 1)).await?;
    look(story).await?;
    story.during(back(stage, &victim)).await?;
    story.during(starts_again(stage, &victim, &pod)).await?;
    story.note(&format!(
        "There was no taint, so Kubernetes did not move {pod}: it is the same pod, started again \
         on the same node. That is quick, and safe as long as the host comes back."
    ));
    story
        .see(&format!("kubectl get pod {pod} -o wide --no-headers"))
        .await?;

    story
        .check_never_tainted(
            &victim,
            &format!("quick: {victim} was never tainted, nothing was moved"),
        )
        .await;
    let after = uid_of(stage, &pod).await;
    let same = after.and_then(|after| {
        ensure!(after == before, "it is {after:?} and was {before:?}");
        Ok(())
    });
    story.check(
        &format!("quick: {pod} is the same pod, on the same node"),
        same,
    );
    story.check_power("quick", &victim, &["rackhand"], &["rackhand"]);
    let tried = tried(story, &victim, &["quick"]);
    story.check(
        &format!("quick: one remediation of {victim}, created by the check and deleted"),
        tried,
    );
    Ok(())
}

async fn it_is_not_enough(story: &mut Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    story.begin("The second host hangs, and a quick power cycle is not enough");
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!("{victim} hangs: its kubelet is dead, but it has power and {pod} still runs"),
        )
        .await;
    // In its own task, because a boot is short.
    let watched = host.clone();
    let hangs = tokio::spawn(async move {
        let booting = |view: &HostView| view.os == OsState::Booting;
        watched.wait_for(LONG, "booting", booting).await?;
        ensure!(watched.hang(), "{} was not booting", watched.name());
        Ok(())
    });
    story.during(async { hangs.await? }).await?;
    story
        .line(
            "fault",
            &format!("{victim} hangs again while it boots: its kubelet never starts"),
        )
        .await;
    story.during(remediations(stage, &victim, 2)).await?;
    story.note(
        "The first step has failed before its time was over, so the check does not wait for the rest of it. \
         The second step fences the node: nothing may start elsewhere before the host is confirmed off.",
    );
    look(story).await?;
    story
        .see(&format!(
            "kubectl get nhc {NODE_CHECK} -o custom-columns='TRIED:.status..templateName,\
             SINCE:.status..started,GIVEN-UP:.status..timedOut'"
        ))
        .await?;
    story.during(back(stage, &victim)).await?;
    let elsewhere = story.during(runs_elsewhere(stage, &pod, &victim)).await;
    story.why(
        Rule::F9,
        "the node is Ready, so the check deletes both remediations, and each removes what it had added \
         before it is gone.",
    );
    story.see(&format!("kubectl get nhc {NODE_CHECK}")).await?;
    story
        .see(&format!(
            "kubectl get prem --all-namespaces 2>&1; kubectl -n {NODE_LEASES} get leases 2>&1"
        ))
        .await?;

    let twice = ["rackhand", "rackhand"];
    story.check_power("fenced", &victim, &twice, &twice);
    story.check_tainted_once(&victim, true).await;
    let tried = tried(story, &victim, &["quick", "full"]);
    story.check(
        "fenced: the second step began only after the first had failed and was timed out",
        tried,
    );
    story.check(
        &format!("fenced: {pod} runs on another node"),
        elsewhere.map(drop),
    );
    Ok(())
}

/// Shows check and remediations with kubectl.
async fn look(story: &mut Story<'_>) -> Result<()> {
    story.see(&format!("kubectl get nhc {NODE_CHECK}")).await?;
    story
        .see(&format!("kubectl -n {SYSTEM} get prem"))
        .await
        .map(drop)
}

/// Waits until the status of the check lists this many remediations of a Node.
async fn remediations(stage: &Stage, node: &str, count: usize) -> Result<()> {
    let what = format!("{node}: {count} remediations in the check's status");
    wait_until(&what, LONG, || async {
        let check = stage.node_health_checks().get(NODE_CHECK).await?;
        let status = &check.data["status"];
        let nodes = status["unhealthyNodes"].as_array().into_iter().flatten();
        let mut made = nodes.filter(|entry| entry["name"] == node);
        let made = made
            .next()
            .and_then(|entry| entry["remediations"].as_array());
        Ok(if made.is_some_and(|made| made.len() == count) {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

/// Waits until the Node is Ready and its failure has left no trace.
async fn back(stage: &Stage, node: &str) -> Result<()> {
    stage.wait_back(node).await?;
    stage.wait_check_at_rest().await?;
    wait_until(&format!("{node}: the Lease is gone"), LONG, || async {
        let lease = stage.work_lease(node).await?;
        Ok(lease.map_or(Ok(()), |lease| Err(format!("{lease:?}"))))
    })
    .await
}

/// Waits until the pod's processes run again on the same host.
async fn starts_again(stage: &Stage, host: &str, pod: &str) -> Result<()> {
    let what = format!("{pod} runs again on {host}");
    wait_until(&what, LONG, || async {
        let running = stage.host(host)?.running_pods();
        let runs = running.iter().any(|process| process.pod.name == pod);
        Ok(if runs {
            Ok(())
        } else {
            Err(format!("{} pods run", running.len()))
        })
    })
    .await
}

/// UID and Node of a pod.
async fn uid_of(stage: &Stage, pod: &str) -> Result<(String, String)> {
    let pods = stage.pods().await?;
    let found = pods.iter().find(|p| p.name_any() == pod);
    let found = found.with_context(|| format!("there is no pod {pod}"))?;
    let node = found.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Ok((found.uid().unwrap_or_default(), node.unwrap_or_default()))
}

/// Checks by all versions of the objects: the check created the remediations of a Node from these templates,
/// one after another, and all are gone.
fn tried(story: &Story<'_>, node: &str, templates: &[&str]) -> Result<()> {
    let mut records = story.recorder.all(REMEDIATIONS);
    records.retain(|record| record.annotation(NODE_NAME) == Some(node));
    one_after_another(&records, templates)
}

fn one_after_another(records: &[Record], templates: &[&str]) -> Result<()> {
    let mut last: Vec<&Record> = Vec::new();
    for record in records {
        let same = |known: &&mut &Record| known.uid() == record.uid();
        match last.iter_mut().find(same) {
            Some(known) => *known = record,
            None => {
                for earlier in &last {
                    ensure!(given_up(earlier), "one began beside {}", earlier.name);
                }
                last.push(record);
            }
        }
    }
    let from = last.iter().map(|record| record.annotation(TEMPLATE));
    let from: Vec<&str> = from.map(Option::unwrap_or_default).collect();
    ensure!(from == templates, "they were made from {from:?}");
    for record in last {
        let owner = &record.object["metadata"]["ownerReferences"][0];
        ensure!(
            owner["kind"] == "NodeHealthCheck" && owner["name"] == NODE_CHECK,
            "{} was made by {owner}",
            record.name
        );
        ensure!(record.gone, "{} is still there", record.name);
    }
    Ok(())
}

/// Whether a remediation has failed and has the annotation of the check.
fn given_up(record: &Record) -> bool {
    let conditions = record.object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let failed = conditions.any(|c| c["type"] == "Succeeded" && c["status"] == "False");
    failed && record.annotation(TIMED_OUT).is_some()
}

async fn at_rest(stage: &Stage) -> Result<()> {
    let check = stage.node_health_checks().get(NODE_CHECK).await?;
    let status = &check.data["status"];
    let unhealthy = status["unhealthyNodes"].as_array();
    ensure!(
        unhealthy.is_none_or(Vec::is_empty) && status["phase"] == "Enabled",
        "{status}"
    );
    for rack in &stage.config().racks {
        for host in &rack.hosts {
            let lease = stage.work_lease(host).await?;
            ensure!(lease.is_none(), "Lease node-{host} is there");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    fn mk_record(template: &str, given_up: bool, gone: bool) -> Record {
        let (status, told) = if given_up {
            ("False", json!("2026-08-01T02:14:07Z"))
        } else {
            ("Unknown", json!(null))
        };
        Record {
            at: Instant::now(),
            kind: REMEDIATIONS,
            name: template.to_owned(),
            gone,
            object: json!({
                "metadata": {
                    "uid": template,
                    "annotations": { TEMPLATE: template, TIMED_OUT: told },
                    "ownerReferences": [{ "kind": "NodeHealthCheck", "name": NODE_CHECK }],
                },
                "status": { "conditions": [{ "type": "Succeeded", "status": status }] },
            }),
        }
    }

    #[test]
    fn overlapping_escalation_steps_are_rejected() {
        let begun = || vec![mk_record("quick", false, false)];
        let ended = || {
            vec![
                mk_record("quick", true, true),
                mk_record("full", false, true),
            ]
        };
        let given_up = || vec![mk_record("quick", true, false)];
        let full = || vec![mk_record("full", false, false)];
        let steps = ["quick", "full"];

        let well = [begun(), given_up(), full(), ended()].concat();
        assert!(one_after_another(&well, &steps).is_ok());
        assert!(one_after_another(&well, &["full"]).is_err());
        let beside = [begun(), full(), ended()].concat();
        let error = one_after_another(&beside, &steps).unwrap_err().to_string();
        assert!(error.contains("beside quick"), "{error}");
        let left = [begun(), given_up(), full()].concat();
        let error = one_after_another(&left, &steps).unwrap_err().to_string();
        assert!(error.contains("still there"), "{error}");
    }
}
