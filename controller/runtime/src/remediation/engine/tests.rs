use rackhand_api::names;
use rackhand_core::remediation::{
    AgentView, Command, HostView, Mode, NodeFacts, Observation, OtherNodes, PowerView, Reason,
    RemediationOutcome, WorkloadView,
};
use serde_json::{Value, json};

use super::{
    super::{
        fixture::{
            CHECK, CLUSTER, Fixture, HOST, MACHINE, NODE, REMEDIATION, STATE, cluster,
            member_paths, reading, state,
        },
        observe::power_policy::{ObservedPolicies, PolicyVersions},
    },
    *,
};
use crate::store::{
    index::Connection,
    log_capture::LogCapture,
    object::{Key, Kind},
};

/// The BMC has just reported off.
fn off_now() -> PowerView {
    let now = crate::store::clock::monotonic_now();
    PowerView {
        asked: now,
        answered: now,
        lease: None,
        result: Ok(reading(now, 8000)),
    }
}

async fn observed(engine: &mut RemediationLoop) -> Observation {
    assert!(engine.loaded().await);
    let now = Timestamp::now();
    // Boxed, because the futures of the callers would contain it several times.
    match Box::pin(engine.observe(now)).await {
        Ok(Ok(seen)) => match Box::pin(engine.decide(seen, now)).await {
            Ok(Decided::Step(decided)) => decided.0,
            Ok(Decided::Again) => Box::pin(observed(engine)).await,
            Ok(Decided::AwaitTurn(_)) | Err(_) => panic!("nothing was decided"),
        },
        Ok(Err(reason)) => panic!("{reason}"),
        Err(_) => panic!("nothing was observed"),
    }
}

fn is_conflict(acted: &Result<(), ReconcileError>) -> bool {
    matches!(acted, Err(ReconcileError::Failed(error)) if error.is_conflict())
}

/// Checks that a command conflicts after another client has changed the object, and succeeds after a new
/// observation.
async fn guards(step: Step, command: Command, path: &str) {
    Box::pin(is_guarded(step, command, path)).await;
}

async fn is_guarded(step: Step, command: Command, path: &str) {
    let fixture = Fixture::new(&state(step)).await;
    let mut engine = fixture.engine();
    let o = Box::pin(observed(&mut engine)).await;
    fixture.touch(path);
    let there = fixture.objects.get(path);
    engine.memory.shell.power = Some(off_now());
    let acted = Box::pin(engine.act(&command, &o)).await;
    assert!(is_conflict(&acted), "{command:?} did not notice the change");
    assert_eq!(fixture.objects.get(path), there, "{command:?}");
    // After a new observation the command is carried out.
    let o = Box::pin(observed(&mut engine)).await;
    engine.memory.shell.power = Some(off_now());
    let acted = Box::pin(engine.act(&command, &o)).await;
    assert!(acted.is_ok(), "{command:?} is never carried out");
    assert_ne!(fixture.objects.get(path), there, "{command:?}");
}

#[tokio::test]
async fn f7_paused_leader_does_not_taint_recovered_node() {
    let fixture = Fixture::new(&state(Step::Tainting)).await;
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    // Another leader finishes meanwhile, and this one resumes.
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    fixture.objects.change(NODE, &ready);
    engine.memory.shell.power = Some(off_now());
    let acted = engine.act(&Command::AddTaint, &o).await;
    assert!(is_conflict(&acted));
    let node = fixture.objects.get(NODE).unwrap();
    assert_eq!(node.pointer("/spec/taints"), None, "{node}");
}

#[tokio::test]
async fn f7_patches_carry_observed_resource_version() {
    guards(Step::Tainting, Command::AddTaint, NODE).await;
    guards(Step::PoweringOn, Command::RemoveHold, HOST).await;
    guards(Step::Holding, Command::AddHold, HOST).await;
    guards(Step::Tainting, Command::BackUpNode, STATE).await;
    guards(Step::Escalated, Command::Escalate { retire: true }, MACHINE).await;
    guards(Step::Escalated, Command::Escalate { retire: true }, HOST).await;
    let outcome = RemediationOutcome::Succeeded;
    guards(
        Step::Succeeded,
        Command::RemoveFinalizer(outcome),
        REMEDIATION,
    )
    .await;
}

