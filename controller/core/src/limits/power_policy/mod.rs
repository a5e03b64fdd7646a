//! Power policies: when a remediation that has begun nothing may begin.
//!
//! A policy only ever holds a remediation back, or ends it without an attempt; it never lets one
//! through that another rule stops. Every hold states the policy, the rule, and when it ends or who
//! ends it (L1).
//!
//! Budgets are exact only if the caller evaluates one remediation at a time and keeps the result
//! before the next one, as [`check_concurrency`](crate::limits::concurrency::check_concurrency) requires.

mod budget;
mod counting;
mod decision;
mod history;
mod schedule;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;

use crate::{
    fleet::shared_cause::{CauseHold, SharedCauseRules},
    limits::concurrency::ActiveRemediation,
    remediation::{State, UpdateRules, is_stopped_by_freeze},
};

pub use budget::{Budget, Domain};
pub use counting::Counting;
pub use decision::PolicyDecision;
pub use history::{AttemptLimit, PastAttempt, REMEMBERED_REMEDIATIONS, WhenExceeded};
pub use schedule::{Schedule, ScheduleError};

/// A policy, parsed. Which hosts it selects is evaluated by the caller.
#[derive(Debug, Clone, Default)]
pub struct PowerPolicy {
    /// `metadata.name` of the PowerPolicy.
    pub name: String,
    /// If there are any, a remediation begins only within one of them.
    pub windows: Vec<Schedule>,
    /// No remediation begins within one of them.
    pub freezes: Vec<Schedule>,
    /// No remediation begins while the Node or BareMetalHost carries one of these
    /// annotations.
    pub freeze_annotations: BTreeSet<String>,
    /// Limits of concurrent remediations.
    pub budgets: Vec<Budget>,
    /// Pause after a successful remediation of the same host.
    pub cooldown: Option<std::time::Duration>,
    /// Limits of the remediations of one host within a time.
    pub attempts: Vec<AttemptLimit>,
    /// Whether a person must approve each remediation.
    pub approval: bool,
    /// When hosts that fail together are held; `None`: never.
    pub shared_causes: Option<SharedCauseRules>,
    /// What is done while firmware of the host is being updated; `None`: the policy does not say.
    pub firmware_update: Option<UpdateRules>,
    /// What is wrong with the object, if it could not be parsed; it then holds what it selects.
    pub invalid: Option<String>,
}

/// What matters of the host and of the remediation, beside [`ActiveRemediation`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Annotations of its Node and BareMetalHost.
    pub annotations: BTreeSet<String>,
    /// Whether a person has approved this remediation.
    pub approved: bool,
    /// Policies only assumed to select the host, because the labels
    /// of its Node cannot be read.
    pub assumed: BTreeSet<String>,
    /// Finished attempts on the same host that switched it off, also those of this remediation.
    pub past: Vec<PastAttempt>,
    /// Why the attempts of earlier remediations cannot be read, if they cannot.
    pub past_unread: Option<String>,
    /// The holds because of other failures, by the policy whose rules they follow from.
    pub cause_holds: BTreeMap<String, CauseHold>,
}

/// What the policies decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may begin. The warnings name limits that were exceeded without consequence.
    Begin {
        /// Messages for Events, one for each limit that was exceeded.
        warnings: Vec<String>,
    },
    /// It does not begin before the hold ends.
    Hold(Hold),
    /// It ends without an attempt, as if all attempts had failed.
    Exhausted(Hold),
}

/// Why a remediation is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Name of the PowerPolicy.
    pub policy: String,
    /// The rule of it.
    pub rule: Rule,
    /// What the rule found, and what a person can do.
    pub detail: String,
    /// When the hold ends by itself; `None`: when what `detail` names has happened.
    pub until: Option<Timestamp>,
}

/// A rule of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The policy cannot be parsed.
    Invalid,
    /// It is not known whether the policy selects the host.
    Selection,
    /// Outside of every window.
    Window,
    /// A freeze applies: a period, or an annotation.
    Freeze,
    /// A budget is used up.
    Budget,
    /// The host was remediated successfully a short time ago.
    Cooldown,
    /// The host was remediated too often.
    Attempts,
    /// Nobody has approved it yet.
    Approval,
    /// The host failed a short time ago, and others may follow.
    Settling,
    /// Several hosts failed for one cause.
    SharedCause,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PowerPolicy {}: {}", self.policy, self.detail)?;
        match self.until {
            Some(until) => write!(f, "; until {until:.0}"),
            None => Ok(()),
        }
    }
}

