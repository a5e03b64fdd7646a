//! Faults of a BMC: an ordered list of rules, each a selector (method, path, reset type), an action
//! and a count.
//!
//! Pure: given a request it decides what goes wrong, and counts down. Must never touch the
//! machine: a fault changes what the BMC reports or accepts, not what is so.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::power::ResetType;

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answer this instead.
    Status {
        /// HTTP status.
        status: u16,
        /// Body; none gives a Redfish error for errors, and an empty body otherwise.
        body: Option<Value>,
        /// Headers to add, `Retry-After` for example.
        headers: BTreeMap<String, String>,
    },
    /// Answer a page of HTML, as a BMC's web server does when its Redfish service is ill.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// Redirect: to a path of the same BMC, or to a URL of any other.
    Redirect {
        /// HTTP status: 301, 302, 307 or 308.
        status: u16,
        to: String,
    },
    /// Close the connection without an answer.
    Drop,
    /// Reset the connection without an answer.
    Reset,
    /// Keep the connection, never answer.
    Hang,
    /// Merge this into the body of the answer (RFC 7386: null takes away).
    Merge { body: Value },
    /// Report this power state, whatever is so.
    State {
        /// Any text: `Off`, `On`, `PoweringOff`, or one that Redfish does not know.
        state: String,
    },
    /// Report `Off` until a power-off command was taken, as a BMC does that has lost the state of
    /// a running host with a reset of its own.
    OffUntilCommanded,
    /// Report the power state as it was this long ago.
    Stale { age: Duration },
    /// Report `PoweringOff` for this long after the power is really off.
    PoweringOff { takes: Duration },
    /// Report another machine's identity.
    Identity {
        /// The system UUID; null leaves it out.
        uuid: Option<String>,
        /// The serial number; null leaves it out.
        serial: Option<String>,
    },
    /// The BMC's clock is wrong.
    Clock {
        /// By so many seconds; negative: behind.
        ahead: i64,
    },
    /// Every credential is wrong.
    RefuseAuth,
    /// Resets are answered as if accepted, and nothing happens.
    IgnoreCommands,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The HTTP method; none means any.
    pub method: Option<String>,
    /// The path: `*` stands for part of one segment, `**` for anything.
    pub path: String,
    /// The `ResetType` of the request's body; none means any body.
    pub reset: Option<ResetType>,
    pub action: Action,
    /// How many more requests it applies to; none means for ever.
    pub remaining: Option<u32>,
    /// For what takes the place of an answer: only after the request has been carried out, so that
    /// the effect is there and the answer is lost.
    pub after: bool,
}

/// What rules are matched against.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path, without a slash at its end.
    pub path: &'a str,
    /// The body; null if it is not JSON.
    pub body: &'a Value,
}

impl Rule {
    /// A rule for every request, for ever.
    pub fn always(action: Action) -> Self {
        Self {
            method: None,
            path: "**".to_owned(),
            reset: None,
            action,
            remaining: None,
            after: false,
        }
    }

    /// The same, for one method and path.
    #[must_use]
    pub fn on(mut self, method: &str, path: &str) -> Self {
        self.method = Some(method.to_owned());
        self.path = path.to_owned();
        self
    }

    /// The same, for resets of the system of this type.
    #[must_use]
    pub fn on_reset(mut self, reset: ResetType) -> Self {
        self.reset = Some(reset);
        self.on("POST", "**/Actions/ComputerSystem.Reset")
    }

    /// The same, for so many requests.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }

    /// The same, once the request has been carried out.
    #[must_use]
    pub fn afterwards(mut self) -> Self {
        self.after = true;
        self
    }

    fn matches(&self, asked: &RequestFacts<'_>) -> bool {
        let method = self.method.as_deref();
        self.remaining != Some(0)
            && method.is_none_or(|wanted| wanted.eq_ignore_ascii_case(asked.method))
            && glob(self.path.as_bytes(), asked.path.as_bytes())
            && self
                .reset
                .is_none_or(|reset| asked.body["ResetType"] == reset.to_string())
    }

