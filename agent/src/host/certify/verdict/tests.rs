use super::super::plan::tests::done;
use super::super::record::{Done, Reading, Snapshot};
use super::*;

/// The record of a host that passes everything.
fn good() -> Record {
    let snapshot = |watts| {
        Some(Snapshot {
            sensors: Part::Read(vec![Sensor {
                name: "Total".to_owned(),
                kind: "power",
                value: Some(watts),
                unit: "W".to_owned(),
                is_draw: true,
            }]),
            ..Snapshot::default()
        })
    };
    let (on, off) = (Some(Power::On), Some(Power::Off));
    let steps = vec![
        done(Step::Found, "", on),
        done(Step::SoftOff, "confirmed", off),
        done(Step::OnAgain, "confirmed", on),
        done(Step::OnWhileOn, "confirmed", on),
        done(Step::Reset, "confirmed", on),
        done(Step::Nmi, "confirmed", on),
        done(Step::HardOff, "confirmed", off),
        done(Step::StaysOff, "", off),
        done(Step::ResetWhileOff, "needs-power", off),
        done(Step::OffWhileOff, "confirmed", off),
        done(Step::On, "confirmed", on),
    ];
    let mut record = Record {
        steps,
        ..Record::default()
    };
    at(&mut record, Step::Found).snapshot = snapshot(300.0);
    at(&mut record, Step::StaysOff).snapshot = snapshot(12.0);
    for (step, proof) in [
        (Step::HardOff, Proof::Taken),
        (Step::OffWhileOff, Proof::ManagerUptime),
    ] {
        let ended = ended(&mut record, step);
        ended.taken = Some("ForceOff answered with 204".to_owned());
        ended.proof = Some(proof);
    }
    record
}

fn at(record: &mut Record, step: Step) -> &mut Done {
    let mut steps = record.steps.iter_mut();
    steps.find(|done| done.step == step).unwrap()
}

fn ended(record: &mut Record, step: Step) -> &mut Ended {
    at(record, step).ended.as_mut().unwrap()
}

fn reading(record: &mut Record, step: Step) -> &mut Reading {
    match at(record, step).readings.last_mut() {
        Some(Part::Read(reading)) => reading,
        other => panic!("{other:?}"),
    }
}

/// The grade of a rule after a change of the good record.
#[track_caller]
fn graded(rule: &str, change: impl Fn(&mut Record)) -> (Grade, Grade) {
    let mut record = good();
    change(&mut record);
    let all = verdicts(&record);
    let verdict = all.iter().find(|verdict| verdict.rule == rule).unwrap();
    (verdict.grade, overall(&record, &all))
}

#[test]
fn good_host_passes() {
    let record = good();
    let all = verdicts(&record);
    let rest = all.iter().filter(|verdict| verdict.grade != Grade::Passed);
    assert_eq!(rest.collect::<Vec<_>>(), Vec::<&Verdict>::new());
    assert_eq!(overall(&record, &all), Grade::Passed);
}

#[test]
fn f1_off_without_command_or_proof_is_not_confirmed() {
    let rule = "off is confirmed";
    let failed = (Grade::Failed, Grade::Failed);
    let step = Step::HardOff;
    assert_eq!(
        graded(rule, |record| ended(record, step).taken = None),
        failed
    );
    assert_eq!(
        graded(rule, |record| ended(record, step).proof = None),
        failed
    );
    let unproven = |record: &mut Record| ended(record, step).result = "unproven".to_owned();
    assert_eq!(graded(rule, unproven), failed);
    let watched = |record: &mut Record| ended(record, step).proof = Some(Proof::Watched);
    assert_eq!(graded(rule, watched), (Grade::Warning, Grade::Warning));
}

#[test]
fn f1_off_that_does_not_last_fails() {
    let rule = "off is stable";
    for power in [Power::On, Power::Between] {
        let flaps = |record: &mut Record| {
            let mut other = reading(record, Step::StaysOff).clone();
            other.power = power;
            at(record, Step::StaysOff)
                .readings
                .insert(0, Part::Read(other));
        };
        assert_eq!(graded(rule, flaps).0, Grade::Failed);
    }
    let silent = |record: &mut Record| {
        let silent = Part::Error("no answer".to_owned());
        at(record, Step::StaysOff).readings.insert(0, silent);
    };
    assert_eq!(graded(rule, silent).0, Grade::Warning);
    let dead = |record: &mut Record| at(record, Step::StaysOff).readings.clear();
    assert_eq!(graded(rule, dead).0, Grade::Failed);
}

