//! What triggers see: their Nodes and remediations, by the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    kinds::remediation_trigger::{RemediationTriggerSpec, TriggerTemplateKind},
    names::{
        CAPI_PAUSED_ANNOTATION, LABEL_ANSWERED_ANNOTATION, MADE_BY_ANNOTATION,
        MAINTENANCE_ANNOTATION, MEDIK8S_EXCLUDE_LABEL, MEDIK8S_NODE_NAME_ANNOTATION,
        NODE_UID_ANNOTATION, PAUSED_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, WATCH_FILTER_LABEL,
        kinds,
    },
    views::MachineView,
};
use rackhand_core::triggers::{
    Claim, Decision, Exclusions, Found, MachineBehind, NodeLabel, Obstacle, OwnRemediation, Stage,
    TriggeredNode, acting, decide_orphan, left_alone, plan, remediation_name,
};

use super::{Triggers, act::Deed};
use crate::{
    hosts::{find_machine, target_of_node},
    remediation::recorded_state,
    store::{
        index::{Connection, Entry, Index, LabelledNode},
        maintenance::spared_nodes,
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// A trigger that this controller works on.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) key: Key,
    pub(super) object: Arc<DynamicObject>,
    pub(super) spec: Arc<RemediationTriggerSpec>,
    /// The cluster of the Nodes.
    pub(super) cluster: Key,
}

impl Watched {
    /// `None`: another controller works on it, or it cannot be parsed.
    pub(super) fn of(
        key: Key,
        entry: &Entry<RemediationTriggerSpec>,
        watch_filter: Option<&str>,
    ) -> Option<Self> {
        let spec = entry.view.as_ref().ok()?.clone();
        let label = entry.object.labels().get(WATCH_FILTER_LABEL);
        if watch_filter.is_some() && label.map(String::as_str) != watch_filter {
            return None;
        }
        let cluster = match &spec.cluster_name {
            Some(name) => Key::new(&*key.namespace, &**name),
            None => Key::local(),
        };
        Some(Self {
            key,
            object: entry.object.clone(),
            spec,
            cluster,
        })
    }

    /// The kind of its remediations.
    pub(super) fn remediations(&self) -> Kind {
        match self.spec.template_ref.kind {
            TriggerTemplateKind::PowerRemediationTemplate => Kind::PowerRemediation,
            TriggerTemplateKind::Metal3RemediationTemplate => Kind::Metal3Remediation,
        }
    }

    /// The label of this value, as the trigger reads it.
    pub(super) fn label(&self, value: Option<&str>) -> NodeLabel {
        NodeLabel::of(value, &self.spec.value, &self.spec.failed_value)
    }

    /// What is marked on its remediations.
    pub(super) fn made_by(&self) -> String {
        let uid = self.object.metadata.uid.as_deref().unwrap_or_default();
        format!("{}/{}/{uid}", kinds::REMEDIATION_TRIGGER, self.key.name)
    }
}

/// A remediation that a trigger has made.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) id: RemediationId,
    pub(super) object: Arc<DynamicObject>,
    /// Name of the trigger, which is in the same namespace.
    trigger: String,
    node: String,
    pub(super) node_uid: String,
    /// How far it is; why that cannot be read.
    state: Result<OwnRemediation, String>,
}

impl Made {
    /// `None` if no trigger has made it.
    pub(super) fn of(index: &Index, id: RemediationId, object: Arc<DynamicObject>) -> Option<Self> {
        let annotations = object.annotations();
        let maker = annotations.get(MADE_BY_ANNOTATION)?;
        let mut parts = maker.splitn(3, '/');
        if parts.next() != Some(kinds::REMEDIATION_TRIGGER) {
            return None;
        }
        let trigger = parts.next()?.to_owned();
        let node = annotations.get(MEDIK8S_NODE_NAME_ANNOTATION)?.clone();
        let node_uid = annotations.get(NODE_UID_ANNOTATION)?.clone();
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let answered = annotations.get(LABEL_ANSWERED_ANNOTATION);
        let state = recorded_state(index, uid).map(|state| OwnRemediation {
            stage: Stage::of(state.as_ref()),
            deleting: object.metadata.deletion_timestamp.is_some(),
            // A time that cannot be read counts as one long ago.
            answered: answered.map(|at| at.parse().unwrap_or(Timestamp::UNIX_EPOCH)),
        });
        Some(Self {
            id,
            object,
            trigger,
            node,
            node_uid,
            state,
        })
    }

    /// Whether its label is not answered.
    fn is_unanswered(&self) -> bool {
        !self
            .object
            .annotations()
            .contains_key(LABEL_ANSWERED_ANNOTATION)
    }

