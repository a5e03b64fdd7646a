//! The failure table of the specification (spec/metal3-remediation.md 10) on a real control plane.
//!
//! | Row | Shown in |
//! |---|---|
//! | BMC unreachable, or it refuses the password, at power-off | `fencing.rs`: silent, refused, persons_word |
//! | BMC answers On after the off command | here: `still_on`; for good: `fencing.rs`, ignoring |
//! | BMC says PoweringOff for minutes | `fencing.rs`: stuck |
//! | BMC says Off but the Node's Lease keeps moving | `fencing.rs`: lie, swapped |
//! | Host turns on while tainted | `fencing.rs`: switched_on; `cooperative.rs`: forced |
//! | Workload API down | here: `workload_down` |
//! | nodeRef empty | here: `never_joined` |
//! | Node object deleted | here: `node_deleted` |
//! | Drain blocked | here: `drain_blocked` |
//! | Node healthy before the off was sent | `input.rs`: recovered_early; `fencing.rs`: recovered_agentless |
//! | Remediation deleted after the off | `fencing.rs`: withdrawn_* |
//! | online=false midway | `cooperative.rs`: offline |
//! | BareMetalHost paused, detached, servicing, not provisioned | `cooperative.rs`: paused, detached, let_go, servicing, unprovisioned |
//! | Foreign reboot key | `cooperative.rs`: foreign, plain |
//! | Our hold key removed by others | here: `hold_removed`; by an old operator: `cooperative.rs`, deleted |
//! | disablePowerOff | `cooperative.rs`: unswitchable |
//! | Two health checks on one Machine | here: `two_checks` |
//! | Two control-plane members | here: `one_member_at_a_time`, `member_paused`, `quorum_first` |
//! | Two hosts at one BMC endpoint | here: `one_bmc` |
//! | Controller or agent restart at any step | `crash.rs` |
//! | Power-on refused for a while | here: `on_refused` |
//! | Off again while it boots | here: `off_again`; forced by Ironic: `cooperative.rs`, off_again |
//! | Clock skew | here: `clocks_ahead_and_behind` |
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    rack::{Action, LogEvent, PowerState, ResetType, Rule, SimHost},
    stage::{
        HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, Wire, Witness,
        wait_until,
    },
};
use serde_json::{Value, json};

const HOLD: &str = "reboot.metal3.io/rackhand-";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

struct World {
    stage: Stage,
    witness: Witness,
    /// To the cluster `far`.
    wire: Wire,
}