/// Decides whether `me` may begin. `policies` select its host; `others` are the unfinished
/// remediations.
pub fn evaluate(
    policies: &[PowerPolicy],
    me: &ActiveRemediation,
    subject: &Subject,
    others: &[&ActiveRemediation],
    now: Timestamp,
) -> Verdict {
    let mut holds = Vec::new();
    let mut warnings = Vec::new();
    let mut exhausted = None;
    for policy in policies {
        if subject.assumed.contains(&policy.name) {
            holds.extend(policy.assumed_hold(subject));
            continue;
        }
        holds.extend(policy.schedule_holds(subject, now));
        holds.extend(policy.unread_hold(subject));
        for limit in &policy.attempts {
            let Some(hold) = limit.exceeded(policy, &subject.past, now) else {
                continue;
            };
            match limit.then {
                WhenExceeded::Notify => warnings.push(hold.to_string()),
                WhenExceeded::Escalate => exhausted = exhausted.or(Some(hold)),
                WhenExceeded::Stop if subject.approved => {}
                WhenExceeded::Stop => holds.push(hold),
            }
        }
        holds.extend(history::cooldown(policy, &subject.past, now));
        holds.extend(policy.cause_hold(subject));
    }
    // A freeze holds also what would only be handed over: its owner may delete the Machine.
    if holds.is_empty()
        && let Some(hold) = exhausted
    {
        return Verdict::Exhausted(hold);
    }
    // What is held for another reason takes no place in a budget.
    if holds.is_empty() {
        for policy in policies {
            holds.extend(budget::holds(policy, me, others));
        }
    }
    match longest(holds) {
        Some(hold) => Verdict::Hold(hold),
        None => Verdict::Begin { warnings },
    }
}

/// The freeze that stops a remediation which has begun, while its pods leave or before its first power-off. Windows and
/// budgets only say when one may begin, and it has taken its place in them.
pub fn freeze_after_beginning(
    policies: &[PowerPolicy],
    subject: &Subject,
    state: Option<&State>,
    now: Timestamp,
) -> Option<Hold> {
    if !state.is_none_or(is_stopped_by_freeze) {
        return None;
    }
    let holds = policies.iter().flat_map(|p| p.freeze_holds(subject, now));
    longest(holds)
}

/// The one that holds longest; one that ends by itself ends before one that needs a person.
fn longest(holds: impl IntoIterator<Item = Hold>) -> Option<Hold> {
    holds
        .into_iter()
        .max_by_key(|hold| (hold.until.is_none(), hold.until))
}

impl PowerPolicy {
    fn hold(&self, rule: Rule, detail: String, until: Option<Timestamp>) -> Hold {
        Hold {
            policy: self.name.clone(),
            rule,
            detail,
            until,
        }
    }

    /// Whether the workload of a host matters to the policy.
    pub fn depends_on_workload(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// Whether earlier remediations of a host matter to the policy.
    pub fn depends_on_past(&self) -> bool {
        self.cooldown.is_some() || !self.attempts.is_empty()
    }

    fn unread_hold(&self, subject: &Subject) -> Option<Hold> {
        let why = subject.past_unread.as_ref()?;
        let detail = format!(
            "the earlier remediations of the host cannot be read: {why}; to continue: kubectl rackhand approve"
        );
        let holds = self.depends_on_past() && !subject.approved;
        holds.then(|| self.hold(Rule::Attempts, detail, None))
    }

    fn assumed_hold(&self, subject: &Subject) -> Option<Hold> {
        let detail = "it selects Nodes by their labels, which cannot be read now; select by machines or racks, \
                      or approve this remediation: kubectl rackhand approve";
        (!subject.approved).then(|| self.hold(Rule::Selection, detail.to_owned(), None))
    }

    fn cause_hold(&self, subject: &Subject) -> Option<Hold> {
        let hold = subject.cause_holds.get(&self.name)?;
        let rule = match hold.cause {
            None => Rule::Settling,
            Some(_) => Rule::SharedCause,
        };
        let holds = self.shared_causes.is_some() && !subject.approved;
        holds.then(|| self.hold(rule, hold.detail.clone(), hold.until))
    }

    /// The freezes that apply: periods, and annotations of the host.
    fn freeze_holds(&self, me: &Subject, now: Timestamp) -> Vec<Hold> {
        let mut holds = Vec::new();
        for freeze in &self.freezes {
            if freeze.open_until(now).is_some() {
                let detail = format!("within its freeze {freeze}");
                holds.push(self.hold(Rule::Freeze, detail, freeze.closed_from(now)));
            }
        }
        if let Some(found) = self.freeze_annotations.intersection(&me.annotations).next() {
            let detail = format!(
                "the Node or BareMetalHost carries the annotation {found}; remove it to continue"
            );
            holds.push(self.hold(Rule::Freeze, detail, None));
        }
        holds
    }

    fn schedule_holds(&self, me: &Subject, now: Timestamp) -> Vec<Hold> {
        let mut holds = Vec::new();
        if let Some(why) = &self.invalid {
            let detail = format!("it cannot be applied: {why}; correct or delete it");
            holds.push(self.hold(Rule::Invalid, detail, None));
        }
        let open = |window: &Schedule| window.open_until(now).is_some();
        if !self.windows.is_empty() && !self.windows.iter().any(open) {
            let next = self.windows.iter().filter_map(|w| w.next_start(now)).min();
            let detail = match next {
                Some(_) => "outside of its maintenance windows",
                None => "none of its maintenance windows ever opens; correct or delete it",
            };
            holds.push(self.hold(Rule::Window, detail.to_owned(), next));
        }
        holds.extend(self.freeze_holds(me, now));
        if self.approval && !me.approved {
            let detail =
                "it requires the approval of a person: kubectl rackhand approve".to_owned();
            holds.push(self.hold(Rule::Approval, detail, None));
        }
        holds
    }
}

#[cfg(test)]
mod tests;
