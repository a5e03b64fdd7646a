//! Carries out one command.
//!
//! Must never do more than the command says; all of it may be repeated.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{self, HOLD_ANNOTATION_VALUE};
use rackhand_core::remediation::{
    Command, HostRef, HostView, NodeFacts, Observation, Policy, PowerView, WorkloadView,
    last_word_stands,
};
use rackhand_proto::limits::LONGEST_OPERATION;
use serde_json::{Value, json};

use super::{
    engine::{Engine, Setback},
    patches::taints,
    request::finalizer,
};
use crate::{
    agents::{CallFailure, OffRequest, Wanted},
    api::{ApiError, call},
    object::{Key, Kind, api},
    steady,
};

/// A Node of a workload cluster, and the way to it.
pub(super) struct OneNode<'a> {
    pub(super) facts: &'a NodeFacts,
    pub(super) cluster: Key,
    pub(super) nodes: Api<Node>,
    /// For messages.
    pub(super) what: String,
    /// As it was observed, without its status.
    pub(super) node: Node,
}

/// How long one reading of a BMC may take: shorter than the hold watch would be late otherwise.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// What a host gets at least beyond the readings that confirm its power.
const LEAST: Duration = Duration::from_secs(1);

/// The deadline of a power-off, within what an agent takes: a time that was set before its bounds
/// were, or by a flag, must not make every try fail.
pub(super) fn off_deadline(policy: &Policy, command_after: Duration) -> Duration {
    let readings = policy.confirmations.saturating_sub(1);
    let least = policy.confirm_interval.saturating_mul(readings);
    policy
        .power_off_timeout
        .max(least.saturating_add(LEAST))
        .saturating_add(command_after)
        .min(LONGEST_OPERATION)
}

/// The same of a power-on.
pub(super) fn on_deadline(policy: &Policy) -> Duration {
    policy.power_on_timeout.clamp(LEAST, LONGEST_OPERATION)
}

impl Engine {
    pub(super) async fn act(&mut self, command: &Command, o: &Observation) -> Result<(), Setback> {
        let state = self.recorded.state.as_ref();
        let host = state
            .and_then(|s| s.host.clone())
            .or_else(|| match &o.host {
                HostView::Found(host) => Some(host.clone()),
                HostView::NotFound(_) => None,
            });
        let policy = o.request.policy.clone().unwrap_or_default();
        match command {
            Command::AddFinalizer => self.finalizer(true).await,
            Command::RemoveFinalizer(_) => {
                self.let_go_everywhere(host).await;
                self.finalizer(false).await
            }
            Command::AddHold => self.hold(&self.bmh_key(host)?, true).await,
            Command::RemoveHold => self.hold(&self.bmh_key(host)?, false).await,
            Command::PowerOff {
                id,
                command_after,
                system_uuid,
                serial,
            } => {
                let off = OffRequest {
                    command_after: *command_after,
                    confirmations: policy.confirmations,
                    confirm_interval: policy.confirm_interval,
                    system_uuid: system_uuid.clone(),
                    serial: serial.clone(),
                };
                let deadline = off_deadline(&policy, *command_after);
                self.power_off(&self.host_of(host)?, id, off, deadline)
                    .await
            }
            Command::PowerOn { id } => self.power_on(&self.host_of(host)?, id, &policy).await,
            Command::Cancel { id } => {
                let host = self.host_of(host)?;
                let pinned = state.and_then(|s| s.pinned.as_ref());
                let at = pinned
                    .filter(|p| p.operation == *id)
                    .map(|p| p.agent.agent.clone());
                let agents = &self.context.agents;
                let cancelled = agents.cancel(&host, at.as_deref(), id).await;
                self.forgiving("cancel", cancelled)
            }
            Command::Release => {
                let host = self.host_of(host)?;
                // A hold is found by the name of its host, too: what is gone keeps nobody held.
                let endpoint = self.endpoint(&host).await?.unwrap_or_default();
                let released = self
                    .context
                    .agents
                    .release(&host, endpoint, &self.uid)
                    .await;
                self.forgiving("release", released)
            }
            Command::ReadPower => {
                let host = self.host_of(host)?;
                let Some(endpoint) = self.needed_endpoint(&host).await? else {
                    return Ok(());
                };
                let view = self
                    .context
                    .agents
                    .read_power(&host, endpoint, READ_TIMEOUT)
                    .await;
                let lease = match &o.workload {
                    WorkloadView::Present(node) => node.lease.as_ref(),
                    _ => None,
                };
                self.power = Some(PowerView {
                    lease: lease.map(|l| l.renewed.clone()),
                    ..view
                });
                Ok(())
            }
            Command::AddTaint => self.taint(o, true).await,
            Command::RemoveTaint => self.taint(o, false).await,
            Command::BackUpNode => self.back_up_node(o).await,
            Command::DeleteNode { uid } => self.delete_node(o, uid).await,
            Command::RestoreNode => self.restore_node(o).await,
            Command::Escalate { retire } => {
                let mark = host.and_then(|h| h.bmh).filter(|_| *retire);
                self.escalate(o, mark).await
            }
        }
    }

