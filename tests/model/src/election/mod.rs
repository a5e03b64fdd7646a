//! The election: two candidates with the real [`LeaseView`], one Lease, and calls that are slow or lost.
//!
//! Every candidate may be suspended at any time, because nobody is ever obliged to do something before
//! time passes. How their clocks run is said in `clocks`.

mod breakage;
mod clocks;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use rackhand_core::lease::{Decision, LeaseRecord, LeaseView, LeaseWrite, evaluate};
use stateright::{Model, Property};

pub use breakage::Broken;
pub use clocks::Clocks;

/// A call between a candidate and the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// No call.
    None,
    /// A write, sent at this time of the candidate's clock.
    Request(LeaseWrite, Duration),
    /// Its result: the Lease as written, or as it is after a conflict.
    Response(LeaseRecord, Duration, bool),
}

/// A process that is the leader or tries to become it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The identity that it writes into the Lease.
    pub me: String,
    /// Its view of the Lease.
    pub view: LeaseView,
    /// The time of its own clock, in seconds.
    pub clock: u64,
    /// The seconds by which its clock advances in a tick.
    pub rate: u64,
    /// The call that it has sent.
    pub call: Call,
    /// It has sent a write in this tick; the next attempt is made a retry period later.
    pub sent: bool,
}

/// The candidates, the Lease and the time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Race {
    /// Ticks since the beginning.
    pub time: u64,
    /// The processes that compete for the Lease.
    pub candidates: [Candidate; 2],
    /// The Lease at the API server.
    pub lease: Option<LeaseRecord>,
    /// Faults that may still happen.
    pub budget: u8,
    /// Who led in each term.
    pub terms: BTreeMap<u64, String>,
    /// A rule that was broken.
    pub wrong: Option<&'static str>,
}

/// An action in an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn {
    /// A tick passes.
    Tick,
    /// A tick passes, and the clock of this candidate stands still.
    Stop(usize),
    /// A tick passes, and the clock of this candidate jumps ahead by another one.
    Jump(usize),
    /// A candidate decides and does what follows.
    Act(usize),
    /// A candidate reads the Lease.
    Read(usize),
    /// A write arrives at the API server.
    Serve(usize),
    /// A response arrives.
    Receive(usize),
    /// A request or a response is lost.
    Lose(usize),
    /// A candidate is started anew and forgets everything.
    Restart(usize),
}

/// A world with an election.
#[derive(Debug, Clone)]
pub struct Election {
    /// How many faults may happen: restarts, lost calls, clocks that stop or jump.
    pub budget: u8,
    /// Ticks that are explored.
    pub ticks: u64,
    /// How the clocks run.
    pub clocks: Clocks,
    /// The deliberate fault, if any.
    pub broken: Option<Broken>,
}

fn name(candidate: usize, budget: u8) -> String {
    format!("{}-{budget}", ["a", "b"][candidate])
}

impl Candidate {
    fn now(&self) -> Duration {
        Duration::from_secs(self.clock)
    }
}

impl Race {
    fn new(budget: u8, rates: [u64; 2]) -> Self {
        let candidate = |i: usize| Candidate {
            me: name(i, budget),
            view: LeaseView::new(name(i, budget), None, Duration::ZERO),
            clock: 0,
            rate: rates[i],
            call: Call::None,
            sent: false,
        };
        Self {
            time: 0,
            candidates: [candidate(0), candidate(1)],
            lease: None,
            budget,
            terms: BTreeMap::new(),
            wrong: None,
        }
    }

    /// The term in which a candidate acts now.
    fn term(&self, i: usize, world: &Election) -> Option<u64> {
        let c = &self.candidates[i];
        let now = match world.broken {
            Some(Broken::DeadlineIgnored) => Duration::ZERO,
            _ => c.now(),
        };
        c.view.term(&world.clocks.config(), now)
    }

