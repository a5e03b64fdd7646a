//! Carries out one command.
//!
//! Does exactly what the command says; every command may be repeated.

use std::time::Duration;

use futures::future::Either;
use rackhand_core::remediation::{
    Begun, Command, HostRef, HostView, Observation, Policy, PowerDevice, PowerView, State,
};
use rackhand_proto::{limits::LONGEST_OPERATION, v1};
use serde_json::json;

use super::{
    engine::{Engine, ReconcileError},
    policy::finalizer,
};
use crate::{
    agents::{CallFailure, OffRequest, OperationRequest},
    store::{api::ApiError, object::Key},
};

/// Timeout of one reading of a BMC. A longer one would delay the monitoring of the hold.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a BMC has to answer after the outlets of its host have. The reading of the outlets must not
/// become too old for a taint (`LATEST_READING_AGE` of the core) because a BMC without power is silent.
const BMC_AFTER_OUTLETS: Duration = Duration::from_millis(500);

/// Minimum time for an operation beyond the readings that confirm it.
const LEAST: Duration = Duration::from_secs(1);

/// The deadline of a power-off, limited to what an agent accepts, because a value from a flag or an
/// older object may be out of bounds.
pub(super) fn off_deadline(policy: &Policy, command_after: Duration) -> Duration {
    let readings = policy.confirmations.saturating_sub(1);
    let least = policy.confirm_interval.saturating_mul(readings);
    policy
        .power_off_timeout
        .max(least.saturating_add(LEAST))
        .saturating_add(command_after)
        .min(LONGEST_OPERATION)
}

/// The deadline of a power-on, see [`off_deadline`].
pub(super) fn on_deadline(policy: &Policy) -> Duration {
    policy.power_on_timeout.clamp(LEAST, LONGEST_OPERATION)
}

impl Engine {
    pub(super) async fn act(
        &mut self,
        command: &Command,
        o: &Observation,
    ) -> Result<(), ReconcileError> {
        let host = self
            .shell
            .state
            .as_ref()
            .and_then(|s| s.host.clone())
            .or_else(|| match &o.host {
                HostView::Found(host) => Some(host.clone()),
                HostView::NotFound(_) => None,
            });
        let policy = o.policy(self.shell.state.as_ref()).cloned();
        let policy = policy.unwrap_or_default();
        match command {
            Command::AddFinalizer => self.finalizer(true).await,
            Command::RemoveFinalizer(_) => {
                self.release_all_holds(host).await;
                self.finalizer(false).await
            }
            Command::AddHold => self.add_hold(&self.bmh_key(host)?).await,
            Command::RenewHold => self.renew_hold(&self.bmh_key(host)?).await,
            Command::RemoveHold => self.remove_hold(&self.bmh_key(host)?).await,
            Command::RemoveOrphanedHolds { keys } => {
                let key = self.bmh_key(host)?;
                self.remove_orphaned_holds(&key, keys).await
            }
            Command::BlockMove => self.block_move(o, host.and_then(|h| h.bmh)).await,
            Command::UnblockMove => self.unblock_move(o, host.and_then(|h| h.bmh)).await,
            Command::PowerOff {
                id,
                device,
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
                self.power_off(&self.host_of(host)?, (id, *device), off, deadline)
                    .await
            }
            Command::PowerOn { id, device } => {
                self.power_on(&self.host_of(host)?, (id, *device), &policy)
                    .await
            }
            Command::Cancel { id } => {
                let host = self.host_of(host)?;
                let at = self.shell.pinned_agent(id);
                let agents = &self.context.agents;
                let cancelled = agents.cancel(&host, at.as_deref(), id).await;
                self.ignore_rejection("cancel", cancelled)
            }
            Command::Release => {
                let host = self.host_of(host)?;
                // The agent finds a hold by the name of its host too, so the endpoint may be gone.
                let endpoint = self.endpoint(&host).await?.unwrap_or_default();
                let released = self
                    .context
                    .agents
                    .release(&host, endpoint, &self.uid)
                    .await;
                self.ignore_rejection("release", released)
            }
            Command::CollectEvidence { interrupt } => {
                let host = self.host_of(host)?;
                self.collect_evidence(&host, interrupt.as_ref(), o).await;
                Ok(())
            }
            Command::CollectBootLog => {
                let host = self.host_of(host)?;
                self.collect_boot_log(&host, o).await;
                Ok(())
            }
            Command::ReadPower => {
                let host = self.host_of(host)?;
                let Some(endpoint) = self.needed_endpoint(&host).await? else {
                    return Ok(());
                };
                let view = self.read_power(&host, endpoint).await;
                self.shell.reading(view, o);
                Ok(())
            }
            Command::AddTaint => self.taint(o, true).await,
            Command::RemoveTaint => self.taint(o, false).await,
            Command::DeletePods { node, pods } => self.delete_pods(o, node, pods).await,
            Command::BackUpNode => self.back_up_node(o).await,
            Command::DeleteNode { uid } => self.delete_node(o, uid).await,
            Command::RestoreNode => self.restore_node(o).await,
            Command::EndMachineRequest => self.end_machine_request().await,
            Command::Escalate { retire } => {
                let mark = host.and_then(|h| h.bmh).filter(|_| *retire);
                self.escalate(o, mark).await
            }
        }
    }

