//! The maintenances of one host, their marks, their remediations, and what happens to them.

use rackhand_core::maintenance::{MaintenancePhase, Mark, Stage};

use super::{
    Breakage,
    side::{Object, Remediation, Side},
};

/// Seconds of a step of time: a LED that is not renewed has then gone out, and a Lease has expired.
pub(super) const STEP: u64 = 400;
/// Steps of time that are followed.
const STEPS: u8 = 2;
/// Evaluations within which it ends once it is to end and nothing fails.
const BOUND: usize = 24;
/// Evaluations within which the marks of what waits are taken back.
const BOUND_TO_FREE: usize = 4;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// It is over, and something is left.
    Left,
    /// What somebody else has set was taken away.
    ForeignTaken,
    /// A remediation was made after it had ended.
    BegunAgain,
    /// A mark was set while the remediation waited.
    MarkedTooEarly,
    /// The remediation began while a mark of this maintenance was missing.
    BegunUnmarked,
    /// Two maintenances of the host have begun, or set a mark, at one time.
    BothBegun,
    /// A mark could not be taken back, and nothing says so.
    Unsaid,
    /// A mark is there, and it is said that health checks act as ever.
    OppositeSaid,
    /// A mark was set that the status did not list before.
    SetUnrecorded,
    /// The host comes back although nobody has ended the maintenance or its remediation.
    CameBack,
}

/// Whose annotation is on the Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Skip {
    Absent,
    /// That of the maintenance with this number.
    Of(usize),
    Theirs,
}

/// Everything that is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The steps of time that have passed.
    pub(super) time: u8,
    marked_before: bool,
    /// Whether medik8s' Leases are used.
    pub(super) leases: bool,
    pub(super) sides: Vec<Side>,
    pub(super) skip: Skip,
    /// Who holds the Lease, and when it was renewed last.
    pub(super) lease: Option<(usize, u64)>,
    /// Whether the API server refuses that marks are taken back.
    pub(super) refused: bool,
    /// Since when the Nodes of the controller's own cluster are not read, in seconds.
    pub(super) unread: Option<u64>,
    /// Whether somebody has deleted the Machine.
    pub(super) machine_gone: bool,
    /// Faults that may still happen.
    pub(super) budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// Everything that can happen; the first number is that of the maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller decides, records and does everything.
    Turn(usize),
    /// It ends after the record and this many actions.
    Crash(usize, u8),
    /// One action of a turn fails: the one with this number.
    Fail(usize, u8),
    /// The remediation goes on.
    Advance(usize),
    /// A freeze takes back what has begun, before anything is switched.
    Freeze(usize),
    /// The remediation ends without success, before or after the power-off.
    Abort(usize),
    /// A person deletes the maintenance.
    End(usize),
    /// A person deletes it without its finalizer.
    Force(usize),
    /// A person deletes the remediation.
    Withdraw(usize),
    /// A person deletes the remediation without its finalizer.
    Strip(usize),
    /// Somebody deletes the Machine.
    DeleteMachine,
    /// What a remediation has left that is gone is removed: its cordon by the controller, its taint by a person.
    Clean(usize),
    /// The host of the maintenance is found.
    Resolve(usize),
    /// From now on the API server refuses that marks are taken back.
    Refuse,
    /// It does not any more.
    Permit,
    /// The status cannot be written in a turn of the controller.
    Unwritten(usize),
    /// From now on the Nodes of the controller's own cluster cannot be read.
    Unread,
    /// They can be read again.
    Read,
    /// Time passes.
    Time,
}

impl Action {
    pub(super) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Crash(..)
                | Self::Fail(..)
                | Self::Freeze(_)
                | Self::Abort(_)
                | Self::Force(_)
                | Self::Withdraw(_)
                | Self::Strip(_)
                | Self::DeleteMachine
                | Self::Refuse
                | Self::Unwritten(_)
                | Self::Unread
        )
    }
}

impl World {
    pub(super) fn new(with_end: bool, marked_before: bool, budget: u8) -> Self {
        Self {
            time: 0,
            marked_before,
            leases: true,
            sides: vec![Side::new(with_end)],
            skip: match marked_before {
                true => Skip::Theirs,
                false => Skip::Absent,
            },
            lease: None,
            refused: false,
            unread: None,
            machine_gone: false,
            budget,
            wrong: None,
        }
    }

