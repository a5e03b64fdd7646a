//! Reader of objects from a cluster, with the rights of the client.
//!
//! A kind that cannot be read is noted in the view, unless there is no view without it.

mod machines;
mod nodes;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_core::values::duration::time_span;

use super::{CheckSubject, ExplainError, Found, snapshot::Snapshot};
use crate::store::{
    api::{ApiError, call, optional, words},
    object::{self, Key, Kind, Served, api, list_pages, with_kind},
};

/// Finds the check and reads what its view is computed from.
pub(super) async fn read(
    client: &Client,
    check: &CheckSubject,
    at: Option<Timestamp>,
) -> Result<(Found, Snapshot), ExplainError> {
    let mut reader = Reader {
        client: client.clone(),
        served: Served::default(),
        snapshot: Snapshot::default(),
    };
    let unnamed = || ExplainError::Request("name the object".into());
    let key = |namespace: &Option<String>, name: &Option<String>| {
        let namespace = namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        Ok(Key::new(namespace, name.as_deref().ok_or_else(unnamed)?))
    };
    let found = match check {
        CheckSubject::Machines {
            namespace,
            name,
            group,
        } => reader.machine_check(&key(namespace, name)?, *group).await?,
        CheckSubject::Nodes { name } => {
            let name = name.as_deref().ok_or_else(unnamed)?;
            reader.node_check(name).await?
        }
    };
    let mut snapshot = reader.snapshot;
    snapshot.notes.extend(at.map(other_time));
    Ok((found, snapshot))
}

/// The note that the view is for another time than its objects.
fn other_time(at: Timestamp) -> String {
    let now = Timestamp::now();
    let apart = time_span(at.duration_since(now).unsigned_abs());
    let side = if at < now { "ago" } else { "ahead" };
    format!("evaluated for a time {apart} {side}, with the objects as they are now")
}

/// Why something is not in the view.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// It is not known whether the cluster serves the kind.
    #[error("{}", words(.0))]
    Discovery(#[from] kube::Error),
    #[error("{kind} of {version} is not served")]
    NotServed { kind: String, version: String },
    /// There is no client of the workload cluster.
    #[error("{0}")]
    NoClient(String),
}

/// Reads objects into a snapshot.
struct Reader {
    client: Client,
    served: Served,
    snapshot: Snapshot,
}

// === impl Reader ===

impl Reader {
    fn note(&mut self, note: impl Into<String>) {
        self.snapshot.notes.push(note.into());
    }

    fn add(&mut self, objects: impl IntoIterator<Item = DynamicObject>) {
        let uid = |object: &DynamicObject| object.metadata.uid.clone();
        for object in objects {
            let mut known = self.snapshot.seen.objects.iter();
            if uid(&object).is_none() || !known.any(|o| uid(o) == uid(&object)) {
                self.snapshot.seen.objects.push(object);
            }
        }
    }

    /// Lists the objects of a kind; none if the cluster does not serve it.
    async fn list(&mut self, kind: Kind, namespace: &str) -> Result<(), ReadError> {
        let found = self.served.find(&self.client, kind.group(), kind.kind());
        if let Some(resource) = found.await? {
            let found = listed(&self.client, &resource, namespace).await?;
            self.add(found);
        }
        Ok(())
    }

    /// Lists objects without which there is no view.
    async fn list_required(&mut self, kind: Kind, namespace: &str) -> Result<(), ExplainError> {
        let listed = self.list(kind, namespace).await;
        listed.map_err(|why| {
            ExplainError::Cluster(format!("{}s could not be listed: {why}", kind.kind()))
        })
    }

    /// Lists objects, or notes why they cannot be listed.
    async fn list_optional(&mut self, kind: Kind, namespace: &str) {
        if let Err(why) = self.list(kind, namespace).await {
            self.note(format!("{}s could not be listed: {why}", kind.kind()));
        }
    }

    /// Gets an object of a resource.
    async fn get(
        &self,
        resource: &ApiResource,
        what: &str,
        key: &Key,
    ) -> Result<Option<DynamicObject>, ApiError> {
        get_from(&self.client, resource, what, key).await
    }

    /// Gets a CRD, or notes why it cannot be read.
    async fn crd(&mut self, name: &str) {
        let resource = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let what = format!("CRD {name}");
        match self.get(&resource, &what, &Key::new("", name)).await {
            Ok(Some(crd)) => self.add([crd]),
            Ok(None) => self.note(format!("{what} does not exist")),
            Err(error) => self.note(error.to_string()),
        }
    }

    /// Lists the Nodes of a cluster.
    async fn nodes(&mut self, client: &Client) -> Result<(), ApiError> {
        let nodes: Api<Node> = Api::all(client.clone());
        let read = |params: ListParams| {
            let nodes = nodes.clone();
            async move { nodes.list(&params).await }
        };
        let listed = list_pages("Nodes", &ListParams::default(), read).await;
        self.snapshot.seen.nodes = listed?;
        Ok(())
    }

    fn no_nodes(&mut self, what: &str, why: impl Into<ReadError>) {
        let why = why.into().to_string();
        self.note(format!("{what}: {why}"));
        self.snapshot.seen.down = Some(why);
    }
}

/// A kind of Kubernetes itself.
fn builtin(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Gets an object of a resource from any cluster.
async fn get_from(
    client: &Client,
    resource: &ApiResource,
    what: &str,
    key: &Key,
) -> Result<Option<DynamicObject>, ApiError> {
    let objects = api(client, resource, &key.namespace);
    let found = optional(call(what, objects.get(&key.name)).await);
    Ok(found?.map(|object| with_kind(object, resource)))
}

/// The objects of a resource; of all namespaces if `namespace` is empty.
async fn listed(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
) -> Result<Vec<DynamicObject>, ApiError> {
    list_with(client, resource, namespace, &ListParams::default()).await
}

async fn list_with(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    params: &ListParams,
) -> Result<Vec<DynamicObject>, ApiError> {
    object::list_with(client, resource, namespace, &resource.kind, params).await
}
