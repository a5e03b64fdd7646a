//! The earlier attempts on each host, as the HostHistory of production would list them.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::power_policy::{PastAttempt, REMEMBERED_REMEDIATIONS};

/// The latest remediations of each host, by the name of its Node, with their attempts.
#[derive(Debug, Default)]
pub(super) struct Past(BTreeMap<String, VecDeque<Vec<PastAttempt>>>);

impl Past {
    /// Adds a remediation, the latest one so far of its host.
    pub(super) fn add(&mut self, host: &str, attempts: Vec<PastAttempt>) {
        let of_host = self.0.entry(host.to_owned()).or_default();
        if of_host.len() >= REMEMBERED_REMEDIATIONS {
            of_host.pop_front();
        }
        of_host.push_back(attempts);
    }

    /// The attempts on a host.
    pub(super) fn of(&self, host: &str) -> Vec<PastAttempt> {
        let remediations = self.0.get(host).into_iter().flatten();
        remediations.flatten().cloned().collect()
    }
}
