//! MachineHealthChecks of OpenShift: its Machines and their Nodes lie in this very cluster.
//!
//! A fleet there is small, so that after a burst of events every check is looked at whole, by
//! `rackhand_core::health::plan_openshift`. Nothing runs while nothing changes: one timer stands for
//! the nearest deadline of all checks. Must never judge, nor carry out what the last look did not ask
//! for.
//!
//! ```text
//! index -> driver -> look (plan, external_step) -> queue -> act   (per machine)
//!             '-> status of the check
//! ```

mod act;
mod driver;
mod external;
mod look;
mod metrics;
mod seen;
mod status;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(super) use act::unmark;
pub(crate) use external::controllers as openshift_controllers;
pub(crate) use metrics::Mapi;
pub(crate) use seen::{Due, MachineSeen, OpenShiftFleet, openshift_rules};

use super::Context;
use crate::{
    index::{Change, Inbox},
    object::{Key, Kind},
};

/// Whether a change may concern a check of OpenShift.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(Kind::OpenShiftMachine | Kind::OpenShiftCheck, _) => true,
        Change::Object(kind, _) => Kind::REQUESTS.contains(kind),
        Change::Node(cluster, _) | Change::Workload(cluster) => *cluster == Key::local(),
        Change::Agent => false,
    }
}

/// Evaluates every check of OpenShift until `cancel`.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    driver::Driver::new(context).run(&inbox, &cancel).await;
}
