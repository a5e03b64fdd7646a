//! One of the maintenances of a host: its object, its remediation, and the turns of the controller for it.

use jiff::Timestamp;
use rackhand_core::maintenance::{
    ChecksDo, Claim, Earlier, Ends, FailedMarks, LEASE_LASTS, LeaseMark, LedMark, Leftovers,
    MachineMark, MaintenanceAction, MaintenanceDecision, MaintenanceFacts, MaintenancePhase,
    MaintenanceReason, MaintenanceRecord, Mark, Place, RemediationSeen, Stage, Wanted, checks_do,
    decide, earlier, machine_mark, skip_value,
};

use super::{
    Breakage, World, Wrong,
    world::{STEP, Skip},
};
use crate::time::after;

/// The remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Remediation {
    pub(super) stage: Stage,
    pub(super) deleting: bool,
    /// Whether it had begun and waits again.
    pub(super) is_again: bool,
}

/// The object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) deleting: bool,
    pub(super) finalizer: bool,
}

/// A maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Side {
    /// Whether it has an end of its own, after one step of time.
    with_end: bool,
    /// Whether its host is known.
    pub(super) is_resolved: bool,
    /// The object; `None`: it is gone.
    pub(super) object: Option<Object>,
    /// The record of what a maintenance that is gone has left, in the memory of the process.
    orphan: Option<MaintenanceRecord>,
    pub(super) record: MaintenanceRecord,
    pub(super) phase: MaintenancePhase,
    reason: MaintenanceReason,
    pub(super) in_place: Vec<Mark>,
    led_until: Option<u64>,
    pub(super) remediation: Option<Remediation>,
    /// Whether the controller has seen a remediation that had begun.
    pub(super) seen_begun: bool,
    /// Whether a person has deleted its remediation.
    pub(super) withdrawn: bool,
    /// Whether a remediation is gone that it has seen begin.
    pub(super) had_begun: bool,
    /// Whether a remediation is gone whose cordon is on the Node.
    pub(super) left: bool,
    /// Since when the LED is lit.
    pub(super) led: Option<u64>,
    /// Memory of the process: the LED, and the marks that could not be taken back.
    pub(super) lit: Option<u64>,
    pub(super) out: bool,
    failed: Vec<Mark>,
    /// Whether the last turn was told of such a mark.
    was_told: bool,
}

impl Side {
    pub(super) fn new(with_end: bool) -> Self {
        Self {
            with_end,
            is_resolved: true,
            object: Some(Object {
                deleting: false,
                finalizer: false,
            }),
            orphan: None,
            record: MaintenanceRecord::default(),
            phase: MaintenancePhase::Pending,
            reason: MaintenanceReason::Started,
            in_place: Vec::new(),
            led_until: None,
            remediation: None,
            seen_begun: false,
            withdrawn: false,
            had_begun: false,
            left: false,
            led: None,
            lit: None,
            out: false,
            failed: Vec::new(),
            was_told: false,
        }
    }

    /// The process ends.
    pub(super) fn forget(&mut self) {
        (self.lit, self.out, self.orphan) = (None, false, None);
        self.failed.clear();
        self.was_told = false;
    }

    pub(super) fn end(&mut self) {
        if let Some(object) = &mut self.object {
            object.deleting = true;
            if !object.finalizer {
                self.object = None;
            }
        }
    }

    /// The remediation is gone at once, with its finalizer; its cordon stays.
    pub(super) fn strip(&mut self) {
        let Some(remediation) = self.remediation.take() else {
            return;
        };
        self.had_begun |= self.seen_begun;
        self.left |= matches!(
            remediation.stage,
            Stage::Evicting | Stage::Working | Stage::Parked | Stage::Returning
        );
    }

    /// Whether it is a record, or gone, and nobody works for it.
    pub(super) fn is_over(&self) -> bool {
        match self.object {
            Some(object) => self.phase.is_over() && !object.finalizer,
            None => self.orphan.is_none(),
        }
    }