#[tokio::test]
async fn f7_hold_of_former_leader_conflicts_after_withdrawal() {
    let fixture = Fixture::new(&state(Step::Holding)).await;
    let hold = names::hold_annotation("uid-r1");
    let bare = json!({ "metadata": { "annotations": { hold: null } } });
    fixture.objects.change(HOST, &bare);
    fixture.watch(Kind::BareMetalHost, HOST);
    let annotations = || {
        let host = fixture.objects.get(HOST).unwrap();
        host["metadata"]["annotations"].clone()
    };
    let before = annotations();
    let (mut former, mut leader) = (fixture.engine(), fixture.engine());
    let seen = observed(&mut former).await;
    let o = observed(&mut leader).await;
    assert!(leader.act(&Command::RemoveHold, &o).await.is_ok());
    assert_eq!(annotations(), before, "nothing of this remediation is left");
    let late = former.act(&Command::AddHold, &seen).await;
    assert!(is_conflict(&late));
    assert_eq!(annotations(), before);
}

#[tokio::test]
async fn f7_node_deletion_carries_observed_resource_version() {
    let uid = "uid-n1".to_owned();
    guards(Step::Tainting, Command::DeleteNode { uid }, NODE).await;
}

#[tokio::test]
async fn f7_state_write_carries_observed_resource_version() {
    let fixture = Fixture::new(&state(Step::ConfirmingOff)).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    fixture.touch(REMEDIATION);
    let (next, now) = (state(Step::Tainting), Timestamp::now());
    let written = engine.record(&next, &Reason::Tainting, now).await;
    assert!(is_conflict(&written));
    let there = fixture.objects.get(REMEDIATION).unwrap();
    let step = there.pointer("/status/cursor/step").and_then(Value::as_str);
    assert_eq!(step, Some("ConfirmingOff"));
}

#[tokio::test]
async fn f12_missing_machine_host_and_cluster_are_read_live() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let paused = json!({ "spec": { "paused": true } });
    fixture.objects.change(CLUSTER, &paused);
    let index = &fixture.index;
    index.delete(Kind::Machine, &Key::new("ns", "m1"));
    index.delete(Kind::BareMetalHost, &Key::new("ns", "h1"));
    index.delete(Kind::Cluster, &cluster());
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(o.machine.is_some(), "the Machine exists");
    assert!(
        o.bmh.is_some_and(|bmh| bmh.our_hold),
        "the host exists and is held"
    );
    assert!(o.object.paused, "the Cluster exists and is paused");
}

#[tokio::test]
async fn f12_check_missing_from_index_is_read_live() {
    let fixture = Fixture::new(&state(Step::Restoring)).await;
    let mut engine = fixture.engine();
    let judged = |o: &Observation| o.machine.as_ref().is_some_and(|m| !m.not_checked);
    assert!(!judged(&observed(&mut engine).await));
    fixture.add_check();
    assert!(judged(&observed(&mut engine).await));
}

#[tokio::test]
async fn failed_health_condition_counts_only_while_active_check_selects_machine() {
    let fixture = Fixture::new(&state(Step::Restoring)).await;
    let mut engine = fixture.engine();
    let believed = |o: &Observation| {
        let machine = o.machine.as_ref().unwrap();
        assert_eq!(machine.health_check_succeeded, Some(false));
        !machine.not_checked
    };
    for (change, is_live) in [
        (json!({}), true),
        (
            json!({ "spec": { "selector": { "matchLabels": { "pool": "b" } } } }),
            false,
        ),
        (json!({ "spec": { "clusterName": "other" } }), false),
        (
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            false,
        ),
        (
            json!({ "metadata": { "annotations": { "rackhand.dev/paused": "" } } }),
            false,
        ),
        (
            json!({ "metadata": { "annotations": { "rackhand.dev/dry-run": "true" } } }),
            false,
        ),
    ] {
        fixture.add_check();
        fixture.objects.change(CHECK, &change);
        fixture.watch(Kind::MachineHealthCheck, CHECK);
        let seen = observed(&mut engine).await;
        assert_eq!(believed(&seen), is_live, "{change}");
    }
}

#[tokio::test]
async fn f12_objects_missing_from_api_are_absent() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    for (kind, key, path) in [
        (Kind::Machine, Key::new("ns", "m1"), MACHINE),
        (Kind::BareMetalHost, Key::new("ns", "h1"), HOST),
    ] {
        fixture.objects.remove(path);
        fixture.index.delete(kind, &key);
    }
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(o.machine.is_none() && o.bmh.is_none());
}

#[tokio::test]
async fn f12_node_ref_is_read_live_before_machine_counts_as_unjoined() {
    let fixture = Fixture::new(&state(Step::Pending)).await;
    // The watch has not reported yet that the Node has joined.
    let mut old = fixture.objects.get(MACHINE).unwrap();
    old["status"] = json!({});
    let old = serde_json::from_value(old).unwrap();
    let index = &fixture.index;
    index.delete(Kind::Machine, &Key::new("ns", "m1"));
    index.apply(Kind::Machine, old);
    fixture.objects.change(MACHINE, &json!({}));
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(
        matches!(o.workload, WorkloadView::Present(_)),
        "{:?}",
        o.workload
    );
}

