//! Changes: preconditions of a PATCH, and interpretation of the response.
//!
//! Owns: the order in which preconditions are tried. Must never: send an action twice in one call, or repeat a PATCH for
//! any other reason than a failed precondition, which means that it was not executed.

use reqwest::{StatusCode, header::HeaderValue};
use serde_json::Value;
use tokio::{sync::MutexGuard, time::Instant};
use url::Url;

use super::{
    Reader,
    action_form::{ActionAnswer, NotYet},
};
use crate::{
    BmcError, ErrorKind,
    bmc::in_time,
    redfish::{
        Timeouts,
        protocol::{
            errors,
            http::Change,
            response::{Answer, Body},
            task::{self, TaskOutcome},
        },
        vendor,
    },
};

/// Maximum length of an ETag in characters; BMCs use shorter ones.
const MAX_TAG: usize = 256;

/// The `If-Match` of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Tag(String),
    Any,
    None,
}

impl Condition {
    fn header(&self) -> Option<HeaderValue> {
        match self {
            Self::Tag(tag) => HeaderValue::from_str(tag).ok(),
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::None => None,
        }
    }
}

/// The ETag of a response, unless it is empty.
fn usable(etag: Option<&str>) -> Option<&str> {
    let tag = etag?.trim();
    let inner = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    let is_good = !inner.is_empty() && tag.len() <= MAX_TAG && HeaderValue::from_str(tag).is_ok();
    is_good.then_some(tag)
}

/// The next precondition: the ETag, the strong form of a weak one, `*` if the firmware requires it,
/// none; and `*` if the BMC requires a precondition (428).
fn next(
    etag: Option<&str>,
    wants_any: bool,
    tried: &[Condition],
    refusal: Option<StatusCode>,
) -> Option<Condition> {
    let must_have_one = match refusal {
        None | Some(StatusCode::PRECONDITION_FAILED) => false,
        Some(StatusCode::PRECONDITION_REQUIRED) => true,
        Some(_) => return None,
    };
    let tag = usable(etag);
    let strong = tag.and_then(|tag| tag.strip_prefix("W/"));
    let tags = [tag, strong].into_iter().flatten();
    tags.map(|tag| Condition::Tag(tag.to_owned()))
        .chain((wants_any || must_have_one).then_some(Condition::Any))
        .chain((!must_have_one).then_some(Condition::None))
        .find(|condition| !tried.contains(condition))
}

/// Result of a change.
pub(in crate::redfish::host) enum ChangeOutcome {
    /// Success, with a summary of the response.
    Yes(String),
    /// Accepted, but failed later, with the text of the BMC.
    No(String),
    /// The BMC rejected the change, or it is not known whether the change was made.
    Failed(BmcError),
}

/// Changes the resources of one BMC, in one call.
#[derive(Clone, Copy)]
pub(in crate::redfish::host) struct Writer<'a> {
    reader: Reader<'a>,
    timeouts: Timeouts,
}

