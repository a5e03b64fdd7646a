//! The fleet, and which of its hosts have failed when, counted by what hosts share.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Domain, HostName, after};

/// A host whose Node is not Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Since when the Node is not Ready, by its condition.
    pub at: Timestamp,
    /// When this was observed first.
    pub seen: Timestamp,
}

/// The hosts of the fleet and the failures among them. A change of one host costs O(log n).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Failures {
    hosts: BTreeMap<HostName, Host>,
    totals: BTreeMap<Domain, u32>,
    failed: BTreeMap<Domain, BTreeSet<(Timestamp, HostName)>>,
    /// The failures in the order in which they were observed.
    seen: BTreeSet<(Timestamp, HostName)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Host {
    domains: BTreeSet<Domain>,
    failure: Option<Failure>,
}

impl Failures {
    /// Adds a host, or moves it to other domains.
    pub fn place(&mut self, name: &HostName, domains: BTreeSet<Domain>) {
        let before = self.hosts.get(name);
        if before.is_some_and(|host| host.domains == domains) {
            return;
        }
        let failure = before.and_then(|host| host.failure);
        self.remove(name);
        for domain in &domains {
            *self.totals.entry(domain.clone()).or_default() += 1;
        }
        let host = Host {
            domains,
            failure: None,
        };
        self.hosts.insert(name.clone(), host);
        if let Some(Failure { at, seen }) = failure {
            self.fail(name, at, seen);
        }
    }

    /// Removes a host that is no longer in the fleet.
    pub fn remove(&mut self, name: &HostName) {
        self.recover(name);
        let Some(host) = self.hosts.remove(name) else {
            return;
        };
        for domain in host.domains {
            if let Some(total) = self.totals.get_mut(&domain) {
                *total -= 1;
                if *total == 0 {
                    self.totals.remove(&domain);
                }
            }
        }
    }

    /// Records that the Node of a host is not Ready since `at`. A time that lies in the future, by the
    /// clock of another machine, counts as now. Of a host that is failed already nothing changes: a
    /// Node goes from False to Unknown in one failure.
    pub fn fail(&mut self, name: &HostName, at: Timestamp, now: Timestamp) {
        let host = self.hosts.entry(name.clone()).or_default();
        if host.failure.is_some() {
            return;
        }
        let failure = Failure {
            at: at.min(now),
            seen: now,
        };
        host.failure = Some(failure);
        for domain in &host.domains {
            let failed = self.failed.entry(domain.clone()).or_default();
            failed.insert((failure.at, name.clone()));
        }
        self.seen.insert((failure.seen, name.clone()));
    }

    /// Records that the Node of a host is Ready.
    pub fn recover(&mut self, name: &HostName) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        let Some(failure) = host.failure.take() else {
            return;
        };
        for domain in &host.domains {
            if let Some(failed) = self.failed.get_mut(domain) {
                failed.remove(&(failure.at, name.clone()));
                if failed.is_empty() {
                    self.failed.remove(domain);
                }
            }
        }
        self.seen.remove(&(failure.seen, name.clone()));
    }

    /// What the host shares with others; `None` if it is not in the fleet.
    pub fn domains(&self, name: &str) -> Option<&BTreeSet<Domain>> {
        Some(&self.hosts.get(name)?.domains)
    }

    /// The failure of a host.
    pub fn of_host(&self, name: &str) -> Option<Failure> {
        self.hosts.get(name)?.failure
    }

    /// The names of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.keys()
    }

    /// Hosts of a domain.
    pub fn total(&self, domain: &Domain) -> u32 {
        self.totals.get(domain).copied().unwrap_or_default()
    }

    /// The failed hosts of a domain, with the times of their failures, the earliest first.
    pub fn failed(&self, domain: &Domain) -> impl ExactSizeIterator<Item = &(Timestamp, HostName)> {
        static NONE: BTreeSet<(Timestamp, HostName)> = BTreeSet::new();
        self.failed.get(domain).unwrap_or(&NONE).iter()
    }

    /// The hosts whose failures were first observed after one time and up to another.
    pub fn observed(
        &self,
        from: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = &HostName> + use<'_> {
        let end = after(until, std::time::Duration::from_nanos(1));
        let start = after(from, std::time::Duration::from_nanos(1));
        let range = (start < end).then(|| self.seen.range((start, "".into())..(end, "".into())));
        range.into_iter().flatten().map(|(_, host)| host)
    }

    /// The domains in which hosts have failed, with their failures.
    pub(super) fn by_domain(
        &self,
    ) -> impl Iterator<Item = (&Domain, &BTreeSet<(Timestamp, HostName)>)> {
        self.failed.iter()
    }
}
