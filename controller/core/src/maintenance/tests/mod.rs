//! The life of a maintenance, step by step, and from every point of it back to nothing.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Earlier, Ends, FailedMarks, ForeignCheck, LEASE_LASTS, LED_LIT_FOR, LeaseMark, LedMark,
    Leftovers, MachineMark, MaintenanceAction as A, MaintenanceFacts, MaintenancePhase as P,
    MaintenanceReason as R, MaintenanceTarget, Mark, RemediationSeen, Stage, TargetError, Wanted,
    decide, refused_by_check,
};

mod marks;
mod messages;
mod turns;
mod waits_again;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A maintenance that may begin.
fn facts() -> MaintenanceFacts {
    MaintenanceFacts {
        deleting: false,
        finalizer: true,
        wanted: Wanted {
            locator_led: true,
            ..Wanted::default()
        },
        record: super::MaintenanceRecord::default(),
        target: Ok(()),
        refused: None,
        remediation_name: "ns/maintenance-u".into(),
        remediation: RemediationSeen::Absent,
        machine: MachineMark::Absent,
        lease: LeaseMark::Free,
        led: LedMark::default(),
        earlier: None,
        failed_marks: FailedMarks::default(),
        leftovers: Leftovers::default(),
    }
}

fn unread_lease(expires: i64) -> LeaseMark {
    LeaseMark::Unread {
        why: "403".into(),
        expires: at(expires),
    }
}

fn seen(stage: Stage, deleting: bool) -> RemediationSeen {
    RemediationSeen::Present {
        deleting,
        stage,
        outdated: false,
        blocked: false,
        reason: "Because".into(),
        message: "it does".into(),
    }
}

/// A world in which every action works at once.
struct World {
    f: MaintenanceFacts,
    led_is_lit: bool,
    phases: Vec<P>,
}

impl World {
    fn new(f: MaintenanceFacts) -> Self {
        Self {
            f,
            led_is_lit: false,
            phases: Vec::new(),
        }
    }

    fn turn(&mut self, second: i64) -> Vec<A> {
        let now = at(second);
        let d = decide(&self.f, now);
        if self.phases.last() != Some(&d.phase) {
            self.phases.push(d.phase);
        }
        self.f.record = d.record;
        self.f.led.until = d.led_until;
        for action in &d.actions {
            match action {
                A::AddFinalizer => self.f.finalizer = true,
                A::RemoveFinalizer => self.f.finalizer = false,
                A::CreateRemediation => self.f.remediation = seen(Stage::Waiting, false),
                A::DeleteRemediation => {
                    if let RemediationSeen::Present { deleting, .. } = &mut self.f.remediation {
                        *deleting = true;
                    }
                }
                A::UpdateRemediation => {
                    if let RemediationSeen::Present { outdated, .. } = &mut self.f.remediation {
                        *outdated = false;
                    }
                }
                A::Set(Mark::SkipRemediation) => self.f.machine = MachineMark::Ours,
                A::TakeBack(Mark::SkipRemediation) => self.f.machine = MachineMark::Absent,
                A::Set(Mark::Lease) => self.f.lease = LeaseMark::Ours { renewed: now },
                A::TakeBack(Mark::Lease) => self.f.lease = LeaseMark::Free,
                A::Set(Mark::LocatorLED) => {
                    self.led_is_lit = true;
                    self.f.led.lit = Some(now);
                    self.f.led.out = false;
                }
                A::TakeBack(Mark::LocatorLED) => {
                    self.led_is_lit = false;
                    self.f.led.out = true;
                    self.f.led.lit = None;
                }
                A::Set(Mark::Remediation) | A::TakeBack(Mark::Remediation) => {
                    panic!("the remediation has actions of its own")
                }
            }
        }
        d.actions
    }

    fn left(&self) -> Vec<&'static str> {
        let mut left = Vec::new();
        if self.f.remediation != RemediationSeen::Absent {
            left.push("remediation");
        }
        if self.f.machine == MachineMark::Ours {
            left.push("annotation");
        }
        if matches!(self.f.lease, LeaseMark::Ours { .. }) {
            left.push("lease");
        }
        if self.led_is_lit {
            left.push("led");
        }
        if self.f.finalizer {
            left.push("finalizer");
        }
        left
    }
}

