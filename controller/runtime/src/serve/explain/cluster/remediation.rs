//! Reader of the objects for the view of a remediation.

use kube::{Client, api::ListParams};
use rackhand_api::names::{NODE_LEASE_NAMESPACE, groups, kinds};

use super::{Reader, builtin, get_from, list_with, listed};
use crate::{
    clusters::client_of,
    hosts::{Target, of_openshift, target},
    remediation::{etcd_guard, openshift_machine, shown_state},
    serve::explain::{ExplainError, Found, RequestKind, remediation::index},
    store::{
        api::{call, words},
        index::Index,
        object::{Key, Kind},
        request::{RequestId, RequestView},
    },
};

// === impl Reader ===

impl Reader {
    /// Finds the remediation, and reads all objects that its view depends on, including the workload cluster.
    pub(super) async fn remediation(
        &mut self,
        key: &Key,
        kind: Option<RequestKind>,
    ) -> Result<Found, ExplainError> {
        let kind = self.find_remediation(key, kind).await?;
        let id = RequestId::new(kind, key.clone());
        let entry = index(&self.snapshot).request(&id);
        let by_node = entry
            .and_then(|e| e.view.ok())
            .is_some_and(|v| v.node().is_some());
        // The Machine and the host of a Node may be in any namespace.
        let within = if by_node { "" } else { &key.namespace };
        // Nothing about a remediation depends on the checks of Nodes.
        let kinds = Kind::ALL.into_iter();
        for kind in kinds.filter(|kind| *kind != Kind::NodeHealthCheck) {
            let within = if kind.namespaced() { within } else { "" };
            if let Err(why) = self.list(kind, within).await {
                self.note(format!("{} could not be listed: {why}", kind.kind()));
            }
        }
        if let Err(why) = self.workload(&id).await {
            self.snapshot.seen.down = Some(why);
        }
        Ok(Found::Remediation(kind, key.clone()))
    }

    async fn find_remediation(
        &mut self,
        key: &Key,
        kind: Option<RequestKind>,
    ) -> Result<Kind, ExplainError> {
        let Key { namespace, name } = key;
        let mut found = Vec::new();
        for of in Kind::REQUESTS {
            if kind.is_some_and(|kind| kind.kind() != of) {
                continue;
            }
            let resource = self.served.find(&self.client, of.group(), of.kind()).await;
            let resource = resource.map_err(|e| ExplainError::Cluster(words(&e)))?;
            let Some(resource) = resource else { continue };
            let what = format!("{} {key}", of.kind());
            let object = self.get(&resource, &what, key).await;
            if let Some(object) = object.map_err(ExplainError::Cluster)? {
                self.add([object]);
                found.push(of);
            }
        }
        match found.as_slice() {
            [kind] => Ok(*kind),
            [] => Err(ExplainError::Request(format!(
                "there is no remediation {name} in namespace {namespace}; it may be finished, since a \
                 health check deletes it once the node is healthy"
            ))),
            _ => Err(ExplainError::Request(format!(
                "there are remediations {name} of both kinds in namespace {namespace}; select one by \
                 --kind"
            ))),
        }
    }

    /// Reads the workload cluster.
    ///
    /// # Errors
    /// It cannot be read.
    async fn workload(&mut self, id: &RequestId) -> Result<(), String> {
        let index = index(&self.snapshot);
        let entry = index.request(id).ok_or("the remediation is gone")?;
        let Ok(view) = entry.view else {
            return Ok(());
        };
        let state = shown_state(&index, id.kind, &entry.object).ok().flatten();
        let mut target = target(&index, &id.key, &view, state.as_ref());
        self.openshift_machine(&mut target, &view).await;
        let Some(cluster) = target.cluster.clone() else {
            return Ok(());
        };
        let (client, _) = client_of(&self.client, &cluster).await?;
        if let Ok(info) = call("version", client.apiserver_version()).await {
            index.set_version(&cluster, &info.major, &info.minor);
            self.snapshot.version = Some((info.major, info.minor));
        }
        self.nodes(&client).await?;
        for node in &self.snapshot.seen.nodes {
            index.apply_node(&cluster, node.clone());
        }
        self.on_node(&index, &client, &target).await;
        Ok(())
    }

    /// The Machine of OpenShift that the remediation is for.
    async fn openshift_machine(&mut self, target: &mut Target, view: &RequestView) {
        let mut machine = None;
        if let Some(key) = &target.openshift {
            match openshift_machine(&self.client, &self.served, key).await {
                Ok(found) => machine = found,
                Err(why) => self.note(why),
            }
        }
        if let Some(machine) = &machine {
            let seen = &self.snapshot.seen;
            let is_known = seen.get(groups::OPENSHIFT_MACHINE, kinds::MACHINE, &Key::of(machine));
            if is_known.is_none() {
                self.add([machine.clone()]);
            }
        }
        of_openshift(target, view, machine);
    }

    /// Lease, pods and volumes of the Node, and the guard of its etcd.
    async fn on_node(&mut self, index: &Index, client: &Client, target: &Target) {
        self.snapshot.guard = etcd_guard(index, client.clone(), target).await;
        let name = target.node.clone().unwrap_or_default();
        let leases = builtin("coordination.k8s.io", "v1", "Lease");
        let key = Key::new(NODE_LEASE_NAMESPACE, &name);
        match get_from(client, &leases, &format!("Lease {key}"), &key).await {
            Ok(found) => self.add(found),
            Err(why) => self.unread(&leases.kind, why),
        }
        let pods = builtin("", "v1", "Pod");
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        match list_with(client, &pods, "", &on_node).await {
            Ok(found) => self.add(found),
            Err(why) => self.unread(&pods.kind, why),
        }
        let volumes = builtin("storage.k8s.io", "v1", "VolumeAttachment");
        match listed(client, &volumes, "").await {
            Ok(found) => self.add(found),
            Err(why) => self.unread(&volumes.kind, why),
        }
    }

    fn unread(&mut self, kind: &str, why: String) {
        self.snapshot.unread.insert(kind.to_owned());
        self.note(why);
    }
}
