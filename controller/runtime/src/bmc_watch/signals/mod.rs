//! Hardware signals: conditions of Nodes from what agents read of their hosts all the time.
//!
//! One stream per rack reports the power of its hosts. The Leases of a cluster with such hosts are listed every few
//! seconds, and a host whose Lease grows old is read at once. What an agent, a BMC or a cluster does not show costs
//! nothing but the signal. The Machines of these Nodes show the same ([`machines`]).
//!
//! Owns: the conditions of [`Signal`] on Nodes and on Machines of Cluster API. Must never: switch anything, or delay a remediation.

mod facts;
mod leases;
mod machines;
mod metrics;
mod owner;
#[cfg(test)]
mod stalls;
mod streams;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::Client;
use rackhand_core::signals::Signal;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use self::machines::Machines;
pub use self::machines::without_signals;
pub(crate) use self::metrics::SignalMetrics;
use self::owner::{Completed, Owner, end_disabled};
use super::watched::{Fleet, resolve};
use crate::{
    agents::{AgentConnections, AgentQueries, WatchEvent},
    clusters::{LeaseObservations, Workloads},
    hosts::ActiveRemediations,
    leader::writer::Writer,
    store::{
        clock,
        index::Index,
        object::Served,
        time_slice::{beside, beside_all},
        watch::pause,
    },
};

/// Interval in which hosts are decided on, and streams opened.
const TICK: Duration = Duration::from_secs(1);
/// Maximum age of the resolved hosts of the fleet and their agents.
const RESOLVED_FOR: Duration = Duration::from_secs(60);
/// The same until a host was found: agents connect one after the other when a process starts to lead.
const RESOLVED_AT_START: Duration = Duration::from_secs(5);
/// Messages of all streams that may wait.
const QUEUE: usize = 64;

/// Dependencies of the hardware signals.
#[derive(Clone)]
pub(crate) struct SignalWatch {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) writer: Writer,
    pub(crate) metrics: Arc<SignalMetrics>,
    /// Active remediations, which switch their hosts.
    pub(crate) active: Arc<ActiveRemediations>,
    /// What is known of the Leases of Nodes, with what remediations have read.
    pub(crate) leases: Arc<LeaseObservations>,
    /// The signals that are published; none disables the streams.
    pub(crate) signals: BTreeSet<Signal>,
}

/// Publishes the signals until `cancel`.
pub(crate) async fn run(watch: SignalWatch, cancel: CancellationToken) {
    if watch.signals.is_empty() {
        while !pause(&cancel, RESOLVED_FOR).await {
            let ending = async {
                end_disabled(&watch).await;
                Machines::of(&watch).follow_all(BTreeSet::new()).await;
            };
            if cancel.run_until_cancelled(ending).await.is_none() {
                return;
            }
        }
        return;
    }
    let (events, mut reported) = mpsc::channel::<(String, WatchEvent)>(QUEUE);
    let mut tasks: JoinSet<Completed> = JoinSet::new();
    let mut owner = Owner::new(watch.clone(), events);
    let mut fleet = Fleet::default();
    let mut resolved: Option<Instant> = None;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let age = if owner.count() > 0 {
            RESOLVED_FOR
        } else {
            RESOLVED_AT_START
        };
        if resolved.is_none_or(|at| at.elapsed() >= age) {
            let resolving = resolve(&watch.index, &watch.agents, &mut fleet);
            if cancel.run_until_cancelled(resolving).await.is_none() {
                return;
            }
            beside_all(|| owner.place(&fleet));
            if cancel
                .run_until_cancelled(end_disabled(&watch))
                .await
                .is_none()
            {
                return;
            }
            owner.update_machines(&mut tasks);
            resolved = Some(Instant::now());
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            // Each of these may concern all hosts.
            _ = ticks.tick() => {
                beside(owner.count(), || owner.tick(&mut tasks, clock::monotonic_now()));
            }
            Some((rack, event)) = reported.recv() => {
                let now = clock::monotonic_now();
                beside(owner.count(), || owner.reported(&mut tasks, &rack, event, now));
            }
            Some(completed) = tasks.join_next(), if !tasks.is_empty() => {
                if let Ok(completed) = completed {
                    let now = clock::monotonic_now();
                    beside(owner.count(), || owner.completed(&mut tasks, completed, now));
                }
            }
        }
    }
}
