//! The queues in use, and the endpoints that share them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::BmcQueue;
use crate::config::Inventory;

#[derive(Debug)]
pub(crate) struct BmcQueues {
    /// For each endpoint of the inventory: the endpoint that names its queue.
    shared: HashMap<String, String>,
    /// Aliases of endpoints in use, such as the addresses of a name.
    aliases: HashMap<String, String>,
    queues: HashMap<String, Arc<BmcQueue>>,
}

impl BmcQueues {
    pub(crate) fn new(inventory: &Inventory) -> Self {
        Self {
            shared: inventory.queue_endpoints(),
            aliases: HashMap::new(),
            queues: HashMap::new(),
        }
    }

    /// The queue of a BMC, which may have several endpoints. A queue in use is preferred to a new
    /// one, so that no call bypasses it under another endpoint.
    pub(crate) fn of(&mut self, endpoints: &BTreeSet<String>) -> Arc<BmcQueue> {
        // Nearly all BMCs have one endpoint, and are read every few seconds.
        if let (1, Some(endpoint)) = (endpoints.len(), endpoints.first())
            && let Some(queue) = self.queues.get(self.name(endpoint))
        {
            return queue.clone();
        }
        let names = endpoints.iter().map(|one| self.name(one).to_owned());
        let names: Vec<String> = names.collect();
        let in_use = |name: &&String| {
            let queue = self.queues.get(*name);
            queue.is_some_and(|queue| Arc::strong_count(queue) > 1)
        };
        let name = names.iter().find(in_use).or(names.first());
        let name = name.cloned().unwrap_or_default();
        for endpoint in endpoints {
            if *self.name(endpoint) != name {
                self.aliases.insert(endpoint.clone(), name.clone());
            }
        }
        self.queues.entry(name).or_default().clone()
    }

    /// The endpoint that names the queue of this one.
    fn name<'a>(&'a self, endpoint: &'a String) -> &'a String {
        let known = self.aliases.get(endpoint);
        let known = known.or_else(|| self.shared.get(endpoint));
        known.unwrap_or(endpoint)
    }

    /// Removes unused queues.
    pub(crate) fn sweep(&mut self) {
        self.queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        self.aliases
            .retain(|_, name| self.queues.contains_key(name));
    }

    /// Applies another inventory. A queue in use remains the queue of its endpoints, so that no call
    /// bypasses it.
    ///
    /// # Errors
    /// Endpoints that would have to share a queue while each has its own in use.
    pub(crate) fn change(&mut self, inventory: &Inventory) -> Result<(), Vec<String>> {
        self.sweep();
        let used = |endpoint: &String| {
            let name = self.name(endpoint);
            self.queues.contains_key(name).then(|| name.clone())
        };
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (endpoint, first) in inventory.queue_endpoints() {
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
        // Operations of removed hosts finish in their queue.
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
