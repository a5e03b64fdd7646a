//! Faults of a BMC: an ordered store of rules, each a selector (method and path), an action and a
//! count.
//!
//! Pure: given a method and a path it says what is to go wrong, and counts down. Must never touch
//! the machine: a fault changes what the BMC says or takes, not what is so.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Wait before anything else; the next rules still count.
    Latency {
        /// How long.
        #[serde(with = "super::config::duration")]
        takes: Duration,
    },
    /// Close the connection without an answer.
    Drop,
    /// Keep the connection, never answer.
    Hang,
    /// Report this power state, whatever is so.
    State {
        /// Any text: `Off`, `On`, `PoweringOff`, or one that Redfish does not know.
        state: String,
    },
    /// Report the power state as it was this long ago.
    Stale {
        /// How old.
        #[serde(with = "super::config::duration")]
        age: Duration,
    },
    /// Report another machine's identity.
    Identity {
        /// The system UUID; null leaves it out.
        uuid: Option<String>,
        /// The serial number; null leaves it out.
        serial: Option<String>,
    },
    /// Every credential is wrong.
    RefuseAuth,
    /// Resets are answered as if accepted, and nothing happens.
    IgnoreCommands,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The HTTP method; none means any.
    #[serde(default)]
    pub method: Option<String>,
    /// The path: `*` stands for part of one segment, `**` for anything.
    #[serde(default = "anywhere")]
    pub path: String,
    /// What to do.
    pub action: Action,
    /// How many more requests it applies to; none means for ever.
    #[serde(default)]
    pub remaining: Option<u32>,
    /// For `status`, `html`, `drop` and `hang`: only after the request has been carried out, so
    /// that the effect is there and the answer is lost.
    #[serde(default)]
    pub after: bool,
}

fn anywhere() -> String {
    "**".to_owned()
}

impl Rule {
    /// A rule for every request, for ever.
    pub fn always(action: Action) -> Self {
        Self {
            method: None,
            path: anywhere(),
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

    fn matches(&self, method: &str, path: &str) -> bool {
        self.remaining != Some(0)
            && self
                .method
                .as_deref()
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(method))
            && glob(self.path.as_bytes(), path.as_bytes())
    }
}

/// The name of a rule in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(pub u64);

/// A rule with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedRule {
    /// The name.
    pub id: FaultId,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
}

/// An answer, or the lack of one, that a rule puts in place of the real one.
#[derive(Clone, Debug, PartialEq)]
pub enum Instead {
    /// This answer.
    Answer {
        /// HTTP status.
        status: u16,
        /// Body.
        body: Option<Value>,
        /// Headers.
        headers: BTreeMap<String, String>,
    },
    /// HTML.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// The connection closes.
    Drop,
    /// Nothing, ever.
    Hang,
}

/// What the power state is reported as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// This text.
    Fixed(String),
    /// As it was this long ago.
    Stale(Duration),
}

/// All that is to go wrong with one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Wait first.
    pub delay: Duration,
    /// Answer this instead of looking at the request.
    pub before: Option<Instead>,
    /// Answer this once the request has been carried out.
    pub after: Option<Instead>,
    /// Report the power so.
    pub report: Option<Report>,
    /// Report this UUID and serial.
    pub identity: Option<(Option<String>, Option<String>)>,
    /// Refuse any credential.
    pub refuse_auth: bool,
    /// Take commands and do nothing.
    pub ignore_commands: bool,
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

    /// Removes all.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// The rules, in order, those that have run out included.
    pub fn rules(&self) -> &[NamedRule] {
        &self.rules
    }

    /// What goes wrong with this request. Delays add up; of everything else the first rule counts,
    /// and a rule that came too late keeps its count.
    pub fn decide(&mut self, method: &str, path: &str) -> Effects {
        let mut effects = Effects::default();
        for named in &mut self.rules {
            let rule = &mut named.rule;
            if effects.before.is_some() {
                break;
            }
            if rule.matches(method, path) && effects.add(rule) {
                rule.remaining = rule.remaining.map(|count| count.saturating_sub(1));
            }
        }
        effects
    }
}

impl Effects {
    /// Takes up one rule; false if an earlier one has said it already.
    fn add(&mut self, rule: &Rule) -> bool {
        match &rule.action {
            Action::Latency { takes } => {
                self.delay += *takes;
                true
            }
            Action::State { state } => fill(&mut self.report, Report::Fixed(state.clone())),
            Action::Stale { age } => fill(&mut self.report, Report::Stale(*age)),
            Action::Identity { uuid, serial } => {
                fill(&mut self.identity, (uuid.clone(), serial.clone()))
            }
            Action::RefuseAuth => !std::mem::replace(&mut self.refuse_auth, true),
            Action::IgnoreCommands => !std::mem::replace(&mut self.ignore_commands, true),
            Action::Drop => self.instead(rule, Instead::Drop),
            Action::Hang => self.instead(rule, Instead::Hang),
            Action::Html { status } => self.instead(rule, Instead::Html { status: *status }),
            Action::Status {
                status,
                body,
                headers,
            } => {
                let (status, body, headers) = (*status, body.clone(), headers.clone());
                self.instead(
                    rule,
                    Instead::Answer {
                        status,
                        body,
                        headers,
                    },
                )
            }
        }
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
