//! What a certification shows about the rules of fencing. Pure.

use serde::Serialize;

use super::record::{Ended, Identity, Part, Power, Proof, Record, Sensor, Step};

/// The default time of a remediation for one try to switch off, or on.
const SWITCH_LIMIT: f64 = 180.0;

/// How far a rule holds on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Grade {
    Passed,
    /// It was not tried, because the host does not offer it or an earlier step failed.
    NotTried,
    /// Fencing works, with a limit.
    Warning,
    Failed,
}

impl Grade {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NotTried => "not tried",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The verdict on one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) rule: &'static str,
    /// The fencing rule that needs it.
    pub(super) needed_by: &'static str,
    pub(super) grade: Grade,
    pub(super) found: String,
}

type Finding = (Grade, String);

/// A rule, the fencing rules that need it, and how it is judged.
type Rule = (&'static str, &'static str, fn(&Record) -> Finding);

/// One verdict per rule, in the order of the report.
pub(super) fn verdicts(record: &Record) -> Vec<Verdict> {
    let rules: [Rule; 15] = [
        ("off is confirmed", "F1", off_is_confirmed),
        ("off is stable", "F1, F3", off_is_stable),
        ("off while off is harmless", "F1", off_while_off),
        ("a host found off can be confirmed off", "F1", found_off),
        ("a second source agrees", "F1", second_source),
        ("identity is reported", "F5", identity),
        ("identity is readable while off", "F5", identity_while_off),
        ("on works", "F4", on_works),
        ("on while on is harmless", "F4", on_while_on),
        ("reset works", "", reset_works),
        ("reset while off is harmless", "F3", reset_while_off),
        ("soft off works", "", soft_off),
        ("diagnostic interrupt works", "", nmi),
        ("times are within the defaults", "L1", times),
        ("the host was left as it was found", "F9", restored),
    ];
    let judge = |(rule, needed_by, judge): &Rule| {
        let (grade, found) = judge(record);
        Verdict {
            rule,
            needed_by,
            grade,
            found,
        }
    };
    rules.iter().map(judge).collect()
}

/// The verdict on the whole: that of the worst rule.
pub(super) fn overall(record: &Record, verdicts: &[Verdict]) -> Grade {
    let needed = verdicts
        .iter()
        .filter(|verdict| !verdict.needed_by.is_empty());
    if record.is_interrupted
        || needed
            .clone()
            .any(|verdict| verdict.grade == Grade::NotTried)
    {
        return Grade::Failed;
    }
    let grades = verdicts.iter().map(|verdict| match verdict.grade {
        Grade::NotTried => Grade::Passed,
        grade => grade,
    });
    grades.max().unwrap_or(Grade::Failed)
}

fn not_tried() -> Finding {
    (Grade::NotTried, "an earlier step failed".to_owned())
}

fn told(ended: &Ended) -> String {
    match ended.message.as_str() {
        "" => ended.result.clone(),
        message => format!("{}: {message}", ended.result),
    }
}

fn off_is_confirmed(record: &Record) -> Finding {
    let Some(ended) = record.ended(Step::HardOff) else {
        return not_tried();
    };
    match (ended.is_confirmed(), &ended.taken, ended.proof) {
        (true, Some(taken), Some(Proof::Taken)) => {
            (Grade::Passed, format!("{taken}; {}", Proof::Taken.words()))
        }
        (true, Some(taken), Some(proof)) => (
            Grade::Warning,
            format!(
                "{taken}; not proven by the command itself, although the host was on: {}",
                proof.words()
            ),
        ),
        _ => (Grade::Failed, told(ended)),
    }
}

fn off_is_stable(record: &Record) -> Finding {
    let Some(done) = record.step(Step::StaysOff) else {
        return not_tried();
    };
    let all = done.readings.len();
    let off = done
        .read()
        .filter(|reading| reading.power == Power::Off)
        .count();
    let read = done.read().count();
    match (off, read) {
        (0, _) => (Grade::Failed, "no reading of off".to_owned()),
        _ if off == all => (Grade::Passed, format!("{all} readings, all exactly off")),
        _ if off == read => (
            Grade::Warning,
            format!("{} of {all} readings failed while it was off", all - read),
        ),
        _ => (
            Grade::Failed,
            format!("{} of {all} readings were not off", read - off),
        ),
    }
}