/// Changes the Node without its watch.
fn recover(fixture: &Fixture) {
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    fixture.objects.change(NODE, &ready);
}

fn node_of(o: &Observation) -> &NodeFacts {
    match &o.workload {
        WorkloadView::Present(node) => node,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn f12_wait_uses_the_last_reading_and_what_the_watch_shows_is_read_live() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    assert!(!node_of(&observed(&mut engine).await).ready);
    recover(&fixture);
    let o = observed(&mut engine).await;
    assert!(!node_of(&o).ready, "no agent answers, so it waits");
    // Another change of the Node, which the watch shows with this one.
    fixture.touch(NODE);
    assert!(node_of(&observed(&mut engine).await).ready);
}

#[tokio::test]
async fn f12_node_that_the_watch_lacks_or_that_is_not_watched_is_read_live() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    recover(&fixture);
    fixture.context.index.delete_node(&cluster(), "n1");
    assert!(node_of(&observed(&mut engine).await).ready);

    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    let down = Connection::Down("cut off".into());
    fixture.context.index.set_connection(&cluster(), down);
    let o = observed(&mut engine).await;
    assert!(matches!(o.workload, WorkloadView::Unreachable { .. }));
}

#[tokio::test]
async fn f12_host_named_by_node_is_read_live() {
    let fixture = Fixture::by_node().await;
    let (index, host) = (&fixture.index, Key::new("ns", "h1"));
    index.delete(Kind::BareMetalHost, &host);
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(index.host(&host).is_some(), "{:?}", o.host);
    // There is no agent here; without the BareMetalHost no rack would be known.
    assert!(matches!(o.host, HostView::NotFound(_)));
}

/// A Node that is linked to its Machine only by its providerID, while no watch has reported the Machine yet.
async fn unnamed(state: &State) -> Fixture {
    let fixture = Fixture::by_node().await;
    let tied = json!({ "spec": { "providerID": "metal3://uid-h1" } });
    fixture.objects.change(NODE, &tied);
    fixture.objects.change(MACHINE, &tied);
    let state = json!({ "spec": { "state": state } });
    fixture.objects.change(STATE, &state);
    fixture.watch(Kind::RemediationState, STATE);
    let index = &fixture.index;
    index.delete(Kind::Machine, &Key::new("ns", "m1"));
    fixture
}

#[tokio::test]
async fn f12_machine_linked_by_provider_id_is_found_before_handover() {
    let fixture = unnamed(&state(Step::Escalated)).await;
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    let told = o.machine.map(|machine| machine.owner_remediated_false);
    assert_eq!(told, Some(false), "OwnerRemediated is not set yet");
}

#[tokio::test]
async fn f12_missing_machine_is_searched_once_before_end() {
    let fixture = unnamed(&state(Step::Escalated)).await;
    fixture.objects.remove(MACHINE);
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    let lists = || {
        let reads = fixture.objects.reads.lock();
        reads
            .iter()
            .filter(|path| path.ends_with("/machines"))
            .count()
    };
    assert_eq!(lists(), 1);
    observed(&mut engine).await;
    assert_eq!(lists(), 1, "the absence is remembered");
}

#[tokio::test]
async fn l1_deleted_machine_keeps_pinned_cluster() {
    let mut tainting = state(Step::Tainting);
    for (cluster, reachable) in [(Some("ns/c"), true), (None, false)] {
        tainting.cluster = cluster.map(str::to_owned);
        let fixture = Fixture::new(&tainting).await;
        // A remediation that was created by hand, without the label.
        let bare = json!({ "metadata": { "labels": null } });
        fixture.objects.change(REMEDIATION, &bare);
        fixture.watch(Kind::PowerRemediation, REMEDIATION);
        fixture.objects.remove(MACHINE);
        fixture.index.delete(Kind::Machine, &Key::new("ns", "m1"));
        let mut engine = fixture.engine();
        let o = observed(&mut engine).await;
        let present = matches!(o.workload, WorkloadView::Present(_));
        assert_eq!(present, reachable, "{:?}", o.workload);
    }
}

#[tokio::test]
async fn l1_cluster_is_pinned_while_machine_exists() {
    let fixture = Fixture::new(&state(Step::Draining)).await;
    let mut engine = fixture.engine();
    assert!(matches!(
        Box::pin(engine.run_once()).await,
        Ok(Iteration::Turn(Turn::Again))
    ));
    for (path, state) in [(REMEDIATION, "/status/cursor"), (STATE, "/spec/state")] {
        let there = fixture.objects.get(path).unwrap();
        let state = there.pointer(state).unwrap();
        assert_eq!(state["cluster"], "ns/c", "{there}");
        assert_eq!(state["step"], "Draining");
    }
}

