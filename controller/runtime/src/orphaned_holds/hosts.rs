//! Hold keys on BareMetalHosts for remediations that are gone, with the taints that were set for them.
//!
//! A remediation removes its key before it ends. It is left where the remediation was moved to or from another
//! cluster, restored, or deleted without its finalizer; baremetal-operator then keeps the host off. The next
//! remediation of the host removes it with its own key; where there is none, it is removed here.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use rackhand_api::{
    names::{
        BLOCK_MOVE_ANNOTATION, CAPI_PAUSED_ANNOTATION, HOLD_ANNOTATION_PREFIX, MOVE_BLOCK_PREFIX,
        OUT_OF_SERVICE_TAINT_KEY, PAUSED_ANNOTATION,
    },
    views::BareMetalHostView,
};
use rackhand_core::remediation::{LeftKeyAction, LeftKeys, LeftNode, Progress, Taint, left_keys};
use serde_json::{Map, Value, json};

use super::OrphanedHolds;
use crate::{
    clusters::{RetainedConnection, WorkloadClient, node_facts, taints},
    hosts::{Target, fleet, host, traces},
    remediation::recorded_state,
    store::{
        api::{ApiError, call, optional, words},
        clock,
        index::Connection,
        live_remediations::find_gone,
        object::{Key, Kind, api, list_pages},
        remediation::RemediationObject,
        time_slice::{TimeSlice, beside_all},
    },
};

/// What is remembered between two searches.
#[derive(Default)]
pub(super) struct Search {
    /// Why the keys of each host stay, as reported last.
    reported: BTreeMap<Key, String>,
    /// Keeps the connections to the clusters of hosts whose keys stay.
    connections: BTreeMap<Key, RetainedConnection>,
}

impl Search {
    /// Looks at every host once.
    pub(super) async fn run(&mut self, context: &OrphanedHolds) -> Result<(), ApiError> {
        let remediations = context.index.remediations().into_iter();
        let known: BTreeSet<String> = remediations
            .filter_map(|(_, entry)| entry.object.uid())
            .collect();
        let mut found = BTreeMap::new();
        let mut slice = TimeSlice::begin();
        for (key, entry) in context.index.hosts() {
            slice.pause_if_over().await;
            let Ok(view) = entry.view else { continue };
            let mut of = traces(&view);
            of.retain(|uid| !known.contains(uid));
            if !of.is_empty() {
                found.insert(key, of);
            }
        }
        self.reported.retain(|key, _| found.contains_key(key));
        if found.is_empty() {
            self.connections.clear();
            return Ok(());
        }
        let all: BTreeSet<String> = found.values().flatten().cloned().collect();
        let gone = find_gone(&context.client, &context.served, all).await?;
        for (key, mut of) in found {
            of.retain(|uid| gone.contains(uid));
            if of.is_empty() {
                continue;
            }
            if let Err(error) = self.end(context, &key, &of).await {
                tracing::warn!(host = %key, %error, "an orphaned hold key is not removed; trying again");
            }
        }
        Ok(())
    }

    /// Removes what it can of the traces that remediations left on a host when they were deleted.
    async fn end(
        &mut self,
        context: &OrphanedHolds,
        key: &Key,
        of: &BTreeSet<String>,
    ) -> Result<(), ApiError> {
        // The keys are removed only from the version that is read here.
        let Some(object) = read(context, Kind::BareMetalHost, key).await? else {
            return Ok(());
        };
        let view = BareMetalHostView::from_dynamic(&object);
        let view = view.map_err(|e| ApiError::other(format!("BareMetalHost {key}"), e))?;
        let (left, node) = self.look(context, key, &view).await?;
        let age = context.age;
        match left_keys(&left, age, clock::monotonic_now()) {
            LeftKeyAction::Wait(why) => {
                if of.iter().any(|uid| view.is_held_by(uid)) {
                    self.report(context, key, &object, of, why);
                }
                return Ok(());
            }
            LeftKeyAction::RemoveTaintAndKeys => {
                if let Some(node) = node {
                    untaint(context, &node).await?;
                    let message = format!(
                        "removed the taint {OUT_OF_SERVICE_TAINT_KEY} from node {}: the remediation that had set it \
                         is gone, and the node is drained",
                        node.object.name_any()
                    );
                    let events = &context.events;
                    events.send(&object, false, "OrphanedTaintRemoved", &message);
                }
            }
            LeftKeyAction::RemoveKeys => {}
        }
        remove(context, key, &object, &view, of).await?;
        self.reported.remove(key);
        let message = format!(
            "removed what remediations that are gone have left, so that baremetal-operator may switch the host on: {}",
            names(of)
        );
        let events = &context.events;
        events.send(&object, false, "OrphanedHoldRemoved", &message);
        tracing::info!(host = %key, ?of, "removed orphaned hold keys");
        let owners = of.iter().map(String::as_str).collect();
        context.holds.end_of(&owners).await;
        Ok(())
    }

