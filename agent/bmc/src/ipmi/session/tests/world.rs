//! One client state machine, one BMC, and the network between them, in simulated time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use zeroize::Zeroizing;

use super::bmc::Bmc;
use crate::{
    Privilege,
    ipmi::{
        Retransmission, SuiteChoice,
        session::{Answer, Exchange, Failure, Level, Machine, Random, Repeat, Settings, Step},
    },
};

/// A deterministic random number generator (xorshift64*).
#[derive(Clone)]
pub(super) struct Seed(pub(super) u64);

impl Seed {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end.max(1)
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

impl Random for Seed {
    fn draw(&mut self) -> Option<[u8; 16]> {
        let (high, low) = (u128::from(self.next()), u128::from(self.next()));
        Some((high << 64 | low).to_le_bytes())
    }
}

/// Probabilities in percent of the datagrams, in each direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) drop: u64,
    pub(super) duplicate: u64,
    pub(super) corrupt: u64,
    /// Maximum additional delay beyond the usual 5 ms, chosen per datagram, which reorders them.
    pub(super) delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Bmc,
    Us,
}

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) bmc: Bmc,
    pub(super) now: Instant,
    pub(super) faults: Faults,
    pub(super) seed: Seed,
    /// Processing time of the BMC for each datagram.
    pub(super) slow: Duration,
    /// Whether the BMC is unresponsive.
    pub(super) is_dead: bool,
    /// Number of next datagrams to the BMC that cause ICMP "port unreachable".
    pub(super) icmp: u32,
    /// Whether responses in sessions are lost.
    pub(super) is_mute: bool,
    /// Datagrams that the client sent.
    pub(super) sent: Vec<Vec<u8>>,
    /// Datagrams that the BMC sent.
    pub(super) answers: Vec<Vec<u8>>,
    /// Times of the power state changes, oldest first.
    pub(super) history: Vec<(Instant, bool)>,
    net: BTreeMap<(Instant, usize), (To, Vec<u8>)>,
    count: usize,
}

pub(super) fn settings(user: &str, password: &str) -> Settings {
    Settings {
        user: user.to_owned(),
        password: password.into(),
        kg: Zeroizing::new(Vec::new()),
        suite: SuiteChoice::Auto,
        most: Level::of(Privilege::Administrator),
        connect: Duration::from_secs(10),
        retransmission: Retransmission::default(),
    }
}

pub(super) const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn status() -> Exchange {
    request(0x01, Vec::new(), Repeat::Read)
}

/// Chassis Control; up and down may be repeated.
pub(super) fn control(byte: u8) -> Exchange {
    let repeat = if byte < 2 {
        Repeat::Command
    } else {
        Repeat::Once
    };
    request(0x02, vec![byte], repeat)
}

