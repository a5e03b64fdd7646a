//! Gathers what a step looks at.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::DynamicObject};
use rackhand_api::{
    names::{
        self, CAPI_PAUSED_ANNOTATION, CLUSTER_NAME_LABEL, CONFIRM_FENCED_ANNOTATION,
        MEDIK8S_TIMED_OUT_ANNOTATION, NODE_ACTION_ANNOTATION, NODE_ACTION_DELETE,
        NODE_ACTION_TAINT, PAUSED_ANNOTATION, REBOOT_ANNOTATION, SKIP_REMEDIATION_ANNOTATION,
        conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED},
        groups, kinds, kubeconfig_secret,
    },
    views::{BareMetalHostView, MachineView, Meta, find_condition},
};
use rackhand_core::remediation::{
    Active, AgentView, BareMetalHostFacts, Because, EtcdGuard, HostView,
    MachineView as MachineFacts, NodeAction, Observation, RequestFacts, State, Step, Turn,
    WorkloadView, node_action,
};

use super::{
    engine::{Engine, Setback},
    place::{Place, find_machine, host, of_openshift, place},
    request::{RequestId, RequestView, finalizer},
    rivals::{active, rival},
};
use crate::{
    api::{ApiError, call, optional, words},
    checks::is_judged,
    cluster::{KeptConnection, node_facts},
    config::Config,
    index::{Connection, Index},
    object::{Key, Kind, Served, api},
};

/// What one look has found.
pub(super) struct Seen {
    /// Without the right of way: whether that is asked for depends on the decision.
    pub(super) observation: Observation,
    /// This remediation as others must know it.
    pub(super) me: Active,
    pub(super) place: Place,
    pub(super) guard: Option<Result<EtcdGuard, String>>,
}

