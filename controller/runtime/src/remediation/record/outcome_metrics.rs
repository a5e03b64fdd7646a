//! Counts the outcome of each remediation once, however it ends.
//!
//! Pure. An outcome that an earlier process has counted is not counted again.

use rackhand_core::remediation::{Reason, RemediationOutcome, State, outcome};

/// The outcome and the label of its reason.
pub(super) type CountedOutcome = (RemediationOutcome, &'static str);

/// What this process knows about the end of one remediation.
#[derive(Default)]
pub(in crate::remediation) struct OutcomeMetrics {
    /// The outcome while the finalizer is being removed.
    pending: Option<CountedOutcome>,
    /// The reason of the last write of this process; `None` if it has written nothing.
    last_reason: Option<&'static str>,
    counted: bool,
}

impl OutcomeMetrics {
    /// The finalizer is about to be removed; the outcome counts after that.
    pub(in crate::remediation) fn removing_finalizer(
        &mut self,
        outcome: RemediationOutcome,
        reason: &Reason,
    ) {
        self.pending = Some((outcome, reason.label()));
    }

    /// The finalizer was removed, or was observed to be removed.
    pub(in crate::remediation) fn finalizer_removed(&mut self) -> Option<CountedOutcome> {
        let ended = self.pending.take();
        self.once(ended)
    }

    /// The state was written. A remediation without our finalizer ends with that.
    pub(super) fn state_written(
        &mut self,
        state: Option<&State>,
        reason: &Reason,
        finalizer: bool,
    ) -> Option<CountedOutcome> {
        self.last_reason = Some(reason.label());
        let over = state.and_then(outcome).filter(|_| !finalizer);
        self.once(over.map(|outcome| (outcome, reason.label())))
    }

    /// Nothing is left to do, and the object still exists.
    pub(in crate::remediation) fn finished(
        &mut self,
        state: Option<&State>,
        outcome_now: RemediationOutcome,
        reason: &Reason,
    ) -> Option<CountedOutcome> {
        let earlier = self.last_reason.is_none() || state.and_then(outcome).is_some();
        let ended = match self.pending.take() {
            None if earlier => None,
            None => Some((outcome_now, reason.label())),
            pending => pending,
        };
        self.once(ended)
    }

    /// The object is gone: its finalizer was removed by this process or a person, or it never had
    /// one.
    pub(in crate::remediation) fn deleted(
        &mut self,
        state: Option<&State>,
    ) -> Option<CountedOutcome> {
        let how = state
            .and_then(outcome)
            .unwrap_or(RemediationOutcome::Withdrawn);
        let ended = self
            .pending
            .take()
            .or_else(|| self.last_reason.map(|reason| (how, reason)));
        self.once(ended)
    }

    fn once(&mut self, ended: Option<CountedOutcome>) -> Option<CountedOutcome> {
        let first = ended.filter(|_| !self.counted)?;
        self.counted = true;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rackhand_core::remediation::Step;

    use super::*;

    fn state(step: Step) -> State {
        let mut s = State::new(Timestamp::UNIX_EPOCH);
        s.step = step;
        s
    }

    #[test]
    fn outcome_without_finalizer_is_counted_when_written() {
        let (mut outcome_metrics, over) = (OutcomeMetrics::default(), state(Step::Blocked));
        let reason = Reason::NodeNotFound("n".into());
        assert_eq!(
            outcome_metrics.state_written(Some(&state(Step::Aborting)), &reason, false),
            None
        );
        let counted = outcome_metrics.state_written(Some(&over), &reason, false);
        assert_eq!(counted, Some((RemediationOutcome::Failed, "NodeNotFound")));
        assert_eq!(
            outcome_metrics.finished(Some(&over), RemediationOutcome::Failed, &reason),
            None
        );
        assert_eq!(outcome_metrics.deleted(Some(&over)), None);
        // The next process observes the final state and does not count it again.
        let mut next = OutcomeMetrics::default();
        assert_eq!(
            next.finished(Some(&over), RemediationOutcome::Failed, &reason),
            None
        );
        assert_eq!(next.deleted(Some(&over)), None);
    }

    #[test]
    fn deletion_while_waiting_is_counted_with_reason_of_wait() {
        let (mut outcome_metrics, pending) = (OutcomeMetrics::default(), state(Step::Pending));
        let reason = Reason::MachineNotFound("the Machine is gone".into());
        assert_eq!(
            outcome_metrics.state_written(Some(&pending), &reason, false),
            None
        );
        let counted = outcome_metrics.deleted(Some(&pending));
        assert_eq!(
            counted,
            Some((RemediationOutcome::Withdrawn, "MachineNotFound"))
        );
        assert_eq!(outcome_metrics.deleted(Some(&pending)), None);
        // A remediation that another finalizer keeps is counted once, too.
        let mut outcome_metrics = OutcomeMetrics::default();
        outcome_metrics.state_written(Some(&pending), &reason, false);
        let counted = outcome_metrics.finished(
            Some(&pending),
            RemediationOutcome::Withdrawn,
            &Reason::Withdrawn,
        );
        assert_eq!(counted, Some((RemediationOutcome::Withdrawn, "Withdrawn")));
        assert_eq!(outcome_metrics.deleted(Some(&pending)), None);
        // A remediation that was never evaluated is not counted.
        assert_eq!(OutcomeMetrics::default().deleted(None), None);
    }

    #[test]
    fn outcome_with_finalizer_is_counted_when_finalizer_is_removed() {
        let over = state(Step::Succeeded);
        let mk = || {
            let mut outcome_metrics = OutcomeMetrics::default();
            assert_eq!(
                outcome_metrics.state_written(Some(&over), &Reason::Recovered, true),
                None
            );
            outcome_metrics.removing_finalizer(RemediationOutcome::Succeeded, &Reason::Recovered);
            outcome_metrics
        };
        let ended = Some((RemediationOutcome::Succeeded, "Recovered"));
        let mut outcome_metrics = mk();
        assert_eq!(outcome_metrics.finalizer_removed(), ended);
        assert_eq!(
            outcome_metrics.finished(
                Some(&over),
                RemediationOutcome::Succeeded,
                &Reason::Recovered
            ),
            None
        );
        // The response to the removal of the finalizer was lost.
        let mut outcome_metrics = mk();
        assert_eq!(
            outcome_metrics.finished(
                Some(&over),
                RemediationOutcome::Succeeded,
                &Reason::Recovered
            ),
            ended
        );
        assert_eq!(mk().deleted(Some(&over)), ended);
    }
}
