//! An engine for tests, with a fake API server and an index with the same objects.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use prometheus_client::registry::Registry;
use rackhand_api::names::{POWER_REMEDIATION_FINALIZER, conditions::HEALTH_CHECK_SUCCEEDED};
use rackhand_core::remediation::{
    Command, CommandTaken, HostRef, Mode, Observation, OffEvidence, OffProof, PinnedNode,
    PowerReading, PowerState, Reason, State, Step, TaintOwner, Turn,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Dependencies, act,
    engine::{ReconcileError, RemediationLoop},
    observe::{Observed, power_policy::ObservedPolicies},
    record::{
        displayed_state,
        remediation_state::{load_state, write_record},
    },
};
use crate::{
    agents::{AgentMetrics, AgentStatus, Agents, fixture::unseen_certificate},
    clusters::{NodeComparisons, Workloads, sync::Syncs},
    config::Config,
    history::Histories,
    leader::{
        LeaderMetrics,
        events::Events,
        fixture::leader,
        writer::{Lane, Writer},
    },
    remediation::RemediationMetrics,
    store::{
        fake_api::Objects,
        index::{Connection, Index},
        object::{Key, Kind, Served},
        remediation::RemediationId,
    },
};

pub(crate) const NODE: &str = "/api/v1/nodes/n1";
pub(crate) const REMEDIATION: &str =
    "/apis/rackhand.dev/v1alpha1/namespaces/ns/powerremediations/m1";
/// Of the remediation at [`REMEDIATION`].
pub(crate) const STATE: &str = "/apis/rackhand.dev/v1alpha1/remediationstates/uid-r1";
pub(crate) const HOST: &str = "/apis/metal3.io/v1alpha1/namespaces/ns/baremetalhosts/h1";
pub(crate) const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta1/namespaces/ns/machines/m1";
pub(crate) const METAL3_MACHINE: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/ns/metal3machines/m1";
pub(crate) const CHECK: &str =
    "/apis/cluster.x-k8s.io/v1beta1/namespaces/ns/machinehealthchecks/check";
pub(crate) const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta1/namespaces/ns/clusters/c";

/// API version and path of each kind.
const KINDS: [(Kind, &str, &str); 8] = [
    (Kind::PowerRemediation, "v1alpha1", REMEDIATION),
    (Kind::RemediationState, "v1alpha1", STATE),
    (Kind::BareMetalHost, "v1alpha1", HOST),
    (Kind::Machine, "v1beta1", MACHINE),
    (Kind::Metal3Machine, "v1beta1", METAL3_MACHINE),
    (Kind::Cluster, "v1beta1", CLUSTER),
    (Kind::Metal3Remediation, "v1beta1", ""),
    (Kind::MachineHealthCheck, "v1beta1", ""),
];

/// A cluster with one Machine on one held host, and its remediation.
pub(crate) struct Fixture {
    pub(crate) objects: Objects,
    pub(crate) context: Arc<Context>,
    pub(crate) index: Arc<Index>,
    pub(crate) served: Arc<Served>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) writer: Writer,
    client: Client,
}

/// The parts of an engine one by one.
impl RemediationLoop {
    pub(crate) async fn loaded(&mut self) -> bool {
        displayed_state::load(&self.recording, &mut self.memory).is_ok()
            && load_state(&self.recording, &mut self.memory).await.is_ok()
    }

    pub(crate) async fn observe(
        &mut self,
        now: Timestamp,
    ) -> Result<Result<Observed, Reason>, ReconcileError> {
        self.observer
            .observe(&self.observing, &mut self.memory, now)
            .await
    }

    pub(crate) async fn act(
        &mut self,
        command: &Command,
        o: &Observation,
    ) -> Result<(), ReconcileError> {
        let done = act::carry_out(&self.acting, &mut self.memory, command, o).await;
        if done.is_err() {
            self.memory.shell.turned(Turn::Failed, Timestamp::now());
        }
        done.map(drop)
    }

