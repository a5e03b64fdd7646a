//! Every order of events about one Node: persons, the remediation, a watch that lags, restarts and time.
//!
//! The shell is modelled as it is: it decides by its view, and carries out a decision with the live reads and
//! preconditions of `controller/runtime/src/planned_work/triggers/act.rs`. One thing is left out, as it is outside of the rule: a
//! controller that crashes between the end of a remediation that a person has deleted and the change of its label.

use std::collections::{BTreeSet, VecDeque};

use super::*;

/// Time in the cooldown.
const LASTS: u8 = 1;
/// The last point in time.
const END: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    stage: Stage,
    deleting: bool,
    answered: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    now: u8,
    label: NodeLabel,
    /// All remediations that exist; the name allows one.
    objects: Vec<Object>,
    seen_label: NodeLabel,
    seen: Option<Object>,
    /// Whether this process knows a remediation whose label is not answered.
    unanswered: bool,
    /// How often persons have put the label there, and how often a host was switched off.
    put: u8,
    begun: u8,
    /// What persons may still do.
    removals: u8,
    deletions: u8,
    crashes: u8,
    /// How the last remediation ended, also one that is gone.
    last: Option<Stage>,
    /// When the last label was answered after a remediation had ended.
    ended: Option<u8>,
}

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breakage {
    None,
    /// The name differs each time.
    NameIsRandom,
    /// A failure is answered as a success.
    FailureRemovesLabel,
    /// The remediation is deleted, and the label stays.
    LabelIsNotAnswered,
    /// The remediation goes as soon as its label is answered.
    NoCooldown,
    /// The label is not read live before a remediation is made.
    NoLiveRead,
    /// A remediation that somebody has deleted is forgotten.
    AbortIsForgotten,
}

impl World {
    fn new() -> Self {
        Self {
            now: 0,
            label: NodeLabel::Absent,
            objects: Vec::new(),
            seen_label: NodeLabel::Absent,
            seen: None,
            unanswered: false,
            put: 0,
            begun: 0,
            removals: 1,
            deletions: 1,
            crashes: 1,
            last: None,
            ended: None,
        }
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        change(&mut next);
        next
    }

    fn decision(&self, broken: Breakage) -> Decision {
        let forgets = matches!(
            broken,
            Breakage::AbortIsForgotten | Breakage::LabelIsNotAnswered
        );
        let found = match self.seen {
            Some(object) => Found::Remediation(OwnRemediation {
                stage: object.stage,
                deleting: object.deleting,
                answered: object.answered.map(|t| at(i64::from(t) * 60)),
            }),
            None if self.unanswered && !forgets => Found::Lost,
            None => Found::Nothing,
        };
        let cooldown = Duration::from_secs(60 * u64::from(LASTS));
        let now = at(i64::from(self.now) * 60);
        let decision = decide(&node(self.seen_label, found), cooldown, now);
        match (broken, self.seen.map(|o| (o.stage, o.answered)), decision) {
            (Breakage::FailureRemovesLabel, _, Decision::Answer(Answer::Fail)) => {
                Decision::Answer(Answer::Remove)
            }
            (Breakage::LabelIsNotAnswered, _, Decision::Answer(_)) => Decision::Delete,
            (Breakage::NoCooldown, Some((Stage::Succeeded, Some(_))), _) => Decision::Delete,
            (_, _, decision) => decision,
        }
    }

