//! Live reads of the management cluster (F12).

use std::{collections::BTreeSet, sync::Arc};

use futures::{FutureExt, future::try_join_all};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use rackhand_api::names::{MEDIK8S_LEASE_NAMESPACE, groups, kinds};

use super::{
    api::{ApiError, call, optional, words},
    index::Index,
    live_remediations::find_gone,
    object::{Key, Kind, Served, api, list, list_pages},
    shared_reads::SharedReads,
};

/// Reads objects of the management cluster, some of them into the index. It changes none.
pub(crate) struct LiveReader {
    objects: ObjectReader,
    clusters: SharedReads,
}

/// Reads single objects into the index.
#[derive(Clone)]
struct ObjectReader {
    client: Client,
    served: Arc<Served>,
    index: Arc<Index>,
}

impl ObjectReader {
    async fn read(&self, kind: Kind, key: &Key) -> Result<(), ApiError> {
        let what = format!("{} {key}", kind.kind());
        let Some(resource) = self.resource(kind, &what).await? else {
            return Ok(());
        };
        let objects = api(&self.client, &resource, &key.namespace);
        if let Some(object) = optional(call(what, objects.get(&key.name)).await)? {
            self.index.apply(kind, object);
        }
        Ok(())
    }

    async fn resource(&self, kind: Kind, what: &str) -> Result<Option<ApiResource>, ApiError> {
        let found = self.served.find(&self.client, kind.group(), kind.kind());
        found.await.map_err(|e| ApiError::other(what, words(&e)))
    }
}

impl LiveReader {
    pub(crate) fn new(client: Client, served: Arc<Served>, index: Arc<Index>) -> Self {
        let objects = ObjectReader {
            client,
            served,
            index,
        };
        let of_clusters = objects.clone();
        let clusters = SharedReads::new(Arc::new(move |key| {
            let objects = of_clusters.clone();
            async move { objects.read(Kind::Cluster, &key).await }.boxed()
        }));
        Self { objects, clusters }
    }

    /// Reads an object into the index, if it exists.
    pub(crate) async fn read(&self, kind: Kind, key: &Key) -> Result<(), ApiError> {
        self.objects.read(kind, key).await
    }

    /// Reads a Cluster into the index, if it exists. Hosts of one cluster fail together, so the read is shared.
    pub(crate) async fn cluster(&self, key: &Key) -> Result<(), ApiError> {
        self.clusters.read(key).await
    }

    /// Lists a kind into the index, for objects that are not found by name.
    pub(crate) async fn list(&self, kind: Kind, namespace: &str) -> Result<(), ApiError> {
        let Some(resource) = self.objects.resource(kind, kind.kind()).await? else {
            return Ok(());
        };
        for object in list(&self.objects.client, &resource, namespace, kind.kind()).await? {
            self.objects.index.apply(kind, object);
        }
        Ok(())
    }

    /// Whether an object is absent. For a kind that is not served the answer is no.
    pub(crate) async fn is_absent(&self, kind: Kind, key: &Key) -> Result<bool, ApiError> {
        let what = format!("{} {key}", kind.kind());
        let Some(resource) = self.objects.served.known(kind) else {
            return Ok(false);
        };
        let objects = api(&self.objects.client, &resource, &key.namespace);
        let found = optional(call(what, objects.get(&key.name)).await)?;
        Ok(found.is_none())
    }

    /// The Machines in a namespace that have one of these labels. One that has several is listed as often.
    pub(crate) async fn machines_with(
        &self,
        what: &str,
        namespace: &str,
        labels: [&str; 2],
    ) -> Result<Vec<DynamicObject>, ApiError> {
        let resource = self.objects.served.known(Kind::Machine);
        let resource = resource.ok_or_else(|| ApiError::other(what, "the kind is not served"))?;
        let machines = api(&self.objects.client, &resource, namespace);
        let lists = labels.map(|label| {
            let machines = machines.clone();
            async move {
                let labelled = ListParams::default().labels(label);
                let read = |params: ListParams| {
                    let machines = machines.clone();
                    async move { machines.list(&params).await }
                };
                list_pages(what, &labelled, read).await
            }
        });
        Ok(try_join_all(lists).await?.into_iter().flatten().collect())
    }

    /// The Machine of OpenShift with this name, if there is one.
    pub(crate) async fn openshift_machine(
        &self,
        key: &Key,
    ) -> Result<Option<DynamicObject>, String> {
        let found = self.objects.served.find(
            &self.objects.client,
            groups::OPENSHIFT_MACHINE,
            kinds::MACHINE,
        );
        let Some(resource) = found.await.map_err(|e| words(&e))? else {
            return Ok(None);
        };
        let what = format!("Machine {key} of OpenShift");
        let machines = api(&self.objects.client, &resource, &key.namespace);
        let read = call(what, machines.get(&key.name)).await;
        optional(read).map_err(|e| e.to_string())
    }

    /// The Lease with this name by which medik8s' operators exclude each other, if there is one. `what`: the Lease, for
    /// messages.
    pub(crate) async fn medik8s_lease(
        &self,
        name: &str,
        what: String,
    ) -> Result<Option<Lease>, ApiError> {
        let client = self.objects.client.clone();
        let leases: Api<Lease> = Api::namespaced(client, MEDIK8S_LEASE_NAMESPACE);
        optional(call(what, leases.get(name)).await)
    }

    /// Whether a Secret exists. Its data is not read.
    pub(crate) async fn has_secret(&self, key: &Key) -> Result<bool, ApiError> {
        let secrets: Api<Secret> = Api::namespaced(self.objects.client.clone(), &key.namespace);
        let what = format!("Secret {key}");
        let found = optional(call(what, secrets.get_metadata(&key.name)).await)?;
        Ok(found.is_some())
    }

    /// The UIDs that no remediation of any kind and namespace has.
    ///
    /// # Errors
    /// A kind cannot be listed.
    pub(crate) async fn gone(&self, uids: BTreeSet<String>) -> Result<BTreeSet<String>, ApiError> {
        find_gone(&self.objects.client, &self.objects.served, uids).await
    }
}
