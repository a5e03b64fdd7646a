//! Faults of an IPMI BMC: an ordered store of rules, each a target, an action and counts.
//!
//! Pure: given what arrived, it says what is to go wrong, and counts down. Must never touch the
//! machine: a fault changes what the BMC says or takes, not what is so.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::Command;
use crate::rack::FaultId;
use crate::rack::config::duration;

/// What a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Anything that arrives and can be read.
    Any,
    /// RMCP presence pings.
    Ping,
    /// RMCP+ Open Session Requests.
    OpenSession,
    /// RAKP message 1.
    Rakp1,
    /// RAKP message 3.
    Rakp3,
    /// Any command, in a session or outside of one.
    AnyCommand,
    Command(Command),
}

impl Target {
    fn covers(self, arrived: Self) -> bool {
        match self {
            Self::Any => true,
            Self::AnyCommand => matches!(arrived, Self::Command(_)),
            _ => self == arrived,
        }
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Carries it out this much later, and then answers.
    Delay {
        #[serde(with = "duration")]
        by: Duration,
    },
    /// Carries it out at once, and answers this much later.
    AnswerLate {
        #[serde(with = "duration")]
        by: Duration,
    },
    /// As if it had never arrived.
    Ignore,
    /// Carries it out, and gives no answer.
    LoseAnswer,
    /// Carries it out, and answers in two datagrams.
    AnswerTwice,
    /// Answers this completion code.
    Complete {
        code: u8,
        /// Whether the command is carried out all the same.
        #[serde(default)]
        acts: bool,
    },
    /// Answers this RMCP+ or RAKP status.
    Status { status: u8 },
    /// Answers RAKP message 1 or 3 with a code that fits no password.
    WrongCode,
    /// Says this of the power, whatever is so.
    ReportPower {
        /// Whether it is on.
        on: bool,
    },
    /// Says that the power is off until a power-down was taken, as a BMC does that has lost the
    /// state of a running host with a reset of its own.
    OffUntilCommanded,
    /// Says of the power what was so this long ago.
    StalePower {
        #[serde(with = "duration")]
        age: Duration,
    },
    /// Takes Chassis Control as usual, and does nothing.
    Swallow,
    /// Says that it is another system.
    Guid {
        /// As it stands on the wire.
        guid: [u8; 16],
    },
    /// The answer has another rqSeq.
    WrongSequence,
    /// The answer is for another session.
    WrongSession,
    /// The answer is neither encrypted nor signed.
    Unencrypted,
    /// The answer's integrity code is wrong.
    WrongIntegrity,
    /// The answer ends here.
    Truncate {
        /// How many bytes of the datagram are left.
        length: usize,
    },
    /// The BMC restarts instead of an answer, and forgets its sessions.
    Restart {
        /// How long it is gone.
        #[serde(with = "duration")]
        takes: Duration,
        /// Whether it is carried out before.
        #[serde(default)]
        acts: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it applies to.
    pub on: Target,
    /// What to do.
    pub action: Action,
    /// How many to let pass first.
    #[serde(default)]
    pub skip: u32,
    /// How many more it applies to; none means for ever.
    #[serde(default)]
    pub remaining: Option<u32>,
}

impl Rule {
    /// A rule for all of these, for ever.
    pub fn on(on: Target, action: Action) -> Self {
        Self {
            on,
            action,
            skip: 0,
            remaining: None,
        }
    }

    /// A rule for this command, for ever.
    pub fn command(command: Command, action: Action) -> Self {
        Self::on(Target::Command(command), action)
    }

    /// The same, for so many.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }

    /// The same, once so many have passed.
    #[must_use]
    pub fn after(mut self, count: u32) -> Self {
        self.skip = count;
        self
    }

    /// Whether it applies now; counts.
    fn applies(&mut self, arrived: Target) -> bool {
        if !self.on.covers(arrived) || self.remaining == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.remaining = self.remaining.map(|count| count.saturating_sub(1));
        true
    }
}

/// What the power is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Fixed(bool),
    Stale(Duration),
}

/// All that is to go wrong with one packet. Delays add up; of everything else the first rule
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) delay: Duration,
    pub(super) late: Duration,
    pub(super) ignore: bool,
    pub(super) lose: bool,
    pub(super) twice: bool,
    pub(super) complete: Option<(u8, bool)>,
    pub(super) status: Option<u8>,
    pub(super) wrong_code: bool,
    pub(super) report: Option<Report>,
    pub(super) swallow: bool,
    pub(super) guid: Option<[u8; 16]>,
    pub(super) wrong_sequence: bool,
    pub(super) wrong_session: bool,
    pub(super) unencrypted: bool,
    pub(super) wrong_integrity: bool,
    pub(super) truncate: Option<usize>,
    pub(super) restart: Option<(Duration, bool)>,
}

