//! When each host of a PDU may be switched on, so that they do not all start at once.
//!
//! A power supply draws a multiple of its usual current for a moment after power-on. Pure: times
//! are counted from the start of the agent.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The answer to a waiting power-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StaggerDecision {
    /// It may be sent now.
    Now,
    /// It must wait.
    Wait {
        /// The expected start if no power-on ahead leaves the queue.
        until: Duration,
        /// Number of power-ons ahead.
        ahead: usize,
    },
}

/// The rule: on one PDU, a power-on follows the last one after `interval`, in order of arrival.
pub fn turn(
    interval: Duration,
    last: Option<Duration>,
    ahead: usize,
    now: Duration,
) -> StaggerDecision {
    let first = last.map_or(now, |last| last.saturating_add(interval).max(now));
    if ahead == 0 && first <= now {
        return StaggerDecision::Now;
    }
    let before = u32::try_from(ahead).unwrap_or(u32::MAX);
    StaggerDecision::Wait {
        until: first.saturating_add(interval.saturating_mul(before)),
        ahead,
    }
}

/// Every PDU that has waiting power-ons, or had one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    next: u64,
    pdus: BTreeMap<String, PduQueue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct PduQueue {
    last: Option<Duration>,
    waiting: VecDeque<u64>,
}

impl Schedule {
    /// Joins the queue of a PDU.
    pub fn join(&mut self, pdu: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        let queue = self.pdus.entry(pdu.to_owned()).or_default();
        queue.waiting.push_back(number);
        number
    }

    /// Whether this number may be switched on now. If so, it leaves the queue and the next interval
    /// starts.
    pub fn ask(
        &mut self,
        pdu: &str,
        number: u64,
        interval: Duration,
        now: Duration,
    ) -> StaggerDecision {
        let Some(queue) = self.pdus.get_mut(pdu) else {
            return StaggerDecision::Now;
        };
        let Some(ahead) = queue.waiting.iter().position(|one| *one == number) else {
            return StaggerDecision::Now;
        };
        let turn = turn(interval, queue.last, ahead, now);
        if turn == StaggerDecision::Now {
            queue.waiting.remove(ahead);
            queue.last = Some(now);
        }
        turn
    }

    /// Leaves the queue.
    pub fn leave(&mut self, pdu: &str, number: u64) {
        if let Some(queue) = self.pdus.get_mut(pdu) {
            queue.waiting.retain(|one| *one != number);
        }
    }

    /// Number of waiting power-ons.
    pub fn waiting(&self) -> usize {
        self.pdus.values().map(|queue| queue.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wait(until: u64, ahead: usize) -> StaggerDecision {
        StaggerDecision::Wait {
            until: s(until),
            ahead,
        }
    }

    #[test]
    fn power_ons_are_one_interval_apart() {
        for (last, ahead, now, wanted) in [
            (None, 0, 7, StaggerDecision::Now),
            (None, 1, 7, wait(9, 1)),
            (Some(6), 0, 7, wait(8, 0)),
            (Some(5), 0, 7, StaggerDecision::Now),
            (Some(5), 2, 7, wait(11, 2)),
            (Some(6), 3, 7, wait(14, 3)),
        ] {
            let is = turn(s(2), last.map(s), ahead, s(now));
            assert_eq!(is, wanted, "{last:?} {ahead} {now}");
        }
        assert_eq!(
            turn(s(0), Some(s(7)), 0, s(7)),
            StaggerDecision::Now,
            "an interval of 0 disables staging"
        );
    }

    #[test]
    fn leaving_the_queue_advances_it_and_pdus_are_independent() {
        let mut schedule = Schedule::default();
        let [a, b, c] = [(); 3].map(|()| schedule.join("p1"));
        let other = schedule.join("p2");
        assert_eq!(schedule.ask("p1", c, s(2), s(10)), wait(14, 2));
        assert_eq!(schedule.ask("p1", a, s(2), s(10)), StaggerDecision::Now);
        assert_eq!(schedule.ask("p2", other, s(2), s(10)), StaggerDecision::Now);
        assert_eq!(schedule.ask("p1", c, s(2), s(10)), wait(14, 1));
        schedule.leave("p1", b);
        assert_eq!(schedule.ask("p1", c, s(2), s(10)), wait(12, 0));
        assert_eq!(schedule.waiting(), 1);
        assert_eq!(schedule.ask("p1", c, s(2), s(12)), StaggerDecision::Now);
        assert_eq!(schedule.waiting(), 0);
        assert_eq!(
            schedule.ask("p1", c, s(2), s(12)),
            StaggerDecision::Now,
            "the turn was reached before"
        );
    }

    proptest! {
        /// In every sequence of joining, polling and leaving, two power-ons of one PDU are never
        /// closer than the interval, and every remaining one is granted.
        #[test]
        fn power_ons_of_one_pdu_are_never_closer_than_the_interval(
            steps in prop::collection::vec((0_u8..4, 0_u64..3), 1..60),
            interval in 1_u64..5,
        ) {
            let (mut schedule, mut now) = (Schedule::default(), 0);
            let (mut waiting, mut went) = (Vec::new(), Vec::new());
            for (what, time) in steps {
                now += time;
                match what {
                    0 | 1 => waiting.push(schedule.join("p")),
                    2 if !waiting.is_empty() => schedule.leave("p", waiting.remove(waiting.len() / 2)),
                    _ => {}
                }
                waiting.retain(|one| {
                    let turn = schedule.ask("p", *one, s(interval), s(now));
                    if turn == StaggerDecision::Now {
                        went.push(now);
                    }
                    turn != StaggerDecision::Now
                });
            }
            while !waiting.is_empty() {
                now += 1;
                let before = waiting.len();
                waiting.retain(|one| schedule.ask("p", *one, s(interval), s(now)) != StaggerDecision::Now);
                if waiting.len() < before {
                    went.push(now);
                }
                prop_assert!(now < 10_000);
            }
            for pair in went.windows(2) {
                prop_assert!(pair[1] >= pair[0] + interval, "{went:?}");
            }
        }
    }
}