    /// Collects the facts about a host; with its Node, if that is tainted.
    async fn look(
        &mut self,
        context: &OrphanedHolds,
        key: &Key,
        view: &BareMetalHostView,
    ) -> Result<(LeftKeys, Option<TaintedNode>), ApiError> {
        let target = beside_all(|| target_of(context, key));
        let mut paused = is_host_paused(view).then(|| format!("BareMetalHost {key}"));
        let cluster = target.as_ref().and_then(|target| target.cluster.clone());
        let cluster = cluster.filter(|cluster| *cluster != Key::local());
        if let Some(cluster) = &cluster
            && let Some(object) = read(context, Kind::Cluster, cluster).await?
        {
            context.index.apply(Kind::Cluster, object);
            let entry = context.index.cluster(cluster);
            let is_paused = entry
                .and_then(|entry| entry.view.ok())
                .is_some_and(|cluster| cluster.is_paused());
            if is_paused {
                paused = paused.or_else(|| Some(format!("Cluster {cluster}")));
            }
        }
        let machine = target.as_ref().and_then(|target| target.machine());
        if machine.is_some_and(|m| m.meta.has_annotation(CAPI_PAUSED_ANNOTATION)) {
            paused = paused.or_else(|| Some("its Machine".into()));
        }
        let remediation = target
            .as_ref()
            .and_then(|target| remediation_of(context, key, target));
        let mut tainted = None;
        let node = match &target {
            _ if paused.is_some() || remediation.is_some() => LeftNode::Unknown("not read".into()),
            Some(target) => match self.tainted_node(context, target).await {
                Ok(None) => LeftNode::Untainted,
                Ok(Some(node)) => {
                    let remaining = node.client.drain(&node.object.name_any()).await?;
                    tainted = Some(node);
                    LeftNode::Tainted {
                        remaining: remaining.describe(),
                    }
                }
                Err(why) => LeftNode::Unknown(why),
            },
            None if view.consumer.is_some() => LeftNode::Unknown(
                "no Machine and no Node is known that runs on this host; if none does, remove the annotation".into(),
            ),
            None => LeftNode::None,
        };
        let left = LeftKeys {
            created: view.meta.created,
            paused,
            remediation,
            node,
        };
        Ok((left, tainted))
    }

    /// The Node of the target, if Rackhand has tainted it. A Machine that names no Node may have lost its status.
    async fn tainted_node(
        &mut self,
        context: &OrphanedHolds,
        target: &Target,
    ) -> Result<Option<TaintedNode>, String> {
        let Some(cluster) = target.cluster.clone() else {
            return Err("its Machine names no Cluster".into());
        };
        if let Connection::Down(why) = context.index.connection(&cluster) {
            let kept = self.connections.entry(cluster.clone());
            kept.or_insert_with(|| context.workloads.keep_for(cluster.clone()));
            return Err(format!("cluster {cluster}: {why}"));
        }
        let client = context.workloads.get(&cluster);
        let client = client.ok_or_else(|| format!("cluster {cluster}: not connected"))?;
        let nodes: Api<Node> = Api::all(client.client.clone());
        let Some(name) = &target.node else {
            let read = |params: ListParams| {
                let nodes = nodes.clone();
                async move { nodes.list(&params).await }
            };
            let listed = list_pages("nodes", &ListParams::default(), read).await;
            let listed = listed.map_err(|e| e.to_string())?;
            let mut tainted = listed.iter().filter(|node| is_tainted(node));
            return match tainted.next() {
                None => Ok(None),
                Some(node) => Err(format!(
                    "its Machine names no Node, and node {} has that taint",
                    node.name_any()
                )),
            };
        };
        let read = call(format!("node {name}"), nodes.get(name)).await;
        let node = optional(read).map_err(|e| e.to_string())?;
        let tainted = node.filter(is_tainted);
        Ok(tainted.map(|object| TaintedNode {
            cluster,
            client,
            object,
        }))
    }

    /// Reports once why the keys stay.
    fn report(
        &mut self,
        context: &OrphanedHolds,
        key: &Key,
        object: &DynamicObject,
        of: &BTreeSet<String>,
        why: String,
    ) {
        if self.reported.get(key) == Some(&why) {
            return;
        }
        let message = format!(
            "the host is kept off by {}, a hold key of Rackhand whose remediation is gone: {why}. To remove it \
             yourself: kubectl annotate baremetalhost {} -n {} {}-",
            names(of),
            key.name,
            key.namespace,
            names(of)
        );
        context.events.send(object, true, "OrphanedHold", &message);
        self.reported.insert(key.clone(), why);
    }
}

/// A Node that Rackhand has tainted, in its cluster.
struct TaintedNode {
    cluster: Key,
    client: std::sync::Arc<WorkloadClient>,
    object: Node,
}

fn is_tainted(node: &Node) -> bool {
    let facts = node_facts(node, None);
    facts.taint == Taint::Ours && facts.tainted_by_rackhand
}

fn names(of: &BTreeSet<String>) -> String {
    let keys: Vec<String> = (of.iter())
        .map(|uid| format!("{HOLD_ANNOTATION_PREFIX}{uid}"))
        .collect();
    keys.join(" ")
}

fn is_host_paused(view: &BareMetalHostView) -> bool {
    view.is_paused() || view.meta.has_annotation(PAUSED_ANNOTATION)
}

