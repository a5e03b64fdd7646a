//! The histories of hosts: what remediations did to them.
//!
//! Owns a bounded record of running and finished remediations, for display only, and the HostHistory objects from which
//! a new leader continues it. Best effort: a remediation never waits for a write, and goes on if it fails.

pub(crate) mod entry;
mod known;
mod offenders;
mod queue;
mod recorder;
mod shared_cause;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
pub use offenders::with_suspect;
use parking_lot::Mutex;
use rackhand_api::kinds::host_history::{HostHistoryStatus, HostSharedCause};
use rackhand_core::{
    overview::{FinishedRemediation, TimelineEntry},
    remediation::State,
};
pub use shared_cause::cause_line;
use shared_cause::merged_cause;
pub(crate) use shared_cause::{CauseHeld, cause_record};
use tokio::sync::Notify;

use crate::{
    leader::writer::Writer,
    store::{api::ApiError, index::Index, object::Served},
};
use known::Known;
use queue::Queue;

/// Number of finished remediations kept.
const FINISHED: usize = 1_000;
/// Number of latest steps kept of one remediation, whose steps may repeat endlessly.
const STEPS: usize = 100;

/// How long a remediation that finished under an earlier leader is of interest.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

/// Keeps the histories of all hosts.
pub(crate) struct Histories {
    client: Client,
    served: Arc<Served>,
    index: Arc<Index>,
    writer: Writer,
    /// The namespace of the remediations of this controller; `None`: all.
    namespace: Option<String>,
    /// What is shown of them.
    shown: Arc<History>,
    /// Entries to write.
    queue: Mutex<Queue>,
    known: Mutex<Known>,
    bell: Notify,
}

/// Reads the histories of hosts, with what is not written yet.
pub(crate) struct HistoryReader(Arc<Histories>);

impl HistoryReader {
    pub(crate) fn new(histories: Arc<Histories>) -> Self {
        Self(histories)
    }

    /// The history of a host.
    pub(crate) async fn read(&self, rack: &str, host: &str) -> Result<HostHistoryStatus, ApiError> {
        self.0.read(rack, host).await
    }
}

impl Histories {
    /// `writer`: in the lane of reports.
    pub(crate) fn new(
        (client, served): (Client, Arc<Served>),
        index: Arc<Index>,
        writer: Writer,
        namespace: Option<String>,
        shown: Arc<History>,
    ) -> Self {
        Self {
            client,
            served,
            index,
            writer,
            namespace,
            shown,
            queue: Mutex::default(),
            known: Mutex::default(),
            bell: Notify::new(),
        }
    }
}

/// The record of all remediations, by the clock of the engine.
#[derive(Default)]
pub(crate) struct History(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// Running remediations by the UID of their object.
    running: BTreeMap<String, Running>,
    /// With the UID of the object, the latest first.
    finished: VecDeque<(String, FinishedRemediation)>,
}

struct Running {
    created: Timestamp,
    steps: VecDeque<TimelineEntry>,
    /// What failed together with its host.
    shared_cause: Option<HostSharedCause>,
}

impl Running {
    fn new(created: Timestamp) -> Self {
        Self {
            created,
            steps: VecDeque::new(),
            shared_cause: None,
        }
    }
}

/// The end of a remediation.
pub(crate) struct Finish<'a> {
    pub(crate) remediation: String,
    pub(crate) state: Option<&'a State>,
    pub(crate) at: Timestamp,
    pub(crate) outcome: &'static str,
    pub(crate) reason: &'static str,
}