    pub(crate) async fn record(
        &mut self,
        state: &State,
        reason: &Reason,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let recorder = &mut self.recorder;
        recorder
            .record(
                &self.recording,
                &mut self.memory,
                Some(state),
                reason,
                None,
                now,
            )
            .await
    }

    pub(crate) async fn read_policies(
        &mut self,
        observed: &ObservedPolicies,
    ) -> Result<bool, Reason> {
        self.observer.read_policies(&self.observing, observed).await
    }

    pub(crate) async fn write_record(&mut self, state: &State) -> Result<(), ReconcileError> {
        write_record(&self.recording, &mut self.memory, state).await
    }
}

/// The identity of the leader.
pub(crate) const IDENTITY: &str = "controller-1";

pub(crate) fn cluster() -> Key {
    Key::new("ns", "c")
}

fn of(kind: Kind, version: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("{}/{version}", kind.group()), "kind": kind.kind(),
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}") },
    });
    for (field, value) in rest.as_object().unwrap() {
        if field == "metadata" {
            for (inner, value) in value.as_object().unwrap() {
                object["metadata"][inner.as_str()] = value.clone();
            }
        } else {
            object[field.as_str()] = value.clone();
        }
    }
    object
}

/// A RemediationState with this state.
pub(crate) fn recorded(state: &Value) -> Value {
    json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "RemediationState",
        "metadata": { "name": "uid-r1", "uid": "uid-of-state" },
        "spec": {
            "kind": "PowerRemediation", "namespace": "ns", "name": "m1", "sequence": 1, "state": state,
        },
    })
}

pub(crate) fn node(name: &str, ready: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": labels },
        "spec": {},
        "status": {
            "conditions": [{ "type": "Ready", "status": ready }],
            "nodeInfo": { "bootID": "b1", "systemUUID": "s1" },
        },
    })
}

/// A reading in which the BMC reports off.
pub(crate) fn reading(at: Timestamp, since_start_ms: u64) -> PowerReading {
    PowerReading {
        state: PowerState::Off,
        raw: "Off".into(),
        protocol: "Redfish".into(),
        identity: String::new(),
        at,
        since_start_ms,
        bmc: "192.0.2.1".into(),
    }
}

/// A state in which the host is off and nothing prevents the taint.
pub(crate) fn state(step: Step) -> State {
    let now = Timestamp::now();
    let mut state = State::new(now);
    state.step = step;
    if step == Step::Pending {
        return state;
    }
    state.mode = Mode::Cooperative;
    state.host = Some(HostRef {
        rack: "r1".into(),
        host: "h1".into(),
        bmh: Some("ns/h1".into()),
        bmc: "192.0.2.1".into(),
    });
    state.attempt.node = Some(PinnedNode {
        name: "n1".into(),
        uid: "uid-n1".into(),
        boot_id: "b1".into(),
        system_uuid: "s1".into(),
        unproven: false,
    });
    state.attempt.off = Some(OffEvidence::Bmc {
        at: now,
        readings: vec![reading(now, 1000), reading(now, 6000)],
        taken: CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
            updates_unknown: None,
        },
    });
    state.attempt.taint = Some(TaintOwner::Us);
    state
}

/// Paths of Machine and Node of another control-plane member.
pub(crate) fn member_paths(number: &str) -> (String, String) {
    let swap = |path: &str, letter: char| {
        let base = path.rsplit_once('/').unwrap().0;
        format!("{base}/{letter}{number}")
    };
    (swap(MACHINE, 'm'), swap(NODE, 'n'))
}

