//! What the verdict of the power policies means for a remediation that could begin.

use super::{Hold, Rule, Verdict};
use crate::remediation::{Progress, Reason};

/// What the policies decided of a remediation that could begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    /// It begins.
    Begin {
        /// Limits that it exceeds without consequence.
        warnings: Vec<String>,
    },
    /// It does not begin now.
    Refuse {
        /// Why.
        reason: Reason,
        /// How it counts meanwhile: while it only waits for a budget, it keeps its place in the order.
        progress: Progress,
        /// What blocks it, unless it ends.
        hold: Option<Hold>,
    },
}

impl PolicyDecision {
    /// Of this verdict. `keep_off`: no attempt is left, so the host is not attempted again, but kept off, which no
    /// limit of attempts may prevent.
    #[must_use]
    pub fn of(verdict: Verdict, keep_off: bool) -> Self {
        match verdict {
            Verdict::Begin { warnings } => Self::Begin { warnings },
            Verdict::Exhausted(_) if keep_off => Self::Begin {
                warnings: Vec::new(),
            },
            Verdict::Exhausted(hold) => Self::Refuse {
                reason: Reason::PolicyLimitReached(hold.to_string()),
                progress: Progress::Waiting,
                hold: None,
            },
            Verdict::Hold(hold) => Self::Refuse {
                reason: match hold.rule {
                    Rule::SharedCause => Reason::HeldBySharedCause(hold.to_string()),
                    Rule::Settling => Reason::Settling(hold.to_string()),
                    _ => Reason::HeldByPolicy(hold.to_string()),
                },
                progress: match hold.rule {
                    Rule::Budget => Progress::Ready,
                    _ => Progress::Waiting,
                },
                hold: Some(hold),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_hold(rule: Rule) -> Hold {
        Hold {
            policy: "p".into(),
            rule,
            detail: "two of two".into(),
            until: None,
        }
    }

    #[test]
    fn host_that_is_to_be_kept_off_is_kept_off_beyond_the_limit_of_attempts() {
        let exhausted = || Verdict::Exhausted(mk_hold(Rule::Budget));
        let begins = PolicyDecision::of(exhausted(), true);
        let warnings = Vec::new();
        assert_eq!(begins, PolicyDecision::Begin { warnings });
        let PolicyDecision::Refuse { reason, hold, .. } = PolicyDecision::of(exhausted(), false)
        else {
            panic!("it begins");
        };
        assert_eq!((reason.label(), hold), ("PolicyLimitReached", None));
    }

    #[test]
    fn only_what_waits_for_a_budget_keeps_its_place() {
        for (rule, label, expected) in [
            (Rule::Budget, "HeldByPolicy", Progress::Ready),
            (Rule::SharedCause, "HeldBySharedCause", Progress::Waiting),
            (Rule::Settling, "Settling", Progress::Waiting),
        ] {
            let verdict = Verdict::Hold(mk_hold(rule));
            let PolicyDecision::Refuse {
                reason,
                progress,
                hold,
            } = PolicyDecision::of(verdict, true)
            else {
                panic!("it begins");
            };
            assert_eq!((reason.label(), progress), (label, expected));
            assert_eq!(hold, Some(mk_hold(rule)));
        }
    }
}
