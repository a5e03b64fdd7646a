//! When the power of a watched host is read: the interval, the requests to read at once, and the backoff from a BMC
//! that suffers.
//!
//! Times are of one clock of the caller. Must never: read a BMC more often than [`SECOND_READING`] apart, or read one
//! that fails as often as one that answers.

mod batches;
mod requests;

use std::time::Duration;

use batches::Batches;
pub use requests::{Extras, ReadRequests};

/// Default of the interval between two readings.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// Shortest interval that can be configured: some BMCs crash under a reading every 2 s.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);

/// Longest interval that can be configured.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(600);

/// Least time between two readings.
pub const SECOND_READING: Duration = Duration::from_secs(2);

/// Readings that answer a request.
pub const READINGS: u8 = 2;

/// Longest time between two readings of a BMC that suffers.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Regular readings begin at multiples of this: one timer wakes the agent for many hosts.
const TOGETHER: Duration = Duration::from_millis(100);

/// An answer that takes longer shows that the BMC suffers; a log-in takes most BMCs less.
const SLOW: Duration = Duration::from_secs(3);

/// Strain that a failed and a slow answer add. A good answer takes one away, and each [`STEP`] doubles the interval,
/// so a single slow answer changes nothing.
const FAILED: u32 = 2;
const SLOW_ANSWER: u32 = 1;
const STEP: u32 = 2;
/// Highest strain: it bounds how many good answers a BMC needs until it is read at its interval again.
const MOST_STRAIN: u32 = 12;

/// When one host is read next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schedule {
    interval: Duration,
    /// State of the jitter.
    seed: u64,
    strain: u32,
    /// End of the last reading; `None`: there was none.
    last: Option<Duration>,
    /// The next regular reading.
    regular: Duration,
    /// Readings that requests still need.
    wanted: Batches,
    /// End of the last batch: batches that follow each other have readings at no more than twice the rate of the
    /// interval.
    served: Option<Duration>,
}

impl Schedule {
    /// A host that is watched from `now` on. Its first reading is within the interval, so that hosts that are added
    /// together are not read together. Each host needs a `seed` of its own.
    pub fn new(now: Duration, interval: Duration, seed: u64) -> Self {
        let mut schedule = Self {
            interval,
            seed,
            strain: 0,
            last: None,
            regular: now,
            wanted: Batches::default(),
            served: None,
        };
        schedule.regular = now.saturating_add(schedule.part_of(interval));
        schedule
    }

    /// Another interval, from the next reading on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Requests [`READINGS`] readings that begin after `now`, the first one at once. Readings that an earlier request
    /// waits for come first, however often it is requested again.
    pub fn request(&mut self, now: Duration) {
        self.wanted.request(now);
    }

    /// Records the end of a reading at `now`, which took `took`.
    pub fn read(&mut self, now: Duration, took: Duration, is_answered: bool) {
        self.strain = match is_answered {
            false => self.strain.saturating_add(FAILED),
            true if took >= SLOW => self.strain.saturating_add(SLOW_ANSWER),
            true => self.strain.saturating_sub(1),
        }
        .min(MOST_STRAIN);
        self.last = Some(now);
        if self.wanted.read(now.saturating_sub(took)) {
            self.served = Some(now);
        }
        // The next reading probably takes as long; its end counts.
        let expected = took.min(self.interval / 4);
        self.regular = together(now.saturating_add(self.pause().saturating_sub(expected)));
    }

    /// When the next reading begins. A request waits for a BMC that is read less often because it suffers.
    pub fn due(&self) -> Duration {
        let is_requested = self.wanted.are_open();
        let Some(last) = self.last else {
            return if is_requested {
                Duration::ZERO
            } else {
                self.regular
            };
        };
        if !is_requested || self.backoff().is_some() {
            return self.regular;
        }
        let after_last = last.saturating_add(SECOND_READING);
        // The first reading of a batch, or the first one since the batch before.
        let is_first = self.wanted.is_unread() || self.served == Some(last);
        let after_served = self
            .served
            .filter(|_| is_first)
            .map_or(Duration::ZERO, |served| {
                served.saturating_add(self.interval / 2)
            });
        after_last.max(after_served)
    }

