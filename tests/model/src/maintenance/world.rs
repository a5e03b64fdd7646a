//! The maintenance, its marks, its remediation, and what happens to them.

use rackhand_core::maintenance::{
    LeaseMark, LedMark, MachineMark, MaintenanceAction, MaintenanceDecision, MaintenanceFacts,
    MaintenancePhase, MaintenanceRecord, Mark, RemediationSeen, Stage, Wanted, decide,
};

use super::Breakage;
use crate::time::after;

/// Seconds of a step of time: a LED that is not renewed has then gone out, and a Lease has expired.
const STEP: u64 = 400;
/// Steps of time that are followed.
const STEPS: u8 = 2;
/// Evaluations within which it ends once it is to end and nothing fails.
const BOUND: usize = 24;

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
    /// The remediation began while a mark was missing.
    BegunUnmarked,
}

/// The remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Remediation {
    stage: Stage,
    deleting: bool,
}

/// Whose annotation is on the Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Skip {
    Absent,
    Ours,
    Theirs,
}

/// Everything that is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The steps of time that have passed.
    time: u8,
    /// Whether it has an end of its own, after one step of time.
    with_end: bool,
    marked_before: bool,
    /// The object; `None`: it is gone.
    object: Option<Object>,
    /// The record of what a maintenance that is gone has left, in the memory of the process.
    orphan: Option<MaintenanceRecord>,
    record: MaintenanceRecord,
    phase: MaintenancePhase,
    led_until: Option<u64>,
    remediation: Option<Remediation>,
    /// Whether the controller has seen a remediation that had begun.
    seen_begun: bool,
    /// Whether a remediation is gone that it has seen begin.
    had_begun: bool,
    skip: Skip,
    /// When our Lease was renewed last.
    lease: Option<u64>,
    /// Since when the LED is lit, and until when it stays lit by itself.
    led: Option<u64>,
    /// Memory of the process.
    lit: Option<u64>,
    out: bool,
    /// Faults that may still happen.
    pub(super) budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Object {
    deleting: bool,
    finalizer: bool,
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The controller decides, records and does everything.
    Turn,
    /// It ends after the record and this many actions.
    Crash(u8),
    /// One action of a turn fails: the one with this number.
    Fail(u8),
    /// The remediation goes on.
    Advance,
    /// The remediation ends without success, before or after the power-off.
    Abort,
    /// A person deletes the maintenance.
    End,
    /// A person deletes it without its finalizer.
    Force,
    /// A person deletes the remediation.
    Withdraw,
    /// Time passes.
    Time,
}

impl Action {
    pub(super) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Crash(_) | Self::Fail(_) | Self::Abort | Self::Force | Self::Withdraw
        )
    }
}

impl World {
    pub(super) fn new(with_end: bool, marked_before: bool, budget: u8) -> Self {
        Self {
            time: 0,
            with_end,
            marked_before,
            object: Some(Object {
                deleting: false,
                finalizer: false,
            }),
            orphan: None,
            record: MaintenanceRecord::default(),
            phase: MaintenancePhase::Pending,
            led_until: None,
            remediation: None,
            seen_begun: false,
            had_begun: false,
            skip: match marked_before {
                true => Skip::Theirs,
                false => Skip::Absent,
            },
            lease: None,
            led: None,
            lit: None,
            out: false,
            budget,
            wrong: None,
        }
    }