/// The turn of one call to change the BMC; no other change is in flight meanwhile.
pub(in crate::redfish::host) struct Turn<'a> {
    writer: Writer<'a>,
    _changing: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Sends an action once, in the form that the BMC has shown to need. `Precondition` and `Busy`: it was not taken in this
    /// form, and may be in the next call; what may have changed meanwhile is for the caller to look at.
    /// Nothing is sent after `until`.
    pub(in crate::redfish::host) async fn act(
        &self,
        target: &Url,
        body: &Value,
        etag: Option<&str>,
        until: Option<Instant>,
    ) -> Result<Answer, BmcError> {
        let Reader { resources, call } = self.writer.reader;
        // A login that fails is none of the command.
        resources.access.ready().await?;
        let needs_condition = resources.action_form().needs_condition();
        let condition = match needs_condition {
            false => Condition::None,
            true => match usable(etag) {
                Some(tag) if !self.writer.wants_any().await => Condition::Tag(tag.to_owned()),
                _ => Condition::Any,
            },
        };
        let change = Change::action(target, body).on_condition(condition.header());
        let may_repeat = change.may_repeat();
        // A login and the service root may have taken long.
        in_time(resources.reporter().bmc(), until)?;
        call.command_is_sent();
        let answer = resources.access.change(change).await?;
        if !answer.status.is_success() {
            call.command_is_refused();
        }
        let seen = ActionAnswer {
            status: answer.status,
            is_denial: may_repeat && errors::is_denial(&answer),
            had_condition: condition != Condition::None,
        };
        let not_yet = resources.action_form().answered(resources.clock(), seen);
        let says = || resources.reporter().says(&answer.messages());
        let code = answer.status.as_u16();
        let error = |kind, retry_after, why: &str| {
            Err(BmcError {
                retry_after,
                ..resources
                    .reporter()
                    .error(kind, format!("{why} ({code}){}", says()))
            })
        };
        match not_yet {
            None => Ok(answer),
            Some(NotYet::NeedsCondition) => {
                let why =
                    "the BMC takes commands with a precondition only; not taken yet, ask again";
                error(ErrorKind::Precondition, None, why)
            }
            Some(NotYet::RefusesCondition) => {
                let why = "the BMC refuses the precondition of this command; not taken, ask again";
                error(ErrorKind::Precondition, None, why)
            }
            Some(NotYet::Denied) => {
                let wait = Some(self.writer.timeouts.denied);
                let why =
                    "the BMC denies this command, perhaps for a moment; not taken yet, ask again";
                error(ErrorKind::Busy, wait, why)
            }
        }
    }
}

impl<'a> Writer<'a> {
    pub(in crate::redfish::host) fn new(reader: Reader<'a>, timeouts: Timeouts) -> Self {
        Self { reader, timeouts }
    }