const SECRET: &str = "/api/v1/namespaces/ns/secrets/c-kubeconfig";

/// A host that is off during the drain; its Cluster object is removed, and its API is unreachable.
async fn removed_cluster(remains: &[&str]) -> Fixture {
    let mut draining = state(Step::Draining);
    draining.cluster = Some("ns/c".into());
    let fixture = Fixture::new(&draining).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "c-kubeconfig", "namespace": "ns" },
    });
    fixture.objects.put(SECRET, secret);
    let gone = [
        (CLUSTER, Some((Kind::Cluster, cluster()))),
        (MACHINE, Some((Kind::Machine, Key::new("ns", "m1")))),
        (SECRET, None),
    ];
    for (path, known) in gone.into_iter().filter(|(path, _)| !remains.contains(path)) {
        fixture.objects.remove(path);
        if let Some((kind, key)) = known {
            fixture.index.delete(kind, &key);
        }
    }
    fixture.workloads.remove(&cluster());
    let down = Connection::Down("its API does not answer".into());
    fixture.index.set_connection(&cluster(), down);
    fixture
}

/// Runs iterations until the remediation waits or ends; returns its step and message.
async fn settled(fixture: &Fixture) -> (Step, String) {
    let mut engine = fixture.engine();
    for _ in 0..20 {
        engine.memory.shell.power = Some(off_now());
        match Box::pin(engine.run_once()).await {
            Ok(Iteration::Turn(Turn::Wait(_)) | Iteration::Done) => break,
            Ok(Iteration::Turn(_)) => {}
            Err(ReconcileError::Gone) => panic!("the object is gone"),
            Err(ReconcileError::Failed(error)) => panic!("{error}"),
        }
    }
    let shown = engine
        .recorder
        .recorded
        .shown
        .as_ref()
        .map(|s| s.message.clone());
    let step = engine.memory.shell.state.as_ref().unwrap().step;
    (step, shown.unwrap_or_default())
}

fn is_held(fixture: &Fixture) -> bool {
    let host = fixture.objects.get(HOST).unwrap();
    let annotations = host["metadata"]["annotations"].to_string();
    annotations.contains("reboot.metal3.io/rackhand-uid-r1")
}

#[tokio::test]
async fn f4_hold_stays_while_objects_of_removed_cluster_remain() {
    for (remains, named) in [
        (SECRET, "Secret ns/c-kubeconfig"),
        (MACHINE, "Machine ns/m1"),
    ] {
        let fixture = removed_cluster(&[remains]).await;
        let (step, message) = Box::pin(settled(&fixture)).await;
        assert_eq!(step, Step::Draining, "{message}");
        assert!(message.contains(named), "{message}");
        assert!(is_held(&fixture), "its workload may run on");
    }
}

#[tokio::test]
async fn f9_remediation_of_fully_removed_cluster_ends_and_removes_hold() {
    let fixture = removed_cluster(&[]).await;
    let (step, message) = Box::pin(settled(&fixture)).await;
    assert_eq!(step, Step::Blocked, "{message}");
    assert!(message.contains("Cluster ns/c is gone"), "{message}");
    assert!(!is_held(&fixture));
    let remediation = fixture.objects.get(REMEDIATION).unwrap();
    assert_eq!(
        remediation["metadata"]["finalizers"],
        json!([]),
        "{remediation}"
    );
}

#[tokio::test]
async fn f6_quorum_is_read_live_before_first_power_off() {
    let mut direct = state(Step::PoweringOff);
    direct.mode = Mode::Direct;
    for state in [state(Step::Holding), direct] {
        let fixture = Fixture::new(&state).await;
        fixture.control_plane();
        let mut engine = fixture.engine();
        let o = observed(&mut engine).await;
        assert_eq!(o.conflict, None, "two of three members are healthy");
        // Another member fails, and no watch has reported it yet.
        let (_, node) = member_paths("2");
        let unknown =
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
        fixture.objects.change(&node, &unknown);
        let o = observed(&mut engine).await;
        let label = o.conflict.as_ref().map(|reason| reason.label());
        assert_eq!(label, Some("ControlPlaneQuorum"), "{:?}", state.step);
    }
}

