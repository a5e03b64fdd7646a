//! How many remediations of one workload cluster begin at once, by how quickly its API answers, and which ones first.
//!
//! Must never: hold back a remediation that has begun. A host that is held or off already goes on whatever the API server
//! takes, because that is what brings its workload back.

use std::time::Duration;

use jiff::Timestamp;

use crate::{limits::concurrency::ActiveRemediation, remediation::Progress};

/// How many times its quiet latency an API server takes for a call before it counts as slow.
const SLOW: u32 = 4;
/// Latency that is never slow.
const NEVER_SLOW: Duration = Duration::from_millis(100);
/// The longest latency that is counted, as long as a call waits for its answer.
const LONGEST: Duration = Duration::from_secs(5);
/// The weight of one answer in the present latency: one in so many.
const WEIGHT: u32 = 8;
/// How long the lowest latency counts as the quiet one, at least. It counts for up to twice as long.
const QUIET_FOR: Duration = Duration::from_secs(10 * 60);
/// Time after the last answer in which the latency says something about the next one.
const STANDS_FOR: Duration = Duration::from_secs(10);
/// Beginnings in [`WINDOW`] where the API server has just become slow.
const MOST: u32 = 20;
/// What beginnings are counted in.
const WINDOW: Duration = Duration::from_secs(1);
/// Interval in which a remediation that waits for its turn looks again, without a call.
pub const TURN_POLL: Duration = Duration::from_secs(1);
/// How long a remediation waits for its turn before it says so. Each report is a write.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// How long an evaluation of a remediation that waits for its turn stands.
const EVALUATED_FOR: Duration = Duration::from_secs(10);

/// The wait of one remediation for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnWait {
    since: Timestamp,
    evaluated: Timestamp,
}

impl TurnWait {
    /// The wait of a remediation that was evaluated now. `before`: its wait until now.
    #[must_use]
    pub fn evaluated(before: Option<Self>, now: Timestamp) -> Self {
        Self {
            since: before.map_or(now, |before| before.since),
            evaluated: now,
        }
    }

    /// Whether only its turn is looked at now. What else may have changed is read again after a few seconds.
    #[must_use]
    pub fn stands(self, now: Timestamp) -> bool {
        is_within(self.evaluated, EVALUATED_FOR, now)
    }

    /// Whether it is reported (L1).
    #[must_use]
    pub fn is_told(self, now: Timestamp) -> bool {
        !is_within(self.since, TOLD_AFTER, now)
    }
}

/// How quickly the API of a workload cluster answers, and which remediations have begun lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ApiLoad {
    /// The mean of the last answers.
    latency: Duration,
    /// The lowest mean of the present and of the former period.
    lowest: (Option<Duration>, Option<Duration>),
    /// When the present period began.
    period: Option<Timestamp>,
    /// The time of the last answer.
    answered: Option<Timestamp>,
    /// Remediations that began in the last [`WINDOW`], as far as they matter.
    begun: Vec<Timestamp>,
}

impl ApiLoad {
    /// Records how long an answer took.
    pub fn answered(&mut self, took: Duration, now: Timestamp) {
        let took = took.min(LONGEST);
        let is_first = self.answered.is_none();
        self.latency = match is_first {
            true => took,
            false => (self.latency * (WEIGHT - 1) + took) / WEIGHT,
        };
        self.answered = Some(now);
        let is_over = self.period.is_none_or(|at| !is_within(at, QUIET_FOR, now));
        if is_over {
            self.lowest = (None, self.lowest.0);
            self.period = Some(now);
        }
        let lowest = self.lowest.0.map_or(self.latency, |l| l.min(self.latency));
        self.lowest.0 = Some(lowest);
    }

    /// Records that the API server has too much to do for a call.
    pub fn refused(&mut self, now: Timestamp) {
        let at_least = self.limit().saturating_mul(2);
        self.latency = self.latency.saturating_mul(2).max(at_least).min(LONGEST);
        self.answered = Some(now);
    }