    pub(in crate::redfish::host) fn reader(self) -> Reader<'a> {
        self.reader
    }

    /// Waits until no other change is in flight.
    pub(in crate::redfish::host) async fn turn(self) -> Turn<'a> {
        Turn {
            writer: self,
            _changing: self.reader.resources.changing.lock().await,
        }
    }

    /// Sends a PATCH to a resource with this ETag. It has the turn for the request only: a hard off does not wait
    /// for a task or a read-back.
    pub(in crate::redfish::host) async fn patch(
        self,
        url: &Url,
        etag: Option<&str>,
        body: &Value,
    ) -> Result<Answer, BmcError> {
        let Reader { resources, call } = self.reader;
        let _turn = self.turn().await;
        let mut tried = Vec::new();
        let mut last: Option<Answer> = None;
        let mut wants_any = usable(etag).is_none() && self.wants_any().await;
        loop {
            let refusal = last.as_ref().map(|answer| answer.status);
            let condition = match (next(etag, wants_any, &tried, refusal), last.take()) {
                (Some(condition), _) => condition,
                (None, Some(answer)) => return Ok(answer),
                (None, None) => Condition::None,
            };
            let change = Change::patch(url, body, condition.header());
            call.command_is_sent();
            let answer = resources.access.change(change).await?;
            if !answer.status.is_success() {
                call.command_is_refused();
            }
            if answer.status == StatusCode::PRECONDITION_FAILED {
                wants_any = self.wants_any().await;
            }
            tried.push(condition);
            last = Some(answer);
        }
    }

    /// Whether this firmware requires `If-Match: *`; `false` if the service root is unreadable.
    async fn wants_any(self) -> bool {
        let root = self.reader.root().await;
        root.is_ok_and(|root| vendor::wants_any_etag(&root))
    }

    /// Interprets the response to a change, and polls its task.
    pub(in crate::redfish::host) async fn outcome(
        self,
        doing: &str,
        answer: &Answer,
    ) -> ChangeOutcome {
        let Reader { resources, call } = self.reader;
        let reporter = resources.reporter();
        let status = answer.status;
        let code = status.as_u16();
        if status == StatusCode::ACCEPTED {
            return match task::follow(&resources.access, call, answer, self.timeouts.task).await {
                TaskOutcome::Done => ChangeOutcome::Yes(format!("{code}: task completed")),
                TaskOutcome::Unknown(why) => ChangeOutcome::Yes(format!("{code}: {why}")),
                TaskOutcome::Failed(why) => ChangeOutcome::No(format!(": {why}")),
            };
        }
        if !status.is_success() {
            let error = errors::of_status(reporter, doing, answer);
            return ChangeOutcome::Failed(BmcError {
                maybe_sent: errors::is_lost(status),
                ..error
            });
        }
        if answer.body == Body::Html {
            // Not from the Redfish service, but the request has arrived.
            let message = format!("{doing}: HTTP {code} with an HTML page");
            let error = reporter.error(ErrorKind::Protocol, message);
            return ChangeOutcome::Failed(BmcError {
                maybe_sent: true,
                ..error
            });
        }
        let messages = answer.messages();
        if messages.contradict_success() {
            return ChangeOutcome::No(reporter.says(&messages));
        }
        ChangeOutcome::Yes(code.to_string())
    }

    /// The summary of a successful response to a change.
    pub(in crate::redfish::host) async fn changed(
        self,
        doing: &str,
        answer: &Answer,
    ) -> Result<String, BmcError> {
        match self.outcome(doing, answer).await {
            ChangeOutcome::Yes(short) => Ok(short),
            ChangeOutcome::No(says) => {
                let message = format!("{doing}: refused ({}){says}", answer.status.as_u16());
                Err(self.reader.error(ErrorKind::Refused, message))
            }
            ChangeOutcome::Failed(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: StatusCode = StatusCode::PRECONDITION_FAILED;
    const REQUIRED: StatusCode = StatusCode::PRECONDITION_REQUIRED;

    /// The preconditions of all attempts if the BMC sends these statuses; the last one repeats.
    fn attempts(etag: Option<&str>, wants_any: bool, answers: &[StatusCode]) -> Vec<String> {
        let mut tried = Vec::new();
        let mut refusal = None;
        while let Some(condition) = next(etag, wants_any, &tried, refusal) {
            refusal = answers.get(tried.len()).or(answers.last()).copied();
            tried.push(condition);
            assert!(tried.len() < 6);
        }
        tried
            .iter()
            .map(|condition| match condition {
                Condition::Tag(tag) => tag.clone(),
                Condition::Any => "*".to_owned(),
                Condition::None => "none".to_owned(),
            })
            .collect()
    }

    #[test]
    fn precondition_order_is_etag_then_strong_etag_then_none() {
        assert_eq!(
            attempts(Some("W/\"1\""), false, &[FAILED]),
            ["W/\"1\"", "\"1\"", "none"]
        );
        assert_eq!(attempts(Some("\"1\""), false, &[FAILED]), ["\"1\"", "none"]);
        assert_eq!(attempts(None, false, &[FAILED]), ["none"]);
    }

    #[test]
    fn any_etag_comes_before_none_for_ami() {
        assert_eq!(
            attempts(Some("\"1\""), true, &[FAILED]),
            ["\"1\"", "*", "none"]
        );
        assert_eq!(attempts(None, true, &[FAILED]), ["*", "none"]);
    }

    #[test]
    fn precondition_required_is_answered_with_any_etag() {
        assert_eq!(attempts(None, false, &[REQUIRED]), ["none", "*"]);
        assert_eq!(
            attempts(Some("W/\"1\""), false, &[FAILED, FAILED, REQUIRED]),
            ["W/\"1\"", "\"1\"", "none", "*"]
        );
    }

    #[test]
    fn other_response_ends_the_attempts() {
        for status in [
            StatusCode::OK,
            StatusCode::BAD_REQUEST,
            StatusCode::CONFLICT,
        ] {
            assert_eq!(attempts(Some("\"1\""), true, &[status]), ["\"1\""]);
        }
    }

    #[test]
    fn empty_or_invalid_etag_is_ignored() {
        let long = "x".repeat(MAX_TAG + 1);
        for tag in ["", " ", "\"\"", "W/\"\"", "W/", "a\nb", &long] {
            assert_eq!(attempts(Some(tag), false, &[FAILED]), ["none"], "{tag:?}");
        }
        assert_eq!(attempts(Some("1234"), false, &[FAILED]), ["1234", "none"]);
    }
}
