//! Health checks act on the fleet as it is: Nodes that have just joined get no verdict (F12), and a
//! limit that the fleet exceeds is never exceeded by what is handed over, however the fleet comes to be
//! read (F13).
//!
//! `RACKHAND_FRESH_NODES` is the number of joining Machines of each mode, `RACKHAND_LIMIT_RUNS` the
//! number of rounds over a limit; a few by default, 500 and 200 for a soak.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher::{self, Event, watcher},
};
use parking_lot::Mutex;
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{NAMESPACE, Stage, StageConfig, wait_until},
};
use serde_json::json;

const CONTROLLER: &str = "controller-0";
const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta1";
const OPENSHIFT: &str = "machine.openshift.io/v1beta1";
/// How long all machines together may take, however busy this machine is.
const PATIENCE: Duration = Duration::from_secs(300);
const AT_ONCE: usize = 32;

fn number(variable: &str, default: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.and_then(|n| n.parse().ok()).unwrap_or(default)
}

async fn begin(dir: &std::path::Path) -> Result<Stage> {
    let arguments = ["--health-checks=all"];
    let stage = Stage::start(dir, StageConfig::crowd(0, 0, &arguments)).await?;
    stage.install_openshift().await?;
    Ok(stage)
}

/// How a check hands a machine over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Cluster API: a request from a template.
    Template,
    /// Cluster API: the Machine's owner.
    Owner,
    /// OpenShift: a request from a template.
    OpenShift,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Template, Self::Owner, Self::OpenShift];

    fn api_version(self) -> &'static str {
        match self {
            Self::Template | Self::Owner => CLUSTER_API,
            Self::OpenShift => OPENSHIFT,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Template => "t",
            Self::Owner => "w",
            Self::OpenShift => "o",
        }
    }

    fn machine(self, i: usize) -> String {
        format!("{}-{i:03}", self.prefix())
    }

    fn machines(self, stage: &Stage) -> Api<DynamicObject> {
        match self {
            Self::Template | Self::Owner => stage.machines(),
            Self::OpenShift => stage.openshift_machines(),
        }
    }

    fn checks(self, stage: &Stage) -> Api<DynamicObject> {
        match self {
            Self::Template | Self::Owner => stage.checks(),
            Self::OpenShift => stage.openshift_checks(),
        }
    }

    async fn make_check(self, stage: &Stage, most: &str) -> Result<()> {
        let name = self.prefix();
        if self != Self::OpenShift {
            let mut text = stage.health_check_of(name, name, most);
            if self == Self::Owner {
                let end = text.find("  remediationTemplate:").unwrap_or(text.len());
                text.truncate(end);
            }
            return apply_yaml(&stage.client, &text).await;
        }
        let rule = |status: &str| json!({ "type": "Ready", "status": status, "timeout": "1s" });
        let check = json!({
            "metadata": { "name": name },
            "spec": {
                "maxUnhealthy": most,
                "nodeStartupTimeout": "10m",
                "selector": { "matchLabels": { "nodepool": name } },
                "unhealthyConditions": [rule("Unknown"), rule("False")],
                "remediationTemplate": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3RemediationTemplate",
                    "name": "worker-remediation-request",
                },
            },
        });
        stage.apply_openshift("MachineHealthCheck", check).await?;
        Ok(())
    }

    /// The Machine without a Node yet.
    async fn make_machine(self, stage: &Stage, name: &str) -> Result<()> {
        let mut machine = json!({
            "apiVersion": self.api_version(),
            "kind": "Machine",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": { "nodepool": self.prefix(), "cluster.x-k8s.io/cluster-name": "demo" },
            },
            "spec": {},
        });
        if self != Self::OpenShift {
            machine["spec"] = json!({
                "clusterName": "demo",
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": name,
                    "namespace": NAMESPACE,
                },
            });
        }
        let machine: DynamicObject = serde_json::from_value(machine)?;
        self.machines(stage)
            .create(&PostParams::default(), &machine)
            .await?;
        Ok(())
    }

    /// Its Node has joined.
    async fn join(self, stage: &Stage, machine: &str, node: &str) -> Result<()> {
        let status = json!({ "status": {
            "phase": "Running",
            "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": node },
            "lastUpdated": "2026-01-01T00:00:00Z",
        }});
        let params = PatchParams::default();
        self.machines(stage)
            .patch_status(machine, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// The machines that were handed over.
    async fn handed_over(self, stage: &Stage) -> Result<Vec<String>> {
        let all = ListParams::default();
        if self != Self::Owner {
            let found = stage.remediations().list(&all).await?;
            return Ok(found.iter().map(ResourceExt::name_any).collect());
        }
        let found = stage.machines().list(&all).await?;
        let told = found.iter().filter(|m| is(m, "OwnerRemediated", "False"));
        Ok(told.map(ResourceExt::name_any).collect())
    }
}

