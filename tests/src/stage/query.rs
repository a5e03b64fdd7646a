//! Reads of objects, like with kubectl.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::{NAMESPACE, Stage};

/// Key of the out-of-service taint.
pub const TAINT: &str = "node.kubernetes.io/out-of-service";

const POLL: Duration = Duration::from_millis(50);

/// Polls until the condition holds; a failed read is repeated.
///
/// # Errors
/// The condition does not hold in time; the message contains the last state.
pub async fn wait_until<T, F, Fut>(what: &str, within: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Result<T, String>>>,
{
    let deadline = Instant::now() + within;
    let mut last;
    loop {
        match look().await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => last = seen,
            Err(error) => last = format!("{error:#}"),
        }
        if Instant::now() > deadline {
            bail!("not within {within:?}: {what}; last seen: {last}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether condition Ready is True.
#[must_use]
pub fn is_ready(node: &Node) -> bool {
    ready(node) == "True"
}

/// The status of condition Ready.
#[must_use]
pub fn ready(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|c| c.type_ == "Ready");
    found.map_or_else(|| "none".to_owned(), |c| c.status.clone())
}

/// The state of a remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// `status.phase`.
    pub phase: String,
    /// Rackhand's step.
    pub step: String,
    /// Rackhand's reason.
    pub reason: String,
    /// Rackhand's message.
    pub message: String,
    /// The whole object.
    pub object: Value,
}

impl Seen {
    /// Reads a Metal3Remediation.
    ///
    /// # Errors
    /// It cannot be represented as JSON.
    pub fn of(object: &DynamicObject) -> Result<Self> {
        let annotation = object.annotations().get("rackhand.dev/state").cloned();
        let ours: Value = annotation
            .and_then(|a| serde_json::from_str(&a).ok())
            .unwrap_or_default();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            phase: text(&object.data["status"]["phase"]),
            step: text(&ours["state"]["step"]),
            reason: text(&ours["reason"]),
            message: text(&ours["message"]),
            object: serde_json::to_value(object)?,
        })
    }
}

impl Stage {
    /// A dynamic API in the namespace of the Machines.
    #[must_use]
    pub fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// API of the Metal3Remediations.
    #[must_use]
    pub fn remediations(&self) -> Api<DynamicObject> {
        self.api(
            "infrastructure.cluster.x-k8s.io",
            "v1beta1",
            "Metal3Remediation",
        )
    }

    /// API of the RemediationStates.
    #[must_use]
    pub fn remediation_states(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("rackhand.dev", "v1alpha1", "RemediationState");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// What is recorded about a Machine's remediation.
    ///
    /// # Errors
    /// There is no remediation, or nothing is recorded about it.
    pub async fn recorded(&self, machine: &str) -> Result<DynamicObject> {
        let uid = self.remediations().get(machine).await?.uid();
        Ok(self
            .remediation_states()
            .get(&uid.unwrap_or_default())
            .await?)
    }

    /// Replaces what is recorded about a Machine's remediation, as an administrator could.
    ///
    /// # Errors
    /// There is no remediation, or nothing is recorded about it.
    pub async fn replace_recorded(&self, machine: &str, state: Value) -> Result<()> {
        let mut object = self.recorded(machine).await?;
        object.data["spec"]["state"] = state;
        let name = object.name_any();
        let states = self.remediation_states();
        states
            .replace(&name, &PostParams::default(), &object)
            .await?;
        Ok(())
    }

    /// API of the Machines.
    #[must_use]
    pub fn machines(&self) -> Api<DynamicObject> {
        self.api("cluster.x-k8s.io", "v1beta1", "Machine")
    }

    /// A Machine's remediation, if there is one.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn remediation(&self, machine: &str) -> Result<Option<Seen>> {
        let object = self.remediations().get_opt(machine).await?;
        object.as_ref().map(Seen::of).transpose()
    }

    /// Reads a Node.
    ///
    /// # Errors
    /// The Node does not exist.
    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone()).get(name).await?)
    }

    /// Whether a Node has the out-of-service taint.
    ///
    /// # Errors
    /// The Node does not exist.
    pub async fn tainted(&self, name: &str) -> Result<bool> {
        let node = self.node(name).await?;
        let taints = node.spec.and_then(|s| s.taints).unwrap_or_default();
        Ok(taints.iter().any(|t| t.key == TAINT))
    }

    /// The pods of the workload.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        Ok(pods
            .list(&ListParams::default().labels("app=db"))
            .await?
            .items)
    }

    /// The Events about objects of a name, oldest first.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn events(&self, name: &str) -> Result<Vec<Event>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut list: Vec<Event> = events
            .list(&ListParams::default())
            .await?
            .into_iter()
            .filter(|e| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name))
            .collect();
        list.sort_by_key(|e| e.event_time.as_ref().map(|t| t.0));
        Ok(list)
    }
}
