//! Which orphaned remediations are being withdrawn, and when one that was not is examined again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Pause before a remediation that was not withdrawn is examined again, because the API server did not answer or
/// has newer objects than the index.
const EXAMINE_AGAIN: Duration = Duration::from_secs(5);

/// The remediations that are being withdrawn. `U` is the UID of a remediation, `R` what is needed to examine it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Withdrawals<U: Ord, R: Ord> {
    under_way: BTreeSet<U>,
    examine_at: BTreeMap<(Duration, R), U>,
}

impl<U: Ord, R: Ord> Default for Withdrawals<U, R> {
    fn default() -> Self {
        Self {
            under_way: BTreeSet::new(),
            examine_at: BTreeMap::new(),
        }
    }
}

// === impl Withdrawals ===

impl<U: Ord + Clone, R: Ord> Withdrawals<U, R> {
    /// Begins a withdrawal. Returns false if one is under way, or waits to be examined again.
    pub fn begin(&mut self, uid: U) -> bool {
        self.under_way.insert(uid)
    }

    /// Whether a withdrawal is under way, or waits to be examined again.
    pub fn is_under_way(&self, uid: &U) -> bool {
        self.under_way.contains(uid)
    }

    /// Ends a withdrawal. Unless it is `done`, the remediation is examined again after a pause.
    pub fn end(&mut self, uid: &U, remediation: R, done: bool, now: Duration) {
        if done {
            self.under_way.remove(uid);
        } else {
            let at = now + EXAMINE_AGAIN;
            self.examine_at.insert((at, remediation), uid.clone());
        }
    }

    /// The next remediation to examine again; its withdrawal may begin anew.
    pub fn pop_due(&mut self, now: Duration) -> Option<R> {
        self.examine_at
            .first_key_value()
            .filter(|((at, _), _)| *at <= now)?;
        let ((_, remediation), uid) = self.examine_at.pop_first()?;
        self.under_way.remove(&uid);
        Some(remediation)
    }

    /// When the next remediation is examined again.
    pub fn next_due(&self) -> Option<Duration> {
        self.examine_at.first_key_value().map(|((at, _), _)| *at)
    }

    /// Replaces every stored time, for a model checker that shifts time.
    #[must_use]
    pub fn map_times(self, map: impl Fn(Duration) -> Duration) -> Self {
        let examine_at = self.examine_at.into_iter();
        let examine_at = examine_at.map(|((at, remediation), uid)| ((map(at), remediation), uid));
        Self {
            examine_at: examine_at.collect(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn remediation_has_one_withdrawal_and_is_examined_again_after_a_failure() {
        let mut all = Withdrawals::default();
        assert!(all.begin("uid"));
        assert!(!all.begin("uid"));
        all.end(&"uid", "remediation", false, NOW);
        let again = NOW + EXAMINE_AGAIN;
        assert_eq!(all.next_due(), Some(again));
        assert!(!all.begin("uid"), "it waits");
        assert_eq!(all.pop_due(NOW), None);
        assert_eq!(all.pop_due(again), Some("remediation"));
        assert!(all.begin("uid") && all.next_due().is_none());
        all.end(&"uid", "remediation", true, NOW);
        assert!(!all.is_under_way(&"uid"));
    }
}
