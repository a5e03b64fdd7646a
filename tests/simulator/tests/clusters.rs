//! Several workload clusters, each with an API server that has its Nodes alone, and what API servers have to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use rackhand_simulator::{
    api::{
        Load, Reply, Request, Turn,
        resource::{CLUSTERS, MACHINES},
    },
    fleet::{Fleet, FleetSpec},
    kernel::World,
};
use serde_json::{Value, json};

/// Six hosts in clusters of four.
fn world() -> World {
    let mut spec = FleetSpec::of(6, 1, 1);
    spec.hosts_of_cluster = Some(4);
    let mut world = World::new(1, Fleet::new(spec));
    world.write_objects();
    world
}

/// The names in a list of a cluster's API server.
fn names(world: &mut World, cluster: Option<usize>, path: &str) -> Vec<String> {
    let request = Request {
        cluster,
        method: "GET".into(),
        path: path.into(),
        ..Request::default()
    };
    let Reply::Document(200, list) = world.api.handle(&request) else {
        panic!("{path} is not served");
    };
    let items = list["items"].as_array().unwrap().iter();
    items.map(name).collect()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn api_server_of_a_cluster_has_its_nodes_and_their_leases() {
    let mut world = world();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for path in ["/api/v1/nodes", leases] {
        let mut of = |cluster| names(&mut world, cluster, path);
        assert_eq!(of(Some(1)), ["c1-r0-h4", "c1-r0-h5"], "{path}");
        assert_eq!(of(Some(0)).len(), 4, "{path}");
        assert_eq!(of(None).len(), 6, "{path}");
    }
}

#[test]
fn machines_are_of_the_cluster_of_their_nodes() {
    let world = world();
    let clusters: Vec<_> = world
        .api
        .list(CLUSTERS)
        .map(|cluster| name(cluster))
        .collect();
    assert_eq!(clusters, ["demo-0", "demo-1"]);
    let mut machines = 0;
    for machine in world.api.list(MACHINES) {
        let number = if name(machine).starts_with("c1-") {
            1
        } else {
            0
        };
        assert_eq!(
            machine["spec"]["clusterName"],
            *clusters.get(number).unwrap()
        );
        machines += 1;
    }
    assert!(machines > 0);
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn requests_are_served_one_after_another_by_each_api_server() {
    let mut load = Load::default();
    assert_eq!(load.arrive(None, false, ms(0)), Turn::Now);
    load.limit(100, 2);
    assert_eq!(load.arrive(None, false, ms(0)), Turn::At(ms(10)));
    assert_eq!(load.arrive(None, false, ms(5)), Turn::At(ms(20)));
    assert_eq!(load.arrive(None, false, ms(5)), Turn::Refused);
    assert_eq!(load.arrive(None, true, ms(5)), Turn::At(ms(30)));
    assert_eq!(load.arrive(Some(1), false, ms(5)), Turn::At(ms(15)));
    load.leaves(None);
    load.leaves(None);
    assert_eq!(load.arrive(None, false, ms(100)), Turn::At(ms(110)));
    assert_eq!((load.longest_queue, load.refused), (3, 1));
    load.unlimit();
    assert_eq!(load.arrive(None, false, ms(100)), Turn::Now);
}

#[test]
fn list_takes_as_long_as_several_requests() {
    let mut load = Load::default();
    load.limit(1000, 10);
    let list = |load: &mut Load, path: &str, accept: &str, objects: usize| {
        let request = Request {
            path: path.into(),
            accept: accept.into(),
            ..Request::default()
        };
        let answer = json!({ "items": vec![0; objects] });
        load.answers(None, &request, &answer, ms(0))
    };
    assert_eq!(list(&mut load, "/api/v1/nodes", "", 16), ms(2));
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(list(&mut load, "/api/v1/nodes", partial, 60), ms(1));
    assert_eq!(list(&mut load, "/api/v1/pods", "", 22), ms(1));
    assert_eq!(list(&mut load, "/some/leases", "", 600), ms(10));
    assert_eq!(load.arrive(None, false, ms(0)), Turn::At(ms(15)));
}
