//! Reads from the cluster what an explanation of a health check needs, with the rights of whoever asks.
//!
//! Must never write, nor fail for a part that cannot be read where the rest still says something.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use rackhand_api::views::{MachineHealthCheckView, OpenShiftHealthCheckView, TemplateRef};

use super::{
    ExplainError,
    group::CheckGroup,
    health::CheckExplanation,
    health_scene::{Surroundings, explain_in, several, which},
    live::{crd, listed, other_time},
};
use crate::{
    api::{call, management_client, optional, words},
    checks::openshift_controllers,
    cluster::client_of,
    config::Config,
    object::{Key, Kind, Served, api},
};

/// Explains a health check of the cluster that the kubeconfig names; of whichever group there is one,
/// where none is named.
///
/// # Errors
/// The cluster cannot be asked, or there is no such check, or one of each group.
pub async fn explain_check_cluster(
    config: &Config,
    namespace: Option<&str>,
    name: &str,
    group: Option<CheckGroup>,
    at: Option<Timestamp>,
) -> Result<CheckExplanation, ExplainError> {
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| ExplainError::Cluster(e.to_string()))?;
    let namespace = namespace
        .unwrap_or_else(|| client.default_namespace())
        .to_owned();
    let mut look = Look {
        client,
        served: Served::default(),
        key: Key::new(&namespace, name),
        around: Surroundings::default(),
    };
    let (group, check) = look.find(group).await?;
    match group {
        CheckGroup::ClusterApi => look.cluster_api(&check).await?,
        CheckGroup::OpenShift => look.openshift(&check).await?,
    }
    let Look {
        client,
        key,
        mut around,
        ..
    } = look;
    around.seen.objects.push(check);
    match crd(&client, group.crd()).await {
        Ok(crd) => around.seen.objects.push(crd),
        Err(why) => around.notes.push(why),
    }
    let now = Timestamp::now();
    if let Some(at) = at {
        around.notes.push(other_time(at, now));
    }
    explain_in(group, &key, &around, config, at.unwrap_or(now))
}

/// What is asked, and what was found.
struct Look {
    client: Client,
    served: Served,
    key: Key,
    around: Surroundings,
}

// === impl Look ===

