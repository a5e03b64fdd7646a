//! F6 under every interleaving: a model of one process that runs several remediations. Each remediation observes,
//! writes its decision, and ends; remediations become unable and able to begin, writes fail, and the process
//! is restarted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    super::{Progress, Reason},
    build::at,
};
use crate::limits::concurrency::{ActiveRemediation, ControlPlane, Urgency, check_concurrency};

/// Remediations of one control plane.
const REMEDIATIONS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Stored {
    Pending,
    Begun,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Remediation {
    stored: Stored,
    /// Whether the remediation could begin by itself.
    able: bool,
    /// Whether the remediation decided to begin, and the write is under way.
    begins: bool,
    attempts: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Model {
    remediations: [Remediation; REMEDIATIONS],
    /// The memory of the process, which a restart clears.
    memory: BTreeMap<usize, Progress>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Look(usize),
    Written(usize),
    NotWritten(usize),
    AttemptEnds(usize),
    Ends(usize),
    Cause(usize),
    Restart,
}

fn active(i: usize, progress: Progress) -> ActiveRemediation {
    ActiveRemediation {
        name: i.to_string(),
        uid: i.to_string(),
        created: at(i64::try_from(i).unwrap()),
        progress,
        machine: None,
        node: None,
        bmc: None,
        control_plane_of: vec!["default/c1".into()],
        urgency: Urgency::unknown(),
        policy: crate::fleet::placement::PolicyFacts::default(),
    }
}

impl Model {
    fn new() -> Self {
        let remediation = Remediation {
            stored: Stored::Pending,
            able: true,
            begins: false,
            attempts: 0,
        };
        Self {
            remediations: [remediation; REMEDIATIONS],
            memory: BTreeMap::new(),
        }
    }

    /// The other remediations as the engine knows them: from memory, else from the stored state.
    fn others(&self, me: usize) -> Vec<ActiveRemediation> {
        let progress = |i: usize| match (self.memory.get(&i), self.remediations[i].stored) {
            (Some(progress), _) => Some(*progress),
            (None, Stored::Begun) => Some(Progress::Begun),
            (None, Stored::Pending | Stored::Over) => None,
        };
        (0..REMEDIATIONS)
            .filter(|i| *i != me)
            .filter_map(|i| Some(active(i, progress(i)?)))
            .collect()
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = vec![Act::Restart];
        for (i, remediation) in self.remediations.iter().enumerate() {
            match (remediation.stored, remediation.begins) {
                (Stored::Pending, true) => acts.extend([Act::Written(i), Act::NotWritten(i)]),
                (Stored::Pending, false) => acts.extend([Act::Look(i), Act::Cause(i)]),
                (Stored::Begun, _) => {
                    acts.extend([Act::Look(i), Act::AttemptEnds(i), Act::Ends(i)]);
                }
                (Stored::Over, _) => {}
            }
        }
        acts
    }

    fn look(&mut self, i: usize) -> Option<Reason> {
        let remediation = self.remediations[i];
        let progress = match (remediation.stored, remediation.able) {
            (Stored::Begun, _) => Progress::Begun,
            (_, true) => Progress::Ready,
            (_, false) => Progress::Waiting,
        };
        // A member that is off is missing for the others.
        let off = |r: &&Remediation| r.stored == Stored::Begun;
        let off = u32::try_from(self.remediations.iter().filter(off).count()).unwrap();
        let quorum = ControlPlane {
            total: 5,
            healthy_others: 4 - off,
            unhealthy: Vec::new(),
            guard: None,
            unread: None,
            overruled: false,
        };
        // The quorum is not evaluated after the begin.
        let quorum = (progress != Progress::Begun).then_some(quorum);
        let decision = check_concurrency(&active(i, progress), &self.others(i), quorum);
        self.memory.insert(i, decision.progress);
        self.remediations[i].begins =
            remediation.stored == Stored::Pending && remediation.able && decision.reason.is_none();
        decision.reason
    }

    fn after(&self, act: Act) -> Self {
        let mut next = self.clone();
        match act {
            Act::Look(i) => drop(next.look(i)),
            Act::Written(i) => {
                next.remediations[i].begins = false;
                next.remediations[i].stored = Stored::Begun;
            }
            Act::NotWritten(i) => next.remediations[i].begins = false,
            Act::AttemptEnds(i) => {
                next.remediations[i].attempts += 1;
                next.remediations[i].stored = Stored::Pending;
                if next.remediations[i].attempts > 1 {
                    next.remediations[i].stored = Stored::Over;
                    next.memory.remove(&i);
                }
            }
            Act::Ends(i) => {
                next.remediations[i].stored = Stored::Over;
                next.memory.remove(&i);
            }
            Act::Cause(i) => next.remediations[i].able = !next.remediations[i].able,
            Act::Restart => {
                next.memory.clear();
                for remediation in &mut next.remediations {
                    remediation.begins = false;
                }
            }
        }
        next
    }

    fn taken(&self) -> usize {
        let taken = |r: &&Remediation| r.begins || r.stored == Stored::Begun;
        self.remediations.iter().filter(taken).count()
    }

    /// Whether a remediation begins if one could and none has: all remediations observe twice, so that the second
    /// time each knows the others.
    fn one_can_begin(&self) -> bool {
        let could = |r: &Remediation| r.stored == Stored::Pending && r.able;
        if self.taken() > 0 || !self.remediations.iter().any(could) {
            return true;
        }
        let mut then = self.clone();
        for _ in 0..2 {
            for i in (0..REMEDIATIONS).rev() {
                if then.remediations[i].stored == Stored::Pending && !then.remediations[i].begins {
                    then.look(i);
                }
            }
        }
        then.taken() == 1
    }
}

#[test]
fn f6_every_interleaving_begins_one_remediation_at_a_time() {
    let (mut seen, mut open) = (BTreeSet::new(), VecDeque::from([Model::new()]));
    let mut overtaken = false;
    while let Some(model) = open.pop_front() {
        assert!(model.taken() < 2, "two have begun: {model:?}");
        assert!(model.one_can_begin(), "none begins: {model:?}");
        let [first, .., last] = &model.remediations;
        overtaken |= last.begins && first.stored == Stored::Pending;
        for act in model.acts() {
            let next = model.after(act);
            if seen.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    assert!(seen.len() > 1000, "only {} states", seen.len());
    assert!(overtaken, "no waiting remediation was overtaken");
}
