//! Carries out one command.
//!
//! Does exactly what the command says; every command may be repeated.

mod escalate;
mod evictions;
mod evidence;
mod host;
pub(super) mod node;
mod node_backup;
mod pod_batch;
mod pods;
pub(super) mod power;

use std::sync::Arc;

use kube::Client;
use rackhand_api::names::{BLOCK_MOVE_ANNOTATION, move_block};
use rackhand_core::remediation::{Command, HostRef, HostView, Observation, PowerDevice};
use rackhand_proto::v1;
use serde_json::{Value, json};

use self::power::Beginning;
use super::{
    RemediationMetrics,
    endpoint::Endpoints,
    engine::ReconcileError,
    record::RecordStore,
    scope::{self, Memory},
};
use crate::{
    agents::{AgentCommands, AgentConnections, AgentHolds, AgentQueries, CallFailure, OffRequest},
    clusters::Workloads,
    leader::writer::Writer,
    store::{
        api::ApiError,
        index::Index,
        live_remediations::finalizer,
        object::{Key, Served},
    },
};

/// What carries out commands.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) commands: AgentCommands,
    pub(crate) holds: AgentHolds,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) records: Arc<RecordStore>,
    pub(crate) writer: Writer,
    pub(crate) metrics: Arc<RemediationMetrics>,
    /// Whether a taint has a time.
    pub(crate) taint_time_added: bool,
}

/// A remediation whose commands are carried out.
pub(super) type Scope = scope::Scope<Context>;

/// Carries out a command. Returns the host if an operation has begun; the caller follows it.
pub(super) async fn carry_out(
    scope: &Scope,
    memory: &mut Memory,
    command: &Command,
    o: &Observation,
) -> Result<Option<HostRef>, ReconcileError> {
    let host = memory
        .shell
        .state
        .as_ref()
        .and_then(|s| s.host.clone())
        .or_else(|| match &o.host {
            HostView::Found(host) => Some(host.clone()),
            HostView::NotFound(_) => None,
        });
    let policy = o.policy(memory.shell.state.as_ref()).cloned();
    let policy = policy.unwrap_or_default();
    let done: Result<(), ReconcileError> = match command {
        Command::AddFinalizer => set_finalizer(scope, memory, o, true).await,
        Command::RemoveFinalizer(_) => {
            release_all_holds(scope, memory, host).await;
            set_finalizer(scope, memory, o, false).await
        }
        Command::AddHold => host::add_hold(scope, memory, o, &bmh_key(scope, host)?).await,
        Command::RenewHold => host::renew_hold(scope, memory, &bmh_key(scope, host)?).await,
        Command::RemoveHold => host::remove_hold(scope, memory, &bmh_key(scope, host)?).await,
        Command::RemoveOrphanedHolds { keys } => {
            let key = bmh_key(scope, host)?;
            host::remove_orphaned_holds(scope, memory, &key, keys).await
        }
        Command::BlockMove => host::block_move(scope, memory, o, host.and_then(|h| h.bmh)).await,
        Command::UnblockMove => {
            host::unblock_move(scope, memory, o, host.and_then(|h| h.bmh)).await
        }
        Command::UnblockHost => host::unblock_host(scope, memory, &bmh_key(scope, host)?).await,
        Command::SoftOff {
            id,
            limit,
            system_uuid,
            serial,
        } => {
            let expect = v1::SystemIdentity {
                system_uuid: system_uuid.clone(),
                serial: serial.clone(),
                ..v1::SystemIdentity::default()
            };
            let (host, deadline) = (host_of(scope, host)?, power::soft_off_deadline(*limit));
            let soft_off = Beginning::SoftOff(*limit, expect);
            let id = (id.as_str(), PowerDevice::Bmc);
            return power::begin(scope, memory, &host, id, soft_off, deadline).await;
        }
        Command::PowerOff {
            id,
            device,
            command_after,
            system_uuid,
            serial,
            during_update,
        } => {
            let off = OffRequest {
                command_after: *command_after,
                confirmations: policy.confirmations,
                confirm_interval: policy.confirm_interval,
                system_uuid: system_uuid.clone(),
                serial: serial.clone(),
                during_update: *during_update,
            };
            let deadline = power::off_deadline(&policy, *command_after);
            let (host, id) = (host_of(scope, host)?, (id.as_str(), *device));
            return power::begin(scope, memory, &host, id, Beginning::Off(off), deadline).await;
        }
        Command::PowerOn { id, device } => {
            let deadline = power::on_deadline(&policy);
            let (host, id) = (host_of(scope, host)?, (id.as_str(), *device));
            return power::begin(scope, memory, &host, id, Beginning::On, deadline).await;
        }
        Command::Cancel { id } => {
            let host = host_of(scope, host)?;
            let at = memory.shell.pinned_agent(id);
            let commands = &scope.context.commands;
            let cancelled = commands.cancel(&host, at.as_deref(), id).await;
            ignore_rejection(scope, "cancel", cancelled)
        }
        Command::Release => {
            let host = host_of(scope, host)?;
            // The agent finds a hold by the name of its host too, so the endpoint may be gone.
            let endpoints = &scope.context.endpoints;
            let endpoint = endpoints.kept_or_read(memory, &host).await?;
            let endpoint = endpoint.unwrap_or_default();
            let released = scope
                .context
                .commands
                .release(&host, endpoint, &scope.uid)
                .await;
            ignore_rejection(scope, "release", released)
        }
        Command::CollectEvidence { interrupt } => {
            let host = host_of(scope, host)?;
            evidence::collect_evidence(scope, memory, &host, interrupt.as_ref(), o).await;
            Ok(())
        }
        Command::CollectBootLog => {
            let host = host_of(scope, host)?;
            evidence::collect_boot_log(scope, memory, &host, o).await;
            Ok(())
        }
        Command::ReadUpdates => {
            let host = host_of(scope, host)?;
            let Some(endpoint) = scope.context.endpoints.needed(memory, &host).await? else {
                return Ok(None);
            };
            let reading = power::updates(scope, &host, endpoint).await;
            memory.shell.updates_read(reading);
            Ok(())
        }
        Command::ReadPower => {
            let host = host_of(scope, host)?;
            let Some(endpoint) = scope.context.endpoints.needed(memory, &host).await? else {
                return Ok(None);
            };
            let view = power::read(scope, memory, &host, endpoint).await;
            memory.shell.reading(view, o);
            Ok(())
        }
        Command::AddTaint => node::set_taint(scope, memory, o, true).await,
        Command::RemoveTaint => node::set_taint(scope, memory, o, false).await,
        Command::Cordon { node } => node::set_cordon(scope, memory, o, node, true).await,
        Command::Uncordon { node } => node::set_cordon(scope, memory, o, node, false).await,
        Command::EvictPods { node, pods } => {
            evictions::evict_pods(scope, memory, o, node, pods).await
        }
        Command::DeletePods { node, pods } => pods::delete_pods(scope, memory, o, node, pods).await,
        Command::BackUpNode => node_backup::back_up_node(scope, memory, o).await,
        Command::DeleteNode { uid } => node_backup::delete_node(scope, memory, o, uid).await,
        Command::RestoreNode => node_backup::restore_node(scope, memory, o).await,
        Command::EndMachineRequest => escalate::end_machine_request(scope, memory).await,
        Command::Escalate { retire } => {
            let mark = host.and_then(|h| h.bmh).filter(|_| *retire);
            escalate::escalate_machine(scope, memory, o, mark).await
        }
    };
    done.map(|()| None)
}