fn racks() -> Vec<RackSpec> {
    let by_hand = |name: &str, hosts, link| RackSpec::new(name, hosts, link).in_pool("by-hand");
    vec![
        RackSpec {
            hosts: [
                "still-1", "block-1", "late-1", "again-1", "ahead-1", "behind-1",
            ]
            .map(str::to_owned)
            .into(),
            ..RackSpec::new("many", 0, HostLink::Inventory)
        },
        RackSpec::new("two", 1, HostLink::Inventory).in_pool("two"),
        RackSpec::new("taken", 1, HostLink::Managed),
        by_hand("far", 2, HostLink::Managed),
        by_hand("new", 1, HostLink::Managed),
        by_hand("gone", 1, HostLink::Managed),
        by_hand("twin", 2, HostLink::Managed),
        by_hand("five", 5, HostLink::Inventory),
        by_hand("three", 3, HostLink::Inventory),
        by_hand("trio", 3, HostLink::Inventory),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_the_failure_table_comes_out_as_specified() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(
        racks(),
        &[
            "--power-timeout=8s",
            "--drain-timeout=6s",
            "--cooperative-grace=1s",
        ],
    );
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let wire = stage.wire().await.unwrap();
    if let Err(error) = begin(&stage, &wire).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World {
        witness: Witness::start(&stage.client),
        stage,
        wire,
    };
    let w = &world;

    let mut all = Scenarios::new();
    all.add("on_after_the_off_command_is_answered_again", still_on(w));
    all.add(
        "a_workload_api_that_is_down_defers_the_taint",
        workload_down(w),
    );
    all.add(
        "a_machine_that_never_joined_gets_a_plain_cycle",
        never_joined(w),
    );
    all.add(
        "a_node_that_was_deleted_leaves_its_pods_behind",
        node_deleted(w),
    );
    all.add("a_blocked_drain_names_what_blocks_it", drain_blocked(w));
    all.add("a_hold_that_a_person_removed_comes_back", hold_removed(w));
    all.add(
        "two_checks_of_one_machine_are_one_remediation",
        two_checks(w),
    );
    all.add(
        "f6_one_member_of_a_control_plane_at_a_time",
        one_member_at_a_time(w),
    );
    all.add(
        "f6_a_member_that_is_paused_holds_up_no_other",
        member_paused(w),
    );
    all.add("f6_etcd_keeps_its_quorum", quorum_first(w));
    all.add(
        "two_hosts_with_one_bmc_take_turns_and_one_is_wrong",
        one_bmc(w),
    );
    all.add(
        "a_power_on_that_is_refused_for_a_while_is_repeated",
        on_refused(w),
    );
    all.add(
        "a_host_that_is_switched_off_while_it_boots_is_switched_on_again",
        off_again(w),
    );
    all.add(
        "clocks_ahead_and_behind_change_nothing",
        clocks_ahead_and_behind(w),
    );
    let outcome = all.run().await;
    let outcome = outcome.and_then(|()| {
        let twice = w.stage.ran_twice();
        ensure!(twice.is_empty(), "ran twice: {twice:?}");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage, wire: &Wire) -> Result<()> {
    let direct = stage
        .plane()
        .kubeconfig_of("kube-system", "rackhand")
        .await?;
    let direct = std::fs::read_to_string(direct)?;
    for (name, kubeconfig) in [
        ("far", wire.kubeconfig.as_str()),
        ("five", direct.as_str()),
        ("three", direct.as_str()),
        ("trio", direct.as_str()),
    ] {
        write_cluster(stage, name, kubeconfig).await?;
        for spec in racks().iter().filter(|spec| spec.name == name) {
            for host in &spec.hosts {
                move_machine(stage, host, name, name != "far").await?;
            }
        }
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await
}

async fn write_cluster(stage: &Stage, name: &str, kubeconfig: &str) -> Result<()> {
    let now = Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let ready = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" });
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Cluster",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {},
        "status": {
            "phase": "Provisioned",
            "infrastructureReady": true,
            "controlPlaneReady": true,
            "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")],
        },
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{name}-kubeconfig"),
            "namespace": NAMESPACE,
            "labels": { CLUSTER_LABEL: name },
        },
        "stringData": { "value": kubeconfig },
    });
    apply(&stage.client, secret).await?;
    apply(&stage.client, cluster).await.map(drop)
}

async fn move_machine(stage: &Stage, host: &str, cluster: &str, member: bool) -> Result<()> {
    let mut labels = json!({ CLUSTER_LABEL: cluster });
    if member {
        labels[CONTROL_PLANE] = json!("");
    }
    let body = json!({
        "metadata": { "labels": labels },
        "spec": { "clusterName": cluster },
    });
    let machines = stage.machines();
    machines
        .patch(host, &PatchParams::default(), &Patch::Merge(body))
        .await?;
    Ok(())
}

impl World {
    fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    /// A pod runs on a host, and then the host hangs.
    async fn lose(&self, host: &str, kept: bool) -> Result<()> {
        self.stage.bind_pod(host, kept).await?;
        self.host(host)?
            .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        self.hang(host)
    }