    fn turn(&mut self, turn: Turn, world: &Election) {
        let broken = world.broken;
        match turn {
            Turn::Tick => self.tick(None, 1),
            Turn::Stop(i) => self.tick(Some(i), 0),
            Turn::Jump(i) => self.tick(Some(i), 2),
            Turn::Act(i) => self.act(i, world),
            Turn::Read(i) => {
                let c = &mut self.candidates[i];
                c.view.observe(self.lease.clone(), c.now());
            }
            Turn::Serve(i) => self.serve(i, broken),
            Turn::Receive(i) => {
                let c = &mut self.candidates[i];
                let now = c.now();
                match std::mem::replace(&mut c.call, Call::None) {
                    Call::Response(record, sent, true) => {
                        let from_answer = broken == Some(Broken::CountedFromAnswer);
                        let sent = if from_answer { now } else { sent };
                        c.view.written(record, sent, now);
                    }
                    Call::Response(record, _, false) => c.view.observe(Some(record), now),
                    _ => {}
                }
            }
            Turn::Lose(i) => self.candidates[i].call = Call::None,
            Turn::Restart(i) => {
                let (budget, lease) = (self.budget, self.lease.clone());
                let c = &mut self.candidates[i];
                c.me = name(i, budget);
                c.view = LeaseView::new(c.me.clone(), lease, c.now());
                c.call = Call::None;
            }
        }
        self.judge(world);
    }

    /// A tick passes, which the clock of one candidate may count another number of times.
    fn tick(&mut self, odd: Option<usize>, times: u64) {
        self.time += 1;
        for (i, c) in self.candidates.iter_mut().enumerate() {
            let times = if odd == Some(i) { times } else { 1 };
            c.clock += c.rate * times;
            c.sent &= times == 0;
        }
    }

    fn act(&mut self, i: usize, world: &Election) {
        let config = world.clocks.config();
        let c = &mut self.candidates[i];
        let (now, mut asked) = (c.now(), c.now());
        if world.broken == Some(Broken::FreeAtOnce) && c.view.term(&config, now).is_none() {
            asked += config.duration();
        }
        match evaluate(&c.view, &config, asked) {
            Decision::Acquire { write } | Decision::Renew { write, .. } => {
                c.call = Call::Request(write, now);
                c.sent = true;
            }
            Decision::StepDown { .. } => {
                c.view.step_down(now);
                c.call = Call::None;
            }
            Decision::Hold { .. } | Decision::Wait { .. } | Decision::Exhausted => {}
        }
    }

    fn serve(&mut self, i: usize, broken: Option<Broken>) {
        let version = self.lease.as_ref().map(|lease| lease.version.clone());
        let c = &mut self.candidates[i];
        let Call::Request(write, sent) = c.call.clone() else {
            return;
        };
        let refused = version != write.replaces && broken != Some(Broken::VersionIgnored);
        c.call = match &self.lease {
            Some(lease) if refused => Call::Response(lease.clone(), sent, false),
            _ => {
                let version: i64 = version.and_then(|v| v.parse().ok()).unwrap_or_default();
                let record = LeaseRecord {
                    holder: write.holder,
                    transitions: write.transitions,
                    duration: write.duration,
                    renewed: Timestamp::from_second(version + 1).ok(),
                    version: (version + 1).to_string(),
                };
                self.lease = Some(record.clone());
                Call::Response(record, sent, true)
            }
        };
    }

    /// F7: one leader at a time, and one in each term.
    fn judge(&mut self, world: &Election) {
        let terms = [0, 1].map(|i| self.term(i, world));
        if terms.iter().all(Option::is_some) {
            self.wrong = Some(ONE_LEADER);
        }
        for (i, term) in terms.into_iter().enumerate() {
            let Some(term) = term else { continue };
            let me = &self.candidates[i].me;
            let led = self.terms.entry(term).or_insert_with(|| me.clone());
            if led != me {
                self.wrong = Some(ONE_TERM);
            }
        }
    }