impl Engine {
    /// Looks at everything. `Ok(Err(..))`: the object cannot be read; nothing is decided.
    pub(super) async fn observe(
        &mut self,
        now: Timestamp,
    ) -> Result<Result<Seen, Because>, Setback> {
        let entry = self.snapshot.request.clone().ok_or(Setback::Gone)?;
        let view = match &entry.view {
            Ok(view) => view.clone(),
            Err(error) => {
                self.hold_place(&entry.object);
                return Ok(Err(Because::InvalidSpec(error.to_string())));
            }
        };
        let state = self.recorded.state.clone();
        self.read_absent(&view, state.as_ref()).await?;
        let context = self.context.clone();
        let index = &context.index;
        let mut place = place(index, &self.id.key, &view, state.as_ref());
        if let Some(because) = self.read_openshift(&mut place, &view, state.as_ref()).await {
            self.hold_place(&entry.object);
            return Ok(Err(because));
        }
        {
            let mut interest = self.interest.lock();
            interest.cluster.clone_from(&place.cluster);
            interest.node.clone_from(&place.node);
        }
        let removed = self.removed_cluster(&place).await?;
        self.keep_connected(&place, state.as_ref());
        let workload = self.workload(&place, removed).await;
        find_machine(&self.context.index, &mut place);
        self.read_absent_of_node(&place, state.as_ref()).await?;
        find_machine(&self.context.index, &mut place);
        self.read_absent_check(&place).await?;
        // Nobody asks a Machine of OpenShift who takes it over.
        self.machine = place.machine_key().filter(|_| place.openshift.is_none());
        self.snapshot.machine = place.machine.clone().filter(|_| place.openshift.is_none());
        self.node.clone_from(&place.node);
        let node = match &workload {
            WorkloadView::Present(node) => Some(node),
            _ => None,
        };
        let racks = self.context.agents.racks();
        let (host, bmh_key) = host(&self.context.index, &racks, &place, node, state.as_ref());
        let host = if place.by_node && place.machine().is_none() {
            let cluster = place.cluster.as_ref();
            let connecting = cluster.is_some_and(|c| self.context.index.is_connecting(c));
            or_unread(host, &workload, connecting)
        } else {
            host
        };
        let host = self.or_silent(host);
        let found = match &host {
            HostView::Found(host) => Some(host.clone()),
            HostView::NotFound(_) => None,
        };
        {
            let mut interest = self.interest.lock();
            interest.machine.clone_from(&self.machine);
            interest.host.clone_from(&bmh_key);
            let early = |s: &State| matches!(s.step, Step::Pending | Step::Retrying);
            interest.settled = state.as_ref().is_some_and(|s| !early(s));
        }
        self.snapshot.host = None;
        let bmh = bmh_key.as_ref().and_then(|key| self.bare_metal_host(key));
        self.held = bmh.as_ref().is_some_and(|b| b.our_hold);
        let mut agent_id = None;
        let mut agent = match &found {
            None => AgentView::Unreachable {
                why: "the host is not known".into(),
            },
            Some(host) => match self.context.agents.of_rack(&host.rack) {
                Ok(at) => {
                    agent_id = Some(at.id);
                    AgentView::Ready
                }
                Err(why) => AgentView::Unreachable { why },
            },
        };
        let operation = if agent == AgentView::Ready {
            match self.operation_view(found.as_ref()).await {
                Ok(operation) => operation,
                Err(why) => {
                    agent = AgentView::Unreachable { why };
                    None
                }
            }
        } else {
            self.operation_finished()
        };
        let draining = state.as_ref().is_some_and(|s| s.step == Step::Draining);
        let (workload, drain) = match (draining, &place.cluster, &place.node) {
            (true, Some(cluster), Some(node)) => match self.context.workloads.reach(cluster) {
                Some(reach) => match reach.drain(node).await {
                    Ok(drain) => (workload, Some(drain)),
                    Err(e) => {
                        let why = format!("cluster {cluster}: {e}");
                        (WorkloadView::Unreachable { why }, None)
                    }
                },
                None => (workload, None),
            },
            _ => (workload, None),
        };
        let access = self.bmc_access(found.as_ref()).await?;
        let pinned = self
            .pinned_operation(agent_id.as_ref(), state.as_ref(), now)
            .await;
        let guard = self.etcd_guard(&place, state.as_ref()).await;
        let config = &self.context.config;
        let me = active(
            &self.context.index,
            &self.id,
            &view,
            &place,
            found.as_ref(),
            state.as_ref(),
        );
        let mut observation = Observation {
            request: request_facts(&self.context.index, config, &self.id, &view, &place),
            machine: machine_facts(&self.context.index, &place),
            cluster: place.cluster_of_machine(),
            cluster_removed: removed,
            host,
            conflict: rival(&self.uid, bmh.as_ref()),
            bmh,
            workload,
            agent,
            access,
            agent_id,
            answered: self.unknown_to(),
            pinned,
            held: found.as_ref().is_some_and(|host| {
                let agents = &self.context.agents;
                !agents.holding(&host.rack, &self.uid).is_empty()
            }),
            operation,
            power: self.power.clone(),
            silent_since: None,
            drain,
            node_action: wanted_node_action(&self.context.index, config, &view, &place),
            completed: self.completed.clone(),
        };
        self.silent_since = observation.silence(state.as_ref(), self.silent_since, now);
        observation.silent_since = self.silent_since;
        Ok(Ok(Seen {
            observation,
            me,
            place,
            guard,
        }))
    }

    /// A Machine of OpenShift is read where it is asked for, and not watched: few are. What has begun
    /// knows its host and its Node, and does not wait for it.
    async fn read_openshift(
        &self,
        place: &mut Place,
        view: &RequestView,
        state: Option<&State>,
    ) -> Option<Because> {
        let key = place.openshift.clone()?;
        let begun = Turn::of(state) == Turn::Begun;
        if begun && place.node.is_some() {
            return None;
        }
        match openshift_machine(&self.context.client, &self.context.served, &key).await {
            Ok(machine) => {
                of_openshift(place, view, machine);
                None
            }
            Err(_) if begun => None,
            Err(error) => Some(Because::MachineNotFound(error)),
        }
    }

