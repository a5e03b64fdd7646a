//! The leader Lease, versions, kinds, other controllers, Nodes and the clock of the API server.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Node};
use kube::{Api, Client, ResourceExt, api::ListParams, client::Body};
use rackhand_api::names::NODE_LEASE_NAMESPACE;
use rackhand_core::preflight::{
    ClockFacts, ClusterFacts, LeaderFacts, Manager, ManagerFacts, NodesFacts, WatchFacts,
    WatchTrial,
};

use super::{
    CONCURRENT,
    watches::{list_failed, watch},
};
use crate::{
    clusters::{client_of, node_roles},
    config::Config,
    store::{
        api::{CALL_TIMEOUT, call, optional, words},
        index::Index,
        object::{Key, list_pages},
    },
};

pub(super) async fn leader(client: &Client, config: &Config) -> LeaderFacts {
    let name = format!("{}/{}", config.lease_namespace, config.lease_name);
    let leases: Api<Lease> = Api::namespaced(client.clone(), &config.lease_namespace);
    let found = optional(call(format!("Lease {name}"), leases.get(&config.lease_name)).await);
    let spec = found.map(|lease| lease.and_then(|lease| lease.spec).unwrap_or_default());
    let mut facts = LeaderFacts {
        lease: name,
        ..LeaderFacts::default()
    };
    facts.holder = spec.map_err(|error| error.to_string()).map(|spec| {
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        facts.duration = SignedDuration::from_secs(seconds.into());
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty())?;
        let age = Timestamp::now().duration_since(spec.renew_time?.0);
        Some((holder, age))
    });
    facts
}

/// Controllers of other projects, by their Deployments.
pub(super) async fn managers(client: &Client) -> ManagerFacts {
    let deployments: Api<Deployment> = Api::all(client.clone());
    let read = |params: ListParams| {
        let deployments = deployments.clone();
        async move { deployments.list(&params).await }
    };
    let listed = match list_pages("Deployments", &ListParams::default(), read).await {
        Ok(listed) => listed,
        Err(error) => {
            return ManagerFacts {
                unknown: Some(error.to_string()),
                ..ManagerFacts::default()
            };
        }
    };
    let found = listed.iter().filter_map(|deployment| {
        let manager = manager(deployment)?;
        let name = Key::new(
            deployment.namespace().unwrap_or_default(),
            deployment.name_any(),
        );
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let image = pod.containers.iter().find_map(|container| {
            let image = container.image.as_ref()?;
            (!image.contains("kube-rbac-proxy")).then(|| image.clone())
        });
        Some((manager, name.to_string(), image.unwrap_or_default()))
    });
    ManagerFacts {
        found: found.collect(),
        unknown: None,
    }
}

/// The controller that a Deployment runs, by the names and labels of the projects' manifests. A Deployment
/// that is scaled to zero runs none.
fn manager(deployment: &Deployment) -> Option<Manager> {
    if deployment.spec.as_ref()?.replicas == Some(0) {
        return None;
    }
    let provider = deployment.labels().get("cluster.x-k8s.io/provider");
    match provider.map(String::as_str) {
        Some("cluster-api") => return Some(Manager::ClusterApi),
        Some("infrastructure-metal3") => return Some(Manager::Capm3),
        _ => {}
    }
    match deployment.name_any().as_str() {
        "capi-controller-manager" => Some(Manager::ClusterApi),
        "capm3-controller-manager" => Some(Manager::Capm3),
        // It contains the machine-healthcheck-controller.
        "machine-api-controllers" => Some(Manager::OpenShift),
        name if name.starts_with("node-healthcheck-") && name.contains("controller-manager") => {
            Some(Manager::Medik8s)
        }
        name if name.starts_with("baremetal-operator") => Some(Manager::BaremetalOperator),
        "metal3-baremetal-operator" => Some(Manager::BaremetalOperator),
        _ => None,
    }
}

fn cluster_name(key: &Key) -> String {
    match *key == Key::local() {
        true => "management".to_owned(),
        false => key.to_string(),
    }
}

/// What came of listing and watching the Nodes of a cluster.
fn watch_facts(cluster: &Key, trial: WatchTrial) -> WatchFacts {
    WatchFacts {
        kind: "Node".to_owned(),
        cluster: Some(cluster_name(cluster)),
        trial,
    }
}

/// Version, Nodes and their Leases of a cluster. The Nodes enter the index. `trials`: what came of listing and
/// watching them.
pub(super) async fn facts(
    management: &Client,
    index: &Index,
    key: &Key,
    has_nodes: bool,
    trials: &mut Vec<WatchFacts>,
) -> ClusterFacts {
    let name = cluster_name(key);
    let reached = async {
        let (client, _) = client_of(management, key).await?;
        let info = call("version", client.apiserver_version()).await;
        let info = info.map_err(|error| error.to_string())?;
        Ok::<_, String>((client, (info.major, info.minor)))
    };
    let (client, version) = match reached.await {
        Ok(reached) => reached,
        Err(why) => {
            return ClusterFacts {
                name,
                version: Err(why),
                nodes: None,
            };
        }
    };
    let nodes = match has_nodes {
        true => Some(nodes(&client, index, key, trials).await),
        false => None,
    };
    ClusterFacts {
        name,
        version: Ok(version),
        nodes,
    }
}