    /// F9: also an agent that no longer serves the rack holds nothing in our name, as far as it answers. What
    /// another one holds is released when it answers again, see [`super::left_holds`].
    async fn let_go_everywhere(&self, host: Option<HostRef>) {
        let Some(host) = host else {
            return;
        };
        let silent = self.context.agents.silent_of_rack(&host.rack);
        let began = self
            .recorded
            .state
            .as_ref()
            .is_some_and(|s| s.pinned.is_some());
        if began && !silent.is_empty() {
            let message = format!(
                "agent {} is out of reach and may still hold host {} off; its hold is released when it \
                 answers again",
                silent.join(", "),
                host.host
            );
            self.tell(false, "HoldMayRemain", &message);
        }
        if self
            .context
            .agents
            .holding(&host.rack, &self.uid)
            .is_empty()
        {
            return;
        }
        let endpoint = self.endpoint(&host).await.ok();
        let endpoint = endpoint.and_then(Result::ok).flatten();
        let agents = &self.context.agents;
        let released = agents
            .release_others(&host, endpoint, &self.uid, None)
            .await;
        if let Err(error) = released {
            tracing::warn!(remediation = %self.id, ?error, "a hold is left at an agent that stands by");
        }
    }

    /// The agent at which the operation of the state is to be begun.
    fn pinned_agent(&self) -> Option<String> {
        let state = self.recorded.state.as_ref()?;
        state.pinned.as_ref().map(|pin| pin.agent.agent.clone())
    }

    fn host_of(&self, host: Option<HostRef>) -> Result<HostRef, Setback> {
        host.ok_or_else(|| ApiError::other(self.id.to_string(), "no host is chosen").into())
    }

    fn bmh_key(&self, host: Option<HostRef>) -> Result<Key, Setback> {
        let host = self.host_of(host)?;
        host.bmh.as_deref().map(Key::parse).ok_or_else(|| {
            ApiError::other(format!("host {}", host.host), "it has no BareMetalHost").into()
        })
    }

    async fn finalizer(&mut self, on: bool) -> Result<(), Setback> {
        let entry = self.snapshot.request.clone().ok_or(Setback::Gone)?;
        let ours = finalizer(self.id.kind);
        let mut list = entry.object.metadata.finalizers.clone().unwrap_or_default();
        list.retain(|f| f != ours);
        if on {
            list.push(ours.into());
        }
        let body = json!({ "metadata": { "finalizers": list } });
        self.patch("finalizer", body, false).await
    }

    /// F2, F9: only our own key.
    async fn hold(&self, host: &Key, on: bool) -> Result<(), Setback> {
        let key = names::hold_annotation(&self.uid);
        let value = if on {
            Value::from(HOLD_ANNOTATION_VALUE)
        } else {
            Value::Null
        };
        let body = json!({ "metadata": { "annotations": { key: value } } });
        self.patch_host(host, "hold", body).await
    }

