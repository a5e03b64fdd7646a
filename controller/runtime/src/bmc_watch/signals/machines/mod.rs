//! The conditions of signals on Machines of Cluster API, in the management cluster.
//!
//! A Machine follows its Node: right after a write of the Node, and in a pass over all Machines, which repeats what has
//! failed. Machines of OpenShift are left alone, because their conditions are those of its own controllers.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_api::{
    names::CAPI_PAUSED_ANNOTATION,
    views::{MachineView, find_condition},
};
use rackhand_core::signals::{
    ConditionStatus, MachineCondition, MachineFacts, NodeShows, Published, Signal, SignalCondition,
    on_machine,
};
use serde_json::Value;

use super::{SignalWatch, facts};
use crate::{
    leader::writer::{Lane, Writer},
    store::{
        api::{ApiError, call},
        conditions::{NewCondition, both_lists},
        index::Index,
        object::{Key, Kind, Served, api},
        time_slice::TimeSlice,
    },
};

/// Writes of one Machine that others change at the same time; the next pass tries again.
const TRIES: u32 = 3;

/// What was decided of a signal, whose message the index does not keep.
type Decided<'a> = Option<(Signal, &'a SignalCondition)>;

/// What the conditions of Machines are written with.
pub(super) struct Machines {
    client: Client,
    served: Arc<Served>,
    index: Arc<Index>,
    writer: Writer,
    /// The signals that are published.
    signals: BTreeSet<Signal>,
}

// === impl Machines ===

impl Machines {
    pub(super) fn of(watch: &SignalWatch) -> Self {
        Self {
            client: watch.client.clone(),
            served: watch.served.clone(),
            index: watch.index.clone(),
            writer: watch.writer.on(Lane::Checks),
            signals: watch.signals.clone(),
        }
    }

    /// Shows on the Machines of a Node what was written to it.
    pub(super) async fn follow(&self, node: &str, signal: Signal, to: &SignalCondition) {
        for key in self.of_node(node) {
            if let Err(error) = self.update(&key, Some((signal, to))).await {
                report(&error);
            }
        }
    }

    /// Shows on all Machines what their Nodes show. `nodes`: the names of Nodes with a condition of a signal. Ends
    /// early if the API server does not answer.
    pub(super) async fn follow_all(&self, nodes: BTreeSet<String>) {
        let mut slice = TimeSlice::begin();
        let mut machines = BTreeSet::new();
        for node in &nodes {
            slice.pause_if_over().await;
            machines.extend(self.of_node(node));
        }
        for key in self.index.keys_in_pages(Kind::Machine) {
            slice.pause_if_over().await;
            let mentions =
                |signal: &Signal| self.index.machine_mentions(&key, signal.condition_type());
            if Signal::ALL.iter().any(mentions) {
                machines.insert(key);
            }
        }
        for key in machines {
            slice.pause_if_over().await;
            if let Err(error) = self.update(&key, None).await {
                report(&error);
                if !error.is_answer() {
                    return;
                }
            }
        }
    }

    /// The Machines whose nodeRef has this name, of all clusters: each is compared with the Node of its own cluster.
    fn of_node(&self, node: &str) -> BTreeSet<Key> {
        let machines = self.index.machines_with_node(node);
        machines
            .iter()
            .map(|entry| Key::of(&entry.object))
            .collect()
    }

