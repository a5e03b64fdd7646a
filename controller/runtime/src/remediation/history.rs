//! The steps of remediations since this process leads.
//!
//! A bounded record of running and finished remediations, for display only. A new leader starts with an empty
//! one.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use parking_lot::Mutex;
use rackhand_core::{
    overview::{FinishedRemediation, TimelineEntry},
    remediation::State,
};

/// Number of finished remediations kept.
const FINISHED: usize = 1_000;
/// Number of latest steps kept of one remediation, whose steps may repeat endlessly.
const STEPS: usize = 100;

/// The record of all remediations.
#[derive(Default)]
pub(crate) struct History(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// Running remediations by the UID of their object.
    running: BTreeMap<String, Running>,
    finished: VecDeque<FinishedRemediation>,
}

struct Running {
    created: Timestamp,
    steps: VecDeque<TimelineEntry>,
}

/// The end of a remediation.
pub(super) struct Finish<'a> {
    pub(super) request: String,
    pub(super) state: Option<&'a State>,
    pub(super) at: Timestamp,
    pub(super) outcome: &'static str,
    pub(super) reason: &'static str,
}

impl History {
    /// Records the current step of a remediation with this creation time.
    pub(super) fn step(&self, uid: &str, created: Timestamp, state: &State) {
        let mut records = self.0.lock();
        let running = records.running.entry(uid.to_owned());
        let steps = &mut running
            .or_insert_with(|| Running {
                created,
                steps: VecDeque::new(),
            })
            .steps;
        let entry = TimelineEntry {
            step: state.step.label().to_owned(),
            at: state.since,
        };
        if steps.back() == Some(&entry) {
            return;
        }
        if steps.len() >= STEPS {
            steps.pop_front();
        }
        steps.push_back(entry);
    }

    /// Records the end of a remediation.
    pub(super) fn finish(&self, uid: &str, finish: Finish<'_>) {
        let mut records = self.0.lock();
        let running = records.running.remove(uid);
        let host = finish.state.and_then(|s| s.host.as_ref());
        if records.finished.len() >= FINISHED {
            records.finished.pop_back();
        }
        records.finished.push_front(FinishedRemediation {
            request: finish.request,
            node: finish
                .state
                .and_then(|s| s.node.as_ref())
                .map(|node| node.name.clone()),
            host: host.map(|host| format!("{}/{}", host.rack, host.host)),
            created: running.as_ref().map_or(finish.at, |r| r.created),
            timeline: running.map(|r| r.steps.into()).unwrap_or_default(),
            finished: finish.at,
            outcome: finish.outcome.to_owned(),
            reason: finish.reason.to_owned(),
        });
    }

    /// Drops the steps of a remediation whose task has ended, whether or not the remediation has.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().running.remove(uid);
    }

    /// The steps of a running remediation.
    pub(crate) fn timeline(&self, uid: &str) -> Vec<TimelineEntry> {
        let records = self.0.lock();
        let running = records.running.get(uid);
        running
            .map(|r| r.steps.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The finished remediations, the latest first.
    pub(crate) fn finished(&self) -> Vec<FinishedRemediation> {
        self.0.lock().finished.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use rackhand_core::remediation::Step;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn state(step: Step, seconds: i64) -> State {
        let mut state = State::new(at(seconds));
        state.step = step;
        state
    }

    fn finish(history: &History, uid: &str, seconds: i64) {
        let finish = Finish {
            request: format!("PowerRemediation a/{uid}"),
            state: None,
            at: at(seconds),
            outcome: "succeeded",
            reason: "NodeHealthy",
        };
        history.finish(uid, finish);
    }

    #[test]
    fn history_records_each_step_once_and_keeps_it_after_finish() {
        let history = History::default();
        for (step, second) in [(Step::Pending, 1), (Step::Holding, 2), (Step::Holding, 2)] {
            history.step("u", at(0), &state(step, second));
        }
        let steps = |timeline: &[TimelineEntry]| -> Vec<String> {
            timeline.iter().map(|e| e.step.clone()).collect()
        };
        assert_eq!(steps(&history.timeline("u")), ["Pending", "Holding"]);
        finish(&history, "u", 9);
        assert!(history.timeline("u").is_empty());
        let finished = history.finished();
        assert_eq!(steps(&finished[0].timeline), ["Pending", "Holding"]);
        assert_eq!((finished[0].created, finished[0].finished), (at(0), at(9)));
    }

    #[test]
    fn history_of_steps_and_finished_remediations_is_bounded() {
        let history = History::default();
        for second in 0..500 {
            history.step("u", at(0), &state(Step::Draining, second));
        }
        let timeline = history.timeline("u");
        assert_eq!((timeline.len(), timeline[99].at), (STEPS, at(499)));
        for second in 0..1_500 {
            finish(&history, &format!("u{second}"), second);
        }
        let finished = history.finished();
        assert_eq!(
            (finished.len(), finished[0].finished),
            (FINISHED, at(1_499))
        );
    }
}
