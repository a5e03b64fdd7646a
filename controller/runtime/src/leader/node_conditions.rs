//! Conditions of Nodes that Rackhand owns.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::writer::Writer;
use crate::store::{api::ApiError, index::Index, object::Key};

/// A condition to write.
pub(crate) struct NewCondition<'a> {
    pub(crate) condition_type: &'static str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Writes a condition to the status of a Node, and the answer to the index. `client` is that of
/// its cluster, and `manager` owns this condition and no other part of the status.
///
/// # Errors
/// The API server refuses the write or does not answer, or this process does not lead.
pub(crate) async fn write(
    (writer, client, index): (&Writer, Client, &Index),
    (cluster, name): (&Key, &str),
    manager: &str,
    condition: &NewCondition<'_>,
) -> Result<(), ApiError> {
    let condition_type = condition.condition_type;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({ "apiVersion": "v1", "kind": "Node", "status": { "conditions": [{
        "type": condition_type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }] } });
    let nodes: Api<Node> = Api::all(client);
    let what = format!("condition {condition_type} of node {name} of cluster {cluster}");
    let (patched, params) = (name.to_owned(), PatchParams::apply(manager).force());
    let node = writer
        .write("node condition", what, move || async move {
            let patch = Patch::Apply(body);
            nodes.patch_status(&patched, &params, &patch).await
        })
        .await?;
    index.apply_node(cluster, node);
    Ok(())
}