    /// The shell carries out its decision.
    fn acts(&self, broken: Breakage) -> Result<Self, &'static str> {
        let mut next = self.clone();
        match self.decision(broken) {
            Decision::Nothing | Decision::Wait(_) => {}
            Decision::Create => next.create(broken)?,
            Decision::Answer(answer) => next.answer(answer)?,
            Decision::Record => next.record(),
            Decision::Delete => {
                if let Some(object) = next.objects.first_mut() {
                    object.deleting = true;
                }
                next.seen = next.objects.first().copied();
            }
        }
        next.notes();
        Ok(next)
    }

    fn create(&mut self, broken: Breakage) -> Result<(), &'static str> {
        if broken != Breakage::NoLiveRead {
            self.seen_label = self.label;
            if self.label != NodeLabel::Set {
                return Ok(());
            }
        }
        if self.label != NodeLabel::Set {
            return Err("made although the label is not there");
        }
        if self.objects.is_empty() || broken == Breakage::NameIsRandom {
            if self.ended.is_some_and(|ended| self.now < ended + LASTS) {
                return Err("made within the cooldown");
            }
            self.objects.push(Object {
                stage: Stage::NotBegun,
                deleting: false,
                answered: None,
            });
        }
        if broken != Breakage::NameIsRandom {
            self.seen = self.objects.first().copied();
        }
        Ok(())
    }

    fn answer(&mut self, answer: Answer) -> Result<(), &'static str> {
        if self.seen.is_none() && !self.objects.is_empty() {
            self.seen = self.objects.first().copied();
            return Ok(());
        }
        self.seen_label = self.label;
        let stage = self.objects.first().map(|object| object.stage);
        match (answer, self.label) {
            (Answer::Remove, NodeLabel::Set) => {
                if stage.or(self.last) != Some(Stage::Succeeded) {
                    return Err("the label was removed although the Node is not back");
                }
                self.label = NodeLabel::Absent;
            }
            (Answer::Fail, NodeLabel::Set | NodeLabel::Absent) => self.label = NodeLabel::Failed,
            _ => return Ok(()),
        }
        self.seen_label = self.label;
        if self.objects.first().is_none_or(|object| object.deleting) {
            self.unanswered = false;
        }
        Ok(())
    }

    fn record(&mut self) {
        let Some(object) = self.objects.first_mut() else {
            self.seen = None;
            return;
        };
        self.seen_label = self.label;
        if self.label == NodeLabel::Set && object.stage != Stage::NotBegun {
            return;
        }
        object.answered = Some(self.now);
        let is_over = !matches!(object.stage, Stage::NotBegun | Stage::Begun);
        if is_over && !object.deleting {
            self.ended = Some(self.now);
        }
        self.seen = Some(*object);
    }

    /// What the process remembers by its view.
    fn notes(&mut self) {
        match self.seen {
            Some(object) => self.unanswered = object.answered.is_none(),
            None if self.seen_label != NodeLabel::Set => self.unanswered = false,
            None => {}
        }
    }

    /// All that may happen next.
    fn next(&self, broken: Breakage) -> Result<Vec<Self>, &'static str> {
        let mut all = vec![self.acts(broken)?];
        if self.put < 2 && self.label != NodeLabel::Set {
            all.push(self.with(|w| {
                w.label = NodeLabel::Set;
                w.put += 1;
            }));
        }
        if self.removals > 0 && self.label != NodeLabel::Absent {
            all.push(self.with(|w| {
                w.label = NodeLabel::Absent;
                w.removals -= 1;
            }));
        }
        if self.deletions > 0 && self.objects.first().is_some_and(|o| !o.deleting) {
            all.push(self.with(|w| {
                w.objects[0].deleting = true;
                w.deletions -= 1;
                // The record of the cooldown goes with it.
                w.ended = None;
            }));
        }
        for (i, object) in self.objects.iter().enumerate() {
            let to = |stage| {
                self.with(|w| {
                    w.objects[i].stage = stage;
                    w.begun += u8::from(stage == Stage::Begun);
                    w.last = (stage != Stage::Begun).then_some(stage);
                })
            };
            match object.stage {
                Stage::NotBegun if !object.deleting => all.push(to(Stage::Begun)),
                Stage::Begun if !object.deleting => {
                    all.extend([to(Stage::Succeeded), to(Stage::Failed)]);
                }
                _ => {}
            }
            if object.deleting {
                all.push(self.with(|w| {
                    let _ = w.objects.remove(i);
                }));
            }
        }
        all.push(self.with(|w| w.seen_label = w.label));
        all.push(self.with(|w| {
            w.seen = w.objects.first().copied();
            w.notes();
        }));
        if self.now < END {
            all.push(self.with(|w| w.now += 1));
        }
        // After a restart the view is a live list.
        let between = self.unanswered && self.objects.first().is_none_or(|o| o.deleting);
        if self.crashes > 0 && !between {
            all.push(self.with(|w| {
                w.crashes -= 1;
                w.unanswered = false;
                w.seen_label = w.label;
                w.seen = w.objects.first().copied();
                w.notes();
            }));
        }
        Ok(all)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.objects.len() > 1 {
            return Err("two remediations for one label");
        }
        if self.begun > self.put {
            return Err("switched off again without a new label");
        }
        Ok(())
    }
}

/// The first fault that is found, and how many worlds were seen.
fn explore(broken: Breakage) -> (Option<&'static str>, usize) {
    let mut seen = BTreeSet::from([World::new()]);
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        if let Err(fault) = world.check() {
            return (Some(fault), seen.len());
        }
        let next = match world.next(broken) {
            Ok(next) => next,
            Err(fault) => return (Some(fault), seen.len()),
        };
        for world in next {
            if seen.insert(world.clone()) {
                queue.push_back(world);
            }
        }
    }
    (None, seen.len())
}

#[test]
fn one_label_leads_to_one_remediation_in_every_order_of_events() {
    let (fault, worlds) = explore(Breakage::None);
    assert_eq!(fault, None);
    assert!(worlds > 10_000, "only {worlds} worlds");
}

#[test]
fn every_breakage_is_found() {
    for (broken, expected) in [
        (Breakage::NameIsRandom, "two remediations for one label"),
        (
            Breakage::FailureRemovesLabel,
            "the label was removed although the Node is not back",
        ),
        (
            Breakage::LabelIsNotAnswered,
            "switched off again without a new label",
        ),
        (Breakage::NoCooldown, "made within the cooldown"),
        (Breakage::NoLiveRead, "made although the label is not there"),
        (
            Breakage::AbortIsForgotten,
            "switched off again without a new label",
        ),
    ] {
        let (fault, _) = explore(broken);
        assert_eq!(fault, Some(expected), "{broken:?}");
    }
}

/// Once nobody does anything and the view is whole, a label is never left without a remediation or a reason.
#[test]
fn label_is_never_left_without_a_remediation_or_a_reason() {
    let mut seen = BTreeSet::from([World::new()]);
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        let whole = world.with(|w| {
            w.seen_label = w.label;
            w.seen = w.objects.first().copied();
            w.notes();
        });
        let is_idle = whole.decision(Breakage::None) == Decision::Nothing;
        assert!(!is_idle || world.label != NodeLabel::Set, "{world:?}");
        for next in world.next(Breakage::None).unwrap() {
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
}