    /// Whether the Cluster object of this remediation is gone (F12: by a live read).
    async fn removed_cluster(&self, place: &Place) -> Result<bool, ApiError> {
        match &place.cluster {
            Some(cluster)
                if *cluster != Key::local() && self.context.index.cluster(cluster).is_none() =>
            {
                self.is_absent(Kind::Cluster, cluster).await
            }
            _ => Ok(false),
        }
    }

    /// What has begun needs its workload cluster to the end, whether or not the Cluster object stays.
    fn keep_connected(&mut self, place: &Place, state: Option<&State>) {
        let begun = Turn::of(state) == Turn::Begun;
        let cluster = place.cluster.clone().filter(|_| begun);
        if self.connection.as_ref().map(KeptConnection::cluster) != cluster.as_ref() {
            self.connection = cluster.map(|cluster| self.context.workloads.keep_for(cluster));
        }
    }

    async fn workload(&mut self, place: &Place, removed: bool) -> WorkloadView {
        self.snapshot.node = None;
        let Some(cluster) = &place.cluster else {
            return WorkloadView::Unreachable {
                why: format!(
                    "neither the Machine nor this object names a Cluster; label this object with \
                     {CLUSTER_NAME_LABEL}=<name of the Cluster>"
                ),
            };
        };
        let context = self.context.clone();
        let index = &context.index;
        if let Connection::Down(why) = index.connection(cluster) {
            if removed {
                return self.removed_workload(place, cluster, &why).await;
            }
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: {why}"),
            };
        }
        let Some(name) = &place.node else {
            return WorkloadView::NotJoined;
        };
        let Some(reach) = self.context.workloads.reach(cluster) else {
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: not connected"),
            };
        };
        let memory = self.context.lease_memory(cluster);
        // Read now: a watch that hangs would show a node as silent that has long been back (F5).
        let what = format!("node {name}");
        match reach.node(what, name, &memory).await {
            Ok(None) => WorkloadView::Missing { name: name.clone() },
            Ok(Some((node, lease))) => {
                let facts = node_facts(&node, lease);
                self.snapshot.keep_node(&node);
                index.apply_node(cluster, node);
                WorkloadView::Present(facts)
            }
            Err(error) => WorkloadView::Unreachable {
                why: format!("cluster {cluster}: {error}"),
            },
        }
    }

    /// The workload of a Cluster whose object is gone and whose API cannot be reached: it may run on for as
    /// long as its kubeconfig or the Machine exists (F3, F4).
    async fn removed_workload(&self, place: &Place, cluster: &Key, why: &str) -> WorkloadView {
        let remains = match self.remains(place, cluster).await {
            Ok(None) => {
                let name = cluster.to_string();
                return WorkloadView::ClusterGone { name };
            }
            Ok(Some(what)) => format!("{what} still exists"),
            Err(error) => format!("it is not known what is left of it ({error})"),
        };
        WorkloadView::Unreachable {
            why: format!(
                "Cluster {cluster} was removed, but {remains}, so its workload may still run: {why}. \
                 Create the Cluster again; or, if its workload is gone for good, delete its Machines and \
                 its kubeconfig Secret"
            ),
        }
    }

    /// What is left of a removed Cluster, by live reads: its kubeconfig, or the Machine.
    async fn remains(&self, place: &Place, cluster: &Key) -> Result<Option<String>, ApiError> {
        let name = kubeconfig_secret(&cluster.name);
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), &cluster.namespace);
        let what = format!("Secret {}/{name}", cluster.namespace);
        if optional(call(&what, secrets.get_metadata(&name)).await)?.is_some() {
            return Ok(Some(what));
        }
        match place.machine_key() {
            Some(machine) if !self.is_absent(Kind::Machine, &machine).await? => {
                Ok(Some(format!("Machine {machine}")))
            }
            _ => Ok(None),
        }
    }

    /// F12: by a live read. Of a kind that is not served nothing is known.
    pub(super) async fn is_absent(&self, kind: Kind, key: &Key) -> Result<bool, ApiError> {
        let what = format!("{} {key}", kind.kind());
        let Some(resource) = self.context.served.known(kind) else {
            return Ok(false);
        };
        let objects = api(&self.context.client, &resource, &key.namespace);
        let found = optional(call(what, objects.get(&key.name)).await)?;
        Ok(found.is_none())
    }

    /// A host that nobody knows may be one of an agent that has not spoken yet.
    fn or_silent(&self, host: HostView) -> HostView {
        let HostView::NotFound(Because::HostNotFound(why)) = host else {
            return host;
        };
        let silent = self.context.agents.never_seen();
        HostView::NotFound(if silent.is_empty() {
            Because::HostNotFound(why)
        } else {
            Because::AgentUnreachable(format!("{} ({why})", silent.join("; ")))
        })
    }

    fn bare_metal_host(&mut self, key: &Key) -> Option<BareMetalHostFacts> {
        let entry = self.context.index.host(key);
        self.snapshot.host = entry.clone().map(|entry| (key.clone(), entry));
        let view = entry?.view.ok()?;
        Some(bmh_facts(&view, key, &self.uid))
    }
}

