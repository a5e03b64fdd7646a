//! Which states of a rack count as one: those that behave alike.
//!
//! - What nobody reads any more is left out: who asked for an operation and when it began, outcomes that
//!   nobody asks for, calls that will be refused without an effect, a copy of a journal that can no longer be
//!   restored.
//! - Numbers that are only compared count by their order. Sequences of a term come from one controller,
//!   which always takes a number above all others, so the order of those that exist decides everything.
//!   Generations of a journal grow from that of the journal or of its copy, so their distance from the lower
//!   one decides everything, and those below it are alike. Of starts and of names of journals it only matters
//!   whether they are still those of the agent. Of a time it matters whether it has passed.
//! - The order of calls on their way, and of operations in memory, is that of a set.
//! - The two agents are alike but for the operator, who is at the first one.

use std::hash::{BuildHasher, Hash, Hasher};

use ahash::AHasher;
use rackhand_agent_core::ledger::{Authority, RecordedOutcome, Sequence, Term, Version};

use super::{
    agent::{Agent, Disk, End, Process},
    world::{Call, ELECTION, HOST, Message, Rack},
};
use crate::remediation::liveness::HASHER;

impl Hash for Rack {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sides = [0, 1].map(|at| Side::new(self, at));
        let mut hash = self.fingerprint([&sides[0], &sides[1]]);
        if self.operator.is_empty() {
            hash = hash.min(self.fingerprint([&sides[1], &sides[0]]));
        }
        state.write_u64(hash);
    }
}

/// An agent, and the numbers that are compared at it.
struct Side<'a> {
    rack: &'a Rack,
    at: usize,
    agent: &'a Agent,
    /// A copy of its journal that may still be restored.
    copy: Option<&'a Disk>,
    /// All sequences in use, in their order.
    sequences: Vec<Sequence>,
}

fn of_term(term: &Term) -> Sequence {
    Sequence {
        term: term.number,
        sequence: term.sequence,
    }
}

fn of_authority(authority: &Authority) -> Option<Sequence> {
    match authority {
        Authority::Controller { term, sequence, .. } => Some(Sequence {
            term: *term,
            sequence: *sequence,
        }),
        Authority::Operator { .. } => None,
    }
}

fn of_call(call: &Call) -> Option<Sequence> {
    match call {
        Call::Claim { term, .. } => Some(of_term(term)),
        Call::Begin { request, .. } => of_authority(&request.authority),
        Call::Release(release) => of_authority(&release.authority),
    }
}

impl<'a> Side<'a> {
    fn new(rack: &'a Rack, at: usize) -> Self {
        let agent = &*rack.agents[at];
        let copy = agent.copy.as_deref().filter(|_| rack.budget > 0);
        let mut sequences = vec![Sequence {
            term: rack.leader.term,
            sequence: rack.leader.sequences[at],
        }];
        for disk in copy.into_iter().chain([&agent.disk]) {
            sequences.extend(disk.ledger.terms.values().map(of_term));
            sequences.extend(disk.ledger.sequences.values());
        }
        if let Some(process) = &agent.process {
            let claims = process.claims.of(ELECTION).into_iter().flatten();
            sequences.extend(claims.map(of_term));
            let pending = process.pending.iter();
            sequences.extend(pending.filter_map(|p| of_authority(&p.request.authority)));
        }
        let calls = rack.network.iter().filter(|message| message.to == at);
        sequences.extend(calls.filter_map(|message| of_call(&message.call)));
        sequences.extend(agent.history.taken);
        sequences.sort_unstable();
        sequences.dedup();
        Self {
            rack,
            at,
            agent,
            copy,
            sequences,
        }
    }

    /// The place of a sequence among all of this agent. 0 stands for none.
    fn rank(&self, sequence: Sequence) -> (u64, usize) {
        let place = self.sequences.binary_search(&sequence);
        let rank = place.map_or(0, |place| place + 1);
        (sequence.term, if sequence.sequence == 0 { 0 } else { rank })
    }