impl Look {
    /// The check, or which others there are.
    async fn find(
        &mut self,
        group: Option<CheckGroup>,
    ) -> Result<(CheckGroup, DynamicObject), ExplainError> {
        let wanted = |of: &CheckGroup| group.is_none_or(|group| group == *of);
        let (mut found, mut resources, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for of in CheckGroup::ALL.into_iter().filter(wanted) {
            match self.get(of).await {
                Ok(Some((resource, check))) => {
                    found.extend(check.map(|check| (of, check)));
                    resources.push((of, resource));
                }
                Ok(None) => {}
                Err(why) => unread.push(why),
            }
        }
        if found.len() > 1 {
            return Err(several(&self.key));
        }
        if let Some(found) = found.pop() {
            for why in unread {
                let note =
                    format!("whether there is another check of this name is not known: {why}");
                self.around.notes.push(note);
            }
            return Ok(found);
        }
        if let Some(why) = unread.pop() {
            return Err(ExplainError::Cluster(why));
        }
        if resources.is_empty() {
            let groups = group.map_or(CheckGroup::ALL.to_vec(), |group| vec![group]);
            let groups: Vec<&str> = groups.into_iter().map(CheckGroup::name).collect();
            return Err(ExplainError::Cluster(format!(
                "this cluster serves no MachineHealthCheck of {}",
                groups.join(" or ")
            )));
        }
        let Key { namespace, name } = &self.key;
        let mut others = self.names(&resources, namespace).await;
        let mut target = "there";
        if others.is_empty() {
            others = self.names(&resources, "").await;
            target = "in all namespaces";
        }
        Err(ExplainError::Request(format!(
            "there is no MachineHealthCheck {name} in namespace {namespace}; {target} {}",
            which(&others)
        )))
    }

    /// The check of this group, where the group is served.
    async fn get(
        &self,
        group: CheckGroup,
    ) -> Result<Option<(ApiResource, Option<DynamicObject>)>, String> {
        let kind = group.kind();
        let served = self.served.find(&self.client, kind.group(), kind.kind());
        let Some(resource) = served.await.map_err(|e| words(&e))? else {
            return Ok(None);
        };
        let what = format!("{} {} of {}", kind.kind(), self.key, kind.group());
        let asked = api(&self.client, &resource, &self.key.namespace);
        let found = optional(call(&what, asked.get(&self.key.name)).await);
        Ok(Some((resource, found.map_err(|e| e.to_string())?)))
    }

    /// The checks of a namespace, or of all; none where they cannot be listed.
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

    /// What a check of Cluster API looks at.
    async fn cluster_api(&mut self, check: &DynamicObject) -> Result<(), ExplainError> {
        let Ok(view) = MachineHealthCheckView::from_dynamic(check) else {
            return Ok(());
        };
        let namespace = self.key.namespace.clone();
        // Without its Machines nothing can be said; what else is missing is said.
        self.needed(Kind::Machine).await?;
        self.needed(Kind::Cluster).await?;
        let cluster = Key::new(&namespace, view.cluster_name.clone().unwrap_or_default());
        let nodes = async {
            let (client, _) = client_of(&self.client, &cluster).await?;
            nodes(client).await
        };
        match nodes.await {
            Ok(nodes) => self.around.seen.nodes = nodes,
            Err(why) => self.no_nodes("the workload cluster cannot be asked from here", why),
        }
        self.others(Kind::MachineHealthCheck).await;
        if let Some(template) = &view.remediation_template {
            self.requests(template).await;
        }
        Ok(())
    }

    /// What a check of OpenShift looks at: its Machines and their Nodes lie in this very cluster.
    async fn openshift(&mut self, check: &DynamicObject) -> Result<(), ExplainError> {
        let Ok(view) = OpenShiftHealthCheckView::from_dynamic(check) else {
            return Ok(());
        };
        self.needed(Kind::OpenShiftMachine).await?;
        match nodes(self.client.clone()).await {
            Ok(nodes) => self.around.seen.nodes = nodes,
            Err(why) => self.no_nodes("the Nodes cannot be listed", why),
        }
        self.others(Kind::OpenShiftCheck).await;
        match &view.remediation_template {
            Some(template) => self.requests(template).await,
            None if view.external_baremetal => {
                self.wished(Kind::PowerRemediation, &self.key.namespace.clone())
                    .await;
                // A host may lie in any namespace.
                self.wished(Kind::BareMetalHost, "").await;
                let installed = openshift_controllers(&self.client).await;
                if let Err(why) = &installed {
                    self.around.notes.push(why.clone());
                }
                self.around.controllers = Some(installed);
            }
            None => {}
        }
        Ok(())
    }

    fn no_nodes(&mut self, what: &str, why: String) {
        self.around.notes.push(format!("{what}: {why}"));
        self.around.seen.down = Some(why);
    }

    /// The objects of a kind, without which nothing can be said.
    async fn needed(&mut self, kind: Kind) -> Result<(), ExplainError> {
        let found = of_kind(&self.client, &self.served, kind, &self.key.namespace).await;
        let found = found.map_err(|why| {
            ExplainError::Cluster(format!("{}s could not be listed: {why}", kind.kind()))
        })?;
        self.around.seen.objects.extend(found);
        Ok(())
    }

    /// The objects of a kind, where they can be read.
    async fn wished(&mut self, kind: Kind, namespace: &str) {
        match of_kind(&self.client, &self.served, kind, namespace).await {
            Ok(found) => self.around.seen.objects.extend(found),
            Err(why) => self
                .around
                .notes
                .push(format!("{}s could not be listed: {why}", kind.kind())),
        }
    }

    /// The other checks of the namespace: one of them may act in place of this one. Requests of theirs
    /// count where they are of the kind of this check's.
    async fn others(&mut self, kind: Kind) {
        let (key, around) = (&self.key, &mut self.around);
        match of_kind(&self.client, &self.served, kind, &key.namespace).await {
            Ok(found) => {
                let other = |object: &DynamicObject| Key::of(object) != *key;
                around.seen.objects.extend(found.into_iter().filter(other));
            }
            Err(why) => around.notes.push(format!(
                "whether another check acts for its machines is not known: {why}"
            )),
        }
    }

    /// The requests, and whether the template is there at all.
    async fn requests(&mut self, template: &TemplateRef) {
        let Self {
            client,
            served,
            key: Key { namespace, .. },
            around,
        } = self;
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

async fn nodes(client: Client) -> Result<Vec<Node>, String> {
    let nodes: Api<Node> = Api::all(client);
    let listed = call("Nodes", nodes.list(&ListParams::default())).await;
    listed.map(|list| list.items).map_err(|e| e.to_string())
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
