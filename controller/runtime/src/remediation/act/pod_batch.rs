//! A batch of calls about pods of one Node, which is read live immediately before.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use rackhand_core::remediation::{NodeFacts, Observation, PodRef};

use crate::{
    clusters::node_facts,
    remediation::{
        act::{
            Scope,
            node::{self, TargetNode},
        },
        engine::ReconcileError,
        scope::Memory,
    },
    store::api::{ApiError, call, optional},
};

/// Calls in flight for one remediation, so that others can write beside it.
const IN_FLIGHT: usize = 8;

/// Decides on the Node with this UID, as it was read now, whether anything is done to its pods.
type Check = fn(Option<&NodeFacts>, &str) -> Result<(), &'static str>;

/// The pods of a Node whose live reading justifies the calls. They were listed by the name of the Node.
pub(super) struct PodBatch {
    /// Name of the Node.
    pub(super) node: String,
    what: String,
    client: Client,
}

impl PodBatch {
    /// Reads the Node live (F12). `None` if it does not justify the calls any more: the next observation reads it too.
    pub(super) async fn justified(
        scope: &Scope,
        memory: &mut Memory,
        o: &Observation,
        uid: &str,
        check: Check,
    ) -> Result<Option<Self>, ReconcileError> {
        let TargetNode {
            facts, nodes, what, ..
        } = node::target_node(scope, memory, o)?;
        let name = facts.name.clone();
        let read = optional(call(&what, nodes.get(&name)).await)?;
        let read = read.map(|node| node_facts(&node, None));
        if let Err(why) = check(read.as_ref(), uid) {
            tracing::warn!(remediation = %scope.id, why, "nothing is done to the pods");
            memory.shell.node.forget();
            return Ok(None);
        }
        Ok(Some(Self {
            node: name,
            what,
            client: nodes.into_client(),
        }))
    }

    /// Makes one call for each pod, leadership being checked immediately before, and passes the answers on that come
    /// within `limit`. What was not answered by then is observed again.
    pub(super) async fn send<F, Fut>(
        self,
        scope: &Scope,
        operation: &'static str,
        pods: &[PodRef],
        limit: Duration,
        call: impl Fn(Api<Pod>, PodRef) -> F,
        mut answered: impl FnMut(PodRef, Result<(), ApiError>),
    ) where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let calls = pods.iter().map(|pod| {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
            let what = format!("pod {pod} of {}", self.what);
            let (call, writer) = (call(api, pod.clone()), scope.context.writer.clone());
            let pod = pod.clone();
            async move { (pod, writer.write(operation, what, call).await) }
        });
        let calls: Vec<_> = calls.collect();
        let mut answers = stream::iter(calls).buffer_unordered(IN_FLIGHT);
        let end = tokio::time::Instant::now() + limit;
        while let Ok(Some((pod, answer))) = tokio::time::timeout_at(end, answers.next()).await {
            answered(pod, answer);
        }
    }
}
