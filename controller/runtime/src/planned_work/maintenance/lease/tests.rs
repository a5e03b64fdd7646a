//! Which Leases are taken, renewed and released, against a minimal API server.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::*;
use crate::{
    leader::fixture::Leading,
    store::{fake_api::Objects, maintenance::lease_holder},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases/node-n1";
const ME: &str = "HostMaintenance-dimm-u1";

/// The Machine of a maintenance is in Cluster `ns/c`, which is watched, as is its Node `n1`.
struct World {
    objects: Objects,
    client: Client,
    served: Served,
    index: Index,
    leading: Leading,
    memory: Memory,
    phase: MaintenancePhase,
}

impl World {
    async fn new(medik8s: bool) -> Self {
        let objects = Objects::default();
        let client = objects.client();
        let served = served(medik8s);
        let index = Index::new(Vec::new());
        index.set_connection(&Key::new("ns", "c"), Connection::Up);
        index.apply_seen_node(&Key::new("ns", "c"), node("u"));
        Self {
            leading: Leading::start(&client).await,
            objects,
            client,
            served,
            index,
            memory: Memory::default(),
            phase: MaintenancePhase::Evicting,
        }
    }

    /// The own Nodes are read; one of them has the same name.
    fn read_own(&self, uid: &str) {
        self.index.apply_seen_node(&Key::local(), node(uid));
        self.index.set_connection(&Key::local(), Connection::Up);
    }

    fn leases(&self) -> (Leases<'_>, Memory) {
        let leases = Leases {
            client: &self.client,
            served: &self.served,
            index: &self.index,
            writer: &self.leading.writer,
        };
        (leases, Memory::default())
    }

    async fn read(&mut self, listed: bool, second: i64) -> LeaseMark {
        let mut memory = std::mem::take(&mut self.memory);
        let (leases, _) = self.leases();
        let age = (at(second), stands(self.phase));
        let mark = read(&leases, &mut memory, (&subject(), listed), ME, age).await;
        self.memory = memory;
        mark
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn served(medik8s: bool) -> Served {
    let served = Served::default();
    if medik8s {
        let kind = Kind::NodeHealthCheck;
        let gvk = GroupVersionKind::gvk(kind.group(), "v1alpha1", kind.kind());
        served.put(kind, ApiResource::from_gvk(&gvk));
    }
    served
}

fn node(uid: &str) -> crate::store::index::SeenNode {
    let node: Value = json!({ "metadata": { "name": "n1", "uid": uid } });
    serde_json::from_value(node).unwrap()
}

fn subject() -> Subject {
    Subject {
        cluster: Some(Key::new("ns", "c")),
        node: Some("n1".into()),
        node_uid: Some("u".into()),
        ..Subject::default()
    }
}

fn lease_of_mine() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "node-n1", "namespace": "medik8s-leases", "uid": "l" },
        "spec": {
            "holderIdentity": ME, "leaseDurationSeconds": 300,
            "renewTime": "1970-01-01T00:00:00.000000Z",
        },
    })
}

#[tokio::test]
async fn f12_lease_is_not_called_unused_before_the_own_nodes_are_read() {
    let mut w = World::new(true).await;
    let mark = w.read(false, 0).await;
    let LeaseMark::Unread { why, expires } = &mark else {
        panic!("{mark:?}");
    };
    assert!(why.contains("not connected yet"), "{why}");
    assert_eq!(*expires, at(300));
    w.read_own("another");
    assert_eq!(w.read(false, 1).await, LeaseMark::NotUsed);
    w.read_own("u");
    assert_eq!(w.read(false, 2).await, LeaseMark::Free);
    let mut without = World::new(false).await;
    assert_eq!(without.read(false, 0).await, LeaseMark::NotUsed);
}

#[tokio::test]
async fn f9_lease_that_the_status_lists_is_renewed_and_released_where_no_own_node_is_watched() {
    // As after a restart: nothing has told that medik8s' kinds are served, or which Nodes there are.
    let mut w = World::new(false).await;
    w.objects.put(LEASE, lease_of_mine());
    let ours = LeaseMark::Ours { renewed: at(0) };
    assert_eq!(w.read(true, 1).await, ours);
    let (leases, mut memory) = w.leases();
    let subject = subject();
    take(&leases, &mut memory, (&subject, true), ME, at(120))
        .await
        .unwrap();
    let renewed = w.objects.get(LEASE).unwrap()["spec"]["renewTime"].clone();
    assert!(renewed.as_str().unwrap().starts_with("1970-01-01T00:02:00"));
    release(&leases, &mut memory, (&subject, true), ME)
        .await
        .unwrap();
    assert_eq!(w.objects.get(LEASE), None);
}

#[tokio::test]
async fn lease_that_another_takes_is_noticed_within_seconds_while_pods_leave() {
    let mut theirs = lease_of_mine();
    theirs["spec"]["holderIdentity"] = "somebody".into();
    for (phase, stands) in [
        (MaintenancePhase::Pending, 5),
        (MaintenancePhase::Evicting, 5),
        (MaintenancePhase::PoweringOff, 5),
        (MaintenancePhase::Parked, 30),
    ] {
        let mut w = World::new(true).await;
        w.phase = phase;
        w.objects.put(LEASE, lease_of_mine());
        let ours = LeaseMark::Ours { renewed: at(0) };
        assert_eq!(w.read(true, 1).await, ours);
        w.objects.put(LEASE, theirs.clone());
        // As few calls as that needs.
        assert_eq!(w.read(true, stands).await, ours, "{phase:?}");
        let seen = w.read(true, stands + 1).await;
        assert!(
            matches!(seen, LeaseMark::Theirs { .. }),
            "{phase:?}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn f9_lease_of_another_holder_is_not_released() {
    let w = World::new(true).await;
    w.objects.put(LEASE, lease_of_mine());
    let (leases, mut memory) = w.leases();
    release(&leases, &mut memory, (&subject(), true), "somebody")
        .await
        .unwrap();
    assert!(w.objects.get(LEASE).is_some());
}

#[test]
fn own_nodes_are_asked_for_while_a_maintenance_may_need_the_lease() {
    use MaintenancePhase as P;
    let asks = |medik8s, phases: &[P]| asks_for_own_nodes(&served(medik8s), phases.iter().copied());
    assert!(asks(true, &[P::Ended, P::Pending]));
    assert!(asks(true, &[P::Ending]));
    assert!(!asks(true, &[P::Ended, P::Failed]));
    assert!(!asks(false, &[P::Parked]));
}

#[test]
fn f9_holder_of_a_lease_names_the_maintenance_with_this_uid_alone() {
    assert_eq!(
        name_in(&lease_holder("dimm-a3", "u-1"), "u-1").unwrap(),
        "dimm-a3"
    );
    for (other, uid) in [
        (lease_holder("dimm", "u-2"), "u-1"),
        (lease_holder("dimm", "u-1"), ""),
        (lease_holder("", "u-1"), "u-1"),
        ("HostMaintenance-u-1".to_owned(), "u-1"),
        ("HostMaintenance-dimmu-1".to_owned(), "u-1"),
        ("node-maintenance-u-1".to_owned(), "u-1"),
        (String::new(), "u-1"),
    ] {
        assert_eq!(name_in(&other, uid), None, "{other} {uid}");
    }
}
