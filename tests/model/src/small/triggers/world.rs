//! The Node with its labels, the remediations, and what the controller sees of them.

use std::time::Duration;

use rackhand_core::triggers::{
    Answer, Claim, Decision, Found, NodeLabel, Obstacle, OwnRemediation, Stage, TriggeredNode,
    acting, decide, decide_orphan,
};

use super::Breakage;
use crate::time::after;

/// Minutes of the cooldown.
const LASTS: u8 = 1;
/// The last minute that is followed.
const END: u8 = 3;
/// Labels that persons put on the Node for one trigger, where it is the only one.
const PUT: u8 = 2;
/// Rounds within which labels are answered once nothing fails.
const BOUND: usize = 40;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// Two remediations for one label.
    Two,
    /// More cycles than labels.
    SwitchedAgain,
    /// A remediation was made, and the label was not there.
    NoLabel,
    /// A remediation was made within the cooldown.
    Cooldown,
    /// A label was removed, and the Node is not back.
    NotBack,
    /// Two triggers have a remediation of the Node that is not answered.
    TwoAct,
    /// A remediation was made although the Node was seen to be left alone.
    NotLeftAlone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Object {
    stage: Stage,
    deleting: bool,
    answered: Option<u8>,
    /// The Node that it is of.
    node: u8,
}

/// The Node as it is, or as it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    /// Its number among those of its name.
    uid: u8,
    /// Whether it must be left alone, as in a maintenance.
    left_alone: bool,
}

/// A trigger, with its label on the Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Side {
    label: NodeLabel,
    seen_label: NodeLabel,
    objects: Vec<Object>,
    seen: Vec<Object>,
    /// Whether this process knows a remediation whose label is not answered.
    unanswered: bool,
    /// How often persons have put the label there, and how often a host was switched off for it.
    put: u8,
    begun: u8,
    /// How the last remediation of this Node has ended, also one that is gone.
    last: Option<Stage>,
    /// When the last label was answered after a remediation had ended.
    ended: Option<u8>,
    /// The trigger is deleted.
    is_gone: bool,
    seen_gone: bool,
}

/// Everything that is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Minutes that have passed.
    pub(super) now: u8,
    node: Node,
    seen_node: Node,
    sides: Vec<Side>,
    /// Faults that may still happen.
    budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// Everything that can happen; `usize`: of which trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller decides about the Node for a trigger, and makes one write.
    Turn(usize),
    /// A person puts the label on the Node.
    Put(usize),
    /// The remediation of this place goes on.
    Begin(usize, usize),
    /// It succeeds.
    Succeed(usize, usize),
    /// It fails.
    Fail(usize, usize),
    /// One that is being deleted is gone.
    Gone(usize, usize),
    /// The watch shows the remediations of a trigger.
    SeeObjects(usize),
    /// The watch shows the Node.
    SeeNode,
    /// The watch shows that a trigger is gone.
    SeeTrigger(usize),
    /// A minute passes.
    Time,
    /// The Node need not be left alone any more.
    Release,
    /// A person takes the label away, or one that says failed.
    Take(usize),
    /// A person deletes a remediation.
    Delete(usize),
    /// The controller is started anew.
    Crash,
    /// The Node is deleted, and another one has its name.
    Replace,
    /// The Node must be left alone.
    LeaveAlone,
    /// A person deletes the trigger.
    Remove(usize),
}

impl Action {
    fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Take(_)
                | Self::Delete(_)
                | Self::Crash
                | Self::Replace
                | Self::LeaveAlone
                | Self::Remove(_)
        )
    }
}

impl Side {
    fn new() -> Self {
        Self {
            label: NodeLabel::Absent,
            seen_label: NodeLabel::Absent,
            objects: Vec::new(),
            seen: Vec::new(),
            unanswered: false,
            put: 0,
            begun: 0,
            last: None,
            ended: None,
            is_gone: false,
            seen_gone: false,
        }
    }

    /// The remediation of a Node.
    fn of(objects: &[Object], uid: u8) -> Option<Object> {
        objects.iter().copied().find(|object| object.node == uid)
    }

    /// What the process remembers by its view.
    fn note(&mut self, uid: u8) {
        match Self::of(&self.seen, uid) {
            Some(object) => self.unanswered = object.answered.is_none(),
            None if self.seen_label != NodeLabel::Set => self.unanswered = false,
            None => {}
        }
    }