    async fn untainted(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let seen = seen.map(|s| (s.step, s.reason, s.message));
            let taints = self.witness.taints(host);
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{taints:?} {seen:?}"))
            })
        })
        .await
    }

    /// Tainted once and only while it was off, one cycle, nothing left.
    async fn comes_back(&self, host: &str) -> Result<()> {
        self.untainted(host).await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)?;
        self.stage.tainted_only_while_off(&self.witness, host).await
    }

    /// What was asked for by hand has succeeded; nobody else takes it back.
    async fn succeeded(&self, host: &str) -> Result<()> {
        self.stage.wait_step(host, "Succeeded").await?;
        self.stage.withdraw(host).await?;
        self.stage.wait_back(host).await
    }

    fn steps(&self, host: &str) -> Vec<String> {
        let steps = self.witness.steps(host).into_iter();
        steps.map(|(_, step)| step).collect()
    }

    /// Off until something changes: somebody keeps looking, and it stays off.
    async fn stays_off(&self, host: &str) -> Result<()> {
        self.stage.wait_looks(host, 2).await?;
        let power = self.host(host)?.real_power();
        ensure!(power == PowerState::Off, "{host} is {power}");
        Ok(())
    }

    async fn patch_host(&self, host: &str, spec: Value) -> Result<()> {
        let (params, body) = (
            PatchParams::default(),
            Patch::Merge(json!({ "spec": spec })),
        );
        let hosts = self.stage.bare_metal_hosts();
        hosts.patch(host, &params, &body).await?;
        Ok(())
    }
}

/// The BMC takes the command and does nothing: it is sent again, and nothing else happens.
async fn still_on(w: &World) -> Result<()> {
    let host = w.host("still-1")?;
    host.ignore_commands();
    w.lose("still-1", false).await?;
    // Three tries fit in before a person is asked, and then a minute passes.
    host.wait_for(LONG, "commanded again", |view| {
        view.counters.received(ResetType::ForceOff) >= 2
    })
    .await?;
    host.clear_faults();
    w.comes_back("still-1").await?;
    w.stage.wait_warning("still-1", "FenceUnconfirmed").await
}

/// Off and held without the workload API; tainted, drained and switched on only with it.
async fn workload_down(w: &World) -> Result<()> {
    w.lose("far-2", true).await?;
    w.stage.remediate("far-2").await?;
    w.stage.wait_step("far-2", "Draining").await?;
    w.lose("far-1", false).await?;
    w.wire.cut();
    w.stage.remediate("far-1").await?;
    for host in ["far-1", "far-2"] {
        let seen = w.stage.wait_blocked(host, "WorkloadUnreachable").await?;
        ensure!(seen.message.contains("far"), "which one: {}", seen.message);
    }
    // Its pod goes, and nobody can see that.
    w.stage.let_pod_go("far-2").await?;
    w.host("far-1")?
        .wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    tokio::try_join!(w.stays_off("far-1"), w.stays_off("far-2"))?;
    for host in ["far-1", "far-2"] {
        let holds = w.witness.holds(host, HOLD);
        ensure!(holds.len() == 1, "{host}: the hold is kept: {holds:?}");
    }
    w.stage.never_tainted(&w.witness, "far-1").await?;
    ensure!(w.stage.tainted("far-2").await?, "the taint stays");
    w.wire.mend();
    for host in ["far-1", "far-2"] {
        w.untainted(host).await?;
        w.succeeded(host).await?;
        w.stage.one_cycle(host)?;
        w.stage.tainted_only_while_off(&w.witness, host).await?;
    }
    Ok(())
}

/// There is nothing to taint and nothing to drain.
async fn never_joined(w: &World) -> Result<()> {
    let joined = async |node: Value| {
        let body = json!({ "status": { "nodeRef": node } });
        let machines = w.stage.machines();
        machines
            .patch_status("new-1", &PatchParams::default(), &Patch::Merge(body))
            .await
    };
    joined(Value::Null).await?;
    w.hang("new-1")?;
    w.stage.remediate("new-1").await?;
    w.stage.wait_step("new-1", "Booting").await?;
    let steps = w.steps("new-1");
    let plain = !steps.iter().any(|s| s == "Tainting" || s == "Draining");
    ensure!(plain, "{steps:?}");
    // It joins at last.
    joined(json!({ "apiVersion": "v1", "kind": "Node", "name": "new-1" })).await?;
    w.succeeded("new-1").await?;
    w.stage.one_cycle("new-1")?;
    w.stage.never_tainted(&w.witness, "new-1").await
}