    /// Releases holds at all agents of the rack that answer (F9). A hold at another agent is
    /// released when that agent answers again, see [`super::orphaned_holds`].
    async fn release_all_holds(&self, host: Option<HostRef>) {
        let Some(host) = host else {
            return;
        };
        let silent = self.context.agents.silent_of_rack(&host.rack);
        let began = self
            .shell
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
            self.emit_event(false, "HoldMayRemain", &message);
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
            tracing::warn!(remediation = %self.id, ?error, "a hold remains at an agent; it is released when the agent answers");
        }
    }

    fn host_of(&self, host: Option<HostRef>) -> Result<HostRef, ReconcileError> {
        host.ok_or_else(|| ApiError::other(self.id.to_string(), "no host is chosen").into())
    }

    fn bmh_key(&self, host: Option<HostRef>) -> Result<Key, ReconcileError> {
        let host = self.host_of(host)?;
        host.bmh.as_deref().map(Key::parse).ok_or_else(|| {
            ApiError::other(format!("host {}", host.host), "it has no BareMetalHost").into()
        })
    }

    async fn finalizer(&mut self, on: bool) -> Result<(), ReconcileError> {
        let entry = self.snapshot.request.clone().ok_or(ReconcileError::Gone)?;
        let ours = finalizer(self.id.kind);
        let mut list = entry.object.metadata.finalizers.clone().unwrap_or_default();
        list.retain(|f| f != ours);
        if on {
            list.push(ours.into());
        }
        let body = json!({ "metadata": { "finalizers": list } });
        self.patch("finalizer", body, false).await
    }

    async fn power_off(
        &mut self,
        host: &HostRef,
        (id, device): (&str, PowerDevice),
        off: OffRequest,
        deadline: Duration,
    ) -> Result<(), ReconcileError> {
        let at = self.shell.pinned_agent(id);
        let Some(endpoint) = self.needed_endpoint(host).await? else {
            return Ok(());
        };
        let owner = self.uid.clone();
        let wanted = OperationRequest {
            host,
            endpoint,
            id,
            device,
            at: at.as_deref(),
            owner: &owner,
            deadline,
        };
        let begun = self.context.agents.begin_power_off(wanted, off).await;
        self.operation_begun(host, begun)
    }

    async fn power_on(
        &mut self,
        host: &HostRef,
        (id, device): (&str, PowerDevice),
        policy: &Policy,
    ) -> Result<(), ReconcileError> {
        let at = self.shell.pinned_agent(id);
        let Some(endpoint) = self.needed_endpoint(host).await? else {
            return Ok(());
        };
        let owner = self.uid.clone();
        let deadline = on_deadline(policy);
        let wanted = OperationRequest {
            host,
            endpoint,
            id,
            device,
            at: at.as_deref(),
            owner: &owner,
            deadline,
        };
        let begun = self.context.agents.begin_power_on(wanted).await;
        self.operation_begun(host, begun)
    }

    /// Reads the power state. Where the host was switched off by its outlets, these are read, and the BMC
    /// beside them.
    async fn read_power(&self, host: &HostRef, endpoint: Option<v1::BmcEndpoint>) -> PowerView {
        let read = |device| {
            let agents = &self.context.agents;
            agents.read_power(host, endpoint.clone(), device, &self.uid, READ_TIMEOUT)
        };
        if !self.shell.state.as_ref().is_some_and(State::reads_outlets) {
            return read(PowerDevice::Bmc).await;
        }
        let bmc = std::pin::pin!(read(PowerDevice::Bmc));
        let outlets = std::pin::pin!(read(PowerDevice::Outlets));
        match futures::future::select(outlets, bmc).await {
            Either::Left((outlets, bmc)) => {
                let bmc = tokio::time::timeout(BMC_AFTER_OUTLETS, bmc).await.ok();
                PowerView::of_outlets(outlets, bmc)
            }
            Either::Right((bmc, outlets)) => PowerView::of_outlets(outlets.await, Some(bmc)),
        }
    }

    fn operation_begun(
        &mut self,
        host: &HostRef,
        begun: Result<(), CallFailure>,
    ) -> Result<(), ReconcileError> {
        match begun {
            Ok(()) => {
                self.shell.began(Begun::Accepted);
                self.follow(host);
                Ok(())
            }
            Err(CallFailure::Rejected(why)) => {
                self.shell.began(Begun::Rejected { why });
                Ok(())
            }
            Err(CallFailure::Retryable(why)) => {
                self.shell.began(Begun::Unclear);
                Err(ApiError::other(format!("agent of rack {}", host.rack), why).into())
            }
        }
    }

    /// Ignores a rejected cancel or release: nothing was left to undo.
    fn ignore_rejection(
        &self,
        what: &str,
        result: Result<(), CallFailure>,
    ) -> Result<(), ReconcileError> {
        match result {
            Ok(()) => Ok(()),
            Err(CallFailure::Rejected(why)) => {
                tracing::warn!(remediation = %self.id, what, why, "the agent refused; going on");
                Ok(())
            }
            Err(CallFailure::Retryable(why)) => Err(ApiError::other(what, why).into()),
        }
    }
}
