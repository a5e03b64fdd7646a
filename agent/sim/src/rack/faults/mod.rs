//! Faults of a BMC: an ordered store of rules, each a selector (method, path, body), an action and
//! a count.
//!
//! Pure: given a request it says what is to go wrong, and counts down. Must never touch the
//! machine: a fault changes what the BMC says or takes, not what is so.

mod effects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use effects::{Effects, Instead, Mangle, OnAccept, Report};

use super::power::ResetType;

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Answer this instead.
    Status {
        /// HTTP status.
        status: u16,
        /// Body; none gives a Redfish error for errors, and an empty body otherwise.
        #[serde(default)]
        body: Option<Value>,
        /// Headers to add, `Retry-After` for example.
        #[serde(default)]
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
    /// Wait before anything else; the next rules still count.
    Latency {
        #[serde(with = "super::config::duration")]
        takes: Duration,
    },
    /// Close the connection without an answer.
    Drop,
    /// Reset the connection without an answer.
    Reset,
    /// Reset the connection without an answer if it has carried a request before.
    ResetReused,
    /// Reset the connection before a byte is read. The selector does not count.
    ResetOnAccept,
    /// Wait before the TLS handshake. The selector does not count.
    SlowHandshake {
        #[serde(with = "super::config::duration")]
        takes: Duration,
    },
    /// Keep the connection, never answer.
    Hang,
    /// The answer's head and half of its body, then reset the connection.
    CutBody,
    /// A whole answer with half of its JSON.
    Truncate,
    /// The answer blown up to at least this many bytes, still valid JSON.
    Huge { bytes: usize },
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
    Stale {
        #[serde(with = "super::config::duration")]
        age: Duration,
    },
    /// Report a power state that is read anew only this often.
    Cached {
        #[serde(with = "super::config::duration")]
        refresh: Duration,
    },
    /// Report `PoweringOff` for this long after the power is really off.
    PoweringOff {
        #[serde(with = "super::config::duration")]
        takes: Duration,
    },
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
    /// Resets are answered with 202 and a task monitor.
    AsTask {
        /// How long the task runs at least; it also waits until the power has settled.
        #[serde(with = "super::config::duration")]
        takes: Duration,
    },
    /// ETag headers get this suffix inside their quotes (`-gzip`, as compressing servers do), which
    /// no `If-Match` matches.
    TagSuffix { suffix: String },
    /// A weak ETag in `If-Match` never matches (the strong comparison of RFC 9110, 8.8.3.2).
    StrongMatch,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The HTTP method; none means any.
    #[serde(default)]
    pub method: Option<String>,
    /// The path: `*` stands for part of one segment, `**` for anything.
    #[serde(default = "anywhere")]
    pub path: String,
    /// What the request's body must contain, `{"ResetType": "ForceOff"}` for example; none means
    /// anything.
    #[serde(default)]
    pub body: Option<Value>,
    /// What to do.
    pub action: Action,
    /// How many matching requests it lets pass first.
    #[serde(default)]
    pub skip: u32,
    /// How many more requests it applies to; none means for ever.
    #[serde(default)]
    pub remaining: Option<u32>,
    /// For what takes the place of an answer: only after the request has been carried out, so that
    /// the effect is there and the answer is lost.
    #[serde(default)]
    pub after: bool,
}

fn anywhere() -> String {
    "**".to_owned()
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path, without a slash at its end.
    pub path: &'a str,
    /// The body; null if it is not JSON.
    pub body: &'a Value,
    /// Whether its connection has carried a request before.
    pub reused: bool,
}

impl Rule {
    /// A rule for every request, for ever.
    pub fn always(action: Action) -> Self {
        Self {
            method: None,
            path: anywhere(),
            body: None,
            action,
            skip: 0,
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

    /// The same, for bodies that contain this.
    #[must_use]
    pub fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// The same, for resets of the system of this type.
    #[must_use]
    pub fn on_reset(self, reset: ResetType) -> Self {
        self.on("POST", "**/Actions/ComputerSystem.Reset")
            .with(json!({"ResetType": reset}))
    }

    /// The same, for so many requests.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }

    /// The same, after so many requests that match.
    #[must_use]
    pub fn skip(mut self, count: u32) -> Self {
        self.skip = count;
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
                .body
                .as_ref()
                .is_none_or(|part| contains(asked.body, part))
            && (asked.reused || self.action != Action::ResetReused)
    }

    fn is_on_accept(&self) -> bool {
        matches!(
            self.action,
            Action::ResetOnAccept | Action::SlowHandshake { .. }
        )
    }

    /// Counts a match; false if it is one to let pass.
    fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    fn used(&mut self) {
        self.remaining = self.remaining.map(|count| count.saturating_sub(1));
    }
}

/// The name of a rule in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(pub u64);

/// A rule with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedRule {
    pub id: FaultId,
    #[serde(flatten)]
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

    /// What goes wrong with this request. Delays and merges add up; of everything else the first
    /// rule counts, and a rule that came too late keeps its counts.
    pub fn decide(&mut self, asked: &RequestFacts<'_>) -> Effects {
        let mut effects = Effects::default();
        for named in &mut self.rules {
            let rule = &mut named.rule;
            if effects.before.is_some() {
                break;
            }
            if !rule.is_on_accept() && rule.matches(asked) && rule.is_due() && effects.add(rule) {
                rule.used();
            }
        }
        effects
    }

    /// What goes wrong with a new connection.
    pub fn decide_on_accept(&mut self) -> OnAccept {
        let mut effects = OnAccept::default();
        for named in &mut self.rules {
            let rule = &mut named.rule;
            if effects.reset {
                break;
            }
            if !rule.is_on_accept() || rule.remaining == Some(0) || !rule.is_due() {
                continue;
            }
            match &rule.action {
                Action::SlowHandshake { takes } => effects.delay += *takes,
                _ => effects.reset = true,
            }
            rule.used();
        }
        effects
    }
}

/// Whether all of `part` is in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part))),
        (whole, part) => whole == part,
    }
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