    /// Writes what a Machine has to show, if that is not what it shows.
    async fn update(&self, key: &Key, decided: Decided<'_>) -> Result<(), ApiError> {
        for is_last in (1..=TRIES).map(|count| count == TRIES) {
            let Some(body) = self.due_patch(key, decided) else {
                return Ok(());
            };
            let what = format!("conditions of Machine {key}");
            let resource = self.served.known(Kind::Machine);
            let resource =
                resource.ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
            let machines = api(&self.client, &resource, &key.namespace);
            let (patched, name) = (machines.clone(), key.name.clone());
            let written = self
                .writer
                .write("machine_signal", what.clone(), move || async move {
                    let patch = Patch::Merge(body);
                    patched
                        .patch_status(&name, &PatchParams::default(), &patch)
                        .await
                })
                .await;
            let current = match written {
                Ok(machine) => {
                    self.index.apply(Kind::Machine, machine);
                    return Ok(());
                }
                // Another controller has written into the same list.
                Err(error) if error.is_conflict() && !is_last => {
                    call(what, machines.get(&key.name)).await
                }
                Err(error) => Err(error),
            };
            match current {
                Ok(machine) => self.index.apply(Kind::Machine, machine),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The patch of a Machine that does not show what it has to.
    fn due_patch(&self, key: &Key, decided: Decided<'_>) -> Option<Value> {
        let entry = self.index.machine(key)?;
        let view = entry.view.as_ref().ok()?;
        let cluster = view.cluster_name.as_deref();
        let cluster = cluster.map(|name| Key::new(&*key.namespace, name));
        let of_cluster = cluster.as_ref().and_then(|key| self.index.cluster(key));
        let of_cluster = of_cluster.and_then(|entry| entry.view.ok());
        let is_paused = view.meta.has_annotation(CAPI_PAUSED_ANNOTATION)
            || of_cluster.is_some_and(|cluster| cluster.is_paused());
        let node = NodeOfMachine::find(&self.index, cluster.as_ref(), view.node_name.as_deref());
        let due = Signal::ALL.into_iter().filter_map(|signal| {
            let shown = find_condition(&view.conditions_v1beta2, signal.condition_type());
            let of_node = node.condition(signal);
            let decided = decided.filter(|(of, _)| *of == signal);
            let facts = MachineFacts {
                is_paused,
                node: shows(&node, of_node.as_ref(), decided.map(|(_, new)| new)),
                published: shown.map(|shown| Published {
                    status: ConditionStatus::of(&shown.status),
                    reason: shown.reason.as_deref().unwrap_or_default(),
                }),
            };
            Some((signal, on_machine(&self.signals, signal, &facts)?))
        });
        let due: Vec<(Signal, MachineCondition)> = due.collect();
        let new: Vec<NewCondition<'_>> = due
            .iter()
            .map(|(signal, condition)| NewCondition {
                type_: signal.condition_type(),
                status: condition.status.label(),
                reason: &condition.reason,
                message: &condition.message,
                severity: None,
            })
            .collect();
        // Checks select Machines by the list of v1beta2 only.
        both_lists(&entry.object, view.shape, &[], &new, &[], Timestamp::now())
    }
}

/// A patch that removes the conditions of all signals from a Machine; `None` if it has none.
#[must_use]
pub fn without_signals(machine: &DynamicObject) -> Option<Value> {
    let view = MachineView::from_dynamic(machine).ok()?;
    let types = Signal::ALL.map(Signal::condition_type);
    both_lists(machine, view.shape, &[], &[], &types, Timestamp::now())
}

fn report(error: &ApiError) {
    tracing::warn!(%error, "the conditions of the Machine are written again within a minute");
}

/// The Node of a Machine, as far as it is known.
enum NodeOfMachine {
    NotKnown,
    Absent,
    Seen(Arc<Node>),
}

impl NodeOfMachine {
    fn find(index: &Index, cluster: Option<&Key>, name: Option<&str>) -> Self {
        let Some(name) = name else {
            return Self::Absent;
        };
        let Some(cluster) = cluster else {
            return Self::NotKnown;
        };
        match index.node(cluster, name) {
            Some(node) => Self::Seen(node),
            None if index.is_absent(cluster, name) => Self::Absent,
            None => Self::NotKnown,
        }
    }

    fn condition(&self, signal: Signal) -> Option<(ConditionStatus, String)> {
        match self {
            Self::Seen(node) => facts::published(node, signal),
            Self::NotKnown | Self::Absent => None,
        }
    }
}

fn shows<'a>(
    node: &NodeOfMachine,
    condition: Option<&'a (ConditionStatus, String)>,
    decided: Option<&'a SignalCondition>,
) -> NodeShows<'a> {
    match (node, condition) {
        (NodeOfMachine::NotKnown, _) => NodeShows::NotKnown,
        (_, None) => NodeShows::Nothing,
        (_, Some((status, reason))) => {
            let same = decided.filter(|new| new.status == *status && new.reason == *reason);
            NodeShows::Condition {
                status: *status,
                reason,
                message: same.map(|new| new.message.as_str()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