#[test]
fn maintenance_parks_a_host_and_takes_everything_back() {
    let mut w = World::new(facts());
    w.f.finalizer = false;
    assert_eq!(w.turn(0), [A::AddFinalizer]);
    assert_eq!(w.turn(1), [A::CreateRemediation]);
    assert!(w.turn(2).is_empty(), "no mark while it waits");
    assert!(!w.phases.iter().any(|phase| phase.spares_host()));
    w.f.remediation = seen(Stage::Ready, false);
    assert_eq!(
        w.turn(3),
        [A::Set(Mark::SkipRemediation), A::Set(Mark::Lease)]
    );
    assert!(!w.f.record.marked, "said only once they were seen");
    assert!(w.turn(3).is_empty() && w.f.record.marked && !w.f.record.begun);
    w.f.remediation = seen(Stage::Evicting, false);
    assert!(w.turn(3).is_empty() && w.f.record.begun);
    w.f.remediation = seen(Stage::Working, false);
    assert!(w.turn(4).is_empty());
    w.f.remediation = seen(Stage::Parked, false);
    assert_eq!(w.turn(5), [A::Set(Mark::LocatorLED)]);
    assert!(w.turn(6).is_empty(), "renewed only when it is due");
    assert_eq!(w.turn(85), [A::Set(Mark::LocatorLED)]);
    assert_eq!(w.turn(110), [A::Set(Mark::Lease)]);
    w.f.deleting = true;
    assert_eq!(w.turn(120), [A::DeleteRemediation]);
    w.f.remediation = seen(Stage::Returning, true);
    assert!(
        w.turn(121).is_empty(),
        "the marks stay while the host boots"
    );
    w.f.remediation = RemediationSeen::Absent;
    let back = [Mark::SkipRemediation, Mark::Lease, Mark::LocatorLED].map(A::TakeBack);
    assert_eq!(w.turn(122), back);
    assert_eq!(w.turn(123), [A::RemoveFinalizer]);
    assert!(w.left().is_empty(), "{:?}", w.left());
    let way = [
        P::Pending,
        P::Evicting,
        P::PoweringOff,
        P::Parked,
        P::Ending,
        P::Ended,
    ];
    assert_eq!(w.phases, way);
}

#[test]
fn f9_maintenance_that_ends_at_any_point_leaves_nothing() {
    let way = [
        Stage::Waiting,
        Stage::Evicting,
        Stage::Working,
        Stage::Parked,
    ];
    for stop in 0..=way.len() {
        for by_time in [false, true] {
            let mut w = World::new(facts());
            w.f.finalizer = false;
            w.turn(0);
            w.turn(1);
            for (step, stage) in (2..).zip(way.iter().take(stop)) {
                w.f.remediation = seen(*stage, false);
                w.turn(step);
            }
            if by_time {
                w.f.wanted.until = Some(at(50));
            } else {
                w.f.deleting = true;
            }
            w.turn(60);
            if w.f.remediation != RemediationSeen::Absent {
                w.f.remediation = RemediationSeen::Absent;
            }
            w.turn(61);
            w.turn(62);
            assert!(w.left().is_empty(), "{stop} {by_time}: {:?}", w.left());
            assert_eq!(w.phases.last(), Some(&P::Ended));
            // It does not begin again.
            assert!(w.turn(63).is_empty());
        }
    }
}

#[test]
fn f9_marks_of_others_stay() {
    let mut f = facts();
    f.machine = MachineMark::Theirs;
    f.lease = LeaseMark::NotUsed;
    f.record.begun = true;
    f.remediation = seen(Stage::Working, false);
    assert!(decide(&f, at(0)).actions.is_empty());
    f.deleting = true;
    f.remediation = RemediationSeen::Absent;
    assert_eq!(decide(&f, at(1)).actions, [A::RemoveFinalizer]);
}

#[test]
fn health_checks_are_told_only_once_something_has_begun() {
    let mut f = facts();
    f.remediation = seen(Stage::Waiting, false);
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::RemediationWaits));
    assert!(d.message.contains("it does"), "{}", d.message);
    assert!(!d.phase.spares_host() && d.actions.is_empty());
    f.remediation = seen(Stage::Working, false);
    assert!(decide(&f, at(1)).phase.spares_host());
}

#[test]
fn maintenance_waits_for_what_would_act_on_its_host() {
    let reason = |change: fn(&mut MaintenanceFacts)| {
        let mut f = facts();
        change(&mut f);
        let d = decide(&f, at(0));
        assert!(d.actions.is_empty() && d.phase == P::Pending);
        d.reason
    };
    assert_eq!(
        reason(|f| f.target = Err("there is no Node n".into())),
        R::TargetNotFound
    );
    assert_eq!(
        reason(|f| f.refused = Some("the check".into())),
        R::CheckWouldAct
    );
    let theirs = |f: &mut MaintenanceFacts| {
        f.lease = LeaseMark::Theirs {
            holder: "node-maintenance".into(),
            until: at(300),
        };
    };
    assert_eq!(reason(theirs), R::NodeLeaseHeld);
    let unread = |f: &mut MaintenanceFacts| f.lease = unread_lease(300);
    assert_eq!(reason(unread), R::NodeLeaseHeld);
}