fn request(command: u8, data: Vec<u8>, repeat: Repeat) -> Exchange {
    Exchange {
        net_fn: 0,
        command,
        data,
        repeat,
    }
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        let now = Instant::now();
        Self {
            machine: Machine::new(settings),
            bmc: Bmc::new(),
            now,
            faults: Faults::default(),
            seed: Seed(0x9e37_79b9_7f4a_7c15),
            slow: Duration::ZERO,
            is_dead: false,
            icmp: 0,
            is_mute: false,
            sent: Vec::new(),
            answers: Vec::new(),
            history: vec![(now, false)],
            net: BTreeMap::new(),
            count: 0,
        }
    }

    pub(super) fn admin() -> Self {
        Self::new(settings("admin", "secret"))
    }

    /// Runs one exchange to its end.
    pub(super) fn ask(&mut self, exchange: Exchange) -> Result<Answer, Failure> {
        self.begin(exchange);
        self.go_on(None)
            .expect("only a dropped exchange has no outcome")
    }

    pub(super) fn begin(&mut self, exchange: Exchange) {
        let deadline = self.now + LIMIT;
        self.machine
            .begin(exchange, self.now, deadline, &mut self.seed);
    }

    /// Runs until the exchange is complete, or until it is dropped.
    pub(super) fn go_on(&mut self, dropped: Option<Instant>) -> Option<Result<Answer, Failure>> {
        loop {
            match self.machine.poll(self.now, &mut self.seed) {
                Step::Done(outcome) => return Some(outcome),
                Step::Send(packet) => self.send(packet),
                Step::Wait(until) => {
                    assert!(until > self.now, "the wait ends in the past");
                    let until = dropped.map_or(until, |dropped| dropped.min(until));
                    self.until(until);
                }
            }
            if dropped.is_some_and(|dropped| self.now >= dropped) {
                self.machine.abandon(self.now, &mut self.seed);
                self.send_leftovers();
                return None;
            }
        }
    }

    /// Sends one datagram, or waits once.
    pub(super) fn machine_step(&mut self) {
        match self.machine.poll(self.now, &mut self.seed) {
            Step::Done(_) => {}
            Step::Send(packet) => self.send(packet),
            Step::Wait(until) => self.until(until),
        }
    }

    /// Advances the time; only datagrams in flight are delivered.
    pub(super) fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.until(until);
        }
    }

    pub(super) fn close(&mut self) {
        self.machine.begin_close(self.now, &mut self.seed);
        self.go_on(None);
    }

    pub(super) fn send_leftovers(&mut self) {
        while let Some(packet) = self.machine.leftover() {
            self.send(packet);
        }
    }

    pub(super) fn switch(&mut self, power: bool) {
        self.bmc.power = power;
        self.note();
    }

    /// Whether the power state had this value at any time since `since`.
    pub(super) fn was(&self, power: bool, since: Instant) -> bool {
        let ends = self
            .history
            .iter()
            .skip(1)
            .map(|(at, _)| *at)
            .chain([self.now]);
        let mut spans = self.history.iter().zip(ends);
        spans.any(|((_, state), end)| *state == power && end >= since)
    }

    fn note(&mut self) {
        if self.history.last().map(|(_, power)| *power) != Some(self.bmc.power) {
            self.history.push((self.now, self.bmc.power));
        }
    }

    fn send(&mut self, packet: Vec<u8>) {
        self.sent.push(packet.clone());
        if self.icmp > 0 {
            self.icmp -= 1;
            self.now += Duration::from_millis(1);
            self.machine
                .unreachable("refused", self.now, &mut self.seed);
            return;
        }
        self.carry(To::Bmc, packet);
    }

    fn carry(&mut self, to: To, mut packet: Vec<u8>) {
        let faults = self.faults;
        if self.is_dead || self.seed.percent(faults.drop) {
            return;
        }
        if self.seed.percent(faults.corrupt) {
            let at = usize::try_from(self.seed.below(packet.len() as u64)).expect("index");
            packet[at] ^= 1 << self.seed.below(8);
        }
        let copies = if self.seed.percent(faults.duplicate) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let late = u64::try_from(faults.delay.as_micros()).expect("delay");
            let late = Duration::from_micros(self.seed.below(late + 1));
            let thinking = if to == To::Us {
                self.slow
            } else {
                Duration::ZERO
            };
            let at = self.now + Duration::from_millis(5) + late + thinking;
            self.count += 1;
            self.net.insert((at, self.count), (to, packet.clone()));
        }
    }

    /// Delivers the next datagram in flight, or advances to `until`.
    fn until(&mut self, until: Instant) {
        let Some(((at, _), _)) = self.net.first_key_value() else {
            self.now = until;
            return;
        };
        if *at > until {
            self.now = until;
            return;
        }
        let ((at, _), (to, packet)) = self.net.pop_first().expect("there is one");
        self.now = at.max(self.now);
        match to {
            To::Us => self.machine.receive(&packet, self.now, &mut self.seed),
            To::Bmc => {
                let answer = self.bmc.receive(&packet);
                self.note();
                let is_lost = self.is_mute && packet.get(5).is_some_and(|kind| kind & 0x3f == 0);
                if let Some(answer) = answer.filter(|_| !is_lost) {
                    self.answers.push(answer.clone());
                    self.carry(To::Us, answer);
                }
            }
        }
    }
}