/// Releases holds at all agents of the rack that answer (F9). A hold at another agent is
/// released when that agent answers again, see [`super::orphaned_holds`].
async fn release_all_holds(scope: &Scope, memory: &Memory, host: Option<HostRef>) {
    let Some(host) = host else {
        return;
    };
    let silent = scope.context.agents.silent_of_rack(&host.rack);
    let began = memory
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
        scope.emit_event(false, "HoldMayRemain", &message);
    }
    if scope
        .context
        .agents
        .holding(&host.rack, &scope.uid)
        .is_empty()
    {
        return;
    }
    let endpoint = scope.context.endpoints.read(&host).await.ok();
    let endpoint = endpoint.and_then(Result::ok).flatten();
    let commands = &scope.context.commands;
    let released = commands
        .release_others(&host, endpoint, &scope.uid, None)
        .await;
    if let Err(error) = released {
        tracing::warn!(remediation = %scope.id, ?error, "a hold remains at an agent; it is released when the agent answers");
    }
}

fn host_of(scope: &Scope, host: Option<HostRef>) -> Result<HostRef, ReconcileError> {
    host.ok_or_else(|| ApiError::other(scope.id.to_string(), "no host is chosen").into())
}

fn bmh_key(scope: &Scope, host: Option<HostRef>) -> Result<Key, ReconcileError> {
    let host = host_of(scope, host)?;
    host.bmh.as_deref().map(Key::parse).ok_or_else(|| {
        ApiError::other(format!("host {}", host.host), "it has no BareMetalHost").into()
    })
}

/// Sets or removes our finalizer, and with it what makes a move of the object wait: one write.
async fn set_finalizer(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    on: bool,
) -> Result<(), ReconcileError> {
    let entry = memory.snapshot.object.clone().ok_or(ReconcileError::Gone)?;
    let ours = finalizer(scope.id.kind);
    let mut list = entry.object.metadata.finalizers.clone().unwrap_or_default();
    list.retain(|f| f != ours);
    if on {
        list.push(ours.into());
    }
    // With our finalizer goes what people are shown of the end.
    let copy = memory.copy_for_the_end.take().filter(|_| !on);
    let mut body = copy.unwrap_or_else(|| json!({}));
    body["metadata"]["finalizers"] = json!(list);
    let block = o.object.move_block;
    if on && block.is_missing() {
        body["metadata"]["annotations"][BLOCK_MOVE_ANNOTATION] = move_block(&scope.uid).into();
    } else if !on && block.is_ours() {
        body["metadata"]["annotations"][BLOCK_MOVE_ANNOTATION] = Value::Null;
    }
    let records = &scope.context.records;
    records.patch(scope, memory, "finalizer", body, false).await
}

/// Ignores a rejected cancel or release: nothing was left to undo.
fn ignore_rejection(
    scope: &Scope,
    what: &str,
    result: Result<(), CallFailure>,
) -> Result<(), ReconcileError> {
    match result {
        Ok(()) => Ok(()),
        Err(CallFailure::Rejected(why)) => {
            tracing::warn!(remediation = %scope.id, what, why, "the agent refused; going on");
            Ok(())
        }
        Err(CallFailure::Retryable(why)) => Err(ApiError::other(what, why).into()),
    }
}
