//! The judgement: which domains explain the failures.
//!
//! A domain is a candidate if enough of its hosts failed within the window; [`choose`] decides between the
//! candidates. A cause stays open while half of its hosts are failed, and then for the time of recovery.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    BmcCounts, BmcReading, Cause, CauseHold, Domain, DomainKind, Failures, HostName,
    KERNEL_MIN_HOSTS, ROLLOUT_WINDOW, SharedCauseRules, after,
    choice::{Candidate, choose},
};

/// BMCs of a cause that are read. Enough for a majority that one dead BMC does not turn, and few for a
/// cluster of thousands.
const SAMPLE: usize = 16;

/// What was judged at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// When; `None` before the first judgement.
    pub at: Option<Timestamp>,
    /// The causes, by what the hosts share.
    pub causes: BTreeMap<Domain, Cause>,
}

/// Judges the failures. `before` holds the open causes: one of them stays open while half of its hosts
/// are failed, whatever share of the domain they are now, and after that for the time of recovery.
pub fn judge(
    failures: &Failures,
    rules: &SharedCauseRules,
    before: &Judgement,
    readings: &BTreeMap<HostName, BmcReading>,
    now: Timestamp,
) -> Judgement {
    let candidates: BTreeMap<&Domain, Candidate<'_>> = failures
        .by_domain()
        .filter_map(|(domain, _)| candidate(failures, rules, before, domain))
        .map(|candidate| (candidate.domain, candidate))
        .collect();
    let mut causes = BTreeMap::new();
    for domain in choose(failures, rules, &candidates) {
        if let Some(candidate) = candidates.get(domain) {
            let mut cause = opened(failures, before, candidate, now);
            cause.also = also(failures, &candidates, candidate);
            for reading in candidate.members.iter().filter_map(|m| readings.get(*m)) {
                cause.bmcs.add(*reading);
            }
            causes.insert(domain.clone(), cause);
        }
    }
    for cause in before.causes.values() {
        if !candidates.contains_key(&cause.domain)
            && let Some(fading) = fading(failures, rules, cause, now)
        {
            causes.insert(cause.domain.clone(), fading);
        }
    }
    Judgement {
        at: Some(now),
        causes,
    }
}

/// Hosts that must fail for a new cause.
pub(super) fn min_hosts(rules: &SharedCauseRules, domain: &Domain) -> u32 {
    match domain.kind {
        DomainKind::Kernel => rules.min_hosts.min(KERNEL_MIN_HOSTS),
        _ => rules.min_hosts,
    }
    .max(1)
}

pub(super) fn count(hosts: u32) -> usize {
    usize::try_from(hosts).unwrap_or(usize::MAX)
}

/// The failures of a domain that count as one cause, if they are enough.
fn candidate<'a>(
    failures: &'a Failures,
    rules: &SharedCauseRules,
    before: &Judgement,
    domain: &'a Domain,
) -> Option<Candidate<'a>> {
    let failed: Vec<&(Timestamp, HostName)> = failures.failed(domain).collect();
    let known = before.causes.get(domain);
    let enough = known.map_or_else(|| min_hosts(rules, domain), |cause| cause.enough(rules));
    let enough = count(enough);
    if failed.len() < enough {
        return None;
    }
    let total = failures.total(domain);
    let members = match known {
        Some(cause) => {
            let from = failed.partition_point(|(at, _)| *at < cause.first);
            failed.get(from..)?
        }
        None => {
            let window = match domain.kind {
                DomainKind::Kernel => ROLLOUT_WINDOW.max(rules.window),
                _ => rules.window,
            };
            let densest = densest(&failed, window);
            let share = u64::try_from(densest.len()).unwrap_or(u64::MAX);
            let is_share = share.saturating_mul(100)
                >= u64::from(total).saturating_mul(u64::from(rules.min_percent));
            if !is_share || is_only_kernel(failures, domain, densest) {
                return None;
            }
            densest
        }
    };
    if members.len() < enough {
        return None;
    }
    Some(Candidate {
        domain,
        first: members.first()?.0,
        last: members.last()?.0,
        members: members.iter().map(|(_, host)| host).collect(),
        total,
    })
}

/// The most failures that lie within a window.
fn densest<'a, 'b>(
    failed: &'a [&'b (Timestamp, HostName)],
    window: std::time::Duration,
) -> &'a [&'b (Timestamp, HostName)] {
    let mut best = failed.get(..0).unwrap_or_default();
    let mut start = 0;
    for (end, (at, _)) in failed.iter().enumerate() {
        while failed
            .get(start)
            .is_some_and(|(first, _)| after(*first, window) < *at)
        {
            start += 1;
        }
        if let Some(found) = failed
            .get(start..=end)
            .filter(|found| found.len() > best.len())
        {
            best = found;
        }
    }
    best
}

/// Whether all Nodes of the cluster run this kernel, which then explains no difference between them.
fn is_only_kernel(
    failures: &Failures,
    domain: &Domain,
    members: &[&(Timestamp, HostName)],
) -> bool {
    if domain.kind != DomainKind::Kernel {
        return false;
    }
    let domains = members.first().and_then(|(_, host)| failures.domains(host));
    let cluster = domains
        .into_iter()
        .flatten()
        .find(|other| other.kind == DomainKind::Cluster);
    cluster.is_none_or(|cluster| failures.total(cluster) == failures.total(domain))
}

/// The other candidates with exactly the same failures and as many hosts.
fn also(
    failures: &Failures,
    candidates: &BTreeMap<&Domain, Candidate<'_>>,
    chosen: &Candidate<'_>,
) -> Vec<Domain> {
    let of_first = chosen.members.first().and_then(|m| failures.domains(m));
    let others = of_first.into_iter().flatten().filter(|domain| {
        *domain != chosen.domain
            && candidates
                .get(domain)
                .is_some_and(|c| c.total == chosen.total && c.members == chosen.members)
    });
    others.cloned().collect()
}