    /// From which latency on the API server counts as slow.
    fn limit(&self) -> Duration {
        let quiet = [self.lowest.0, self.lowest.1].into_iter().flatten().min();
        let quiet = quiet.unwrap_or_default();
        quiet.saturating_mul(SLOW).max(NEVER_SLOW)
    }

    /// How many remediations may begin in a second; `None`: any number, because the API server answers as quickly as it
    /// does when it is quiet. It is never zero (L1).
    #[must_use]
    pub fn most(&self, now: Timestamp) -> Option<u32> {
        let stands = self
            .answered
            .is_some_and(|at| is_within(at, STANDS_FOR, now));
        let limit = self.limit();
        if !stands || self.latency <= limit {
            return None;
        }
        let most = u128::from(MOST) * limit.as_micros() / self.latency.as_micros().max(1);
        Some(u32::try_from(most).unwrap_or(MOST).max(1))
    }

    /// Whether a remediation that could begin has its turn. `others`: those of the same cluster, and any others.
    ///
    /// While the API server is slow, hosts go first whose workload waits ([`ActiveRemediation::urgency`]). In each second
    /// one more may begin, the oldest, so that nobody waits for ever behind hosts that fail later (L1).
    pub fn has_turn<'a>(
        &self,
        me: &ActiveRemediation,
        others: impl IntoIterator<Item = &'a ActiveRemediation>,
        now: Timestamp,
    ) -> bool {
        let Some(most) = self.most(now) else {
            return true;
        };
        let mut begun: u32 = 0;
        for at in &self.begun {
            begun = begun.saturating_add(u32::from(is_within(*at, WINDOW, now)));
        }
        let order = |one: &'a ActiveRemediation| (one.urgency, one.precedence());
        let mine = (me.urgency, me.precedence());
        let (mut before, mut is_oldest) = (0_u32, true);
        for other in others {
            // Who is held by a policy begins only when that lets it.
            let waits = other.progress == Progress::Ready && other.policy.held_by.is_none();
            if !waits || other.uid == me.uid || other.cluster() != me.cluster() {
                continue;
            }
            before = before.saturating_add(u32::from(order(other) < mine));
            is_oldest &= me.precedence() < other.precedence();
        }
        begun.saturating_add(before) < most || is_oldest && begun <= most
    }

    /// Records that a remediation begins.
    pub fn begins(&mut self, now: Timestamp) {
        self.begun.retain(|at| is_within(*at, WINDOW, now));
        if self.begun.len() <= MOST as usize {
            self.begun.push(now);
        }
    }
}