    /// How far it is, if that can be read.
    pub(super) fn stage(&self) -> Option<Stage> {
        self.state.as_ref().ok().map(|own| own.stage)
    }

    pub(super) fn trigger_key(&self) -> Key {
        Key::new(&*self.id.key.namespace, &*self.trigger)
    }
}

/// A Node of a trigger, and what belongs to it.
pub(super) struct NodeOfTrigger {
    pub(super) node: TriggeredNode,
    pub(super) uid: String,
    /// The name of its remediation, whether or not it exists.
    pub(super) id: RemediationId,
    pub(super) made: Option<Made>,
    pub(super) machine: Option<Entry<MachineView>>,
}

/// A trigger, and all Nodes that it does something for.
pub(super) struct TriggerView {
    pub(super) trigger: Watched,
    pub(super) nodes: Vec<NodeOfTrigger>,
    /// Why it makes nothing, for any Node.
    pub(super) inactive: Option<Obstacle>,
}

impl TriggerView {
    /// The next write for each Node, in the order of the Nodes.
    pub(super) fn decisions(&self, per_pass: usize, now: Timestamp) -> Vec<Decision> {
        let nodes: Vec<TriggeredNode> = self.nodes.iter().map(|of| of.node.clone()).collect();
        let seconds = u64::try_from(self.trigger.spec.cooldown_seconds).unwrap_or_default();
        let cooldown = std::time::Duration::from_secs(seconds);
        plan(&nodes, cooldown, per_pass, now)
    }
}

/// The remediations of all triggers.
fn made(index: &Index) -> Vec<Made> {
    let all = index.remediations().into_iter();
    all.filter_map(|(id, entry)| Made::of(index, id, entry.object))
        .collect()
}

/// All triggers with their Nodes.
pub(super) fn all(triggers: &Triggers, watched: &[Watched]) -> Vec<TriggerView> {
    let index = &triggers.index;
    let mut of_trigger: BTreeMap<Key, Vec<Made>> = BTreeMap::new();
    for made in made(index) {
        of_trigger.entry(made.trigger_key()).or_default().push(made);
    }
    let mut views: Vec<TriggerView> = watched
        .iter()
        .map(|trigger| {
            let made = of_trigger.remove(&trigger.key).unwrap_or_default();
            view(triggers, trigger, made)
        })
        .collect();
    let acting = acting_triggers(&views);
    for view in &mut views {
        let own = view.trigger.key.to_string();
        for of in &mut view.nodes {
            let acts = acting.get(&(view.trigger.cluster.clone(), of.uid.clone()));
            if let Some(other) = acts.filter(|acts| **acts != own) {
                of.node
                    .obstacle
                    .get_or_insert(Obstacle::OtherTrigger(other.clone()));
            }
        }
        remember(triggers, view);
    }
    views
}

/// The trigger that acts on each Node.
fn acting_triggers(views: &[TriggerView]) -> BTreeMap<(Key, String), String> {
    let mut claims: BTreeMap<(Key, String), Vec<(String, bool)>> = BTreeMap::new();
    for view in views {
        for of in &view.nodes {
            let has_begun = of.made.as_ref().is_some_and(Made::is_unanswered);
            if of.node.label == NodeLabel::Set || has_begun {
                let place = (view.trigger.cluster.clone(), of.uid.clone());
                let claim = (view.trigger.key.to_string(), has_begun);
                claims.entry(place).or_default().push(claim);
            }
        }
    }
    let first = |claims: Vec<(String, bool)>| {
        let claims: Vec<Claim<'_>> = claims
            .iter()
            .map(|(trigger, has_begun)| Claim {
                trigger,
                has_begun: *has_begun,
            })
            .collect();
        acting(&claims).map(str::to_owned)
    };
    claims
        .into_iter()
        .filter_map(|(place, claims)| Some((place, first(claims)?)))
        .collect()
}

/// Remembers the remediations whose label is not answered, to notice that somebody deletes one.
fn remember(triggers: &Triggers, view: &TriggerView) {
    let mut memory = triggers.memory.lock();
    let shows_nodes = view
        .inactive
        .as_ref()
        .is_none_or(|why| !why.stops_everything());
    let known: BTreeSet<&str> = view.nodes.iter().map(|of| of.uid.as_str()).collect();
    memory.unanswered.retain(|(trigger, uid), _| {
        *trigger != view.trigger.key || !shows_nodes || known.contains(uid.as_str())
    });
    for of in &view.nodes {
        let place = (view.trigger.key.clone(), of.uid.clone());
        match &of.made {
            Some(made) if made.is_unanswered() => {
                memory.unanswered.insert(place, made.id.clone());
            }
            Some(_) => drop(memory.unanswered.remove(&place)),
            None if of.node.label != NodeLabel::Set => drop(memory.unanswered.remove(&place)),
            None => {}
        }
    }
}