impl Fixture {
    pub(crate) async fn new(state: &State) -> Self {
        let objects = Objects::default();
        let uid = "uid-r1";
        let cursor = serde_json::to_value(state).unwrap();
        objects.put(
            REMEDIATION,
            of(
                Kind::PowerRemediation,
                "v1alpha1",
                "m1",
                &json!({
                    "metadata": {
                        "uid": uid, "labels": { "cluster.x-k8s.io/cluster-name": "c" },
                        "finalizers": [POWER_REMEDIATION_FINALIZER],
                        "ownerReferences": [{
                            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                            "name": "m1", "uid": "uid-m1",
                        }],
                    },
                    "spec": {}, "status": { "cursor": cursor.clone() },
                }),
            ),
        );
        objects.put(STATE, recorded(&cursor));
        objects.put(
            MACHINE,
            of(
                Kind::Machine,
                "v1beta1",
                "m1",
                &json!({
                    "metadata": { "labels": { "pool": "a", "cluster.x-k8s.io/cluster-name": "c" } },
                    "spec": {
                        "clusterName": "c",
                        "infrastructureRef": {
                            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                            "kind": "Metal3Machine", "name": "m1",
                        },
                    },
                    "status": {
                        "nodeRef": { "name": "n1" },
                        "conditions": [{
                            "type": HEALTH_CHECK_SUCCEEDED, "status": "False",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }],
                    },
                }),
            ),
        );
        objects.put(
            METAL3_MACHINE,
            of(
                Kind::Metal3Machine,
                "v1beta1",
                "m1",
                &json!({
                    "metadata": { "annotations": { "metal3.io/BareMetalHost": "ns/h1" } },
                }),
            ),
        );
        objects.put(
            HOST,
            of(
                Kind::BareMetalHost,
                "v1alpha1",
                "h1",
                &json!({
                    "metadata": { "annotations": {
                        rackhand_api::names::hold_annotation(uid): "{\"mode\":\"hard\"}",
                    }},
                    "spec": { "online": true, "bmc": { "address": "redfish://192.0.2.1" } },
                    "status": { "provisioning": { "state": "provisioned" } },
                }),
            ),
        );
        objects.put(
            CLUSTER,
            of(Kind::Cluster, "v1beta1", "c", &json!({ "spec": {} })),
        );
        objects.put(NODE, node("n1", "Unknown", &json!({})));
        let client = objects.client();
        let (leader, _) = leader(&client).await;
        let mut registry = Registry::default();
        let metrics = LeaderMetrics::register(&mut registry);
        let (writer, writing) = Writer::new(&leader, metrics, Lane::Remediation);
        tokio::spawn(writing);
        let (events, _) = Events::new(client.clone(), &leader, writer.clone());
        let index = Arc::new(Index::new(Vec::new()));
        let served = Arc::new(Served::default());
        for (kind, version, _) in KINDS {
            let gvk = GroupVersionKind::gvk(kind.group(), version, kind.kind());
            served.put(kind, ApiResource::from_gvk(&gvk));
        }
        let (status, _) = AgentStatus::new(client.clone(), served.clone(), writer.clone());
        let (agents, _) = Agents::new(
            (leader, "election".into()),
            (
                unseen_certificate(),
                Arc::new(rackhand_transport::connect_lazy),
            ),
            index.clone(),
            AgentMetrics::register(&mut registry),
            status,
            events.clone(),
        );
        let workloads = Arc::new(Workloads::default());
        workloads.connect(&cluster(), client.clone());
        index.set_connection(&cluster(), Connection::Up);
        let (syncs, reading) = Syncs::new(
            client.clone(),
            served.clone(),
            workloads.clone(),
            index.clone(),
            CancellationToken::new(),
        );
        tokio::spawn(reading);
        let live = Arc::<super::LiveFacts>::default();
        let histories = Histories::new(
            (client.clone(), served.clone()),
            index.clone(),
            writer.on(Lane::Histories),
            None,
            live.history.clone(),
        );
        let config = Config {
            namespace: Some("ns".into()),
            ..Config::default()
        };
        let metrics = Arc::new(RemediationMetrics::register(&mut registry));
        let context = Dependencies {
            config: &config,
            client: &client,
            identity: IDENTITY,
            index: &index,
            served: &served,
            metrics,
            live: &live,
            workloads: &workloads,
            agents: &agents,
            writer: &writer,
            events: &events,
            active: &Arc::default(),
            histories: &Arc::new(histories),
            comparisons: NodeComparisons::new(syncs),
            leases: Arc::default(),
        }
        .context();
        let this = Self {
            objects,
            context,
            index,
            served,
            workloads,
            client,
            writer,
        };
        for (kind, _, path) in KINDS.iter().filter(|(_, _, path)| !path.is_empty()) {
            this.watch(*kind, path);
        }
        this
    }