    /// Whether somebody deletes a remediation whose label is not answered.
    fn is_between(&self, uid: u8) -> bool {
        let live = Self::of(&self.objects, uid);
        self.unanswered && live.is_none_or(|object| object.deleting)
    }
}

impl World {
    pub(super) fn new(triggers: usize, budget: u8) -> Self {
        let node = Node {
            uid: 0,
            left_alone: false,
        };
        Self {
            now: 0,
            node,
            seen_node: node,
            sides: vec![Side::new(); triggers],
            budget,
            wrong: None,
        }
    }

    pub(super) fn is(&self, wrong: Wrong) -> bool {
        self.wrong == Some(wrong)
    }

    fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    pub(super) fn is_answered(&self) -> bool {
        let mut sides = self.sides.iter();
        sides.any(|side| side.begun > 0 && side.label == NodeLabel::Absent && side.ended.is_some())
    }

    pub(super) fn all_possible(&self) -> Vec<Action> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let mut all = vec![Action::SeeNode, Action::Crash];
        for (at, side) in self.sides.iter().enumerate() {
            all.extend([Action::Turn(at), Action::SeeObjects(at)]);
            if side.is_gone {
                all.push(Action::SeeTrigger(at));
            }
            all.extend(self.possible_of(at, side));
        }
        if self.now < END {
            all.push(Action::Time);
        }
        all.push(match self.node.left_alone {
            true => Action::Release,
            false => Action::LeaveAlone,
        });
        if self.node.uid == 0 {
            all.push(Action::Replace);
        }
        let between = self.sides.iter().any(|side| side.is_between(self.node.uid));
        all.retain(|action| {
            let is_followed = *action != Action::Crash || !between;
            is_followed && (!action.is_fault() || self.budget > 0)
        });
        all
    }

    /// What persons and the remediations of one trigger may do.
    fn possible_of(&self, at: usize, side: &Side) -> Vec<Action> {
        let mut all = Vec::new();
        let most = if self.sides.len() == 1 { PUT } else { 1 };
        if side.put < most && side.label != NodeLabel::Set {
            all.push(Action::Put(at));
        }
        if side.label != NodeLabel::Absent {
            all.push(Action::Take(at));
        }
        if !side.is_gone && self.node.uid == 0 {
            all.push(Action::Remove(at));
        }
        if side.objects.iter().any(|object| !object.deleting) {
            all.push(Action::Delete(at));
        }
        // One remediation of a host is under way at a time (F6).
        let objects = self.sides.iter().flat_map(|side| &side.objects);
        let is_busy = objects.into_iter().any(|o| o.stage == Stage::Begun);
        for (place, object) in side.objects.iter().enumerate() {
            match object.stage {
                Stage::NotBegun if !object.deleting && !is_busy => {
                    all.push(Action::Begin(at, place));
                }
                Stage::Begun if !object.deleting => {
                    all.extend([Action::Succeed(at, place), Action::Fail(at, place)]);
                }
                _ => {}
            }
            if object.deleting {
                all.push(Action::Gone(at, place));
            }
        }
        all
    }

    pub(super) fn acts(&mut self, action: Action, breakage: Option<Breakage>) {
        self.budget -= u8::from(action.is_fault());
        let uid = self.node.uid;
        match action {
            Action::Turn(at) => self.turn(at, breakage),
            Action::SeeNode => self.sees_node(),
            Action::Time => self.now += 1,
            Action::Release => self.node.left_alone = false,
            Action::LeaveAlone => self.node.left_alone = true,
            Action::Replace => {
                self.node.uid += 1;
                for side in &mut self.sides {
                    // Another Node has neither the label nor a history.
                    (side.label, side.last, side.ended) = (NodeLabel::Absent, None, None);
                }
            }
            Action::Crash => {
                self.sees_node();
                for side in &mut self.sides {
                    side.unanswered = false;
                    side.seen.clone_from(&side.objects);
                    side.seen_gone = side.is_gone;
                    side.note(uid);
                }
            }
            Action::Put(at)
            | Action::Begin(at, _)
            | Action::Succeed(at, _)
            | Action::Fail(at, _)
            | Action::Gone(at, _)
            | Action::SeeObjects(at)
            | Action::SeeTrigger(at)
            | Action::Take(at)
            | Action::Delete(at)
            | Action::Remove(at) => {
                if let Some(side) = self.sides.get_mut(at) {
                    Self::changes(side, action, uid);
                }
            }
        }
        self.judge();
    }

    /// What happens to one trigger, its label and its remediations.
    fn changes(side: &mut Side, action: Action, uid: u8) {
        match action {
            Action::Put(_) => {
                side.label = NodeLabel::Set;
                side.put += 1;
            }
            Action::Take(_) => side.label = NodeLabel::Absent,
            Action::Delete(_) => {
                if let Some(object) = side.objects.iter_mut().find(|object| !object.deleting) {
                    object.deleting = true;
                    // The record of the cooldown goes with it.
                    side.ended = None;
                }
            }
            Action::Remove(_) => side.is_gone = true,
            Action::SeeTrigger(_) => side.seen_gone = side.is_gone,
            Action::SeeObjects(_) => {
                side.seen.clone_from(&side.objects);
                side.note(uid);
            }
            Action::Gone(_, place) => drop(side.objects.remove(place)),
            Action::Begin(_, place) => Self::goes_on(side, place, Stage::Begun, uid),
            Action::Succeed(_, place) => Self::goes_on(side, place, Stage::Succeeded, uid),
            Action::Fail(_, place) => Self::goes_on(side, place, Stage::Failed, uid),
            _ => {}
        }
    }

    fn goes_on(side: &mut Side, place: usize, stage: Stage, uid: u8) {
        let Some(object) = side.objects.get_mut(place) else {
            return;
        };
        object.stage = stage;
        // One that begins between the record of its withdrawal and its deletion is aborted, and not counted.
        side.begun += u8::from(stage == Stage::Begun && object.answered.is_none());
        if object.node == uid {
            side.last = (stage != Stage::Begun).then_some(stage);
        }
    }

    fn sees_node(&mut self) {
        self.seen_node = self.node;
        for side in &mut self.sides {
            side.seen_label = side.label;
            side.note(self.node.uid);
        }
    }

    /// The decision about the Node for a trigger, by what is seen.
    fn decision(&self, at: usize, breakage: Option<Breakage>) -> Decision {
        let (Some(side), uid) = (self.sides.get(at), self.seen_node.uid) else {
            return Decision::Nothing;
        };
        let forgets = matches!(
            breakage,
            Some(Breakage::AbortForgotten | Breakage::LabelNotAnswered)
        );
        let mut object = Side::of(&side.seen, uid);
        if breakage == Some(Breakage::NodeConfused) {
            object = object.or(side.seen.first().copied());
        }
        let found = match object {
            Some(object) => Found::Remediation(own(object)),
            None if side.unanswered && !forgets => Found::Lost,
            None => Found::Nothing,
        };
        let node = TriggeredNode {
            name: "n".into(),
            label: side.seen_label,
            ready: true,
            deleting: false,
            found,
            obstacle: self.obstacle(at, breakage),
        };
        let lasts = Duration::from_secs(60 * u64::from(LASTS));
        let decision = decide(&node, lasts, minute(self.now));
        match (breakage, object.map(|o| (o.stage, o.answered)), decision) {
            (Some(Breakage::FailureRemovesLabel), _, Decision::Answer(Answer::Fail)) => {
                Decision::Answer(Answer::Remove)
            }
            (Some(Breakage::LabelNotAnswered), _, Decision::Answer(_)) => Decision::Delete,
            (Some(Breakage::NoCooldown), Some((Stage::Succeeded, Some(_))), _) => Decision::Delete,
            (_, _, decision) => decision,
        }
    }

    /// Why nothing is made.
    fn obstacle(&self, at: usize, breakage: Option<Breakage>) -> Option<Obstacle> {
        if self.seen_node.left_alone && breakage != Some(Breakage::NotLeftAlone) {
            return Some(Obstacle::Excluded("somebody works on it".into()));
        }
        const NAMES: [&str; 2] = ["ns/a", "ns/b"];
        let claims = self.sides.iter().zip(NAMES).filter_map(|(side, trigger)| {
            let seen = Side::of(&side.seen, self.seen_node.uid);
            let has_begun = seen.is_some_and(|object| object.answered.is_none());
            let claims = side.seen_label == NodeLabel::Set || has_begun;
            (claims && !side.seen_gone).then_some(Claim { trigger, has_begun })
        });
        let claims: Vec<Claim<'_>> = claims.collect();
        let acts = acting(&claims).filter(|_| breakage != Some(Breakage::TwoAct))?;
        (NAMES.get(at) != Some(&acts)).then(|| Obstacle::OtherTrigger(acts.to_owned()))
    }

    /// The controller decides and makes one write.
    fn turn(&mut self, at: usize, breakage: Option<Breakage>) {
        let decision = self.decision(at, breakage);
        let (live, seen_uid) = (self.node, self.seen_node.uid);
        let (now, left_alone) = (self.now, self.seen_node.left_alone);
        let Some(side) = self.sides.get_mut(at) else {
            return;
        };
        if side.seen_gone {
            if breakage != Some(Breakage::OrphanLeft) {
                Self::ends_orphans(side, |_| true);
            }
            return;
        }
        // Those of a Node that is gone, which is read live.
        let of_other = move |object: &Object| object.node != seen_uid && object.node != live.uid;
        Self::ends_orphans(side, of_other);
        let wrong = match decision {
            Decision::Nothing | Decision::Wait(_) => None,
            Decision::Create => Self::create(side, live, (seen_uid, left_alone, now), breakage),
            Decision::Answer(answer) => Self::answer(side, live.uid, seen_uid, answer),
            Decision::Record => {
                Self::record(side, live.uid, seen_uid, now);
                None
            }
            Decision::Delete => {
                let found = side.objects.iter_mut().find(|o| o.node == seen_uid);
                if let Some(object) = found {
                    object.deleting = true;
                }
                side.seen.clone_from(&side.objects);
                None
            }
        };
        side.note(seen_uid);
        if let Some(wrong) = wrong {
            self.broken(wrong);
        }
    }

    /// Deletes what is to be deleted of remediations for which no label is to be answered.
    fn ends_orphans(side: &mut Side, is_orphan: impl Fn(&Object) -> bool) {
        for seen in side.seen.clone() {
            if is_orphan(&seen) && decide_orphan(own(seen)) == Decision::Delete {
                let same = |object: &&mut Object| object.node == seen.node;
                if let Some(object) = side.objects.iter_mut().find(same) {
                    object.deleting = true;
                }
                side.seen.clone_from(&side.objects);
            }
        }
    }

    fn create(
        side: &mut Side,
        live: Node,
        (seen_uid, left_alone, now): (u8, bool, u8),
        breakage: Option<Breakage>,
    ) -> Option<Wrong> {
        if breakage != Some(Breakage::NoLiveRead) {
            if live.uid != seen_uid {
                return None;
            }
            side.seen_label = side.label;
            if side.label != NodeLabel::Set {
                return None;
            }
        }
        if side.label != NodeLabel::Set {
            return Some(Wrong::NoLabel);
        }
        if left_alone {
            return Some(Wrong::NotLeftAlone);
        }
        let is_random = breakage == Some(Breakage::NameIsRandom);
        if Side::of(&side.objects, seen_uid).is_none() || is_random {
            let is_early = side.ended.is_some_and(|ended| now < ended + LASTS);
            side.objects.push(Object {
                stage: Stage::NotBegun,
                deleting: false,
                answered: None,
                node: seen_uid,
            });
            if is_early {
                return Some(Wrong::Cooldown);
            }
        }
        if !is_random {
            side.seen.clone_from(&side.objects);
        }
        None
    }

    fn answer(side: &mut Side, uid: u8, seen_uid: u8, answer: Answer) -> Option<Wrong> {
        if Side::of(&side.seen, seen_uid).is_none() && Side::of(&side.objects, seen_uid).is_some() {
            side.seen.clone_from(&side.objects);
            return None;
        }
        if uid != seen_uid {
            return None;
        }
        side.seen_label = side.label;
        let object = Side::of(&side.objects, uid);
        let stage = object.map(|object| object.stage);
        match (answer, side.label) {
            (Answer::Remove, NodeLabel::Set) => {
                if stage.or(side.last) != Some(Stage::Succeeded) {
                    return Some(Wrong::NotBack);
                }
                side.label = NodeLabel::Absent;
            }
            (Answer::Fail, NodeLabel::Set | NodeLabel::Absent) => side.label = NodeLabel::Failed,
            _ => return None,
        }
        side.seen_label = side.label;
        if object.is_none_or(|object| object.deleting) {
            side.unanswered = false;
        }
        None
    }

    fn record(side: &mut Side, uid: u8, seen_uid: u8, now: u8) {
        let Some(object) = side.objects.iter_mut().find(|o| o.node == seen_uid) else {
            side.seen.retain(|object| object.node != seen_uid);
            return;
        };
        let mut is_set = false;
        if uid == seen_uid {
            side.seen_label = side.label;
            is_set = side.label == NodeLabel::Set;
        }
        if is_set && object.stage != Stage::NotBegun {
            return;
        }
        object.answered = Some(now);
        let is_over = !matches!(object.stage, Stage::NotBegun | Stage::Begun);
        if is_over && !object.deleting && uid == seen_uid {
            side.ended = Some(now);
        }
        side.seen.clone_from(&side.objects);
    }

    fn judge(&mut self) {
        let uid = self.node.uid;
        let mut unanswered = 0;
        let mut wrong = None;
        for side in &self.sides {
            let of = |node: u8| side.objects.iter().filter(|o| o.node == node).count();
            if (0..=uid).any(|node| of(node) > 1) {
                wrong = wrong.or(Some(Wrong::Two));
            }
            if side.begun > side.put {
                wrong = wrong.or(Some(Wrong::SwitchedAgain));
            }
            let object = Side::of(&side.objects, uid).filter(|object| !object.deleting);
            let is_open = object.is_some_and(|object| object.answered.is_none());
            unanswered += usize::from(is_open && !side.is_gone);
        }
        if unanswered > 1 {
            wrong = wrong.or(Some(Wrong::TwoAct));
        }
        if let Some(wrong) = wrong {
            self.broken(wrong);
        }
    }

    /// The same world where everything is seen.
    fn seen(&self) -> Self {
        let mut world = self.clone();
        world.sees_node();
        for side in &mut world.sides {
            side.seen.clone_from(&side.objects);
            side.seen_gone = side.is_gone;
            side.note(world.node.uid);
        }
        world
    }

    /// Whether each label that is there makes a remediation or waits for something, once everything is seen.
    pub(super) fn has_reasons(&self, breakage: Option<Breakage>) -> bool {
        let world = self.seen();
        let mut sides = world.sides.iter().enumerate();
        sides.all(|(at, side)| {
            let is_idle = world.decision(at, breakage) == Decision::Nothing;
            !is_idle || side.is_gone || side.label != NodeLabel::Set
        })
    }

    /// Whether each label is answered, and nothing is left of it, once nobody does anything any more and remediations
    /// succeed.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        world.node.left_alone = false;
        for _ in 0..BOUND {
            world = world.seen();
            for at in 0..world.sides.len() {
                world.turn(at, breakage);
                for action in world.steps_of(at) {
                    world.acts(action, breakage);
                }
            }
            world.now = world.now.saturating_add(1);
            if world.wrong.is_some() || world.is_over() {
                return true;
            }
        }
        false
    }

    /// How the remediations of a trigger go on where nothing fails.
    fn steps_of(&self, at: usize) -> Vec<Action> {
        let Some(side) = self.sides.get(at) else {
            return Vec::new();
        };
        let steps = self.possible_of(at, side).into_iter().filter(|action| {
            matches!(
                action,
                Action::Begin(..) | Action::Succeed(..) | Action::Gone(..)
            )
        });
        steps.take(1).collect()
    }

    fn is_over(&self) -> bool {
        self.sides.iter().all(|side| {
            // A failure stays until a person takes its label away.
            let has_failed = |object: &Object| object.stage == Stage::Failed;
            let is_left = !side.objects.iter().all(has_failed);
            !is_left && (side.label != NodeLabel::Set || side.is_gone)
        })
    }
}

fn own(object: Object) -> OwnRemediation {
    OwnRemediation {
        stage: object.stage,
        deleting: object.deleting,
        answered: object.answered.map(minute),
    }
}

fn minute(minute: u8) -> jiff::Timestamp {
    after(60 * u64::from(minute))
}
