//! The response of the service to a request.
//!
//! Owns: the order of checks of DSP0266: version, credentials, path, method, query, precondition.
//! Synchronous: all waiting is done before.

use axum::http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};

use super::{
    accounts::auth::{self, User},
    actions, documents, errors,
    http::{
        etag::{self, Unmet},
        query,
        response::{Answer, Content},
    },
    patch,
    path::{self, ResourcePath},
    profile::{Profile, TagKind},
};
use crate::rack::{faults::Effects, host::SimHost};

/// Number of log entries per page.
const LOG_PAGE: usize = 50;

/// A completely received request.
pub(super) struct Call<'a> {
    pub(super) host: &'a SimHost,
    pub(super) effects: &'a Effects,
    pub(super) method: &'a Method,
    /// The path without a trailing slash.
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// The body; null if it is not JSON.
    pub(super) body: &'a Value,
}

impl Call<'_> {
    pub(super) fn profile(&self) -> &Profile {
        &self.host.config().bmc.profile
    }

    pub(super) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A string property of the body.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key).and_then(Value::as_str)
    }
}

pub(super) fn answer(call: &Call<'_>) -> Answer {
    let profile = call.profile();
    if call
        .header("odata-version")
        .is_some_and(|version| version != "4.0")
    {
        return errors::wrong_version(profile);
    }
    let place = match &call.host.config().bmc.recording {
        Some(recording) => path::find_recorded(recording, profile, call.path),
        None => path::find(profile, call.path),
    };
    let open = place.is_some_and(ResourcePath::is_open) && is_read(call.method);
    if !open && !call.host.bmc().is_ready(call.host.now()) {
        return errors::refused(profile, &profile.restart.refusal);
    }
    let login = place.is_some_and(ResourcePath::opens_sessions) && *call.method == Method::POST;
    if open || login {
        return match place {
            Some(place) if login => actions::login(call, place),
            Some(place) => read(call, place),
            None => errors::not_found(profile, call.path),
        };
    }
    let user = auth::user_of(call.host, call.headers).filter(|_| !call.effects.refuse_auth);
    let Some(user) = user else {
        return errors::unauthorized(profile);
    };
    match place {
        Some(place) => by_method(call, place, &user),
        None => errors::not_found(profile, call.path),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn by_method(call: &Call<'_>, place: ResourcePath<'_>, user: &User) -> Answer {
    let profile = call.profile();
    let method = call.method;
    if *method == Method::OPTIONS {
        return Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, place.allow());
    }
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PATCH,
        Method::PUT,
        Method::DELETE,
    ];
    if !known.contains(method) {
        return errors::not_implemented(profile);
    }
    if !place
        .allow()
        .split(", ")
        .any(|allowed| allowed == method.as_str())
    {
        return errors::not_allowed(profile, place.allow());
    }
    if !auth::may(user.role, method, place) {
        return errors::forbidden(profile);
    }
    if is_read(method) {
        return read(call, place);
    }
    // One change at a time, so that nothing happens between a precondition and its change.
    let _changing = call.host.bmc().changing.lock();
    if *method == Method::POST {
        actions::post(call, place, user)
    } else {
        patch::change(call, place, user)
    }
}

fn read(call: &Call<'_>, place: ResourcePath<'_>) -> Answer {
    let profile = call.profile();
    let mut answer = match documents::build(call, place) {
        Ok(answer) => answer,
        Err(refused) => return refused,
    };
    answer
        .headers
        .push((header::ALLOW, place.allow().to_owned()));
    let Content::Json(value) = &mut answer.content else {
        return answer;
    };
    if answer.status != StatusCode::OK {
        return answer;
    }
    let pages = value.get("Members").is_some();
    let log = matches!(place, ResourcePath::Entries);
    let page = match query::read(call.query.unwrap_or_default(), pages) {
        Ok(page) => page,
        Err(bad) => return errors::bad_query(profile, &bad),
    };
    if pages {
        let most = if log { LOG_PAGE } else { usize::MAX };
        query::cut(value, page, most);
    }
    let kind = value.get("@odata.type").and_then(Value::as_str);
    if let Some(schema) = kind.and_then(described_by) {
        answer.headers.push((header::LINK, schema));
    }
    let Some(tag) = tag_of(profile, place, value) else {
        return answer;
    };
    let known = call.header(header::IF_NONE_MATCH);
    if known.is_some_and(|sent| etag::is_known(sent, &tag)) {
        return Answer::empty(StatusCode::NOT_MODIFIED).with(header::ETAG, tag);
    }
    value["@odata.etag"] = json!(tag);
    answer.with(header::ETAG, tag)
}

/// The ETag of a resource. Changing times are excluded.
fn tag_of(profile: &Profile, place: ResourcePath<'_>, value: &Value) -> Option<String> {
    let kind = match (place, profile.tags) {
        (ResourcePath::Versions | ResourcePath::Odata, _) => return None,
        (ResourcePath::Account(_), TagKind::None) => TagKind::Strong,
        (_, kind) => kind,
    };
    let mut content = value.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("DateTime");
    }
    etag::tag(kind, content.to_string().as_bytes())
}

/// The response to a change whose precondition fails; `None` if it holds.
pub(super) fn check_precondition(call: &Call<'_>, place: ResourcePath<'_>) -> Option<Answer> {
    let profile = call.profile();
    let current = match documents::build(call, place) {
        Ok(Answer {
            content: Content::Json(value),
            ..
        }) => tag_of(profile, place, &value),
        Ok(_) => None,
        Err(refused) => return Some(refused),
    };
    let met = etag::may_change(
        profile.if_match,
        call.header(header::IF_MATCH),
        current.as_deref(),
    );
    match met {
        Ok(()) => None,
        Err(Unmet::Missing) => Some(errors::precondition_missing(profile)),
        Err(Unmet::Failed) => Some(errors::precondition_failed(profile)),
    }
}

/// `Link` header to the schema of a type, such as `#Chassis.v1_0_0.Chassis`.
fn described_by(kind: &str) -> Option<String> {
    let name = kind.strip_prefix('#')?.rsplit_once('.')?.0;
    Some(format!(
        "<http://redfish.dmtf.org/schemas/v1/{name}.json>; rel=describedby"
    ))
}