fn view(triggers: &Triggers, trigger: &Watched, made: Vec<Made>) -> TriggerView {
    let index = &triggers.index;
    let inactive = inactive(triggers, trigger);
    let mut by_uid: BTreeMap<String, Made> = made
        .into_iter()
        .map(|made| (made.node_uid.clone(), made))
        .collect();
    let mut labelled = index.nodes_with_label(&trigger.cluster, &trigger.spec.label);
    let known: BTreeSet<String> = labelled.iter().map(|node| node.uid.clone()).collect();
    let others = by_uid
        .values()
        .filter(|made| !known.contains(&made.node_uid));
    labelled.extend(others.filter_map(|made| {
        let node = index.labelled_node(&trigger.cluster, &made.node, &trigger.spec.label)?;
        (node.uid == made.node_uid).then_some(node)
    }));
    let maintained = spared_nodes(index, &trigger.cluster);
    let nodes = labelled.into_iter().map(|node| {
        let made = by_uid.remove(&node.uid);
        node_of(
            triggers,
            trigger,
            node,
            made,
            inactive.as_ref(),
            &maintained,
        )
    });
    let nodes = nodes.collect();
    TriggerView {
        trigger: trigger.clone(),
        nodes,
        inactive,
    }
}

/// Why a trigger makes nothing for any Node.
fn inactive(triggers: &Triggers, trigger: &Watched) -> Option<Obstacle> {
    let index = &triggers.index;
    if let Connection::Down(why) = index.connection(&trigger.cluster) {
        let is_named = trigger.spec.cluster_name.is_some();
        return Some(match triggers.enabled {
            false => Obstacle::Disabled,
            true if is_named && index.cluster(&trigger.cluster).is_none() => {
                Obstacle::ClusterNotFound(trigger.cluster.to_string())
            }
            true => Obstacle::ClusterNotConnected(why),
        });
    }
    let place = (trigger.cluster.clone(), trigger.spec.label.clone());
    if !triggers.memory.lock().listed.contains(&place) {
        let why = "the Nodes with the label are being read";
        return Some(Obstacle::ClusterNotConnected(why.to_owned()));
    }
    if trigger.object.annotations().contains_key(PAUSED_ANNOTATION) {
        return Some(Obstacle::Paused(format!(
            "RemediationTrigger {}",
            trigger.key
        )));
    }
    let paused = index.cluster(&trigger.cluster).and_then(|e| e.view.ok());
    if paused.is_some_and(|cluster| cluster.is_paused()) {
        return Some(Obstacle::Paused(format!("Cluster {}", trigger.cluster)));
    }
    if !triggers.enabled {
        return Some(Obstacle::Disabled);
    }
    let templates = &triggers.memory.lock().templates;
    templates
        .problem(&trigger.key)
        .map(Obstacle::TemplateUnusable)
}

fn node_of(
    triggers: &Triggers,
    trigger: &Watched,
    node: LabelledNode,
    made: Option<Made>,
    inactive: Option<&Obstacle>,
    maintained: &BTreeMap<String, String>,
) -> NodeOfTrigger {
    let index = &triggers.index;
    let place = (trigger.key.clone(), node.uid.clone());
    let name = remediation_name(&trigger.key.name, &node.name, &node.uid);
    let id = match &made {
        Some(made) => made.id.clone(),
        None => RemediationId::new(
            trigger.remediations(),
            Key::new(&*trigger.key.namespace, name),
        ),
    };
    let machine = machine(index, trigger, &node.name);
    let unreadable = made.as_ref().and_then(|made| made.state.as_ref().err());
    let taken = || {
        let other = made.is_none().then(|| index.remediation(&id)).flatten();
        other.map(|_| Obstacle::NameTaken(id.to_string()))
    };
    let obstacle = unreadable
        .map(|why| Obstacle::StateUnreadable(why.clone()))
        .or_else(|| inactive.cloned())
        .or_else(|| not_for(index, trigger, &node, machine.as_ref(), maintained))
        .or_else(taken)
        .or_else(|| triggers.refused(&place).map(Obstacle::Refused));
    let found = match made.as_ref().map(|made| &made.state) {
        Some(Ok(own)) => Found::Remediation(*own),
        // Nothing is done: see the obstacle.
        Some(Err(_)) => Found::Nothing,
        None if triggers.memory.lock().unanswered.contains_key(&place) => Found::Lost,
        None => Found::Nothing,
    };
    NodeOfTrigger {
        node: TriggeredNode {
            label: trigger.label(node.value.as_deref()),
            name: node.name,
            ready: node.ready,
            deleting: node.deleting,
            found,
            obstacle,
        },
        uid: node.uid,
        id,
        made,
        machine,
    }
}

