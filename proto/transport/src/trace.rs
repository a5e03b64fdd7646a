//! The W3C trace context of a call: it joins the log lines of controller and agent about one
//! remediation.
//!
//! Must never: decide anything. A call without a trace, or with one that cannot be parsed, is served
//! like any other.

use std::{fmt, str::FromStr};

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tonic::metadata::{MetadataMap, MetadataValue};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The metadata key, as W3C Trace Context names it.
const TRACEPARENT: &str = "traceparent";

/// A `traceparent`: the trace, and the part of it that the call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    parent: u64,
}

/// The text is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of W3C Trace Context")]
pub struct TraceError;

impl TraceContext {
    /// The trace of a remediation: its UID is the trace id, so every leader and every attempt
    /// continues the same trace. `part` names what the call belongs to, such as an operation.
    /// `None` for a UID that is not a UUID.
    pub fn of_remediation(uid: &str, part: &str) -> Option<Self> {
        let digits: String = uid.chars().filter(|c| *c != '-').collect();
        Some(Self {
            trace: hex(&digits, 32)?,
            parent: fnv(part).max(1),
        })
    }

    /// The trace that a request carries.
    pub fn of(metadata: &MetadataMap) -> Option<Self> {
        metadata.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
    }

    /// The trace that HTTP headers carry.
    pub fn of_headers(headers: &http::HeaderMap) -> Option<Self> {
        headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
    }

    /// Adds the trace to a request.
    pub fn inject(&self, metadata: &mut MetadataMap) {
        if let Ok(value) = MetadataValue::try_from(self.to_string()) {
            metadata.insert(TRACEPARENT, value);
        }
    }

    /// Makes a new span a part of this trace, with attributes, where spans are exported ([`crate::otlp`]).
    pub fn adopt(&self, span: &Span, attributes: impl IntoIterator<Item = (&'static str, String)>) {
        let parent = SpanContext::new(
            TraceId::from_bytes(self.trace.to_be_bytes()),
            SpanId::from_bytes(self.parent.to_be_bytes()),
            TraceFlags::SAMPLED,
            true,
            TraceState::default(),
        );
        // Fails where spans are not exported.
        let parent = Context::new().with_remote_span_context(parent);
        if span.set_parent(parent).is_ok() {
            for (key, value) in attributes {
                span.set_attribute(key, value);
            }
        }
    }

    /// The same trace, for a call from the current span if that is exported as a part of it: the spans of the call
    /// are then shown below that span.
    #[must_use]
    pub fn below_current_span(self) -> Self {
        let context = Span::current().context();
        let current = context.span().span_context().clone();
        let trace = u128::from_be_bytes(current.trace_id().to_bytes());
        if !current.is_valid() || trace != self.trace {
            return self;
        }
        Self {
            parent: u64::from_be_bytes(current.span_id().to_bytes()),
            ..self
        }
    }

    /// The trace id, as log lines show it: 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Flag 01: the caller records the trace, in its log.
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.parent)
    }
}

impl FromStr for TraceContext {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut fields = text.splitn(5, '-');
        let mut next = || fields.next().ok_or(TraceError);
        let (version, trace, parent, flags) = (next()?, next()?, next()?, next()?);
        let known = version == "00";
        // A later version may have more fields.
        if !is_hex(version, 2) || version == "ff" || !is_hex(flags, 2) {
            return Err(TraceError);
        }
        if known && fields.next().is_some() {
            return Err(TraceError);
        }
        Ok(Self {
            trace: hex(trace, 32).ok_or(TraceError)?,
            parent: hex(parent, 16)
                .and_then(|parent| u64::try_from(parent).ok())
                .ok_or(TraceError)?,
        })
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == digits && text.bytes().all(lower)
}

/// A non-zero hexadecimal number with this many digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let number = is_hex(text, digits).then(|| u128::from_str_radix(text, 16).ok())??;
    (number != 0).then_some(number)
}

/// FNV-1a.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0af76519-16cd-43dd-8448-eb211c80319c";
    /// The example of the specification.
    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn remediation_has_one_trace_with_a_span_per_call() {
        let off = TraceContext::of_remediation(UID, "off").unwrap();
        let on = TraceContext::of_remediation(UID, "on").unwrap();
        assert_eq!(off.trace_id(), UID.replace('-', ""));
        assert_eq!(off.trace_id(), on.trace_id());
        assert_ne!(off, on);
        assert_eq!(TraceContext::of_remediation("not-a-uuid", "off"), None);
    }

    #[test]
    fn trace_context_round_trips() {
        let sent = TraceContext::of_remediation(UID, "off").unwrap();
        let mut metadata = MetadataMap::new();
        assert_eq!(TraceContext::of(&metadata), None);
        sent.inject(&mut metadata);
        assert_eq!(TraceContext::of(&metadata), Some(sent));
        let headers = metadata.into_headers();
        assert_eq!(TraceContext::of_headers(&headers), Some(sent));
    }

    #[test]
    fn malformed_traceparent_is_rejected() {
        let parsed: TraceContext = EXAMPLE.parse().unwrap();
        assert_eq!(parsed.to_string(), EXAMPLE);
        // A later version with one more field.
        let later = format!("01{}-more", EXAMPLE.strip_prefix("00").unwrap());
        assert_eq!(later.parse(), Ok(parsed));
        for wrong in [
            "",
            "00",
            &format!("{EXAMPLE}-more"),
            &EXAMPLE.to_uppercase(),
            &EXAMPLE.replacen("00-", "ff-", 1),
            &EXAMPLE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &EXAMPLE.replace("b7ad6b7169203331", &"0".repeat(16)),
            &EXAMPLE.replace("b7ad6b7169203331", "b7ad6b716920333"),
            &EXAMPLE.replace("-01", "-1"),
            &EXAMPLE.replace("0af7", "+af7"),
        ] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(TraceError), "{wrong}");
        }
    }
}