/// The watch shows neither Node as one that only runs etcd.
#[tokio::test]
async fn f6_members_that_only_run_etcd_are_read_live_before_first_power_off() {
    let fixture = Fixture::new(&state(Step::Holding)).await;
    fixture.control_plane();
    let etcd = json!({ "metadata": { "labels": { "node-role.kubernetes.io/etcd": "true" } } });
    for number in ["2", "3"] {
        let (machine, node) = member_paths(number);
        let none = json!({ "metadata": { "labels": { "cluster.x-k8s.io/control-plane": null } } });
        fixture.objects.change(&machine, &none);
        fixture.objects.change(&node, &etcd);
    }
    fixture.objects.change(NODE, &etcd);
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert_eq!(o.conflict, None, "two of three members are healthy");
    let (_, node) = member_paths("2");
    let unknown = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    fixture.objects.change(&node, &unknown);
    let o = observed(&mut engine).await;
    let text = o.conflict.map(|why| why.to_string()).unwrap_or_default();
    assert!(
        text.contains("1 of 3 members would be left (not healthy: n2)"),
        "{text}"
    );
    // A person's word for this one remediation.
    let word = |uid: &str| json!({ "metadata": { "annotations": { "rackhand.dev/override-quorum": uid } } });
    for (uid, overrules) in [("uid-r2", false), ("uid-r1", true)] {
        fixture.objects.change(REMEDIATION, &word(uid));
        fixture.watch(Kind::PowerRemediation, REMEDIATION);
        let o = observed(&mut engine).await;
        assert_eq!(o.conflict.is_none(), overrules, "{uid}");
    }
}

#[tokio::test]
async fn f6_unreadable_control_plane_blocks_power_off() {
    let fixture = Fixture::new(&state(Step::Holding)).await;
    fixture.control_plane();
    fixture.workloads.remove(&cluster());
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    let words = o
        .conflict
        .map(|reason| reason.to_string())
        .unwrap_or_default();
    assert!(words.contains("not connected"), "{words}");
    // The only member of a cluster takes its API with it.
    let word =
        json!({ "metadata": { "annotations": { "rackhand.dev/override-quorum": "uid-r1" } } });
    fixture.objects.change(REMEDIATION, &word);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    assert_eq!(observed(&mut engine).await.conflict, None);
}

/// A policy at the API server that no watch has shown yet.
const POLICY: &str = "/apis/rackhand.dev/v1alpha1/powerpolicies/freeze";

fn put_policy(fixture: &Fixture) -> kube::api::DynamicObject {
    let policy = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
        "metadata": { "name": "freeze", "uid": "uid-freeze" },
        "spec": { "selector": {}, "requireApproval": true },
    });
    serde_json::from_value(fixture.objects.put(POLICY, policy)).unwrap()
}

async fn with_policies() -> Fixture {
    with_policies_at(Step::Pending).await
}

async fn with_policies_at(step: Step) -> Fixture {
    let fixture = Fixture::new(&state(step)).await;
    let kind = Kind::PowerPolicy;
    let gvk = kube::core::GroupVersionKind::gvk(kind.group(), "v1alpha1", kind.kind());
    let resource = kube::core::ApiResource::from_gvk_with_plural(&gvk, "powerpolicies");
    fixture.served.put(kind, resource);
    fixture
}

/// What an observation of the index rests on now.
fn basis(fixture: &Fixture) -> ObservedPolicies {
    let objects = vec![
        (Kind::Machine, Key::new("ns", "m1")),
        (Kind::BareMetalHost, Key::new("ns", "h1")),
    ];
    let versions = PolicyVersions::of(&fixture.index, &objects);
    ObservedPolicies { objects, versions }
}

#[tokio::test]
async fn f13_policies_and_labels_are_read_live_before_a_beginning() {
    let fixture = with_policies().await;
    let seen = basis(&fixture);
    assert_eq!(fixture.engine().read_policies(&seen).await, Ok(false));
    // Where there is no policy, nothing selects by labels.
    let changed = json!({ "metadata": { "labels": { "touched": "yes" } } });
    fixture.objects.change(MACHINE, &changed);
    assert_eq!(fixture.engine().read_policies(&seen).await, Ok(false));
    let policy = put_policy(&fixture);
    fixture.index.apply(Kind::PowerPolicy, policy);
    let seen = basis(&fixture);
    assert_eq!(fixture.engine().read_policies(&seen).await, Ok(true));
    // Labels of the Machine and annotations of the BareMetalHost, which no watch has shown.
    for path in [MACHINE, HOST] {
        let seen = basis(&fixture);
        let labels = json!({ "metadata": { "labels": { "frozen": "yes" } } });
        fixture.objects.change(path, &labels);
        let mut engine = fixture.engine();
        assert_eq!(engine.read_policies(&seen).await, Ok(true), "{path}");
        assert_eq!(engine.read_policies(&basis(&fixture)).await, Ok(false));
    }
}

