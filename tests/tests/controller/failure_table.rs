//! The failure table of the specification (docs/reference/failures.md) on a real control plane.
//!
//! | Row | Shown in |
//! |---|---|
//! | BMC unreachable, or it refuses the password, at power-off | `fencing`: silent, refused, persons_word |
//! | BMC answers On after the off command | here: `still_on`; for good: `fencing`, ignoring |
//! | BMC says PoweringOff for minutes | `fencing`: stuck |
//! | BMC says Off but the Node's Lease keeps moving | `fencing`: lie, swapped |
//! | Host turns on while tainted | `fencing`: switched_on; `cooperative`: forced |
//! | Workload API down | here: `workload_down` |
//! | nodeRef empty | here: `never_joined` |
//! | Node object deleted | here: `node_deleted` |
//! | Drain blocked | here: `drain_blocked` |
//! | Node healthy before the off was sent | `input`: recovered_early; `fencing`: recovered_agentless |
//! | Remediation deleted after the off | `fencing`: withdrawn_* |
//! | online=false midway | `cooperative`: offline |
//! | BareMetalHost paused, detached, servicing, not provisioned | `cooperative`: paused, detached, let_go, servicing, unprovisioned |
//! | Foreign reboot key | `cooperative`: foreign, plain |
//! | Our hold key removed by others | here: `hold_removed`; by an old operator: `cooperative`, deleted |
//! | disablePowerOff | `cooperative`: unswitchable |
//! | Two health checks on one Machine | here: `two_checks` |
//! | Two control-plane members | here: `one_member_at_a_time`, `member_paused`, `quorum_first` |
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
use members::{member_paused, one_member_at_a_time, quorum_first};
use nodes::{drain_blocked, never_joined, node_deleted, two_checks, workload_down};
use power::{clocks_ahead_and_behind, hold_removed, off_again, on_refused, one_bmc, still_on};
use world::{CLUSTER_LABEL, CONTROL_PLANE, World};

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
        by_hand("lost", 2, HostLink::Managed),
        by_hand("name", 1, HostLink::Managed),
        by_hand("left", 1, HostLink::Managed),
        by_hand("five", 5, HostLink::Inventory),
        by_hand("three", 3, HostLink::Inventory),
        by_hand("trio", 3, HostLink::Inventory),
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
    on_after_the_off_command_is_answered_again => still_on,
    a_workload_api_that_is_down_defers_the_taint => workload_down,
    a_machine_that_never_joined_gets_a_plain_cycle => never_joined,
    a_node_that_was_deleted_leaves_its_pods_behind => node_deleted,
    a_blocked_drain_names_what_blocks_it => drain_blocked,
    a_hold_that_a_person_removed_comes_back => hold_removed,
    two_checks_of_one_machine_are_one_remediation => two_checks,
    f6_one_member_of_a_control_plane_at_a_time => one_member_at_a_time,
    f6_a_member_that_is_paused_holds_up_no_other => member_paused,
    f6_etcd_keeps_its_quorum => quorum_first,
    two_hosts_with_one_bmc_take_turns_and_one_is_wrong => one_bmc,
    a_power_on_that_is_refused_for_a_while_is_repeated => on_refused,
    a_host_that_is_switched_off_while_it_boots_is_switched_on_again => off_again,
    clocks_ahead_and_behind_change_nothing => clocks_ahead_and_behind,
    f8_a_person_is_heard_when_the_credentials_are_gone => secret_deleted,
    f9_a_request_ends_cleanly_when_its_host_is_gone => host_deleted,
    f4_a_host_stays_off_until_it_is_drained_although_its_cluster_object_is_removed => cluster_removed,
    f5_a_node_of_another_machine_is_not_tainted => node_replaced,
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
    ] {
        write_cluster(stage, name, kubeconfig).await?;
        for spec in racks().iter().filter(|spec| spec.name == name) {
            for host in &spec.hosts {
                let member = !["far", "left"].contains(&name);
                move_machine(stage, host, name, member).await?;
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
