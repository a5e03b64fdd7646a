//! What rules together make of one request or one connection.
//!
//! Pure. Owns which effects add up and which exclude each other.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Action, Rule};

/// An answer, or the lack of one, that a rule puts in place of the real one.
#[derive(Clone, Debug, PartialEq)]
pub enum Instead {
    Answer {
        /// HTTP status.
        status: u16,
        body: Option<Value>,
        headers: BTreeMap<String, String>,
    },
    /// HTML.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// The connection closes.
    Drop,
    /// The connection is reset.
    Reset,
    Hang,
}

/// What the power state is reported as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Fixed(String),
    /// As it was this long ago.
    Stale(Duration),
    /// As it was when it was last read, which is done this often.
    Cached(Duration),
    /// As `PoweringOff` for this long after it is off.
    Lingering(Duration),
}

/// What is done to the bytes of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mangle {
    /// Half the body, then the connection is reset.
    Cut,
    /// Half the body, and no sign that more should come.
    Truncate,
    /// At least so many bytes.
    Huge(usize),
}

/// All that is to go wrong with one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    pub delay: Duration,
    /// Answer this instead of looking at the request.
    pub before: Option<Instead>,
    /// Answer this once the request has been carried out.
    pub after: Option<Instead>,
    /// Merge these into the answer's body.
    pub merge: Vec<Value>,
    /// Do this to the answer's bytes.
    pub mangle: Option<Mangle>,
    /// Report the power so.
    pub report: Option<Report>,
    /// Report this UUID and serial.
    pub identity: Option<(Option<String>, Option<String>)>,
    /// The BMC's clock is ahead by so many seconds.
    pub clock: Option<i64>,
    /// Refuse any credential.
    pub refuse_auth: bool,
    /// Take commands and do nothing.
    pub ignore_commands: bool,
    /// Make a task of a reset, which runs at least this long.
    pub as_task: Option<Duration>,
    /// Put this into every ETag header.
    pub tag_suffix: Option<String>,
    /// Weak ETags match nothing.
    pub strong_match: bool,
}

/// All that is to go wrong with one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnAccept {
    pub delay: Duration,
    /// Then reset it.
    pub reset: bool,
}

impl Effects {
    /// Takes up one rule; false if an earlier one has said it already.
    pub(super) fn add(&mut self, rule: &Rule) -> bool {
        match &rule.action {
            Action::Latency { takes } => {
                self.delay += *takes;
                true
            }
            Action::Merge { body } => {
                self.merge.push(body.clone());
                true
            }
            Action::State { state } => fill(&mut self.report, Report::Fixed(state.clone())),
            Action::OffUntilCommanded => fill(&mut self.report, Report::Fixed("Off".to_owned())),
            Action::Stale { age } => fill(&mut self.report, Report::Stale(*age)),
            Action::Cached { refresh } => fill(&mut self.report, Report::Cached(*refresh)),
            Action::PoweringOff { takes } => fill(&mut self.report, Report::Lingering(*takes)),
            Action::Identity { uuid, serial } => {
                fill(&mut self.identity, (uuid.clone(), serial.clone()))
            }
            Action::Clock { ahead } => fill(&mut self.clock, *ahead),
            Action::RefuseAuth => !std::mem::replace(&mut self.refuse_auth, true),
            Action::IgnoreCommands => !std::mem::replace(&mut self.ignore_commands, true),
            Action::StrongMatch => !std::mem::replace(&mut self.strong_match, true),
            Action::AsTask { takes } => fill(&mut self.as_task, *takes),
            Action::TagSuffix { suffix } => fill(&mut self.tag_suffix, suffix.clone()),
            Action::CutBody => fill(&mut self.mangle, Mangle::Cut),
            Action::Truncate => fill(&mut self.mangle, Mangle::Truncate),
            Action::Huge { bytes } => fill(&mut self.mangle, Mangle::Huge(*bytes)),
            Action::Drop => self.instead(rule, Instead::Drop),
            Action::Reset | Action::ResetReused => self.instead(rule, Instead::Reset),
            Action::Hang => self.instead(rule, Instead::Hang),
            Action::Html { status } => self.instead(rule, Instead::Html { status: *status }),
            Action::Redirect { status, to } => self.answer(
                rule,
                *status,
                None,
                [("Location".to_owned(), to.clone())].into(),
            ),
            Action::Status {
                status,
                body,
                headers,
            } => self.answer(rule, *status, body.clone(), headers.clone()),
            Action::ResetOnAccept | Action::SlowHandshake { .. } => false,
        }
    }

    fn answer(
        &mut self,
        rule: &Rule,
        status: u16,
        body: Option<Value>,
        headers: BTreeMap<String, String>,
    ) -> bool {
        self.instead(
            rule,
            Instead::Answer {
                status,
                body,
                headers,
            },
        )
    }

    fn instead(&mut self, rule: &Rule, instead: Instead) -> bool {
        fill(
            if rule.after {
                &mut self.after
            } else {
                &mut self.before
            },
            instead,
        )
    }
}

fn fill<T>(place: &mut Option<T>, value: T) -> bool {
    let free = place.is_none();
    if free {
        *place = Some(value);
    }
    free
}