/// The Machine or Node that runs on the host, as for a remediation.
fn target_of(context: &OrphanedHolds, key: &Key) -> Option<Target> {
    let (index, racks) = (&context.index, context.agents.racks());
    let mut members = fleet(index).into_iter().map(|member| member.target);
    members.find(|target| {
        let node = target.cluster.as_ref().zip(target.node.as_ref());
        let node = node.and_then(|(cluster, name)| index.node(cluster, name));
        let facts = node.map(|node| node_facts(&node, None));
        host(index, &racks, target, facts.as_ref(), None)
            .bmh
            .as_ref()
            == Some(key)
    })
}

/// The unfinished remediation of this host, which is to remove the keys with its own.
fn remediation_of(context: &OrphanedHolds, host: &Key, target: &Target) -> Option<String> {
    let machine = target.machine_key();
    let name = host.to_string();
    for (id, entry) in context.index.remediations() {
        let uid = entry.object.uid().unwrap_or_default();
        let state = recorded_state(&context.index, &uid);
        let state = match &state {
            Ok(state) => state.as_ref(),
            // What it has done is unknown.
            Err(_) => return Some(id.to_string()),
        };
        let is_of_host = state
            .and_then(|s| s.host.as_ref())
            .is_some_and(|h| h.bmh.as_deref() == Some(name.as_str()));
        let is_of_target =
            entry
                .view
                .as_ref()
                .is_ok_and(|view: &std::sync::Arc<RemediationObject>| {
                    let owner = view.machine();
                    let of_machine = owner.is_some_and(|owner| {
                        machine.as_ref() == Some(&Key::new(&*id.key.namespace, &owner.name))
                    });
                    of_machine || target.node.as_deref() == Some(id.key.name.as_str())
                });
        let is_over = state.is_some_and(|s| s.step.is_terminal());
        if is_over || !(is_of_host || is_of_target) {
            continue;
        }
        let active = context.active.lock();
        let waits = active
            .get(&uid)
            .is_some_and(|a| a.progress == Progress::Waiting);
        if !waits {
            return Some(id.to_string());
        }
    }
    None
}

/// Reads an object live; `None` if it does not exist.
async fn read(
    context: &OrphanedHolds,
    kind: Kind,
    key: &Key,
) -> Result<Option<DynamicObject>, ApiError> {
    let what = format!("{} {key}", kind.kind());
    let found = context
        .served
        .find(&context.client, kind.group(), kind.kind());
    let found = found.await.map_err(|e| ApiError::other(&what, words(&e)))?;
    let Some(resource) = found else {
        return Ok(None);
    };
    let objects = api(&context.client, &resource, &key.namespace);
    let read = optional(call(what, objects.get(&key.name)).await)?;
    Ok(read.map(|object| crate::store::object::with_kind(object, &resource)))
}

/// Removes the taint from the version of the Node that was read.
async fn untaint(context: &OrphanedHolds, node: &TaintedNode) -> Result<(), ApiError> {
    let name = node.object.name_any();
    let old = node.object.spec.as_ref().and_then(|s| s.taints.clone());
    let body = json!({
        "metadata": { "resourceVersion": node.object.resource_version() },
        "spec": { "taints": taints(&old.unwrap_or_default(), false, None) },
    });
    let what = format!("node {name} of cluster {}", node.cluster);
    let nodes: Api<Node> = Api::all(node.client.client.clone());
    let patched = context
        .writer
        .write("untaint", what, move || async move {
            let patch = Patch::Merge(body);
            nodes.patch(&name, &PatchParams::default(), &patch).await
        })
        .await?;
    context.index.apply_node(&node.cluster, patched);
    Ok(())
}

/// Removes the annotations from the version of the host that was read.
async fn remove(
    context: &OrphanedHolds,
    key: &Key,
    object: &DynamicObject,
    view: &BareMetalHostView,
    of: &BTreeSet<String>,
) -> Result<(), ApiError> {
    let is_left = |(name, value): &(&String, &String)| {
        let held = name.strip_prefix(HOLD_ANNOTATION_PREFIX);
        let blocked = (name.as_str() == BLOCK_MOVE_ANNOTATION)
            .then(|| value.strip_prefix(MOVE_BLOCK_PREFIX))
            .flatten();
        held.or(blocked).is_some_and(|uid| of.contains(uid))
    };
    let left = view.meta.annotations.iter().filter(is_left);
    let removed: Map<String, Value> = left.map(|(name, _)| (name.clone(), Value::Null)).collect();
    let body = json!({ "metadata": {
        "annotations": removed,
        "resourceVersion": object.resource_version(),
    }});
    let what = format!("BareMetalHost {key}");
    let resource = context.served.known(Kind::BareMetalHost);
    let resource = resource.ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let hosts = api(&context.client, &resource, &key.namespace);
    let name = key.name.clone();
    let patched = context
        .writer
        .write("hold", what, move || async move {
            let patch = Patch::Merge(body);
            hosts.patch(&name, &PatchParams::default(), &patch).await
        })
        .await?;
    context.index.apply(Kind::BareMetalHost, patched);
    Ok(())
}