fn off_while_off(record: &Record) -> Finding {
    let Some(done) = record.step(Step::OffWhileOff) else {
        return not_tried();
    };
    let ended = done.ended.clone().unwrap_or_default();
    let answer = ended.taken.clone().unwrap_or_else(|| told(&ended));
    match done.power() {
        Some(Power::Off) => (Grade::Passed, format!("it stays off; {answer}")),
        Some(power) => (
            Grade::Failed,
            format!(
                "after a power-off while it was off it is {}; {answer}",
                power.word()
            ),
        ),
        None => (
            Grade::Warning,
            format!("it could not be read after it; {answer}"),
        ),
    }
}

fn found_off(record: &Record) -> Finding {
    let Some(ended) = record.ended(Step::OffWhileOff) else {
        return not_tried();
    };
    match (ended.is_confirmed(), ended.proof) {
        (true, Some(proof)) => (Grade::Passed, proof.words().to_owned()),
        _ => (
            Grade::Warning,
            format!(
                "a remediation of a host that is found off waits for a person, unless its outlets are in the \
                 inventory; {}",
                told(ended)
            ),
        ),
    }
}

/// What the sensors report must fit the power. They share the BMC with it, so they may contradict and prove nothing.
fn second_source(record: &Record) -> Finding {
    let words = |power| {
        let mut readings = record.readings();
        readings
            .find(|reading| reading.power == power)
            .map(|reading| reading.raw.clone())
    };
    let between = record
        .readings()
        .find(|reading| reading.raw.contains("but chassis"));
    if let Some(reading) = between {
        return (
            Grade::Warning,
            format!("the chassis differs: {}", reading.raw),
        );
    }
    let sensors = |power| record.snapshot(power)?.sensors.read();
    let (Some(on), Some(off)) = (sensors(Power::On), sensors(Power::Off)) else {
        return (
            Grade::Warning,
            "no sensors were read in both states".to_owned(),
        );
    };
    let draw = |of: &[Sensor]| of.iter().find(|sensor| sensor.is_draw)?.value;
    let spins = |of: &[Sensor]| {
        let mut fans = of.iter().filter(|sensor| sensor.kind == "fan");
        fans.any(|fan| fan.value.is_some_and(|value| value > 0.0))
    };
    match (draw(on), draw(off)) {
        (Some(on), Some(off)) if off >= 0.9 * on => (
            Grade::Warning,
            format!("the power draw is {on} W on and {off} W off: it does not follow the power"),
        ),
        (Some(on), Some(off)) => (Grade::Passed, format!("{on} W on, {off} W off")),
        (Some(on), None) => (Grade::Passed, format!("{on} W on, none measured while off")),
        (None, _) if spins(on) && !spins(off) => (
            Grade::Passed,
            "the fans stand still while it is off".to_owned(),
        ),
        (None, _) => {
            let raw = words(Power::Off).unwrap_or_default();
            let found =
                format!("the BMC has no power draw, and no fans that stop; it reports {raw}");
            (Grade::Warning, found)
        }
    }
}

fn identity(record: &Record) -> Finding {
    let mut readings = record.readings();
    let Some(first) = readings.find(|reading| reading.power == Power::On) else {
        return not_tried();
    };
    let reported = (
        !first.identity.uuid.is_empty(),
        !first.identity.serial.is_empty(),
    );
    match reported {
        (true, true) => (Grade::Passed, "UUID and serial number".to_owned()),
        (true, false) => (Grade::Passed, "UUID".to_owned()),
        (false, true) => (Grade::Passed, "serial number".to_owned()),
        (false, false) => (
            Grade::Warning,
            "neither a UUID nor a serial number that identifies it: a wrong address of its BMC is noticed late"
                .to_owned(),
        ),
    }
}

fn identity_while_off(record: &Record) -> Finding {
    let of = |power| {
        let readings = record.readings();
        readings.filter(move |reading| reading.power == power)
    };
    let Some(on) = of(Power::On).next() else {
        return not_tried();
    };
    if of(Power::Off).next().is_none() {
        return not_tried();
    }
    let key = |identity: &Identity| (identity.uuid.clone(), identity.serial.clone());
    let known = key(&on.identity);
    let other = |found: &str, known: &str| !found.is_empty() && !known.is_empty() && found != known;
    let is_other =
        |(uuid, serial): (String, String)| other(&uuid, &known.0) || other(&serial, &known.1);
    if of(Power::Off).any(|reading| is_other(key(&reading.identity))) {
        return (
            Grade::Failed,
            "while it is off it reports another UUID or serial number".to_owned(),
        );
    }
    if of(Power::Off).all(|reading| key(&reading.identity) == known) {
        return (Grade::Passed, "the same as while on".to_owned());
    }
    (
        Grade::Warning,
        "while it is off it reports less than while on".to_owned(),
    )
}

