//! Explanations by the leader, and the parameters of a request for them.
//!
//! A remediation is explained from the inputs of the last decision about it in this process, including agents
//! and BMC. The objects of a health check are read from the cluster with the controller's rights.

use std::sync::Arc;

use kube::{Client, api::DynamicObject};
use rackhand_core::explanation::RemediationView;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::{CheckGroup, CheckSubject, ExplainError, RemediationKind, Subject, View, explain_with};
use crate::{
    config::Config,
    remediation::LiveFacts,
    store::{
        clock,
        index::Index,
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// Path of the explanations, for which a caller needs the verb `get`.
pub(crate) const EXPLAIN_PATH: &str = "/explain";

/// The requested subject, as parameters of the URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(crate) enum Question {
    PowerRemediation {
        namespace: String,
        name: String,
    },
    Metal3Remediation {
        namespace: String,
        name: String,
    },
    /// A remediation of either kind.
    Remediation {
        namespace: String,
        name: String,
    },
    MachineHealthCheck {
        namespace: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<CheckGroup>,
    },
    NodeHealthCheck {
        name: String,
    },
}

/// Computes explanations in the controller process.
pub(crate) struct Explainer {
    pub(crate) client: Client,
    pub(crate) config: Config,
    pub(crate) index: Arc<Index>,
    pub(crate) live: Arc<LiveFacts>,
    /// Whether this process leads.
    pub(crate) leads: watch::Receiver<bool>,
}

/// Why there is no view.
#[derive(Debug)]
pub(crate) enum NoView {
    /// This process does not lead.
    Standby,
    Failed(ExplainError),
}

// === impl Question ===

impl Question {
    /// Converts the parameters to a subject.
    pub(crate) fn subject(self) -> Subject {
        let remediation = |namespace, name, kind| Subject::Remediation {
            namespace: Some(namespace),
            name,
            kind,
        };
        match self {
            Self::Remediation { namespace, name } => remediation(namespace, name, None),
            Self::PowerRemediation { namespace, name } => {
                remediation(namespace, name, Some(RemediationKind::PowerRemediation))
            }
            Self::Metal3Remediation { namespace, name } => {
                remediation(namespace, name, Some(RemediationKind::Metal3Remediation))
            }
            Self::MachineHealthCheck {
                namespace,
                name,
                group,
            } => Subject::Check(CheckSubject::Machines {
                namespace: Some(namespace),
                name: Some(name),
                group,
            }),
            Self::NodeHealthCheck { name } => {
                Subject::Check(CheckSubject::Nodes { name: Some(name) })
            }
        }
    }

    /// Converts a subject to parameters; `None` without a name.
    pub(crate) fn of(subject: &Subject, default_namespace: &str) -> Option<Self> {
        let in_namespace = |namespace: &Option<String>| {
            namespace.as_deref().unwrap_or(default_namespace).to_owned()
        };
        Some(match subject.clone() {
            Subject::Remediation {
                namespace,
                name,
                kind,
            } => {
                let namespace = in_namespace(&namespace);
                match kind {
                    None => Self::Remediation { namespace, name },
                    Some(RemediationKind::PowerRemediation) => {
                        Self::PowerRemediation { namespace, name }
                    }
                    Some(RemediationKind::Metal3Remediation) => {
                        Self::Metal3Remediation { namespace, name }
                    }
                }
            }
            Subject::Check(CheckSubject::Machines {
                namespace,
                name,
                group,
            }) => Self::MachineHealthCheck {
                namespace: in_namespace(&namespace),
                name: name?,
                group,
            },
            Subject::Check(CheckSubject::Nodes { name }) => Self::NodeHealthCheck { name: name? },
        })
    }
}

// === impl Explainer ===

impl Explainer {
    /// An explainer of a process on standby.
    #[cfg(test)]
    pub(crate) fn standby(client: Client) -> Self {
        Self {
            client,
            config: Config::default(),
            index: Arc::new(Index::new(Vec::new())),
            live: Arc::default(),
            leads: watch::channel(false).1,
        }
    }

    /// The inputs of the last decisions of this process.
    pub(crate) fn live(&self) -> Arc<LiveFacts> {
        self.live.clone()
    }

    /// The view of this process.
    pub(crate) async fn explain(&self, subject: &Subject) -> Result<View, NoView> {
        if !*self.leads.borrow() {
            return Err(NoView::Standby);
        }
        let view = match subject {
            Subject::Remediation {
                namespace,
                name,
                kind,
            } => self
                .remediation(namespace.as_deref().unwrap_or_default(), name, *kind)
                .map(|view| View::Remediation(Box::new(view))),
            Subject::Check(check) => explain_with(&self.client, &self.config, check, None)
                .await
                .map(|view| View::Check(Box::new(view))),
        };
        view.map_err(NoView::Failed)
    }

    /// The view of a remediation by the engine's clock, whatever the wall clock is set to.
    fn view(&self, id: &RemediationId) -> Option<RemediationView> {
        self.live
            .view(id, clock::monotonic_now(), clock::wall_ahead())
    }

    /// The view of a remediation, from the inputs of the last decision about it.
    fn remediation(
        &self,
        namespace: &str,
        name: &str,
        kind: Option<RemediationKind>,
    ) -> Result<RemediationView, ExplainError> {
        let kinds = Kind::REMEDIATIONS.into_iter();
        let mut found = kinds
            .filter(|of| kind.is_none_or(|kind| kind.kind() == *of))
            .filter_map(|of| {
                let id = RemediationId::new(of, Key::new(namespace, name));
                Some((self.index.remediation(&id)?.object, id))
            });
        let because = match (found.next(), found.next()) {
            (Some((object, id)), None) => match self.view(&id) {
                Some(view) => return Ok(view),
                None => format!("the leader has not decided about {id}{}", recorded(&object)),
            },
            (None, _) => format!(
                "there is no remediation {name} in namespace {namespace}; it may be finished, since a health \
                 check deletes it once the node is healthy"
            ),
            _ => format!(
                "there are remediations {name} of both kinds in namespace {namespace}; select one by --kind"
            ),
        };
        Err(ExplainError::Request(because))
    }
}

/// What the controller wrote last about a remediation that it cannot evaluate.
fn recorded(object: &DynamicObject) -> String {
    let message = object
        .data
        .pointer("/status/message")
        .and_then(Value::as_str);
    match message {
        Some(message) => format!("; its status reports: {message}"),
        None => " yet, and it has no status; `kubectl describe` shows its Events".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_subject_round_trips_through_url_query() {
        let named = |kind| Subject::Remediation {
            namespace: Some("metal3".into()),
            name: "m-1".into(),
            kind,
        };
        let check = |group| {
            Subject::Check(CheckSubject::Machines {
                namespace: Some("metal3".into()),
                name: Some("a b&c".into()),
                group,
            })
        };
        for subject in [
            named(None),
            named(Some(RemediationKind::PowerRemediation)),
            named(Some(RemediationKind::Metal3Remediation)),
            check(None),
            check(Some(CheckGroup::OpenShift)),
            Subject::Check(CheckSubject::Nodes {
                name: Some("workers".into()),
            }),
        ] {
            let question = Question::of(&subject, "default").unwrap();
            let query = serde_urlencoded::to_string(&question).unwrap();
            let uri: http::Uri = format!("{EXPLAIN_PATH}?{query}").parse().unwrap();
            let axum::extract::Query(read) = axum::extract::Query::try_from_uri(&uri).unwrap();
            assert_eq!(question, read, "{query}");
            assert_eq!(read.subject(), subject, "{query}");
        }
    }
}