    fn used(&mut self) {
        self.remaining = self.remaining.map(|count| count.saturating_sub(1));
    }
}

/// The name of a rule in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// A rule with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRule {
    pub id: FaultId,
    pub rule: Rule,
}

/// The rules, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    rules: Vec<NamedRule>,
    last: u64,
}

impl RuleBook {
    /// Adds a rule behind the others.
    pub fn add(&mut self, rule: Rule) -> FaultId {
        self.last += 1;
        let id = FaultId(self.last);
        self.rules.push(NamedRule { id, rule });
        id
    }

    /// Removes a rule; false if it is not there.
    pub fn remove(&mut self, id: FaultId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|named| named.id != id);
        self.rules.len() != before
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// A power-off command was taken: what was reported until then is over.
    pub fn power_off_taken(&mut self) {
        for named in &mut self.rules {
            if named.rule.action == Action::OffUntilCommanded {
                named.rule.remaining = Some(0);
            }
        }
    }

    /// The rules, in order, those that have run out included.
    pub fn rules(&self) -> &[NamedRule] {
        &self.rules
    }

    /// What goes wrong with this request. Merges add up; of everything else the first rule
    /// counts, and a rule that was not applied keeps its count.
    pub fn decide(&mut self, asked: &RequestFacts<'_>) -> Effects {
        let mut effects = Effects::default();
        for named in &mut self.rules {
            let rule = &mut named.rule;
            if effects.before.is_some() {
                break;
            }
            if rule.matches(asked) && effects.add(rule) {
                rule.used();
            }
        }
        effects
    }
}

/// All that goes wrong with one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Takes the place of an answer: the request is not looked at.
    pub before: Option<Action>,
    /// Takes the place of an answer once the request has been carried out.
    pub after: Option<Action>,
    /// Merged into the answer's body.
    pub merge: Vec<Value>,
    /// How the power is reported.
    pub report: Option<Action>,
    /// The reported UUID and serial.
    pub identity: Option<(Option<String>, Option<String>)>,
    /// How many seconds the BMC's clock is ahead.
    pub clock: Option<i64>,
    /// Every credential is wrong.
    pub refuse_auth: bool,
    /// Commands are accepted and do nothing.
    pub ignore_commands: bool,
}

impl Effects {
    /// Adds one rule; false if an earlier one has precedence.
    fn add(&mut self, rule: &Rule) -> bool {
        match &rule.action {
            Action::Merge { body } => {
                self.merge.push(body.clone());
                true
            }
            Action::State { .. }
            | Action::OffUntilCommanded
            | Action::Stale { .. }
            | Action::PoweringOff { .. } => fill(&mut self.report, rule.action.clone()),
            Action::Identity { uuid, serial } => {
                fill(&mut self.identity, (uuid.clone(), serial.clone()))
            }
            Action::Clock { ahead } => fill(&mut self.clock, *ahead),
            Action::RefuseAuth => !std::mem::replace(&mut self.refuse_auth, true),
            Action::IgnoreCommands => !std::mem::replace(&mut self.ignore_commands, true),
            Action::Status { .. }
            | Action::Html { .. }
            | Action::Redirect { .. }
            | Action::Drop
            | Action::Reset
            | Action::Hang => {
                let place = if rule.after {
                    &mut self.after
                } else {
                    &mut self.before
                };
                fill(place, rule.action.clone())
            }
        }
    }
}

fn fill<T>(place: &mut Option<T>, value: T) -> bool {
    let free = place.is_none();
    if free {
        *place = Some(value);
    }
    free
}

/// Whether `text` matches `pattern`; `*` does not pass a slash, `**` does.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', rest @ ..] => {
            (0..=text.len()).any(|skip| text.get(skip..).is_some_and(|text| glob(rest, text)))
        }
        [b'*', rest @ ..] => {
            let reach = text
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(text.len());
            (0..=reach).any(|skip| text.get(skip..).is_some_and(|text| glob(rest, text)))
        }
        [first, rest @ ..] => text
            .split_first()
            .is_some_and(|(head, text)| head == first && glob(rest, text)),
    }
}
