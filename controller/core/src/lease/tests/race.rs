//! Candidates against a compare-and-swap server, with arbitrary delays and losses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// An action of a candidate, with the delays of its messages. All times are in milliseconds.
#[derive(Debug, Clone)]
struct Turn {
    who: usize,
    after: u64,
    there: u64,
    back: u64,
    /// Whether the response is lost.
    lost: bool,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Read,
    Decide,
    Raise(u64),
    Release,
    Restart,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    ToServer {
        reply_after: Option<u64>,
        life: u64,
        request: Request,
    },
    ToCandidate {
        life: u64,
        answer: Answer,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Read,
    Write {
        holder: String,
        transitions: u64,
        replaces: Option<String>,
        sent: Duration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Seen(Option<(String, u64, i64)>),
    Written {
        lease: (String, u64, i64),
        sent: Duration,
    },
}

struct World {
    now: u64,
    queue: BinaryHeap<Reverse<(u64, usize, usize, Message)>>,
    count: usize,
    lease: Option<(String, u64, i64)>,
    /// By how many milliseconds each candidate's clock is ahead.
    ahead: Vec<u64>,
    lives: Vec<u64>,
    views: Vec<Option<LeaseView>>,
    reigns: BTreeMap<u64, String>,
}

fn record((holder, transitions, version): (String, u64, i64)) -> LeaseRecord {
    mk_record(&holder, transitions, version)
}

impl World {
    fn new(ahead: Vec<u64>) -> Self {
        Self {
            now: 0,
            queue: BinaryHeap::new(),
            count: 0,
            lease: None,
            lives: vec![0; ahead.len()],
            views: vec![None; ahead.len()],
            ahead,
            reigns: BTreeMap::new(),
        }
    }

    fn clock(&self, who: usize) -> Duration {
        Duration::from_millis(self.now + self.ahead[who])
    }

    fn send(&mut self, delay: u64, who: usize, message: Message) {
        self.count += 1;
        self.queue
            .push(Reverse((self.now + delay, self.count, who, message)));
    }

    fn ask(&mut self, turn: &Turn, request: Request) {
        let reply_after = (!turn.lost).then_some(turn.back);
        let life = self.lives[turn.who];
        self.send(
            turn.there,
            turn.who,
            Message::ToServer {
                reply_after,
                life,
                request,
            },
        );
    }

    fn write(&mut self, turn: &Turn, write: LeaseWrite) {
        let sent = self.clock(turn.who);
        let LeaseWrite {
            holder,
            transitions,
            replaces,
            ..
        } = write;
        self.ask(
            turn,
            Request::Write {
                holder,
                transitions,
                replaces,
                sent,
            },
        );
    }

    fn take(&mut self, turn: &Turn) {
        let (who, now) = (turn.who, self.clock(turn.who));
        if turn.kind == Kind::Restart {
            self.views[who] = None;
            self.lives[who] += 1;
        }
        let Some(view) = &mut self.views[who] else {
            return self.ask(turn, Request::Read);
        };
        match turn.kind {
            Kind::Read | Kind::Restart => self.ask(turn, Request::Read),
            Kind::Raise(highest) => {
                // A raise that is not followed changes nothing.
                view.raise_term("agent", 0, highest).ok();
            }
            Kind::Release => {
                if let Some(write) = view.release(now) {
                    self.write(turn, write);
                }
            }
            Kind::Decide => match evaluate(view, &config(), now) {
                Decision::Acquire { write } | Decision::Renew { write, .. } => {
                    self.write(turn, write);
                }
                Decision::StepDown { .. } => view.step_down(now),
                Decision::Hold { .. } | Decision::Wait { .. } => {}
                Decision::Exhausted => unreachable!(),
            },
        }
    }

    fn serve(&mut self, who: usize, life: u64, request: Request, reply_after: Option<u64>) {
        let answer = match request {
            Request::Read => Answer::Seen(self.lease.clone()),
            Request::Write {
                holder,
                transitions,
                replaces,
                sent,
            } => {
                let version = self.lease.as_ref().map(|lease| lease.2.to_string());
                if version != replaces {
                    Answer::Seen(self.lease.clone())
                } else {
                    let version = self.lease.as_ref().map_or(1, |lease| lease.2 + 1);
                    let lease = (holder, transitions, version);
                    self.lease = Some(lease.clone());
                    Answer::Written { lease, sent }
                }
            }
        };
        if let Some(delay) = reply_after {
            self.send(delay, who, Message::ToCandidate { life, answer });
        }
    }

    fn receive(&mut self, who: usize, life: u64, answer: Answer) {
        let now = self.clock(who);
        if life != self.lives[who] {
            return;
        }
        match (answer, &mut self.views[who]) {
            (Answer::Seen(lease), Some(view)) => view.observe(lease.map(record), now),
            (Answer::Seen(lease), none @ None) => {
                let me = format!("candidate-{who}-{life}");
                *none = Some(LeaseView::new(me, lease.map(record), now));
            }
            (Answer::Written { lease, sent }, Some(view)) => {
                view.written(record(lease), sent, now);
            }
            (Answer::Written { .. }, None) => {}
        }
    }

    fn deliver_until(&mut self, time: u64) {
        while let Some(Reverse((due, ..))) = self.queue.peek() {
            if *due > time {
                break;
            }
            let Some(Reverse((due, _, who, message))) = self.queue.pop() else {
                break;
            };
            self.now = due;
            match message {
                Message::ToServer {
                    reply_after,
                    life,
                    request,
                } => {
                    self.serve(who, life, request, reply_after);
                }
                Message::ToCandidate { life, answer } => self.receive(who, life, answer),
            }
            self.check();
        }
        self.now = time;
    }

    /// Nobody becomes leader between two events, so that checking after each of them is enough.
    fn check(&mut self) {
        let mut leaders = Vec::new();
        for (who, view) in self.views.iter().enumerate() {
            let Some(view) = view else { continue };
            if let Some(term) = view.term(&config(), self.clock(who)) {
                leaders.push(view.me.clone());
                let owner = self.reigns.entry(term).or_insert_with(|| view.me.clone());
                assert_eq!(*owner, view.me, "term {term} is used twice");
            }
        }
        assert!(leaders.len() < 2, "{leaders:?} both lead at {}", self.now);
    }

    fn leader(&self) -> Option<usize> {
        (0..self.views.len()).find(|who| {
            let view = self.views[*who].as_ref();
            view.is_some_and(|view| view.term(&config(), self.clock(*who)).is_some())
        })
    }
}

/// Delays that are mostly short, and sometimes longer than any deadline.
fn any_delay() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..50, 2 => 0u64..3_000, 1 => 0u64..30_000]
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let kind = prop_oneof![
        20 => Just(Kind::Decide),
        10 => Just(Kind::Read),
        1 => (0u64..40).prop_map(Kind::Raise),
        1 => Just(Kind::Release),
        1 => Just(Kind::Restart),
    ];
    let after = prop_oneof![8 => 0u64..1_500, 1 => 0u64..20_000];
    (
        0usize..2,
        after,
        any_delay(),
        any_delay(),
        prop::bool::weighted(0.1),
        kind,
    )
        .prop_map(|(who, after, there, back, lost, kind)| Turn {
            who,
            after,
            there,
            back,
            lost,
            kind,
        })
}

proptest! {
    #[test]
    fn f7_candidates_never_lead_at_the_same_time_or_in_the_same_term(
        ahead in vec(0u64..100_000, 2), turns in vec(any_turn(), 0..300),
    ) {
        let mut world = World::new(ahead);
        for turn in &turns {
            world.deliver_until(world.now + turn.after);
            world.take(turn);
            world.check();
        }
        world.deliver_until(world.now + 100_000);
    }

    #[test]
    fn candidate_leads_within_20_s_after_the_leader_dies(
        ahead in vec(0u64..100_000, 2), delay in 0u64..400,
    ) {
        let mut world = World::new(ahead);
        let step = |world: &mut World, who| {
            for kind in [Kind::Read, Kind::Decide] {
                world.deliver_until(world.now + 500);
                world.take(&Turn { who, after: 0, there: delay, back: delay, lost: false, kind });
                world.check();
            }
        };
        for _ in 0..10 {
            step(&mut world, 0);
            step(&mut world, 1);
        }
        let first = world.leader();
        prop_assert!(first.is_some());
        let other = 1 - first.unwrap_or_default();
        let died = world.now;
        while world.leader() != Some(other) {
            step(&mut world, other);
            prop_assert!(world.now - died < 20_000);
        }
    }
}