    pub(super) fn seconds(&self) -> u64 {
        u64::from(self.time) * STEP
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let mut all = vec![Action::Turn, Action::Advance];
        if self.object.is_some_and(|object| !object.deleting) {
            all.push(Action::End);
        }
        if self.time < STEPS {
            all.push(Action::Time);
        }
        if self.budget > 0 {
            all.extend((0..3).map(Action::Crash));
            all.extend((0..3).map(Action::Fail));
            all.push(Action::Abort);
            if self.object.is_some() {
                all.push(Action::Force);
            }
            if self.remediation.is_some() {
                all.push(Action::Withdraw);
            }
        }
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Turn => self.turn(breakage, usize::MAX, None),
            Action::Crash(done) => {
                self.turn(breakage, usize::from(done), None);
                (self.lit, self.out, self.orphan) = (None, false, None);
            }
            Action::Fail(which) => self.turn(breakage, usize::MAX, Some(usize::from(which))),
            Action::Advance => self.advance(breakage),
            Action::Abort => {
                if let Some(remediation) = &mut self.remediation
                    && remediation.stage == Stage::Evicting
                {
                    remediation.stage = Stage::Failed;
                }
            }
            Action::End => {
                if let Some(object) = &mut self.object {
                    object.deleting = true;
                    if !object.finalizer {
                        self.object = None;
                    }
                }
            }
            Action::Force => self.object = None,
            Action::Withdraw => {
                if let Some(remediation) = &mut self.remediation {
                    remediation.deleting = true;
                }
            }
            Action::Time => self.time = self.time.saturating_add(1),
        }
        self.judge();
    }

    /// The remediation goes on; a deleted one first brings the host back.
    fn advance(&mut self, breakage: Option<Breakage>) {
        let Some(remediation) = &mut self.remediation else {
            return;
        };
        let next = match (remediation.deleting, remediation.stage) {
            (
                true,
                Stage::Waiting | Stage::Ready | Stage::Recovered | Stage::Returning | Stage::Failed,
            ) => {
                self.had_begun |= self.seen_begun;
                self.remediation = None;
                return;
            }
            (true, _) => Stage::Returning,
            (false, Stage::Waiting) => Stage::Ready,
            // It begins only with every mark.
            (false, Stage::Ready)
                if self.record.marked || breakage == Some(Breakage::BegunUnmarked) =>
            {
                Stage::Evicting
            }
            (false, Stage::Evicting) => Stage::Working,
            (false, Stage::Working) => Stage::Parked,
            (false, stage) => stage,
        };
        let is_marked = self.skip != Skip::Absent && self.lease.is_some();
        if next == Stage::Evicting && remediation.stage != next && !is_marked {
            self.wrong = Some(Wrong::BegunUnmarked);
        }
        remediation.stage = next;
    }

    fn now(&self) -> jiff::Timestamp {
        after(self.seconds())
    }

    fn facts(&self, breakage: Option<Breakage>) -> Option<MaintenanceFacts> {
        let is_known = self.orphan.is_some() || breakage != Some(Breakage::OrphanIgnored);
        let begun = MaintenanceRecord {
            begun: true,
            ..MaintenanceRecord::default()
        };
        let (deleting, finalizer, record) = match self.object {
            Some(object) => (object.deleting, object.finalizer, self.record.clone()),
            // What is left shows that there was one.
            None if is_known
                && (self.remediation.is_some()
                    || self.skip == Skip::Ours
                    || self.orphan.is_some()) =>
            {
                (true, false, self.orphan.clone().unwrap_or(begun))
            }
            None => return None,
        };
        let taken = breakage == Some(Breakage::ForeignMarkTaken);
        Some(MaintenanceFacts {
            deleting,
            finalizer,
            wanted: Wanted {
                locator_led: true,
                until: self.with_end.then(|| after(STEP)),
                duration: None,
            },
            record,
            target: Ok(()),
            refused: None,
            remediation_name: "ns/maintenance-u".into(),
            remediation: match self.remediation {
                None => RemediationSeen::Absent,
                Some(_) if breakage == Some(Breakage::EndedWithoutPowerOn) && deleting => {
                    RemediationSeen::Absent
                }
                Some(remediation) => RemediationSeen::Present {
                    deleting: remediation.deleting,
                    stage: match (breakage, remediation.stage) {
                        (Some(Breakage::MarkedTooEarly), Stage::Waiting) => Stage::Evicting,
                        (_, stage) => stage,
                    },
                    outdated: false,
                    reason: "R".into(),
                    message: "m".into(),
                },
            },
            machine: match self.skip {
                Skip::Absent => MachineMark::Absent,
                Skip::Theirs if !taken => MachineMark::Theirs,
                Skip::Ours | Skip::Theirs => MachineMark::Ours,
            },
            lease: match self.lease {
                None => LeaseMark::Free,
                Some(renewed) => LeaseMark::Ours {
                    renewed: after(renewed),
                },
            },
            led: LedMark {
                lit: self.lit.map(after),
                until: self.led_until.map(after),
                out: self.out,
            },
            mark_refused: None,
            left_on_node: None,
        })
    }

    /// One evaluation: the record is written, then at most `most` actions are done; the one with the number `fails`
    /// is not.
    fn turn(&mut self, breakage: Option<Breakage>, most: usize, fails: Option<usize>) {
        let Some(facts) = self.facts(breakage) else {
            return;
        };
        let decision = decide(&facts, self.now());
        self.write(&decision, breakage);
        for (number, action) in decision.actions.iter().take(most).enumerate() {
            if fails != Some(number) {
                self.carry_out(*action, breakage);
            }
        }
        if self.object.is_none() && decision.record.over {
            self.orphan = None;
        }
    }

    fn write(&mut self, decision: &MaintenanceDecision, breakage: Option<Breakage>) {
        let seconds =
            |at: jiff::Timestamp| u64::try_from(at.duration_since(after(0)).as_secs()).unwrap_or(0);
        self.led_until = decision.led_until.map(seconds);
        let mut record = decision.record.clone();
        self.seen_begun |= record.begun;
        if breakage == Some(Breakage::BeginsAgain) {
            (record.begun, record.ending) = (false, None);
        }
        if self.object.is_some() {
            self.phase = decision.phase;
            self.record = record;
        } else {
            self.orphan = Some(record);
        }
    }

    fn carry_out(&mut self, action: MaintenanceAction, breakage: Option<Breakage>) {
        let now = self.seconds();
        match action {
            MaintenanceAction::AddFinalizer => {
                if let Some(object) = &mut self.object {
                    object.finalizer = true;
                }
            }
            MaintenanceAction::RemoveFinalizer => {
                if let Some(object) = &mut self.object {
                    object.finalizer = false;
                    if object.deleting {
                        self.object = None;
                    }
                }
            }
            MaintenanceAction::CreateRemediation => {
                if self.had_begun {
                    self.wrong = Some(Wrong::BegunAgain);
                }
                self.remediation.get_or_insert(Remediation {
                    stage: Stage::Waiting,
                    deleting: false,
                });
            }
            MaintenanceAction::DeleteRemediation => {
                if let Some(remediation) = &mut self.remediation {
                    remediation.deleting = true;
                }
            }
            MaintenanceAction::UpdateRemediation => {}
            MaintenanceAction::Set(mark) => {
                let waits = self.remediation.is_some_and(|r| r.stage == Stage::Waiting);
                if waits {
                    self.wrong = Some(Wrong::MarkedTooEarly);
                }
                match mark {
                    Mark::SkipRemediation => self.skip = Skip::Ours,
                    Mark::Lease => self.lease = Some(now),
                    Mark::LocatorLED => {
                        (self.led, self.lit, self.out) = (Some(now), Some(now), false);
                    }
                    Mark::Remediation => {}
                }
            }
            MaintenanceAction::TakeBack(Mark::SkipRemediation) => {
                if self.skip == Skip::Theirs {
                    self.wrong = Some(Wrong::ForeignTaken);
                }
                if breakage != Some(Breakage::MarkLeft) {
                    self.skip = Skip::Absent;
                }
            }
            MaintenanceAction::TakeBack(Mark::Lease) if breakage != Some(Breakage::LeaseLeft) => {
                self.lease = None;
            }
            MaintenanceAction::TakeBack(Mark::LocatorLED) => {
                if breakage != Some(Breakage::LedLeft) {
                    self.led = None;
                }
                (self.lit, self.out) = (None, true);
            }
            MaintenanceAction::TakeBack(_) => {}
        }
    }

    /// What is left that neither goes by itself nor is looked for any more.
    fn is_left(&self, breakage: Option<Breakage>) -> bool {
        let now = self.seconds();
        // A LED goes out by itself, and a Lease expires.
        let is_lit = self.led.is_some_and(|lit| now < lit.saturating_add(STEP));
        let is_held = self
            .lease
            .is_some_and(|renewed| now < renewed.saturating_add(STEP));
        let stays_lit = self.led.is_some() && breakage == Some(Breakage::LedLeft);
        self.remediation.is_some() || self.skip == Skip::Ours || is_lit || is_held || stays_lit
    }

    /// Whether the object is a record, or gone, and nobody works for it.
    pub(super) fn is_over(&self) -> bool {
        match self.object {
            Some(object) => self.phase.is_over() && !object.finalizer,
            None => self.orphan.is_none(),
        }
    }

    fn judge(&mut self) {
        // One that was deleted without its finalizer is found by what it has left.
        let is_record = self.object.is_some() && self.is_over();
        if self.wrong.is_none() && is_record && self.is_left(None) {
            self.wrong = Some(Wrong::Left);
        }
        if self.wrong.is_none() && self.marked_before && self.skip == Skip::Absent {
            self.wrong = Some(Wrong::ForeignTaken);
        }
    }

    pub(super) fn is_parked_with_all(&self) -> bool {
        self.phase == MaintenancePhase::Parked
            && self.skip == Skip::Ours
            && self.lease.is_some()
            && self.led.is_some()
    }

    /// Whether it ends from here, if it is to end and nothing fails any more.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        if let Some(object) = &mut world.object {
            object.deleting = true;
        }
        if world.object.is_some_and(|object| !object.finalizer) {
            world.object = None;
        }
        for _ in 0..BOUND {
            world.turn(breakage, usize::MAX, None);
            world.advance(breakage);
        }
        world.wrong.is_some() || {
            // What expires by itself has done so by then, where nobody is there to end it.
            let gone =
                world.object.is_none() && world.remediation.is_none() && world.skip != Skip::Ours;
            let lit = world.led.is_some() && breakage == Some(Breakage::LedLeft);
            let leased = world.lease.is_some() && breakage == Some(Breakage::LeaseLeft);
            gone && !lit && !leased
        }
    }
}
