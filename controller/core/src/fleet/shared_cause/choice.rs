//! The choice between domains that may each explain some failures.
//!
//! Those are chosen that explain the failures with the least description: a failure that nothing explains
//! costs [`UNEXPLAINED`], a healthy host of a chosen domain 1, and each chosen domain [`CHOSEN`]. So two
//! dark racks of three are two causes, and three dark racks of three are one of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Domain, Failures, HostName, SharedCauseRules,
    judge::{count, min_hosts},
};

/// What a failure without an explanation costs, in healthy hosts of a chosen domain. At 3, a domain of
/// which a third has failed costs more than it explains.
const UNEXPLAINED: i64 = 3;

/// What a cause costs, in healthy hosts: a narrower domain wins a tie against two causes.
const CHOSEN: i64 = 3;

/// A domain that may explain its failures.
pub(super) struct Candidate<'a> {
    pub(super) domain: &'a Domain,
    /// The failed hosts, in the order of time.
    pub(super) members: Vec<&'a HostName>,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) total: u32,
}

impl Candidate<'_> {
    /// What choosing it saves, if it explains so many failures that nothing else does.
    fn gain(&self, explained: usize) -> i64 {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let healthy = i64::from(self.total).saturating_sub(number(self.members.len()));
        number(explained)
            .saturating_mul(UNEXPLAINED)
            .saturating_sub(healthy)
            .saturating_sub(CHOSEN)
    }
}

/// The domains that explain the failures best.
pub(super) fn choose<'a>(
    failures: &Failures,
    rules: &SharedCauseRules,
    candidates: &BTreeMap<&'a Domain, Candidate<'a>>,
) -> BTreeSet<&'a Domain> {
    let in_order = |wide: bool| {
        let mut list: Vec<&Candidate<'a>> = candidates
            .values()
            .filter(|c| c.domain.is_wide() == wide)
            .collect();
        list.sort_by_key(|c| (-c.gain(c.members.len()), c.domain));
        list
    };
    let mut explained: BTreeSet<&HostName> = BTreeSet::new();
    // The narrow domains, with what each explains.
    let mut narrow: BTreeMap<&'a Domain, i64> = BTreeMap::new();
    for candidate in in_order(false) {
        let fresh = candidate.members.iter().filter(|m| !explained.contains(*m));
        let fresh = fresh.count();
        if fresh >= count(min_hosts(rules, candidate.domain)) {
            narrow.insert(candidate.domain, candidate.gain(fresh));
            explained.extend(&candidate.members);
        }
    }
    let mut wide: BTreeSet<&'a Domain> = BTreeSet::new();
    let mut explained: BTreeSet<&HostName> = BTreeSet::new();
    for candidate in in_order(true) {
        let fresh = candidate.members.iter().filter(|m| !explained.contains(*m));
        let fresh = fresh.count();
        if fresh < count(min_hosts(rules, candidate.domain)) {
            continue;
        }
        // How many failures of each narrow domain are failures of this one too.
        let mut shared: BTreeMap<&Domain, usize> = BTreeMap::new();
        for domain in candidate
            .members
            .iter()
            .filter_map(|m| failures.domains(m))
            .flatten()
        {
            if let Some((chosen, _)) = narrow.get_key_value(domain) {
                *shared.entry(*chosen).or_default() += 1;
            }
        }
        let is_inside = |domain: &Domain, shared: usize| {
            candidates
                .get(domain)
                .is_some_and(|c| shared * 2 > c.members.len())
        };
        let inside: BTreeSet<&Domain> = shared
            .into_iter()
            .filter(|(domain, shared)| is_inside(domain, *shared))
            .map(|(domain, _)| domain)
            .collect();
        let narrower: i64 = inside.iter().filter_map(|d| narrow.get(*d)).sum();
        if candidate.gain(fresh) > narrower {
            for domain in &inside {
                narrow.remove(*domain);
            }
            wide.insert(candidate.domain);
            explained.extend(&candidate.members);
        }
    }
    narrow.into_keys().chain(wide).collect()
}
