//! The hosts whose BMCs are read between remediations, kept up to date one member of the fleet at a time.
//!
//! A member is a Machine or a Node that may have a host. A pass visits all members in their order, a few at a time,
//! so that other work runs in between. A member that the pass skips is gone. Between two visits the hosts are those
//! of this pass up to the last visited member, and those of the pass before after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::fleet::bmc_identity::NodeUuids;

/// What one member was resolved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedMember<H> {
    /// Its host, with the name of the host, which is unique among all racks; `None` if no host was found.
    pub host: Option<(String, H)>,
    /// Name and `status.nodeInfo.systemUUID` of its Node, as in [`NodeUuids::add`]; `None` if it has none.
    pub node: Option<(String, String)>,
}

/// All hosts, with the members that run on them. `M` is the key of a member, in the order of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedHosts<M: Ord, H> {
    members: BTreeMap<M, ResolvedMember<H>>,
    /// The members of each host, by its name. The last of them decides.
    by_host: BTreeMap<String, BTreeSet<M>>,
    uuids: NodeUuids,
    /// The last member that the pass has visited; `None` before the first.
    visited: Option<M>,
}

impl<M: Ord, H> Default for WatchedHosts<M, H> {
    fn default() -> Self {
        Self {
            members: BTreeMap::new(),
            by_host: BTreeMap::new(),
            uuids: NodeUuids::default(),
            visited: None,
        }
    }
}

// === impl WatchedHosts ===

impl<M: Ord + Clone, H> WatchedHosts<M, H> {
    /// Begins a pass. One that was not ended is begun anew.
    pub fn begin_pass(&mut self) {
        self.visited = None;
    }

    /// Visits the next member of the pass. Members between the last one and this one are gone.
    pub fn visit(&mut self, member: M, resolved: ResolvedMember<H>) {
        self.remove_skipped(Bound::Excluded(&member));
        self.remove(&member);
        if let Some((name, _)) = &resolved.host {
            let members = self.by_host.entry(name.clone()).or_default();
            members.insert(member.clone());
        }
        if let Some((name, uuid)) = &resolved.node {
            self.uuids.add(name, uuid);
        }
        self.members.insert(member.clone(), resolved);
        self.visited = Some(member);
    }

    /// Ends a pass. Members after the last visited one are gone.
    pub fn end_pass(&mut self) {
        self.remove_skipped(Bound::Unbounded);
        self.visited = None;
    }

    /// The hosts, in the order of their names.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &H)> {
        let hosts = self.by_host.iter();
        hosts.filter_map(|(name, members)| Some((name.as_str(), self.of_last(members)?)))
    }

    /// Whether a host of this name is known.
    pub fn contains(&self, host: &str) -> bool {
        self.by_host.contains_key(host)
    }

    /// The system UUIDs of the Nodes of all members.
    pub fn uuids(&self) -> &NodeUuids {
        &self.uuids
    }

    fn of_last(&self, members: &BTreeSet<M>) -> Option<&H> {
        let member = self.members.get(members.last()?)?;
        member.host.as_ref().map(|(_, host)| host)
    }

    /// Removes the members between the last visited one and `end`.
    fn remove_skipped(&mut self, end: Bound<&M>) {
        loop {
            let from = match &self.visited {
                Some(visited) => Bound::Excluded(visited),
                None => Bound::Unbounded,
            };
            let is_empty =
                matches!((&from, &end), (Bound::Excluded(a), Bound::Excluded(b)) if a >= b);
            if is_empty {
                return;
            }
            let Some(skipped) = self.members.range((from, end)).next() else {
                return;
            };
            let skipped = skipped.0.clone();
            self.remove(&skipped);
        }
    }

    fn remove(&mut self, member: &M) {
        let Some(old) = self.members.remove(member) else {
            return;
        };
        if let Some((name, _)) = &old.host
            && let Some(members) = self.by_host.get_mut(name)
        {
            members.remove(member);
            if members.is_empty() {
                self.by_host.remove(name);
            }
        }
        if let Some((name, uuid)) = &old.node {
            self.uuids.remove(name, uuid);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};

    use super::*;

    type Hosts = WatchedHosts<u8, u8>;
    type Members = BTreeMap<u8, (Option<u8>, Option<u8>)>;

    /// A host by its number, with the member as its value, and a Node with one of a few UUIDs.
    fn mk_resolved(member: u8, (host, uuid): (Option<u8>, Option<u8>)) -> ResolvedMember<u8> {
        ResolvedMember {
            host: host.map(|host| (format!("rack/{host}"), member)),
            node: uuid.map(|uuid| {
                let uuid = format!("4c4c4544-0042-3510-8054-c2c04f4e4e0{uuid}");
                (format!("node-{}", member / 2), uuid)
            }),
        }
    }

    fn of(members: &Members) -> Hosts {
        let mut hosts = Hosts::default();
        for (member, resolved) in members {
            hosts.visit(*member, mk_resolved(*member, *resolved));
        }
        hosts.end_pass();
        hosts
    }

    fn any_members() -> impl Strategy<Value = Members> {
        let resolved = (option(4), option(3));
        btree_map(0u8..16, resolved, 0..12)
    }

    fn option(most: u8) -> impl Strategy<Value = Option<u8>> {
        proptest::option::weighted(0.8, 0..most)
    }

    proptest! {
        #[test]
        fn hosts_after_any_passes_equal_those_of_the_last_pass_alone(
            passes in proptest::collection::vec((any_members(), 0usize..16), 1..6),
        ) {
            let mut hosts = Hosts::default();
            let mut known = Members::new();
            for (members, visits) in passes {
                hosts.begin_pass();
                // Not every pass is ended: the process may have other things to do.
                for (member, resolved) in members.iter().take(visits) {
                    hosts.visit(*member, mk_resolved(*member, *resolved));
                    known.retain(|k, _| k > member || members.contains_key(k));
                    known.insert(*member, *resolved);
                    let mut seen = hosts.clone();
                    seen.begin_pass();
                    prop_assert_eq!(&seen, &of(&known), "between two visits");
                }
                if visits >= members.len() {
                    hosts.end_pass();
                    known = members;
                }
                hosts.begin_pass();
                prop_assert_eq!(&hosts, &of(&known));
            }
        }
    }

    #[test]
    fn last_member_of_a_host_decides_and_a_node_of_two_members_stays_until_both_are_gone() {
        let mut hosts = Hosts::default();
        for member in [2, 3] {
            hosts.visit(member, mk_resolved(member, (Some(1), Some(1))));
        }
        hosts.end_pass();
        assert_eq!(hosts.hosts().collect::<Vec<_>>(), [("rack/1", &3)]);
        hosts.begin_pass();
        hosts.visit(2, mk_resolved(2, (Some(1), Some(1))));
        hosts.end_pass();
        assert_eq!(hosts.hosts().collect::<Vec<_>>(), [("rack/1", &2)]);
        assert_ne!(hosts.uuids(), &NodeUuids::default());
        hosts.begin_pass();
        hosts.end_pass();
        assert_eq!(hosts, Hosts::default());
    }
}