    /// A remediation that names a Node of the management cluster and no Machine; the Node names its host.
    pub(crate) async fn by_node() -> Self {
        let this = Self::new(&state(Step::Pending)).await;
        let mut remediation = this.objects.get(REMEDIATION).unwrap();
        remediation["metadata"]["ownerReferences"] = json!([]);
        remediation["metadata"]["annotations"] =
            json!({ "remediation.medik8s.io/node-name": "n1" });
        this.objects.put(REMEDIATION, remediation);
        this.watch(Kind::PowerRemediation, REMEDIATION);
        let labels = json!({ "metadata": { "labels": { "metal3.io/uuid": "uid-h1" } } });
        this.objects.change(NODE, &labels);
        let client = this.client.clone();
        this.workloads.connect(&Key::local(), client);
        this.index.set_connection(&Key::local(), Connection::Up);
        this
    }

    /// Adds a check that selects the Machine to the API server, but not to the index.
    pub(crate) fn add_check(&self) {
        let check = json!({ "spec": {
            "clusterName": "c", "selector": { "matchLabels": { "pool": "a" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "5m" }],
        }});
        let check = of(Kind::MachineHealthCheck, "v1beta1", "check", &check);
        self.objects.put(CHECK, check);
    }

    /// Makes the Machine one of three control-plane members; the others are healthy.
    pub(crate) fn control_plane(&self) {
        let role = json!({ "metadata": { "labels": { "cluster.x-k8s.io/control-plane": "" } } });
        self.objects.change(MACHINE, &role);
        self.watch(Kind::Machine, MACHINE);
        for number in ["2", "3"] {
            let (machine_path, node_path) = member_paths(number);
            let mut machine = self.objects.get(MACHINE).unwrap();
            machine["metadata"]["name"] = format!("m{number}").into();
            machine["metadata"]["uid"] = format!("uid-m{number}").into();
            machine["status"] = json!({
                "nodeRef": { "name": format!("n{number}") },
                "conditions": [{
                    "type": "EtcdMemberHealthy", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            });
            let machine = self.objects.put(&machine_path, machine);
            let machine = serde_json::from_value(machine).unwrap();
            self.index.apply(Kind::Machine, machine);
            let node = node(&format!("n{number}"), "True", &json!({}));
            let node = serde_json::from_value(self.objects.put(&node_path, node)).unwrap();
            self.index.apply_node(&cluster(), node);
        }
    }

    /// Applies the object at this path to the index, like a watch.
    pub(crate) fn watch(&self, kind: Kind, path: &str) {
        let object = self.objects.get(path).unwrap();
        let object = serde_json::from_value(object).unwrap();
        self.index.apply(kind, object);
    }

    /// Changes an object as another client, and applies it to the index.
    pub(crate) fn touch(&self, path: &str) {
        let touched = json!({ "metadata": { "annotations": { "touched": "yes" } } });
        let object = self.objects.change(path, &touched);
        match KINDS.iter().find(|(_, _, of)| *of == path) {
            Some((kind, _, _)) => self.watch(*kind, path),
            None => {
                let node = serde_json::from_value(object).unwrap();
                self.index.apply_node(&cluster(), node);
            }
        }
    }

    pub(crate) fn engine(&self) -> RemediationLoop {
        let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
        RemediationLoop::new(
            &self.context,
            id,
            "uid-r1".into(),
            Arc::default(),
            Arc::default(),
        )
    }
}
