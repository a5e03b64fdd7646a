//! The failure table of the specification (docs/reference/failures.md) on a real control plane.
//!
//! | Row | Shown in |
//! |---|---|
//! | BMC unreachable, or it refuses the password, at power-off | `fencing`: silent, refused, persons_word |
//! | BMC answers On after the off command | here: `still_on`; for good: `fencing`, ignoring |
//! | BMC reports PoweringOff for minutes | `fencing`: stuck |
//! | BMC reports Off but the Node's Lease keeps moving | `fencing`: lie, swapped |
//! | Host turns on while tainted | `fencing`: switched_on; `cooperative`: forced |
//! | Workload API down | here: `workload_down` |
//! | nodeRef empty | here: `never_joined` |
//! | Node object deleted | here: `node_deleted` |
//! | Drain blocked | here: `drain_blocked`; a volume of a pod that stays: `used_by_pod_that_stays` |
//! | Node healthy before the off was sent | `input`: recovered_early; `fencing`: recovered_agentless |
//! | Remediation deleted after the off | `fencing`: withdrawn_* |
//! | online=false midway | `cooperative`: offline |
//! | BareMetalHost paused, detached, servicing, not provisioned | `cooperative`: paused, detached, let_go, servicing, unprovisioned |
//! | Foreign reboot key | `cooperative`: foreign, plain |
//! | Our hold key removed by others | here: `hold_removed`; by an old operator: `cooperative`, deleted |
//! | disablePowerOff | `cooperative`: unswitchable |
//! | Two health checks on one Machine | here: `two_checks` |
//! | Two control-plane members | here: `one_member_at_a_time`, `member_paused`, `quorum_first`, `only_etcd` |
//! | Two hosts at one BMC endpoint | here: `one_bmc` |
//! | Controller or agent restart at any step | `crash` |
//! | Power-on refused for a while | here: `on_refused` |
//! | Off again while it boots | here: `off_again`; forced by Ironic: `cooperative`, off_again |
//! | Clock skew | here: `clocks_ahead_and_behind` |
//!
//! The tests share one stage and run at the same time, each with hosts of its own.

mod deleted;
mod members;
mod nodes;
mod power;
mod world;

use std::path::Path;

use anyhow::{Result, bail};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use rackhand_tests::{
    cluster::apply,
    stage::{
        Fixture, HostLink, NAMESPACE, RackSpec, Recorder, SharedFixture, Stage, StageConfig, Wire,
    },
};
use serde_json::json;

use deleted::{cluster_removed, host_deleted, node_replaced, secret_deleted};
use members::{member_paused, one_member_at_a_time, only_etcd, quorum_first};
use nodes::{
    drain_blocked, never_joined, node_deleted, two_checks, used_by_pod_that_stays, workload_down,
};
use power::{clocks_ahead_and_behind, hold_removed, off_again, on_refused, one_bmc, still_on};
use world::{CLUSTER_LABEL, CONTROL_PLANE, ETCD_ROLE, World};

fn racks() -> Vec<RackSpec> {
    let by_hand = |name: &str, hosts, link| RackSpec::new(name, hosts, link).in_pool("by-hand");
    vec![
        RackSpec {
            hosts: [
                "still-1", "block-1", "stays-1", "late-1", "again-1", "ahead-1", "behind-1",
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
        by_hand("lost", 2, HostLink::Managed),
        by_hand("name", 1, HostLink::Managed),
        by_hand("left", 1, HostLink::Managed),
        by_hand("five", 5, HostLink::Inventory),
        by_hand("three", 3, HostLink::Inventory),
        by_hand("trio", 3, HostLink::Inventory),
        by_hand("etcd", 3, HostLink::Inventory),
    ]
}

static FIXTURE: SharedFixture<World> = SharedFixture::new();

impl Fixture for World {
    async fn start(dir: &Path) -> Result<Self> {
        let arguments = [
            "--power-timeout=8s",
            "--drain-timeout=6s",
            "--cooperative-grace=1s",
        ];
        let stage = Stage::start(dir, StageConfig::steady(racks(), &arguments)).await?;
        let wire = stage.wire().await?;
        if let Err(error) = begin(&stage, &wire).await {
            bail!("{error:#}\n{}", stage.report().await);
        }
        Ok(Self {
            recorder: Recorder::start(&stage.client),
            stage,
            wire,
        })
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

rackhand_tests::fixture_tests! {
    FIXTURE;
    ignored_power_off_is_sent_again => still_on,
    unreachable_workload_api_defers_taint => workload_down,
    machine_without_node_gets_power_cycle_without_taint => never_joined,
    pods_of_deleted_node_keep_host_off => node_deleted,
    blocked_drain_names_blocking_pods_and_volumes => drain_blocked,
    f4_volume_of_a_pod_that_tolerates_the_taint_does_not_delay_the_power_on => used_by_pod_that_stays,
    hold_removed_by_operator_is_restored => hold_removed,
    two_checks_of_one_machine_create_one_remediation => two_checks,
    f6_control_plane_members_are_fenced_one_at_a_time => one_member_at_a_time,
    f6_paused_member_does_not_block_others => member_paused,
    f6_member_is_not_fenced_without_etcd_quorum => quorum_first,
    f6_members_that_only_run_etcd_keep_the_quorum_unless_a_person_overrules_it => only_etcd,
    two_hosts_with_one_bmc_are_serialized_and_mismatch_is_blocked => one_bmc,
    refused_power_on_is_retried => on_refused,
    host_switched_off_while_booting_is_switched_on_again => off_again,
    kubelet_clock_skew_does_not_affect_remediation => clocks_ahead_and_behind,
    f8_confirmation_by_person_works_without_bmc_credentials => secret_deleted,
    f9_remediation_of_deleted_host_leaves_nothing_behind => host_deleted,
    f4_host_stays_off_until_drained_after_cluster_object_is_deleted => cluster_removed,
    f5_replacement_node_of_other_host_is_not_tainted => node_replaced,
}

async fn begin(stage: &Stage, wire: &Wire) -> Result<()> {
    let direct = stage
        .plane()
        .kubeconfig_of("kube-system", "rackhand")
        .await?;
    let direct = std::fs::read_to_string(direct)?;
    for (name, kubeconfig) in [
        ("far", wire.kubeconfig.as_str()),
        ("left", direct.as_str()),
        ("five", direct.as_str()),
        ("three", direct.as_str()),
        ("trio", direct.as_str()),
        ("etcd", direct.as_str()),
    ] {
        write_cluster(stage, name, kubeconfig).await?;
        for spec in racks().iter().filter(|spec| spec.name == name) {
            for host in &spec.hosts {
                let role = match name {
                    "far" | "left" => None,
                    "etcd" => Some(ETCD_ROLE),
                    _ => Some(CONTROL_PLANE),
                };
                move_machine(stage, host, name, role).await?;
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

async fn move_machine(stage: &Stage, host: &str, cluster: &str, role: Option<&str>) -> Result<()> {
    let mut labels = json!({ CLUSTER_LABEL: cluster });
    if let Some(role) = role {
        labels[role] = json!("true");
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