#[tokio::test(start_paused = true)]
async fn f13_policy_that_the_watch_has_not_shown_is_waited_for() {
    let fixture = with_policies().await;
    let mut engine = fixture.engine();
    let seen = basis(&fixture);
    let policy = put_policy(&fixture);
    let Err(Reason::HeldByPolicy(why)) = engine.read_policies(&seen).await else {
        panic!("it begins without the policy");
    };
    assert!(why.contains("behind by 1 objects"), "{why}");
    let index = fixture.index.clone();
    let watch = async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        index.apply(Kind::PowerPolicy, policy);
    };
    let (read, ()) = tokio::join!(engine.read_policies(&seen), watch);
    assert_eq!(read, Ok(true));
    assert_eq!(engine.read_policies(&basis(&fixture)).await, Ok(false));
}

/// Decides about a host that could be switched off now, because it is found and its agent is connected, until it
/// begins or waits.
async fn decided(fixture: &Fixture) -> (Observation, Decision) {
    let mut engine = fixture.engine();
    match decided_by(&mut engine).await {
        Decided::Step(decided) => *decided,
        Decided::Again | Decided::AwaitTurn(_) => panic!("nothing was decided"),
    }
}

async fn decided_by(engine: &mut RemediationLoop) -> Decided {
    assert!(engine.loaded().await);
    for _ in 0..5 {
        let now = Timestamp::now();
        let Ok(Ok(mut seen)) = Box::pin(engine.observe(now)).await else {
            panic!("nothing was observed");
        };
        let host = state(Step::Holding).host.unwrap();
        seen.observation.host = HostView::Found(host);
        seen.observation.agent = AgentView::Ready;
        seen.observation.other_nodes = OtherNodes::Compared(Vec::new());
        let Ok(decided) = Box::pin(engine.decide(seen, now)).await else {
            panic!("nothing was decided");
        };
        match decided {
            Decided::Step(step)
                if step.1.next == Next::Write && step.1.state.step == Step::Pending =>
            {
                engine.memory.shell.state = Some(step.1.state);
            }
            decided => return decided,
        }
    }
    panic!("it neither begins nor waits");
}

#[tokio::test(start_paused = true)]
async fn f13_nothing_begins_by_a_view_that_is_behind_the_served_policies() {
    let fixture = with_policies().await;
    let (o, decision) = decided(&fixture).await;
    assert_eq!(o.conflict, None);
    assert_eq!(decision.state.step, Step::Holding, "{}", decision.reason);
    // A policy that the index does not show: by the view alone it would begin as before.
    let fixture = with_policies().await;
    put_policy(&fixture);
    assert_eq!(fixture.index.power_policies().len(), 0);
    let (o, decision) = decided(&fixture).await;
    assert!(
        matches!(o.conflict, Some(Reason::HeldByPolicy(_))),
        "{:?}",
        o.conflict
    );
    assert_eq!(decision.state.step, Step::Pending, "{}", decision.reason);
}

/// One that was stopped gives its place in the budgets back once that is recorded, and begins as any other.
#[tokio::test(start_paused = true)]
async fn freeze_stops_a_remediation_that_has_begun_until_it_is_lifted() {
    let fixture = with_policies_at(Step::Holding).await;
    let policy = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
        "metadata": { "name": "freeze", "uid": "uid-freeze" },
        "spec": { "selector": {}, "freezeAnnotations": ["example.com/payroll"] },
    });
    let policy = serde_json::from_value(fixture.objects.put(POLICY, policy)).unwrap();
    fixture.index.apply(Kind::PowerPolicy, policy);
    assert_eq!(observed(&mut fixture.engine()).await.conflict, None);
    let annotated =
        |value: &Value| json!({ "metadata": { "annotations": { "example.com/payroll": value } } });
    fixture.objects.change(NODE, &annotated(&json!("")));
    let why = |o: &Observation| {
        o.conflict
            .as_ref()
            .map(|why| why.to_string())
            .unwrap_or_default()
    };
    // It reads the Node anew.
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(why(&o).contains("example.com/payroll"), "{}", why(&o));
    let active = engine.observing.context.active.clone();
    let progress = || active.lock()[&engine.scope.uid].progress;
    assert_eq!(progress(), Progress::Begun);
    let mut again = fixture.engine();
    assert!(again.loaded().await);
    again.memory.shell.state = Some(state(Step::Pending));
    let Decided::Step(decided) = decided_by(&mut again).await else {
        panic!("nothing was decided");
    };
    assert!(
        why(&decided.0).contains("example.com/payroll"),
        "{}",
        why(&decided.0)
    );
    assert_eq!(
        (decided.1.state.step, progress()),
        (Step::Pending, Progress::Waiting)
    );
    fixture.objects.change(NODE, &annotated(&Value::Null));
    assert_eq!(observed(&mut fixture.engine()).await.conflict, None);
}

