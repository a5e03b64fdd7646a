//! The tasks of the leader: everything that writes to a cluster or commands an agent.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Parts;
use crate::{
    agents::{AgentStatus, Agents},
    bmc_watch, checks,
    clusters::{LeaseObservations, NodeComparisons, node_absence, sync::Syncs},
    history::Histories,
    hosts::ActiveRemediations,
    leader::{
        events::Events,
        writer::{Lane, Writer},
    },
    orphaned_holds::{self, OrphanedHolds},
    planned_work::{
        maintenance::{self, Maintenances},
        triggers::{self, Triggers},
    },
    remediation::{self, Dependencies},
    shared_causes::{self, policy_status::PolicyStatus},
    store::index::ChangeQueue,
};

/// Starts the tasks, which end after `cancel`. Each task returns its name, to report a task that ends early.
pub(super) async fn start(parts: &Parts, cancel: &CancellationToken) -> JoinSet<&'static str> {
    let Parts {
        config,
        client,
        leader,
        index,
        served,
        metrics,
        ..
    } = parts;
    let [
        changes_health,
        changes_openshift,
        changes_nodes,
        changes_remediation,
        changes_agents,
        changes_absence,
        changes_triggers,
    ] = parts.inboxes.clone();
    let mut actors = JoinSet::new();
    {
        let (workloads, index) = (parts.workloads.clone(), index.clone());
        let cancel = cancel.clone();
        actors.spawn(async move {
            node_absence::run(workloads, index, changes_absence, cancel).await;
            "live reads of Nodes"
        });
    }
    let (writer, writing) = Writer::new(leader, metrics.leader.clone(), Lane::Remediation);
    // The next three tasks end when the last of their handles is dropped.
    actors.spawn(async move {
        writing.await;
        "writer"
    });
    let (events, sending) = Events::new(client.clone(), leader, writer.on(Lane::Reports));
    actors.spawn(async move {
        sending.await;
        "events"
    });
    let reports = writer.on(Lane::Reports);
    let (status, showing) = AgentStatus::new(client.clone(), served.clone(), reports);
    actors.spawn(async move {
        showing.await;
        "agent status"
    });
    let (agents, connecting) = Agents::new(
        (leader.clone(), parts.election.clone()),
        parts.agents.clone(),
        index.clone(),
        metrics.agents.clone(),
        status,
        events.clone(),
    );
    parts.leader_state.leads(&agents.connections);
    {
        let cancel = cancel.clone();
        actors.spawn(async move {
            connecting.run(changes_agents, cancel).await;
            "agent connections"
        });
    }
    let of_cluster_api = Arc::new(checks::Ownership::new(
        config.health_checks,
        config.watch_filter.as_deref(),
    ));
    let filter = config.watch_filter.as_deref();
    let of_openshift = checks::Ownership::of_openshift(config.health_checks).filtered(filter);
    let of_openshift = Arc::new(of_openshift);
    let of_nodes = checks::Ownership::of_nodes(config.health_checks).filtered(filter);
    let of_nodes = Arc::new(of_nodes);
    for ownership in [&of_cluster_api, &of_openshift, &of_nodes] {
        ownership.refresh(client).await;
        let (ownership, client, cancel) = (ownership.clone(), client.clone(), cancel.clone());
        actors.spawn(async move {
            ownership.keep_looking(client, cancel).await;
            "CRD watch"
        });
    }
    let (syncs, reading) = Syncs::new(
        client.clone(),
        served.clone(),
        parts.workloads.clone(),
        index.clone(),
        cancel.clone(),
    );
    actors.spawn(async move {
        reading.await;
        "live reads of fleets"
    });
    let active = Arc::<ActiveRemediations>::default();
    let histories = Arc::new(Histories::new(
        (client.clone(), served.clone()),
        index.clone(),
        writer.on(Lane::Histories),
        config.namespace.clone(),
        parts.live.history.clone(),
    ));
    let leases = Arc::<LeaseObservations>::default();
    let remediations = Dependencies {
        config: &parts.config,
        client,
        identity: parts.leader.identity(),
        index,
        served,
        metrics: parts.metrics.remediation.clone(),
        live: &parts.live,
        workloads: &parts.workloads,
        agents: &agents,
        writer: &writer,
        events: &events,
        active: &active,
        histories: &histories,
        comparisons: NodeComparisons::new(syncs.clone()),
        leases: leases.clone(),
    }
    .context();
    let orphaned = OrphanedHolds {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        workloads: parts.workloads.clone(),
        agents: agents.connections.clone(),
        holds: agents.holds.clone(),
        writer: writer.clone(),
        events: events.clone(),
        active: active.clone(),
        namespace: config.namespace.clone(),
        age: config.orphaned_hold_age,
    };
    let cancelled = cancel.clone();
    actors.spawn(async move {
        Box::pin(orphaned_holds::run(orphaned, cancelled)).await;
        "holds of remediations that are gone"
    });
    let maintenances = Maintenances {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        agents: agents.connections.clone(),
        commands: agents.commands.clone(),
        writer: writer.clone(),
        events: events.clone(),
        metrics: metrics.maintenances.clone(),
        of_openshift: of_openshift.clone(),
        watch_filter: config.watch_filter.clone(),
    };
    let cancelled = cancel.clone();
    actors.spawn(async move {
        Box::pin(maintenance::run(maintenances, cancelled)).await;
        "maintenances"
    });
    let policies = PolicyStatus {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        writer: writer.on(Lane::Reports),
        events: events.clone(),
        active: active.clone(),
        causes: parts.live.causes.clone(),
    };
    let cancelled = cancel.clone();
    actors.spawn(async move {
        shared_causes::policy_status::run(policies, cancelled).await;
        "status of PowerPolicies"
    });
    let changes_causes = Arc::<ChangeQueue>::default();
    let causes = Arc::new(shared_causes::CauseWatch {
        client: client.clone(),
        index: index.clone(),
        agents: agents.connections.clone(),
        queries: agents.queries.clone(),
        events: events.clone(),
        metrics: metrics.shared_causes.clone(),
        active: active.clone(),
        causes: parts.live.causes.clone(),
        topologies: parts.live.topologies.clone(),
    });
    let (inbox, changes, cancelled) = (
        changes_remediation.clone(),
        changes_causes.clone(),
        cancel.clone(),
    );
    actors.spawn(async move {
        Box::pin(shared_causes::run(causes, changes, inbox, cancelled)).await;
        "shared causes"
    });
    let listed = CancellationToken::new();
    let (listing, cancelled) = (listed.clone(), cancel.clone());
    actors.spawn(async move {
        Box::pin(remediation::run(
            remediations,
            changes_remediation,
            changes_causes,
            listing,
            cancelled,
        ))
        .await;
        "remediations"
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        Box::pin(histories.run(listed, cancelled)).await;
        "histories of hosts"
    });
    let signals = bmc_watch::signals::SignalWatch {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        workloads: parts.workloads.clone(),
        agents: agents.connections.clone(),
        queries: agents.queries.clone(),
        writer: writer.clone(),
        metrics: metrics.signals.clone(),
        active: active.clone(),
        leases,
        signals: config.hardware_signals.clone(),
    };
    let cancelled = cancel.clone();
    actors.spawn(async move {
        Box::pin(bmc_watch::signals::run(signals, cancelled)).await;
        "hardware signals"
    });
    let watch = Arc::new(bmc_watch::BmcWatch {
        client: client.clone(),
        index: index.clone(),
        workloads: parts.workloads.clone(),
        agents: agents.connections,
        queries: agents.queries,
        writer: writer.clone(),
        events: events.clone(),
        metrics: metrics.bmc_watch.clone(),
        active,
        topologies: parts.live.topologies.clone(),
        interval: config.bmc_check_interval,
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        bmc_watch::run(watch, cancelled).await;
        "readings of BMCs between remediations"
    });
    let of_triggers = Arc::new(Triggers {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        workloads: parts.workloads.clone(),
        writer: writer.on(Lane::Checks),
        reports: writer.on(Lane::Reports),
        events: events.clone(),
        metrics: metrics.triggers.clone(),
        enabled: config.remediation_triggers,
        watch_filter: config.watch_filter.clone(),
        memory: Mutex::default(),
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        triggers::run(of_triggers, changes_triggers, cancelled).await;
        "triggers of remediations"
    });
    let context = |ownership| {
        Arc::new(checks::Context {
            client: client.clone(),
            served: served.clone(),
            index: index.clone(),
            writer: writer.on(Lane::Checks),
            events: events.clone(),
            metrics: metrics.checks.clone(),
            ownership,
            syncs: syncs.clone(),
        })
    };
    let of_cluster_api = context(of_cluster_api);
    let namespace = config.namespace.clone().unwrap_or_default();
    let (scanning, cancelled) = (of_cluster_api.clone(), cancel.clone());
    actors.spawn(async move {
        checks::orphan_scan::run(scanning, namespace, cancelled).await;
        "scan for orphaned remediations"
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        checks::run_cluster_api(of_cluster_api, changes_health, cancelled).await;
        "health checks"
    });
    let (of_openshift, cancelled) = (context(of_openshift), cancel.clone());
    actors.spawn(async move {
        checks::run_openshift(of_openshift, changes_openshift, cancelled).await;
        "health checks of OpenShift"
    });
    let (of_nodes, cancelled) = (context(of_nodes), cancel.clone());
    actors.spawn(async move {
        checks::run_node_health_checks(of_nodes, changes_nodes, cancelled).await;
        "health checks of Nodes"
    });
    actors
}