    /// Two maintenances of one host that name it differently, of which that of the first is found later. Where they
    /// set no marks, nothing but their order keeps them apart.
    pub(super) fn two(marked_before: bool, leases: bool, budget: u8) -> Self {
        let mut world = Self::new(false, marked_before, budget);
        world.leases = leases;
        world.sides.push(Side::new(false));
        world.sides[0].is_resolved = false;
        world
    }

    pub(super) fn seconds(&self) -> u64 {
        u64::from(self.time) * STEP
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let mut all = Vec::new();
        let is_one = self.sides.len() == 1;
        for (of, side) in self.sides.iter().enumerate() {
            all.extend([Action::Turn(of), Action::Advance(of)]);
            if side.object.is_some_and(|object| !object.deleting) {
                all.push(Action::End(of));
            }
            if side.left {
                all.push(Action::Clean(of));
            }
            if !side.is_resolved {
                all.push(Action::Resolve(of));
            }
            if self.budget == 0 {
                continue;
            }
            if side.object.is_some() {
                all.push(Action::Force(of));
            }
            all.extend((0..3).map(|done| Action::Crash(of, done)));
            if !is_one {
                continue;
            }
            all.extend((0..3).map(|which| Action::Fail(of, which)));
            all.extend([Action::Freeze(of), Action::Abort(of)]);
            if side.object.is_some() {
                all.push(Action::Unwritten(of));
            }
            if side.remediation.is_some() {
                all.extend([Action::Withdraw(of), Action::Strip(of)]);
            }
        }
        if self.refused {
            all.push(Action::Permit);
        } else if self.budget > 0 {
            all.push(Action::Refuse);
        }
        if self.unread.is_some() {
            all.push(Action::Read);
        } else if self.budget > 0 && self.leases && is_one {
            all.push(Action::Unread);
        }
        if self.budget > 0 && is_one && !self.machine_gone {
            all.push(Action::DeleteMachine);
        }
        if is_one && self.time < STEPS {
            all.push(Action::Time);
        }
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Turn(of) => self.turn(of, breakage, usize::MAX, None),
            Action::Crash(of, done) => {
                self.turn(of, breakage, usize::from(done), None);
                self.sides.iter_mut().for_each(Side::forget);
            }
            Action::Fail(of, which) => {
                self.turn(of, breakage, usize::MAX, Some(usize::from(which)));
            }
            Action::Advance(of) => self.advance(of, breakage),
            Action::Freeze(of) => {
                let side = &mut self.sides[of];
                if let Some(remediation) = &mut side.remediation
                    && remediation.stage == Stage::Evicting
                    && !remediation.deleting
                {
                    (remediation.stage, remediation.is_again) = (Stage::Waiting, true);
                    side.seen_begun = false;
                }
            }
            Action::Abort(of) => {
                if let Some(remediation) = &mut self.sides[of].remediation
                    && remediation.stage == Stage::Evicting
                {
                    remediation.stage = Stage::Failed;
                }
            }
            Action::End(of) => self.sides[of].end(),
            Action::Force(of) => self.sides[of].object = None,
            Action::Withdraw(of) => {
                let side = &mut self.sides[of];
                if let Some(remediation) = &mut side.remediation {
                    remediation.deleting = true;
                    side.withdrawn = true;
                }
            }
            Action::DeleteMachine => self.delete_machine(breakage),
            Action::Strip(of) => self.sides[of].strip(),
            Action::Clean(of) => self.sides[of].left = false,
            Action::Resolve(of) => self.sides[of].is_resolved = true,
            Action::Refuse => self.refused = true,
            Action::Permit => self.refused = false,
            Action::Unwritten(of) => self.turn_unwritten(of, breakage),
            Action::Unread => self.unread = Some(self.seconds()),
            Action::Read => self.unread = None,
            Action::Time => self.time = self.time.saturating_add(1),
        }
        self.judge(breakage);
    }

    /// The marks of the Machine are gone with it. The garbage collector deletes what it alone owns.
    fn delete_machine(&mut self, breakage: Option<Breakage>) {
        (self.machine_gone, self.skip) = (true, Skip::Absent);
        if breakage != Some(Breakage::OwnedByMachine) {
            return;
        }
        let remediations = self.sides.iter_mut().map(|side| &mut side.remediation);
        for remediation in remediations.flatten() {
            remediation.deleting = true;
        }
    }

    /// The remediation goes on; a deleted one first brings the host back.
    fn advance(&mut self, of: usize, breakage: Option<Breakage>) {
        let is_busy = self.is_busy_for_another(of);
        let side = &mut self.sides[of];
        let Some(remediation) = &mut side.remediation else {
            return;
        };
        let is_marked = side.object.is_some() && side.record.marked;
        let next = match (remediation.deleting, remediation.stage) {
            (
                true,
                Stage::Waiting | Stage::Ready | Stage::Recovered | Stage::Returning | Stage::Failed,
            ) => {
                side.had_begun |= side.seen_begun;
                side.remediation = None;
                return;
            }
            (true, _) => Stage::Returning,
            // Of the remediations of a host, one works at a time (F6).
            (false, Stage::Waiting | Stage::Ready) if is_busy => Stage::Waiting,
            // Without its Machine it does not begin.
            (false, stage @ (Stage::Waiting | Stage::Ready)) if self.machine_gone => stage,
            (false, Stage::Waiting) => Stage::Ready,
            // It begins only with every mark.
            (false, Stage::Ready) if is_marked || breakage == Some(Breakage::BegunUnmarked) => {
                Stage::Evicting
            }
            (false, Stage::Evicting) => Stage::Working,
            (false, Stage::Working) => Stage::Parked,
            (false, stage) => stage,
        };
        let begins = next == Stage::Evicting && remediation.stage != next;
        remediation.stage = next;
        let wanted = side.object.is_some_and(|object| !object.deleting)
            && side.record.ending.is_none()
            && !side.withdrawn;
        if next == Stage::Returning && wanted {
            self.wrong = Some(Wrong::CameBack);
        }
        let has_lease = !self.leases || self.lease.is_some_and(|(holder, _)| holder == of);
        let has_mark = self.skip == Skip::Theirs || self.skip == Skip::Of(of);
        if begins && !(has_lease && has_mark) {
            self.wrong = Some(Wrong::BegunUnmarked);
        }
    }

    /// Whether the remediation of another maintenance has begun.
    fn is_busy_for_another(&self, of: usize) -> bool {
        let waits =
            |r: Remediation| matches!(r.stage, Stage::Waiting | Stage::Ready | Stage::Recovered);
        let mut sides = self.sides.iter().enumerate();
        sides.any(|(other, side)| other != of && side.remediation.is_some_and(|r| !waits(r)))
    }

    /// What is left of a maintenance that neither goes by itself nor is looked for any more.
    fn is_left(&self, of: usize) -> bool {
        let (now, side) = (self.seconds(), &self.sides[of]);
        // A LED goes out by itself, and a Lease expires.
        let is_lit = side.led.is_some_and(|lit| now < lit.saturating_add(STEP));
        let is_held = self
            .lease
            .is_some_and(|(holder, renewed)| holder == of && now < renewed.saturating_add(STEP));
        side.remediation.is_some() || side.left || self.skip == Skip::Of(of) || is_lit || is_held
    }

    /// Whether every object is a record, or gone, and nobody works for it.
    pub(super) fn is_over(&self) -> bool {
        self.sides.iter().all(Side::is_over)
    }

    fn judge(&mut self, breakage: Option<Breakage>) {
        if self.wrong.is_some() {
            return;
        }
        for of in 0..self.sides.len() {
            let side = &self.sides[of];
            // One that was deleted without its finalizer is found by what it has left.
            let wrong = if side.object.is_none() {
                continue;
            } else if side.is_over() && self.is_left(of) {
                Wrong::Left
            } else if side.says_nothing_of_a_failure() {
                Wrong::Unsaid
            } else if self.skip == Skip::Of(of) && side.is_said_to_be_unmarked(breakage) {
                Wrong::OppositeSaid
            } else {
                continue;
            };
            self.wrong = Some(wrong);
        }
        if self.sides.iter().filter(|side| side.has_its_turn()).count() > 1 {
            self.wrong = Some(Wrong::BothBegun);
        }
        if self.marked_before && self.skip == Skip::Absent && !self.machine_gone {
            self.wrong = Some(Wrong::ForeignTaken);
        }
    }

    pub(super) fn is_parked_with_all(&self) -> bool {
        self.sides.iter().enumerate().any(|(of, side)| {
            side.phase == MaintenancePhase::Parked
                && self.skip == Skip::Of(of)
                && self.lease.is_some()
                && side.led.is_some()
        })
    }

    /// Whether the second maintenance has its turn after the first one.
    pub(super) fn is_second_parked(&self) -> bool {
        let [first, second] = &self.sides[..] else {
            return false;
        };
        first.had_begun && second.phase == MaintenancePhase::Parked
    }

    /// Whether it is said that a mark cannot be taken back.
    pub(super) fn says_what_is_left(&self) -> bool {
        let mut sides = self.sides.iter();
        sides.any(|side| side.object.is_some() && side.says_what_is_left())
    }

    /// Whether checks act on a host soon whose maintenance waits, for the first time or again.
    pub(super) fn frees_what_waits(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        (world.refused, world.unread) = (false, None);
        for _ in 0..BOUND_TO_FREE {
            for of in 0..world.sides.len() {
                world.turn(of, breakage, usize::MAX, None);
            }
        }
        let is_free = |(of, side): (usize, &Side)| {
            let waits = |r: Remediation| r.stage == Stage::Waiting && !r.deleting;
            let waits = side.object.is_some() && side.remediation.is_some_and(waits);
            let holds = world.lease.is_some_and(|(holder, _)| holder == of);
            !waits || (world.skip != Skip::Of(of) && !holds)
        };
        world.wrong.is_some() || world.sides.iter().enumerate().all(is_free)
    }

    /// Whether a host has no mark whose maintenance had begun and waits again.
    pub(super) fn is_free_again(&self) -> bool {
        let waits = |r: Remediation| r.stage == Stage::Waiting && r.is_again;
        let is_again = |side: &Side| side.remediation.is_some_and(waits);
        let is_marked = matches!(self.skip, Skip::Of(_)) || self.lease.is_some();
        self.sides.iter().any(is_again) && !is_marked
    }

    /// Whether it ends from here, if it is to end and nothing fails any more.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        (world.refused, world.unread) = (false, None);
        for side in &mut world.sides {
            if let Some(Object { deleting, .. }) = &mut side.object {
                *deleting = true;
            }
            if side.object.is_some_and(|object| !object.finalizer) {
                side.object = None;
            }
            side.left = false;
        }
        for _ in 0..BOUND {
            for of in 0..world.sides.len() {
                world.turn(of, breakage, usize::MAX, None);
                world.advance(of, breakage);
            }
        }
        world.wrong.is_some() || {
            // What expires by itself has done so by then, where nobody is there to end it.
            let gone = |side: &Side| side.object.is_none() && side.remediation.is_none();
            let marked = matches!(world.skip, Skip::Of(_));
            let is_lit = world.sides.iter().any(|side| side.led.is_some());
            let lit = is_lit && breakage == Some(Breakage::LedLeft);
            let leased = world.lease.is_some() && breakage == Some(Breakage::LeaseLeft);
            world.sides.iter().all(gone) && !marked && !lit && !leased
        }
    }

    /// A mark is set.
    pub(super) fn set(&mut self, of: usize, mark: Mark) {
        let now = self.seconds();
        // One that has begun before, and waits again, may renew what it is about to take back.
        let is_renewed = match mark {
            Mark::SkipRemediation => self.skip == Skip::Of(of),
            Mark::Lease => self.lease.is_some_and(|(holder, _)| holder == of),
            Mark::LocatorLED | Mark::Remediation => false,
        };
        let side = &mut self.sides[of];
        if !is_renewed && side.remediation.is_some_and(|r| r.stage == Stage::Waiting) {
            self.wrong = Some(Wrong::MarkedTooEarly);
        }
        if side.object.is_some() && !side.in_place.contains(&mark) {
            self.wrong = Some(Wrong::SetUnrecorded);
        }
        match mark {
            Mark::SkipRemediation => self.skip = Skip::Of(of),
            Mark::Lease => self.lease = Some((of, now)),
            Mark::LocatorLED => {
                (side.led, side.lit, side.out) = (Some(now), Some(now), false);
            }
            Mark::Remediation => {}
        }
    }

    /// A mark is taken back. Returns whether that was possible.
    pub(super) fn take_back(&mut self, of: usize, mark: Mark, breakage: Option<Breakage>) -> bool {
        if self.refused && mark.is_heeded() {
            return false;
        }
        match mark {
            Mark::SkipRemediation => {
                if self.skip != Skip::Of(of) {
                    self.wrong = Some(Wrong::ForeignTaken);
                }
                if breakage != Some(Breakage::MarkLeft) {
                    self.skip = Skip::Absent;
                }
            }
            Mark::Lease if self.lease.is_some_and(|(holder, _)| holder != of) => {
                self.wrong = Some(Wrong::ForeignTaken);
            }
            Mark::Lease if breakage != Some(Breakage::LeaseLeft) => self.lease = None,
            Mark::LocatorLED => {
                let side = &mut self.sides[of];
                if breakage != Some(Breakage::LedLeft) {
                    side.led = None;
                }
                (side.lit, side.out) = (None, true);
            }
            Mark::Lease | Mark::Remediation => {}
        }
        true
    }
}
