//! Carries out one command.
//!
//! Must never do more than the command says; all of it may be repeated.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{
    self, BMC_SECRET_PASSWORD, BMC_SECRET_USERNAME, HOLD_ANNOTATION_VALUE,
    METAL3_REMEDIATION_FINALIZER, UNHEALTHY_ANNOTATION, UNHEALTHY_V1BETA1_ANNOTATION,
    UNHEALTHY_VALUE, conditions::OWNER_REMEDIATED,
};
use rackhand_core::remediation::{Because, Command, HostRef, HostView, Observation, Policy};
use rackhand_proto::v1;
use serde_json::{Value, json};

use super::{
    engine::{Engine, Setback},
    patches::{NewCondition, both_lists, taints},
};
use crate::{
    agents::{CallFailure, OffRequest, Wanted},
    api::{ApiError, call},
    object::{Key, Kind, api},
};

/// How long one reading of a BMC may take: shorter than the hold watch would be late otherwise.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

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
            Command::RemoveFinalizer => self.finalizer(false).await,
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
                let deadline = policy.power_off_timeout.saturating_add(*command_after);
                self.power_off(&self.host_of(host)?, id, off, deadline)
                    .await
            }
            Command::PowerOn { id } => self.power_on(&self.host_of(host)?, id, &policy).await,
            Command::Cancel { id } => {
                let host = self.host_of(host)?;
                let cancelled = self.context.agents.cancel(&host, id).await;
                self.forgiving("cancel", cancelled)
            }
            Command::Release => {
                let host = self.host_of(host)?;
                let endpoint = self.endpoint(&host).await?;
                let released = self
                    .context
                    .agents
                    .release(&host, endpoint, &self.uid)
                    .await;
                self.forgiving("release", released)
            }
            Command::ReadPower => {
                let host = self.host_of(host)?;
                let endpoint = self.endpoint(&host).await?;
                let view = self
                    .context
                    .agents
                    .read_power(&host, endpoint, READ_TIMEOUT)
                    .await;
                self.power = Some(view);
                Ok(())
            }
            Command::AddTaint => self.taint(o, true).await,
            Command::RemoveTaint => self.taint(o, false).await,
            Command::Escalate => self.escalate(host.and_then(|h| h.bmh)).await,
        }
    }

    fn host_of(&self, host: Option<HostRef>) -> Result<HostRef, Setback> {
        host.ok_or_else(|| {
            ApiError::other(
                format!("Metal3Remediation {}", self.key),
                "no host is chosen",
            )
            .into()
        })
    }

    fn bmh_key(&self, host: Option<HostRef>) -> Result<Key, Setback> {
        let host = self.host_of(host)?;
        host.bmh.as_deref().map(Key::parse).ok_or_else(|| {
            ApiError::other(format!("host {}", host.host), "it has no BareMetalHost").into()
        })
    }

    async fn finalizer(&mut self, on: bool) -> Result<(), Setback> {
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        let mut list = entry.object.metadata.finalizers.clone().unwrap_or_default();
        list.retain(|f| f != METAL3_REMEDIATION_FINALIZER);
        if on {
            list.push(METAL3_REMEDIATION_FINALIZER.into());
        }
        let body = json!({ "metadata": {
            "resourceVersion": entry.object.metadata.resource_version,
            "finalizers": list,
        }});
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
        self.patch_host(
            host,
            "hold",
            json!({ "metadata": { "annotations": { key: value } } }),
        )
        .await
    }

    async fn patch_host(
        &self,
        host: &Key,
        operation: &'static str,
        body: Value,
    ) -> Result<(), Setback> {
        let what = format!("BareMetalHost {host}");
        let resource = self
            .context
            .served
            .known(Kind::BareMetalHost)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let hosts = api(&self.context.client, &resource, &host.namespace);
        let name = host.name.clone();
        let patched = self
            .context
            .writer
            .write(operation, what, move || async move {
                hosts
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
            Err(error) => Err(error.into()),
        }
    }

    /// How to reach the BMC, where the agent's inventory does not know: read when it is needed, sent
    /// with the command, kept nowhere.
    async fn endpoint(&self, host: &HostRef) -> Result<Option<v1::BmcEndpoint>, Setback> {
        let racks = self.context.agents.racks();
        let known = racks
            .get(&host.rack)
            .is_some_and(|r| r.hosts.iter().any(|h| h.name == host.host));
        let Some(bmh) = host.bmh.as_deref().filter(|_| !known) else {
            return Ok(None);
        };
        let key = Key::parse(bmh);
        let what = format!("BareMetalHost {key}");
        let entry = self
            .context
            .index
            .host(&key)
            .ok_or_else(|| ApiError::other(&what, "does not exist"))?;
        let view = entry.view.map_err(|e| ApiError::other(&what, e))?;
        let bmc = view
            .bmc
            .as_ref()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc is not set"))?;
        let address = bmc
            .address
            .clone()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc.address is not set"))?;
        let name = bmc
            .credentials_name
            .clone()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc.credentialsName is not set"))?;
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let what = format!("Secret {}/{name}", key.namespace);
        let secret = call(&what, secrets.get(&name)).await?;
        let field = |field: &str| -> Result<String, Setback> {
            let bytes = secret.data.as_ref().and_then(|d| d.get(field));
            let text = bytes
                .and_then(|b| std::str::from_utf8(&b.0).ok())
                .map(str::trim);
            match text.filter(|t| !t.is_empty()) {
                Some(text) => Ok(text.to_owned()),
                None => {
                    Err(ApiError::other(&what, format!("key {field:?} is missing or empty")).into())
                }
            }
        };
        Ok(Some(v1::BmcEndpoint {
            address,
            username: field(BMC_SECRET_USERNAME)?,
            password: field(BMC_SECRET_PASSWORD)?,
            insecure_skip_verify: bmc.disable_certificate_verification,
        }))
    }

    async fn power_off(
        &mut self,
        host: &HostRef,
        id: &str,
        off: OffRequest,
        deadline: Duration,
    ) -> Result<(), Setback> {
        let endpoint = self.endpoint(host).await?;
        let owner = self.uid.clone();
        let wanted = Wanted {
            host,
            endpoint,
            id,
            owner: &owner,
            deadline,
        };
        let begun = self.context.agents.begin_off(wanted, off).await;
        self.begun(host, begun)
    }

    async fn power_on(&mut self, host: &HostRef, id: &str, policy: &Policy) -> Result<(), Setback> {
        let endpoint = self.endpoint(host).await?;
        let owner = self.uid.clone();
        let deadline = policy.power_on_timeout;
        let wanted = Wanted {
            host,
            endpoint,
            id,
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
                tracing::warn!(remediation = %self.key, what, why, "the agent refused; going on");
                Ok(())
            }
            Err(CallFailure::Later(why)) => Err(ApiError::other(what, why).into()),
        }
    }

    async fn taint(&self, o: &Observation, on: bool) -> Result<(), Setback> {
        let rackhand_core::remediation::WorkloadView::Present(facts) = &o.workload else {
            return Err(ApiError::other("taint", "the node is not there").into());
        };
        let cluster = self
            .interest
            .lock()
            .cluster
            .clone()
            .ok_or_else(|| ApiError::other("taint", "the cluster is not known"))?;
        let client = self.context.workloads.client(&cluster).ok_or_else(|| {
            ApiError::other("taint", format!("cluster {cluster} is not connected"))
        })?;
        let nodes: Api<Node> = Api::all(client);
        let name = facts.name.clone();
        let what = format!("taint of node {name} of cluster {cluster}");
        let node = call(&what, nodes.get(&name)).await?;
        if node.uid().as_deref() != Some(&facts.uid) {
            return Err(ApiError::other(what, "the node was replaced meanwhile").into());
        }
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
        let patched = self
            .context
            .writer
            .write(
                if on { "taint" } else { "untaint" },
                what,
                move || async move {
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

    /// Both lists of conditions in one patch, both unhealthy marks.
    async fn escalate(&self, bmh: Option<String>) -> Result<(), Setback> {
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        let owner = entry.view.ok().and_then(|v| v.machine().cloned());
        let machine = owner.and_then(|owner| {
            self.context
                .index
                .machine(&Key::new(&self.key.namespace, &owner.name))
        });
        if let Some((entry, view)) =
            machine.and_then(|entry| entry.view.clone().ok().map(|view| (entry, view)))
        {
            let attempts = self.recorded.state.as_ref().map_or(0, |s| s.attempt);
            let message = Because::Exhausted(attempts).to_string();
            let condition = |severity| NewCondition {
                type_: OWNER_REMEDIATED,
                status: "False",
                reason: "WaitingForRemediation",
                message: &message,
                severity,
            };
            let body = both_lists(
                &entry.object,
                view.shape,
                &[condition(Some("Warning"))],
                &[condition(None)],
                &[],
                Timestamp::now(),
            );
            if let Some(body) = body {
                let what = format!("Machine {}/{}", self.key.namespace, view.meta.name);
                let resource = self
                    .context
                    .served
                    .known(Kind::Machine)
                    .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
                let machines = api(&self.context.client, &resource, &self.key.namespace);
                let name = view.meta.name.clone();
                let object = self
                    .context
                    .writer
                    .write("escalate", what, move || async move {
                        machines
                            .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
                            .await
                    })
                    .await?;
                self.context.index.apply(Kind::Machine, object);
            }
        }
        if let Some(bmh) = bmh {
            let body = json!({ "metadata": { "annotations": {
                UNHEALTHY_ANNOTATION: UNHEALTHY_VALUE,
                UNHEALTHY_V1BETA1_ANNOTATION: UNHEALTHY_VALUE,
            }}});
            self.patch_host(&Key::parse(&bmh), "unhealthy_mark", body)
                .await?;
        }
        Ok(())
    }
}
