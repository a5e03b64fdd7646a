//! What was observed of the Leases of Nodes, by cluster.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rackhand_core::remediation::{LeaseMemory, LeaseRenewals};

use crate::store::object::Key;

/// Shared by all remediations and the hardware signals, so that a remediation counts the silence of a Lease that a
/// signal has seen (F5).
#[derive(Default)]
pub(crate) struct LeaseObservations {
    /// The Leases of other Nodes that may run on hosts.
    renewals: Mutex<BTreeMap<Key, Arc<Mutex<LeaseRenewals>>>>,
    /// Since when the Lease of each Node has been observed unchanged.
    unchanged: Mutex<BTreeMap<Key, Arc<Mutex<LeaseMemory>>>>,
}

impl LeaseObservations {
    /// The renewals of other Nodes of a cluster.
    pub(crate) fn renewals(&self, cluster: &Key) -> Arc<Mutex<LeaseRenewals>> {
        self.renewals
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }

    /// The Leases of the Nodes of a cluster.
    pub(crate) fn memory(&self, cluster: &Key) -> Arc<Mutex<LeaseMemory>> {
        self.unchanged
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }
}
