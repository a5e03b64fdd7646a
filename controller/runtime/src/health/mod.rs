//! Evaluates health checks: events lead to the machines that they touch, deadlines fire from one
//! queue, what follows is carried out for each machine by itself.
//!
//! Must never judge: `rackhand_core::health` does.
//!
//! ```text
//! index -> driver (one Fleet per check) -> queue -> act, condition   (per machine)
//!             '-> status of the check (paced)
//! ```

mod actions;
mod conditions;
mod driver;
mod facts;
mod mine;
pub(crate) mod openshift;
pub(crate) mod orphan_scan;
mod others;
mod queue;
mod recipe;
mod seen;
mod shared;
mod shown;
mod source;
mod status;
#[cfg(test)]
mod table;
mod watched;
mod withdrawal;

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use mine::{
    CLUSTER_API_CRD, Mine, OPENSHIFT_CRD, carries_our_label, evaluates, is_our_crd, passes,
};
pub(crate) use openshift::{
    Due, MachineSeen, Mapi, OpenShiftFleet, openshift_controllers, openshift_rules,
};
pub(crate) use seen::{Seen, cluster_facts, is_of, rules};
pub(crate) use shared::told as acting_words;
pub(crate) use withdrawal::is_judged;

use crate::{
    events::Events,
    index::{Inbox, Index},
    metrics::Metrics,
    object::Served,
    sync::Syncs,
    writer::Writer,
};

/// What every evaluation works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) mine: Arc<Mine>,
    pub(crate) syncs: Syncs,
}

/// Evaluates every check until `cancel`. What was known before is read anew from the index.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    driver::Driver::new(context).run(&inbox, &cancel).await;
}
