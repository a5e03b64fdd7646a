//! In what state a certification leaves the host, and what a person does about it. Pure.

use super::record::{Done, Power, Reading, Record};
use crate::output::{brief, exit_code::Fault};

/// A sentence on the state of the host; `now` is a reading after the end.
pub(super) fn leftover(host: &str, record: &Record, now: &Result<Reading, Fault>) -> String {
    let Some(found @ (Power::On | Power::Off)) = record.found() else {
        return match now {
            Err(fault) => format!(
                "host {host}: nothing was switched, because its BMC cannot be read: {}; `host check {host}` tells \
                 what to do",
                brief(host, &fault.message)
            ),
            Ok(_) => format!(
                "host {host}: nothing was switched, because it was neither on nor off; run it again once `power \
                 status {host}` reports on or off"
            ),
        };
    };
    let to = match found {
        Power::Off => format!("`power off {host}` switches it off"),
        _ => format!("`power on {host}` switches it on"),
    };
    let is_refused = |done: &Done| {
        let ended = done.ended.as_ref();
        ended.filter(|ended| ended.ends_all()).cloned()
    };
    if let Some(ended) = record.steps.last().and_then(is_refused) {
        return format!(
            "host {host}: stopped, because somebody else uses the host, or it is another one ({}: {}); it was found \
             {} and is left as it is: `power status {host}` and `host list {host}` show its state and its holder",
            ended.result,
            ended.message,
            found.word()
        );
    }
    match now {
        Ok(now) if now.power == found => {
            format!("host {host}: {}, as it was found", found.word())
        }
        Ok(now) => format!(
            "host {host}: it was found {}, and is {} now; {to}",
            found.word(),
            now.power.word()
        ),
        Err(fault) => {
            let why = brief(host, &fault.message);
            let last = record.readings().next_back();
            let last = last.map_or("not known", |reading| reading.power.word());
            format!(
                "host {host}: its state is not known, because its BMC cannot be read ({why}); it was found {} and was \
                 last read {last}; `host check {host}` tells why, and once the BMC answers {to}",
                found.word()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::{done, reading};
    use super::super::record::Step;
    use super::*;
    use crate::output::exit_code::ExitStatus;

    fn record(last: Step, result: &str, power: Option<Power>) -> Record {
        Record {
            steps: vec![
                done(Step::Found, "", Some(Power::On)),
                done(last, result, power),
            ],
            ..Record::default()
        }
    }

    #[test]
    fn state_and_next_step_are_named() {
        let off = Some(Power::Off);
        let now = Ok(reading(Power::Off));
        let said = leftover("n1", &record(Step::HardOff, "confirmed", off), &now);
        assert_eq!(
            said,
            "host n1: it was found on, and is off now; `power on n1` switches it on"
        );
        let on = Ok(reading(Power::On));
        let said = leftover("n1", &record(Step::On, "confirmed", off), &on);
        assert_eq!(said, "host n1: on, as it was found");
        let gone = Err(Fault {
            end: ExitStatus::Unreachable,
            message: "host n1: no route".to_owned(),
        });
        let said = leftover("n1", &record(Step::HardOff, "unreachable", None), &gone);
        for expected in [
            "no route",
            "last read on",
            "`host check n1`",
            "`power on n1`",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let said = leftover("n1", &record(Step::HardOff, "refused", off), &now);
        assert!(said.contains("left as it is"), "{said}");
        let mut dead = Record::default();
        dead.steps.push(done(Step::Found, "", None));
        let said = leftover("n1", &dead, &gone);
        assert!(said.contains("nothing was switched"), "{said}");
    }
}