/// Whether `at` is not longer ago. A time ahead was taken before the clock was set back.
fn is_within(at: Timestamp, longest: Duration, now: Timestamp) -> bool {
    let age = Duration::try_from(now.duration_since(at));
    age.is_ok_and(|age| age < longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fleet::placement::PolicyFacts, limits::concurrency::Urgency};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millis).unwrap()
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// An API server that was quiet, and whose answers take so long now.
    fn load(latency: u64) -> ApiLoad {
        let mut load = ApiLoad::default();
        load.answered(ms(20), at(-60_000));
        for _ in 0..100 {
            load.answered(ms(latency), at(0));
        }
        load
    }

    fn ready(name: &str, created: i64, urgency: Urgency) -> ActiveRemediation {
        ActiveRemediation {
            name: name.into(),
            uid: name.into(),
            created: at(created),
            progress: Progress::Ready,
            machine: None,
            node: Some(format!("m/c/{name}")),
            bmc: None,
            control_plane_of: Vec::new(),
            urgency,
            policy: PolicyFacts::default(),
        }
    }

    #[test]
    fn fewer_begin_the_slower_the_api_server_answers() {
        let most = |latency| load(latency).most(at(0));
        assert_eq!(most(20), None);
        assert_eq!(most(99), None, "it is never slow");
        assert_eq!(most(200), Some(10));
        assert_eq!(most(1000), Some(2));
        assert_eq!(most(60_000), Some(1), "l1: never none");
        assert_eq!(ApiLoad::default().most(at(0)), None, "not known");
        assert_eq!(load(1000).most(at(10_000)), None, "of long ago");
    }

    #[test]
    fn one_slow_answer_holds_nothing_back() {
        let mut load = load(20);
        load.answered(ms(500), at(1));
        assert_eq!(load.most(at(1)), None);
        load.refused(at(2));
        assert_eq!(load.most(at(2)), Some(10), "a refusal does");
    }

    #[test]
    fn slow_is_measured_by_the_quiet_level_of_the_same_server() {
        let mut far = ApiLoad::default();
        far.answered(ms(150), at(0));
        far.answered(ms(300), at(1));
        assert_eq!(far.most(at(1)), None, "it is far away");
        // A level that lasts becomes the quiet one.
        let mut load = load(1000);
        let mut now = 0;
        while now < 1_300_000 {
            now += 1000;
            load.answered(ms(1000), at(now));
        }
        assert_eq!(load.most(at(now)), None);
    }

    #[test]
    fn hosts_whose_workload_waits_begin_first() {
        let down = Urgency::Down { since: at(-5) };
        let silent = Urgency::NotReady { since: at(-90) };
        let newer = Urgency::NotReady { since: at(-50) };
        let mut all = [
            ready("ready", 1, Urgency::Ready),
            ready("newer", 2, newer),
            ready("silent", 3, silent),
            ready("down", 4, down),
        ];
        let mut load = load(1000);
        assert_eq!(load.most(at(0)), Some(2));
        let turns = |load: &ApiLoad, all: &[ActiveRemediation], now| {
            let ready = all.iter().filter(|one| one.progress == Progress::Ready);
            let has_turn = ready.filter(|one| load.has_turn(one, all, now));
            let names = has_turn.map(|one| one.name.clone());
            names.collect::<Vec<_>>().join(" ")
        };
        // The first two, and the oldest.
        assert_eq!(turns(&load, &all, at(0)), "ready silent down");
        for begins in [3, 2] {
            all[begins].progress = Progress::Begun;
            load.begins(at(0));
        }
        assert_eq!(turns(&load, &all, at(0)), "ready");
        all[0].progress = Progress::Begun;
        load.begins(at(0));
        assert_eq!(turns(&load, &all, at(0)), "");
        assert!(load.has_turn(&all[1], &all, at(1000)), "in the next second");
    }

    #[test]
    fn l1_a_wait_for_the_turn_is_said_and_evaluated_again() {
        let wait = TurnWait::evaluated(None, at(0));
        assert!(wait.stands(at(9999)) && !wait.is_told(at(9999)));
        assert!(!wait.stands(at(10_000)));
        let again = TurnWait::evaluated(Some(wait), at(10_000));
        assert!(again.stands(at(10_000)) && again.is_told(at(10_000)));
        assert!(!again.stands(at(5000)), "the clock was set back");
    }

    #[test]
    fn l1_nobody_waits_behind_what_does_not_begin() {
        let load = load(60_000);
        let mut held = ready("held", 1, Urgency::NotReady { since: at(-90) });
        let me = ready("me", 2, Urgency::NotReady { since: at(-50) });
        assert!(!load.has_turn(&me, [&held], at(0)));
        held.policy.held_by = Some("a policy".into());
        assert!(load.has_turn(&me, [&held], at(0)));
        held.policy.held_by = None;
        held.node = Some("m/other/held".into());
        assert!(load.has_turn(&me, [&held], at(0)), "of another cluster");
        held.progress = Progress::Waiting;
        held.node = Some("m/c/held".into());
        assert!(load.has_turn(&me, [&held], at(0)));
    }

    #[test]
    fn l1_the_oldest_begins_although_others_fail_again_and_again() {
        let mut load = load(1000);
        let old = ready("old", 0, Urgency::Ready);
        for second in 0..5 {
            let now = at(second * 1000);
            load.answered(ms(1000), now);
            let failed = Urgency::Down { since: now };
            let new = [1, 2, 3].map(|n| ready(&format!("n{n}"), n, failed));
            load.begins(now);
            load.begins(now);
            assert!(load.has_turn(&old, &new, now), "{second}");
            load.begins(now);
            assert!(!load.has_turn(&old, &new, now), "one of them in a second");
        }
    }
}