impl Effects {
    fn add(&mut self, action: &Action) {
        match *action {
            Action::Delay { by } => self.delay += by,
            Action::AnswerLate { by } => self.late += by,
            Action::Ignore => self.ignore = true,
            Action::LoseAnswer => self.lose = true,
            Action::AnswerTwice => self.twice = true,
            Action::Complete { code, acts } => {
                self.complete.get_or_insert((code, acts));
            }
            Action::Status { status } => {
                self.status.get_or_insert(status);
            }
            Action::WrongCode => self.wrong_code = true,
            Action::ReportPower { on } => {
                self.report.get_or_insert(Report::Fixed(on));
            }
            Action::OffUntilCommanded => {
                self.report.get_or_insert(Report::Fixed(false));
            }
            Action::StalePower { age } => {
                self.report.get_or_insert(Report::Stale(age));
            }
            Action::Swallow => self.swallow = true,
            Action::Guid { guid } => {
                self.guid.get_or_insert(guid);
            }
            Action::WrongSequence => self.wrong_sequence = true,
            Action::WrongSession => self.wrong_session = true,
            Action::Unencrypted => self.unencrypted = true,
            Action::WrongIntegrity => self.wrong_integrity = true,
            Action::Truncate { length } => {
                self.truncate.get_or_insert(length);
            }
            Action::Restart { takes, acts } => {
                self.restart.get_or_insert((takes, acts));
            }
        }
    }
}

/// The rules, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleBook {
    rules: Vec<(FaultId, Rule)>,
    last: u64,
}

impl RuleBook {
    pub(super) fn add(&mut self, rule: Rule) -> FaultId {
        self.last += 1;
        let id = FaultId(self.last);
        self.rules.push((id, rule));
        id
    }

    pub(super) fn remove(&mut self, id: FaultId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(known, _)| *known != id);
        self.rules.len() != before
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// A power-down was taken: what was reported until then is over.
    pub(super) fn power_off_taken(&mut self) {
        for (_, rule) in &mut self.rules {
            if rule.action == Action::OffUntilCommanded {
                rule.remaining = Some(0);
            }
        }
    }

    pub(super) fn decide(&mut self, arrived: Target) -> Effects {
        let mut effects = Effects::default();
        for (_, rule) in &mut self.rules {
            if rule.applies(arrived) {
                effects.add(&rule.action);
            }
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_lets_pass_then_applies_then_is_over() {
        let mut book = RuleBook::default();
        let action = Action::Complete {
            code: 0xc0,
            acts: false,
        };
        book.add(
            Rule::command(Command::CHASSIS_STATUS, action)
                .after(1)
                .times(2),
        );
        let arrived = Target::Command(Command::CHASSIS_STATUS);
        let other = Target::Command(Command::DEVICE_ID);
        let codes: Vec<_> = [other, arrived, arrived, other, arrived, arrived]
            .into_iter()
            .map(|target| book.decide(target).complete.is_some())
            .collect();
        assert_eq!(codes, [false, false, true, false, true, false]);
    }

    #[test]
    fn delays_add_up_and_the_first_code_counts() {
        let mut book = RuleBook::default();
        let second = Duration::from_secs(1);
        let (busy, ready) = (
            Action::Complete {
                code: 0xc0,
                acts: false,
            },
            Action::Complete {
                code: 0xd2,
                acts: true,
            },
        );
        for action in [
            Action::Delay { by: second },
            busy,
            ready,
            Action::Delay { by: second },
        ] {
            book.add(Rule::on(Target::AnyCommand, action));
        }
        let effects = book.decide(Target::Command(Command::DEVICE_ID));
        assert_eq!(
            (effects.delay, effects.complete),
            (2 * second, Some((0xc0, false)))
        );
        assert_eq!(book.decide(Target::Rakp1), Effects::default());
    }

    #[test]
    fn rules_are_written_as_json() {
        let rule = Rule::command(Command::CHASSIS_CONTROL, Action::LoseAnswer).times(1);
        let text = serde_json::to_string(&rule).expect("JSON");
        assert!(text.contains(r#""command":"00/02""#), "{text}");
        assert_eq!(serde_json::from_str::<Rule>(&text).expect("a rule"), rule);
        let short = r#"{"on":"open_session","action":{"status":{"status":1}},"remaining":2}"#;
        let expected = Rule::on(Target::OpenSession, Action::Status { status: 1 }).times(2);
        assert_eq!(
            serde_json::from_str::<Rule>(short).expect("a rule"),
            expected
        );
    }
}
