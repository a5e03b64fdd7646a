//! Since when the Lease of each Node has been observed unchanged.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::remediation::LeaseFacts;

/// The Leases of the Nodes of one cluster as observed by this process, by its own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeaseMemory {
    /// By Node: its renewTime, and since when that has been observed.
    pub seen: BTreeMap<String, (String, Timestamp)>,
}

impl LeaseMemory {
    /// The Lease of a Node was read. A new renewTime is as old as the response (`now`), because
    /// the Lease may have been renewed while the request was in flight.
    pub fn observe(
        &mut self,
        node: &str,
        renewed: String,
        duration: Duration,
        now: Timestamp,
    ) -> LeaseFacts {
        let seen = self
            .seen
            .entry(node.to_owned())
            .or_insert_with(|| (renewed.clone(), now));
        if seen.0 != renewed {
            *seen = (renewed.clone(), now);
        }
        LeaseFacts {
            renewed,
            duration,
            unchanged_since: seen.1,
        }
    }
}