#[tokio::test(start_paused = true)]
async fn remediation_waits_for_its_turn_only_while_the_api_server_is_busy() {
    let fixture = with_policies().await;
    let mut engine = fixture.engine();
    assert!(engine.loaded().await);
    let now = crate::store::clock::monotonic_now();
    assert!(matches!(engine.observe(now).await, Ok(Ok(_))));
    let cluster = engine.scope.interest.lock().cluster.clone().unwrap();
    let client = engine.observing.context.workloads.get(&cluster).unwrap();
    client.load().lock().refused(now);
    // In this second as many have begun as may, and the oldest.
    for _ in 0..=20 {
        client.load().lock().begins(now);
    }
    assert!(matches!(
        decided_by(&mut engine).await,
        Decided::AwaitTurn(_)
    ));
    assert!(concurrency::still_waits_for_turn(&engine.observing));
    assert!(engine.turn.is_some());
    *client.load().lock() = Default::default();
    assert!(!concurrency::still_waits_for_turn(&engine.observing));
    let Decided::Step(decided) = decided_by(&mut engine).await else {
        panic!("it does not begin");
    };
    assert_eq!(decided.1.state.step, Step::Holding);
    assert!(engine.turn.is_none());
}

/// A spec that becomes unreadable suspends nothing that has begun: neither its readings nor its deletion.
#[tokio::test]
async fn begun_remediation_goes_on_while_its_spec_cannot_be_read() {
    let mut begun = state(Step::PoweringOff);
    let policy = rackhand_core::remediation::Policy {
        retry_limit: 7,
        ..rackhand_core::remediation::Policy::default()
    };
    begun.policy = Some(Box::new(policy.clone()));
    let fixture = Fixture::new(&begun).await;
    let broken = json!({
        "spec": { "strategy": { "timeouts": { "bootSeconds": "20" } } },
        "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
    });
    fixture.objects.change(REMEDIATION, &broken);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    assert!(o.object.deleting && o.object.policy.is_err());
    assert_eq!(o.policy(engine.memory.shell.state.as_ref()), Some(&policy));
    assert!(o.bmh.is_some_and(|bmh| bmh.our_hold), "it has its host");
    let told = engine
        .observer
        .unread_spec
        .as_ref()
        .map(ToString::to_string);
    assert!(told.is_some_and(|told| told.contains("bootSeconds") || told.contains("spec")));
}

/// One that has begun nothing waits, and says why.
#[tokio::test]
async fn remediation_does_not_begin_while_its_spec_cannot_be_read() {
    let fixture = Fixture::new(&state(Step::Pending)).await;
    let broken = json!({ "spec": { "strategy": { "timeouts": { "bootSeconds": "20" } } } });
    fixture.objects.change(REMEDIATION, &broken);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    let mut engine = fixture.engine();
    assert!(engine.loaded().await);
    let seen = Box::pin(engine.observe(Timestamp::now())).await;
    assert!(matches!(seen, Ok(Err(Reason::InvalidSpec(_)))));
}

#[tokio::test]
async fn ordinary_write_conflict_is_no_warning() {
    let fixture = Fixture::new(&state(Step::Tainting)).await;
    let mut engine = fixture.engine();
    let o = observed(&mut engine).await;
    fixture.touch(NODE);
    engine.memory.shell.power = Some(off_now());
    let acted = engine.act(&Command::AddTaint, &o).await;
    let Err(ReconcileError::Failed(conflict)) = acted else {
        panic!("nothing has failed");
    };
    let other = ApiError::other("Node n1", "no answer");
    let log = LogCapture::start();
    for (error, failures, warns) in [
        (&conflict, 1, false),
        (&conflict, FAILURES_TOLD - 1, false),
        (&conflict, FAILURES_TOLD, true),
        (&other, 1, true),
    ] {
        log_failure(&engine.scope.id, error, failures);
        let warned = log.take(tracing::Level::WARN);
        assert_eq!(warned.len(), usize::from(warns), "{error}: {warned:?}");
    }
}

/// Releases of Rancher fail on it.
#[tokio::test]
async fn taint_has_a_time_only_if_that_is_switched_on() {
    for has_time in [false, true] {
        let mut fixture = Fixture::new(&state(Step::Tainting)).await;
        let context = Arc::get_mut(&mut fixture.context).unwrap();
        let act = Arc::get_mut(&mut context.act).unwrap();
        assert!(!act.taint_time_added, "off by default");
        act.taint_time_added = has_time;
        let mut engine = fixture.engine();
        let o = observed(&mut engine).await;
        engine.memory.shell.power = Some(off_now());
        assert!(engine.act(&Command::AddTaint, &o).await.is_ok());
        let node = fixture.objects.get(NODE).unwrap();
        let taint = &node["spec"]["taints"][0];
        assert_eq!(taint["key"], "node.kubernetes.io/out-of-service", "{node}");
        assert_eq!(taint["timeAdded"].is_string(), has_time, "{node}");
    }
}

