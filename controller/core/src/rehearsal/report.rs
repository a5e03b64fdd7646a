//! What a rehearsal found.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use serde::Serialize;

/// The result of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RehearsalReport {
    /// The first moment of the history.
    pub start: Timestamp,
    /// The last moment of the history.
    pub end: Timestamp,
    /// The remediations, in the order in which they were requested.
    pub remediations: Vec<RehearsedRemediation>,
    /// When the limit of a check held a remediation.
    pub limits: Vec<LimitSpan>,
    /// What several failed hosts had in common, by policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_causes: Vec<CauseSpan>,
    /// Sums over all remediations.
    pub totals: Totals,
}

/// A remediation that would have been requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RehearsedRemediation {
    /// The check that would have requested it, `namespace/name`.
    pub check: String,
    /// Name of the Machine, or of the Node for a check of Nodes.
    pub machine: String,
    /// Name of the Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why the check would have requested it.
    pub causes: Vec<String>,
    /// When it would have been requested.
    pub requested: Timestamp,
    /// When the host would have been switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// When it would have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How it would have ended.
    pub outcome: RehearsalOutcome,
    /// What held it before it began, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldSpan>,
    /// Limits of policies that it would have exceeded without consequence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// RehearsalOutcome of a rehearsed remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RehearsalOutcome {
    /// It waits at the end of the history.
    Waiting,
    /// It is under way at the end of the history.
    UnderWay,
    /// The host was power-cycled.
    Remediated,
    /// The Node recovered before anything was switched.
    RecoveredBefore,
    /// The check gave it up before anything was switched, because it had waited for too long.
    TimedOut,
    /// The Machine or Node was deleted meanwhile.
    MachineDeleted,
    /// A policy ended it without an attempt.
    Exhausted,
    /// The owner of the Machine replaces it, because the check names no template.
    HandedOver,
}

impl fmt::Display for RehearsalOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::UnderWay => "under way",
            Self::Remediated => "remediated",
            Self::RecoveredBefore => "recovered before",
            Self::TimedOut => "given up",
            Self::MachineDeleted => "machine deleted",
            Self::Exhausted => "ended by a policy",
            Self::HandedOver => "owner replaces it",
        })
    }
}

/// What held a remediation for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldSpan {
    /// Name of the PowerPolicy; empty if another remediation goes first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// What the rule found.
    pub message: String,
    /// What the failed hosts share, such as `rack r1`, if a shared cause held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_cause: Option<String>,
    /// When the hold began.
    pub from: Timestamp,
    /// When the hold ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A time in which a machine was unhealthy and the limit of its check allowed no remediation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitSpan {
    /// The check whose limit it is.
    pub check: String,
    /// When the limit began to hold a machine.
    pub from: Timestamp,
    /// Until when; `None`: until the end of the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Limit and counts when it closed.
    pub message: String,
}

/// A time in which hosts that share something were failed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseSpan {
    /// Name of the PowerPolicy by whose rules it is a shared cause.
    pub policy: String,
    /// What the failed hosts share, such as `rack r1`.
    pub cause: String,
    /// The arithmetic, with the most hosts that were failed at once.
    pub message: String,
    /// When the cause was recognised.
    pub from: Timestamp,
    /// When it ended; `None`: it lasts at the end of the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Remediations that it held.
    pub held: usize,
}

/// Sums of a rehearsal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Remediations that would have been requested.
    pub requested: usize,
    /// Hosts that would have been switched off.
    pub begun: usize,
    /// Remediations that would have ended without switching anything.
    pub not_begun: usize,
    /// Remediations that wait at the end.
    pub waiting: usize,
    /// Remediations that a shared cause held for a time.
    pub held_by_shared_causes: usize,
    /// Remediations under way at one time, at most.
    pub most_concurrent: usize,
    /// Seconds that remediations waited between creation and begin, in all.
    pub waited_seconds: i64,
    /// Seconds of the longest wait.
    pub longest_wait_seconds: i64,
}

impl RehearsalReport {
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            start,
            end: start,
            remediations: Vec::new(),
            limits: Vec::new(),
            shared_causes: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Records a remediation and returns its number.
    pub(super) fn add(
        &mut self,
        check: &str,
        machine: &str,
        node: Option<String>,
        causes: Vec<String>,
        now: Timestamp,
    ) -> usize {
        self.remediations.push(RehearsedRemediation {
            check: check.to_owned(),
            machine: machine.to_owned(),
            node,
            causes,
            requested: now,
            begun: None,
            ended: None,
            outcome: RehearsalOutcome::Waiting,
            held: Vec::new(),
            warnings: Vec::new(),
        });
        self.remediations.len() - 1
    }

