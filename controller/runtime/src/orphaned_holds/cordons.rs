//! Cordons of Nodes for remediations that are gone.
//!
//! A remediation removes its cordon before it ends. One that was moved, restored or deleted without its finalizer leaves
//! it, and a healthy Node would never take a pod again. The mark on the Node names the remediation. Where somebody else
//! has uncordoned the Node, or cordoned it since, the mark alone is left: it is removed too, for it would call a later
//! cordon ours.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::CORDONED_BY_ANNOTATION;
use rackhand_core::remediation::{LeftCordon, left_cordon};
use tokio::time::Instant;

use super::OrphanedHolds;
use crate::{
    clusters::{cordon_patch, node_facts, node_label, unmark_patch},
    store::{
        api::{ApiError, call, optional},
        live_remediations::find_gone,
        object::Key,
        time_slice::beside_all,
    },
};

/// Interval of looking at the marks of all Nodes. It needs no call while every mark is of a known remediation.
const INTERVAL: Duration = Duration::from_secs(30);

/// What is remembered between two searches.
#[derive(Default)]
pub(super) struct Search {
    last: Option<Instant>,
}

impl Search {
    /// Looks at every Node once, if that is due.
    pub(super) async fn run(&mut self, context: &OrphanedHolds) -> Result<(), ApiError> {
        if self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let remediations = context.index.remediations().into_iter();
        let known: BTreeSet<String> = remediations
            .filter_map(|(_, entry)| entry.object.uid())
            .collect();
        let mut marked = beside_all(|| context.index.annotated_nodes(CORDONED_BY_ANNOTATION));
        marked.retain(|(_, _, uid)| !known.contains(uid));
        let uids: BTreeSet<String> = marked.iter().map(|(_, _, uid)| uid.clone()).collect();
        // Listed after the Nodes were read: a remediation exists before it cordons one.
        let gone = find_gone(&context.client, &context.served, uids).await?;
        for (cluster, name, uid) in marked {
            if !gone.contains(&uid) {
                continue;
            }
            if let Err(error) = uncordon(context, &cluster, &name, &uid).await {
                tracing::warn!(%cluster, node = name, %error, "an orphaned cordon is not removed; trying again");
            }
        }
        Ok(())
    }
}

async fn uncordon(
    context: &OrphanedHolds,
    cluster: &Key,
    name: &str,
    gone: &str,
) -> Result<(), ApiError> {
    let what = format!("node {}", node_label(cluster, name));
    let client = context.workloads.get(cluster);
    let client = client.ok_or_else(|| ApiError::other(&what, "its cluster is not connected"))?;
    let nodes: Api<Node> = Api::all(client.client.clone());
    let Some(node) = optional(call(&what, nodes.get(name)).await)? else {
        return Ok(());
    };
    let mark = node.annotations().get(CORDONED_BY_ANNOTATION);
    let cordon = node_facts(&node, None).cordon;
    let Some(left) = left_cordon(&cordon, mark.map(String::as_str), gone) else {
        return Ok(());
    };
    let body = match left {
        LeftCordon::Cordon => cordon_patch(&node, None),
        LeftCordon::Mark => unmark_patch(&node),
    };
    let name = name.to_owned();
    let patched = context
        .writer
        .write("uncordon", what.clone(), move || async move {
            let patch = Patch::Merge(body);
            nodes.patch(&name, &PatchParams::default(), &patch).await
        })
        .await?;
    context.index.apply_node(cluster, patched);
    tracing::info!(
        node = what,
        remediation = gone,
        ?left,
        "removed what a remediation that is gone has left of its cordon"
    );
    Ok(())
}
