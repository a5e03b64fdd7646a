//! The rights of the controller, as the API server reports them.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams};
use rackhand_core::preflight::{OWN_NAMESPACE, RIGHTS, Right, RightFacts, RightsFacts, Role};

use super::CONCURRENT;
use crate::{
    config::Config,
    store::{
        api::{ApiError, call},
        index::Index,
        object::Kind,
    },
};

/// The account of the controller in the shipped manifests.
const ACCOUNT: &str = "rackhand-controller";

/// One query to the API server about a right.
struct Question {
    right: Right,
    namespace: Option<String>,
    attributes: Vec<ResourceAttributes>,
}

/// Asks the API server for the rights of the controller.
pub(super) struct RightsGatherer<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a Config,
    pub(super) index: &'a Index,
}

impl RightsGatherer<'_> {
    /// The rights of the controller: its own rights if it runs this, or else the rights of its account.
    pub(super) async fn gather(&self) -> RightsFacts {
        let own = self.config.lease_namespace.as_str();
        let account = format!("system:serviceaccount:{own}:{ACCOUNT}");
        let mut facts = RightsFacts {
            account: account.clone(),
            ..RightsFacts::default()
        };
        let asks_for_itself = match me(self.client).await {
            Ok(me) => me == account,
            Err(error) => {
                facts.skipped = Some(error.to_string());
                return facts;
            }
        };
        let questions = questions(own, &self.config.lease_name, &self.namespaces());
        let account = account.as_str();
        let asked = questions.into_iter().map(|question| async move {
            let granted = self
                .granted(account, asks_for_itself, &question.attributes)
                .await;
            RightFacts {
                right: question.right,
                namespace: question.namespace,
                granted: granted.map_err(|error| error.to_string()),
            }
        });
        let mut answers = stream::iter(asked).buffered(CONCURRENT);
        while let Some(answer) = answers.next().await {
            facts.rights.push(answer);
        }
        let mut all = facts.rights.iter();
        if !asks_for_itself && all.all(|fact| fact.granted.is_err()) {
            let why = facts.rights.first().and_then(|f| f.granted.clone().err());
            facts.skipped = Some(format!(
                "whoever runs this may not ask for the rights of others ({}); run it in the Pod of the \
                 controller",
                why.unwrap_or_default()
            ));
        }
        facts
    }

    async fn granted(
        &self,
        account: &str,
        itself: bool,
        attributes: &[ResourceAttributes],
    ) -> Result<bool, ApiError> {
        for attributes in attributes {
            let granted = if itself {
                own_right(self.client, attributes.clone()).await?
            } else {
                right_of(self.client, account, attributes.clone()).await?
            };
            if !granted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Namespaces with Clusters or BareMetalHosts, in which Secrets are read.
    fn namespaces(&self) -> BTreeSet<String> {
        let kinds = [Kind::Cluster, Kind::BareMetalHost].into_iter();
        let keys = kinds.flat_map(|kind| self.index.keys(kind));
        keys.map(|key| key.namespace).collect()
    }
}

/// Every right, in each namespace where it is needed.
fn questions(own: &str, lease: &str, namespaces: &BTreeSet<String>) -> Vec<Question> {
    let mut all = Vec::new();
    for right in RIGHTS {
        let within: Vec<Option<String>> = match (right.role, right.namespace) {
            (Role::Secrets, _) => namespaces.iter().cloned().map(Some).collect(),
            (_, Some(OWN_NAMESPACE)) => vec![Some(own.to_owned())],
            (_, namespace) => vec![namespace.map(str::to_owned)],
        };
        for namespace in within {
            all.push(Question {
                right: *right,
                attributes: attributes(right, namespace.as_deref(), lease),
                namespace,
            });
        }
    }
    all
}

fn attributes(right: &Right, namespace: Option<&str>, lease: &str) -> Vec<ResourceAttributes> {
    let mut names: Vec<Option<&str>> = right.names.iter().copied().map(Some).collect();
    if right.role == Role::LeaderElection && !names.is_empty() {
        names = vec![Some(lease)];
    }
    if names.is_empty() {
        names.push(None);
    }
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub)),
        None => (right.resource, None),
    };
    let verbs = right.verbs.iter();
    verbs
        .flat_map(|verb| names.iter().map(move |name| (*verb, *name)))
        .map(|(verb, name)| ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some(verb.to_owned()),
            name: name.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        })
        .collect()
}

/// Name of the account that runs the preflight.
async fn me(client: &Client) -> Result<String, ApiError> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let params = PostParams::default();
    let answer = call("SelfSubjectReview", reviews.create(&params, &review)).await?;
    let user = answer.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

async fn own_right(client: &Client, attributes: ResourceAttributes) -> Result<bool, ApiError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let params = PostParams::default();
    let answer = call("SelfSubjectAccessReview", reviews.create(&params, &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn right_of(
    client: &Client,
    account: &str,
    attributes: ResourceAttributes,
) -> Result<bool, ApiError> {
    let namespace = account.split(':').nth(2).unwrap_or_default();
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let params = PostParams::default();
    let answer = call("SubjectAccessReview", reviews.create(&params, &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_and_name_is_asked_for_where_it_is_needed() {
        let namespaces = ["metal3".to_owned(), "tenant".to_owned()].into();
        let all = questions("operations", "lease", &namespaces);
        let of = |role: Role| all.iter().filter(move |q| q.right.role == role);
        let secrets: Vec<_> = of(Role::Secrets).map(|q| q.namespace.as_deref()).collect();
        assert_eq!(secrets, [Some("metal3"), Some("tenant")]);
        let election: Vec<_> = of(Role::LeaderElection)
            .flat_map(|q| &q.attributes)
            .collect();
        let in_own = |a: &&ResourceAttributes| a.namespace.as_deref() == Some("operations");
        assert!(election.iter().all(in_own));
        let names: Vec<_> = election.iter().map(|a| a.name.as_deref()).collect();
        assert_eq!(names, [None, Some("lease"), Some("lease")]);
        let status = of(Role::Controller).find(|q| q.right.resource == "rackagents/status");
        let status = &status.unwrap().attributes;
        assert_eq!(status.len(), 1);
        assert_eq!(status[0].resource.as_deref(), Some("rackagents"));
        assert_eq!(status[0].subresource.as_deref(), Some("status"));
        let crds = of(Role::Controller).find(|q| q.right.resource == "customresourcedefinitions");
        assert_eq!(crds.unwrap().attributes.len(), 3);
    }
}
