//! Reads from the cluster what an explanation of a health check needs, with the rights of whoever asks.
//!
//! Must never write, nor fail for a part that cannot be read where the rest still says something.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};
use rackhand_api::views::{MachineHealthCheckView, TemplateRef};

use super::{
    ExplainError,
    health::{CheckExplanation, explain_check},
    health_scene::{CRD, Surroundings, scene, which},
};
use crate::{
    api::{call, management_client, optional, words},
    cluster::client_of,
    config::Config,
    object::{Key, Kind, Served, api},
};

/// Explains a health check of the cluster that the kubeconfig names.
///
/// # Errors
/// The cluster cannot be asked, or there is no such check.
pub async fn explain_check_cluster(
    config: &Config,
    namespace: Option<&str>,
    name: &str,
    at: Option<Timestamp>,
) -> Result<CheckExplanation, ExplainError> {
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| ExplainError::Cluster(e.to_string()))?;
    let namespace = namespace
        .unwrap_or_else(|| client.default_namespace())
        .to_owned();
    let served = Served::default();
    let key = Key::new(&namespace, name);
    let check = find(&client, &served, &key).await?;
    let mut around = Surroundings::default();
    if let Ok(view) = MachineHealthCheckView::from_dynamic(&check) {
        // Without its Machines nothing can be said; what else is missing is said.
        let machines = of_kind(&client, &served, Kind::Machine, &namespace).await;
        around.seen.objects = machines
            .map_err(|why| ExplainError::Cluster(format!("Machines could not be listed: {why}")))?;
        match of_kind(&client, &served, Kind::Cluster, &namespace).await {
            Ok(clusters) => around.seen.objects.extend(clusters),
            Err(why) => return Err(ExplainError::Cluster(format!("Clusters: {why}"))),
        }
        let cluster = Key::new(&namespace, view.cluster_name.clone().unwrap_or_default());
        nodes(&client, &cluster, &mut around).await;
        others(&client, &served, &key, &mut around).await;
        if let Some(template) = &view.remediation_template {
            requests(&client, &served, template, &namespace, &mut around).await;
        }
    }
    around.seen.objects.push(check);
    crd(&client, &mut around).await;
    let now = Timestamp::now();
    if let Some(at) = at {
        let apart = super::words::span(at.duration_since(now).unsigned_abs());
        let side = if at < now { "ago" } else { "ahead" };
        around.notes.push(format!(
            "asked for a time {apart} {side}, with the objects as they are now"
        ));
    }
    let scene = scene(&key, &around, config.health_checks)?;
    Ok(explain_check(&scene, at.unwrap_or(now)))
}

/// The other checks of the namespace: one of them may act in place of this one. Requests of theirs
/// count where they are of the kind of this check's.
async fn others(client: &Client, served: &Served, check: &Key, around: &mut Surroundings) {
    match of_kind(client, served, Kind::MachineHealthCheck, &check.namespace).await {
        Ok(found) => {
            let other = |object: &DynamicObject| Key::of(object) != *check;
            around.seen.objects.extend(found.into_iter().filter(other));
        }
        Err(why) => around.notes.push(format!(
            "whether another check acts for its machines is not known: {why}"
        )),
    }
}

/// The objects of a kind; none where it is not served.
async fn of_kind(
    client: &Client,
    served: &Served,
    kind: Kind,
    namespace: &str,
) -> Result<Vec<DynamicObject>, String> {
    let found = served.find(client, kind.group(), kind.kind()).await;
    match found.map_err(|e| words(&e))? {
        Some(resource) => listed(client, &resource, namespace).await,
        None => Ok(Vec::new()),
    }
}

