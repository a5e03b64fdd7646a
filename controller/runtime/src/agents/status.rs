//! The status of RackAgent objects.
//!
//! Best effort: an agent is used whether or not its object can be written.

use std::sync::Arc;

use kube::{
    Client,
    api::{Patch, PatchParams},
};
use rackhand_api::names::conditions::CONNECTED;
use rackhand_proto::v1;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{ConnectError, journals::SeenJournals};
use crate::{
    leader::writer::Writer,
    store::object::{Key, Kind, Served, api},
};

/// Queues status updates, which a separate task writes.
#[derive(Clone)]
pub(crate) struct AgentStatus {
    updates: mpsc::UnboundedSender<(Key, Value)>,
}

impl AgentStatus {
    /// Returns the handle and the task that writes, which the caller must run.
    pub(crate) fn new(
        client: Client,
        served: Arc<Served>,
        writer: Writer,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (updates, mut waiting) = mpsc::unbounded_channel::<(Key, Value)>();
        let task = async move {
            while let Some((key, status)) = waiting.recv().await {
                let Some(resource) = served.known(Kind::RackAgent) else {
                    continue;
                };
                let objects = api(&client, &resource, "");
                let body = json!({
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "metadata": { "name": key.name },
                    "status": status,
                });
                let name = key.name.clone();
                let written = writer
                    .write(
                        "agent_status",
                        format!("status of RackAgent {name}"),
                        move || async move {
                            let apply = PatchParams::apply("rackhand-agent-status").force();
                            objects
                                .patch_status(&name, &apply, &Patch::Apply(&body))
                                .await
                                .map(drop)
                        },
                    )
                    .await;
                if let Err(error) = written {
                    tracing::debug!(%error, "the status of an agent could not be written");
                }
            }
        };
        (Self { updates }, task)
    }

    pub(super) fn mark_ready(
        &self,
        key: &Key,
        rack: &str,
        term: u64,
        standby: bool,
        hosts: &[v1::Host],
        journals: &SeenJournals,
    ) {
        let condition = if standby {
            let message = "the agent answers, our term is claimed, and it stands by: another agent serves the rack";
            condition("True", "Standby", message)
        } else {
            condition(
                "True",
                "Connected",
                "the agent answers, and our term is claimed",
            )
        };
        let insecure = hosts.iter().filter(|h| h.insecure).count();
        let status = json!({
            "rack": rack,
            "hosts": hosts.len(),
            "insecureHosts": insecure,
            "term": term,
            "lastSeen": jiff::Timestamp::now().to_string(),
            "conditions": [condition],
            "journals": journals.as_slice(),
        });
        self.updates.send((key.clone(), status)).ok();
    }

    pub(super) fn mark_disconnected(&self, key: &Key, why: &ConnectError, journals: &SeenJournals) {
        let condition = condition("False", why.reason(), &why.to_string());
        // The apply removes every field that is missing here.
        let status = json!({ "conditions": [condition], "journals": journals.as_slice() });
        self.updates.send((key.clone(), status)).ok();
    }
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": CONNECTED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": jiff::Timestamp::now().to_string(),
    })
}
