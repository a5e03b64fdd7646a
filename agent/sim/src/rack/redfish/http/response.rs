//! A response as data, and its conversion to bytes.
//!
//! Owns: the headers of every response. Must never: decide on the content.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// Body of a response.
#[derive(Clone, Debug, Default)]
pub(in crate::rack::redfish) enum Content {
    #[default]
    Nothing,
    Json(Value),
    Text(&'static str, &'static str),
}

#[derive(Clone, Debug)]
pub(in crate::rack::redfish) struct Answer {
    pub(in crate::rack::redfish) status: StatusCode,
    pub(in crate::rack::redfish) headers: Vec<(HeaderName, String)>,
    pub(in crate::rack::redfish) content: Content,
}

impl Answer {
    pub(in crate::rack::redfish) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content: Content::Nothing,
        }
    }

    pub(in crate::rack::redfish) fn json(status: StatusCode, value: Value) -> Self {
        Self {
            content: Content::Json(value),
            ..Self::empty(status)
        }
    }

    pub(in crate::rack::redfish) fn text(kind: &'static str, text: &'static str) -> Self {
        Self {
            content: Content::Text(kind, text),
            ..Self::empty(StatusCode::OK)
        }
    }

    pub(in crate::rack::redfish) fn with(
        mut self,
        name: HeaderName,
        value: impl Into<String>,
    ) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The HTTP response, with these merges of faults; without a body for `HEAD`.
    pub(super) fn into_response(self, head: bool, merges: &[Value]) -> Response<Body> {
        let (kind, bytes) = match self.content {
            Content::Nothing => (None, Vec::new()),
            Content::Text(kind, text) => (Some(kind), text.as_bytes().to_vec()),
            Content::Json(mut value) => {
                merges.iter().for_each(|patch| merge(&mut value, patch));
                (Some("application/json"), value.to_string().into_bytes())
            }
        };
        let length = bytes.len();
        let body = if head {
            Body::empty()
        } else {
            Body::from(bytes)
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let mut put = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        };
        put(HeaderName::from_static("odata-version"), "4.0");
        put(header::CACHE_CONTROL, "no-cache");
        if let Some(kind) = kind {
            put(header::CONTENT_TYPE, kind);
        }
        if self.status != StatusCode::NO_CONTENT && self.status != StatusCode::NOT_MODIFIED {
            put(header::CONTENT_LENGTH, &length.to_string());
        }
        for (name, value) in self.headers {
            put(name, &value);
        }
        response
    }
}

/// JSON merge patch (RFC 7386).
pub(in crate::rack::redfish) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(key);
            }
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_adds_replaces_and_removes_members() {
        let mut target = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [4]});
        merge(
            &mut target,
            &json!({"a": null, "b": {"c": {"f": 5}}, "e": [6]}),
        );
        assert_eq!(target, json!({"b": {"c": {"f": 5}, "d": 3}, "e": [6]}));
    }
}
