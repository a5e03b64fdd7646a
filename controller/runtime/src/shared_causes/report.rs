//! Reports about shared causes: Events, the metric, the status of policies, and the status page.
//!
//! Invariant: each cause is reported once, not once for each host.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use rackhand_api::kinds::power_policy::{PowerPolicyStatus, SharedCauseStatus};
use rackhand_core::{
    fleet::shared_cause::{
        BmcCounts, Cause, Domain, Failures, HostName, Judgement, Likely, SharedCauseRules,
    },
    overview::SharedCauseEntry,
};

use super::{CauseWatch, Judged};

/// Causes in the status of a policy; its schema allows no more.
pub(super) const MAX_IN_STATUS: usize = 32;

/// How long the Event of a cause waits for readings of its BMCs. It waits for the settling time too, so that
/// it counts the hosts that fail a little later.
const EVENT_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// Reason of the Event of a new cause.
const STARTED: &str = "SharedCause";
/// Reason of the Event of a cause that has ended.
const ENDED: &str = "SharedCauseEnded";

/// The changes by a judgement.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) events: Vec<Event>,
    /// Hosts whose failures are settled now.
    pub(super) settled: BTreeSet<HostName>,
    /// Domains that no longer block remediations.
    pub(super) released: BTreeSet<Domain>,
    /// Hosts with a BMC that must be read.
    pub(super) unread: Vec<HostName>,
    /// The open causes: the likely cause, and the number of failed hosts.
    open: BTreeMap<Domain, (Likely, u32)>,
}

pub(super) struct Event {
    policy: Arc<DynamicObject>,
    warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Changes {
    /// Collects the differences between two judgements of a policy.
    pub(super) fn compare(
        &mut self,
        failures: &Failures,
        policy: &Arc<DynamicObject>,
        before: &Judged,
        mut after: Judged,
        now: Timestamp,
    ) -> Judged {
        let rules = &after.rules;
        let settling = SignedDuration::try_from(rules.settling).unwrap_or(SignedDuration::MAX);
        let long_ago = Timestamp::UNIX_EPOCH;
        let from = before.judgement.at.unwrap_or(long_ago);
        let earlier = |at: Timestamp| at.checked_sub(settling).unwrap_or(long_ago);
        let settled = failures.observed(earlier(from), earlier(now));
        self.settled.extend(settled.cloned());
        let from = before.judgement.at.unwrap_or(now);
        for (domain, cause) in &before.judgement.causes {
            let held = is_holding(cause, rules, from);
            let holds = after.judgement.causes.get(domain);
            if held && !holds.is_some_and(|cause| is_holding(cause, rules, now)) {
                self.released.insert(domain.clone());
            }
        }
        for domain in before.judgement.causes.keys() {
            if !after.judgement.causes.contains_key(domain) && after.announced.remove(domain) {
                let still = failures.failed(domain).len();
                self.events.push(Event {
                    policy: policy.clone(),
                    warning: false,
                    reason: ENDED,
                    message: format!(
                        "{domain}: its hosts no longer fail for one cause; {still} of them are not Ready, and \
                         are remediated each for itself"
                    ),
                });
            }
        }
        for (domain, cause) in &after.judgement.causes {
            let likely = cause.likely();
            let age = now.duration_since(cause.since);
            let is_read = likely != Likely::Unknown || age >= EVENT_DELAY;
            let is_due = is_read && age >= settling;
            if is_due && after.announced.insert(domain.clone()) {
                self.events.push(Event {
                    policy: policy.clone(),
                    warning: true,
                    reason: STARTED,
                    message: announcement(cause, rules),
                });
            }
            self.unread.extend(Judgement::sample(failures, cause));
            self.open
                .insert(domain.clone(), (likely, cause.still_failed));
        }
        after
    }
}

fn is_holding(cause: &Cause, rules: &SharedCauseRules, now: Timestamp) -> bool {
    cause.until(rules, now).is_none_or(|until| until > now)
}

fn announcement(cause: &Cause, rules: &SharedCauseRules) -> String {
    let seconds = rules.hold.as_secs();
    let ends = match cause.until(rules, cause.since) {
        Some(_) => format!("for {seconds} s from the first one that is held"),
        None => "until a person approves them".to_owned(),
    };
    format!(
        "{cause}. Remediations of {} that have not begun are held {ends}, or until most of these hosts have \
         recovered; to begin one now: kubectl rackhand approve",
        cause.domain
    )
}

/// Sends Events and sets the metric.
pub(super) fn send(watch: &CauseWatch, changes: &Changes) {
    for event in &changes.events {
        tracing::warn!(reason = event.reason, "{}", event.message);
        watch.metrics.count_event(event.reason);
        watch
            .events
            .send(&event.policy, event.warning, event.reason, &event.message);
    }
    let series = changes.open.iter().map(|(domain, (likely, failed))| {
        let labels = (domain.kind.label(), domain.name.to_string());
        (labels, (likely.label(), i64::from(*failed)))
    });
    watch.metrics.set_open(&series.collect());
}

/// A cause in the status of its policy.
pub(super) fn status(cause: &Cause, rules: &SharedCauseRules, now: Timestamp) -> SharedCauseStatus {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let held_until = cause.until(rules, now);
    SharedCauseStatus {
        domain: cause.domain.kind,
        name: cause.domain.name.to_string(),
        likely: cause.likely().label().to_owned(),
        message: cause.to_string().chars().take(1024).collect(),
        since: cause.since,
        first_failed_at: cause.first,
        last_failed_at: cause.last,
        failed: number(cause.failed),
        still_failed: number(cause.still_failed),
        hosts: number(cause.total),
        held_since: cause.held_since,
        held_until: held_until.filter(|_| cause.held_since.is_some()),
    }
}

/// The causes that an earlier leader has written into the status of a policy.
pub(super) fn stored(policy: &DynamicObject, rules: &SharedCauseRules) -> Judged {
    let status = policy.data.get("status").cloned().unwrap_or_default();
    let status: PowerPolicyStatus = serde_json::from_value(status).unwrap_or_default();
    let causes = status.shared_causes.into_iter().map(|stored| {
        let number = |n: i32| u32::try_from(n).unwrap_or_default();
        let domain = Domain::new(stored.domain, stored.name);
        let cause = Cause {
            domain: domain.clone(),
            also: Vec::new(),
            failed: number(stored.failed),
            still_failed: number(stored.still_failed),
            total: number(stored.hosts),
            first: stored.first_failed_at,
            last: stored.last_failed_at,
            bmcs: BmcCounts::default(),
            since: stored.since,
            held_since: stored.held_since,
            few_since: None,
        };
        (domain, cause)
    });
    let causes: BTreeMap<Domain, Cause> = causes.collect();
    Judged {
        rules: rules.clone(),
        announced: causes.keys().cloned().collect(),
        judgement: Judgement { at: None, causes },
    }
}

/// A cause on the status page.
pub(super) fn entry(cause: &Cause, rules: &SharedCauseRules, now: Timestamp) -> SharedCauseEntry {
    SharedCauseEntry {
        domain: cause.domain.to_string(),
        likely: cause.likely().label().to_owned(),
        message: cause.to_string(),
        since: cause.since,
        still_failed: cause.still_failed,
        held_until: cause
            .until(rules, now)
            .filter(|_| cause.held_since.is_some()),
        policies: Vec::new(),
    }
}