/// A host that an inventory knows by its Node's system UUID is not missing while the Node cannot be
/// read. The way to the Node is made when a request asks for it: until then nobody has to be told.
fn or_unread(host: HostView, workload: &WorkloadView, connecting: bool) -> HostView {
    match (host, workload) {
        (HostView::NotFound(Because::HostNotFound(_)), WorkloadView::Unreachable { .. })
            if connecting =>
        {
            HostView::NotFound(Because::Working)
        }
        (HostView::NotFound(Because::HostNotFound(what)), WorkloadView::Unreachable { why }) => {
            HostView::NotFound(Because::WorkloadUnreachable(format!("{why} ({what})")))
        }
        (host, _) => host,
    }
}

/// The Machine of OpenShift with this name, if there is one.
pub(crate) async fn openshift_machine(
    client: &Client,
    served: &Served,
    key: &Key,
) -> Result<Option<DynamicObject>, String> {
    let found = served.find(client, groups::OPENSHIFT_MACHINE, kinds::MACHINE);
    let Some(resource) = found.await.map_err(|e| words(&e))? else {
        return Ok(None);
    };
    let what = format!("Machine {key} of OpenShift");
    let read = call(what, api(client, &resource, &key.namespace).get(&key.name)).await;
    optional(read).map_err(|e| e.to_string())
}

/// What the request itself says.
pub(crate) fn request_facts(
    index: &Index,
    config: &Config,
    id: &RequestId,
    view: &RequestView,
    place: &Place,
) -> RequestFacts {
    let cluster = place.cluster.as_ref().and_then(|key| index.cluster(key));
    let cluster_paused = cluster
        .and_then(|e| e.view.ok())
        .is_some_and(|c| c.is_paused());
    let meta = view.meta();
    let paused = cluster_paused
        || meta.has_annotation(PAUSED_ANNOTATION)
        || meta.has_annotation(CAPI_PAUSED_ANNOTATION)
        || place
            .machine()
            .is_some_and(|m| m.meta.has_annotation(CAPI_PAUSED_ANNOTATION));
    RequestFacts {
        uid: meta.uid.clone(),
        deleting: meta.is_deleting(),
        timed_out: meta.has_annotation(MEDIK8S_TIMED_OUT_ANNOTATION),
        by_node: place.by_node,
        node_backup: view.has_node_backup(),
        finalizer: meta.has_finalizer(finalizer(id.kind)),
        confirm_fenced: meta.annotations.get(CONFIRM_FENCED_ANNOTATION).cloned(),
        paused,
        policy: view.policy(config),
    }
}

/// The way in which the Node is to be told: the request's word, its Cluster's, the flag's, or what
/// the version of the cluster understands.
pub(crate) fn wanted_node_action(
    index: &Index,
    config: &Config,
    view: &RequestView,
    place: &Place,
) -> NodeAction {
    let word = |meta: &Meta| match meta
        .annotations
        .get(NODE_ACTION_ANNOTATION)
        .map(String::as_str)
    {
        Some(NODE_ACTION_DELETE) => Some(NodeAction::Delete),
        Some(NODE_ACTION_TAINT) => Some(NodeAction::Taint),
        _ => None,
    };
    let cluster = place.cluster.as_ref();
    let of_cluster = cluster
        .and_then(|key| index.cluster(key))
        .and_then(|e| e.view.ok())
        .and_then(|c| word(&c.meta));
    let asked = word(view.meta()).or(of_cluster).or(config.node_action);
    let version = cluster.and_then(|key| index.version(key));
    let version = version.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
    node_action(asked, version)
}