    pub(super) fn says_what_is_left(&self) -> bool {
        self.reason == MaintenanceReason::MarkLeft
    }

    /// Whether the last turn knew that a mark could not be taken back which it wants to take back, and said nothing.
    pub(super) fn says_nothing_of_a_failure(&self) -> bool {
        self.was_told && !self.says_what_is_left()
    }

    /// Whether it is said that health checks act as ever.
    pub(super) fn is_said_to_be_unmarked(&self, breakage: Option<Breakage>) -> bool {
        let in_place: &[Mark] = match breakage {
            Some(Breakage::MarksUnsaid) => &[],
            _ => &self.in_place,
        };
        let reason = Some(self.reason.label());
        let said = checks_do(self.phase, reason, self.record.marked, in_place);
        matches!(said, ChecksDo::Act | ChecksDo::ActUntilItBegins)
    }

    /// Whether it is there, not over, and has begun or may have set a mark.
    pub(super) fn has_its_turn(&self) -> bool {
        self.object.is_some() && !self.phase.is_over() && self.has_something_in_place()
    }

    fn has_something_in_place(&self) -> bool {
        self.record.begun || self.record.marked || self.in_place.iter().any(|mark| mark.is_heeded())
    }
}

fn name(of: usize) -> String {
    format!("ns/m{of}")
}

fn uid(of: usize) -> String {
    format!("u{of}")
}

impl World {
    fn now(&self) -> Timestamp {
        after(self.seconds())
    }

    /// The maintenance whose turn comes before.
    fn earlier(&self, of: usize, breakage: Option<Breakage>) -> Option<Earlier> {
        let claim = |(number, side): (usize, &Side)| {
            let is_there = side.object.is_some() && !side.phase.is_over();
            let host = Some("r/h".to_owned()).filter(|_| side.is_resolved);
            // They name the host differently, and are resolved to the same one.
            let is_by_name = breakage == Some(Breakage::OrderByName);
            let place = Place {
                host: host.filter(|_| !is_by_name),
                machine: (number > 0 && side.is_resolved).then(|| "ns/m".to_owned()),
                ..Place::default()
            };
            is_there.then(|| Claim {
                name: name(number),
                uid: uid(number),
                created: after(u64::try_from(number).unwrap_or_default()),
                has_begun: side.has_something_in_place()
                    && breakage != Some(Breakage::BegunOvertaken),
                ends: Ends::ByDeletion,
                place,
            })
        };
        let claims: Vec<Claim> = self.sides.iter().enumerate().filter_map(claim).collect();
        earlier(&uid(of), &claims)
    }

    fn machine(&self, of: usize, breakage: Option<Breakage>) -> MachineMark {
        if self.machine_gone {
            return match self.sides[of].remediation {
                Some(_) => MachineMark::Gone {
                    machine: "ns/m".into(),
                },
                None => MachineMark::NoMachine,
            };
        }
        let by = match self.skip {
            Skip::Of(by) => Some(by),
            Skip::Absent | Skip::Theirs => None,
        };
        let (owner, skip) = (by.map(uid), by.map(|by| skip_value(&name(by))));
        let theirs = Some("mine".to_owned()).filter(|_| self.skip == Skip::Theirs);
        let skip = skip.or(theirs);
        let own = (name(of), uid(of));
        let mark = machine_mark(skip.as_deref(), owner.as_deref(), (&own.0, &own.1));
        match (breakage, mark) {
            (Some(Breakage::ForeignMarkTaken), MachineMark::Theirs) => MachineMark::Ours,
            (Some(Breakage::MarkOfAnotherUsed), MachineMark::OfAnother { .. }) => {
                MachineMark::Theirs
            }
            (_, mark) => mark,
        }
    }

