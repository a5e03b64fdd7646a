//! Reader of the objects for the view of a check of Machines.

use kube::{api::DynamicObject, core::ApiResource};
use rackhand_api::views::{MachineHealthCheckView, OpenShiftHealthCheckView, TemplateRef};

use super::{ReadError, Reader, listed};
use crate::{
    checks::openshift_controllers,
    clusters::client_of,
    serve::explain::{
        CheckGroup, ExplainError, Found,
        machines::{ambiguous, existing},
    },
    store::object::{Key, Kind},
};

// === impl Reader ===

impl Reader {
    /// Reads the check of either group.
    pub(super) async fn machine_check(
        &mut self,
        key: &Key,
        group: Option<CheckGroup>,
    ) -> Result<Found, ExplainError> {
        let (group, check) = self.find_check(key, group).await?;
        match group {
            CheckGroup::ClusterApi => self.of_cluster_api(key, &check).await?,
            CheckGroup::OpenShift => self.of_openshift(key, &check).await?,
        }
        self.add([check]);
        self.crd(group.crd()).await;
        Ok(Found::Machines(group, key.clone()))
    }

    /// The check, or an error that lists the existing ones.
    async fn find_check(
        &mut self,
        key: &Key,
        group: Option<CheckGroup>,
    ) -> Result<(CheckGroup, DynamicObject), ExplainError> {
        let is_wanted = |of: &CheckGroup| group.is_none_or(|group| group == *of);
        let (mut found, mut resources, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for of in CheckGroup::ALL.into_iter().filter(is_wanted) {
            match self.get_check(of, key).await {
                Ok(Some((resource, check))) => {
                    found.extend(check.map(|check| (of, check)));
                    resources.push((of, resource));
                }
                Ok(None) => {}
                Err(why) => unread.push(why),
            }
        }
        if found.len() > 1 {
            return Err(ambiguous(key));
        }
        if let Some(found) = found.pop() {
            for why in unread {
                self.note(format!(
                    "it is not known whether there is another check of this name: {why}"
                ));
            }
            return Ok(found);
        }
        if let Some(why) = unread.pop() {
            return Err(ExplainError::Cluster(why.to_string()));
        }
        if resources.is_empty() {
            let groups = group.map_or(CheckGroup::ALL.to_vec(), |group| vec![group]);
            let groups: Vec<&str> = groups.into_iter().map(CheckGroup::name).collect();
            return Err(ExplainError::Cluster(format!(
                "this cluster serves no MachineHealthCheck of {}",
                groups.join(" or ")
            )));
        }
        let Key { namespace, name } = key;
        let mut others = self.names(&resources, namespace).await;
        let mut place = "there";
        if others.is_empty() {
            others = self.names(&resources, "").await;
            place = "in all namespaces";
        }
        Err(ExplainError::Request(format!(
            "there is no MachineHealthCheck {name} in namespace {namespace}; {place} {}",
            existing(&others)
        )))
    }

    /// The check of this group, if the group is served.
    async fn get_check(
        &self,
        group: CheckGroup,
        key: &Key,
    ) -> Result<Option<(ApiResource, Option<DynamicObject>)>, ReadError> {
        let kind = group.kind();
        let served = self.served.find(&self.client, kind.group(), kind.kind());
        let Some(resource) = served.await? else {
            return Ok(None);
        };
        let what = format!("{} {key} of {}", kind.kind(), kind.group());
        let found = self.get(&resource, &what, key).await?;
        Ok(Some((resource, found)))
    }

    /// The names of the checks in a namespace, or in all; none if they cannot be listed.
    async fn names(
        &self,
        resources: &[(CheckGroup, ApiResource)],
        namespace: &str,
    ) -> Vec<(CheckGroup, Key)> {
        let mut keys = Vec::new();
        for (group, resource) in resources {
            let listed = listed(&self.client, resource, namespace).await;
            let listed = listed.unwrap_or_default();
            keys.extend(listed.iter().map(|object| (*group, Key::of(object))));
        }
        keys.sort();
        keys
    }

    async fn of_cluster_api(
        &mut self,
        key: &Key,
        check: &DynamicObject,
    ) -> Result<(), ExplainError> {
        let Ok(view) = MachineHealthCheckView::from_dynamic(check) else {
            return Ok(());
        };
        let namespace = &key.namespace;
        self.list_required(Kind::Machine, namespace).await?;
        self.list_required(Kind::Cluster, namespace).await?;
        let cluster = Key::new(namespace, view.cluster_name.clone().unwrap_or_default());
        let nodes = match client_of(&self.client, &cluster).await {
            Ok((client, _)) => self.nodes(&client).await.map_err(ReadError::from),
            Err(why) => Err(ReadError::NoClient(why)),
        };
        if let Err(why) = nodes {
            self.no_nodes("the workload cluster cannot be read from here", why);
        }
        self.other_checks(Kind::MachineHealthCheck, namespace).await;
        if let Some(template) = &view.remediation_template {
            self.remediations(template, namespace).await;
        }
        Ok(())
    }

    /// Machines and Nodes are in the same cluster.
    async fn of_openshift(&mut self, key: &Key, check: &DynamicObject) -> Result<(), ExplainError> {
        let Ok(view) = OpenShiftHealthCheckView::from_dynamic(check) else {
            return Ok(());
        };
        let namespace = &key.namespace;
        self.list_required(Kind::OpenShiftMachine, namespace)
            .await?;
        let client = self.client.clone();
        if let Err(why) = self.nodes(&client).await {
            self.no_nodes("the Nodes cannot be listed", why);
        }
        self.other_checks(Kind::OpenShiftCheck, namespace).await;
        match &view.remediation_template {
            Some(template) => self.remediations(template, namespace).await,
            None if view.external_baremetal => {
                self.list_optional(Kind::PowerRemediation, namespace).await;
                // A host may be in any namespace.
                self.list_optional(Kind::BareMetalHost, "").await;
                let installed = openshift_controllers(&self.client).await;
                if let Err(why) = &installed {
                    self.note(why.clone());
                }
                self.snapshot.controllers = Some(installed);
            }
            None => {}
        }
        Ok(())
    }

    /// Lists the other checks of the namespace, because one of them may act in place of this check.
    async fn other_checks(&mut self, kind: Kind, namespace: &str) {
        if let Err(why) = self.list(kind, namespace).await {
            self.note(format!(
                "it is not known whether another check acts for its machines: {why}"
            ));
        }
    }

    /// Lists the remediations, and notes whether their template exists.
    async fn remediations(&mut self, template: &TemplateRef, namespace: &str) {
        let name = format!("{} {namespace}/{}", template.kind, template.name);
        match self.resource(template, &template.kind).await {
            Ok(resource) => {
                let key = Key::new(namespace, &template.name);
                match self.get(&resource, &name, &key).await {
                    Ok(Some(_)) => {}
                    Ok(None) => self.note(format!(
                        "{name} does not exist: no remediation can be created from it"
                    )),
                    Err(error) => self.note(error.to_string()),
                }
            }
            Err(why) => self.note(format!(
                "{name}: {why}, so no remediation can be created from it"
            )),
        }
        let kind = template.remediation_kind();
        let found = match self.resource(template, kind).await {
            Ok(resource) => listed(&self.client, &resource, namespace)
                .await
                .map_err(ReadError::from),
            Err(why) => Err(why),
        };
        match found {
            Ok(found) => self.add(found),
            Err(why) => self.note(format!("{kind} could not be listed: {why}")),
        }
    }

    async fn resource(&self, template: &TemplateRef, kind: &str) -> Result<ApiResource, ReadError> {
        let version = &template.api_version;
        let found = self.served.pinned(&self.client, version, kind).await;
        found?.ok_or_else(|| ReadError::NotServed {
            kind: kind.to_owned(),
            version: version.clone(),
        })
    }
}