async fn nodes(
    client: &Client,
    index: &Index,
    key: &Key,
    trials: &mut Vec<WatchFacts>,
) -> Result<NodesFacts, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let read = |params: ListParams| {
        let nodes = nodes.clone();
        async move { nodes.list(&params).await }
    };
    let listed = list_pages("Nodes", &ListParams::default(), read).await;
    let nodes: Vec<Node> = match listed {
        Ok(nodes) => nodes,
        Err(error) => {
            trials.push(watch_facts(key, list_failed(&error)));
            return Err(error.to_string());
        }
    };
    let all: Api<Node> = Api::all(client.clone());
    trials.push(watch_facts(key, watch("Nodes", &all).await));
    let names = nodes.iter().map(ResourceExt::name_any).collect();
    let without_lease = without_lease(client, names).await;
    let count = nodes.len();
    let roles = nodes.iter().map(|node| node_roles(node.labels()));
    let roles = roles.filter(|roles| roles.is_control_plane()).collect();
    for node in nodes {
        index.apply_node(key, node);
    }
    Ok(NodesFacts {
        count,
        without_lease,
        roles,
    })
}

/// The Nodes without a Lease. The accounts of the manifests may `get` a Lease, but not list Leases.
async fn without_lease(client: &Client, nodes: Vec<String>) -> Result<Vec<String>, String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
    let read = |params: ListParams| {
        let leases = leases.clone();
        async move { leases.list_metadata(&params).await }
    };
    if let Ok(listed) = list_pages("Leases", &ListParams::default(), read).await {
        let known: BTreeSet<String> = listed.iter().map(ResourceExt::name_any).collect();
        let is_missing = |name: &String| !known.contains(name);
        return Ok(nodes.into_iter().filter(is_missing).collect());
    }
    let leases = &leases;
    let found = nodes.into_iter().map(|name| async move {
        let lease = optional(call("Lease", leases.get_metadata(&name)).await);
        let lease = lease.map_err(|error| error.to_string())?;
        Ok::<_, String>(lease.is_none().then_some(name))
    });
    let found = stream::iter(found).buffered(CONCURRENT);
    let missing: Vec<Option<String>> = found.try_collect().await?;
    Ok(missing.into_iter().flatten().collect())
}

/// The clock of the API server by the `Date` of an answer, which has whole seconds.
pub(super) async fn api_server_clock(client: &Client) -> ClockFacts {
    let ahead = async {
        let request = http::Request::get("/version").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let before = Timestamp::now();
        let answered = tokio::time::timeout(CALL_TIMEOUT, client.send(request)).await;
        let after = Timestamp::now();
        let answer = answered
            .map_err(|_| format!("no answer within {CALL_TIMEOUT:?}"))?
            .map_err(|error| words(&error))?;
        let date = answer.headers().get(http::header::DATE);
        let date = date.and_then(|date| date.to_str().ok());
        let date = date.ok_or("its answer has no Date")?;
        let date = jiff::fmt::rfc2822::parse(date).map_err(|error| error.to_string())?;
        Ok(ahead(
            date.timestamp(),
            before,
            after,
            SignedDuration::from_secs(1),
        ))
    };
    ClockFacts {
        name: "API server".to_owned(),
        judges: true,
        ahead: ahead.await,
    }
}

/// How far a clock is ahead of this machine, and the accuracy. The clock was read between two times of this
/// machine.
pub(super) fn ahead(
    read: Timestamp,
    before: Timestamp,
    after: Timestamp,
    resolution: SignedDuration,
) -> (SignedDuration, SignedDuration) {
    let half = after.duration_since(before) / 2;
    let middle = before + half;
    (read.duration_since(middle), half + resolution)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn controllers_of_other_projects_are_known_by_label_or_name() {
        let deployment = |name: &str, provider: &str, replicas: i32| -> Deployment {
            serde_json::from_value(json!({
                "metadata": { "name": name, "labels": { "cluster.x-k8s.io/provider": provider } },
                "spec": {
                    "replicas": replicas, "selector": {},
                    "template": { "spec": { "containers": [] } },
                },
            }))
            .unwrap()
        };
        let of = |name: &str, provider: &str| manager(&deployment(name, provider, 1));
        assert_eq!(of("x", "cluster-api"), Some(Manager::ClusterApi));
        assert_eq!(of("x", "infrastructure-metal3"), Some(Manager::Capm3));
        assert_eq!(of("capm3-controller-manager", ""), Some(Manager::Capm3));
        assert_eq!(of("machine-api-controllers", ""), Some(Manager::OpenShift));
        let medik8s = "node-healthcheck-controller-manager";
        assert_eq!(of(medik8s, ""), Some(Manager::Medik8s));
        let bmo = "baremetal-operator-controller-manager";
        assert_eq!(of(bmo, ""), Some(Manager::BaremetalOperator));
        assert_eq!(of("rackhand-controller", ""), None);
        assert_eq!(manager(&deployment("x", "cluster-api", 0)), None);
    }

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_call() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let second = SignedDuration::from_secs(1);
        let (ahead, exact) = ahead(at(107), at(100), at(104), second);
        assert_eq!(ahead, SignedDuration::from_secs(5));
        assert_eq!(exact, SignedDuration::from_secs(3));
    }
}