    /// The Lease as the controller sees it. Where the Nodes of its own cluster are not read, it does not know whether the
    /// Lease counts, unless the status lists it.
    fn lease_mark(&self, of: usize, breakage: Option<Breakage>) -> LeaseMark {
        let until = |renewed: u64| after(renewed + LEASE_LASTS.as_secs());
        let side = &self.sides[of];
        let is_listed = side.object.is_none() || side.in_place.contains(&Mark::Lease);
        match (self.unread, breakage) {
            _ if !self.leases || is_listed => {}
            (Some(_), Some(Breakage::UnreadUnused)) => return LeaseMark::NotUsed,
            (Some(since), _) => {
                return LeaseMark::Unread {
                    why: "no watch".into(),
                    expires: until(since),
                };
            }
            (None, _) => {}
        }
        match self.lease {
            _ if !self.leases => LeaseMark::NotUsed,
            Some((holder, renewed)) if holder == of => LeaseMark::Ours {
                renewed: after(renewed),
            },
            Some((holder, renewed)) if self.now() <= until(renewed) => LeaseMark::Theirs {
                holder: name(holder),
                until: until(renewed),
            },
            Some(_) | None => LeaseMark::Free,
        }
    }

    fn facts(&self, of: usize, breakage: Option<Breakage>) -> Option<MaintenanceFacts> {
        let side = &self.sides[of];
        let is_known = side.orphan.is_some() || breakage != Some(Breakage::OrphanIgnored);
        let begun = MaintenanceRecord {
            begun: true,
            ..MaintenanceRecord::default()
        };
        let (deleting, finalizer, record) = match side.object {
            Some(object) => (object.deleting, object.finalizer, side.record.clone()),
            // What is left shows that there was one.
            None if is_known
                && (side.remediation.is_some()
                    || self.skip == Skip::Of(of)
                    || side.orphan.is_some()) =>
            {
                (true, false, side.orphan.clone().unwrap_or(begun))
            }
            None => return None,
        };
        let failed = match breakage {
            Some(Breakage::FailureForgotten) => &[],
            _ => &side.failed[..],
        };
        let is_left = side.left
            && side.object.is_some()
            && side.remediation.is_none()
            && breakage != Some(Breakage::CordonIgnored);
        Some(MaintenanceFacts {
            deleting,
            finalizer,
            wanted: Wanted {
                locator_led: self.sides.len() == 1,
                until: side.with_end.then(|| after(STEP)),
                duration: None,
            },
            record,
            target: match side.is_resolved && !self.machine_gone {
                true => Ok(()),
                false => Err("there is no Machine".into()),
            },
            earlier: self.earlier(of, breakage),
            refused: None,
            remediation_name: format!("ns/maintenance-{}", uid(of)),
            remediation: match side.remediation {
                None => RemediationSeen::Absent,
                Some(_) if breakage == Some(Breakage::EndedWithoutPowerOn) && deleting => {
                    RemediationSeen::Absent
                }
                Some(remediation) => RemediationSeen::Present {
                    deleting: remediation.deleting,
                    stage: match (breakage, remediation.stage) {
                        (Some(Breakage::MarkedTooEarly), Stage::Waiting) => Stage::Evicting,
                        (Some(Breakage::AgainUnseen), Stage::Waiting) if remediation.is_again => {
                            Stage::Working
                        }
                        (_, stage) => stage,
                    },
                    outdated: false,
                    blocked: false,
                    reason: "R".into(),
                    message: "m".into(),
                },
            },
            machine: self.machine(of, breakage),
            lease: self.lease_mark(of, breakage),
            led: LedMark {
                lit: side.lit.map(after),
                until: side.led_until.map(after),
                out: side.out,
            },
            failed_marks: FailedMarks {
                take_back: failed.iter().map(|mark| (*mark, "no".into())).collect(),
                ..FailedMarks::default()
            },
            leftovers: Leftovers {
                cordon: is_left,
                ..Leftovers::default()
            },
        })
    }

