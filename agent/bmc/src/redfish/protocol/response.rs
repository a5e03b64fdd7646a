//! HTTP response of a BMC: status, headers and an arbitrary body.
//!
//! Owns: parsing them. Must never: fail; a malformed body is represented as such.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{
    StatusCode,
    header::{CONNECTION, ETAG, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER},
};
use serde_json::Value;

use super::extended_info::Messages;

/// Maximum wait that is accepted from a BMC.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The body of a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Empty,
    Json(Value),
    /// An HTML page, which is not from the Redfish service.
    Html,
    /// Not JSON; the text describes it.
    Other(&'static str),
}

/// One response of the BMC.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(crate) body: Body,
    /// Whether the connection ended before the body did, as far as the response says how long it is.
    pub(super) is_cut: bool,
}

impl Answer {
    pub(crate) fn messages(&self) -> Messages {
        match &self.body {
            Body::Json(body) => Messages::of(body),
            _ => Messages::default(),
        }
    }

    /// Whether a read that was answered like this has failed: it got no document, or not the whole of it. An answer without
    /// one may be that of a task monitor, unless it is a 200.
    pub(super) fn fails_a_read(&self) -> bool {
        let is_missing = self.status == StatusCode::OK && !matches!(self.body, Body::Json(_));
        let is_failure = !self.status.is_success() && self.status != StatusCode::NOT_MODIFIED;
        is_failure || is_missing || self.is_cut
    }

    /// Whether the BMC closes the connection after it.
    pub(super) fn closes(&self) -> bool {
        let of = |value: &HeaderValue| value.to_str().map(str::to_ascii_lowercase);
        let mut values = self.headers.get_all(CONNECTION).iter().map(of);
        values.any(|value| value.is_ok_and(|value| value.contains("close")))
    }

    /// The `Location` header, if it is text.
    pub(super) fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }

    /// The `ETag` header, if it is text.
    pub(in crate::redfish) fn etag(&self) -> Option<String> {
        let tag = self.headers.get(ETAG)?.to_str().ok()?.trim();
        (!tag.is_empty()).then(|| tag.to_owned())
    }

    /// `Retry-After` in seconds or as a date (RFC 9110, 10.2.3), at most an hour.
    pub(in crate::redfish) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
                Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
            }
        };
        Some(wait.min(MAX_RETRY_AFTER))
    }
}