    /// Patches the BareMetalHost if it is still as it was observed. A write that was on its way when
    /// this process lost its Lease may arrive when all is over: a hold key that is set then would
    /// switch a healthy host off, one that is removed then would switch on a host that is tainted.
    pub(super) async fn patch_host(
        &self,
        host: &Key,
        operation: &'static str,
        mut body: Value,
    ) -> Result<(), Setback> {
        let what = format!("BareMetalHost {host}");
        // The host is gone, and everything on it.
        let Some(seen) = self.snapshot.host_version(host) else {
            return Ok(());
        };
        body["metadata"]["resourceVersion"] = seen.into();
        let resource = self
            .context
            .served
            .known(Kind::BareMetalHost)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let hosts = api(&self.context.client, &resource, &host.namespace);
        let name = host.name.clone();
        let patching = hosts.clone();
        let asked = what.clone();
        let patched = self
            .context
            .writer
            .write(operation, asked, move || async move {
                patching
                    .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                    .await
            })
            .await;
        match patched {
            Ok(object) => {
                self.context.index.apply(Kind::BareMetalHost, object);
                Ok(())
            }
            // The host is gone, and everything on it.
            Err(error) if error.is_not_found() => {
                self.context.index.delete(Kind::BareMetalHost, host);
                Ok(())
            }
            Err(error) if error.is_conflict() => {
                // The next turn decides by what stands there now, also where the watch lags.
                if let Ok(fresh) = call(what, hosts.get(&host.name)).await {
                    self.context.index.apply(Kind::BareMetalHost, fresh);
                }
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn power_off(
        &mut self,
        host: &HostRef,
        id: &str,
        off: OffRequest,
        deadline: Duration,
    ) -> Result<(), Setback> {
        let at = self.pinned_agent();
        let Some(endpoint) = self.needed_endpoint(host).await? else {
            return Ok(());
        };
        let owner = self.uid.clone();
        let wanted = Wanted {
            host,
            endpoint,
            id,
            at: at.as_deref(),
            owner: &owner,
            deadline,
        };
        let begun = self.context.agents.begin_off(wanted, off).await;
        self.begun(host, begun)
    }

    async fn power_on(&mut self, host: &HostRef, id: &str, policy: &Policy) -> Result<(), Setback> {
        let at = self.pinned_agent();
        let Some(endpoint) = self.needed_endpoint(host).await? else {
            return Ok(());
        };
        let owner = self.uid.clone();
        let deadline = on_deadline(policy);
        let wanted = Wanted {
            host,
            endpoint,
            id,
            at: at.as_deref(),
            owner: &owner,
            deadline,
        };
        let begun = self.context.agents.begin_on(wanted).await;
        self.begun(host, begun)
    }

    fn begun(&mut self, host: &HostRef, begun: Result<(), CallFailure>) -> Result<(), Setback> {
        match begun {
            Ok(()) => {
                self.ask_again();
                self.follow(host);
                Ok(())
            }
            Err(CallFailure::Rejected(why)) => {
                self.rejected(why);
                Ok(())
            }
            Err(CallFailure::Later(why)) => {
                // It may have begun all the same: the agent is asked before it is begun again.
                self.ask_again();
                Err(ApiError::other(format!("agent of rack {}", host.rack), why).into())
            }
        }
    }

    /// A refusal to undo what is not there is no reason to stand still.
    fn forgiving(&self, what: &str, result: Result<(), CallFailure>) -> Result<(), Setback> {
        match result {
            Ok(()) => Ok(()),
            Err(CallFailure::Rejected(why)) => {
                tracing::warn!(remediation = %self.id, what, why, "the agent refused; going on");
                Ok(())
            }
            Err(CallFailure::Later(why)) => Err(ApiError::other(what, why).into()),
        }
    }

    /// The Node that was observed, and the way to it.
    pub(super) fn one_node<'a>(&self, o: &'a Observation) -> Result<OneNode<'a>, Setback> {
        let WorkloadView::Present(facts) = &o.workload else {
            return Err(ApiError::other("node", "it is not there").into());
        };
        let cluster = self
            .interest
            .lock()
            .cluster
            .clone()
            .ok_or_else(|| ApiError::other("node", "its cluster is not known"))?;
        let reach = self.context.workloads.reach(&cluster).ok_or_else(|| {
            ApiError::other("node", format!("cluster {cluster} is not connected"))
        })?;
        let what = format!("node {} of cluster {cluster}", facts.name);
        let node = self.snapshot.node(&facts.uid).cloned();
        let node = node.ok_or_else(|| ApiError::other(&what, "it was not observed"))?;
        Ok(OneNode {
            facts,
            cluster,
            nodes: Api::all(reach.client.clone()),
            what,
            node,
        })
    }

    /// Checks the age of the BMC's last word (F1) at the moment in which it is called.
    pub(super) fn last_word(&self) -> impl FnOnce() -> Result<(), kube::Error> + Send + use<> {
        let off = self.recorded.state.as_ref().and_then(|s| s.off.clone());
        let power = self.power.clone();
        move || {
            let stands = last_word_stands(off.as_ref(), power.as_ref(), steady::now());
            stands.map_err(|why| kube::Error::Service(why.into()))
        }
    }

    async fn taint(&self, o: &Observation, on: bool) -> Result<(), Setback> {
        let OneNode {
            facts,
            cluster,
            nodes,
            what,
            node,
        } = self.one_node(o)?;
        let name = facts.name.clone();
        let now = self.context.config.taint_time_added.then(Timestamp::now);
        let old = node
            .spec
            .as_ref()
            .and_then(|s| s.taints.clone())
            .unwrap_or_default();
        let body = json!({
            "metadata": { "resourceVersion": node.resource_version() },
            "spec": { "taints": taints(&old, on, now) },
        });
        let last_word = self.last_word();
        let patched = self
            .context
            .writer
            .write(
                if on { "taint" } else { "untaint" },
                what,
                move || async move {
                    if on {
                        last_word()?;
                    }
                    nodes
                        .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                        .await
                },
            )
            .await?;
        self.context.index.apply_node(&cluster, patched);
        let (reason, message) = if on {
            (
                "Tainted",
                format!("out-of-service taint set on node {}", facts.name),
            )
        } else {
            (
                "Untainted",
                format!("out-of-service taint removed from node {}", facts.name),
            )
        };
        self.tell(false, reason, &message);
        Ok(())
    }
}
