use kube::api::DynamicObject;
use rackhand_core::{
    hosts::{InventoryHost, Rack},
    remediation::Step,
};
use serde_json::json;

use super::*;
use crate::{
    remediation::{
        engine::{ReconcileError, RemediationLoop},
        fixture::{Fixture, HOST, MACHINE, METAL3_MACHINE, cluster, node, state},
    },
    store::object::Kind,
};

const OTHER: &str = "n1.example.org";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1.example.org";

/// A remediation that holds its host, in a cluster with another Node of the same name and a domain.
async fn fixture(ready: &str) -> Fixture {
    let mut state = state(Step::Holding);
    state.attempt.taint = None;
    state.attempt.off = None;
    let fixture = Fixture::new(&state).await;
    put_other(&fixture, ready, true);
    fixture
}

fn put_other(fixture: &Fixture, ready: &str, seen: bool) {
    let path = format!("/api/v1/nodes/{OTHER}");
    let node = fixture.objects.put(&path, node(OTHER, ready, &json!({})));
    if seen {
        let node = serde_json::from_value(node).unwrap();
        fixture.index.apply_node(&cluster(), node);
    }
}

fn put_lease(fixture: &Fixture, renewed: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": OTHER, "namespace": "kube-node-lease" },
        "spec": { "renewTime": renewed, "leaseDurationSeconds": 40 },
    });
    fixture.objects.put(LEASE, lease);
}

async fn observed(engine: &mut RemediationLoop) -> OtherNodes {
    assert!(engine.loaded().await);
    match Box::pin(engine.observe(crate::store::clock::monotonic_now())).await {
        Ok(Ok(seen)) => seen.observation.other_nodes,
        Ok(Err(reason)) => panic!("{reason}"),
        Err(ReconcileError::Gone) => panic!("gone"),
        Err(ReconcileError::Failed(error)) => panic!("{error}"),
    }
}

fn lives(others: &OtherNodes) -> Vec<NodeLife> {
    assert!(matches!(others, OtherNodes::Compared(_)), "{others:?}");
    others
        .known()
        .iter()
        .map(|node| node.life.clone())
        .collect()
}

#[tokio::test]
async fn f14_ready_node_on_the_host_is_seen_before_the_hold() {
    let fixture = fixture("True").await;
    let others = observed(&mut fixture.engine()).await;
    assert_eq!(lives(&others), [NodeLife::Ready]);
    assert_eq!(others.known()[0].name, OTHER);
    assert!(
        !fixture
            .objects
            .reads
            .lock()
            .iter()
            .any(|path| path == LEASE)
    );
}

#[tokio::test]
async fn f14_lease_of_a_node_that_is_not_ready_is_read_live() {
    let fixture = fixture("Unknown").await;
    let mut engine = fixture.engine();
    assert_eq!(
        lives(&observed(&mut engine).await),
        [NodeLife::Silent],
        "it has none"
    );
    put_lease(&fixture, "2026-01-01T00:00:00.000000Z");
    let [NodeLife::Undecided { .. }] = lives(&observed(&mut engine).await)[..] else {
        panic!("one read decides nothing");
    };
    put_lease(&fixture, "2026-01-01T00:00:10.000000Z");
    assert_eq!(lives(&observed(&mut engine).await), [NodeLife::Renewing]);
}

#[tokio::test]
async fn f14_node_whose_machine_leads_to_another_bmc_does_not_count() {
    let fixture = fixture("True").await;
    let copy = |path: &str, kind: Kind, change: &dyn Fn(&mut serde_json::Value)| {
        let mut object = fixture.objects.get(path).unwrap();
        object["metadata"]["uid"] = "other".into();
        change(&mut object);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        fixture.index.apply(kind, object);
    };
    copy(MACHINE, Kind::Machine, &|o| {
        o["metadata"]["name"] = "m2".into();
        o["spec"]["infrastructureRef"]["name"] = "m2".into();
        o["status"]["nodeRef"]["name"] = OTHER.into();
    });
    copy(METAL3_MACHINE, Kind::Metal3Machine, &|o| {
        o["metadata"]["name"] = "m2".into();
        o["metadata"]["annotations"]["metal3.io/BareMetalHost"] = "ns/h2".into();
    });
    let put_host = |consumer: &serde_json::Value| {
        copy(HOST, Kind::BareMetalHost, &|o| {
            o["metadata"]["name"] = "h2".into();
            o["metadata"]["resourceVersion"] = null_or_next(consumer);
            o["spec"]["bmc"]["address"] = "redfish://192.0.2.2".into();
            o["spec"]["consumerRef"] = consumer.clone();
        });
    };
    put_host(&json!(null));
    let others = observed(&mut fixture.engine()).await;
    assert_eq!(lives(&others), [NodeLife::Ready], "it does not refer back");
    put_host(&json!({ "kind": "Metal3Machine", "name": "m2", "namespace": "ns" }));
    let others = observed(&mut fixture.engine()).await;
    assert_eq!(others, OtherNodes::Compared(Vec::new()));
}

fn null_or_next(consumer: &serde_json::Value) -> serde_json::Value {
    match consumer.is_null() {
        true => "100".into(),
        false => "101".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn f13_node_that_the_index_lacks_is_waited_for() {
    let fixture = fixture("True").await;
    fixture.index.delete_node(&cluster(), OTHER);
    let others = observed(&mut fixture.engine()).await;
    let OtherNodes::Failed { why } = others else {
        panic!("{others:?}");
    };
    assert!(why.contains("behind by 1"), "{why}");
    put_other(&fixture, "True", true);
    let others = observed(&mut fixture.engine()).await;
    assert_eq!(lives(&others), [NodeLife::Ready]);
}

#[tokio::test]
async fn f14_node_that_the_inventory_names_is_that_of_a_machine_without_noderef() {
    let index = Index::new(Vec::new());
    let put = |ready: &str| {
        let node = serde_json::from_value(node("worker-7", ready, &json!({}))).unwrap();
        index.apply_node(&cluster(), node);
    };
    let entry = |name: &str, node_name: &str| InventoryHost {
        name: name.into(),
        node_name: node_name.into(),
        bmc: format!("192.0.2.{name}"),
        ..InventoryHost::default()
    };
    let racks = |node_name: &str| {
        let hosts = vec![entry("7", node_name), entry("8", "worker-8")];
        let rack = Rack {
            hosts,
            ..Rack::default()
        };
        Racks::from([("r1".to_owned(), rack)])
    };
    let target = Target {
        machine: None,
        cluster: Some(cluster()),
        node: None,
        by_node: false,
        openshift: None,
    };
    let host = HostRef {
        rack: "r1".into(),
        host: "7".into(),
        bmh: None,
        bmc: "192.0.2.7".into(),
    };
    let subject = Subject {
        target: &target,
        host: Some(&host),
        bmh: None,
        workload: &WorkloadView::NotJoined,
        state: None,
        power: None,
    };
    let named = async |node_name: &str| {
        let racks = racks(node_name);
        let lookup = NodeLookup {
            index: &index,
            racks: || &racks,
            named: &NamedHosts::default(),
        };
        node_named_by_inventory(&lookup, &subject).await
    };
    put("Unknown");
    assert_eq!(named("worker-7").await.as_deref(), Some("worker-7"));
    assert_eq!(named("").await, None);
    put("True");
    assert_eq!(named("worker-7").await, None, "it runs");
}
