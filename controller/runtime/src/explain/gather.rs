//! Reads from the cluster what an explanation needs, with the rights of whoever asks.
//!
//! Must never fail for one kind that cannot be read: it is said instead.

use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{Api, Client, api::ListParams};
use rackhand_api::names::NODE_LEASE_NAMESPACE;

use super::{ExplainError, Explanation, RequestKind, explain, scene::Scene, scene::Workload};
use crate::{
    api::{ApiError, call, management_client, optional},
    cluster::client_of,
    config::Config,
    index::Index,
    object::{Key, Kind, Served, api},
    remediation::{RequestId, etcd_guard, of_openshift, openshift_machine, stored_state, target},
};

/// Explains a request of the cluster that the kubeconfig names.
///
/// # Errors
/// The cluster cannot be asked, or there is no such request.
pub async fn explain_cluster(
    config: &Config,
    namespace: Option<&str>,
    name: &str,
    kind: Option<RequestKind>,
) -> Result<Explanation, ExplainError> {
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| ExplainError::Cluster(e.to_string()))?;
    let namespace = namespace
        .unwrap_or_else(|| client.default_namespace())
        .to_owned();
    let served = Served::default();
    let index = Index::new(Vec::new());
    let mut unread = Vec::new();
    let id = find(&client, &served, &index, &namespace, name, kind).await?;
    let by_node = index
        .request(&id)
        .and_then(|e| e.view.ok())
        .is_some_and(|v| v.node().is_some());
    // A Node's Machine and host may lie in any namespace.
    let within = if by_node { "" } else { namespace.as_str() };
    // Nothing about one remediation depends on the checks of Nodes.
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::NodeHealthCheck)
    {
        let within = if kind.namespaced() { within } else { "" };
        if let Err(error) = list(&client, &served, &index, kind, within).await {
            unread.push(format!("{} could not be listed: {error}", kind.kind()));
        }
    }
    let workload = workload(&client, &served, &index, &id, &mut unread).await;
    let now = Timestamp::now();
    let mut scene: Scene = super::scene::scene(&index, &id, &workload, config, now)?;
    scene.assumed.extend(unread);
    Ok(explain(&scene, now))
}

async fn find(
    client: &Client,
    served: &Served,
    index: &Index,
    namespace: &str,
    name: &str,
    kind: Option<RequestKind>,
) -> Result<RequestId, ExplainError> {
    let cannot = |e: String| ExplainError::Cluster(e);
    let mut found = Vec::new();
    for asked in Kind::REQUESTS {
        if kind.is_some_and(|k| k.kind() != asked) {
            continue;
        }
        let resource = served
            .find(client, asked.group(), asked.kind())
            .await
            .map_err(|e| cannot(crate::api::words(&e)))?;
        let Some(resource) = resource else { continue };
        let what = format!("{} {namespace}/{name}", asked.kind());
        let object = optional(call(what, api(client, &resource, namespace).get(name)).await)
            .map_err(|e| cannot(e.to_string()))?;
        if let Some(object) = object {
            index.apply(asked, object);
            found.push(RequestId::new(asked, Key::new(namespace, name)));
        }
    }
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(ExplainError::Request(format!(
            "there is no remediation {name} in namespace {namespace}; it may be over, since a \
             health check deletes it once the node is healthy"
        ))),
        _ => Err(ExplainError::Request(format!(
            "there are remediations {name} of both kinds in namespace {namespace}; say which by \
             --kind"
        ))),
    }
}

async fn list(
    client: &Client,
    served: &Served,
    index: &Index,
    kind: Kind,
    namespace: &str,
) -> Result<(), String> {
    let resource = served
        .find(client, kind.group(), kind.kind())
        .await
        .map_err(|e| crate::api::words(&e))?;
    // What is not installed is not missed.
    let Some(resource) = resource else {
        return Ok(());
    };
    let objects = api(client, &resource, namespace);
    let every = ListParams::default();
    let listed = call(kind.kind(), objects.list(&every))
        .await
        .map_err(|e| e.to_string())?;
    for mut object in listed {
        // The items of a list do not name their kind.
        if object.types.is_none() {
            object.types = Some(kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
        }
        index.apply(kind, object);
    }
    Ok(())
}

async fn workload(
    management: &Client,
    served: &Served,
    index: &Index,
    id: &RequestId,
    unread: &mut Vec<String>,
) -> Workload {
    let down = |why: String| Workload {
        down: Some(why),
        ..Workload::default()
    };
    let Some(entry) = index.request(id) else {
        return down("the request is gone".into());
    };
    let Ok(view) = entry.view else {
        return Workload::default();
    };
    let state = stored_state(id.kind, &entry.object).ok().flatten();
    let mut target = target(index, &id.key, &view, state.as_ref());
    let mut machines = Vec::new();
    if let Some(key) = &target.openshift {
        match openshift_machine(management, served, key).await {
            Ok(machine) => machines.extend(machine),
            Err(why) => unread.push(why),
        }
    }
    of_openshift(&mut target, &view, machines.first().cloned());
    let Some(cluster) = &target.cluster else {
        return Workload::default();
    };
    let down = |why: String| Workload {
        machines: machines.clone(),
        ..down(why)
    };
    let client = match client_of(management, cluster).await {
        Ok((client, _)) => client,
        Err(why) => return down(why),
    };
    if let Ok(info) = call("version", client.apiserver_version()).await {
        index.set_version(cluster, &info.major, &info.minor);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = match call("nodes", nodes.list(&ListParams::default())).await {
        Ok(nodes) => nodes.items,
        Err(error) => return down(error.to_string()),
    };
    for node in &nodes {
        index.apply_node(cluster, node.clone());
    }
    let guard = etcd_guard(index, client.clone(), &target).await;
    let name = target.node.clone().unwrap_or_default();
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
    let pods: Api<Pod> = Api::all(client.clone());
    let volumes: Api<VolumeAttachment> = Api::all(client);
    let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let every = ListParams::default();
    let (lease, pods, volumes) = tokio::join!(
        call("Lease", leases.get(&name)),
        call("pods", pods.list(&on_node)),
        call("VolumeAttachments", volumes.list(&every)),
    );
    let mut said = |error: &ApiError| unread.push(error.to_string());
    Workload {
        down: None,
        whole: true,
        machines,
        guard,
        nodes,
        leases: optional(lease)
            .inspect_err(&mut said)
            .ok()
            .flatten()
            .into_iter()
            .collect(),
        pods: pods.inspect_err(&mut said).ok().map(|list| list.items),
        volumes: volumes.inspect_err(&mut said).ok().map(|list| list.items),
        budgets: Vec::new(),
    }
}