    pub(super) fn hold(
        &mut self,
        number: usize,
        policy: &str,
        message: &str,
        until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(remediation) = self.remediations.get_mut(number) else {
            return;
        };
        let last = remediation.held.last();
        if last.is_some_and(|last| last.policy == policy && last.message == message) {
            return;
        }
        remediation.held.push(HeldSpan {
            policy: policy.to_owned(),
            message: message.to_owned(),
            shared_cause: None,
            from: now,
            until,
        });
    }

    /// Records that a shared cause holds a remediation. While it does, only what it says changes.
    pub(super) fn hold_by_cause(
        &mut self,
        number: usize,
        policy: &str,
        message: &str,
        cause: &str,
        until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(remediation) = self.remediations.get_mut(number) else {
            return;
        };
        let is_same =
            |held: &HeldSpan| held.policy == policy && held.shared_cause.as_deref() == Some(cause);
        if let Some(last) = remediation.held.last_mut().filter(|held| is_same(held)) {
            message.clone_into(&mut last.message);
            last.until = until;
            return;
        }
        let is_counted = remediation.held.iter().any(is_same);
        remediation.held.push(HeldSpan {
            policy: policy.to_owned(),
            message: message.to_owned(),
            shared_cause: Some(cause.to_owned()),
            from: now,
            until,
        });
        let span = self.open_causes(policy).find(|span| span.cause == cause);
        if let Some(span) = span.filter(|_| !is_counted) {
            span.held += 1;
        }
    }

    /// Records which shared causes there are by the rules of a policy, with their arithmetic.
    pub(super) fn causes(
        &mut self,
        policy: &str,
        mut causes: BTreeMap<String, String>,
        now: Timestamp,
    ) {
        for span in self.open_causes(policy) {
            match causes.remove(&span.cause) {
                Some(message) => span.message = message,
                None => span.to = Some(now),
            }
        }
        self.shared_causes
            .extend(causes.into_iter().map(|(cause, message)| CauseSpan {
                policy: policy.to_owned(),
                cause,
                message,
                from: now,
                to: None,
                held: 0,
            }));
    }

    fn open_causes(&mut self, policy: &str) -> impl Iterator<Item = &mut CauseSpan> {
        let spans = self.shared_causes.iter_mut();
        spans.filter(move |span| span.policy == policy && span.to.is_none())
    }

    pub(super) fn begin(&mut self, number: usize, warnings: Vec<String>, now: Timestamp) {
        if let Some(remediation) = self.remediations.get_mut(number) {
            remediation.begun = Some(now);
            remediation.outcome = RehearsalOutcome::UnderWay;
            remediation.warnings = warnings;
        }
        let under_way = self.remediations.iter();
        let count = under_way
            .filter(|r| r.outcome == RehearsalOutcome::UnderWay)
            .count();
        self.totals.most_concurrent = self.totals.most_concurrent.max(count);
    }

    pub(super) fn end(&mut self, number: usize, outcome: RehearsalOutcome, now: Timestamp) {
        if let Some(remediation) = self.remediations.get_mut(number) {
            remediation.ended = Some(now);
            remediation.outcome = outcome;
        }
    }

    /// Records since when the limit of a check holds an unhealthy member, and until when. `held` is why.
    pub(super) fn limit(&mut self, check: &str, held: Option<String>, now: Timestamp) {
        let mut spans = self.limits.iter_mut().rev();
        let last = spans.find(|span| span.check == check && span.to.is_none());
        match (last, held) {
            (Some(span), None) => span.to = Some(now),
            (None, Some(message)) => self.limits.push(LimitSpan {
                check: check.to_owned(),
                from: now,
                to: None,
                message,
            }),
            _ => {}
        }
    }

    pub(super) fn finish(&mut self, now: Timestamp) {
        self.end = now;
        let totals = &mut self.totals;
        totals.requested = self.remediations.len();
        for remediation in &self.remediations {
            match (remediation.begun, remediation.outcome) {
                (Some(_), _) => totals.begun += 1,
                (None, RehearsalOutcome::Waiting) => totals.waiting += 1,
                (None, _) => totals.not_begun += 1,
            }
            if !remediation.shared_causes().is_empty() {
                totals.held_by_shared_causes += 1;
            }
            let until = remediation.begun.or(remediation.ended).unwrap_or(now);
            let waited = until.duration_since(remediation.requested).as_secs();
            totals.waited_seconds = totals.waited_seconds.saturating_add(waited);
            totals.longest_wait_seconds = totals.longest_wait_seconds.max(waited);
        }
    }
}

impl RehearsedRemediation {
    /// The shared causes that held it.
    pub fn shared_causes(&self) -> BTreeSet<&str> {
        let held = self.held.iter();
        held.filter_map(|held| held.shared_cause.as_deref())
            .collect()
    }
}
