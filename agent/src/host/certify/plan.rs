//! The order of the steps. Pure.
//!
//! Must never: go on with a host that somebody else holds, or whose BMC does not answer, except to restore it.

use super::record::{Done, Power, Record, Step};

/// The step after those that were carried out; `None`: it is over.
pub(super) fn next(record: &Record) -> Option<Step> {
    let last = record.steps.last();
    let is_over = |done: &Done| done.ended.as_ref().is_some_and(|ended| ended.ends_all());
    if last.is_some_and(is_over) {
        return None;
    }
    let after = last.and_then(|done| Step::ALL.iter().position(|step| *step == done.step));
    let mut rest = Step::ALL.into_iter().skip(after.map_or(0, |at| at + 1));
    rest.find(|step| applies(record, *step))
}

fn applies(record: &Record, step: Step) -> bool {
    let power = record.power();
    let found = record.found();
    match step {
        Step::Found => true,
        // Neither on nor off, or not readable: nothing is tried on such a host.
        _ if !matches!(found, Some(Power::On | Power::Off)) => false,
        Step::FirstOn => found == Some(Power::Off),
        Step::SoftOff | Step::OnWhileOn | Step::Reset => power == Some(Power::On),
        Step::Nmi => power == Some(Power::On) && !record.without_nmi,
        // A BMC that does not answer now is not tried further.
        Step::OnAgain | Step::On => matches!(power, Some(Power::Off | Power::Between)),
        Step::HardOff => power == Some(Power::On),
        Step::StaysOff | Step::ResetWhileOff | Step::OffWhileOff => {
            power == Some(Power::Off) && record.step(Step::HardOff).is_some()
        }
        Step::Restore => power != found,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::record::{Ended, Identity, Part, Reading};
    use super::*;

    pub(in super::super) fn reading(power: Power) -> Reading {
        Reading {
            at: 0,
            power,
            raw: power.word().to_owned(),
            protocol: "redfish",
            identity: Identity {
                uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".to_owned(),
                ..Identity::default()
            },
        }
    }

    /// A step that ended with this result, after which the host is in this state; `None`: it cannot be read.
    pub(in super::super) fn done(step: Step, result: &str, power: Option<Power>) -> Done {
        let read = power.map_or(Part::default(), |power| Part::Read(reading(power)));
        Done {
            ended: (!result.is_empty()).then(|| Ended {
                result: result.to_owned(),
                ..Ended::default()
            }),
            readings: vec![read],
            ..Done::new(step)
        }
    }

    /// Carries out the plan on a host that does what it is told.
    fn carried_out(found: Power, without_nmi: bool) -> Vec<Step> {
        let mut record = Record {
            without_nmi,
            ..Record::default()
        };
        let mut power = found;
        while let Some(step) = next(&record) {
            power = match step {
                Step::SoftOff | Step::HardOff => Power::Off,
                Step::FirstOn | Step::OnAgain | Step::On => Power::On,
                Step::Restore => found,
                _ => power,
            };
            record.steps.push(done(step, "confirmed", Some(power)));
        }
        assert_eq!(record.power(), Some(found), "left as it was found");
        record.steps.iter().map(|done| done.step).collect()
    }

    #[test]
    fn host_is_left_as_it_was_found() {
        let all = carried_out(Power::Off, false);
        assert_eq!(all, Step::ALL);
        let on = carried_out(Power::On, true);
        let skipped = [Step::FirstOn, Step::Nmi, Step::Restore];
        let rest = Step::ALL.iter().filter(|step| !skipped.contains(step));
        assert_eq!(on, rest.copied().collect::<Vec<_>>());
    }

    #[test]
    fn host_that_cannot_be_read_is_not_switched() {
        for found in [None, Some(Power::Between)] {
            let mut record = Record::default();
            record.steps.push(done(Step::Found, "", found));
            assert_eq!(next(&record), None);
        }
    }

    #[test]
    fn host_without_an_answer_is_only_restored() {
        let mut record = Record::default();
        record.steps.push(done(Step::Found, "", Some(Power::On)));
        record.steps.push(done(Step::HardOff, "unreachable", None));
        assert_eq!(next(&record), Some(Step::Restore));
    }

    #[test]
    fn f6_host_that_somebody_else_holds_is_left_to_them() {
        for result in ["refused", "identity-mismatch", "cancelled"] {
            let mut record = Record::default();
            record.steps.push(done(Step::Found, "", Some(Power::On)));
            record
                .steps
                .push(done(Step::HardOff, result, Some(Power::Off)));
            assert_eq!(next(&record), None, "{result}");
        }
    }
}