/// The conditions of the Machine, where there is one. For a request by Node only the Node's count, and
/// where no live check judges the Machine, too: nobody would take a False back.
pub(crate) fn machine_facts(index: &Index, place: &Place) -> Option<MachineFacts> {
    match place.machine() {
        Some(_) if place.openshift.is_some() => Some(MachineFacts::not_asked()),
        Some(machine) => Some(MachineFacts {
            not_checked: place.by_node
                || machine_view_facts(machine).not_checked
                || !is_judged(index, machine),
            ..machine_view_facts(machine)
        }),
        None if place.by_node => Some(MachineFacts::not_asked()),
        None => None,
    }
}

fn machine_view_facts(machine: &MachineView) -> MachineFacts {
    let is_false = |list: &[rackhand_api::views::Condition]| {
        find_condition(list, OWNER_REMEDIATED).is_some_and(rackhand_api::views::Condition::is_false)
    };
    MachineFacts {
        health_check_succeeded: machine
            .condition(HEALTH_CHECK_SUCCEEDED)
            .map(|c| c.is_true()),
        owner_remediated_false: is_false(&machine.conditions_v1beta1)
            && is_false(&machine.conditions_v1beta2),
        not_checked: machine.meta.has_annotation(CAPI_PAUSED_ANNOTATION)
            || machine.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION),
    }
}

pub(crate) fn bmh_facts(view: &BareMetalHostView, key: &Key, uid: &str) -> BareMetalHostFacts {
    let ours = names::hold_annotation(uid);
    let foreign: BTreeSet<String> = view
        .meta
        .annotations
        .keys()
        .filter(|k| k.starts_with(REBOOT_ANNOTATION) && **k != ours)
        .cloned()
        .collect();
    BareMetalHostFacts {
        name: key.to_string(),
        online: view.online.unwrap_or(true),
        paused: view.is_paused(),
        detached: view.is_detached(),
        servicing: view.operational_status.as_deref() == Some("servicing"),
        provisioned: view.is_provisioned(),
        disable_power_off: view.disable_power_off,
        deleting: view.meta.is_deleting(),
        our_hold: view.is_held_by(uid),
        foreign_holds: foreign,
        unhealthy_mark: view.meta.has_annotation(names::UNHEALTHY_ANNOTATION)
            && view
                .meta
                .has_annotation(names::UNHEALTHY_V1BETA1_ANNOTATION),
        serial: view.serial_number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_missing() -> HostView {
        HostView::NotFound(Because::HostNotFound("no inventory knows node n".into()))
    }

    fn mk_unreachable() -> WorkloadView {
        WorkloadView::Unreachable {
            why: "not connected".into(),
        }
    }

    #[test]
    fn a_host_is_not_called_missing_before_its_node_was_read() {
        let waits = or_unread(mk_missing(), &mk_unreachable(), true);
        assert_eq!(waits, HostView::NotFound(Because::Working));
        let HostView::NotFound(why) = or_unread(mk_missing(), &mk_unreachable(), false) else {
            panic!("it was found");
        };
        assert_eq!(why.label(), "WorkloadUnreachable");
        let text = why.to_string();
        assert!(text.contains("not connected (no inventory knows"), "{text}");
    }

    #[test]
    fn a_host_that_its_node_does_not_lead_to_is_missing() {
        let gone = WorkloadView::Missing { name: "n".into() };
        assert_eq!(or_unread(mk_missing(), &gone, true), mk_missing());
        let several = HostView::NotFound(Because::HostAmbiguous("a/x, b/x".into()));
        assert_eq!(or_unread(several.clone(), &mk_unreachable(), true), several);
    }
}