    /// What can happen.
    fn turns(&self, world: &Election) -> Vec<Turn> {
        let mut all = Vec::new();
        if self.wrong.is_some() {
            return all;
        }
        let faulty = self.budget > 0;
        for i in 0..2 {
            match self.candidates[i].call {
                Call::None if self.candidates[i].sent => all.push(Turn::Read(i)),
                Call::None => all.extend([Turn::Act(i), Turn::Read(i)]),
                Call::Request(..) => all.push(Turn::Serve(i)),
                Call::Response(..) => all.push(Turn::Receive(i)),
            }
            if faulty {
                all.push(Turn::Restart(i));
                if self.candidates[i].call != Call::None {
                    all.push(Turn::Lose(i));
                }
            }
        }
        if self.time < world.ticks {
            all.push(Turn::Tick);
            if faulty && world.clocks == Clocks::Even {
                all.extend([Turn::Stop(0), Turn::Stop(1), Turn::Jump(0), Turn::Jump(1)]);
            }
        }
        all
    }

    /// L1: once nothing fails, somebody leads after the duration of a Lease and a few ticks.
    fn leads_in_time(&self, world: &Election) -> bool {
        let slowest = self.candidates.iter().map(|c| c.rate).min();
        let slowest = slowest.unwrap_or(1);
        let mut race = self.clone();
        race.budget = 0;
        for _ in 0..=world.clocks.config().duration().as_secs().div_ceil(slowest) + 2 {
            for i in 0..2 {
                for turn in [
                    Turn::Serve(i),
                    Turn::Receive(i),
                    Turn::Read(i),
                    Turn::Act(i),
                ] {
                    race.turn(turn, world);
                }
            }
            if (0..2).any(|i| race.term(i, world).is_some()) {
                return true;
            }
            race.turn(Turn::Tick, world);
        }
        false
    }
}

const ONE_LEADER: &str = "F7: one leader at a time";
const ONE_TERM: &str = "F7: one leader in each term";
const FOLLOWED: &str = "L1: somebody leads";

impl Election {
    /// Clocks that run evenly, and by a fault stop or jump: long enough for a Lease to expire and for the
    /// next leader to lose it again.
    pub fn even(budget: u8) -> Self {
        Self {
            budget,
            ticks: 6,
            clocks: Clocks::Even,
            broken: None,
        }
    }

    /// Clocks that drift apart, long enough for a Lease to expire.
    pub fn drifting(budget: u8) -> Self {
        Self {
            ticks: 5,
            clocks: Clocks::Drifting,
            ..Self::even(budget)
        }
    }

    /// Name of the world.
    pub fn name(&self) -> &'static str {
        match self.clocks {
            Clocks::Even => "election",
            Clocks::Drifting | Clocks::TooFarApart => "drift",
        }
    }
}

impl Model for Election {
    type State = Race;
    type Action = Turn;

    fn init_states(&self) -> Vec<Race> {
        vec![Race::new(self.budget, self.clocks.rates())]
    }

    fn actions(&self, race: &Race, turns: &mut Vec<Turn>) {
        turns.extend(race.turns(self));
    }

    fn next_state(&self, race: &Race, turn: Turn) -> Option<Race> {
        let mut next = race.clone();
        let fault = matches!(
            turn,
            Turn::Stop(_) | Turn::Jump(_) | Turn::Lose(_) | Turn::Restart(_)
        );
        next.budget -= u8::from(fault);
        next.turn(turn, self);
        if matches!(turn, Turn::Tick) && next.wrong.is_none() && !next.leads_in_time(self) {
            next.wrong = Some(FOLLOWED);
        }
        (next != *race).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_LEADER, |_, r: &Race| r.wrong != Some(ONE_LEADER)),
            Property::always(ONE_TERM, |_, r: &Race| r.wrong != Some(ONE_TERM)),
            Property::always(FOLLOWED, |_, r: &Race| r.wrong != Some(FOLLOWED)),
            Property::sometimes("another one leads", |_, r: &Race| r.terms.len() > 1),
        ]
    }
}
