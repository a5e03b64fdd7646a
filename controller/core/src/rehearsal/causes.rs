//! Shared causes in virtual time: which recorded Nodes fail together, judged for each policy that has rules.
//!
//! Must never judge: [`judge`] does. A history has no readings of BMCs, so what is likely stays unknown.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{facts::NodeRecord, report::RehearsalReport};
use crate::{
    fleet::shared_cause::{CauseHold, Failures, HostName, Judgement, SharedCauseRules, judge},
    limits::power_policy::PowerPolicy,
};

/// The Nodes of the history, and what is judged of their failures.
pub(super) struct SharedCauses {
    failures: Failures,
    /// Since when each is not Ready, as the history shows it now.
    recorded: BTreeMap<HostName, Option<Timestamp>>,
    policies: Vec<Judged>,
}

/// What is judged for a policy.
struct Judged {
    policy: String,
    rules: SharedCauseRules,
    judgement: Judgement,
}

impl SharedCauses {
    pub(super) fn new(policies: &[PowerPolicy]) -> Self {
        let with_rules = policies.iter().filter_map(|policy| {
            Some(Judged {
                policy: policy.name.clone(),
                rules: policy.shared_causes.clone()?,
                judgement: Judgement::default(),
            })
        });
        Self {
            failures: Failures::default(),
            recorded: BTreeMap::new(),
            policies: with_rules.collect(),
        }
    }

    /// Whether a policy has rules about shared causes.
    pub(super) fn is_used(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Takes over how the history shows a Node. One whose remediation is assumed to have succeeded stays
    /// Ready until its failure changes.
    pub(super) fn put(&mut self, node: &str, record: NodeRecord, now: Timestamp) {
        let name = HostName::from(node);
        self.failures.place(&name, record.domains);
        let failed = record.failed;
        let known = self.recorded.insert(name.clone(), failed);
        if known == Some(failed) {
            return;
        }
        match failed {
            Some(at) => self.failures.fail(&name, at, now),
            None => self.failures.recover(&name),
        }
    }

    /// The Node is deleted.
    pub(super) fn remove(&mut self, node: &str) {
        let name = HostName::from(node);
        self.recorded.remove(&name);
        self.failures.remove(&name);
    }

    /// A remediation of the Node has succeeded.
    pub(super) fn recover(&mut self, node: &str) {
        self.failures.recover(&HostName::from(node));
    }

    /// Judges the failures as they are now, and reports the causes.
    pub(super) fn judge(&mut self, report: &mut RehearsalReport, now: Timestamp) {
        let no_readings = BTreeMap::new();
        for judged in &mut self.policies {
            let (before, rules) = (&judged.judgement, &judged.rules);
            judged.judgement = judge(&self.failures, rules, before, &no_readings, now);
            let causes = judged.judgement.causes.values();
            let causes = causes.map(|cause| (cause.domain.to_string(), cause.to_string()));
            report.causes(&judged.policy, causes.collect(), now);
        }
    }

    /// Why the remediation of a Node waits, by policy.
    pub(super) fn holds(
        &self,
        policies: &[PowerPolicy],
        node: &str,
        now: Timestamp,
    ) -> BTreeMap<String, CauseHold> {
        let is_failing = self.failures.of_host(node).is_some();
        let selecting = self.policies.iter().filter(|judged| {
            let mut names = policies.iter().map(|policy| &policy.name);
            names.any(|name| *name == judged.policy)
        });
        let holds = selecting.filter_map(|judged| {
            let (rules, judgement) = (&judged.rules, &judged.judgement);
            let hold = judgement.hold(&self.failures, rules, node, is_failing, now)?;
            Some((judged.policy.clone(), hold))
        });
        holds.collect()
    }

    /// Records that the causes of a Node hold a remediation, from which their time counts.
    pub(super) fn begin_hold(&mut self, policy: &str, node: &str, now: Timestamp) {
        let judged = self.policies.iter_mut().find(|j| j.policy == policy);
        if let Some(judged) = judged {
            judged.judgement.begin_hold(&self.failures, node, now);
        }
    }

    /// When a mostly recovered cause ends.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let ends = self.policies.iter().flat_map(|judged| {
            let recovery = SignedDuration::try_from(judged.rules.recovery);
            let recovery = recovery.unwrap_or(SignedDuration::MAX);
            let few = judged.judgement.causes.values().filter_map(|c| c.few_since);
            few.filter_map(move |since| since.checked_add(recovery).ok())
        });
        ends.min()
    }
}
