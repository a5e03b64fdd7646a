//! Faults of a BMC: an ordered list of rules, each with a selector (method, path, reset type), an
//! action and a count.
//!
//! Pure: decides on the faults of a request, and counts down. Must never: affect the machine: a
//! fault changes what the BMC reports or accepts, not the real state.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::power::ResetType;

/// Action of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this response instead.
    Status {
        /// HTTP status.
        status: u16,
        /// Body; `None`: a Redfish error for error statuses, and an empty body otherwise.
        body: Option<Value>,
        /// Headers to add, `Retry-After` for example.
        headers: BTreeMap<String, String>,
    },
    /// Send an HTML page, as a BMC's web server does when its Redfish service is down.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// Redirect to a path of the same BMC, or to a URL of another host.
    Redirect {
        /// HTTP status: 301, 302, 307 or 308.
        status: u16,
        to: String,
    },
    /// Close the connection without a response.
    Drop,
    /// Reset the connection without a response.
    Reset,
    /// Keep the connection open, but never respond.
    Hang,
    /// Merge this into the body of the response (RFC 7386: null removes a member).
    Merge { body: Value },
    /// Report this power state in any state.
    State {
        /// Any text: `Off`, `On`, `PoweringOff`, or a value outside of Redfish.
        state: String,
    },
    /// Report `Off` until a power-off command was accepted, as a BMC does that has lost the state
    /// of a running host by its own reset.
    OffUntilCommanded,
    /// Report the power state of this long ago.
    Stale { age: Duration },
    /// Report `PoweringOff` for this long after the power is really off.
    PoweringOff { takes: Duration },
    /// Report the identity of another machine.
    Identity {
        /// The system UUID; `None` omits it.
        uuid: Option<String>,
        /// The serial number; `None` omits it.
        serial: Option<String>,
    },
    /// Use a wrong BMC clock.
    Clock {
        /// Offset in seconds; negative: behind.
        ahead: i64,
    },
    /// Reject all credentials.
    RefuseAuth,
    /// Respond to resets as if they were accepted, but do not execute them.
    IgnoreCommands,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The HTTP method; `None`: any.
    pub method: Option<String>,
    /// The path: `*` matches a part of one segment, `**` anything.
    pub path: String,
    /// The `ResetType` of the request body; `None`: any body.
    pub reset: Option<ResetType>,
    pub action: Action,
    /// Number of further requests that it applies to; `None`: no limit.
    pub remaining: Option<u32>,
    /// For actions that replace the response: only after the request was executed, so that its
    /// effect exists and the response is lost.
    pub after: bool,
    /// Only to the second and further requests over one connection.
    pub again: bool,
}

/// Request properties that rules are matched against.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path, without a trailing slash.
    pub path: &'a str,
    /// The body; null if it is not JSON.
    pub body: &'a Value,
    /// Whether its connection has carried another one before.
    pub is_again: bool,
}

impl Rule {
    /// A rule for every request, without a limit.
    pub fn always(action: Action) -> Self {
        Self {
            method: None,
            path: "**".to_owned(),
            reset: None,
            action,
            remaining: None,
            after: false,
            again: false,
        }
    }

    /// Limits the rule to one method and path.
    #[must_use]
    pub fn on(mut self, method: &str, path: &str) -> Self {
        self.method = Some(method.to_owned());
        self.path = path.to_owned();
        self
    }

    /// Limits the rule to system resets of this type.
    #[must_use]
    pub fn on_reset(mut self, reset: ResetType) -> Self {
        self.reset = Some(reset);
        self.on("POST", "**/Actions/ComputerSystem.Reset")
    }

    /// Limits the rule to this many requests.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }

    /// Applies the rule after the request was executed.
    #[must_use]
    pub fn afterwards(mut self) -> Self {
        self.after = true;
        self
    }

    /// Applies the rule to a request over a connection that has carried one before: the BMC does not bear it, or has
    /// restarted meanwhile.
    #[must_use]
    pub fn on_used_connections(mut self) -> Self {
        self.again = true;
        self
    }

    fn matches(&self, asked: &RequestFacts<'_>) -> bool {
        let method = self.method.as_deref();
        self.remaining != Some(0)
            && (asked.is_again || !self.again)
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

/// Id of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// A rule with its id.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRule {
    pub id: FaultId,
    pub rule: Rule,
}

/// The rules, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<NamedRule>,
    last: u64,
}

impl RuleSet {
    /// Appends a rule.
    pub fn add(&mut self, rule: Rule) -> FaultId {
        self.last += 1;
        let id = FaultId(self.last);
        self.rules.push(NamedRule { id, rule });
        id
    }

    /// Removes a rule; `false` if it does not exist.
    pub fn remove(&mut self, id: FaultId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|named| named.id != id);
        self.rules.len() != before
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Ends [`Action::OffUntilCommanded`] after an accepted power-off command.
    pub fn power_off_taken(&mut self) {
        for named in &mut self.rules {
            if named.rule.action == Action::OffUntilCommanded {
                named.rule.remaining = Some(0);
            }
        }
    }

    /// The rules, in order, including exhausted ones.
    pub fn rules(&self) -> &[NamedRule] {
        &self.rules
    }

    /// The faults of this request. Merges add up; of all other actions, the first rule applies, and
    /// a rule that was not applied keeps its count.
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

/// All faults of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Replaces the response; the request is not executed.
    pub before: Option<Action>,
    /// Replaces the response after the request was executed.
    pub after: Option<Action>,
    /// Merged into the body of the response.
    pub merge: Vec<Value>,
    /// Reported power state.
    pub report: Option<Action>,
    /// The reported UUID and serial.
    pub identity: Option<(Option<String>, Option<String>)>,
    /// Offset of the BMC clock in seconds.
    pub clock: Option<i64>,
    /// Whether all credentials are rejected.
    pub refuse_auth: bool,
    /// Whether commands are accepted without effect.
    pub ignore_commands: bool,
}

impl Effects {
    /// Adds one rule; `false` if an earlier one takes precedence.
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

/// Whether `text` matches `pattern`; `*` does not match a slash, `**` does.
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