impl History {
    /// Records the current step of a remediation with this creation time.
    pub(crate) fn step(&self, uid: &str, created: Timestamp, state: &State) {
        let mut records = self.0.lock();
        let running = records.running.entry(uid.to_owned());
        let steps = &mut running.or_insert_with(|| Running::new(created)).steps;
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

    /// Records what failed together with the host of a remediation. A hold that it knows is kept.
    pub(crate) fn put_shared_cause(&self, uid: &str, created: Timestamp, new: HostSharedCause) {
        let mut records = self.0.lock();
        let running = records.running.entry(uid.to_owned());
        let running = running.or_insert_with(|| Running::new(created));
        let known = running.shared_cause.as_ref();
        running.shared_cause = Some(merged_cause(known, new));
    }

    /// What failed together with the host of a running remediation.
    pub(crate) fn shared_cause(&self, uid: &str) -> Option<HostSharedCause> {
        let records = self.0.lock();
        records.running.get(uid)?.shared_cause.clone()
    }

    /// Records the end of a remediation.
    pub(crate) fn finish(&self, uid: &str, finish: Finish<'_>) {
        let mut records = self.0.lock();
        let running = records.running.remove(uid);
        let host = finish.state.and_then(|s| s.host.as_ref());
        let cause = running.as_ref().and_then(|r| r.shared_cause.clone());
        let finished = FinishedRemediation {
            remediation: finish.remediation,
            node: finish
                .state
                .and_then(|s| s.attempt.node.as_ref())
                .map(|node| node.name.clone()),
            host: host.map(|host| format!("{}/{}", host.rack, host.host)),
            created: running.as_ref().map_or(finish.at, |r| r.created),
            timeline: running.map(|r| r.steps.into()).unwrap_or_default(),
            finished: finish.at,
            outcome: finish.outcome.to_owned(),
            reason: finish.reason.to_owned(),
            occurrence: None,
            shared_cause: cause.as_ref().map(cause_line),
        };
        records.add(uid, finished);
    }

    /// Adds one that finished under an earlier leader; one of more than [`REMEMBERED`] ago is left out.
    fn add_finished(&self, uid: &str, finished: FinishedRemediation, now: Timestamp) {
        if now.duration_since(finished.finished) > REMEMBERED {
            return;
        }
        self.0.lock().add(uid, finished);
    }

    /// Which remediation of its host a finished one was.
    fn set_occurrence(&self, uid: &str, occurrence: String) {
        let mut records = self.0.lock();
        let found = records.finished.iter_mut().find(|(known, _)| known == uid);
        if let Some((_, finished)) = found {
            finished.occurrence = Some(occurrence);
        }
    }

    /// Adds steps of a remediation that runs, which an earlier leader has seen.
    fn add_steps(&self, uid: &str, created: Timestamp, earlier: Vec<TimelineEntry>) {
        let mut records = self.0.lock();
        let running = records.running.entry(uid.to_owned());
        let running = running.or_insert_with(|| Running::new(created));
        // An object keeps whole seconds.
        let is_known = |entry: &TimelineEntry| {
            let mut known = running.steps.iter();
            known.any(|k| {
                k.step == entry.step && k.at.as_second().abs_diff(entry.at.as_second()) <= 1
            })
        };
        let missing: Vec<TimelineEntry> = earlier.into_iter().filter(|e| !is_known(e)).collect();
        running.steps.extend(missing);
        running
            .steps
            .make_contiguous()
            .sort_by_key(|entry| entry.at);
    }

    /// Drops the steps of a remediation whose task has ended, whether or not the remediation has.
    pub(crate) fn forget(&self, uid: &str) {
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
        let records = self.0.lock();
        records.finished.iter().map(|(_, f)| f.clone()).collect()
    }
}

impl Records {
    /// Adds a finished remediation once, in the order of their ends.
    fn add(&mut self, uid: &str, finished: FinishedRemediation) {
        if self.finished.iter().any(|(known, _)| known == uid) {
            return;
        }
        let at = self
            .finished
            .partition_point(|(_, other)| other.finished > finished.finished);
        self.finished.insert(at, (uid.to_owned(), finished));
        self.finished.truncate(FINISHED);
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
            remediation: format!("PowerRemediation a/{uid}"),
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
    fn what_an_earlier_leader_recorded_is_continued() {
        let history = History::default();
        history.step("u", at(0), &state(Step::Draining, 40));
        let entry = |step: &str, second| TimelineEntry {
            step: step.to_owned(),
            at: at(second),
        };
        history.add_steps(
            "u",
            at(0),
            vec![entry("Holding", 10), entry("Draining", 40)],
        );
        let steps: Vec<String> = history.timeline("u").into_iter().map(|e| e.step).collect();
        assert_eq!(steps, ["Holding", "Draining"]);
        finish(&history, "u", 50);
        let of_earlier = FinishedRemediation {
            finished: at(45),
            ..history.finished()[0].clone()
        };
        let now = at(60);
        history.add_finished("u", of_earlier.clone(), now);
        history.add_finished("v", of_earlier.clone(), now);
        let old = FinishedRemediation {
            finished: at(-90_000),
            ..of_earlier
        };
        history.add_finished("w", old, now);
        let ends: Vec<Timestamp> = history.finished().iter().map(|f| f.finished).collect();
        assert_eq!(ends, [at(50), at(45)]);
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