#[test]
fn f11_remediation_that_ended_before_it_began_is_made_anew() {
    let mut f = facts();
    f.remediation = seen(Stage::Recovered, false);
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::MadeAnew));
    assert_eq!(d.actions, [A::DeleteRemediation]);
    f.remediation = seen(Stage::Recovered, true);
    assert!(decide(&f, at(1)).actions.is_empty());
    f.remediation = RemediationSeen::Absent;
    assert_eq!(decide(&f, at(2)).actions, [A::CreateRemediation]);
}

#[test]
fn deleting_the_remediation_ends_the_maintenance_for_good() {
    let mut w = World::new(facts());
    w.f.remediation = seen(Stage::Parked, false);
    w.turn(0);
    w.f.remediation = seen(Stage::Parked, true);
    w.turn(1);
    assert_eq!(w.f.record.ending, Some(R::RemediationDeleted));
    w.f.remediation = RemediationSeen::Absent;
    w.turn(2);
    w.turn(3);
    assert!(w.left().is_empty(), "{:?}", w.left());
    assert!(w.turn(4).is_empty(), "it is not made again");
}

fn gone() -> MachineMark {
    MachineMark::Gone {
        machine: "ns/m1".into(),
    }
}

#[test]
fn machine_that_is_deleted_ends_nothing_and_is_said() {
    for stage in [
        Stage::Evicting,
        Stage::Working,
        Stage::Parked,
        Stage::Emptied,
    ] {
        let mut w = World::new(facts());
        w.f.wanted.locator_led = false;
        w.f.remediation = seen(stage, false);
        (w.f.machine, w.f.lease) = (MachineMark::Ours, LeaseMark::Ours { renewed: at(0) });
        assert!(w.turn(0).is_empty());
        let phase = w.phases.clone();
        w.f.machine = gone();
        assert!(w.turn(1).is_empty(), "{stage:?}");
        assert_eq!(w.phases, phase, "{stage:?}");
        assert!(w.f.record.marked && w.f.record.ending.is_none());
        let d = decide(&w.f, at(2));
        for part in ["Machine ns/m1 is gone", "switched on", "deprovisioned"] {
            assert!(d.message.contains(part), "{}", d.message);
        }
        let warned: Vec<&str> = d.warnings.iter().map(|w| &*w.reason).collect();
        assert_eq!(warned, ["MachineGone"], "{stage:?}");
        w.f.deleting = true;
        assert_eq!(w.turn(3), [A::DeleteRemediation]);
        w.f.remediation = RemediationSeen::Absent;
        assert_eq!(w.turn(4), [A::TakeBack(Mark::Lease)]);
        assert_eq!(w.turn(5), [A::RemoveFinalizer]);
        assert!(w.left().is_empty(), "{:?}", w.left());
    }
}

#[test]
fn remediation_that_has_not_begun_does_not_wait_for_a_machine_that_is_gone() {
    for stage in [Stage::Waiting, Stage::Ready] {
        let mut f = facts();
        f.remediation = seen(stage, false);
        (f.machine, f.lease) = (gone(), LeaseMark::NotUsed);
        let d = decide(&f, at(0));
        assert_eq!((d.phase, d.reason), (P::Pending, R::TargetNotFound));
        assert_eq!(d.actions, [A::DeleteRemediation]);
        assert!(!d.record.marked && d.message.contains("ns/m1"));
        f.remediation = seen(stage, true);
        assert!(decide(&f, at(1)).actions.is_empty());
    }
}

#[test]
fn failed_remediation_fails_the_maintenance_and_leaves_nothing() {
    let mut w = World::new(facts());
    w.f.remediation = seen(Stage::Evicting, false);
    w.turn(0);
    w.f.remediation = seen(Stage::Failed, false);
    assert_eq!(w.turn(1), [A::DeleteRemediation]);
    w.f.remediation = RemediationSeen::Absent;
    w.turn(2);
    w.turn(3);
    assert_eq!(w.phases.last(), Some(&P::Failed));
    assert!(w.left().is_empty(), "{:?}", w.left());
    let told = decide(&w.f, at(4)).message;
    assert!(told.contains("it does"), "{told}");
}

