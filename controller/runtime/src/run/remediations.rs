//! What each part of the remediations is given.

use std::sync::Arc;

use super::Parts;
use crate::{
    agents::Agents,
    clusters::{LeaseObservations, NodeComparisons, WorkloadReader},
    history::{Histories, HistoryReader},
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    remediation::{Claims, Context, Endpoints, Reporter, act, observe, record},
    store::live_reader::LiveReader,
};

/// The context of the remediations: its `observe` has no writer, and its `record` no agents.
pub(super) fn context(
    parts: &Parts,
    agents: &Agents,
    (writer, events): (&Writer, &Events),
    (active, histories): (&Arc<ActiveRemediations>, &Arc<Histories>),
    comparisons: NodeComparisons,
) -> Arc<Context> {
    let Parts {
        config,
        client,
        leader,
        index,
        served,
        live,
        workloads,
        ..
    } = parts;
    let metrics = parts.metrics.remediation.clone();
    let unevaluated = Arc::<observe::Unevaluated>::default();
    let reader = LiveReader::new(client.clone(), served.clone(), index.clone());
    let reader = Arc::new(reader);
    let endpoints = Arc::new(Endpoints::new(
        client.clone(),
        index.clone(),
        reader.clone(),
        agents.connections.clone(),
    ));
    let records = Arc::new(record::RecordStore::new(
        client.clone(),
        served.clone(),
        index.clone(),
        writer.clone(),
    ));
    let observe = observe::Context {
        reader,
        endpoints: endpoints.clone(),
        index: index.clone(),
        workloads: WorkloadReader::new(workloads.clone()),
        agents: agents.connections.clone(),
        queries: agents.queries.clone(),
        config: Arc::new(config.clone()),
        active: active.clone(),
        unevaluated: unevaluated.clone(),
        causes: live.causes.clone(),
        history: live.history.clone(),
        past: HistoryReader::new(histories.clone()),
        comparisons,
        leases: LeaseObservations::default(),
    };
    let act = act::Context {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        workloads: workloads.clone(),
        agents: agents.connections.clone(),
        queries: agents.queries.clone(),
        commands: agents.commands.clone(),
        holds: agents.holds.clone(),
        endpoints,
        records: records.clone(),
        writer: writer.clone(),
        metrics: metrics.clone(),
        taint_time_added: config.taint_time_added,
    };
    let record = record::Context {
        records: records.clone(),
        index: index.clone(),
        metrics: metrics.clone(),
        history: live.history.clone(),
        histories: histories.clone(),
        causes: live.causes.clone(),
    };
    let claims = Claims {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        records,
        events: events.clone(),
        identity: leader.identity().to_owned(),
        namespace: config.namespace.clone(),
        watch_filter: config.watch_filter.clone(),
    };
    let reporter = Reporter {
        index: index.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
    };
    Arc::new(Context {
        observe: Arc::new(observe),
        act: Arc::new(act),
        record: Arc::new(record),
        claims,
        reporter: Arc::new(reporter),
        index: index.clone(),
        events: events.clone(),
        metrics,
        active: active.clone(),
        unevaluated,
        live: live.clone(),
    })
}