    /// Whether a journal is that of the agent, or that of its copy; 0: it never comes back.
    fn journal(&self, instance: &str) -> u8 {
        let copy = self.copy.map(|copy| copy.version.instance.as_str());
        if instance == self.agent.disk.version.instance {
            1
        } else if copy == Some(instance) {
            2
        } else {
            0
        }
    }

    /// A generation above the lowest that its journal can have from now on.
    fn version(&self, instance: &str, generation: u64) -> (u8, u64) {
        let journal = self.journal(instance);
        let disks = self.copy.into_iter().chain([&self.agent.disk]);
        let same = disks.filter(|disk| disk.version.instance == instance);
        let lowest = same.map(|disk| disk.version.generation).min();
        let above = lowest.map_or(0, |lowest| generation.saturating_sub(lowest));
        (journal, above)
    }

    fn hash_version(&self, version: &Version, h: &mut AHasher) {
        self.version(&version.instance, version.generation).hash(h);
    }

    fn hash_term(&self, term: &Term, h: &mut AHasher) {
        (term.number, term.holder.len(), term.standby).hash(h);
        self.rank(of_term(term)).hash(h);
    }

    fn hash_authority(&self, authority: &Authority, h: &mut AHasher) {
        of_authority(authority).map(|sent| self.rank(sent)).hash(h);
    }

    /// Of a time that lies behind it matters whether something that ends now comes after it.
    fn age(&self, time: i64) -> i64 {
        let age = self.rack.time - time;
        let missed = |process: &Process| !process.unwritten.is_empty();
        match self.agent.process.as_ref().is_some_and(missed) {
            true => age,
            false => age.min(1),
        }
    }

    fn hash_disk(&self, disk: &Disk, h: &mut AHasher) {
        self.hash_version(&disk.version, h);
        let ledger = &*disk.ledger;
        for term in ledger.terms.values() {
            self.hash_term(term, h);
        }
        for sequence in ledger.sequences.values() {
            self.rank(*sequence).hash(h);
        }
        for (key, hold) in &ledger.holds {
            (key, &hold.owner).hash(h);
        }
        for (id, known) in &ledger.operations {
            let confirmed = known
                .outcome
                .as_ref()
                .map(|outcome| *outcome == RecordedOutcome::Reported(End::Confirmed));
            (id, &known.action, confirmed, known.force).hash(h);
            // Whether a power-on is owed after a crash.
            if known.election.is_empty() && confirmed.is_none() {
                (known.sending.len(), self.age(known.begun)).hash(h);
            }
        }
        for (ended, id) in &ledger.ended {
            (self.age(*ended), id).hash(h);
        }
    }

    fn is_ahead(&self, until: Option<i64>) -> Option<bool> {
        until.map(|until| until > self.rack.time)
    }

    fn hash_process(&self, process: &Process, h: &mut AHasher) {
        for term in process.claims.of(ELECTION) {
            match term {
                Some(term) => self.hash_term(term, h),
                None => h.write_u8(0),
            }
        }
        hash_set(h, &process.pending, |pending, h| {
            (&pending.request.id, pending.awaited).hash(h);
            self.is_ahead(pending.until).hash(h);
            self.hash_authority(&pending.request.authority, h);
        });
        let queue: Vec<(u64, bool)> = process.queue.operations(HOST).collect();
        hash_set(h, &process.runs, |run, h| {
            (&run.id, run.action, run.of_controller, run.force).hash(h);
            (self.is_ahead(run.until), run.phase, run.cancelled).hash(h);
            (run.is_attended, run.is_half).hash(h);
            let place = queue.iter().position(|(number, _)| *number == run.number);
            (place, place.map(|place| queue[place].1)).hash(h);
        });
        let store = &self.rack.store;
        let pinned = store.pin.as_ref().map(|pin| pin.operation.as_str());
        for id in [Some(store.id().as_str()), pinned].into_iter().flatten() {
            process.ended.get(id).hash(h);
        }
        for (id, (at, end)) in &process.unwritten {
            (id, self.age(*at), end).hash(h);
        }
        (process.failed, &process.promised).hash(h);
    }