#[test]
fn time_counts_from_the_moment_the_host_can_be_worked_on() {
    let mut w = World::new(facts());
    w.f.wanted.duration = Some(Duration::from_secs(100));
    w.f.remediation = seen(Stage::Waiting, false);
    w.turn(0);
    w.turn(1000);
    assert_eq!(
        w.phases,
        [P::Pending],
        "the time that it waits does not count"
    );
    w.f.remediation = seen(Stage::Parked, false);
    w.turn(1100);
    assert!(!w.turn(1199).contains(&A::DeleteRemediation));
    assert!(w.turn(1200).contains(&A::DeleteRemediation));
    let mut late = facts();
    late.wanted.until = Some(at(5));
    let d = decide(&late, at(6));
    assert_eq!((d.phase, d.reason), (P::Ended, R::TimeOver));
    assert!(d.message.contains("it had not begun"), "{}", d.message);
}

#[test]
fn f12_nothing_is_taken_back_while_the_remediation_cannot_be_read() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.machine = MachineMark::Ours;
    f.remediation = RemediationSeen::Unknown { why: "503".into() };
    let d = decide(&f, at(0));
    assert!(d.actions.is_empty());
    assert_eq!(d.phase, P::Ending);
    // What cannot be read may be there, and is looked for again.
    assert_eq!(d.in_place, [Mark::Remediation, Mark::SkipRemediation]);
    f.deleting = false;
    f.record.begun = false;
    assert!(decide(&f, at(0)).in_place.contains(&Mark::Remediation));
}

#[test]
fn led_that_cannot_be_put_out_ends_nothing_later_than_its_own_time() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.led.until = Some(at(100));
    assert_eq!(decide(&f, at(99)).actions, [A::TakeBack(Mark::LocatorLED)]);
    assert_eq!(decide(&f, at(100)).actions, [A::RemoveFinalizer]);
}

#[test]
fn renewals_come_in_time() {
    let mut f = facts();
    f.remediation = seen(Stage::Parked, false);
    f.wanted.locator_led = true;
    f.machine = MachineMark::Ours;
    f.lease = LeaseMark::Ours { renewed: at(0) };
    f.led.lit = Some(at(0));
    let all = decide(&f, at(100)).actions;
    assert_eq!(all, [A::Set(Mark::Lease), A::Set(Mark::LocatorLED)]);
    assert!(LED_LIT_FOR > Duration::from_secs(160) && LEASE_LASTS > Duration::from_secs(200));
}

#[test]
fn only_a_check_of_another_controller_without_our_template_refuses() {
    let check = |paused, ours, evaluated| ForeignCheck {
        name: "MachineHealthCheck ns/c".into(),
        paused,
        uses_our_template: ours,
        evaluated_by_us: evaluated,
    };
    let harmless = [
        check(true, false, false),
        check(false, true, false),
        check(false, false, true),
    ];
    assert_eq!(refused_by_check(&harmless), None);
    let acting = check(false, false, false);
    assert_eq!(
        refused_by_check(std::slice::from_ref(&acting)),
        Some(&acting)
    );
}

#[test]
fn spec_names_exactly_one_target() {
    let of = MaintenanceTarget::of;
    assert_eq!(
        of(None, None, Some("r/h")),
        Ok(MaintenanceTarget::Host {
            rack: "r".into(),
            host: "h".into()
        })
    );
    assert_eq!(of(None, None, Some("h")), Err(TargetError::Host));
    assert_eq!(of(Some("n"), Some("m"), None), Err(TargetError::NotOne));
    assert_eq!(of(None, None, None), Err(TargetError::NotOne));
    assert_eq!(
        of(Some("n"), None, None).map(|t| t.to_string()),
        Ok("Node n".into())
    );
}

fn refuse_to_set(f: &mut MaintenanceFacts, mark: Mark, why: &str) {
    f.failed_marks.set.insert(mark, why.into());
}

/// A maintenance that could begin, and whose marks are not set.
fn ready() -> MaintenanceFacts {
    let mut f = facts();
    f.remediation = seen(Stage::Ready, false);
    f
}

#[test]
fn edits_of_a_running_maintenance_take_effect() {
    let mut f = facts();
    f.record.begun = true;
    f.machine = MachineMark::Ours;
    f.lease = LeaseMark::NotUsed;
    f.remediation = seen(Stage::Evicting, false);
    if let RemediationSeen::Present { outdated, .. } = &mut f.remediation {
        *outdated = true;
    }
    assert_eq!(decide(&f, at(0)).actions, [A::UpdateRemediation]);
    let mut w = World::new(f);
    w.f.remediation = seen(Stage::Parked, false);
    assert_eq!(w.turn(1), [A::Set(Mark::LocatorLED)]);
    w.f.wanted.locator_led = false;
    assert_eq!(w.turn(2), [A::TakeBack(Mark::LocatorLED)]);
    assert!(w.turn(3).is_empty() && !w.led_is_lit);
    w.f.wanted.locator_led = true;
    assert_eq!(w.turn(4), [A::Set(Mark::LocatorLED)]);
}
