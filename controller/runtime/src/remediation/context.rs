//! What each part of the remediations is given.
//!
//! Invariant: `observe` has no writer, and `record` reaches no agent.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;

use super::{
    Claims, Context, Endpoints, LiveFacts, RemediationMetrics, Reporter, act, observe, record,
};
use crate::{
    agents::Agents,
    clusters::{LeaseObservations, NodeComparisons, WorkloadReader, Workloads},
    config::Config,
    history::{Histories, HistoryReader},
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    store::{index::Index, live_reader::LiveReader, object::Served},
};

/// What the remediations share with other controllers.
pub(crate) struct Dependencies<'a> {
    pub(crate) config: &'a Config,
    pub(crate) client: &'a Client,
    /// The identity of this process in the leader Lease, which no other process has.
    pub(crate) identity: &'a str,
    pub(crate) index: &'a Arc<Index>,
    pub(crate) served: &'a Arc<Served>,
    pub(crate) metrics: Arc<RemediationMetrics>,
    pub(crate) live: &'a Arc<LiveFacts>,
    pub(crate) workloads: &'a Arc<Workloads>,
    pub(crate) agents: &'a Agents,
    pub(crate) writer: &'a Writer,
    pub(crate) events: &'a Events,
    pub(crate) active: &'a Arc<ActiveRemediations>,
    pub(crate) histories: &'a Arc<Histories>,
    pub(crate) comparisons: NodeComparisons,
    pub(crate) leases: Arc<LeaseObservations>,
}

impl Dependencies<'_> {
    /// Gives each part what it needs.
    pub(crate) fn context(self) -> Arc<Context> {
        let Self {
            config,
            client,
            identity,
            index,
            served,
            metrics,
            live,
            workloads,
            agents,
            writer,
            events,
            active,
            histories,
            comparisons,
            leases,
        } = self;
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
            named_hosts: observe::other_nodes::NamedHosts::default(),
            leases,
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
            active: active.clone(),
        };
        let claims = Claims {
            client: client.clone(),
            served: served.clone(),
            index: index.clone(),
            records,
            events: events.clone(),
            identity: identity.to_owned(),
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
            unbegun: Mutex::default(),
            live: live.clone(),
        })
    }
}