    fn hash(&self, h: &mut AHasher) {
        let Self { agent, at, .. } = self;
        self.hash_disk(&agent.disk, h);
        self.hash_version(&agent.note, h);
        match self.copy {
            Some(copy) => self.hash_disk(copy, h),
            None => h.write_u8(0),
        }
        agent.full.hash(h);
        match &agent.process {
            Some(process) => self.hash_process(process, h),
            None => h.write_u8(0),
        }
        let history = &agent.history;
        (history.claimed, history.undetected, &history.started).hash(h);
        history.taken.map(|taken| self.rank(taken)).hash(h);

        let leader = &self.rack.leader;
        (leader.connections[*at], leader.waits[*at]).hash(h);
        self.journal(&leader.journals[*at]).hash(h);
        (leader.starts[*at] == agent.starts).hash(h);
        let last = Sequence {
            term: leader.term,
            sequence: leader.sequences[*at],
        };
        self.rank(last).hash(h);
        let seen = self.rack.store.seen[*at].iter();
        let seen = seen.map(|(journal, generation)| self.version(journal, *generation));
        hash_set(h, seen.filter(is_newer), |version, h| version.hash(h));
    }

    fn hash_call(&self, message: &Message, h: &mut AHasher) {
        message.awaited.hash(h);
        match &message.call {
            Call::Claim { term, known } => {
                self.hash_term(term, h);
                let known = known
                    .iter()
                    .map(|v| self.version(&v.instance, v.generation));
                hash_set(h, known.filter(is_newer), |version, h| version.hash(h));
            }
            Call::Begin { request, latest } => {
                (&request.id, request.action, self.is_taken(latest)).hash(h);
                self.hash_authority(&request.authority, h);
            }
            Call::Release(release) => self.hash_authority(&release.authority, h),
        }
    }

    /// Whether an agent still takes a request to begin an operation: sent to this start of it, and in time.
    fn is_taken(&self, (start, until): &(u8, i64)) -> bool {
        *start == self.agent.starts && *until > self.rack.time
    }

    /// A call that nobody waits for, and that is refused whenever it arrives.
    fn is_void(&self, message: &Message) -> bool {
        match &message.call {
            Call::Begin { latest, .. } => !message.awaited && !self.is_taken(latest),
            Call::Claim { .. } | Call::Release(_) => false,
        }
    }
}

/// Whether a generation shows that a journal is an older copy.
fn is_newer((_, above): &(u8, u64)) -> bool {
    *above > 0
}

/// Hashes members in any order.
fn hash_set<T>(
    h: &mut AHasher,
    members: impl IntoIterator<Item = T>,
    hash: impl Fn(T, &mut AHasher),
) {
    let member = |member| {
        let mut h = HASHER.build_hasher();
        hash(member, &mut h);
        h.finish()
    };
    let mut hashes: Vec<u64> = members.into_iter().map(member).collect();
    hashes.sort_unstable();
    hashes.hash(h);
}

impl Rack {
    fn fingerprint(&self, sides: [&Side<'_>; 2]) -> u64 {
        let mut h = HASHER.build_hasher();
        let place = |at: usize| sides.iter().position(|side| side.at == at);
        let Self { store, leader, .. } = self;
        (self.on, self.budget, self.wrong, &self.operator).hash(&mut h);
        (self.caller_gone, self.off_by_hand).hash(&mut h);
        (store.step, store.operation, leader.term).hash(&mut h);
        leader.serving.map(place).hash(&mut h);
        if let Some(pin) = &store.pin {
            let side = sides.into_iter().find(|side| side.at == pin.agent);
            side.map(|side| side.journal(&pin.journal)).hash(&mut h);
            (place(pin.agent), &pin.operation, pin.until > self.time).hash(&mut h);
        }
        for side in sides {
            side.hash(&mut h);
            let calls = self.network.iter().filter(|message| message.to == side.at);
            let calls = calls.filter(|message| !side.is_void(message));
            hash_set(&mut h, calls, |message, h| side.hash_call(message, h));
        }
        h.finish()
    }
}
