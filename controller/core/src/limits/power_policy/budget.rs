//! Budgets: how many remediations may be under way at once.

use std::collections::BTreeSet;

use super::{Hold, PowerPolicy, Rule};
use crate::{
    fleet::placement::Placement, limits::concurrency::ActiveRemediation, remediation::Progress,
};

/// A limit of concurrent remediations for each value of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Budget {
    /// What is counted together.
    pub per: Domain,
    /// Remediations that may be under way at once; 0 lets none begin.
    pub max_concurrent: u32,
}

/// What hosts share, as a budget counts them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// All hosts that the policy selects.
    Policy,
    /// Hosts of the same workload cluster.
    Cluster,
    /// Hosts of the same rack.
    Rack,
    /// The PDU; a host that two PDUs feed counts for both.
    Pdu,
    /// The value of a label of the Node.
    Label(String),
}

impl Domain {
    /// The values of a host; `None` if they are unknown, because the labels of its Node cannot be
    /// read.
    fn values(&self, placement: &Placement) -> Option<BTreeSet<String>> {
        Some(match self {
            Self::Policy => BTreeSet::from([String::new()]),
            Self::Cluster => placement.cluster.iter().cloned().collect(),
            Self::Rack => placement.rack.iter().cloned().collect(),
            Self::Pdu => placement.pdus.clone(),
            Self::Label(key) => {
                let labels = placement.labels.as_ref()?;
                labels.get(key).into_iter().cloned().collect()
            }
        })
    }

    fn describe(&self, value: &str) -> String {
        match self {
            Self::Policy => "of its hosts".to_owned(),
            Self::Cluster => format!("in cluster {value}"),
            Self::Rack => format!("in rack {value}"),
            Self::Pdu => format!("at PDU {value}"),
            Self::Label(key) => format!("with {key}={value}"),
        }
    }
}

/// The budgets of a policy that are used up.
pub(super) fn holds(
    policy: &PowerPolicy,
    me: &ActiveRemediation,
    others: &[&ActiveRemediation],
) -> Vec<Hold> {
    let mut holds = Vec::new();
    for budget in &policy.budgets {
        // Unknown values count as shared, so that a budget is never exceeded.
        let mine = match budget.per.values(&me.policy.placement) {
            Some(values) => values.into_iter().map(Some).collect(),
            None => vec![None],
        };
        for value in mine {
            let shares = |values: Option<BTreeSet<String>>| match (&value, values) {
                (Some(value), Some(values)) => values.contains(value),
                _ => true,
            };
            let sharing = others.iter().filter(|other| {
                other.uid != me.uid
                    && other.policy.policies.contains(&policy.name)
                    && shares(budget.per.values(&other.policy.placement))
            });
            let mut begun = 0_u32;
            let mut before = 0_u32;
            for other in sharing {
                match other.progress {
                    Progress::Begun => begun = begun.saturating_add(1),
                    Progress::Ready if other.precedence() < me.precedence() => {
                        before = before.saturating_add(1);
                    }
                    Progress::Ready | Progress::Waiting => {}
                }
            }
            if begun.saturating_add(before) < budget.max_concurrent {
                continue;
            }
            let domain = budget.per.describe(value.as_deref().unwrap_or("(unknown)"));
            let max = budget.max_concurrent;
            let detail = match (max, before) {
                (0, _) => {
                    format!("its budget allows no remediation {domain}; raise it to continue")
                }
                (_, 0) => format!("{begun} of at most {max} remediations {domain} are under way"),
                _ => format!(
                    "{begun} of at most {max} remediations {domain} are under way, and {before} go first, by age and by what waits on their hosts"
                ),
            };
            holds.push(policy.hold(Rule::Budget, detail, None));
        }
    }
    holds
}