    /// One evaluation: the record is written, then at most `most` actions are done; the one with the number `fails`
    /// is not.
    pub(super) fn turn(
        &mut self,
        of: usize,
        breakage: Option<Breakage>,
        most: usize,
        fails: Option<usize>,
    ) {
        let Some(facts) = self.facts(of, breakage) else {
            return;
        };
        let mut decision = decide(&facts, self.now());
        for renewal in self.take_renewals(of, &mut decision, breakage) {
            self.carry_out(of, renewal, breakage);
        }
        self.write(of, &decision, breakage);
        for (number, action) in decision.actions.iter().take(most).enumerate() {
            if fails != Some(number) {
                self.carry_out(of, *action, breakage);
            }
        }
        let side = &mut self.sides[of];
        if side.object.is_none() && decision.record.over {
            side.orphan = None;
        }
    }

    /// One evaluation whose record is not written: only what is recorded already is renewed.
    pub(super) fn turn_unwritten(&mut self, of: usize, breakage: Option<Breakage>) {
        let Some(facts) = self.facts(of, breakage) else {
            return;
        };
        let mut decision = decide(&facts, self.now());
        for renewal in self.take_renewals(of, &mut decision, breakage) {
            self.carry_out(of, renewal, breakage);
        }
    }

    /// What is done before the record is written.
    fn take_renewals(
        &self,
        of: usize,
        decision: &mut MaintenanceDecision,
        breakage: Option<Breakage>,
    ) -> Vec<MaintenanceAction> {
        let recorded: &[Mark] = match breakage {
            Some(Breakage::SetUnrecorded) => &[Mark::SkipRemediation, Mark::Lease],
            _ => &self.sides[of].in_place,
        };
        decision.take_renewals(recorded)
    }

    fn write(&mut self, of: usize, decision: &MaintenanceDecision, breakage: Option<Breakage>) {
        let seconds =
            |at: Timestamp| u64::try_from(at.duration_since(after(0)).as_secs()).unwrap_or(0);
        let side = &mut self.sides[of];
        side.led_until = decision.led_until.map(seconds);
        let mut record = decision.record.clone();
        side.seen_begun |= record.begun;
        if breakage == Some(Breakage::BeginsAgain) {
            (record.begun, record.ending) = (false, None);
        }
        let wants_back = |mark: &Mark| {
            let action = MaintenanceAction::TakeBack(*mark);
            decision.actions.contains(&action)
        };
        side.was_told = side.failed.iter().any(wants_back);
        if side.object.is_some() {
            side.phase = decision.phase;
            side.reason = decision.reason;
            side.in_place.clone_from(&decision.in_place);
            side.record = record;
        } else {
            side.orphan = Some(record);
        }
    }

    fn carry_out(&mut self, of: usize, action: MaintenanceAction, breakage: Option<Breakage>) {
        let side = &mut self.sides[of];
        match action {
            MaintenanceAction::AddFinalizer => {
                if let Some(object) = &mut side.object {
                    object.finalizer = true;
                }
            }
            MaintenanceAction::RemoveFinalizer => {
                if let Some(object) = &mut side.object {
                    object.finalizer = false;
                    if object.deleting {
                        side.object = None;
                    }
                }
            }
            MaintenanceAction::CreateRemediation => {
                if side.had_begun {
                    self.wrong = Some(Wrong::BegunAgain);
                }
                side.remediation.get_or_insert(Remediation {
                    stage: Stage::Waiting,
                    deleting: false,
                    is_again: false,
                });
            }
            MaintenanceAction::DeleteRemediation => {
                if let Some(remediation) = &mut side.remediation {
                    remediation.deleting = true;
                }
            }
            MaintenanceAction::UpdateRemediation => {}
            MaintenanceAction::Set(mark) => self.set(of, mark),
            MaintenanceAction::TakeBack(mark) => {
                let is_done = self.take_back(of, mark, breakage);
                let failed = &mut self.sides[of].failed;
                failed.retain(|other| *other != mark);
                if !is_done {
                    failed.push(mark);
                    failed.sort_unstable();
                }
            }
        }
    }
}