/// The cause as it was before, or a new one. A new one that continues others keeps the time since which
/// they hold remediations, so that no hold begins again.
fn opened(
    failures: &Failures,
    before: &Judgement,
    candidate: &Candidate<'_>,
    now: Timestamp,
) -> Cause {
    let still_failed = u32::try_from(candidate.members.len()).unwrap_or(u32::MAX);
    let known = before.causes.get(candidate.domain);
    let held_since = known.map_or_else(
        || {
            let shared = candidate
                .members
                .iter()
                .filter_map(|m| failures.domains(m))
                .flatten();
            let shared: BTreeSet<&Domain> = shared.collect();
            let continued = shared.into_iter().filter_map(|d| before.causes.get(d));
            continued.filter_map(|cause| cause.held_since).min()
        },
        |cause| cause.held_since,
    );
    let (failed, last) = known.map_or((still_failed, candidate.last), |cause| {
        (
            cause.failed.max(still_failed),
            if still_failed > cause.failed {
                candidate.last
            } else {
                cause.last
            },
        )
    });
    Cause {
        domain: candidate.domain.clone(),
        also: Vec::new(),
        failed,
        still_failed,
        total: candidate.total,
        first: known.map_or(candidate.first, |cause| cause.first),
        last,
        bmcs: BmcCounts::default(),
        since: known.map_or(now, |cause| cause.since),
        held_since,
        few_since: None,
    }
}

/// An open cause that is ending; `None` when its recovery time has passed. Of a leader that has just begun no host may
/// be known yet, neither failed nor healthy: the cause of an earlier one stays for that time as it was.
fn fading(
    failures: &Failures,
    rules: &SharedCauseRules,
    cause: &Cause,
    now: Timestamp,
) -> Option<Cause> {
    let failed = failures.failed(&cause.domain);
    let still = failed.filter(|(at, _)| *at >= cause.first).count();
    let since = cause.few_since.unwrap_or(now);
    let is_seen = failures.total(&cause.domain) > 0;
    if (still == 0 && is_seen) || after(since, rules.recovery) <= now {
        return None;
    }
    let still = u32::try_from(still).unwrap_or(u32::MAX);
    Some(Cause {
        still_failed: if is_seen { still } else { cause.still_failed },
        few_since: Some(since),
        ..cause.clone()
    })
}

// === impl Judgement ===

impl Judgement {
    /// Why a remediation of a host waits. `failing`: its Node is not Ready.
    pub fn hold(
        &self,
        failures: &Failures,
        rules: &SharedCauseRules,
        host: &str,
        failing: bool,
        now: Timestamp,
    ) -> Option<CauseHold> {
        let of_host = failures.domains(host).into_iter().flatten();
        let causes = of_host.filter_map(|domain| self.causes.get(domain));
        let failed = failures.of_host(host).map(|failure| failure.at);
        let held = causes.filter_map(|cause| cause.hold(rules, failed, now));
        let longest = held.max_by_key(|hold| (hold.until.is_none(), hold.until));
        longest.or_else(|| self.settling(failures, rules, host, failing, now))
    }

    /// A failure is judged once others had the time to fail as well. What counts is the time of the
    /// judgement, because only a later one contains them.
    fn settling(
        &self,
        failures: &Failures,
        rules: &SharedCauseRules,
        host: &str,
        failing: bool,
        now: Timestamp,
    ) -> Option<CauseHold> {
        let seen = failures.of_host(host).map(|failure| failure.seen);
        let settled = seen.map(|seen| after(seen, rules.settling));
        let is_judged = match (self.at, settled) {
            (Some(at), Some(settled)) => settled <= at,
            (Some(_), None) => !failing,
            (None, _) => false,
        };
        let detail = "it failed a short time ago, and is not remediated before it is known whether \
                      others fail with it";
        (!is_judged).then(|| CauseHold {
            cause: None,
            detail: detail.to_owned(),
            until: Some(
                settled
                    .unwrap_or_else(|| after(now, rules.settling))
                    .max(now),
            ),
        })
    }

    /// The open cause that contains this host; if several do, the one with most failed hosts.
    pub fn cause_of(&self, failures: &Failures, host: &str) -> Option<&Cause> {
        let failure = failures.of_host(host)?;
        let of_host = failures.domains(host).into_iter().flatten();
        let causes = of_host.filter_map(|domain| self.causes.get(domain));
        causes
            .filter(|cause| failure.at >= cause.first)
            .max_by_key(|cause| cause.failed)
    }

    /// Records that the causes of a host hold a remediation now. Returns whether one did not before.
    pub fn begin_hold(&mut self, failures: &Failures, host: &str, now: Timestamp) -> bool {
        let mut begun = false;
        for domain in failures.domains(host).into_iter().flatten() {
            if let Some(cause) = self.causes.get_mut(domain)
                && cause.held_since.is_none()
            {
                cause.held_since = Some(now);
                begun = true;
            }
        }
        begun
    }

    /// The failed hosts of a cause whose BMCs are read, distributed over all of them.
    pub fn sample(failures: &Failures, cause: &Cause) -> Vec<HostName> {
        let failed = failures.failed(&cause.domain);
        let step = failed.len().div_ceil(SAMPLE).max(1);
        let members = failed.filter(|(at, _)| *at >= cause.first);
        members
            .step_by(step)
            .map(|(_, host)| host.clone())
            .collect()
    }
}
