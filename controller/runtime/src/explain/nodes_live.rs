//! Reads from the cluster what an explanation of a check of Nodes needs, with the rights of whoever asks.
//!
//! Must never write, nor fail for a part that cannot be read where the rest still says something.

use jiff::Timestamp;
use kube::{Client, ResourceExt, api::DynamicObject, core::ApiResource};
use rackhand_api::{
    names::{MEDIK8S_LEASE_NAMESPACE, groups, kinds},
    views::NodeTemplateRef,
};

use super::{
    ExplainError,
    live::{builtin, crd, listed, named, other_time},
    nodes::{NodesExplanation, explain_nodes},
    nodes_scene::{Surroundings, checks, references, scene},
};
use crate::{
    api::{call, management_client, optional, words},
    checks::{
        NODE_CHECK_CRD,
        nodes::{Fact, name_of},
    },
    config::Config,
    object::{Served, api},
};

/// Explains a check of Nodes of the cluster that the kubeconfig names.
///
/// # Errors
/// The cluster cannot be asked, or there is no such check.
pub async fn explain_nodes_cluster(
    config: &Config,
    name: &str,
    at: Option<Timestamp>,
) -> Result<NodesExplanation, ExplainError> {
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| ExplainError::Cluster(e.to_string()))?;
    let mut cluster = Cluster {
        client,
        served: Served::default(),
        around: Surroundings::default(),
    };
    cluster.checks(name).await?;
    cluster
        .read("Nodes", &builtin("", "v1", "Node"), "", true)
        .await?;
    for reference in references(&cluster.around) {
        cluster.of_template(&reference).await;
    }
    let leases = builtin("coordination.k8s.io", "v1", "Lease");
    cluster
        .read("Leases", &leases, MEDIK8S_LEASE_NAMESPACE, false)
        .await?;
    for fact in Fact::ALL {
        cluster.fact(fact).await;
    }
    cluster.crd().await;
    let now = Timestamp::now();
    let mut around = cluster.around;
    if let Some(at) = at {
        around.notes.push(other_time(at, now));
    }
    let at = at.unwrap_or(now);
    Ok(explain_nodes(
        &scene(name, &around, config.health_checks, at)?,
        at,
    ))
}

struct Cluster {
    client: Client,
    served: Served,
    around: Surroundings,
}

impl Cluster {
    /// Lists a kind. Without one that is `needed` nothing can be said.
    async fn read(
        &mut self,
        what: &str,
        resource: &ApiResource,
        namespace: &str,
        needed: bool,
    ) -> Result<(), ExplainError> {
        match listed(&self.client, resource, namespace).await {
            Ok(found) => self.around.objects.extend(found),
            Err(why) if needed => {
                return Err(ExplainError::Cluster(format!(
                    "{what} could not be listed: {why}"
                )));
            }
            Err(why) => self
                .around
                .notes
                .push(format!("{what} could not be listed: {why}")),
        }
        Ok(())
    }

    /// All checks, this one among them: others may remediate the same Nodes.
    async fn checks(&mut self, name: &str) -> Result<(), ExplainError> {
        let kind = kinds::NODE_HEALTH_CHECK;
        let found = self.served.find(&self.client, groups::MEDIK8S, kind).await;
        let found = found.map_err(|e| ExplainError::Cluster(words(&e)))?;
        let resource = found.ok_or_else(|| {
            ExplainError::Cluster(format!(
                "this cluster serves no {kind} of {}",
                groups::MEDIK8S
            ))
        })?;
        self.read("NodeHealthChecks", &resource, "", true).await?;
        let all = checks(&self.around);
        if all.iter().any(|known| known == name) {
            return Ok(());
        }
        let others = match all.is_empty() {
            true => "there are none".to_owned(),
            false => format!("there are: {}", all.join(", ")),
        };
        Err(ExplainError::Request(format!(
            "there is no {kind} {name}; {others}"
        )))
    }

    /// A template, and the remediations of its kind.
    async fn of_template(&mut self, reference: &NodeTemplateRef) {
        let (version, namespace) = (&reference.api_version, &reference.namespace);
        match self
            .served
            .pinned(&self.client, version, &reference.kind)
            .await
        {
            Ok(Some(resource)) => {
                let what = name_of(reference);
                let templates = api(&self.client, &resource, namespace);
                match optional(call(&what, templates.get(&reference.name)).await) {
                    Ok(found) => {
                        let found = found.map(|object| named(object, &resource));
                        self.around.objects.extend(found);
                    }
                    Err(error) => self.around.notes.push(error.to_string()),
                }
            }
            Ok(None) => {}
            Err(error) => self.around.notes.push(words(&error)),
        }
        let kind = reference.request_kind();
        match self.served.pinned(&self.client, version, kind).await {
            Ok(Some(resource)) => match listed(&self.client, &resource, namespace).await {
                Ok(found) => {
                    let known = |object: &DynamicObject| {
                        let mut all = self.around.objects.iter();
                        all.any(|o| o.metadata.uid == object.metadata.uid && object.uid().is_some())
                    };
                    let new: Vec<_> = found.into_iter().filter(|o| !known(o)).collect();
                    self.around.objects.extend(new);
                }
                Err(why) => self
                    .around
                    .notes
                    .push(format!("{kind} could not be listed: {why}")),
            },
            Ok(None) => {
                self.around
                    .not_served
                    .insert(format!("{kind} of {version}"));
            }
            Err(error) => self.around.notes.push(words(&error)),
        }
    }

    async fn fact(&mut self, fact: Fact) {
        let found = self
            .served
            .find(&self.client, fact.group(), fact.kind())
            .await;
        match found {
            Ok(Some(resource)) => match listed(&self.client, &resource, "").await {
                Ok(found) => self.around.objects.extend(found),
                Err(why) => {
                    let what = format!("{} of OpenShift could not be listed: {why}", fact.kind());
                    self.around.notes.push(what);
                }
            },
            Ok(None) => {}
            Err(error) => self.around.notes.push(words(&error)),
        }
    }

    async fn crd(&mut self) {
        match crd(&self.client, NODE_CHECK_CRD).await {
            Ok(crd) => self.around.objects.push(crd),
            Err(why) => self.around.notes.push(why),
        }
    }
}
