//! Gathers what a step looks at.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rackhand_api::{
    names::{
        self, CAPI_PAUSED_ANNOTATION, CLUSTER_NAME_LABEL, CONFIRM_FENCED_ANNOTATION,
        METAL3_REMEDIATION_FINALIZER, PAUSED_ANNOTATION, RACK_LABEL, REBOOT_ANNOTATION,
        SKIP_REMEDIATION_ANNOTATION,
        conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED},
        groups, kinds,
    },
    views::{BareMetalHostView, MachineView, Metal3RemediationView, Strategy, find_condition},
};
use rackhand_core::{
    hosts::{Wanted, WantedBmh, resolve},
    remediation::{
        AgentView, BareMetalHostFacts, Because, HostView, MachineView as MachineFacts, Observation,
        Policy, PolicyError, RequestFacts, State, Step, WorkloadView,
    },
};

use super::engine::{Engine, Setback};
use crate::{
    api::{call, optional},
    cluster::{drain, node_facts, node_lease},
    index::{Connection, Entry},
    object::Key,
};

/// Where the Machine and its Node are.
pub(super) struct Place {
    pub(super) machine: Option<Entry<MachineView>>,
    pub(super) cluster: Option<Key>,
    pub(super) node: Option<String>,
}

impl Engine {
    /// Looks at everything. `Ok(Err(..))`: the object cannot be read; nothing is decided.
    pub(super) async fn observe(&mut self) -> Result<Result<Observation, Because>, Setback> {
        let now = Timestamp::now();
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        let view = match &entry.view {
            Ok(view) => view.clone(),
            Err(error) => return Ok(Err(Because::InvalidSpec(error.to_string()))),
        };
        let state = self.recorded.state.clone();
        let place = self.place(&view, state.as_ref());
        {
            let mut interest = self.interest.lock();
            interest.cluster.clone_from(&place.cluster);
            interest.node.clone_from(&place.node);
        }
        let workload = self.workload(&place, now).await;
        let (host, bmh_key) = self.host(&place, &workload, state.as_ref());
        let found = match &host {
            HostView::Found(host) => Some(host.clone()),
            HostView::NotFound(_) => None,
        };
        let bmh = bmh_key.as_ref().and_then(|key| self.bare_metal_host(key));
        let mut agent = match &found {
            None => AgentView::Unreachable {
                why: "the host is not known".into(),
            },
            Some(host) => match self.context.agents.of_rack(&host.rack) {
                Ok(_) => AgentView::Ready,
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
            (true, Some(cluster), Some(node)) => match self.context.workloads.client(cluster) {
                Some(client) => match drain(&client, node).await {
                    Ok(drain) => (workload, Some(drain)),
                    Err(e) => (WorkloadView::Unreachable { why: e.to_string() }, None),
                },
                None => (workload, None),
            },
            _ => (workload, None),
        };
        let conflict =
            self.right_of_way(&view, &place, found.as_ref(), bmh.as_ref(), state.as_ref());
        let machine = place.machine.as_ref().and_then(|e| e.view.as_ref().ok());
        Ok(Ok(Observation {
            request: self.request(&view, &place),
            machine: machine.map(|m| machine_facts(m)),
            host,
            bmh,
            workload,
            agent,
            operation,
            power: self.power.clone(),
            drain,
            conflict,
            completed: self.completed.clone(),
        }))
    }

    fn request(&self, view: &Metal3RemediationView, place: &Place) -> RequestFacts {
        let cluster = place
            .cluster
            .as_ref()
            .and_then(|key| self.context.index.cluster(key));
        let cluster_paused = cluster
            .and_then(|e| e.view.ok())
            .is_some_and(|c| c.is_paused());
        let machine = place.machine.as_ref().and_then(|e| e.view.as_ref().ok());
        let paused = cluster_paused
            || view.meta.has_annotation(PAUSED_ANNOTATION)
            || view.meta.has_annotation(CAPI_PAUSED_ANNOTATION)
            || machine.is_some_and(|m| m.meta.has_annotation(CAPI_PAUSED_ANNOTATION));
        RequestFacts {
            uid: self.uid.clone(),
            deleting: view.meta.is_deleting(),
            finalizer: view.meta.has_finalizer(METAL3_REMEDIATION_FINALIZER),
            confirm_fenced: view
                .meta
                .annotations
                .get(CONFIRM_FENCED_ANNOTATION)
                .cloned(),
            paused,
            policy: policy(view.strategy.as_ref(), &self.context.config),
        }
    }

    fn place(&self, view: &Metal3RemediationView, state: Option<&State>) -> Place {
        let index = &self.context.index;
        let machine = view.machine().and_then(|owner| {
            let found = index.machine(&Key::new(&self.key.namespace, &owner.name))?;
            // A Machine of the same name that came later is another one.
            (found.object.metadata.uid.as_deref() == Some(&owner.uid)).then_some(found)
        });
        let read = machine.as_ref().and_then(|e| e.view.as_ref().ok());
        let cluster = read
            .and_then(|m| m.cluster_name.clone())
            .or_else(|| view.meta.labels.get(CLUSTER_NAME_LABEL).cloned())
            .map(|name| Key::new(&self.key.namespace, name));
        let node = state
            .and_then(|s| s.node.as_ref())
            .map(|n| n.name.clone())
            .or_else(|| read.and_then(|m| m.node_name.clone()));
        Place {
            machine,
            cluster,
            node,
        }
    }

    async fn workload(&self, place: &Place, now: Timestamp) -> WorkloadView {
        let Some(cluster) = &place.cluster else {
            return WorkloadView::Unreachable {
                why: "the Machine names no cluster".into(),
            };
        };
        let index = &self.context.index;
        if let Connection::Down(why) = index.connection(cluster) {
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: {why}"),
            };
        }
        let Some(name) = &place.node else {
            return WorkloadView::NotJoined;
        };
        let Some(client) = self.context.workloads.client(cluster) else {
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: not connected"),
            };
        };
        let memory = self.context.lease_memory(cluster);
        let nodes: Api<Node> = Api::all(client.clone());
        // Read now: a watch that hangs would show a node as silent that has long been back (F5).
        let (node, lease) = tokio::join!(
            call(format!("node {name} of cluster {cluster}"), nodes.get(name)),
            node_lease(&client, name, &memory, now),
        );
        match (optional(node), lease) {
            (Ok(None), _) => WorkloadView::Missing { name: name.clone() },
            (Ok(Some(node)), Ok(lease)) => {
                let facts = node_facts(&node, lease);
                index.apply_node(cluster, node);
                WorkloadView::Present(facts)
            }
            (Err(error), _) | (_, Err(error)) => WorkloadView::Unreachable {
                why: error.to_string(),
            },
        }
    }

    /// Which host it is. Once chosen it stays: the state names it.
    fn host(
        &self,
        place: &Place,
        workload: &WorkloadView,
        state: Option<&State>,
    ) -> (HostView, Option<Key>) {
        if let Some(host) = state
            .filter(|s| s.step != Step::Pending)
            .and_then(|s| s.host.clone())
        {
            let bmh = host.bmh.as_deref().map(Key::parse);
            return (HostView::Found(host), bmh);
        }
        let (bmh_key, bmh) = match self.linked_host(place) {
            Ok(linked) => linked,
            Err(because) => return (HostView::NotFound(because), None),
        };
        let node = match workload {
            WorkloadView::Present(node) => Some(node),
            _ => None,
        };
        let machine = place.machine.as_ref().and_then(|e| e.view.as_ref().ok());
        let wanted = Wanted {
            node_name: place.node.clone(),
            provider_id: machine.and_then(|m| m.provider_id.clone()),
            system_uuid: node
                .map(|n| n.system_uuid.clone())
                .filter(|u| !u.is_empty()),
            bmh,
        };
        let racks = self.context.agents.racks();
        let view = match resolve(&wanted, &racks) {
            Ok(host) => HostView::Found(host),
            // A host that nobody knows may be one of an agent that has not spoken yet.
            Err(Because::HostNotFound(why)) => {
                let silent = self.context.agents.never_seen();
                HostView::NotFound(if silent.is_empty() {
                    Because::HostNotFound(why)
                } else {
                    Because::AgentUnreachable(format!("{} ({why})", silent.join("; ")))
                })
            }
            Err(because) => HostView::NotFound(because),
        };
        (view, bmh_key)
    }

    /// Machine -> Metal3Machine -> BareMetalHost, agreed in both directions.
    fn linked_host(&self, place: &Place) -> Result<(Option<Key>, Option<WantedBmh>), Because> {
        let none = Ok((None, None));
        let Some(machine) = place.machine.as_ref().and_then(|e| e.view.as_ref().ok()) else {
            return none;
        };
        let Some(reference) = &machine.infrastructure_ref else {
            return none;
        };
        if reference.kind.as_deref() != Some(kinds::METAL3_MACHINE)
            || reference.group.as_deref() != Some(groups::INFRASTRUCTURE)
        {
            return none;
        }
        let Some(name) = &reference.name else {
            return none;
        };
        let key = Key::new(&self.key.namespace, name);
        let missing = |what: String| Err(Because::HostNotFound(what));
        let index = &self.context.index;
        let Some(entry) = index.metal3_machine(&key) else {
            return missing(format!("Metal3Machine {key} does not exist"));
        };
        let metal3_machine = match &entry.view {
            Ok(view) => view,
            Err(error) => return missing(error.to_string()),
        };
        let Some(host) = &metal3_machine.host else {
            return missing(format!(
                "Metal3Machine {key} is linked to no BareMetalHost yet"
            ));
        };
        // Like CAPM3: the namespace in the annotation does not count.
        let host_key = Key::new(&key.namespace, &host.name);
        let Some(entry) = index.host(&host_key) else {
            return missing(format!("BareMetalHost {host_key} does not exist"));
        };
        let bmh = match &entry.view {
            Ok(view) => view,
            Err(error) => return missing(error.to_string()),
        };
        let consumer = bmh.consumer.as_ref().and_then(|c| c.name.as_deref());
        if consumer.is_some_and(|c| c != key.name) {
            return missing(format!(
                "BareMetalHost {host_key} is consumed by {}, not by Metal3Machine {key}",
                consumer.unwrap_or_default()
            ));
        }
        let rack = bmh
            .meta
            .labels
            .get(RACK_LABEL)
            .or_else(|| bmh.meta.annotations.get(RACK_LABEL));
        let wanted = WantedBmh {
            name: host_key.to_string(),
            address: bmh
                .bmc
                .as_ref()
                .and_then(|b| b.address.clone())
                .unwrap_or_default(),
            rack: rack.cloned(),
        };
        Ok((Some(host_key), Some(wanted)))
    }

    fn bare_metal_host(&self, key: &Key) -> Option<BareMetalHostFacts> {
        let entry = self.context.index.host(key)?;
        let view = entry.view.ok()?;
        Some(bmh_facts(&view, key, &self.uid))
    }
}

fn machine_facts(machine: &MachineView) -> MachineFacts {
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

fn bmh_facts(view: &BareMetalHostView, key: &Key, uid: &str) -> BareMetalHostFacts {
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

fn policy(
    strategy: Option<&Strategy>,
    config: &crate::config::Config,
) -> Result<Policy, PolicyError> {
    let strategy = strategy.ok_or(PolicyError::NoStrategy)?;
    match strategy.strategy_type.as_deref() {
        Some(Strategy::REBOOT) => {}
        other => {
            return Err(PolicyError::UnknownStrategy(
                other.unwrap_or_default().to_owned(),
            ));
        }
    }
    let retry_limit =
        u32::try_from(strategy.retry_limit.unwrap_or(0)).map_err(|_| PolicyError::Field {
            field: "spec.strategy.retryLimit".into(),
            message: "must not be negative".into(),
        })?;
    Ok(Policy {
        retry_limit,
        boot_timeout: strategy.effective_timeout(),
        cooperative_grace: config.cooperative_grace,
        power_off_timeout: config.power_timeout,
        power_on_timeout: config.power_timeout,
        drain_timeout: config.drain_timeout,
        ..Policy::default()
    })
}
