//! Explanations by the leader, and the request for them by the command line.
//!
//! A remediation that runs in this process is explained from the inputs of its last decision, including
//! agents and BMC; everything else is read from the cluster with the controller's rights.

use std::sync::Arc;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use rackhand_core::explanation::explain_remediation;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{CheckGroup, ExplainError, RequestKind, Subject, View, explain_with};
use crate::{
    config::Config,
    remediation::LiveFacts,
    serve::controller_client::{ControllerAddress, controller_client},
    store::{
        object::{Key, Kind},
        request::RequestId,
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
            name: Some(name),
            kind,
        };
        match self {
            Self::Remediation { namespace, name } => remediation(namespace, name, None),
            Self::PowerRemediation { namespace, name } => {
                remediation(namespace, name, Some(RequestKind::PowerRemediation))
            }
            Self::Metal3Remediation { namespace, name } => {
                remediation(namespace, name, Some(RequestKind::Metal3Remediation))
            }
            Self::MachineHealthCheck {
                namespace,
                name,
                group,
            } => Subject::MachineHealthCheck {
                namespace: Some(namespace),
                name: Some(name),
                group,
            },
            Self::NodeHealthCheck { name } => Subject::NodeHealthCheck { name: Some(name) },
        }
    }

    /// Converts a subject to parameters; `None` without a name.
    fn of(subject: &Subject, default_namespace: &str) -> Option<Self> {
        let in_namespace = |namespace: &Option<String>| {
            namespace.as_deref().unwrap_or(default_namespace).to_owned()
        };
        Some(match subject.clone() {
            Subject::Remediation {
                namespace,
                name,
                kind,
            } => {
                let (namespace, name) = (in_namespace(&namespace), name?);
                match kind {
                    None => Self::Remediation { namespace, name },
                    Some(RequestKind::PowerRemediation) => {
                        Self::PowerRemediation { namespace, name }
                    }
                    Some(RequestKind::Metal3Remediation) => {
                        Self::Metal3Remediation { namespace, name }
                    }
                }
            }
            Subject::MachineHealthCheck {
                namespace,
                name,
                group,
            } => Self::MachineHealthCheck {
                namespace: in_namespace(&namespace),
                name: name?,
                group,
            },
            Subject::NodeHealthCheck { name } => Self::NodeHealthCheck { name: name? },
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
            live: Arc::default(),
            leads: watch::channel(false).1,
        }
    }

    /// The inputs of the last decisions of this process.
    pub(crate) fn live(&self) -> &LiveFacts {
        &self.live
    }

    /// The view of this process.
    pub(crate) async fn explain(&self, subject: &Subject) -> Result<View, NoView> {
        if !*self.leads.borrow() {
            return Err(NoView::Standby);
        }
        if let Some(view) = self.running(subject) {
            return Ok(view);
        }
        explain_with(&self.client, &self.config, subject, None)
            .await
            .map_err(NoView::Failed)
    }

    /// The view of a running remediation of this process, if exactly one matches.
    fn running(&self, subject: &Subject) -> Option<View> {
        let Subject::Remediation {
            namespace: Some(namespace),
            name: Some(name),
            kind,
        } = subject
        else {
            return None;
        };
        let kinds = Kind::REQUESTS
            .into_iter()
            .filter(|k| kind.is_none_or(|kind| kind.kind() == *k));
        let mut found = kinds.filter_map(|kind| {
            self.live
                .get(&RequestId::new(kind, Key::new(namespace, name)))
        });
        match (found.next(), found.next()) {
            (Some(facts), None) => Some(View::Remediation(Box::new(explain_remediation(
                &facts,
                Timestamp::now(),
            )))),
            _ => None,
        }
    }
}

/// Requests the view from the controller at an address, as the user of the kubeconfig.
///
/// # Errors
/// The cause why the controller has not answered. The view can then be computed from the cluster.
pub async fn explain_by_leader(
    config: &Config,
    address: &ControllerAddress,
    subject: &Subject,
) -> Result<View, ExplainError> {
    let failed = |why: String| ExplainError::Cluster(format!("{}: {why}", address.url));
    let client = controller_client(config.kubeconfig.as_deref(), address)
        .await
        .map_err(failed)?;
    let question = Question::of(subject, client.default_namespace())
        .ok_or_else(|| ExplainError::Request("name the object".into()))?;
    let query = serde_urlencoded::to_string(&question).map_err(|e| failed(e.to_string()))?;
    let request = Request::get(format!("{EXPLAIN_PATH}?{query}"))
        .body(Vec::new())
        .map_err(|e| failed(e.to_string()))?;
    client
        .request::<View>(request)
        .await
        .map_err(|e| failed(crate::store::api::words(&e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_subject_round_trips_through_url_query() {
        let named = |kind| Subject::Remediation {
            namespace: Some("metal3".into()),
            name: Some("m-1".into()),
            kind,
        };
        let check = |group| Subject::MachineHealthCheck {
            namespace: Some("metal3".into()),
            name: Some("a b&c".into()),
            group,
        };
        for subject in [
            named(None),
            named(Some(RequestKind::PowerRemediation)),
            named(Some(RequestKind::Metal3Remediation)),
            check(None),
            check(Some(CheckGroup::OpenShift)),
            Subject::NodeHealthCheck {
                name: Some("workers".into()),
            },
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