/// Nothing can be tainted; but a pod that the API still has keeps the host off.
async fn node_deleted(w: &World) -> Result<()> {
    w.lose("gone-1", true).await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.delete("gone-1", &DeleteParams::default()).await?;
    w.stage.remediate("gone-1").await?;
    let pod = "default/on-gone-1";
    w.stage
        .wait_remediation("gone-1", "waits for the pod", |seen| {
            seen.step == "Draining" && seen.message.contains(pod)
        })
        .await?;
    w.stays_off("gone-1").await?;
    let pods: Api<Pod> = Api::namespaced(w.stage.client.clone(), "default");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("on-gone-1", &now).await?;
    w.stage.let_pod_go("gone-1").await?;
    w.succeeded("gone-1").await?;
    w.stage.one_cycle("gone-1")?;
    w.stage.never_tainted(&w.witness, "gone-1").await
}

/// A pod with a finalizer, and a volume whose driver is down.
async fn drain_blocked(w: &World) -> Result<()> {
    let volumes: Api<VolumeAttachment> = Api::all(w.stage.client.clone());
    let volume: VolumeAttachment = serde_json::from_value(json!({
        "metadata": { "name": "volume-on-block-1" },
        "spec": {
            "attacher": "csi.invalid",
            "nodeName": "block-1",
            "source": { "persistentVolumeName": "lost" },
        },
    }))?;
    volumes.create(&PostParams::default(), &volume).await?;
    w.lose("block-1", true).await?;
    let seen = w.stage.wait_blocked("block-1", "DrainBlocked").await?;
    for name in ["default/on-block-1", "volume-on-block-1"] {
        ensure!(seen.message.contains(name), "{name}: {}", seen.message);
    }
    w.stays_off("block-1").await?;
    w.stage.let_pod_go("block-1").await?;
    w.stage
        .wait_remediation("block-1", "only the volume is left", |seen| {
            seen.message.contains("1 volume") && !seen.message.contains("pod")
        })
        .await?;
    w.stays_off("block-1").await?;
    volumes
        .delete("volume-on-block-1", &DeleteParams::default())
        .await?;
    w.comes_back("block-1").await
}

async fn hold_removed(w: &World) -> Result<()> {
    w.lose("taken-1", true).await?;
    let seen = w.stage.wait_step("taken-1", "Draining").await?;
    let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
    let hosts = w.stage.bare_metal_hosts();
    let key = format!("{HOLD}{uid}");
    w.stage.annotate(&hosts, "taken-1", &key, None).await?;
    w.stage.wait_warning("taken-1", "HoldLost").await?;
    wait_until("off is confirmed again", LONG, || async {
        let steps = w.steps("taken-1");
        let confirmed = steps.iter().filter(|step| *step == "ConfirmingOff");
        let again = confirmed.count() == 2 && steps.last().is_some_and(|s| s == "Draining");
        Ok(if again {
            Ok(())
        } else {
            Err(format!("{steps:?}"))
        })
    })
    .await?;
    let holds = w.witness.holds("taken-1", HOLD);
    ensure!(holds.len() == 3, "came, went, came: {holds:?}");
    w.stays_off("taken-1").await?;
    w.stage.let_pod_go("taken-1").await?;
    w.comes_back("taken-1").await
}

async fn two_checks(w: &World) -> Result<()> {
    for name in ["two-a", "two-b"] {
        let check = w.stage.health_check_of(name, "two", "100%");
        apply_yaml(&w.stage.client, &check).await?;
    }
    w.lose("two-1", false).await?;
    w.comes_back("two-1").await?;
    let seen = w.witness.of("Metal3Remediation", "two-1");
    let first = seen.first().context("a request was made")?.uid().to_owned();
    ensure!(seen.iter().all(|r| r.uid() == first), "more than one");
    Ok(())
}

/// When it was off, from and to.
fn off_times(host: &SimHost) -> Vec<(std::time::Instant, std::time::Instant)> {
    let mut times = Vec::new();
    let mut since = None;
    for entry in host.log() {
        match entry.event {
            LogEvent::Power(PowerState::Off) => since = Some(entry.stamp.at),
            LogEvent::Power(PowerState::On) => {
                times.extend(since.take().map(|from| (from, entry.stamp.at)));
            }
            _ => {}
        }
    }
    times
}