async fn listed(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
) -> Result<Vec<DynamicObject>, String> {
    let objects = api(client, resource, namespace);
    let mut list = call(&resource.kind, objects.list(&ListParams::default()))
        .await
        .map_err(|e| e.to_string())?
        .items;
    for object in &mut list {
        // The items of a list do not name their kind.
        object.types.get_or_insert_with(|| TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
    }
    Ok(list)
}

/// The check, or which others there are.
async fn find(client: &Client, served: &Served, key: &Key) -> Result<DynamicObject, ExplainError> {
    let kind = Kind::MachineHealthCheck;
    let cannot = |why: String| ExplainError::Cluster(why);
    let resource = served
        .find(client, kind.group(), kind.kind())
        .await
        .map_err(|e| cannot(words(&e)))?
        .ok_or_else(|| {
            cannot(format!(
                "this cluster serves no {} of {}",
                kind.kind(),
                kind.group()
            ))
        })?;
    let what = format!("{} {key}", kind.kind());
    let asked = api(client, &resource, &key.namespace);
    let found =
        optional(call(&what, asked.get(&key.name)).await).map_err(|e| cannot(e.to_string()))?;
    if let Some(object) = found {
        return Ok(object);
    }
    let mut others = names(client, &resource, &key.namespace).await;
    let mut place = format!("in namespace {}", key.namespace);
    if others.is_empty() {
        others = names(client, &resource, "").await;
        place = format!("{place}; in all namespaces");
    }
    Err(ExplainError::Request(format!(
        "there is no {} {} in namespace {}; {place} {}",
        kind.kind(),
        key.name,
        key.namespace,
        which(&others)
    )))
}

/// The checks of a namespace, or of all; none where they cannot be listed.
async fn names(client: &Client, resource: &ApiResource, namespace: &str) -> Vec<Key> {
    let listed = call(
        "MachineHealthChecks",
        api(client, resource, namespace).list(&ListParams::default()),
    )
    .await;
    let mut keys: Vec<Key> = listed
        .map(|list| list.items.iter().map(Key::of).collect())
        .unwrap_or_default();
    keys.sort();
    keys
}

async fn nodes(management: &Client, cluster: &Key, around: &mut Surroundings) {
    let asked = async {
        let (client, _) = client_of(management, cluster).await?;
        let nodes: Api<Node> = Api::all(client);
        call("Nodes", nodes.list(&ListParams::default()))
            .await
            .map_err(|e| e.to_string())
    };
    match asked.await {
        Ok(list) => around.seen.nodes = list.items,
        Err(why) => {
            around.notes.push(format!(
                "the workload cluster cannot be asked from here: {why}"
            ));
            around.seen.down = Some(why);
        }
    }
}

/// The requests, and whether the template is there at all.
async fn requests(
    client: &Client,
    served: &Served,
    template: &TemplateRef,
    namespace: &str,
    around: &mut Surroundings,
) {
    let name = format!("{} {namespace}/{}", template.kind, template.name);
    match resource(client, served, template, &template.kind).await {
        Ok(resource) => {
            let asked = api(client, &resource, namespace);
            match optional(call(&name, asked.get(&template.name)).await) {
                Ok(Some(_)) => {}
                Ok(None) => around.notes.push(format!(
                    "{name} does not exist: no request can be made from it"
                )),
                Err(error) => around.notes.push(error.to_string()),
            }
        }
        Err(why) => around
            .notes
            .push(format!("{name}: {why}, so no request can be made from it")),
    }
    let kind = template.request_kind();
    let asked = async {
        let resource = resource(client, served, template, kind).await?;
        listed(client, &resource, namespace).await
    };
    match asked.await {
        Ok(list) => around.seen.objects.extend(list),
        Err(why) => around
            .notes
            .push(format!("{kind} could not be listed: {why}")),
    }
}

async fn resource(
    client: &Client,
    served: &Served,
    template: &TemplateRef,
    kind: &str,
) -> Result<ApiResource, String> {
    let version = &template.api_version;
    let found = served.pinned(client, version, kind).await;
    let found = found.map_err(|error| words(&error))?;
    found.ok_or_else(|| format!("{kind} of {version} is not served"))
}

async fn crd(client: &Client, around: &mut Surroundings) {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    match call(format!("CRD {CRD}"), crds.get(CRD)).await {
        Ok(mut crd) => {
            crd.types.get_or_insert_with(|| TypeMeta {
                api_version: "apiextensions.k8s.io/v1".into(),
                kind: "CustomResourceDefinition".into(),
            });
            around.seen.objects.push(crd);
        }
        Err(error) => around.notes.push(error.to_string()),
    }
}
