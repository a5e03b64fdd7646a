//! Every queue that is in use, and which endpoints share one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::BmcQueue;
use crate::config::Inventory;

#[derive(Debug)]
pub(crate) struct BmcQueues {
    /// For each endpoint of the inventory the one that stands for all of its hosts.
    shared: HashMap<String, String>,
    queues: HashMap<String, Arc<BmcQueue>>,
}

impl BmcQueues {
    pub(crate) fn new(inventory: &Inventory) -> Self {
        Self {
            shared: inventory.lanes(),
            queues: HashMap::new(),
        }
    }

    /// That of an endpoint.
    pub(crate) fn of(&mut self, endpoint: String) -> Arc<BmcQueue> {
        let shared = self.shared.get(&endpoint).cloned();
        let name = shared.unwrap_or(endpoint);
        self.queues.entry(name).or_default().clone()
    }

    /// Forgets those that nobody uses.
    pub(crate) fn sweep(&mut self) {
        self.queues.retain(|_, queue| Arc::strong_count(queue) > 1);
    }

    /// Goes by another inventory. A queue in use stays the queue of its endpoints, so that nobody
    /// passes by what goes on there.
    ///
    /// # Errors
    /// Endpoints that would have to share a queue while each of theirs is in use.
    pub(crate) fn change(&mut self, inventory: &Inventory) -> Result<(), Vec<String>> {
        self.sweep();
        let used = |endpoint: &String| {
            let name = self.shared.get(endpoint).unwrap_or(endpoint);
            self.queues.contains_key(name).then(|| name.clone())
        };
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (endpoint, first) in inventory.lanes() {
            groups.entry(first).or_default().push(endpoint);
        }
        let mut shared = HashMap::new();
        for (first, endpoints) in groups {
            let mut names: Vec<String> = endpoints.iter().filter_map(used).collect();
            names.sort();
            names.dedup();
            if names.len() > 1 {
                return Err(names);
            }
            let name = names.pop().unwrap_or(first);
            shared.extend(endpoints.into_iter().map(|one| (one, name.clone())));
        }
        // What has left the inventory goes on in its queue until it ends.
        for (endpoint, name) in &self.shared {
            if self.queues.contains_key(name) {
                shared
                    .entry(endpoint.clone())
                    .or_insert_with(|| name.clone());
            }
        }
        self.shared = shared;
        Ok(())
    }
}