/// The step that a PowerRemediation shows.
fn shown_step(fixture: &Fixture) -> String {
    let object = fixture.objects.get(REMEDIATION).unwrap();
    let step = object.pointer("/status/step").and_then(Value::as_str);
    step.unwrap_or_default().to_owned()
}

async fn reports(
    engine: &mut RemediationLoop,
    reason: &Reason,
    now: Timestamp,
) -> Option<Timestamp> {
    let RemediationLoop {
        recorder,
        recording,
        memory,
        ..
    } = engine;
    let reported = recorder.report_reason(recording, memory, reason, None, now);
    match reported.await {
        Ok(due) => due,
        Err(_) => panic!("nothing was reported"),
    }
}

#[tokio::test]
async fn l1_step_that_is_passed_at_once_is_shown_once_the_remediation_waits_in_it() {
    let tainting = state(Step::Tainting);
    let fixture = Fixture::new(&tainting).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    let now = Timestamp::now();
    engine
        .record(&tainting, &Reason::Tainting, now)
        .await
        .ok()
        .unwrap();
    let mut draining = tainting;
    draining.step = Step::Draining;
    let pods = Reason::Draining("pods".into());
    engine.record(&draining, &pods, now).await.ok().unwrap();
    let stored = fixture.objects.get(STATE).unwrap();
    assert_eq!(stored.pointer("/spec/state/step"), Some(&json!("Draining")));
    assert_eq!(shown_step(&fixture), "Tainting");
    let later = now + Duration::from_secs(1);
    let due = reports(&mut engine, &pods, later).await.unwrap();
    assert!(
        due > later && due <= later + Duration::from_secs(10),
        "{due}"
    );
    assert_eq!(shown_step(&fixture), "Tainting", "a moment ago");
    assert_eq!(reports(&mut engine, &pods, due).await, None);
    assert_eq!(shown_step(&fixture), "Draining");
    // What somebody has to act on is shown at once.
    let mut on = draining;
    on.step = Step::PoweringOn;
    engine
        .record(&on, &Reason::PowerOnRunning, now)
        .await
        .ok()
        .unwrap();
    assert_eq!(shown_step(&fixture), "Draining");
    let away = Reason::AgentUnreachable("a".into());
    assert_eq!(reports(&mut engine, &away, now).await, None);
    assert_eq!(shown_step(&fixture), "PoweringOn");
    // The status of a PowerRemediation is no part of the removal of its finalizer.
    on.step = Step::Booting;
    engine
        .record(&on, &Reason::Booting, now)
        .await
        .ok()
        .unwrap();
    on.step = Step::Succeeded;
    engine
        .record(&on, &Reason::Recovered, now)
        .await
        .ok()
        .unwrap();
    assert_eq!(shown_step(&fixture), "Succeeded");
}

#[tokio::test]
async fn l1_step_that_is_passed_at_once_is_shown_after_one_in_which_somebody_had_to_act() {
    let mut on = state(Step::Draining);
    let fixture = Fixture::new(&on).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    let now = Timestamp::now();
    let blocked = Reason::DrainBlocked("pods".into());
    assert_eq!(reports(&mut engine, &blocked, now).await, None);
    assert_eq!(shown_step(&fixture), "Draining");
    on.step = Step::PoweringOn;
    let running = engine.record(&on, &Reason::PowerOnRunning, now).await;
    running.ok().unwrap();
    assert_eq!(shown_step(&fixture), "PoweringOn");
    on.step = Step::Booting;
    let booting = engine.record(&on, &Reason::Booting, now).await;
    booting.ok().unwrap();
    assert_eq!(shown_step(&fixture), "PoweringOn", "a moment ago");
}

#[tokio::test]
async fn copy_of_an_earlier_leader_is_not_written_again_for_a_step_that_is_passed_at_once() {
    let mut on = state(Step::Draining);
    let fixture = Fixture::new(&on).await;
    let mut engine = fixture.engine();
    observed(&mut engine).await;
    let now = Timestamp::now();
    on.step = Step::PoweringOn;
    engine
        .record(&on, &Reason::PowerOnRunning, now)
        .await
        .ok()
        .unwrap();
    let before = fixture.objects.get(REMEDIATION).unwrap();
    let RemediationLoop {
        recorder,
        recording,
        memory,
        ..
    } = &mut engine;
    let restored = recorder.restore(recording, memory, now).await;
    assert!(restored.is_ok());
    assert_eq!(fixture.objects.get(REMEDIATION).unwrap(), before);
}