/// The power-ons from off.
fn ons(record: &Record) -> impl Iterator<Item = &Ended> {
    let steps = [Step::FirstOn, Step::OnAgain, Step::On];
    steps.into_iter().filter_map(|step| record.ended(step))
}

fn on_works(record: &Record) -> Finding {
    if record.ended(Step::On).is_none() {
        return not_tried();
    }
    match ons(record).find(|ended| !ended.is_confirmed()) {
        Some(ended) => (Grade::Failed, told(ended)),
        None => (
            Grade::Passed,
            format!("{} power-ons, all confirmed", ons(record).count()),
        ),
    }
}

fn on_while_on(record: &Record) -> Finding {
    let Some(done) = record.step(Step::OnWhileOn) else {
        return not_tried();
    };
    let ended = done.ended.clone().unwrap_or_default();
    match (ended.is_confirmed(), done.power(), ended.commands_sent) {
        (true, Some(Power::On), 0) => (
            Grade::Passed,
            "nothing is sent to a host that reads on".to_owned(),
        ),
        (true, Some(Power::On), sent) => (
            Grade::Passed,
            format!("it stays on; {sent} commands were sent"),
        ),
        (_, power, _) => {
            let power = power.map_or("not readable", Power::word);
            (Grade::Failed, format!("it is {power}; {}", told(&ended)))
        }
    }
}

/// A command that may be missing.
fn optional(record: &Record, step: Step) -> Finding {
    match record.ended(step) {
        None => not_tried(),
        Some(ended) if ended.is_confirmed() => (
            Grade::Passed,
            format!("confirmed after {:.0} s", ended.seconds),
        ),
        Some(ended) => (Grade::Warning, told(ended)),
    }
}

fn reset_works(record: &Record) -> Finding {
    optional(record, Step::Reset)
}

fn nmi(record: &Record) -> Finding {
    if record.without_nmi {
        return (Grade::NotTried, "left out by --without-nmi".to_owned());
    }
    optional(record, Step::Nmi)
}

fn soft_off(record: &Record) -> Finding {
    match record.ended(Step::SoftOff) {
        Some(ended) if ended.result == "not-shut-down" => (
            Grade::Warning,
            format!(
                "{}; whether an operating system ran is not known",
                told(ended)
            ),
        ),
        _ => optional(record, Step::SoftOff),
    }
}

fn reset_while_off(record: &Record) -> Finding {
    let Some(done) = record.step(Step::ResetWhileOff) else {
        return not_tried();
    };
    let ended = done.ended.clone().unwrap_or_default();
    match (done.power(), ended.commands_sent) {
        (Some(Power::Off), 0) => (
            Grade::Passed,
            "nothing is sent to a host that reads off".to_owned(),
        ),
        (Some(Power::Off), _) => (Grade::Passed, format!("it stays off; {}", told(&ended))),
        (Some(power), _) => (
            Grade::Failed,
            format!("it is {}; {}", power.word(), told(&ended)),
        ),
        (None, _) => (
            Grade::Warning,
            format!("it could not be read after it; {}", told(&ended)),
        ),
    }
}

fn times(record: &Record) -> Finding {
    let off = record
        .ended(Step::HardOff)
        .filter(|ended| ended.is_confirmed());
    let on = ons(record).filter(|ended| ended.is_confirmed());
    let on = on
        .map(|ended| ended.seconds)
        .fold(None, |worst: Option<f64>, seconds| {
            Some(worst.map_or(seconds, |worst| worst.max(seconds)))
        });
    let (Some(off), Some(on)) = (off.map(|ended| ended.seconds), on) else {
        return not_tried();
    };
    let found = format!("off confirmed after {off:.0} s, on after {on:.0} s");
    match off.max(on) > SWITCH_LIMIT {
        true => (
            Grade::Warning,
            format!(
                "{found}: raise powerOffSeconds or powerOnSeconds, which are {SWITCH_LIMIT:.0} s by default"
            ),
        ),
        false => (Grade::Passed, found),
    }
}

fn restored(record: &Record) -> Finding {
    let Some(found) = record.found() else {
        return not_tried();
    };
    match record.power() {
        Some(power) if power == found => (Grade::Passed, found.word().to_owned()),
        Some(power) => (
            Grade::Failed,
            format!("it was found {}, and is {}", found.word(), power.word()),
        ),
        None => {
            let last = record.steps.last().and_then(|done| done.readings.last());
            let why = match last {
                Some(Part::Error(why)) => why.as_str(),
                _ => "not read",
            };
            (
                Grade::Failed,
                format!("it was found {}; now: {why}", found.word()),
            )
        }
    }
}

#[cfg(test)]
mod tests;
