//! Reader of the objects for the view of a NodeHealthCheck.

use rackhand_api::{
    names::{MEDIK8S_LEASE_NAMESPACE, groups, kinds},
    views::NodeTemplateRef,
};

use super::{Reader, builtin, listed};
use crate::{
    checks::{
        NODE_CHECK_CRD,
        nodes::{Fact, name_of},
    },
    serve::explain::{ExplainError, Found, nodes},
    store::{api::words, object::Key},
};

// === impl Reader ===

impl Reader {
    /// Reads the check and all objects that its decisions depend on.
    pub(super) async fn node_check(&mut self, name: &str) -> Result<Found, ExplainError> {
        self.node_checks(name).await?;
        let client = self.client.clone();
        self.nodes(&client)
            .await
            .map_err(|why| ExplainError::Cluster(format!("Nodes could not be listed: {why}")))?;
        for reference in nodes::references(&self.snapshot) {
            self.template(&reference).await;
        }
        let leases = builtin("coordination.k8s.io", "v1", "Lease");
        match listed(&self.client, &leases, MEDIK8S_LEASE_NAMESPACE).await {
            Ok(found) => self.add(found),
            Err(why) => self.note(format!("Leases could not be listed: {why}")),
        }
        for fact in Fact::ALL {
            self.openshift_fact(fact).await;
        }
        self.crd(NODE_CHECK_CRD).await;
        Ok(Found::Nodes(name.to_owned()))
    }

    /// All checks, because others may remediate the same Nodes.
    async fn node_checks(&mut self, name: &str) -> Result<(), ExplainError> {
        let kind = kinds::NODE_HEALTH_CHECK;
        let found = self.served.find(&self.client, groups::MEDIK8S, kind).await;
        let found = found.map_err(|e| ExplainError::Cluster(words(&e)))?;
        let resource = found.ok_or_else(|| {
            ExplainError::Cluster(format!(
                "this cluster serves no {kind} of {}",
                groups::MEDIK8S
            ))
        })?;
        let found = listed(&self.client, &resource, "").await;
        let found = found
            .map_err(|why| ExplainError::Cluster(format!("{kind}s could not be listed: {why}")))?;
        self.add(found);
        let all = nodes::checks(&self.snapshot);
        if all.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(ExplainError::Request(format!(
            "there is no {kind} {name}; {}",
            nodes::existing(&all)
        )))
    }

    /// A template, and the remediations of its kind.
    async fn template(&mut self, reference: &NodeTemplateRef) {
        let (version, namespace) = (&reference.api_version, &reference.namespace);
        let (client, kind) = (self.client.clone(), &reference.kind);
        match self.served.pinned(&client, version, kind).await {
            Ok(Some(resource)) => {
                let key = Key::new(namespace, &reference.name);
                match self.get(&resource, &name_of(reference), &key).await {
                    Ok(found) => self.add(found),
                    Err(error) => self.note(error.to_string()),
                }
            }
            Ok(None) => {}
            Err(error) => self.note(words(&error)),
        }
        let kind = reference.remediation_kind();
        match self.served.pinned(&client, version, kind).await {
            Ok(Some(resource)) => match listed(&client, &resource, namespace).await {
                Ok(found) => self.add(found),
                Err(why) => self.note(format!("{kind} could not be listed: {why}")),
            },
            Ok(None) => {
                let not_served = format!("{kind} of {version}");
                self.snapshot.not_served.insert(not_served);
            }
            Err(error) => self.note(words(&error)),
        }
    }

    async fn openshift_fact(&mut self, fact: Fact) {
        let client = self.client.clone();
        match self.served.find(&client, fact.group(), fact.kind()).await {
            Ok(Some(resource)) => match listed(&client, &resource, "").await {
                Ok(found) => self.add(found),
                Err(why) => {
                    let kind = fact.kind();
                    self.note(format!("{kind} of OpenShift could not be listed: {why}"));
                }
            },
            Ok(None) => {}
            Err(error) => self.note(words(&error)),
        }
    }
}