    /// The time between two readings, while it is longer than the interval because the BMC suffers.
    pub fn backoff(&self) -> Option<Duration> {
        let doublings = self.strain / STEP;
        if doublings == 0 {
            return None;
        }
        let longest = LONGEST_BACKOFF.max(self.interval);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        Some(self.interval.saturating_mul(factor).min(longest))
    }

    /// The time between the ends of two regular readings: at most the interval less a tenth, so that they are no
    /// further apart than the interval if an answer takes somewhat longer, and at least nine tenths of that. BMCs that
    /// suffer, as many do after an outage of their network, are spread over a quarter.
    fn pause(&mut self) -> Duration {
        let backoff = self.backoff();
        let interval = backoff.unwrap_or(self.interval);
        let longest = interval - interval / 10;
        let spread = if backoff.is_some() { 4 } else { 10 };
        longest - self.part_of(longest / spread)
    }

    /// A pseudorandom part of a time (`splitmix64`).
    fn part_of(&mut self, time: Duration) -> Duration {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let thousandths = u32::try_from(mixed % 1000).unwrap_or(0);
        time.saturating_mul(thousandths) / 1000
    }
}

/// The latest of the common times that is no later than this one.
fn together(at: Duration) -> Duration {
    let part = at.as_nanos() % TOGETHER.as_nanos();
    at.saturating_sub(Duration::from_nanos(u64::try_from(part).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUICK: Duration = Duration::from_millis(300);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A host that was read once, at 100 s.
    fn watched() -> Schedule {
        let mut schedule = Schedule::new(s(90), INTERVAL, 7);
        schedule.read(s(100), QUICK, true);
        schedule
    }

    /// Reads at each due time, and returns the times between the ends of the readings.
    fn gaps(
        schedule: &mut Schedule,
        mut last: Duration,
        took: Duration,
        count: usize,
    ) -> Vec<Duration> {
        let mut gaps = Vec::new();
        for _ in 0..count {
            let end = schedule.due() + took;
            schedule.read(end, took, true);
            gaps.push(end - last);
            last = end;
        }
        gaps
    }

    #[test]
    fn f1_readings_of_a_good_bmc_are_no_further_apart_than_an_observation_lasts() {
        for seed in 0..50 {
            let mut schedule = Schedule::new(s(0), INTERVAL, seed);
            let first = schedule.due();
            assert!(first <= INTERVAL);
            schedule.read(first, ms(900), true);
            for gap in gaps(&mut schedule, first, ms(900), 200) {
                assert!(gap <= INTERVAL && gap >= ms(8000), "{gap:?}");
            }
        }
    }

    #[test]
    fn regular_readings_of_many_hosts_share_the_times_at_which_they_begin() {
        let mut dues = std::collections::BTreeSet::new();
        for seed in 0..1000 {
            let mut schedule = Schedule::new(s(0), INTERVAL, seed);
            for _ in 0..5 {
                let end = schedule.due() + ms(seed % 90);
                schedule.read(end, ms(seed % 90), true);
                dues.insert(schedule.due());
            }
        }
        assert!(dues.iter().all(|due| due.subsec_nanos() % 100_000_000 == 0));
        assert!(dues.len() < 600, "{}", dues.len());
    }

    #[test]
    fn hosts_that_are_added_together_are_not_read_together() {
        let firsts: Vec<_> = (0..100)
            .map(|seed| Schedule::new(s(0), INTERVAL, seed).due())
            .collect();
        for second in 0..10 {
            let within = firsts.iter().filter(|due| due.as_secs() == second).count();
            assert!((2..25).contains(&within), "{within} in second {second}");
        }
    }

    #[test]
    fn request_reads_at_once_and_again_after_2_seconds() {
        let mut schedule = watched();
        schedule.request(s(101));
        assert_eq!(schedule.due(), s(102));
        schedule.read(s(103), s(3), true);
        assert_eq!(
            schedule.due(),
            s(105),
            "one that was under way does not count"
        );
        schedule.read(s(106), QUICK, true);
        assert_eq!(schedule.due(), s(108));
        schedule.read(s(108), QUICK, true);
        assert!(schedule.due() > s(110), "{:?}", schedule.due());
        let mut unread = Schedule::new(s(90), INTERVAL, 7);
        unread.request(s(91));
        assert_eq!(unread.due(), s(0), "nothing was read before");
    }

    #[test]
    fn requests_without_end_do_not_read_a_bmc_every_2_seconds() {
        let mut schedule = watched();
        let mut at = s(100);
        let mut readings = 0;
        while at < s(200) {
            if !schedule.wanted.are_open() {
                schedule.request(at);
            }
            at = schedule.due();
            at += QUICK;
            schedule.read(at, QUICK, true);
            readings += 1;
        }
        assert!(readings <= 30, "{readings}");
    }

    #[test]
    fn caller_that_requests_a_reading_each_second_is_answered() {
        let mut schedule = watched();
        let mut requests = ReadRequests::default();
        let stops = Extras {
            stops: true,
            health: false,
        };
        let (mut at, mut number, mut readings) = (s(100), 0, 0);
        let mut answered = Vec::new();
        while at < s(200) {
            let due = schedule.due().max(at);
            let next = s(101 + number);
            if next < due + QUICK {
                number += 1;
                schedule.request(next);
                requests.request(next, number, stops);
                at = at.max(next.min(due));
                continue;
            }
            let end = due + QUICK;
            schedule.read(end, QUICK, true);
            let extras = requests.read(end - QUICK);
            if requests.complete() {
                assert_eq!(extras, stops);
                answered.push((end.as_secs(), requests.answered()));
            }
            (at, readings) = (end, readings + 1);
        }
        let first = answered.first().copied();
        assert_eq!(first, Some((104, 1)), "{answered:?}");
        let late = |(at, number): &(u64, u64)| at - (100 + number) > 15;
        assert!(!answered.iter().any(late), "{answered:?}");
        assert!(answered.last().is_some_and(|(at, _)| *at > 185));
        assert!(readings <= 30, "{readings}");
    }

    #[test]
    fn requests_that_come_meanwhile_are_served_together_with_what_each_needs() {
        let mut requests = ReadRequests::default();
        let (stops, health) = (
            Extras {
                stops: true,
                health: false,
            },
            Extras {
                stops: false,
                health: true,
            },
        );
        requests.request(s(1), 1, stops);
        assert_eq!(requests.read(s(0)), Extras::default(), "it began before");
        assert_eq!(requests.read(s(2)), Extras::default());
        requests.request(s(3), 2, health);
        requests.request(s(3), 3, Extras::default());
        assert!(!requests.complete());
        assert_eq!(requests.read(s(4)), stops);
        // One that comes while the log is read waits for readings of its own.
        requests.request(s(5), 4, stops);
        assert!(requests.complete());
        assert_eq!(requests.answered(), 1);
        assert_eq!(requests.read(s(6)), Extras::default());
        assert_eq!(requests.read(s(8)), stops.or(health));
        assert!(requests.complete());
        assert_eq!(requests.answered(), 4);
        assert!(!requests.complete());
    }

    #[test]
    fn failing_bmc_is_read_less_often_up_to_5_minutes_and_recovers() {
        let mut schedule = watched();
        let mut at = s(100);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            schedule.read(at, s(20), false);
            pauses.push(schedule.due() - at);
            at = schedule.due();
        }
        assert!(pauses[0] > s(13) && pauses[0] <= s(18), "{:?}", pauses[0]);
        assert!(pauses[1] > s(26) && pauses[1] <= s(36), "{:?}", pauses[1]);
        assert!(pauses[9] > s(200) && pauses[9] <= LONGEST_BACKOFF);
        let regular = schedule.due();
        schedule.request(at);
        assert_eq!(schedule.due(), regular, "a request waits for it too");
        for _ in 0..12 {
            schedule.read(at, QUICK, true);
        }
        assert_eq!(schedule.backoff(), None);
    }

    #[test]
    fn slow_answers_in_a_row_are_a_sign_of_strain_and_a_single_one_is_none() {
        let mut schedule = watched();
        schedule.read(s(110), s(4), true);
        assert_eq!(schedule.backoff(), None);
        schedule.read(s(120), s(4), true);
        assert_eq!(schedule.backoff(), Some(s(20)));
        schedule.read(s(140), QUICK, true);
        assert_eq!(schedule.backoff(), None);
    }

    proptest! {
        #[test]
        fn readings_are_never_closer_than_2_seconds_nor_further_than_5_minutes(
            seed: u64,
            interval in 5_u64..=600,
            steps in prop::collection::vec((0_u64..30_000, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let interval = s(interval);
            let mut schedule = Schedule::new(s(0), interval, seed);
            let mut last: Option<Duration> = None;
            for (took, is_answered, is_requested) in steps {
                if is_requested {
                    schedule.request(last.unwrap_or_default());
                }
                let due = schedule.due();
                if let Some(last) = last {
                    prop_assert!(due >= last + SECOND_READING);
                    prop_assert!(due <= last + interval.max(LONGEST_BACKOFF));
                }
                let end = due + ms(took);
                schedule.read(end, ms(took), is_answered);
                last = Some(end);
            }
        }

        #[test]
        fn every_request_is_answered_in_time_whatever_the_order_of_requests(
            seed: u64,
            interval in 5_u64..=60,
            longest in 1_u64..2_999,
            takes in prop::collection::vec(0_u64..1_000, 1..20),
            arrivals in prop::collection::vec((0_u64..4_000, 0_usize..3), 1..120),
        ) {
            let interval = s(interval);
            let mut schedule = Schedule::new(s(0), interval, seed);
            let mut callers: [ReadRequests; 3] = Default::default();
            // Who requested what, and when, until it is answered.
            let mut open: Vec<(usize, u64, Duration)> = Vec::new();
            let mut at = Duration::ZERO;
            let arrivals = arrivals.into_iter().zip(1_u64..).map(|((pause, caller), number)| {
                at += ms(pause);
                (at, caller, number)
            });
            let mut arrivals = arrivals.collect::<Vec<_>>().into_iter().peekable();
            let took = |take: u64| ms(longest * take / 1_000);
            // Readings of the batch before and of its own, each as long as the longest, with the pauses between. A
            // request that comes while another one of its caller waits may be answered with a later one.
            let of_batches = interval + SECOND_READING * 2 + ms(longest) * 5;
            let bound = of_batches * 2;
            let mut takes = takes.iter().cycle();
            let mut now = Duration::ZERO;
            while arrivals.peek().is_some() || !open.is_empty() {
                let next = schedule.due().max(now);
                let took = took(*takes.next().unwrap());
                let mut arrive = |before: Duration, schedule: &mut Schedule, open: &mut Vec<_>| {
                    let (at, caller, number) = arrivals.next_if(|(at, ..)| *at < before)?;
                    schedule.request(at);
                    callers[caller].request(at, number, Extras::default());
                    open.push((caller, number, at));
                    Some(())
                };
                // A request changes when the next reading is due.
                if arrive(next, &mut schedule, &mut open).is_some() {
                    now = now.max(open.last().unwrap().2);
                    continue;
                }
                let end = next + took;
                while arrive(end, &mut schedule, &mut open).is_some() {}
                schedule.read(end, took, true);
                now = end;
                for (caller, requests) in callers.iter_mut().enumerate() {
                    requests.read(end - took);
                    requests.complete();
                    let answered = requests.answered();
                    open.retain(|(of, number, _)| *of != caller || *number > answered);
                }
                for (_, _, since) in &open {
                    prop_assert!(end - *since <= bound, "since {since:?}, at {end:?}");
                }
            }
        }
    }
}
