//! The agents that RackAgents name, by name and by rack.

use std::collections::{BTreeMap, BTreeSet};

use super::agent::Agent;
use crate::store::object::Key;

/// All agents. The rack of an agent changes only with [`Self::insert`].
#[derive(Default)]
pub(super) struct KnownAgents {
    by_name: BTreeMap<Key, Agent>,
    /// Names of the agents of each rack, because a fleet has thousands of racks and most lookups need one.
    by_rack: BTreeMap<String, BTreeSet<Key>>,
}

impl KnownAgents {
    pub(super) fn insert(&mut self, key: Key, agent: Agent) {
        self.remove(&key);
        let names = self.by_rack.entry(agent.spec.rack.clone()).or_default();
        names.insert(key.clone());
        self.by_name.insert(key, agent);
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Agent> {
        let agent = self.by_name.remove(key)?;
        if let Some(names) = self.by_rack.get_mut(&agent.spec.rack) {
            names.remove(key);
            if names.is_empty() {
                self.by_rack.remove(&agent.spec.rack);
            }
        }
        Some(agent)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Agent> {
        self.by_name.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Agent> {
        self.by_name.get_mut(key)
    }

    /// The agents of all racks, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Agent)> {
        self.by_name.iter()
    }

    /// The agents of a rack, in the order of their names.
    pub(super) fn of_rack(&self, rack: &str) -> impl Iterator<Item = (&Key, &Agent)> {
        let names = self.by_rack.get(rack).into_iter().flatten();
        names.filter_map(|key| Some((key, self.by_name.get(key)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}