async fn one_member_at_a_time(w: &World) -> Result<()> {
    for host in ["five-1", "five-2"] {
        w.hang(host)?;
        w.stage.remediate(host).await?;
    }
    let reasons = wait_until("one waits for the other", LONG, || async {
        let (one, two) = (w.witness.reasons("five-1"), w.witness.reasons("five-2"));
        let waits = |reasons: &[String]| reasons.iter().any(|r| r == "OtherRemediation");
        Ok(if waits(&one) || waits(&two) {
            Ok((waits(&one), waits(&two)))
        } else {
            Err(format!("{one:?} {two:?}"))
        })
    })
    .await?;
    ensure!(reasons != (true, true), "both wait");
    for host in ["five-1", "five-2"] {
        w.succeeded(host).await?;
        w.stage.one_cycle(host)?;
    }
    let (one, two) = (off_times(w.host("five-1")?), off_times(w.host("five-2")?));
    let apart = one[0].1 <= two[0].0 || two[0].1 <= one[0].0;
    ensure!(apart, "off at the same time: {one:?} {two:?}");
    Ok(())
}

async fn quorum_first(w: &World) -> Result<()> {
    for host in ["three-1", "three-2"] {
        w.hang(host)?;
    }
    for host in ["three-1", "three-2"] {
        wait_until(&format!("{host} is Unknown"), LONG, || async {
            let ready = rackhand_tests::stage::ready(&w.stage.node(host).await?);
            Ok(if ready == "Unknown" {
                Ok(())
            } else {
                Err(ready)
            })
        })
        .await?;
    }
    for host in ["three-1", "three-2"] {
        w.stage.remediate(host).await?;
    }
    // One waits for a member to come back, and the other for that one.
    let (first, other) = wait_until("both wait", LONG, || async {
        let (mut first, mut reasons) = (None, Vec::new());
        for (host, other) in [("three-1", "three-2"), ("three-2", "three-1")] {
            let seen = w.stage.remediation(host).await?.unwrap_or_default();
            if seen.reason == "ControlPlaneQuorum" && seen.message.contains("2 are needed") {
                first = Some((host, other));
            }
            reasons.push(seen.reason);
        }
        let told = reasons.iter().all(|reason| !reason.is_empty());
        Ok(first.filter(|_| told).ok_or_else(|| format!("{reasons:?}")))
    })
    .await?;
    w.stage.wait_warning(first, "ControlPlaneQuorum").await?;
    for host in [first, other] {
        w.stage.untouched(host)?;
    }
    w.stage.withdraw(other).await?;
    let host = w.host(other)?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.switch(ResetType::On, "a person");
    w.succeeded(first).await?;
    w.stage.one_cycle(first)?;
    w.stage.one_cycle(other)
}

/// What holds up one member is its own: the others need not wait for it.
async fn member_paused(w: &World) -> Result<()> {
    let machines = w.stage.machines();
    let paused = "cluster.x-k8s.io/paused";
    w.stage
        .annotate(&machines, "trio-1", paused, Some(""))
        .await?;
    w.stage.remediate("trio-1").await?;
    w.stage.wait_blocked("trio-1", "Paused").await?;
    w.lose("trio-2", true).await?;
    w.stage.remediate("trio-2").await?;
    w.stage.wait_step("trio-2", "Draining").await?;
    // Able again it is the older one, and comes after the one that has begun.
    w.stage.annotate(&machines, "trio-1", paused, None).await?;
    let seen = w.stage.wait_blocked("trio-1", "OtherRemediation").await?;
    ensure!(seen.message.contains("trio-2"), "{}", seen.message);
    w.stage.withdraw("trio-1").await?;
    // It never had our finalizer, and counts all the same.
    let counted = "{outcome=\"withdrawn\",cause=\"OtherRemediation\"}";
    wait_until("it is counted", LONG, || async {
        let (_, text) = w.stage.admin("controller-0", "/metrics").await?;
        Ok(if text.contains(counted) {
            Ok(())
        } else {
            Err(text)
        })
    })
    .await?;
    w.stage.let_pod_go("trio-2").await?;
    w.succeeded("trio-2").await?;
    w.stage.one_cycle("trio-2")?;
    w.stage.untouched("trio-1")
}