/// The Machine of a Node, in the namespace of the trigger.
fn machine(index: &Index, trigger: &Watched, node: &str) -> Option<Entry<MachineView>> {
    let keys = index.machines_of_node(&trigger.cluster, node);
    let mut near = keys
        .iter()
        .filter(|key| key.namespace == trigger.key.namespace);
    let (machine, other) = (near.next()?, near.next());
    match other {
        None => index.machine(machine),
        // Two Machines name the Node: none of them is the right one by what is known.
        Some(_) => None,
    }
}

/// Why nothing is made for this Node.
fn not_for(
    index: &Index,
    trigger: &Watched,
    node: &LabelledNode,
    machine: Option<&Entry<MachineView>>,
    maintained: &BTreeMap<String, String>,
) -> Option<Obstacle> {
    let exclusions = Exclusions {
        label: node.excluded.then_some(MEDIK8S_EXCLUDE_LABEL),
        machines: match machine {
            Some(machine) => vec![behind(&machine.object)],
            None => machines_behind(index, trigger, &node.name),
        },
        maintenance: maintained.get(&node.name).cloned(),
    };
    left_alone(&node.name, &exclusions).or_else(|| needs_machine(trigger, node, machine))
}

/// Why the remediation cannot be made for the Machine that it needs.
fn needs_machine(
    trigger: &Watched,
    node: &LabelledNode,
    machine: Option<&Entry<MachineView>>,
) -> Option<Obstacle> {
    if machine.is_some() {
        return None;
    }
    if trigger.spec.cluster_name.is_some() {
        return Some(Obstacle::NoMachine(format!(
            "no Machine of namespace {} alone names Node {}",
            trigger.key.namespace, node.name
        )));
    }
    (trigger.remediations() == Kind::Metal3Remediation).then(|| {
        let why = "a Metal3Remediation is of a Machine: name its Cluster in spec.clusterName";
        Obstacle::NoMachine(why.to_owned())
    })
}

/// The Machines that run as a Node of the cluster of the controller, whatever namespace and Cluster they are of.
fn machines_behind(index: &Index, trigger: &Watched, node: &str) -> Vec<MachineBehind> {
    if trigger.cluster != Key::local() {
        return Vec::new();
    }
    let mut target = target_of_node(node);
    find_machine(index, &mut target);
    let of_openshift = index.openshift_machines_of_node(node).into_iter();
    let of_openshift = of_openshift.filter_map(|key| index.openshift_machine(&key));
    let all = target.machine.into_iter().chain(of_openshift);
    all.map(|entry| behind(&entry.object)).collect()
}

fn behind(machine: &DynamicObject) -> MachineBehind {
    let annotations = machine.annotations();
    let excluding = [SKIP_REMEDIATION_ANNOTATION, MAINTENANCE_ANNOTATION];
    MachineBehind {
        name: machine.name_any(),
        paused: annotations.contains_key(CAPI_PAUSED_ANNOTATION),
        excluded_by: excluding
            .into_iter()
            .find(|annotation| annotations.contains_key(*annotation)),
    }
}

/// The deletion of remediations whose trigger is gone, or whose Node is gone or was replaced by another one of the
/// same name.
pub(super) fn orphans(triggers: &Triggers, watched: &[Watched]) -> Vec<Option<Deed>> {
    let index = &triggers.index;
    let of = |made: Made| {
        let key = made.trigger_key();
        let trigger = watched.iter().find(|trigger| trigger.key == key);
        match trigger {
            // One that another controller works on, or that cannot be parsed, is there.
            None if index.version_of(Kind::RemediationTrigger, &key).is_some() => return None,
            None => {}
            Some(trigger) => {
                if inactive(triggers, trigger).is_some_and(|why| why.stops_everything()) {
                    return None;
                }
                let node = index.labelled_node(&trigger.cluster, &made.node, &trigger.spec.label);
                if node.is_some_and(|node| node.uid == made.node_uid) {
                    return None;
                }
            }
        }
        let own = made.state.as_ref().ok()?;
        (decide_orphan(*own) == Decision::Delete).then(|| Deed::Delete {
            trigger: trigger.cloned(),
            node: trigger.map(|of| (of.cluster.clone(), made.node.clone())),
            made: Box::new(made),
        })
    };
    made(index).into_iter().map(of).collect()
}