/// Whether an object carries a condition with this status in the list that it shows first.
fn is(object: &DynamicObject, type_: &str, status: &str) -> bool {
    let list = object.data["status"]["conditions"].as_array();
    let mut list = list.into_iter().flatten();
    list.any(|c| c["type"] == type_ && c["status"] == status)
}

async fn set_node(stage: &Stage, name: &str, ready: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let status = json!({ "status": { "conditions": [{
        "type": "Ready",
        "status": if ready { "True" } else { "False" },
        "reason": "Test",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

async fn make_node(stage: &Stage, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    set_node(stage, name, true).await
}

async fn each<F, Fut>(count: usize, act: F) -> Result<()>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    stream::iter((0..count).map(act))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}

/// Threads that keep every core busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..cores {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Notes each version of a Machine that carries a verdict against it.
async fn witness(machines: Api<DynamicObject>, against: Arc<Mutex<Vec<String>>>) {
    let mut events = pin!(watcher(machines, watcher::Config::default()));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event
            && (is(&object, "HealthCheckSucceeded", "False")
                || is(&object, "OwnerRemediated", "False"))
        {
            let conditions = &object.data["status"]["conditions"];
            let words = format!("{}: {conditions}", object.name_any());
            against.lock().push(words);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_fresh_nodes_get_no_verdict_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = fresh_nodes(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn fresh_nodes(stage: &Stage) -> Result<()> {
    let count = number("RACKHAND_FRESH_NODES", 60);
    let against = Arc::<Mutex<Vec<String>>>::default();
    let watching = tokio::spawn(witness(stage.machines(), against.clone()));
    stage.start_controller(CONTROLLER).await?;
    for mode in Mode::ALL {
        mode.make_check(stage, "100%").await?;
    }
    let load = Load::start();
    each(count, |i| async move {
        for mode in Mode::ALL {
            let name = mode.machine(i);
            mode.make_machine(stage, &name).await?;
            make_node(stage, &name).await?;
            mode.join(stage, &name, &name).await?;
        }
        Ok(())
    })
    .await?;
    for mode in Mode::ALL {
        judged(stage, mode, count, count).await?;
    }
    drop(load);
    let against = against.lock().clone();
    watching.abort();
    ensure!(
        against.is_empty(),
        "verdicts against fresh Nodes: {against:#?}"
    );
    let requested = stage.remediations().list(&ListParams::default()).await?;
    let requested: Vec<String> = requested.iter().map(ResourceExt::name_any).collect();
    ensure!(
        requested.is_empty(),
        "remediations of fresh Nodes: {requested:?}"
    );
    // It judges all the same: a Node that is deleted is told of.
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let gone = Mode::Template.machine(0);
    nodes.delete(&gone, &DeleteParams::default()).await?;
    wait_until("the deleted Node is told of", PATIENCE, || async {
        let machine = stage.machines().get(&gone).await?;
        let conditions = &machine.data["status"];
        Ok(if conditions.to_string().contains("has been deleted") {
            Ok(())
        } else {
            Err(conditions.to_string())
        })
    })
    .await
}

/// Waits until a check shows these numbers.
async fn judged(stage: &Stage, mode: Mode, expected: usize, healthy: usize) -> Result<()> {
    let what = format!("{mode:?}: {healthy} of {expected} healthy");
    wait_until(&what, PATIENCE, || async {
        let check = mode.checks(stage).get(mode.prefix()).await?;
        let status = &check.data["status"];
        let shown = status["expectedMachines"] == expected
            && status["currentHealthy"].as_u64().unwrap_or(0) == healthy as u64;
        Ok(if shown {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

const FLEET: usize = 200;
const FAILED: usize = 81;
/// 40 % of the fleet.
const MOST: usize = 80;
/// A burst that this machine takes longer than this to write is several bursts.
const BURST: Duration = Duration::from_secs(1);

/// What is there first.
#[derive(Debug, Clone, Copy)]
enum Order {
    ObjectsFirst,
    CheckFirst,
    /// The controller is killed and started again while the check is being evaluated.
    Restarted,
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_of_81_failed_of_200_over_40_percent_nobody_is_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = limits(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn limits(stage: &Stage) -> Result<()> {
    stage.start_controller(CONTROLLER).await?;
    // The template of all of them.
    Mode::Template.make_check(stage, "0").await?;
    remove_check(stage, Mode::Template).await?;
    each(FLEET, |i| async move {
        let node = node_name(i);
        make_node(stage, &node).await?;
        for mode in Mode::ALL {
            let machine = mode.machine(i);
            mode.make_machine(stage, &machine).await?;
            mode.join(stage, &machine, &node).await?;
        }
        Ok(())
    })
    .await?;
    let orders = [Order::ObjectsFirst, Order::CheckFirst, Order::Restarted];
    for run in 0..number("RACKHAND_LIMIT_RUNS", 1) {
        for mode in Mode::ALL {
            for order in orders {
                let began = Instant::now();
                if let Err(error) = round(stage, mode, order).await {
                    bail!("run {run}, {mode:?}, {order:?}: {error:#}");
                }
                println!("    run {run}, {mode:?}, {order:?}: {:?}", began.elapsed());
            }
        }
    }
    Ok(())
}

fn node_name(i: usize) -> String {
    format!("node-{i:03}")
}

async fn fail(stage: &Stage) -> Result<Duration> {
    let began = Instant::now();
    each(FAILED, |i| async move {
        set_node(stage, &node_name(i), false).await
    })
    .await?;
    Ok(began.elapsed())
}

async fn recover(stage: &Stage) -> Result<()> {
    each(FAILED, |i| async move {
        set_node(stage, &node_name(i), true).await
    })
    .await
}

async fn remove_check(stage: &Stage, mode: Mode) -> Result<()> {
    let checks = mode.checks(stage);
    checks
        .delete(mode.prefix(), &DeleteParams::default())
        .await?;
    wait_until("the check is gone", PATIENCE, || async {
        let found = checks.get_opt(mode.prefix()).await?;
        Ok(found.map_or(Ok(()), |_| Err("it is there".to_owned())))
    })
    .await
}

/// 81 of 200 fail: nobody may be handed over. One recovers: the other 80 are.
async fn round(stage: &Stage, mode: Mode, order: Order) -> Result<()> {
    match order {
        Order::ObjectsFirst => {
            fail(stage).await?;
            mode.make_check(stage, "40%").await?;
        }
        Order::CheckFirst => {
            mode.make_check(stage, "40%").await?;
            judged(stage, mode, FLEET, FLEET).await?;
            let took = fail(stage).await?;
            if took > BURST {
                println!("    the burst took {took:?} to write: not looked at");
                recover(stage).await?;
                settled(stage, mode).await?;
                return remove_check(stage, mode).await;
            }
        }
        Order::Restarted => {
            fail(stage).await?;
            mode.make_check(stage, "40%").await?;
            stage.kill_controller(CONTROLLER)?;
            stage.start_controller(CONTROLLER).await?;
        }
    }
    judged(stage, mode, FLEET, FLEET - FAILED).await?;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.is_empty(),
        "{} over the limit: {handed:?}",
        handed.len()
    );
    // The first step of what would be wrong comes within the settling time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.is_empty(),
        "{} over the limit: {handed:?}",
        handed.len()
    );

    set_node(stage, &node_name(0), true).await?;
    wait_until("as many as the limit permits", PATIENCE, || async {
        let handed = mode.handed_over(stage).await?.len();
        Ok(if handed == MOST {
            Ok(())
        } else {
            Err(format!("{handed}"))
        })
    })
    .await?;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.len() == MOST && !handed.contains(&mode.machine(0)),
        "{handed:?}"
    );
    recover(stage).await?;
    settled(stage, mode).await?;
    remove_check(stage, mode).await
}

/// Nobody is handed over any more: what the check did it has taken back.
async fn settled(stage: &Stage, mode: Mode) -> Result<()> {
    wait_until("all is taken back", PATIENCE, || async {
        let handed = mode.handed_over(stage).await?;
        Ok(match handed.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} are left, {first}", handed.len())),
        })
    })
    .await
}