/// The BareMetalHost of one names the BMC of the other.
async fn one_bmc(w: &World) -> Result<()> {
    let address = |host: &str| -> Result<String> {
        let url = w.host(host)?.system_url()?;
        Ok(url.replacen("https://", "redfish+https://", 1))
    };
    let wrong = json!({ "bmc": { "address": address("twin-1")? } });
    w.patch_host("twin-2", wrong).await?;
    w.lose("twin-1", true).await?;
    w.hang("twin-2")?;
    w.stage.remediate("twin-1").await?;
    w.stage.wait_step("twin-1", "Draining").await?;
    w.stage.remediate("twin-2").await?;
    let seen = w.stage.wait_blocked("twin-2", "OtherRemediation").await?;
    ensure!(seen.message.contains("twin-1"), "{}", seen.message);
    w.stage.let_pod_go("twin-1").await?;
    w.succeeded("twin-1").await?;
    w.stage.wait_blocked("twin-2", "IdentityMismatch").await?;
    w.stage.one_cycle("twin-1")?;
    w.stage.untouched("twin-2")?;
    w.stage.never_tainted(&w.witness, "twin-2").await?;
    // Corrected, as it says.
    let right = json!({ "bmc": { "address": address("twin-2")? } });
    w.patch_host("twin-2", right).await?;
    w.stage.withdraw("twin-2").await?;
    wait_until("twin-2 is withdrawn", LONG, || async {
        let seen = w.stage.remediation("twin-2").await?;
        Ok(seen.map_or(Ok(()), |seen| Err(seen.step)))
    })
    .await?;
    w.stage.remediate("twin-2").await?;
    w.succeeded("twin-2").await?;
    w.stage.one_cycle("twin-1")?;
    w.stage.one_cycle("twin-2")
}

/// As some BMCs do for a while after the power has gone.
async fn on_refused(w: &World) -> Result<()> {
    let host = w.host("late-1")?;
    w.lose("late-1", true).await?;
    w.stage.wait_step("late-1", "Draining").await?;
    let refuse = Action::Status {
        status: 409,
        body: None,
        headers: [].into(),
    };
    let reset = "**/Actions/ComputerSystem.Reset";
    host.inject(Rule::always(refuse).on("POST", reset).times(3));
    w.stage.let_pod_go("late-1").await?;
    w.comes_back("late-1").await?;
    let left = host.faults().first().and_then(|named| named.rule.remaining);
    ensure!(left == Some(0), "refused three times: {left:?}");
    let counters = host.counters();
    ensure!(counters.received(ResetType::On) == 1, "{counters:?}");
    Ok(())
}

/// Somebody is at the button while it boots: no attempt is lost by that.
async fn off_again(w: &World) -> Result<()> {
    let host = w.host("again-1")?;
    w.lose("again-1", true).await?;
    w.stage.wait_step("again-1", "Draining").await?;
    host.never_boots(true);
    w.stage.let_pod_go("again-1").await?;
    w.stage.wait_step("again-1", "Booting").await?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.never_boots(false);
    w.stage.wait_warning("again-1", "OffAgain").await?;
    w.untainted("again-1").await?;
    w.stage.wait_back("again-1").await?;
    let steps = w.steps("again-1");
    ensure!(!steps.iter().any(|s| s == "Retrying"), "{steps:?}");
    let counters = host.counters();
    ensure!(counters.received(ResetType::On) == 2, "{counters:?}");
    w.stage.tainted_only_while_off(&w.witness, "again-1").await
}

/// A kubelet's clock says nothing: only whether its Lease moves.
async fn clocks_ahead_and_behind(w: &World) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(w.stage.client.clone(), "kube-node-lease");
    let skewed = async |host: &str, skew: SignedDuration| {
        w.lose(host, false).await?;
        let time = Timestamp::now().checked_add(skew)?;
        let body = json!({ "spec": { "renewTime": format!("{time:.6}") } });
        leases
            .patch(host, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        w.comes_back(host).await
    };
    tokio::try_join!(
        skewed("ahead-1", SignedDuration::from_secs(20)),
        skewed("behind-1", SignedDuration::from_hours(-3)),
    )
    .map(drop)
}