#[test]
fn f1_power_off_that_switches_an_off_host_on_fails() {
    let rule = "off while off is harmless";
    let toggles = |record: &mut Record| reading(record, Step::OffWhileOff).power = Power::On;
    assert_eq!(graded(rule, toggles).0, Grade::Failed);
    let rule = "a host found off can be confirmed off";
    let unproven = |record: &mut Record| {
        let ended = ended(record, Step::OffWhileOff);
        ended.result = "unproven".to_owned();
        ended.proof = None;
    };
    assert_eq!(graded(rule, unproven), (Grade::Warning, Grade::Warning));
}

#[test]
fn f1_sensors_may_contradict_and_need_not_exist() {
    let rule = "a second source agrees";
    let constant = |record: &mut Record| {
        let on = at(record, Step::Found).snapshot.clone();
        at(record, Step::StaysOff).snapshot = on;
    };
    assert_eq!(graded(rule, constant).0, Grade::Warning);
    let none = |record: &mut Record| {
        at(record, Step::Found).snapshot = Some(Snapshot::default());
    };
    assert_eq!(graded(rule, none).0, Grade::Warning);
    let chassis = |record: &mut Record| {
        reading(record, Step::StaysOff).raw = "Off, but chassis 1 On".to_owned();
    };
    assert_eq!(graded(rule, chassis).0, Grade::Warning);
}

#[test]
fn f5_identity_that_changes_with_the_power_fails() {
    let rule = "identity is readable while off";
    let other = |record: &mut Record| {
        reading(record, Step::StaysOff).identity.uuid = "another".to_owned();
    };
    assert_eq!(graded(rule, other), (Grade::Failed, Grade::Failed));
    let less = |record: &mut Record| reading(record, Step::StaysOff).identity.uuid.clear();
    assert_eq!(graded(rule, less).0, Grade::Warning);
    let none = |record: &mut Record| reading(record, Step::Found).identity.uuid.clear();
    assert_eq!(graded("identity is reported", none).0, Grade::Warning);
}

#[test]
fn optional_commands_only_warn() {
    for (rule, step) in [
        ("soft off works", Step::SoftOff),
        ("reset works", Step::Reset),
        ("diagnostic interrupt works", Step::Nmi),
    ] {
        let fails = |record: &mut Record| ended(record, step).result = "failed".to_owned();
        assert_eq!(graded(rule, fails), (Grade::Warning, Grade::Warning));
    }
    let without = |record: &mut Record| {
        record.without_nmi = true;
        record.steps.retain(|done| done.step != Step::Nmi);
    };
    let graded = graded("diagnostic interrupt works", without);
    assert_eq!(graded, (Grade::NotTried, Grade::Passed));
}

#[test]
fn on_and_times_are_judged() {
    let fails = |record: &mut Record| ended(record, Step::OnAgain).result = "failed".to_owned();
    assert_eq!(graded("on works", fails).0, Grade::Failed);
    let off = |record: &mut Record| reading(record, Step::OnWhileOn).power = Power::Off;
    assert_eq!(graded("on while on is harmless", off).0, Grade::Failed);
    let on = |record: &mut Record| reading(record, Step::ResetWhileOff).power = Power::On;
    assert_eq!(graded("reset while off is harmless", on).0, Grade::Failed);
    let slow = |record: &mut Record| ended(record, Step::HardOff).seconds = 181.0;
    let rule = "times are within the defaults";
    assert_eq!(graded(rule, slow).0, Grade::Warning);
}

#[test]
fn run_that_did_not_end_fails() {
    let rule = "the host was left as it was found";
    let off = |record: &mut Record| reading(record, Step::On).power = Power::Off;
    assert_eq!(graded(rule, off), (Grade::Failed, Grade::Failed));
    let cut = |record: &mut Record| record.is_interrupted = true;
    assert_eq!(graded(rule, cut), (Grade::Passed, Grade::Failed));
    let short = |record: &mut Record| record.steps.truncate(6);
    assert_eq!(graded(rule, short), (Grade::Passed, Grade::Failed));
    assert_eq!(graded("off is confirmed", short).0, Grade::NotTried);
}
